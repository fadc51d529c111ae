"""Permutation p-values: every order of few models, and many of more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.analysis.coefficients import METHODS
from lm_eval_healthcare.analysis.permutation import orders, permutation_p


def test_three_models_by_hand() -> None:
    # Orders of 1 2 3 against 1 2 3 have Spearman 1, .5, .5, -.5, -.5, -1: two of six are as far as 1, all as far as .5.
    values = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 3.0], [3.0, 3.0, 2.0]])
    found = permutation_p(values, orders(3, np.random.default_rng(0), 10), "spearman")
    assert found[0, 1] == pytest.approx(1 / 3)
    assert found[0, 2] == 1.0
    assert math.isnan(found[1, 0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tied", [False, True])
def test_exact_p_is_scipys(method: str, tied: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 4, (2, 6)).astype(float) if tied else rng.standard_normal((2, 6))
    measure = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[method]
    wanted = stats.permutation_test(
        (x,), lambda one: abs(measure(one, y).statistic), permutation_type="pairings", alternative="greater",
        n_resamples=math.inf, vectorized=False,
    ).pvalue  # fmt: skip
    tried = orders(6, rng, 0)
    assert tried.exact
    assert len(tried.rows) == 720
    assert permutation_p(np.stack([x, y], axis=1), tried, method)[0, 1] == pytest.approx(wanted, abs=1e-12)


def test_drawn_orders_near_the_exact_distribution_of_kendalls_tau() -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal((12, 4))
    values[:, 3] += values[:, 0]
    tried = orders(12, rng, 9999)
    assert not tried.exact
    assert (np.sort(tried.rows, axis=1) == np.arange(12)).all()
    found = permutation_p(values, tried, "kendall")
    for a, b in ((0, 1), (0, 2), (0, 3), (1, 2)):
        wanted = stats.kendalltau(values[:, a], values[:, b], method="exact").pvalue
        assert found[a, b] == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / 9999))


def test_drawn_p_is_never_zero() -> None:
    line = np.arange(30.0)
    found = permutation_p(np.stack([line, line], axis=1), orders(30, np.random.default_rng(5), 999), "pearson")
    assert found[0, 1] == pytest.approx(1 / 1000)  # (0 + 1) / (999 + 1)
