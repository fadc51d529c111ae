"""Resilience to rewording: formulas against hand calculations, a simulation with known variances, undefined cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.repeated_scores import NO_RANGE
from lm_eval_healthcare.analysis.resilience import TOO_FEW_VERSIONS, clusters, resilience

NAN = math.nan


def test_hand_example() -> None:
    """Two models, three questions, an original and two rewordings.

    Question 0: model A 0.2 0.4 0.6, mean 0.4, variance (0.04 + 0 + 0.04)/3 = 0.08/3; model B 0 0 0.3, mean 0.1,
    variance (0.01 + 0.01 + 0.04)/3 = 0.06/3; their mean is 0.07/3. Question 1: A only, 0.5 0.5 0.5, variance 0.
    Question 2: A only, 1.0 with no rewording: no variance. The range is 0 to 1, so scaling changes nothing.
    Mean variance (0.07/3 + 0)/2 = 0.035/3; variance of variances: both are 0.035/3 away from it: (0.035/3)^2.
    Mean change: A 0.5 - 0.2 = 0.3; B 0.15 - 0 = 0.15; 0; mean 0.15.
    """
    scores = [[0.2, 0.4, 0.6], [0, 0, 0.3], [0.5, 0.5, 0.5], [1.0, NAN, NAN]]
    found = resilience(scores, [0, 0, 1, 2])
    assert found.range == (0.0, 1.0)
    np.testing.assert_allclose(found.variances, [0.07 / 3, 0, NAN], rtol=1e-12)
    assert found.mean_variance == pytest.approx(0.035 / 3, rel=1e-12)
    assert found.variance_of_variance == pytest.approx((0.035 / 3) ** 2, rel=1e-12)
    assert found.mean_change == pytest.approx(0.15, rel=1e-12)
    assert (found.n_prompts, found.n_undefined, found.no_variance) == (3, 1, 1)
    assert found.undefined == {TOO_FEW_VERSIONS: 1}
    assert (found.versions, found.fewest_versions) == (3, 3)


def test_scaling_divides_by_the_squared_range() -> None:
    """Scores from 2 to 6: the variance of 2 4 6 is (4 + 0 + 4)/3 = 8/3, divided by 4^2 = 16 it is 1/6."""
    found = resilience([[2.0, 4.0, 6.0]], [0])
    assert found.raw_mean_variance == pytest.approx(8 / 3, rel=1e-12)
    assert found.mean_variance == pytest.approx(1 / 6, rel=1e-12)
    # The range of the whole study may be wider than that of one run: 0 to 8 gives 8/3/64 = 1/24.
    assert resilience([[2.0, 4.0, 6.0]], [0], limits=(0.0, 8.0)).mean_variance == pytest.approx(1 / 24, rel=1e-12)


@pytest.mark.parametrize(("scale", "shift"), [(100.0, 0.0), (4.0, 1.0), (1.0, -1.5)])
def test_scaled_variances_do_not_depend_on_the_unit(scale: float, shift: float) -> None:
    scores = np.random.default_rng(3).uniform(size=(12, 7))
    plain, other = resilience(scores, range(12)), resilience(scale * scores + shift, range(12))
    np.testing.assert_allclose(plain.variances, other.variances, rtol=1e-9)


def test_without_the_original() -> None:
    """Rewordings 1 and 3 alone: mean 2, variance 1; the range still counts the original 5, so 1/(5 - 1)^2."""
    found = resilience([[5.0, 1.0, 3.0]], [0], with_original=False)
    assert found.raw_mean_variance == 1.0
    assert found.mean_variance == pytest.approx(1 / 16)
    assert found.versions == 2
    assert found.mean_change == pytest.approx(-3.0)
    assert resilience([[5.0, 1.0, NAN]], [0], with_original=False).undefined == {TOO_FEW_VERSIONS: 1}


def test_numpy_agrees_where_nothing_is_missing() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 7))
    found = resilience(scores, range(50))
    assert found.raw_variance_of_variance == pytest.approx(scores.var(axis=1).var(), rel=1e-9)


def test_a_metric_with_one_value_only_is_undefined_and_counted() -> None:
    found = resilience([[0.3, 0.3, 0.3], [0.3, 0.3, NAN], [0.3, NAN, NAN]], [0, 1, 2])
    assert math.isnan(found.mean_variance)
    assert math.isnan(found.variance_of_variance)
    assert found.raw_mean_variance == 0.0
    assert found.undefined == {NO_RANGE: 2, TOO_FEW_VERSIONS: 1}
    assert found.n_undefined == 3


def test_no_scores_at_all() -> None:
    found = resilience(np.full((2, 4), NAN), [0, 1])
    assert found.n_undefined == 2
    assert all(math.isnan(one) for one in (*found.range, found.mean_variance, found.mean_change))
    assert resilience(np.empty((0, 3)), []).n_prompts == 0


def test_by_version() -> None:
    """Version 1: (0.4 + 0.8)/2 = 0.6, changes 0.2 and 0.3; version 2: one answer, 0.6, change 0.4."""
    found = resilience([[0.2, 0.4, 0.6], [0.5, 0.8, NAN]], [0, 1])
    original, one, two = found.by_version
    assert (original.mean, original.mean_change, original.n) == (0.35, 0.0, 2)
    assert (one.mean, one.mean_change, one.n) == pytest.approx((0.6, 0.25, 2))
    assert (two.mean, two.mean_change, two.n) == pytest.approx((0.6, 0.4, 1))


def test_known_variances_are_recovered() -> None:
    """Normal scores with standard deviation 0.05 around means of 4,000 questions, 7 versions.

    A population variance of 7 scores expects 6/7 of 0.0025, and varies with 2 * 0.0025^2 * 6 / 7^2 (a chi-squared
    distribution with 6 degrees of freedom); the standard error of the mean over 4,000 questions is 0.6% of it.
    """
    rng = np.random.default_rng(8)
    n, versions, variance = 4000, 7, 0.05**2
    scores = rng.uniform(0.2, 0.8, size=(n, 1)) + rng.normal(scale=0.05, size=(n, versions))
    found = resilience(scores, range(n))
    assert found.raw_mean_variance == pytest.approx(variance * 6 / 7, rel=0.03)
    assert found.raw_variance_of_variance == pytest.approx(2 * variance**2 * 6 / 49, rel=0.12)
    assert abs(found.mean_change) < 0.005


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        resilience([[1, 2], [3, 4]], [0])


def test_clusters_are_half_decades_of_the_mean_and_decades_of_the_spread() -> None:
    means = {"far": 1e-1, "a": 1e-4, "b": 3e-4, "c": 9e-4, "same_mean": 3e-4, "still": 0.0, "none": NAN}
    spread = {"far": 1e-3, "a": 1e-8, "b": 5e-8, "c": 2e-7, "same_mean": 1e-3, "still": 0.0, "none": NAN}
    # a-b and b-c are within 3.16 in the mean and 10 in the spread; a-c are joined by b. same_mean has another spread.
    assert clusters(means, spread) == [["still"], ["a", "b", "c"], ["same_mean"], ["far"]]


def test_clusters_do_not_depend_on_the_order_of_metrics() -> None:
    rng = np.random.default_rng(1)
    means = {f"m{place}": float(10**value) for place, value in enumerate(rng.uniform(-6, -1, 20))}
    spread = {name: value**2 for name, value in means.items()}
    turned = dict(reversed(means.items()))
    assert clusters(means, spread) == clusters(turned, spread)
    assert sorted(name for group in clusters(means, spread) for name in group) == sorted(means)


def test_a_spread_of_zero_is_near_zero_only() -> None:
    """One question only: no variance varies, and the means alone decide."""
    assert clusters({"a": 1e-3, "b": 2e-3, "c": 1e-1}, {"a": 0.0, "b": 0.0, "c": 0.0}) == [["a", "b"], ["c"]]
    assert clusters({"a": 1e-3, "b": 2e-3}, {"a": 0.0, "b": 1e-7}) == [["a"], ["b"]]
    assert clusters({}, {}) == []


def test_metrics_without_a_spread_are_in_no_cluster() -> None:
    assert clusters({"a": 1e-3, "b": 2e-3, "c": NAN}, {"a": NAN, "b": 1e-7, "c": 1e-7}) == [["b"]]


def test_one_question_has_a_mean_variance_but_no_variance_of_variances() -> None:
    found = resilience([[0.0, 1.0]], [0])  # mean 1/2, so the variance is 1/4
    assert found.mean_variance == 0.25
    assert math.isnan(found.variance_of_variance)
    assert math.isnan(found.raw_variance_of_variance)
