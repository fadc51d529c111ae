"""Two runs on the same documents: every statistic against scipy, statsmodels or a hand calculation, and simulated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.analysis.paired_runs import (
    BCA,
    CLUSTERED_T,
    FEW_CLUSTERS,
    FEW_DOCUMENTS,
    MCNEMAR,
    NO_DIFFERENCE,
    NO_VARIATION,
    PERCENTILE,
    T_TEST,
    TOO_FEW,
    TOO_FEW_CLUSTERS,
    Comparison,
    bootstrap_interval,
    compare_paired,
    detectable_in_stderrs,
    mcnemar,
)

NAN = math.nan


def compared(a: Any, b: Any, clusters: Any = None, resamples: int = 200, **more: Any) -> Comparison:
    return compare_paired(a, b, np.random.default_rng(0), clusters, resamples, **more)


def right(only_a: int, only_b: int, both: int = 5, neither: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of 0 and 1 with these numbers of documents."""
    a = [1] * only_a + [0] * only_b + [1] * both + [0] * neither
    b = [0] * only_a + [1] * only_b + [1] * both + [0] * neither
    return np.array(a, dtype=float), np.array(b, dtype=float)


def test_mcnemar_by_hand() -> None:
    """Of ten documents that differ, two at most on one side: 2 (1 + 10 + 45) / 1024; mid-p takes 45 / 1024 off."""
    found = mcnemar(*right(2, 8))
    assert (found.only_a, found.only_b) == (2, 8)
    assert found.p == pytest.approx(112 / 1024)
    assert found.mid_p == pytest.approx(67 / 1024)


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (3, 3), (1, 0), (0, 6), (14, 5), (400, 337)])
def test_mcnemar_is_the_binomial_test(only_a: int, only_b: int) -> None:
    found, n = mcnemar(*right(only_a, only_b)), only_a + only_b
    assert found.p == pytest.approx(stats.binomtest(only_a, n).pvalue if n else 1.0)
    # By hand: the mean of P(as far or farther) and P(farther), both sides.
    k = min(only_a, only_b)
    farther = 2 * sum(math.comb(n, i) / 2**n for i in range(k)) if k < n / 2 else 1 - math.comb(n, k) / 2**n
    assert found.mid_p == pytest.approx((found.p + farther) / 2 if k < n / 2 else 1.0)


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (3, 3), (14, 5)])
def test_mcnemar_of_statsmodels(only_a: int, only_b: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    assert mcnemar(*right(only_a, only_b)).p == pytest.approx(
        tables.mcnemar([[5, only_a], [only_b, 5]], exact=True).pvalue
    )


def test_real_valued_scores_as_scipy_tests_them() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=37), rng.normal(0.3, 1.2, size=37)
    found = compared(a, b)
    t = stats.ttest_rel(a, b)
    assert (found.test, found.n, found.mcnemar) == (T_TEST, 37, None)
    assert found.p == found.p_t == pytest.approx(t.pvalue)
    assert found.difference / found.stderr == pytest.approx(t.statistic)
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue)
    interval = stats.ttest_1samp(a, 0).confidence_interval()
    assert found.interval_a == pytest.approx((interval.low, interval.high))


def test_effect_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard deviation 1, standard error 1 / sqrt(3)."""
    found = compared([2, 4, 6], [1, 2, 3])
    assert (found.difference, found.effect, found.mean_a, found.mean_b) == (2, 2, 4, 2)
    assert found.stderr == pytest.approx(1 / math.sqrt(3))
    assert found.flags == (FEW_DOCUMENTS,)


def test_documents_without_a_score_are_left_out_and_counted() -> None:
    found = compared([1, NAN, 3, 4, math.inf, NAN], [0, 1, NAN, 2, 1, NAN])
    assert (found.n, found.unscored_a, found.unscored_b) == (2, 3, 2)
    assert found.difference == 1.5  # (1 - 0 + 4 - 2) / 2


def test_clustered_standard_error_by_hand() -> None:
    """Differences 1, 3 | 5, 7: mean 4, sums of residuals -4 and 4, sqrt(2/1 x 32) / 4 = 2."""
    found = compared([1, 3, 5, 7], [0, 0, 0, 0], ["x", "x", "y", "y"])
    assert (found.stderr, found.clusters, found.test) == (pytest.approx(2), 2, CLUSTERED_T)
    assert found.flags[0] == FEW_CLUSTERS
    # Alone: variance 20 / 3 over 4 documents; the design effect is 4 / (20 / 12).
    assert found.design_effect == pytest.approx(4 / (20 / 12))
    assert found.p == pytest.approx(2 * stats.t.sf(2, 1))


def test_clustered_standard_error_of_statsmodels() -> None:
    models = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(12), rng.integers(1, 9, size=12))
    a = rng.normal(size=12)[clusters] + rng.normal(size=len(clusters))
    b = rng.normal(size=len(clusters))
    expected = models.OLS(a - b, np.ones(len(a))).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    found = compared(a, b, clusters)
    assert found.stderr == pytest.approx(float(expected.bse[0]))
    assert found.p == pytest.approx(float(expected.pvalues[0]))


def test_clusters_of_one_document_change_nothing() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 25))
    alone, each = compared(a, b), compared(a, b, range(25))
    assert (each.stderr, each.p, each.design_effect) == pytest.approx((alone.stderr, alone.p, 1))
    assert each.interval == pytest.approx(alone.interval)


@pytest.mark.parametrize("n", [2, 5, 12, 40, 2769, 20_000])
def test_detectable_difference_of_statsmodels(n: int) -> None:
    power = pytest.importorskip("statsmodels.stats.power")
    expected = power.TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8) * math.sqrt(n)
    assert detectable_in_stderrs(n - 1) == pytest.approx(expected, rel=1e-3)


def test_detectable_difference_by_hand() -> None:
    """For many documents (1.95996 + 0.84162) standard errors."""
    assert detectable_in_stderrs(10**6) == pytest.approx(2.80158, abs=1e-4)
    critical = stats.t.ppf(0.975, 11)
    shift = detectable_in_stderrs(11)
    assert stats.nct.sf(critical, 11, shift) + stats.nct.cdf(-critical, 11, shift) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("kind", [BCA, PERCENTILE])
@pytest.mark.parametrize("binary", [False, True])
def test_bootstrap_interval_of_scipy(kind: str, binary: bool) -> None:
    """The same intervals but for the draws, whose ends vary by about 1% of the width at 20,000 draws.

    The width for few documents is scipy's at the level that belongs to the deviate sqrt(n / (n - 1)) t.
    """
    rng = np.random.default_rng(4)
    n = 20 if binary else 300  # of which more than 256 different ones
    d = rng.integers(-1, 2, size=n).astype(float) if binary else rng.exponential(size=n)
    level = 1 - 2 * stats.norm.sf(math.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1))
    expected = stats.bootstrap(
        (d,),
        np.mean,
        n_resamples=20_000,
        method={BCA: "BCa", PERCENTILE: "percentile"}[kind],
        rng=rng,
        batch=2000,
        confidence_level=level,
    ).confidence_interval
    (low, high), exact = bootstrap_interval(d, None, rng, 20_000, kind)
    width = expected.high - expected.low
    assert exact
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.04 * width)
    assert 0.95 < level < 0.97


def test_cluster_bootstrap_draws_clusters() -> None:
    """With equal clusters it is the bootstrap of their means, which is wider than that of the documents."""
    rng = np.random.default_rng(5)
    of_cluster = rng.normal(size=40)
    d, clusters = np.repeat(of_cluster, 6), np.repeat(np.arange(40), 6)
    found, _ = bootstrap_interval(d, clusters, np.random.default_rng(0), 5000, PERCENTILE)
    means, _ = bootstrap_interval(of_cluster, None, np.random.default_rng(0), 5000, PERCENTILE)
    documents, _ = bootstrap_interval(d, None, np.random.default_rng(0), 5000, PERCENTILE)
    assert found == pytest.approx(means)
    # Six equal documents a cluster: the interval of documents is narrower by about sqrt(6).
    assert (found[1] - found[0]) / (documents[1] - documents[0]) == pytest.approx(math.sqrt(6), rel=0.1)


def test_the_seed_fixes_the_interval() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(2, 50))
    first, again = (compare_paired(a, b, np.random.default_rng(7)) for _ in range(2))
    assert first == again
    assert compare_paired(a, b, np.random.default_rng(8)).interval != first.interval


@pytest.mark.parametrize(
    ("a", "b", "clusters", "reason", "p"),
    [
        ([], [], None, TOO_FEW, NAN),
        ([NAN, 1], [1, NAN], None, TOO_FEW, NAN),
        ([0.5], [0.25], None, TOO_FEW, NAN),
        ([0.5, 0.25], [0.5, 0.25], None, NO_DIFFERENCE, NAN),
        ([0.5, 0.25], [0.25, 0.0], None, NO_VARIATION, NAN),
        ([0.3, 0.6, 0.9], [0.2, 0.5, 0.8], None, NO_VARIATION, NAN),  # but for rounding
        ([1, 0, 1], [1, 0, 1], None, NO_DIFFERENCE, 1.0),  # McNemar's test has nothing against equality
        ([1] * 6, [0] * 6, None, NO_VARIATION, 2 / 64),
        ([1, 2, 3], [0, 0, 0], [1, 1, 1], TOO_FEW_CLUSTERS, NAN),
        ([1, 3, 1, 3], [0, 0, 0, 0], [0, 0, 1, 1], NO_VARIATION, NAN),  # both clusters have the mean of all
    ],
)
def test_what_is_undefined_says_why(a: Any, b: Any, clusters: Any, reason: str, p: float) -> None:
    found = compared(a, b, clusters)
    assert found.reason == reason
    assert found.p == pytest.approx(p, nan_ok=True)
    assert np.isnan([*found.interval, found.stderr, found.effect, found.detectable]).all()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        compared([1, 2], [1])
    with pytest.raises(ValueError, match="bca or percentile"):
        compared([1, 2], [1, 2], interval="normal")


RUNS = 1000
# An event of probability 5% comes up 5% +- 0.69% (standard deviation) of the time in 1000 runs.


def test_type_one_error_of_paired_tests() -> None:
    """Two equal models: exact McNemar at most 5%, mid-p, t and Wilcoxon near it."""
    rng, below = np.random.default_rng(9), np.zeros(4)
    for _ in range(RUNS):
        hard = rng.random(80)
        a, b = (rng.random((2, 80)) < hard).astype(float)
        binary = mcnemar(a, b)
        real = compared(hard + rng.gamma(2, size=80), hard + rng.gamma(2, size=80), resamples=0)
        below += np.array([binary.p, binary.mid_p, real.p_t, real.p_wilcoxon]) < 0.05
    exact, mid, t, wilcoxon = below / RUNS
    assert exact <= 0.055
    assert 0.03 <= mid <= 0.07
    assert 0.03 <= t <= 0.07
    assert 0.03 <= wilcoxon <= 0.07


def test_type_one_error_of_clustered_documents() -> None:
    """Differences that go together in 30 clusters of 6: the clustered test holds 5%, the other one is far above."""
    rng, below, inside = np.random.default_rng(10), np.zeros(2), 0
    clusters = np.repeat(np.arange(30), 6)
    for nth in range(RUNS):
        d = rng.normal(size=30)[clusters] + rng.normal(size=180)
        found = compare_paired(d, np.zeros(180), rng, clusters, 400 if nth < 500 else 0)
        below += np.array([found.p, found.p_t]) < 0.05
        inside += found.interval[0] <= 0 <= found.interval[1]
    clustered, unclustered = below / RUNS
    assert 0.03 <= clustered <= 0.07
    # By hand: variance is 1 + 5 x 0.5 = 3.5 times as large, so 1.96 stands for 1.96 / sqrt(3.5), p = 0.295.
    assert unclustered == pytest.approx(0.295, abs=0.06)
    assert 0.92 <= inside / 500 <= 0.97


def test_detectable_difference_is_found_in_four_of_five() -> None:
    """Standard deviation 1, 25 documents: 80% +- 0.57% of 5000 runs."""
    runs = np.random.default_rng(11).normal(detectable_in_stderrs(24) / 5, 1, size=(5000, 25))
    assert (stats.ttest_1samp(runs, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("n", [12, 30])
def test_coverage_of_the_bootstrap_interval(n: int) -> None:
    rng, inside = np.random.default_rng(12), 0
    for _ in range(RUNS):
        (low, high), _ = bootstrap_interval(rng.normal(size=n), None, rng, 400)
        inside += low <= 0 <= high
    assert 0.92 <= inside / RUNS <= 0.97


def test_mcnemar_is_for_right_and_wrong_only() -> None:
    assert compared([1, 0, 1, 1], [0, 0, 1, 0]).test == MCNEMAR
    assert compared([1, 0, 1, 0.5], [0, 0, 1, 0]).test == T_TEST
