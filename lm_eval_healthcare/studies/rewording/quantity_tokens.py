"""The words and numbers of a clinical text, in one spelling each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lm_eval_healthcare.studies.rewording.number_words import plain


@dataclass(slots=True)
class Token:
    """A word, a number or a mark.

    Attributes:
        text: As it is written.
        word: In small letters without accents.
        glued: Whether there is no blank before it.
        number: Whether it begins with a digit.
    """

    text: str
    word: str
    glued: bool
    number: bool


_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_FRACTIONS = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅛": "1/8", "⅕": "1/5"}
_CHARACTERS = str.maketrans(
    {c: "-" for c in "−–—‐‑‒―﹣－"}
    | {c: "" for c in "\u200b\u200c\u200d\u2060\ufeff\u00ad"}
    | {c: "\u00a0" for c in "\u202f\u2009\u2007\u2008\u200a"}
    | {"µ": "u", "μ": "u", "％": "%", "º": "°", "×": "x", "⁄": "/", "∕": "/"}
    | {c: str(i) for i, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}
    | {c: f" {text} " for c, text in _FRACTIONS.items()}
)
_POWER = re.compile(f"[⁻]?[{_SUPERSCRIPTS}]+")
_POWERS = str.maketrans({c: str(i) for i, c in enumerate(_SUPERSCRIPTS)} | {"⁻": "-"})
_LIST_NUMBER = re.compile(
    r"(?m)^[ \t]*(?:[*#>-]{1,3}[ \t]*)?\(?\d{1,2}[.)](?=[ \t*])|(?<=[.:;!?] )\(?\d{1,2}[.)](?= +[^\W\d_])"
    r"|\[\d{1,3}(?:[,-] ?\d{1,3}){0,9}\]|\b[Ss]tep \d{1,2}\b"
)
_TOKEN = re.compile(r"\d{1,3}(?:\u00a0\d{3})+(?!\d)|\d+(?:[.,:]\d+)*(?:\^-?\d+)?|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\s\w]|_")
_REWRITES = tuple(
    (re.compile(pattern, flags), new)
    for pattern, flags, new in (
        (r"\b(?:(?i:b\.i\.d\.?|b\.d\.)|BID|BD|bid)(?!\w)", 0, " twice daily "),
        (r"\b(?:(?i:t\.i\.d\.?|t\.d\.s\.?)|TID|tid|TDS|tds)(?!\w)", 0, " three times daily "),
        (r"\b(?:(?i:q\.i\.d\.?|q\.d\.s\.?)|QID|qid|QDS|qds)(?!\w)", 0, " four times daily "),
        (r"\b(?:(?i:q\.d\.|o\.d\.)|QD|qd)(?!\w)", 0, " once daily "),
        (r"\bq\.?\s?(\d{1,2})(?:-(\d{1,2}))?\s?(?:h|hr|hrs|hours)\b", re.I, r" every \1 - \2 hours "),
        (r"\b(\d{1,2})[ -]hourly\b", re.I, r" every \1 hours "),
        (
            r"(?<!to )(?<!or )(?<![-\d.])\b(\d{1,2})[ -](hour|day|week|month|year)(?:ly)? intervals?\b",
            re.I,
            r" every \1 \2s ",
        ),
        (r"\b(?:alternate|every second|alternating) days?\b|\bqod\b|\bq\.o\.d\.?", re.I, " every other day "),
        (r"\bdias alternos\b|\bdías alternos\b", re.I, " cada 2 dias "),
        (r"\bmm\s+Hg\b", re.I, "mmhg"),
        (r"\bcm\s?H2O\b", re.I, "cmwater"),
        (r"\bper\s?cent\b|\bpor\s+ciento\b|\bpor\s+cien\b", re.I, "%"),
        (r"\b(?:international|unidades) (?:units?|internacionales)\b", re.I, "units"),
        (r"\bdegrees? (?=celsius|centigrade|fahrenheit)|\bgrados (?=celsius|cent)", re.I, ""),
        (r"°\s?C\b", 0, " celsius "),
        (r"°\s?F\b", 0, " fahrenheit "),
        (r"°", 0, " degrees "),
        (r"\bun[ao]s? (?=pocos|pocas|cuantos)", re.I, ""),
    )
)


def tokens_of(text: str, spanish: bool) -> list[Token]:
    """Return the tokens of a text, its abbreviations, fractions and powers written out, without the numbers of lists.

    Args:
        text: Any text.
        spanish: Whether any three digits after a blank are thousands, as in Spanish, not three zeros alone.
    """
    text = _POWER.sub(lambda match: "^" + match[0].translate(_POWERS), text).translate(_CHARACTERS)
    text = _LIST_NUMBER.sub(" ", text)
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    text = text.replace(" -  hours", " hours").replace("cmwater", "cmhwater")
    grouped = r"(?<![\d.,])(\d{1,3}) (?=\d{3}(?!\d))" if spanish else r"(?<![\d.,])(\d{1,3}) (?=000(?!\d))"
    text = re.sub(grouped, "\\1\u00a0", text)
    tokens, end = [], -1
    for match in _TOKEN.finditer(text):
        raw = match[0]
        tokens.append(Token(raw, plain(raw), match.start() == end, raw[0].isdecimal()))
        end = match.end()
    return tokens


def number_in(raw: str, spanish: bool) -> float | None:
    """Return the number that digits, points and commas stand for; None for dates, clock times and ratios.

    Args:
        raw: The token.
        spanish: Whether "1.000" is a thousand.
    """
    raw, _, power = raw.replace("\u00a0", "").partition("^")
    if ":" in raw or len(raw) > 300:
        return None
    marks = [c for c in raw if c in ".,"]
    head, *groups = re.split("[.,]", raw)
    thousands = all(len(group) == 3 for group in groups) and 0 < len(head) <= 3 and head != "0"
    if not marks:
        text = raw
    elif len(set(marks)) == 2 and len(marks) >= 2 and marks[-1] not in marks[:-1]:
        text = "".join(c for c in raw[: raw.rindex(marks[-1])] if c not in ".,") + "." + groups[-1]
    elif len(marks) > 1:
        if not thousands:
            return None
        text = "".join([head, *groups])
    elif thousands and (marks[0] == "," or spanish):
        text = head + groups[0]
    else:
        text = f"{head}.{groups[0]}"
    value = float(text)
    if power and abs(int(power[:4])) < 30:
        value **= int(power)
    return value


def words_shown(tokens: list[Token], start: int, end: int) -> str:
    """Return the words of some tokens as the text has them."""
    parts = [tokens[start].text]
    parts += [token.text if token.glued else f" {token.text}" for token in tokens[start + 1 : end]]
    return "".join(parts)
