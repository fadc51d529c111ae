"""Means, variances and ranges with missing scores: by hand, against NumPy, and where rounding would mislead."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.variances import (
    column_means,
    has_range,
    mean,
    moments,
    population_variances,
    scaled,
    value_range,
    variance,
)

NAN = math.nan


def test_moments_by_hand() -> None:
    """2, 2, 5: mean 3, squares 1 + 1 + 4 = 6; 1 and 3: mean 2, squares 2; a missing score counts nowhere."""
    counts, means, squares = moments([[2.0, 2.0, 5.0], [NAN, 1.0, 3.0], [NAN, 7.0, NAN], [NAN, NAN, NAN]])
    assert counts.tolist() == [3, 2, 1, 0]
    assert means == pytest.approx([3.0, 2.0, 7.0, NAN], nan_ok=True)
    assert squares == pytest.approx([6.0, 2.0, 0.0, 0.0])


def test_numpy_agrees_where_nothing_is_missing() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 7))
    np.testing.assert_allclose(population_variances(scores), scores.var(axis=1), rtol=1e-12)
    np.testing.assert_allclose(moments(scores).means, scores.mean(axis=1), rtol=1e-9, atol=1e-12)
    assert variance(scores[:, 0]) == pytest.approx(scores[:, 0].var(), rel=1e-12)


def test_numpy_agrees_where_scores_are_missing() -> None:
    rng = np.random.default_rng(1)
    scores = np.where(rng.uniform(size=(40, 6)) < 0.3, NAN, rng.normal(size=(40, 6)))
    scores[:, :2] = 0.25, -1.0  # two of each row are there
    np.testing.assert_allclose(population_variances(scores), np.nanvar(scores, axis=1), rtol=1e-12)
    np.testing.assert_allclose(column_means(scores), np.nanmean(scores, axis=0), rtol=1e-12)


def test_equal_scores_have_a_variance_of_exactly_zero_and_their_own_mean() -> None:
    """0.1 cannot be written in binary: a sum of eleven of them, divided by eleven, is not 0.1."""
    assert sum([0.1] * 11) / 11 != 0.1
    assert population_variances([[0.1] * 11, [1 / 3] * 11]).tolist() == [0.0, 0.0]
    assert variance([0.1] * 11) == 0.0
    assert moments([[0.1] * 11]).means.tolist() == [0.1]


def test_what_is_undefined() -> None:
    assert np.isnan(population_variances([[0.5, NAN], [NAN, NAN]])).all()
    assert population_variances(np.empty((2, 0))) == pytest.approx([NAN, NAN], nan_ok=True)
    assert population_variances(np.empty((0, 3))).shape == (0,)
    assert math.isnan(variance([]))
    assert math.isnan(variance([NAN]))
    assert math.isnan(variance([NAN, 0.3]))  # of one value nobody can say whether others are like it
    assert math.isnan(mean([NAN]))
    assert mean([NAN, 1.0, 2.0]) == 1.5
    assert column_means([[NAN, 1.0], [NAN, 2.0]]) == pytest.approx([NAN, 1.5], nan_ok=True)


def test_range_and_scaling_by_hand() -> None:
    """From 0 to 4, so variances are divided by 16."""
    low, high = value_range([[[0.0, 4.0]], [[2.0, NAN], [1.0, math.inf]]])
    assert (low, high) == (0.0, 4.0)
    assert scaled([4.0, NAN, 0.0], low, high) == pytest.approx([0.25, NAN, 0.0], nan_ok=True)


@pytest.mark.parametrize("bounds", [(0.5, 0.5), (NAN, NAN), (0.1, math.nextafter(0.1, 1.0)), (0.0, 0.0)])
def test_without_a_range_nothing_is_scaled(bounds: tuple[float, float]) -> None:
    """Ends that differ by the rounding of a last digit would scale a variance of about 1e-34 up to 1/4."""
    assert not has_range(*bounds)
    assert np.isnan(scaled([0.0, 1.0], *bounds)).all()


def test_there_is_no_range_of_nothing() -> None:
    assert value_range([]) == pytest.approx((NAN, NAN), nan_ok=True)
    assert value_range([[NAN, math.inf]]) == pytest.approx((NAN, NAN), nan_ok=True)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        moments([0.1, 0.2])


def test_a_range_whose_square_is_no_number_scales_too() -> None:
    """1e-200 squared is 0 to a computer."""
    with np.errstate(all="raise"):
        assert scaled([0.0], 0.0, 1e-200) == [0.0]
