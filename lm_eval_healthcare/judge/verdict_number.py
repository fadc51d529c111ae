"""Reading what stands behind the mark of a verdict: a whole number of the scale, one of two letters, or neither.

Strict about the number, lenient about what surrounds it. Nothing is mended: no digits are joined, no decimals rounded,
no number brought into the scale, no digit of another script and no number word (`four`, `cuatro`) taken for one. Of
decimals only zeros are accepted, behind a point or a comma (`4.0`, `4,0`), but not three behind a comma (`4,000`).
Every pattern works in linear time.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from lm_eval_healthcare.judge.reasons import Reason

LONGEST_REMARK = 200
"""So many characters may follow a verdict; a longer text means that the verdict was not the judge's last word."""
QUOTES = "\"'\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"

_MOST_DIGITS = 18  # more than any scale has, and few enough to be turned into a number at once
_HYPHENS, _DASHES, _SLASHES = "-\u2010\u2011\u2012\u2212\ufe63\uff0d", "\u2013\u2014", "/\u2044\u2215\uff0f"
_TAG = r"</?[A-Za-z][^<>\s]{0,40}>"
_LEAD = re.compile(
    r"[\s*_`$:\uff1a\u21d2\u2192(\[{\u3010#|\\"
    + QUOTES
    + rf"]+|[-=]?>(?=\s)|=|[.,;](?![0-9])|{_TAG}|<(?=[0-9]{{1,9}}>)"
)
_NAMES = (
    "score|rating|grade|mark|result|verdict"
    "|puntuaci[o\u00f3]n|puntaje|nota|calificaci[o\u00f3]n|valoraci[o\u00f3]n|resultado"
)
_LABEL = re.compile(
    rf"(?:(?:{_NAMES})(?: of| de)?|the|my|final|overall|global|total|is|la|el|mi|es|boxed)(?![^\W_])", re.IGNORECASE
)
_SIDE_LABEL = re.compile(
    r"(?:the|my|final|better|best|winner|verdict|result|response|answer|assistant|option|choice|is"
    r"|la|el|mejor|ganador|respuesta|opci[o\u00f3]n|es)(?![^\W_])",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"[0-9]+")
_FRACTION = re.compile(r"([.,\u00b7\u066b\u066c'\u2019])([0-9]+)")
_APART = re.compile(r"\s+[0-9]")
_RANGE = re.compile(rf"[{_DASHES}]\s*[0-9]")
_CLOSING = re.compile(r"[*_`$)\]}>\u3011" + QUOTES + r"]*")
_END = re.compile(rf"{_TAG}|<[|\uff5c][^<>]{{0,40}}[|\uff5c]>|\[/?[A-Za-z_]{{1,20}}\]")
_UNIT = r"(?:(?:points?|pts|stars?|puntos?|estrellas?)\b ?)?"
_OF = r"(?:out of|of|over|from|de|sobre) (?:an? |un |total |de |of |possible |maximum |max |m\u00e1ximo ){0,4}"
_OUT_OF = re.compile(
    rf" ?{_UNIT},? ?\(?(?:[{_SLASHES}][ *_]?|{_OF})([0-9]+)(?:[.,]([0-9]+))?({_CLOSING.pattern})", re.IGNORECASE
)
_GOES_ON = re.compile(
    rf"[ ,;]*(?:[{_SLASHES}\\^\u00d7\u00f7&~]|(?:or|to|o|plus|minus|and a half|y medio|point|coma|comma)\b)",
    re.IGNORECASE,
)
# `5 errors found`, `3 at best`, `4?`: the number is part of a sentence, and no score or not for sure.
_PHRASE = re.compile(r"[?]|[ \t]*(?!(?:because|since|for|as|due|porque|pues|por|ya que)\b)[a-z\u00e0-\u00ff]")
_COUNTED = re.compile(rf"[ \t]*{_UNIT}")
_NUMBER = re.compile(r"(?<![^\W_])(?<![A-Za-z]-)[0-9]+(?:[.,][0-9]+)*(?![^\W_])")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER_WORDS = {  # without `one` and `uno`, which are rarely numbers
    **{"zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7},
    **{"cero": 0, "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5, "seis": 6, "siete": 7},
}
_PROSE = re.compile(r"[ \t]+(?!(?:is|was|because|since|for|as|by|due|es|porque|gana|wins)\b)[a-z]")


@dataclass(frozen=True)
class Read:
    """What stands behind a mark.

    Attributes:
        value: The number, or the letter; None if there is none.
        reason: Why the value is no verdict, or there is none; None if it is one.
        span: Where its digits stand; None if there is no verdict.
        closing: The quotation marks, brackets and the like right behind it.
        remark: The text behind that, every run of blanks being one space.
        phrase: Whether the number is part of a sentence that goes on, such as `5 errors found`.
    """

    value: int | str | None = None
    reason: Reason | None = None
    span: tuple[int, int] | None = None
    closing: str = ""
    remark: str = ""
    phrase: bool = False


def read_number(seen: str, start: int, end: int, scale: tuple[int, int]) -> Read:
    """Read the number that `seen[start:end]` begins with.

    Args:
        seen: A text without invisible characters.
        start: Where the mark ends.
        end: Where the text, or what counts of it, ends.
        scale: The lowest and the highest number.
    """
    place = _after_lead(seen, start, end, _LABEL)
    if place == end:
        return Read(reason=Reason.NO_VERDICT)
    negative = seen[place] in _HYPHENS + _DASHES
    if negative or seen[place] == "+":
        if _APART.match(seen, place + 1, end):  # a minus, or a dash before the number
            return Read(reason=Reason.AMBIGUOUS)
        place += 1
    if _FRACTION.match(seen, place, end):
        return Read(reason=Reason.NOT_WHOLE)
    digits = _DIGITS.match(seen, place, end)
    if digits is None:
        return _no_value(seen, place, end)
    after, reason = _fraction(seen, digits.end(), end)
    reason = reason or _attached(seen, after, end)
    significant = digits[0].lstrip("0") or "0"
    value = (-1 if negative else 1) * int(significant[:_MOST_DIGITS])
    if reason is not None:
        return Read(value, reason)
    closing, rest = _rest(seen, after, end)
    outside = len(significant) > _MOST_DIGITS or not scale[0] <= value <= scale[1]
    out_of = _OUT_OF.match(rest)
    if out_of is not None:
        outside = outside or out_of[1].lstrip("0") != str(scale[1]) or (out_of[2] or "").strip("0") != ""
        closing, rest = closing + out_of[3], rest[out_of.end() :]
    if outside or re.match(r" ?[%\u2030]", rest):
        return Read(value, Reason.OUT_OF_SCALE)
    counted = _COUNTED.match(seen, after + len(_closing(seen, after, end)), end)
    phrase = out_of is None and counted is not None and _PHRASE.match(seen, counted.end(), end) is not None
    if _GOES_ON.match(rest):
        return Read(value, Reason.AMBIGUOUS)
    span = digits.end() - len(significant), digits.end()
    return Read(value, None, span, closing, _END.sub(" ", rest).strip(), phrase)


def read_side(seen: str, start: int, end: int) -> Read:
    """Read which of two answers, `A` or `B`, `seen[start:end]` begins with; a small letter counts only if alone.

    Args:
        seen: A text without invisible characters.
        start: Where the mark ends.
        end: Where the text, or what counts of it, ends.
    """
    place = _after_lead(seen, start, end, _SIDE_LABEL)
    if place == end:
        return Read(reason=Reason.NO_VERDICT)
    letter, after = seen[place], place + 1
    if letter not in "ABab" or _attached(seen, after, end) not in (None, Reason.AMBIGUOUS):
        return _no_value(seen, place, end)
    closing, rest = _rest(seen, after, end)
    remark = _END.sub(" ", rest).strip()
    other = "B" if letter == "A" else "A"
    words = _WORD.findall(remark)
    unsure = letter in "ab" and bool(words)  # `a` may be an article, and so may the `A` that begins a sentence
    unsure = unsure or (letter == "A" and _PROSE.match(seen, after, end) is not None)
    if unsure or other in words or _attached(seen, after, end) or _GOES_ON.match(rest):
        return Read(letter.upper(), Reason.AMBIGUOUS)
    return Read(letter.upper(), None, (place, after), closing, remark)


def competing(remark: str, value: int, scale: tuple[int, int]) -> bool:
    """Say whether a short remark behind a score holds another number.

    Numbers that are part of a word (`CD4`, `COVID-19`) or carry a unit without a blank (`5mg`) do not count, nor does
    naming the scale; number words count among the first four words.
    """
    low, high = scale
    rest = re.sub(
        rf"(?<![0-9.,]){low} ?(?:[-{_DASHES}\u2212{_SLASHES},]|to|a|through|\.\.) ?{high}(?![0-9]|[.,][0-9])",
        " ",
        remark,
    )
    rest = re.sub(rf"(?:[{_SLASHES}] ?|\bout of |\bsobre ){high}(?![0-9]|[.,][0-9])", " ", rest)
    for number in _NUMBER.findall(rest):
        whole, *decimals = re.split("[.,]", number)
        if (whole.lstrip("0") or "0") != str(abs(value)) or "".join(decimals).strip("0"):
            return True
    if any(_of_another_script(c) and not rest[i - 1 : i].isalnum() for i, c in enumerate(rest)):
        return True
    return any(_NUMBER_WORDS.get(word.lower(), value) != value for word in _WORD.findall(remark)[:4])


def _after_lead(seen: str, place: int, end: int, label: re.Pattern[str]) -> int:
    """Return where what may stand between a mark and its value ends: marks, opening brackets, `Score:` and the like."""
    while place < end:
        found = _LEAD.match(seen, place, end) or label.match(seen, place, end)
        if found is None:
            break
        place = found.end()
    return place


def _no_value(seen: str, place: int, end: int) -> Read:
    if place < end and unicodedata.decomposition(seen[place]).startswith("<fraction>"):
        return Read(reason=Reason.NOT_WHOLE)
    long = len(" ".join(seen[place:end].split())) > LONGEST_REMARK
    return Read(reason=Reason.NOT_AT_THE_END if long else Reason.NOT_A_NUMBER)


def _fraction(seen: str, place: int, end: int) -> tuple[int, Reason | None]:
    """Return where the decimals behind a number end, and what is wrong with them."""
    fraction = _FRACTION.match(seen, place, end)
    if fraction is None:
        return place, None
    if len(fraction[2]) == 3 and fraction[1] != ".":
        return place, Reason.AMBIGUOUS  # thousands in English, three decimals in Spanish
    if fraction[2].strip("0"):
        return place, Reason.NOT_WHOLE
    return fraction.end(), Reason.NOT_A_NUMBER if _FRACTION.match(seen, fraction.end(), end) else None


def _attached(seen: str, place: int, end: int) -> Reason | None:
    """Return what a character right behind a value makes of it: `4x`, `4-`, `4\u00bd`, `4\u00b2`, `4\u20e3`."""
    if place >= end:
        return None
    char = seen[place]
    if char in "+" + _HYPHENS or _RANGE.match(seen, place, end):
        return Reason.AMBIGUOUS
    if unicodedata.decomposition(char).startswith("<fraction>"):
        return Reason.NOT_WHOLE
    if char.isalnum() or unicodedata.category(char)[0] in "NM" or char in "^\u00b0":
        return Reason.NOT_A_NUMBER
    return None


def _closing(seen: str, place: int, end: int) -> str:
    found = _CLOSING.match(seen, place, end)
    return "" if found is None else found[0]


def _rest(seen: str, place: int, end: int) -> tuple[str, str]:
    """Return the closing marks behind a value, and the text behind them with every run of blanks made one space."""
    after = place + len(_closing(seen, place, end))
    rest = seen[after:end]
    return seen[place:after], (" " if rest[:1].isspace() else "") + " ".join(rest.split())


def _of_another_script(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char)[0] == "N"
