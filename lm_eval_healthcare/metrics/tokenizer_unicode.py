"""Tokens for clinical text in any language: words, characters of scripts without spaces, and symbols that matter."""

from __future__ import annotations

import functools
import unicodedata
from typing import Any

NAME = "clinical-unicode-1"
"""Name in signatures; to be counted up whenever a text would be split differently."""

_SPACELESS = "".join(
    rf"\p{{Script={script}}}" for script in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
# Iteration, prolongation and voicing marks that Unicode shares out between Han and kana. The property Script_Extensions
# has them too, but gives Thai the modifier apostrophe of Latin and Cyrillic.
_SHARED_BY_KANA = r"\u3006\u3031-\u3035\u303c\u30fc\uff70\uff9e\uff9f"


@functools.cache
def _patterns() -> tuple[Any, Any, Any, Any]:
    import regex

    word = r"[\p{L}\p{M}\p{N}]"
    character = rf"[[\p{{L}}\p{{Nl}}]&&[{_SPACELESS}{_SHARED_BY_KANA}]]"
    return (
        # Soft hyphens, joiners, directional marks; a zero-width space does separate words.
        regex.compile(r"[\p{Cf}--\u200b]", regex.V1),
        # Thirty marks on one letter are no text; normalization takes time quadratic in their number (UAX #15, D3).
        regex.compile(r"\p{M}{30}"),
        # A hyphen is a minus sign if a number follows and no word precedes: not in COVID-19, 5-10, T-score.
        regex.compile(rf"(?<!{word})-(?=[.,]?\p{{N}})"),
        regex.compile(rf"{character}\p{{M}}*|(?:(?!{character}){word})+|(?!\|)[\p{{Sm}}%‰]", regex.V1),
    )


def tokenize(text: str) -> list[str]:
    r"""Split a text into the tokens of the Unicode ROUGE.

    1. Format characters (soft hyphen, joiners, directional marks) are deleted, except the zero-width space.
    2. Canonical caseless form: NFD, full case folding, NFC. `µ` (micro sign) and `μ` (Greek mu) become the same letter,
       as do composed and decomposed accents.
    3. A hyphen in the place of a sign ("-2.5", not "5-10") becomes U+2212 MINUS SIGN.
    4. Tokens are: each letter of Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar with its marks; each run of
       other letters, marks and numbers (`\p{L}`, `\p{M}`, `\p{N}`); each mathematical symbol (`\p{Sm}`: < > = + ± ≥ ≤ ×
       ≈ − and so on, but not | of tables), % and ‰. Everything else separates.

    Args:
        text: Any string, lone surrogates included.
    """
    format_characters, thirty_marks, sign, token = _patterns()
    text = thirty_marks.sub("\\g<0>\u034f", format_characters.sub("", text))
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return token.findall(sign.sub("\u2212", text))
