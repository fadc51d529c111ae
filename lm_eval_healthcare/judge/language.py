"""In which language an answer is, as far as a cheap look can tell.

A model that answers in another language than it was asked in gets low scores from every metric that compares words,
for a reason that is not its medicine. The check says "another language" only when it is sure: clinical answers are full
of Latin roots, drug names and abbreviations, and a short one may be the same in several languages.

The identifier is py3langid, a naive Bayes classifier over byte n-grams whose model comes with the package: nothing is
downloaded, and nothing random is in it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import regex

from lm_eval_healthcare.judge.errors import JudgeError

LANGUAGES = tuple(
    [
        "ar",
        "bg",
        "bn",
        "ca",
        "cs",
        "da",
        "de",
        "el",
        "en",
        "es",
        "et",
        "eu",
        "fa",
        "fi",
        "fr",
        "gl",
        "gu",
        "he",
        "hi",
        "hr",
        "hu",
        "hy",
        "id",
        "is",
        "it",
        "ja",
        "ka",
        "ko",
        "lt",
        "lv",
        "mk",
        "ml",
        "mr",
        "ms",
        "nl",
        "no",
        "pa",
        "pl",
        "pt",
        "ro",
        "ru",
        "sk",
        "sl",
        "sq",
        "sr",
        "sv",
        "sw",
        "ta",
        "te",
        "th",
        "tl",
        "tr",
        "uk",
        "ur",
        "vi",
        "zh",
    ]
)
"""ISO 639-1 codes of the languages that are told apart. Spanish would share its probability with Aragonese and
Extremaduran, Chinese with its regional forms, if all that the identifier knows were allowed."""
_SINKS = ("la", "zxx")
"""Latin and no language at all: what lists of findings, drugs and genes look like, in answers of any language."""
_LONGEST = 4000
_FEWEST_WORDS = 4
_FEWEST_LETTERS = 4
_SURE = 0.7
_LIKELY = 0.5
_LEADING = 0.4
_UNLIKELY = 0.02
_MOST_SUNK = 0.2

_ADDRESS = regex.compile(r"(?:https?://|www\.)\S+|\S+@\S+")
_WORD = regex.compile(r"\p{L}{2,}")
_OTHER_SCRIPT = regex.compile(r"[\p{L}--[\p{Latin}\p{Greek}]]", regex.V1)


class Language(NamedTuple):
    """A language and how sure it is.

    Attributes:
        code: ISO 639-1, one of `LANGUAGES`; None if it cannot be told.
        confidence: Probability of the likeliest language, from 0 to 1; 0 for a text too short to look at.
    """

    code: str | None
    confidence: float


def language_of(text: str | None) -> Language:
    """Return the language of a text.

    Texts of fewer than four words (or, where another script than the Latin or Greek is written, four letters) are not
    looked at, and of longer ones the first 4,000 characters.

    Args:
        text: An answer without the model's reasoning.

    Returns:
        No code for texts that are short, blank, numbers only, lists of Latin names, or not surely of one language.
    """
    shares = _shares(text)
    if not shares:
        return Language(None, 0.0)
    code = max(shares, key=lambda one: shares[one])
    sure = code not in _SINKS and shares[code] >= _SURE
    return Language(code if sure else None, shares[code])


def mismatch(text: str | None, expected: str) -> float:
    """Return whether a text is surely in another language than expected.

    Sure of that is not the same as sure of the language: a Spanish sentence may be Galician, but is not English.

    Args:
        text: An answer without the model's reasoning.
        expected: ISO 639-1 code, such as `en`; `es-MX` is taken as `es`.

    Returns:
        1.0 if it is in another language, 0.0 if it is not, NaN if that cannot be told.

    Raises:
        JudgeError: If the language is not one of those that are told apart.
    """
    wanted = expected.strip().lower().replace("_", "-").split("-")[0]
    if wanted not in LANGUAGES:
        raise JudgeError(
            f"expected language '{expected}': it cannot be checked; expected one of {', '.join(LANGUAGES)}"
        )
    shares = _shares(text)
    if not shares:
        return math.nan
    sunk = sum(shares.pop(code, 0.0) for code in _SINKS)
    code = max(shares, key=lambda one: shares[one])
    if code == wanted:
        return 0.0 if shares[code] >= _LIKELY else math.nan
    sure = shares[wanted] < _UNLIKELY and shares[code] >= _LEADING and sunk < _MOST_SUNK
    return 1.0 if sure else math.nan


def _shares(text: str | None) -> dict[str, float]:
    """The probability of every language and of the sinks; none if there is too little to go by."""
    start = _ADDRESS.sub(" ", (text or "").strip()[:_LONGEST])
    enough = len(_WORD.findall(start)) >= _FEWEST_WORDS or len(_OTHER_SCRIPT.findall(start)) >= _FEWEST_LETTERS
    return dict(_identifier().rank(start)) if enough else {}


@functools.lru_cache(maxsize=1)
def _identifier() -> Any:
    """An identifier of our own, since restricting the package's shared one would change it for others."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([*LANGUAGES, *_SINKS])
    return identifier
