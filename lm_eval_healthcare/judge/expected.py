"""The expected score: the mean over the scale by the judge's own probabilities, where it writes its verdict.

A verdict of 4 says nothing of how close a 3 was. At the place where the judge writes the number, the probabilities
p(k) of the numbers k of the scale give

    E = sum of k p(k) / sum of p(k)

with k from the lowest to the highest number, as G-Eval weighs its scores (Liu et al. 2023, arXiv 2303.16634). The
probabilities are the model's own, before temperature and top-p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lm_eval_healthcare.judge.backends.base import Token
from lm_eval_healthcare.judge.parse import SCALE

LEAST_MASS = 0.5
"""Less probability than this on the numbers of the scale, and their mean is no score: the judge would rather have
written something else there, or its probabilities are not known."""

_TRAILING = 2  # tokens at the end that may not be in the text, such as the end of turn and a line break


class Unexpected(str, Enum):
    """Why there is no expected score."""

    NO_SCORE = "no_score"
    """The text holds no verdict."""
    NO_PROBABILITIES = "no_probabilities"
    """The back end gives no log-probabilities."""
    SEVERAL_DIGITS = "several_digits"
    """The score, or a number of the scale, has more than one digit, and so may have more than one token."""
    NOT_KEPT = "not_kept"
    """The score stands before the last tokens, whose log-probabilities are kept, or these do not spell the text."""
    LOW_MASS = "low_mass"
    """The numbers of the scale have less than `LEAST_MASS` of the probability."""

    def __str__(self) -> str:
        """Return the value."""
        return self.value


@dataclass(frozen=True)
class Expected:
    """An expected score.

    Attributes:
        score: From the lowest to the highest number of the scale; NaN if there is none.
        mass: Probability of all numbers of the scale together, from 0 to 1; NaN if it is not known.
        reason: Why there is no score; None if there is one.
    """

    score: float
    mass: float
    reason: Unexpected | None = None


def expected_score(
    text: str | None, tokens: Sequence[Token], span: tuple[int, int] | None, scale: tuple[int, int] = SCALE
) -> Expected:
    """Return the mean over the scale by the probabilities of its numbers, where the score is written.

    Counted are tokens that are one of the numbers after blanks are stripped from them, and, where the number is written
    in one token with what stands around it, such as `] 4` or `4.`, the same with another number.

    Args:
        text: What the judge wrote.
        tokens: Its last tokens; tokens beyond the text's end, such as that of the end of a turn, may follow.
        span: Where the score's digits stand in the text; None if there are none.
        scale: The lowest and the highest number.
    """
    reason: Unexpected | None = None
    if text is None or span is None:
        reason = Unexpected.NO_SCORE
    elif not tokens:
        reason = Unexpected.NO_PROBABILITIES
    elif span[1] - span[0] != 1 or not 0 <= scale[0] <= scale[1] <= 9:
        reason = Unexpected.SEVERAL_DIGITS
    if reason is not None or text is None or span is None:
        return Expected(math.nan, math.nan, reason)
    found = _writing(text, tokens, span[0])
    if found is None:
        return Expected(math.nan, math.nan, Unexpected.NOT_KEPT)
    token, place = found
    before, after = token.text[:place].lstrip(), token.text[place + 1 :].rstrip()
    chances = _chances(token.top, before, after, scale)
    mass = math.fsum(chances.values())
    if not mass >= LEAST_MASS:
        return Expected(math.nan, mass, Unexpected.LOW_MASS)
    score = math.fsum(number * chance for number, chance in chances.items()) / mass
    return Expected(min(max(score, scale[0]), scale[1]), min(mass, 1.0))


def _chances(top: Mapping[str, float], before: str, after: str, scale: tuple[int, int]) -> dict[int, float]:
    """Return the probability of each number of the scale among the tokens at a place."""
    number_of = {before + str(number) + end: number for number in range(scale[0], scale[1] + 1) for end in {"", after}}
    chances = dict.fromkeys(range(scale[0], scale[1] + 1), 0.0)
    for text, log_p in top.items():
        number = number_of.get(text.strip())
        if number is not None:
            chances[number] += math.exp(min(log_p, 0.0))
    return chances


def _writing(text: str, tokens: Sequence[Token], start: int) -> tuple[Token, int] | None:
    """Return the token that writes the character at a place of the text, and the place in the token.

    The tokens are laid along the text from its end, where blanks do not count.
    """
    text = text.rstrip()
    for dropped in range(min(_TRAILING, len(tokens) - 1) + 1):
        kept = tokens[: len(tokens) - dropped]
        tail = ""
        for token in reversed(kept):
            tail = token.text + tail
            begins = len(text) - len(tail.rstrip())
            if begins <= start:
                fits = tail.rstrip().endswith(text[max(begins, 0) :]) and token.text
                if fits and start - begins < len(token.text):
                    return token, start - begins
                break
    return None
