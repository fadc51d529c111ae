r"""Means, population variances and ranges of scores some of which are missing.

Of a row with the scores $x_1, \dots, x_K$ and their mean $\bar x$ the population variance is
$v = \frac1K\sum_j (x_j-\bar x)^2$. To compare metrics of any scale, it is divided by the squared range of the metric
over all data, $v/(\max-\min)^2$, which lies between 0 and 1/4. Missing scores are NaN and count nowhere; what is
undefined is NaN. Source: D. Arias-Duart et al., Automatic Evaluation of Healthcare LLMs Beyond Question-Answering
(2025), arXiv 2502.06666, Appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]
_ROUNDING = 1e-12


class Moments(NamedTuple):
    """What the scores of each row say; all arrays have shape (rows,).

    Attributes:
        counts: Scores that are there.
        means: Their means; NaN if there is none.
        squares: Sums of the squared deviations from these means; exactly 0 of equal scores, and of none.
    """

    counts: NDArray[np.int64]
    means: Values
    squares: Values


def moments(scores: ArrayLike) -> Moments:
    """Return numbers, means and squared deviations of each row.

    Args:
        scores: Shape (rows, columns); NaN where there is no score.

    Raises:
        ValueError: If the array has another shape.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"scores have shape {values.shape}; expected (rows, scores), NaN where there is no score")
    there = ~np.isnan(values)
    counts = there.sum(axis=1)
    if not values.size:
        return Moments(counts, np.full(len(values), np.nan), np.zeros(len(values)))
    first = values[np.arange(len(values)), there.argmax(axis=1)]
    moved = np.where(there, values - first[:, None], 0.0)  # rounding of the mean would make equal scores differ
    shift = moved.sum(axis=1) / np.maximum(counts, 1)
    squares = np.where(there, (moved - shift[:, None]) ** 2, 0.0).sum(axis=1)
    return Moments(counts, first + shift, squares)


def population_variances(scores: ArrayLike) -> Values:
    """Return the population variance of each row; NaN of rows with fewer than two scores, exactly 0 of equal ones.

    Args:
        scores: Shape (rows, columns); NaN where there is no score.

    Raises:
        ValueError: If the array has another shape.
    """
    counts, _, squares = moments(scores)
    return divided(squares, np.where(counts > 1, counts, 0))


def variance(values: ArrayLike) -> float:
    """Return the population variance of what is no NaN; NaN of fewer than two values, exactly 0 of equal ones.

    Args:
        values: Shape (n,).
    """
    return float(population_variances(np.asarray(values, dtype=np.float64)[None, :])[0])


def mean(values: ArrayLike) -> float:
    """Return the mean of what is no NaN; NaN if there is nothing else.

    Args:
        values: Shape (n,).
    """
    array = np.asarray(values, dtype=np.float64)
    there = array[~np.isnan(array)]
    return float(there.mean()) if there.size else math.nan


def column_means(values: ArrayLike) -> Values:
    """Return means over the first axis of what is no NaN; NaN where there is nothing else."""
    array = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(array)
    return divided(np.where(there, array, 0.0).sum(axis=0), there.sum(axis=0))


def value_range(arrays: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the smallest and the largest finite score in arrays of any shape; NaN twice if there is none."""
    values = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in arrays] or [np.empty(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (math.nan, math.nan)


def has_range(low: float, high: float) -> bool:
    """Say whether the smallest and the largest score of a metric differ, rounding apart, so that it can be scaled."""
    return high - low > _ROUNDING * max(abs(low), abs(high))


def scaled(variances: ArrayLike, low: float, high: float) -> Values:
    r"""Return variances on the scale on which the metric runs from 0 to 1: $v/(\max-\min)^2$.

    Args:
        variances: Any shape.
        low: The metric's smallest score over all data: all models, prompts and answers.
        high: The largest.

    Returns:
        The same shape; NaN everywhere if both are equal or not known.
    """
    width = high - low if has_range(low, high) else math.nan
    return np.asarray(np.asarray(variances, dtype=np.float64) / width / width)  # width**2 may be 0 where width is not


def divided(sums: ArrayLike, counts: ArrayLike) -> Values:
    """Return sums divided by counts; NaN where there is nothing to count."""
    return np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=np.greater(counts, 0))
