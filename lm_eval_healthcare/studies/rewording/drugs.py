"""The medicines that a text names, and whether another text names the same ones.

Known are some hundred common generic names with their brands, British, American and Spanish forms, and any name that
ends as generic names of a class do ("-pril", "-mab"). A rare brand name is not known as one.
"""

from __future__ import annotations

import functools
import re

from lm_eval_healthcare.studies.rewording.drug_names import NOT_DRUGS, STEMS, canonical, groups
from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.number_words import plain

_SHORTEST = 7
_WORD = re.compile(r"[^\W\d_]{3,40}")
_PREFIXES = re.compile(r"(?:cef|sulf)[a-z]{4,}(?:in|im|on|ol|or|id|en|azid|oxazol|in[ae]|im[ae]|on[ae])\Z")


def drug_findings(original: str, rewording: str, question: str = "") -> list[Finding]:
    """Return which medicines were lost or added.

    Args:
        original: The text that was reworded.
        rewording: What it became.
        question: What both answer; a medicine that it names is not added.

    Returns:
        At most one finding a medicine.
    """
    before, after, asked = drugs(original), drugs(rewording), drugs(question)
    lost = [Finding(Fault.DRUG_LOST, f"'{before[one]}' is not in the rewording") for one in before if one not in after]
    added = [
        Finding(Fault.DRUG_ADDED, f"'{after[one]}' is not in the original")
        for one in after
        if one not in before and one not in asked
    ]
    return lost + added


def drugs(text: str) -> dict[str, str]:
    """Return the medicines of a text in their order.

    Args:
        text: Any text.

    Returns:
        For each, in the spelling of `canonical`, how the text writes it first.
    """
    _, phrases, pattern = _tables()
    found: dict[str, str] = {}
    simple = plain(text)
    for match in pattern.finditer(simple):
        for one in phrases[re.sub(r"\s+", " ", match[0])]:
            found.setdefault(one, match[0])
    for match in _WORD.finditer(text):
        for one in _named(match[0]):
            found.setdefault(one, match[0])
    return found


def drugs_with_places(text: str) -> list[tuple[str, int, int]]:
    """Return the medicines of a text, each as often as it is named, with where its name begins and ends.

    Names of several words are left out.

    Args:
        text: Any text.
    """
    return [(one, m.start(), m.end()) for m in _WORD.finditer(text) for one in sorted(_named(m[0]))[:1]]


@functools.lru_cache(maxsize=20_000)
def _named(word: str) -> frozenset[str]:
    """The medicines that a word stands for."""
    words, _, _ = _tables()
    small = plain(word)
    if small == "asa" and word != "ASA":
        return frozenset()
    name = canonical(small)
    for form in (name, canonical(small.removesuffix("s")), canonical(small.removesuffix("es"))):
        if form in words:
            return words[form]
    if len(small) < _SHORTEST or name in _not_drugs() or not small.isascii():
        return frozenset()
    singular = canonical(small.removesuffix("s"))
    if singular.endswith(_stems()) or _PREFIXES.match(singular):
        return frozenset({singular})
    return frozenset()


@functools.lru_cache(maxsize=1)
def _not_drugs() -> frozenset[str]:
    return frozenset(canonical(name) for name in NOT_DRUGS)


@functools.lru_cache(maxsize=1)
def _stems() -> tuple[str, ...]:
    return tuple(sorted({canonical(f"xxxxxx{stem}").removeprefix("xxxxxx") for stem in STEMS}))


@functools.lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]], re.Pattern[str]]:
    words, phrases = groups()
    alternatives = "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(phrases, key=len, reverse=True))
    return words, phrases, re.compile(rf"\b(?:{alternatives})\b")
