"""The mark before a verdict, `[RESULT]`: what is read as one, and therefore what no answer may bring into a prompt.

The parser and the writing of prompts share this file, so that they cannot disagree.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MARKER = "[RESULT]"

# Unicode's default-ignorable characters (joiners, directions, selectors, fillers, tags), and the soft hyphen.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
# Bounded, so that a text of brackets alone takes no more than a fixed time for each.
_MARKER = re.compile(r"\\?\[[\s*_`\\]{0,8}[Rr][Ee][Ss][Uu][Ll][Tt][\s*_`:\\]{0,8}\]")


# A judge that quotes an answer in brackets would complete either half.
_HALF = re.compile(
    r"\\?\[[\s*_`\\]{0,8}[Rr][Ee][Ss][Uu][Ll][Tt](?![A-Za-z])|(?<![A-Za-z])[Rr][Ee][Ss][Uu][Ll][Tt][\s*_`:\\]{0,8}\]"
)


@dataclass(frozen=True)
class Visible:
    """A text without its invisible characters, or parts of it, with the way back to where each character stood.

    Attributes:
        text: What is seen. Parts that were apart have a line break between them, so that nothing is joined.
        starts: Where each unbroken piece begins in `text`.
        origins: Where it begins in the text that was given.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where `text[start:end]`, which is not empty, stands in the text that was given."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, place: int) -> int:
        piece = bisect_right(self.starts, place) - 1
        return self.origins[piece] + place - self.starts[piece]


def visible(text: str, parts: Sequence[tuple[int, int]] | None = None) -> Visible:
    """Leave out what cannot be seen.

    Args:
        text: Any text.
        parts: The parts of it that count, in order; None for all of it.
    """
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    length = 0

    def add(piece: str, origin: int) -> None:
        nonlocal length
        if piece:
            pieces.append(piece)
            starts.append(length)
            origins.append(origin)
            length += len(piece)

    for begin, end in [(0, len(text))] if parts is None else parts:
        if pieces:
            add("\n", begin)
        for gap in INVISIBLE.finditer(text, begin, end):
            add(text[begin : gap.start()], begin)
            begin = gap.end()
        add(text[begin:end], begin)
    return Visible("".join(pieces), tuple(starts), tuple(origins))


def markers(seen: str) -> Iterator[tuple[int, int]]:
    """Yield where each mark of a verdict stands in a text without invisible characters.

    Letters may be of any case. Blanks, line breaks, `*`, `_`, a backquote and a backslash may stand inside the
    brackets, and a colon after the word. Letters or brackets that only look alike make no mark.
    """
    return (found.span() for found in _MARKER.finditer(seen))


def marks_and_halves(seen: str) -> list[tuple[int, int]]:
    """Return where marks, and halves of marks, stand in a text without invisible characters, in order.

    Letters and brackets count as well that only look alike (full-width, with accents, of mathematical alphabets): some
    judges write them plainly when they quote.
    """
    folded, places = _folded(seen)
    whole = list(markers(folded))
    inside = {place for start, end in whole for place in range(start, end)}
    halves = [found.span() for found in _HALF.finditer(folded) if found.start() not in inside]
    return sorted((places[start], places[end - 1] + 1) for start, end in [*whole, *halves])


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Return a text in plain letters, and where each of its characters stood."""
    if text.isascii():
        return text, range(len(text))
    letters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        plain = [c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c)]
        if unicodedata.category(char) == "Cs":
            continue
        letters += "s" if char == "\u017f" else plain
        places += [place] * (1 if char == "\u017f" else len(plain))
    return "".join(letters), places
