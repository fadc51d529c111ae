"""Variances and coefficients of variation of repeated scores: by hand, and what must hold of any scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lm_eval_healthcare.analysis.repeated_scores import (
    MEAN_NEAR_ZERO,
    NEGATIVE_VALUE,
    NO_SCORE,
    SCALE_BELOW_ZERO,
    SINGLE_SCORE,
    prompt_scores,
    spread,
)

NAN = math.nan
B58 = [
    [0.2, 0.3, 0.25, 0.2, 0.3, 0.25, 0.2, 0.3, 0.25, 0.2, 0.3],
    [-0.02, 0.03, 0.01, -0.03, 0.02, 0.0, -0.01, 0.02, -0.02, 0.01, -0.01],
    [0.0] * 11,
    [-1.1, -0.9, -1.0, -1.2, -0.8, -1.0, -1.0, -1.1, -0.9, -1.0, -1.0],
]
MATRICES = arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=st.floats(0, 100, allow_subnormal=False)
)


def test_case_b58() -> None:
    """The expected values of the case; 0.00181818 = (4 * 0.05^2 + 4 * 0.05^2) / 11 = 0.02 / 11."""
    found = prompt_scores(B58)
    assert found.cvs == pytest.approx([0.170561, NAN, NAN, NAN], abs=5e-7, nan_ok=True)
    # Of row 2: 38e-4 / 11; of row 4: (2 * 0.01 + 2 * 0.01 + 0.04 + 0.04) / 11.
    assert found.variances == pytest.approx([0.02 / 11, 0.0038 / 11, 0.0, 0.12 / 11])
    assert found.no_cv == ["", NEGATIVE_VALUE, MEAN_NEAR_ZERO, NEGATIVE_VALUE]
    assert found.no_variance == ["", "", "", ""]
    together = spread([found])
    assert together.n_undefined == 3
    assert together.undefined == {MEAN_NEAR_ZERO: 1, NEGATIVE_VALUE: 2}
    assert together.mean_cv == pytest.approx(0.170561, abs=5e-7)
    assert together.mean_variance == pytest.approx((0.02 + 0.0038 + 0.12) / 11 / 4)


def test_by_hand() -> None:
    """1 and 3: mean 2, variance 1, CV 1/2. 2, 2, 5: mean 3, variance (1 + 1 + 4) / 3 = 2, CV sqrt(2) / 3."""
    found = prompt_scores([[1.0, 3.0, NAN], [2.0, 2.0, 5.0]])
    assert found.means.tolist() == [2.0, 3.0]
    assert found.variances == pytest.approx([1.0, 2.0])
    assert found.cvs == pytest.approx([0.5, math.sqrt(2) / 3])
    assert found.counts.tolist() == [2, 3]


def test_too_few_scores_have_no_variance() -> None:
    found = prompt_scores([[0.5, NAN], [NAN, NAN], [0.1, 0.1]])
    assert found.variances == pytest.approx([NAN, NAN, 0.0], nan_ok=True)
    assert found.no_variance == [SINGLE_SCORE, NO_SCORE, ""]
    assert found.means == pytest.approx([0.5, NAN, 0.1], nan_ok=True)
    assert spread([found]).n_no_variance == 2


def test_equal_scores_have_a_variance_of_exactly_zero() -> None:
    assert prompt_scores([[0.1] * 11, [1 / 3] * 11]).variances.tolist() == [0.0, 0.0]


def test_a_scale_that_goes_below_zero_has_no_coefficient_at_all() -> None:
    found = prompt_scores([[0.2, 0.4]], below_zero=True)
    assert found.no_cv == [SCALE_BELOW_ZERO]
    assert found.variances == pytest.approx([0.01])


def test_several_models() -> None:
    """A prompt's variance is the mean over models that have one: (1 + 4) / 2, and 9 of the one model."""
    a, b = prompt_scores([[1.0, 3.0], [0.0, 6.0]]), prompt_scores([[0.0, 4.0], [1.0, NAN]])
    found = spread([a, b])
    assert found.variances == pytest.approx([2.5, 9.0])
    assert found.mean_variance == pytest.approx(5.75)
    assert found.variance_of_variance == pytest.approx(3.25**2)  # of 2.5 and 9, divided by 2
    assert found.cvs == pytest.approx([(0.5 + 1.0) / 2, 1.0])
    assert found.undefined == {SINGLE_SCORE: 1}


def test_nothing_at_all() -> None:
    found = spread([prompt_scores(np.empty((0, 11)))])
    assert math.isnan(found.mean_variance)
    assert math.isnan(found.variance_of_variance)
    assert found.n_undefined == 0
    assert prompt_scores(np.empty((2, 0))).no_variance == [NO_SCORE, NO_SCORE]


def test_what_is_no_matrix_of_scores_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        prompt_scores([0.1, 0.2])
    with pytest.raises(ValueError, match="infinite"):
        prompt_scores([[0.1, math.inf]])
    with pytest.raises(ValueError, match="same prompts"):
        spread([prompt_scores([[1.0, 2.0]]), prompt_scores([[1.0, 2.0], [1.0, 2.0]])])


@settings(max_examples=60, deadline=None)
@given(MATRICES, st.randoms(use_true_random=False), st.floats(-50, 50), st.floats(0.01, 50))
def test_what_holds_of_any_scores(values: np.ndarray, random: object, shift: float, factor: float) -> None:
    """Order does not matter; a shift changes no variance; a factor is squared, and leaves the CV alone."""
    found = prompt_scores(values)
    np.testing.assert_allclose(found.variances, np.var(values, axis=1), atol=1e-9)
    rows, columns = list(range(values.shape[0])), list(range(values.shape[1]))
    random.shuffle(rows)  # type: ignore[attr-defined]
    random.shuffle(columns)  # type: ignore[attr-defined]
    mixed = prompt_scores(values[rows][:, columns])
    np.testing.assert_allclose(mixed.variances, found.variances[rows], atol=1e-9)
    np.testing.assert_allclose(spread([mixed]).mean_variance, spread([found]).mean_variance, atol=1e-9)
    np.testing.assert_allclose(prompt_scores(values + shift).variances, found.variances, atol=1e-7)
    larger = prompt_scores(values * factor)
    np.testing.assert_allclose(larger.variances, found.variances * factor**2, rtol=1e-6, atol=1e-9)
    both = ~np.isnan(found.cvs) & ~np.isnan(larger.cvs)
    np.testing.assert_allclose(larger.cvs[both], found.cvs[both], rtol=1e-6, atol=1e-9)
