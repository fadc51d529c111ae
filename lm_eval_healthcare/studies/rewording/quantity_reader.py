"""Reading the numbers and units of a clinical text."""

from __future__ import annotations

from dataclasses import replace

from lm_eval_healthcare.studies.rewording.number_words import (
    BEFORE_ROMAN,
    EVERY,
    LOOSE,
    ORDINALS,
    ROMAN,
    TIMES,
    UNITS,
    plain,
    spelled,
    word_set,
)
from lm_eval_healthcare.studies.rewording.quantity import Quantity, code, frequency, named, united
from lm_eval_healthcare.studies.rewording.quantity_context import bound, understood
from lm_eval_healthcare.studies.rewording.quantity_tokens import Token, number_in, tokens_of, words_shown

_RANGE = frozenset({"-", "to", "or", "and", "a", "y", "o", "/", ",", "x", "hasta", "through", "versus", "vs"})
_PER = frozenset({"/", "per", "a", "an", "each", "every", "por", "al", "cada", "in", "the", "en", "la", "el"})
_EVERY = frozenset({"every", "each", "cada"})
_FRACTION_OF = {(1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (1, 5), (2, 5), (3, 5), (4, 5), (1, 8), (3, 8), (1, 6), (1, 10)}
_OF_EVERY = {
    ("out", "of"),
    ("de", "cada"),
    ("por", "cada"),
    *((a, b) for a in ("in", "of", "for") for b in ("every", "each")),
}
_FEW = 5
_LAST = word_set("past last previous preceding following next ultimo ultima proximo proxima")
_WITHIN = word_set("within after than under over")
_BEFORE_PRONOUN = frozenset({"the", "these", "those", "los", "las", "estos", "estas"})
_AFTER_PRONOUN = frozenset(
    {".", ",", ";", ":", ")", "is", "are", "was", "were", "have", "should", "can", "may", "must"}
)
_TIME_DENOMINATORS = {"d", "day", "days", "dia", "dias", "week", "weeks", "wk", "semana", "month", "mes", "year", "ano"}


def quantities(text: str, spanish: bool = False) -> list[Quantity]:
    """Return the quantities of a text in their order.

    Args:
        text: Any text.
        spanish: Whether "1.000" is a thousand, as in Spanish, not one with three decimals.

    Returns:
        Each with its value in the smallest unit of its kind.
    """
    tokens = tokens_of(text, spanish)
    words = [token.word for token in tokens]
    found: list[tuple[int, int, Quantity]] = []
    place = 0
    while place < len(tokens):
        one = _at(tokens, words, place, spanish)
        if one is None:
            place += 1
            continue
        quantity, length = one
        kinds = frozenset() if quantity.kind else understood(words, place, place + length, found)
        side = bound(words, place)
        if side or kinds:
            quantity = replace(quantity, bound=side, understood=kinds)
        found.append((place, place + length, quantity))
        place += max(length, 1)
    return _shared_units(found, words)


def _at(tokens: list[Token], words: list[str], place: int, spanish: bool) -> tuple[Quantity, int] | None:
    """The quantity that begins at a token, and how many tokens it takes."""
    token = tokens[place]
    chance = _chance(tokens, words, place, spanish)
    if chance is not None:
        return chance
    if token.number:
        return _digits(tokens, words, place, spanish)
    word = token.word
    if word in ("/", "per", "a", "por", "al", "en", "in") and place:
        rate = _per_time(tokens, words, place) if _counted(words[place - 1]) or word in ("per", "al") else None
        if rate is not None:
            (kind, seconds), stop = rate
            return frequency(1.0, 1 / seconds, kind, words_shown(tokens, place, stop), soft=True), stop - place
    if word in _EVERY:
        return _interval(tokens, words, place, spanish)
    if word in EVERY:
        kind, seconds = EVERY[word]
        return frequency(1.0, 1 / seconds, kind, token.text, soft=True), 1
    if token.text in ROMAN and place and words[place - 1] in BEFORE_ROMAN:
        return Quantity(ROMAN[token.text], ROMAN[token.text], "", token.text), 1
    if word in TIMES:
        return _with_unit(tokens, words, place, place + 1, float(TIMES[word]), times=True)
    if word == "once" and not spanish:
        return _with_unit(tokens, words, place, place + 1, 1.0, times=True, soft=True)
    if word in ("a", "an", "un", "una") and place + 1 < len(words) and len(words[place + 1]) > 3:
        unit = UNITS.get(words[place + 1])
        if unit and unit[0] in ("time", "months") and not (place and _counted(words[place - 1])):
            return replace(united(1.0, *unit, f"{token.text} {tokens[place + 1].text}", words[place + 1]), soft=True), 2
    if word in _LAST or (word == "a" and place and words[place - 1] in _WITHIN):  # "the past year", "within a day"
        unit = UNITS.get(words[place + 1]) if place + 1 < len(words) else None
        if unit and unit[0] in ("time", "months") and len(words[place + 1]) > 2 and words[place + 1][-1] != "s":
            return replace(united(1.0, *unit, words_shown(tokens, place, place + 2), words[place + 1]), soft=True), 2
    return _in_words(tokens, words, place)


def _chance(tokens: list[Token], words: list[str], place: int, spanish: bool) -> tuple[Quantity, int] | None:
    """A share such as "1 in 4" or "one out of ten"."""
    if words[place] not in ("1", "one", "uno", "una"):
        return None
    two = words[place + 1 : place + 3]
    start = place + 3 if tuple(two) in _OF_EVERY else place + 2
    if (start == place + 2 and two[:1] != ["in"]) or start >= len(tokens):
        return None
    number, length = number_in(tokens[start].text, spanish) if tokens[start].number else None, 1
    if number is None:
        article = words[start] in ("a", "an")
        read = spelled(["one", *words[start + 1 : start + 12]] if article else words[start : start + 12], 0)
        number, length = read if read is not None else (None, 1)
    stop = start + length
    if number is None or number < 2 or number != int(number) or (stop < len(words) and words[stop] in UNITS):
        return None
    return Quantity(100 / number, 100 / number, "percent", words_shown(tokens, place, stop)), stop - place


def _in_words(tokens: list[Token], words: list[str], place: int) -> tuple[Quantity, int] | None:
    """A number that is written as a word: "five", "third", "half an hour", "both"."""
    token, word = tokens[place], words[place]
    if word in ("a", "an") and place + 1 < len(words) and words[place + 1] in ("hundred", "thousand", "million"):
        read = spelled(["one", *words[place + 1 : place + 12]], 0)
    else:
        read = spelled(words, place)
    if read is not None:
        number, length = read
        pronoun = length == 1 and (number == 1 or (number < _FEW and _stands_for_noun(words, place)))
        return _with_unit(tokens, words, place, place + length, number, soft=pronoun)
    unit = UNITS.get(words[place + 1]) if place + 1 < len(words) and len(words[place + 1]) > 2 else None
    if ORDINALS.get(word) == 1 and unit and unit[0] in ("time", "months") and words[place + 1][-1] != "s":
        first = united(1.0, *unit, words_shown(tokens, place, place + 2), words[place + 1])  # "in the first hour"
        return replace(first, soft=True, group="ordinal"), 2
    if word in ORDINALS and not (place + 1 < len(words) and words[place + 1] == ","):
        return Quantity(ORDINALS[word], ORDINALS[word], "ordinal", token.text, soft=True, group="ordinal"), 1
    if word in LOOSE:
        unit_at = place + 2 if words[place + 1 : place + 2] in (["a"], ["an"]) else place + 1
        unit = UNITS.get(words[unit_at]) if unit_at < len(words) else None
        if unit and LOOSE[word] < 1 and len(words[unit_at]) > 3:  # "half an hour"
            return united(
                LOOSE[word], *unit, words_shown(tokens, place, unit_at + 1), words[unit_at]
            ), unit_at + 1 - place
        return Quantity(LOOSE[word], LOOSE[word], "", token.text, soft=True), 1
    return None


def _stands_for_noun(words: list[str], place: int) -> bool:
    """Whether a number stands for things named before, as in "between the two" or "these three are"."""
    if not place or words[place - 1] not in _BEFORE_PRONOUN:
        return False
    return place + 1 >= len(words) or words[place + 1] in _AFTER_PRONOUN


def _counted(word: str) -> bool:
    """Whether "a" after this word means "per"."""
    return word in UNITS or word in (
        "times", "time", "veces", "vez", "twice", "once", "thrice", "-", "tablets", "doses",
    )  # fmt: skip


def _digits(tokens: list[Token], words: list[str], place: int, spanish: bool) -> tuple[Quantity, int]:
    token = tokens[place]
    number = number_in(token.text, spanish)
    end = place + 1
    before = tokens[place - 1] if place else None
    if before is not None and token.glued and (before.text[-1].isalpha() or before.text == "_"):
        return named(number, token, before.text), 1
    if before is not None and token.glued and before.text == "-" and place > 1 and before.glued:
        letters = tokens[place - 2]
        if letters.text[-1].isalpha() and letters.word not in UNITS and spelled([letters.word], 0) is None:
            return named(number, token, letters.text), 1
    if before is not None and token.glued and before.text == "-" and not before.glued and number is not None:
        number = -number if place < 2 or not tokens[place - 2].number else number
    if number is None:  # a date, a clock time, a ratio: the same only if written the same
        return Quantity(code(token.text), code(token.text), "", token.text), 1
    if end + 1 < len(tokens) and words[end] == "/" and tokens[end + 1].number:
        below = number_in(tokens[end + 1].text, spanish)
        if below and (number, below) in _FRACTION_OF:
            number, end = number / below, end + 2
    elif end + 2 < len(tokens) and tokens[end].number and words[end + 1] == "/" and tokens[end + 2].number:
        above, below = number_in(tokens[end].text, spanish), number_in(tokens[end + 2].text, spanish)
        if above and below and (above, below) in _FRACTION_OF and number == int(number):
            number, end = number + above / below, end + 3
    if end + 1 < len(tokens) and words[end] == "x" and tokens[end + 1].text.startswith("10^"):
        number, end = number * (number_in(tokens[end + 1].text, spanish) or 1.0), end + 2
    if end < len(tokens) and tokens[end].glued and words[end] in ("st", "nd", "rd", "th"):
        return Quantity(number, number, "ordinal", token.text + words[end], soft=True, group="ordinal"), end + 1 - place
    if end < len(tokens) and words[end] in ("thousand", "million", "billion", "mil", "millones"):
        scale = spelled(["one", words[end]], 0)
        number, end = number * (scale[0] if scale else 1.0), end + 1
    return _with_unit(tokens, words, place, end, number)


def _with_unit(
    tokens: list[Token], words: list[str], start: int, end: int, number: float, times: bool = False, soft: bool = False
) -> tuple[Quantity, int]:
    """A number with the unit or the frequency after it."""
    shown = words_shown(tokens, start, end)
    place = end
    if place + 1 < len(words) and words[place] == "-" and tokens[place].glued and words[place + 1] in UNITS:
        place += 1
    if not times and place < len(words) and words[place] in ("times", "time", "veces", "vez", "x"):
        often = _per_time(tokens, words, place + 1)
        if often is not None:
            (kind, seconds), stop = often
            return frequency(number, number / seconds, kind, words_shown(tokens, start, stop)), stop - start
    elif times:
        often = _per_time(tokens, words, place)
        if often is not None:
            (kind, seconds), stop = often
            return frequency(number, number / seconds, kind, words_shown(tokens, start, stop)), stop - start
    if not times and place < len(words) and words[place] in UNITS and _is_unit(tokens, words, place):
        kind, factor, stop = _compound(tokens, words, place)
        unit = words_shown(tokens, place, stop)
        return united(number, kind, factor, words_shown(tokens, start, stop), unit), stop - start
    if not times and place < len(words) and words[place] == "cmhwater":
        return Quantity(number, number, "cmH2O", f"{shown} cmH2O", unit="cmH2O"), place + 1 - start
    after = tokens[end : end + 2]
    joined = tokens[start].number and len(after) == 2 and after[0].text == "-" and after[1].text.isupper()
    if joined and after[0].glued and after[1].glued:  # 5-HT, 5-FU
        name = plain(after[1].text)
        return Quantity(number, number, "name", shown, soft=True, group=f"name {name}", name=name), end - start
    if end < len(tokens) and tokens[end].glued and tokens[end].text[0].isalpha() and tokens[start].number:
        letters = tokens[end].word  # 3D, 50s, 18p
        return Quantity(number, number, "", shown, soft=True, group=f"name {letters} after"), end - start
    return Quantity(number, number, "", shown, soft=soft), end - start


def _is_unit(tokens: list[Token], words: list[str], place: int) -> bool:
    """Whether a word after a number is a unit there: not the s of "50s", nor "second" in "two second opinions"."""
    word = words[place]
    if word == "s" and tokens[place].glued:
        return False
    if word == "m" and tokens[place].text == "M":
        return False
    return word not in ("second", "unit", "foot", "degree", "minute") or (
        place > 0 and words[place - 1] in ("-", "one", "1")
    )


def _compound(tokens: list[Token], words: list[str], place: int) -> tuple[str, float, int]:
    """Kind, factor and end of a unit with what it is divided by; "a day" is left for the frequency."""
    kind, factor = UNITS[words[place]]
    place += 1
    if place < len(words) and words[place] in ("celsius", "fahrenheit") and kind == "degrees":
        kind, factor, place = words[place], 1.0, place + 1
    while place + 1 < len(words) and words[place] in ("/", "per", "por"):
        word = words[place + 1]
        if word not in UNITS or word in _TIME_DENOMINATORS:
            break
        below, size = UNITS[word]
        kind, factor, place = f"{kind}/{below}", factor / size, place + 2
    if kind == "speed":
        kind, factor = "count/time", 1 / 60
    return kind, factor, place


def _per_time(tokens: list[Token], words: list[str], place: int) -> tuple[tuple[str, float], int] | None:
    """The time after "three times": "a day", "daily", "/ day"."""
    stop = place
    while stop < len(words) and stop < place + 2 and words[stop] in _PER:
        stop += 1
    if stop < len(words) and words[stop] in EVERY:
        return EVERY[words[stop]], stop + 1
    if stop > place and stop < len(words):
        if UNITS.get(words[stop], ("",))[0] in ("time", "months"):
            return UNITS[words[stop]], stop + 1
        if stop + 1 < len(words) and words[stop] == "24" and words[stop + 1] in ("h", "hours", "horas"):
            return ("time", 86400.0), stop + 2
    return None


def _interval(tokens: list[Token], words: list[str], place: int, spanish: bool) -> tuple[Quantity, int] | None:
    """Every 8 hours, every other day, every week."""
    following = place + 1
    if following >= len(words):
        return None
    word = words[following]
    number, length = 1.0, 0
    if word == "other" and following + 1 < len(words):
        number, length = 2.0, 1
    elif tokens[following].number:
        number, length = number_in(tokens[following].text, spanish) or 0.0, 1
    else:
        read = spelled(words, following)
        if read is not None:
            number, length = read
    stop = following + length
    unit = UNITS.get(words[stop]) if stop < len(words) else None
    if unit is None or unit[0] not in ("time", "months") or number <= 0:
        return None
    shown = words_shown(tokens, place, stop + 1)
    value = 1 / (number * unit[1])
    a_day = round(value * 86400, 6) if unit[0] == "time" else 1.0
    return frequency(a_day, value, unit[0], shown, soft=length == 0), stop + 1 - place


def _shared_units(found: list[tuple[int, int, Quantity]], words: list[str]) -> list[Quantity]:
    """Give numbers without a unit that of the number they are joined to: "5, 10 or 20 mg", "120/80 mmHg"."""
    done: list[Quantity] = []
    following: tuple[int, Quantity] | None = None
    for start, end, quantity in reversed(found):
        joined = (
            following is not None
            and 0 < following[0] - end <= 2
            and all(word in _RANGE for word in words[end : following[0]])
        )
        if joined and following is not None and not quantity.kind and following[1].kind not in ("", "name", "ordinal"):
            model = following[1]
            ratio = model.value / model.number if model.number else 1.0
            quantity = replace(
                quantity, kind=model.kind, value=quantity.number * ratio, unit=model.unit, inherited=True, soft=False
            )
        following = (start, quantity)
        done.append(quantity)
    return done[::-1]
