"""Perplexities against hand calculations, the harness's own functions, the jackknife and the bootstrap."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from lm_eval.api.metrics import bits_per_byte, weighted_perplexity

from lm_eval_healthcare.scoring.perplexity import (
    bits_per_unit,
    bits_per_unit_stderr,
    byte_count,
    corpus_perplexity,
    corpus_perplexity_stderr,
    is_extreme,
    nats_per_unit,
    nats_per_unit_stderr,
    scored_pairs,
    word_count,
)

NAN = math.nan


def corpus(n: int, seed: int) -> list[tuple[float, float]]:
    """Documents of 5 to 400 bytes at about 0.8 nats a byte, noisy and with a fixed cost a document."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 400, n)
    return [(-float(k * rng.gamma(16, 0.05) + 3), float(k)) for k in lengths]


def test_numerator_and_denominator_are_of_the_same_text() -> None:  # case b39
    assert corpus_perplexity([(-2048.0, 1500)]) == pytest.approx(3.917029, abs=1e-6)
    assert corpus_perplexity([(-2048.0, 6000)]) == pytest.approx(1.406822, abs=1e-6)  # what must not be reported


def test_by_hand() -> None:
    """Four nats over four words: R = 1. Residuals are 3 - 2 = 1 and 1 - 2 = -1: s = sqrt(2/1 * 2) / 4 = 0.5."""
    pairs = [(-3.0, 2), (-1.0, 2)]
    assert nats_per_unit(pairs) == 1.0
    assert nats_per_unit_stderr(pairs) == 0.5
    assert corpus_perplexity(pairs) == pytest.approx(math.e)
    assert corpus_perplexity_stderr(pairs) == pytest.approx(math.e / 2)
    assert bits_per_unit(pairs) == pytest.approx(1.442695, abs=1e-6)
    assert bits_per_unit_stderr(pairs) == pytest.approx(0.7213475, abs=1e-6)


def test_long_documents_weigh_more() -> None:
    """(10 + 1) / (100 + 1), not the mean of 10/100 and 1/1."""
    assert nats_per_unit([(-10.0, 100), (-1.0, 1)]) == pytest.approx(11 / 101)


def test_same_as_the_harness() -> None:
    pairs = corpus(50, seed=1)
    assert corpus_perplexity(pairs) == pytest.approx(weighted_perplexity(pairs), rel=1e-12)
    assert bits_per_unit(pairs) == pytest.approx(bits_per_byte(pairs), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (nats_per_unit, nats_per_unit_stderr),
        (bits_per_unit, bits_per_unit_stderr),
        (corpus_perplexity, corpus_perplexity_stderr),
    ],
)
def test_error_against_jackknife_and_bootstrap(value, error) -> None:  # type: ignore[no-untyped-def]
    pairs = corpus(400, seed=2)
    n = len(pairs)
    left_out = np.array([value(pairs[:i] + pairs[i + 1 :]) for i in range(n)])
    jackknife = math.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
    assert error(pairs) == pytest.approx(jackknife, rel=0.01)
    rng = np.random.default_rng(3)
    draws = [value([pairs[i] for i in rng.integers(0, n, n)]) for _ in range(1000)]
    # 1,000 draws know a standard deviation to about 1/sqrt(2000) = 2.2 %; four of those.
    assert error(pairs) == pytest.approx(float(np.std(draws)), rel=0.09)


def test_error_of_equal_lengths_is_that_of_a_mean() -> None:
    values = [2.0, 3.5, 1.0, 4.0, 2.5]
    expected = statistics.stdev(values) / math.sqrt(5) / 10
    assert nats_per_unit_stderr([(-v, 10) for v in values]) == pytest.approx(expected)


def test_missing_documents_are_ignored_in_both_sums() -> None:
    pairs = [(-3.0, 2), (NAN, 100), (-1.0, 2), (NAN, NAN)]
    assert scored_pairs(pairs) == [(-3.0, 2.0), (-1.0, 2.0)]
    assert nats_per_unit(pairs) == 1.0
    assert nats_per_unit_stderr(pairs) == 0.5


@pytest.mark.parametrize("pairs", [[], [(NAN, 3)]])
def test_no_document_no_number(pairs: list[tuple[float, float]]) -> None:
    for function in (nats_per_unit, bits_per_unit, corpus_perplexity, nats_per_unit_stderr, corpus_perplexity_stderr):
        assert math.isnan(function(pairs))


def test_one_document_has_no_error() -> None:
    assert math.isnan(corpus_perplexity_stderr([(-3.0, 2)]))
    assert math.isnan(bits_per_unit_stderr([(-3.0, 2), (NAN, 2)]))


def test_overflow_is_infinity_and_nats_stay_finite() -> None:
    """5,000 nats a word: e^5000 does not fit into a float (the limit is about e^709.8)."""
    pairs = [(-50_000.0, 10), (-101_000.0, 20)]
    with pytest.raises(OverflowError):
        math.exp(151_000 / 30)
    assert corpus_perplexity(pairs) == math.inf
    assert corpus_perplexity_stderr(pairs) == math.inf
    assert nats_per_unit(pairs) == pytest.approx(151_000 / 30)
    assert bits_per_unit(pairs) == pytest.approx(151_000 / 30 / 0.6931471805599453)
    assert math.isfinite(bits_per_unit_stderr(pairs))


def test_no_spread_no_error_even_beside_infinity() -> None:
    assert corpus_perplexity_stderr([(-50_000.0, 10), (-50_000.0, 10)]) == 0.0


def test_an_impossible_text_makes_the_corpus_infinite() -> None:
    pairs = [(-math.inf, 10), (-3.0, 10)]
    assert corpus_perplexity(pairs) == math.inf
    assert math.isnan(corpus_perplexity_stderr(pairs))


@pytest.mark.parametrize(
    ("text", "words", "in_bytes"),
    [
        ("two words", 2, 9),
        ("two  words\n", 3, 11),  # the published split counts the empty piece at the end
        ("", 1, 0),
        ("Ménière", 1, 9),  # e acute and e grave take two bytes each
        ("\u00a0x", 2, 3),  # a no-break space is white space
    ],
)
def test_lengths(text: str, words: int, in_bytes: int) -> None:
    assert word_count(text) == words
    assert byte_count(text) == in_bytes


def test_extremes() -> None:  # case b40
    assert is_extreme(24_000_000.0)
    assert is_extreme(math.inf)
    assert not is_extreme(41.0)
    assert not is_extreme(math.nan)
