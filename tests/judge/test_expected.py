"""The expected score against calculations by hand."""

from __future__ import annotations

import math

import pytest

from lm_eval_healthcare.judge.backends.base import Token
from lm_eval_healthcare.judge.expected import Unexpected, expected_score


def at(text: str, **chances: float) -> Token:
    """A token; names of tokens are written `_4` for ` 4`."""
    return Token(text, {name.replace("_", " "): math.log(chance) for name, chance in chances.items()})


PLAIN = [at(" [", **{" [": 0.9}), at("RESULT", RESULT=1.0), at("]", **{"]": 1.0})]
FOUR = at(" 4", **{" 4": 0.5, " 5": 0.2, "4": 0.1, " 3": 0.1, " 10": 0.05, " A": 0.05})
"""0.6 for 4, 0.2 for 5 and 0.1 for 3: E = (2.4 + 1.0 + 0.3) / 0.9 = 3.7 / 0.9"""


def found(text: str, tokens: list[Token], digit: str = "4", **options: tuple[int, int]):  # type: ignore[no-untyped-def]
    place = text.rindex(digit)
    return expected_score(text, tokens, (place, place + len(digit)), **options)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        pytest.param("Good. [RESULT] 4", [], id="plain"),
        pytest.param("Good. [RESULT] 4", [at("<|im_end|>", x=1.0)], id="end of turn kept among the tokens"),
        pytest.param("Good. [RESULT] 4", [at("\n", x=1.0), at("</s>", x=1.0)], id="blank and end token"),
        pytest.param("Good. [RESULT] 4\n ", [at("\n ", x=1.0)], id="blanks in the text"),
        pytest.param("Good. [RESULT] 4", [at(" \n", x=1.0)], id="blanks stripped from the text"),
        pytest.param("Good. [RESULT] 4.", [at(".", x=1.0)], id="full stop"),
        pytest.param("Good. [RESULT] 4/5", [at("/", x=1.0), at("5", x=1.0)], id="out of five"),
        pytest.param("[RESULT] 4", [], id="the text begins with stripped blanks"),
        pytest.param("🩺 Bueno. [RESULT] 4", [], id="what stands before the kept tokens does not matter"),
    ],
)
def test_the_mean_at_the_place_of_the_score(text: str, after: list[Token]) -> None:
    result = found(text, [at("\ufffd", x=1.0), *PLAIN, FOUR, *after])
    assert result.score == pytest.approx(3.7 / 0.9)
    assert result.mass == pytest.approx(0.9)
    assert result.reason is None


def test_numbers_in_one_token_with_what_stands_around_them() -> None:
    """] 4. at 0.5, ] 2. at 0.25; `]` alone and another ending are something else: (2 + 0.5) / 0.75."""
    glued = at("] 4.", **{"] 4.": 0.5, "] 2.": 0.25, "]": 0.2, "] 5!": 0.05})
    result = found("So [RESULT] 4.", [at(" [", x=1.0), at("RESULT", x=1.0), glued])
    assert result.score == pytest.approx(2.5 / 0.75)
    assert result.mass == pytest.approx(0.75)
    bare = at("4.", **{"4.": 0.6, "3": 0.3, "1.": 0.1})  # 3 alone is a 3 as well: 2.4 + 0.9 + 0.1
    assert found("[RESULT] 4.", [at("[RESULT] ", x=1.0), bare]).score == pytest.approx(3.4)


def test_certain_and_indifferent_judges() -> None:
    text = "[RESULT] 5"
    certain = [at("[RESULT] ", x=1.0), at("5", **{"5": 1.0})]
    assert found(text, certain, "5").score == 5
    even = [at("[RESULT] ", x=1.0), at("5", **{str(k): 0.2 for k in range(1, 6)})]
    assert found(text, even, "5").score == pytest.approx(3)
    assert found(text, [even[0], at("5", **{"0": 0.5, "5": 0.5})], "5", scale=(0, 5)).score == pytest.approx(2.5)
    never = Token("5", {"5": 0.0, "1": -math.inf, "2": -9999.0})
    assert found(text, [even[0], never], "5").score == 5


def test_no_score_has_a_reason() -> None:
    text, tokens = "[RESULT] 4", [*PLAIN, FOUR]
    span = (9, 10)
    assert expected_score(None, tokens, span).reason is Unexpected.NO_SCORE
    assert expected_score(text, tokens, None).reason is Unexpected.NO_SCORE
    assert expected_score(text, [], span).reason is Unexpected.NO_PROBABILITIES
    assert expected_score("[RESULT] 10", tokens, (9, 11), (1, 10)).reason is Unexpected.SEVERAL_DIGITS
    assert expected_score(text, tokens, span, (1, 10)).reason is Unexpected.SEVERAL_DIGITS
    assert expected_score("[RESULT] 4 as said", PLAIN[:1], span).reason is Unexpected.NOT_KEPT
    assert expected_score(text, [at("something", x=1.0), at(" else", x=1.0)], span).reason is Unexpected.NOT_KEPT
    low = expected_score(text, [*PLAIN, at(" 4", **{" 4": 0.3, " A": 0.7})], span)
    assert low.reason is Unexpected.LOW_MASS
    assert low.mass == pytest.approx(0.3)
    assert math.isnan(low.score)
