"""What the words around a number say of it: that it is a limit, or a time although no unit stands beside it."""

from __future__ import annotations

from lm_eval_healthcare.studies.rewording.number_words import UNITS, word_set
from lm_eval_healthcare.studies.rewording.quantity import Quantity

_MORE = ({">", "≥", "over", "above", "exceeding", "minimo"}, {"more", "greater", "higher", "least", "mas", "mayor"})
_LESS = ({"<", "≤", "under", "below", "maximo"}, {"less", "fewer", "lower", "most", "menos", "menor"})
_AGE = word_set("age aged ages older younger edad mayores menores turned turning cumplidos")
_OF_AGE = word_set("over under above below between entre man woman male female boy girl hombre mujer varon")
_AGE_AFTER = word_set("older younger over up above yo f m mas +")
_EARLIER = 8  # words
_TIMES = frozenset({"time", "months"})
_NONE: frozenset[str] = frozenset()


def bound(words: list[str], place: int) -> int:
    """Return 1 if the words before a number say that it is more, -1 if less, otherwise 0.

    Args:
        words: In small letters without accents.
        place: Of the number.
    """
    alone, before_than = words[place - 1] if place else "", words[place - 2] if place > 1 else ""
    turned = place > 2 and words[place - 3] in ("no", "not", "never")
    for side, (symbols, comparatives) in ((1, _MORE), (-1, _LESS)):
        if alone in symbols or (alone == "=" and before_than in symbols):
            return side
        if alone in ("than", "de", "que") and before_than in comparatives:
            return -side if turned else side
        if before_than == "at" and alone in comparatives:
            return side
    return 0


def understood(words: list[str], start: int, end: int, found: list[tuple[int, int, Quantity]]) -> frozenset[str]:
    """Return of which kinds of time a number without a unit may be: an age, "day 3", "7 days, not 10".

    Args:
        words: In small letters without accents.
        start: Where the number begins.
        end: Where it ends.
        found: Numbers before it, each with its begin and end.
    """
    before, after = words[max(0, start - 4) : start], words[end : end + 3]
    if not _AGE.isdisjoint(before) or any(UNITS.get(word, ("",))[0] in _TIMES for word in before):
        return _TIMES
    if found and found[-1][1] > start - _EARLIER and "." not in words[found[-1][1] : start]:
        last = found[-1][2]
        if last.kind in _TIMES or (not last.kind and last.understood):
            return last.understood or frozenset({last.kind})
    if not _OF_AGE.isdisjoint(before) or not _AGE_AFTER.isdisjoint(after):
        return frozenset({"months"})
    return _NONE
