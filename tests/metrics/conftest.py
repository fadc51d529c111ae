"""Generated strings for the comparisons with reference implementations."""

from __future__ import annotations

import random
import unicodedata

import pytest

# Blocks of code points; printable ASCII twice, so that its rules meet often enough.
BLOCKS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x30, 0x39), (0x61, 0x7A), (0x00, 0x1F), (0x80, 0xFF), (0x100, 0x24F),
    (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x2000, 0x206F),
    (0x2190, 0x22FF), (0x3000, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xFF00, 0xFFEF), (0x1F300, 0x1F64F),
]  # fmt: skip
SENTENCE = "The patient has mild fever of 38.5 °C , take 1,000 mg ( 50 µg ) daily ; INR < 2 ; anti-inflammatory ."
WORDS = SENTENCE.split()
PIECES = [
    "-\n", "\n", "\r\n", "\t", "\f", "\v", "\x00", "\x1c", "\x1f", "\x85", "\xa0", "\u2028", "\u200b", "\ufeff",
    "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "<skipped>", "1.5", "3,4", "5-6", "a-b", "...", "..5", "1..5", ",,7",
    "1,", "-", ".", "e.g.", "x.,y", "²", "½", "٣", "'", '"', "[", "]", "\\", "^", "_", "`", "|", "~", "{}", "/", "@",
]  # fmt: skip


def random_text(rng: random.Random) -> str:
    """Return words, pieces that tokenizers treat specially, and code points of many blocks."""
    parts = []
    for _ in range(rng.choice([0, 1, 2, 4, 6, 9, 14, 21, 34])):
        kind = rng.random()
        if kind < 0.5:
            parts.append(rng.choice(WORDS) + " ")
        elif kind < 0.7:
            parts.append(rng.choice(PIECES))
        else:
            first, last = rng.choice(BLOCKS)
            characters = [chr(rng.randint(first, last)) for _ in range(rng.randint(1, 4))]
            # Whether an unassigned code point is a letter depends on the Unicode version of whom one asks.
            parts += [character for character in characters if unicodedata.category(character) != "Cn"]
            parts.append(rng.choice(["", " "]))
    return "".join(parts)


def edited(text: str, rng: random.Random) -> str:
    """Return the text with a few words dropped, added or shouted, so that pairs share n-grams."""
    words = text.split(" ")
    for _ in range(rng.randint(0, 4)):
        row = rng.randrange(len(words))
        words[row : row + 1] = rng.choice([[], [words[row].upper()], [words[row], rng.choice(WORDS)]])
        words = words or [""]
    return " ".join(words)


def random_pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Return pairs of a prediction and a reference, four in five of them related."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        reference = random_text(rng)
        pairs.append((edited(reference, rng) if rng.random() < 0.8 else random_text(rng), reference))
    return pairs


@pytest.fixture(scope="session")
def generated_pairs() -> list[tuple[str, str]]:
    """6,500 pairs of a prediction and a reference, always the same."""
    return random_pairs(6500, seed=20240917)


@pytest.fixture(scope="session")
def generated_multi() -> list[tuple[str, list[str]]]:
    """1,000 predictions with two to four references each."""
    rng = random.Random(7)
    return [
        (prediction, [reference, *(edited(reference, rng) for _ in range(rng.randint(1, 3)))])
        for prediction, reference in random_pairs(1000, seed=11)
    ]
