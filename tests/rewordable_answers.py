"""Answers and acceptable rewordings of them, made from a few slots, for tests of `rephrase`."""

from __future__ import annotations

import re

SLOTS = (
    ("The patient", "This patient", "The person", "The woman"),
    ("should", "ought to", "is advised to", "is encouraged to", "had better"),
    ("rest at home", "stay in bed at home", "relax at home", "take it easy at home"),
    ("and drink plenty of water", "and take in lots of fluids", "and keep drinking water", "and have much to drink"),
)
_TAG = re.compile(r"called ((?:[a-z]+ ?)+)\.")
_NAMES = ("amber", "birch", "cedar", "daisy", "elder", "fern", "grass", "hazel", "iris", "jade")


def tag(number: int) -> str:
    """A name for a number, in words, so that no digit has to be kept."""
    return " ".join(_NAMES[int(digit)] for digit in str(number))


def answer(number: int) -> str:
    """The answer of a number, which no rewording of `reworded` equals."""
    return f"She needs to be at rest for some days and to have enough fluids, in the ward called {tag(number)}."


def reworded(prompt: str, seed: int) -> str:
    """One of 320 rewordings of the answer that a prompt holds, by a seed."""
    found = _TAG.search(prompt)
    assert found, prompt
    words = []
    for slot in SLOTS:
        seed, place = divmod(seed, len(slot))
        words.append(slot[place])
    return f"{' '.join(words)}, for some days in the ward called {found[1]}."
