"""The 13a tokenizer: the rules of NIST's mteval-v13a script, as sacrebleu publishes them, in one pass."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

# Every printable ASCII character that is not a letter, a digit or one of ' , - .
_SYMBOL = r"!-&(-+:-@/\[-`{-~"

# A token goes on over a hyphen unless a digit stands before it, and over a point or comma only between two digits.
_TOKEN = re.compile(rf"(?:[^{_SYMBOL}.,\-]+|(?<![0-9])-|(?<=[0-9])[.,](?=[0-9]))+|[{_SYMBOL}.,\-]")

_POINTS_BEFORE_DIGIT = re.compile(r"[.,][.,][0-9]")


def tokenize(text: str) -> list[str]:
    """Split a text into 13a tokens; case is kept.

    Symbols are tokens of their own, points and commas too unless both neighbours are digits, a hyphen if a digit stands
    before it. `<skipped>` and a hyphen at the end of a line are deleted, the four entities of mteval are decoded.

    The published rules are four substitutions after one another on the whole text; this is the same word by word, and
    faster. Source: https://github.com/mjpost/sacrebleu (`tokenizers/tokenizer_13a.py`).
    """
    text = text.replace("<skipped>", "").replace("-\n", "")
    if "&" in text:
        for entity, character in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
            text = text.replace(entity, character)
    tokens: list[str] = []
    for word in text.split():
        if word.isalnum():
            tokens.append(word)
        elif _POINTS_BEFORE_DIGIT.search(word):
            # The published substitutions take a run of points in pairs, so that its length decides whether the last one
            # stays with the digit. No pattern of one pass says that; such words are rare.
            tokens += _published_substitutions()(f" {word} ").split()
        else:
            tokens += _TOKEN.findall(word)
    return tokens


@functools.cache
def _published_substitutions() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    return TokenizerRegexp()
