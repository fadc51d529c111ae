"""The median over documents and its standard error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.aggregate import scored_median, scored_median_stderr

Z = 2.5758293035489004  # the 0.995 quantile of the normal distribution, from any table


def test_median_of_what_exists() -> None:
    assert scored_median([3.0, math.nan, 1.0, 2.0]) == 2.0
    assert scored_median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert scored_median([1.0, math.inf, math.inf]) == math.inf
    assert scored_median([1.0, 2.0, math.inf]) == 2.0
    assert math.isnan(scored_median([math.nan]))
    assert math.isnan(scored_median([]))


@pytest.mark.parametrize(
    ("n", "k"),
    [
        (7, 1),  # 4 - 2.5758 * 1.3229 = 0.59
        (10, 1),  # 5.5 - 2.5758 * 1.5811 = 1.43
        (20, 5),  # 10.5 - 2.5758 * 2.2361 = 4.74
        (100, 38),  # 50.5 - 2.5758 * 5 = 37.62
    ],
)
def test_order_statistics_by_hand(n: int, k: int) -> None:
    values = [float(place * place) for place in range(1, n + 1)]  # x_(i) = i squared
    wanted = ((n - k + 1) ** 2 - k**2) / (2 * Z)
    assert scored_median_stderr([*values[::-1], math.nan]) == pytest.approx(wanted, rel=1e-12)


def test_where_there_is_no_error() -> None:
    assert math.isnan(scored_median_stderr([1.0] * 6))
    assert math.isnan(scored_median_stderr([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, math.inf]))
    assert scored_median_stderr([1.0] * 7) == 0.0


@pytest.mark.parametrize(("n", "least", "most"), [(15, 1.0, 1.25), (40, 1.0, 1.2), (201, 0.95, 1.1), (801, 0.95, 1.07)])
def test_against_the_spread_of_medians(n: int, least: float, most: float) -> None:
    """The errors are on average the standard deviation of the medians of many skewed samples, or a little more."""
    rng = np.random.default_rng(5)
    samples = rng.exponential(size=(4000, n))
    spread = float(np.std(np.median(samples, axis=1)))
    errors = [scored_median_stderr(row.tolist()) for row in samples]
    assert least < float(np.mean(errors)) / spread < most
