"""Resampled coefficients against resamples that are written out, and how often the intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.analysis.coefficients import (
    METHODS,
    features,
    gapped_correlations,
    noisy_correlations,
    weighted_correlations,
)
from lm_eval_healthcare.analysis.intervals import BCA, CHOSEN, EXPANDED, PERCENTILE, fisher_z, interval, perfect_order

SCIPY = {
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
}


def truth(method: str, rho: float) -> float:
    """The coefficient of a bivariate normal population with Pearson's rho."""
    if method == "pearson":
        return rho
    return 6 / math.pi * math.asin(rho / 2) if method == "spearman" else 2 / math.pi * math.asin(rho)


def coverage(
    method: str, n: int, rho: float, reps: int, *, kind: str | None = None, df: int = 0, seed: int = 7, draws: int = 599
) -> float:
    """Share of samples whose interval holds the truth, in percent; `df` for Student's t instead of normal columns."""
    rng = np.random.default_rng(seed)
    held, pairs = 0, 20
    for _ in range(reps // pairs):
        x = rng.standard_normal((n, pairs))
        y = rho * x + math.sqrt(1 - rho**2) * rng.standard_normal((n, pairs))
        shrink = np.sqrt(rng.chisquare(df, (n, pairs)) / df) if df else 1.0
        values = np.concatenate([x / shrink, y / shrink], axis=1)
        times = rng.multinomial(n, np.full(n, 1 / n), draws).astype(float)
        real, drawn, left_out = (
            weighted_correlations(values, weights, method) for weights in (np.ones((1, n)), times, 1 - np.eye(n))
        )
        for a in range(pairs):
            b = a + pairs
            (low, high), _ = interval(float(real[0, a, b]), drawn[:, a, b], left_out[:, a, b], method, kind)
            held += low <= truth(method, rho) <= high
    return 100 * held / reps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [12, 30])
def test_95_percent_intervals_hold_the_truth_as_often_as_they_say(method: str, n: int) -> None:
    # Of 400 samples the share itself is known to within 2 points; with 1,000 it is 92 to 97 (see `intervals`).
    assert 91 <= coverage(method, n, 0.5, 400) <= 98.5


def test_pearson_needs_more_than_percentiles() -> None:
    plain = coverage("pearson", 12, 0.5, 400, kind=PERCENTILE)
    expanded = coverage("pearson", 12, 0.5, 400, kind=EXPANDED)
    assert plain + 2 <= expanded >= 92
    assert coverage("pearson", 20, 0.5, 400, df=5) >= 91  # heavier tails than normal


def test_five_models_are_few() -> None:
    """At 5 models intervals hold the truth from 92 times of 100 (Pearson, high coefficients) to always (Kendall)."""
    assert 88 <= coverage("pearson", 5, 0.9, 400) <= 95
    assert coverage("kendall", 5, 0.9, 400) >= 98


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_resamples_written_out(method: str) -> None:
    rng = np.random.default_rng(1)
    values = np.round(rng.standard_normal((9, 3)), 1) + np.array([0.0, 1000.0, -3.0])  # rounded: with ties
    times = rng.multinomial(9, np.full(9, 1 / 9), 40)
    found = weighted_correlations(values, times.astype(float), method)
    for drawn, r in zip(times, found, strict=True):
        written = np.repeat(values, drawn, axis=0)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert r[a, b] == pytest.approx(SCIPY[method](written[:, a], written[:, b]), abs=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_features_and_noisy_tables_are_scipys(method: str) -> None:
    rng = np.random.default_rng(2)
    values = np.round(rng.standard_normal((5, 10, 3)), 1)
    found = noisy_correlations(values, method)
    for table, r in zip(values, found, strict=True):
        vectors = features(table, method)
        wanted = SCIPY[method](table[:, 0], table[:, 2])
        assert r[0, 2] == pytest.approx(wanted, abs=1e-10)
        assert vectors[:, 0] @ vectors[:, 2] == pytest.approx(wanted, abs=1e-10)


def test_a_resample_of_one_model_has_no_coefficient() -> None:
    values = np.arange(8.0).reshape(4, 2)
    found = weighted_correlations(values, np.array([[4.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]), "spearman")
    assert np.isnan(found[0]).all()
    assert found[1, 0, 1] == pytest.approx(1.0)


def test_gaps_take_models_from_their_own_pairs_only() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((8, 3))
    values[[1, 4], 2] = np.nan
    r = gapped_correlations(values, np.ones((1, 8)), "pearson")[0]
    assert r[0, 1] == pytest.approx(stats.pearsonr(values[:, 0], values[:, 1]).statistic)
    there = np.isfinite(values[:, 2])
    assert r[1, 2] == pytest.approx(stats.pearsonr(values[there, 1], values[there, 2]).statistic)
    only_those_without = np.zeros((1, 8))
    only_those_without[0, [1, 4]] = 4
    assert np.isnan(gapped_correlations(values, only_those_without, "pearson")[0, 0, 2])


def test_bca_is_scipys() -> None:
    pytest.importorskip("scipy", minversion="1.15", reason="its bootstrap takes a generator by that name since then")
    rng = np.random.default_rng(4)
    x = rng.standard_normal(15)
    y = x + rng.standard_normal(15)
    draws = rng.multinomial(15, np.full(15, 1 / 15), 20000).astype(float)
    values = np.stack([x, y], axis=1)
    r = stats.pearsonr(x, y).statistic
    ends, kind = interval(
        r,
        weighted_correlations(values, draws, "pearson")[:, 0, 1],
        weighted_correlations(values, 1 - np.eye(15), "pearson")[:, 0, 1],
        "pearson",
        BCA,
    )
    wanted = stats.bootstrap(
        (x, y), lambda a, b, axis: stats.pearsonr(a, b, axis=axis).statistic, paired=True, vectorized=True,
        method="BCa", n_resamples=20000, rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    assert kind == BCA
    assert ends == pytest.approx((wanted.low, wanted.high), abs=0.02)


def test_fisher_is_scipys() -> None:
    x, y = np.array([1.0, 2, 3, 4, 5, 6, 7]), np.array([2.0, 1, 4, 3, 7, 5, 6])
    found = stats.pearsonr(x, y)
    wanted = found.confidence_interval(0.95)
    assert fisher_z(found.statistic, 7) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert fisher_z(1.0, 7) == (1.0, 1.0)
    assert all(map(math.isnan, fisher_z(0.5, 3)))


def test_perfect_order_by_hand() -> None:
    # 5 models: neighbours that change places give Spearman 1 - 6 * 2 / 120 = 0.9, half the way is 0.95; its standard
    # error in artanh is sqrt((1 + 0.95^2 / 2) / 2) = 0.8518: artanh 0.95 - 1.96 * 0.8518 = 1.8318 - 1.6696 = 0.1622.
    assert perfect_order(1.0, 5, "spearman") == pytest.approx((math.tanh(0.1622), 1.0), abs=2e-4)
    # Kendall: 1 - 4 / 20 = 0.8, half the way 0.9; sqrt(0.437) = 0.6611: 1.4722 - 1.2957 = 0.1765.
    low, high = perfect_order(-1.0, 5, "kendall")
    assert (low, high) == (-1.0, pytest.approx(-math.tanh(0.1765), abs=2e-4))


def test_no_interval_where_none_can_be() -> None:
    draws, left_out = np.linspace(0.1, 0.9, 99), np.linspace(0.4, 0.6, 4)
    assert all(map(math.isnan, interval(0.5, draws, left_out, "pearson")[0]))  # four models
    mostly = np.where(np.arange(99) % 2 == 0, np.nan, draws)
    assert all(map(math.isnan, interval(0.5, mostly, np.linspace(0.4, 0.6, 9), "pearson")[0]))
    with pytest.raises(ValueError, match="expected one of percentile, bca"):
        interval(0.5, draws, left_out, "pearson", "basic")
    assert set(CHOSEN) == set(METHODS)
