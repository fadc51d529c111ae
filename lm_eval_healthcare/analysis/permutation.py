"""Permutation p-values of correlation coefficients: how often models in a random order go together as far as these."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.coefficients import KENDALL, check_method, features
from lm_eval_healthcare.analysis.scores import Matrix

MOST_ENUMERATED = 8
"""Up to so many models all orders are tried: 40,320 of them."""

_NUMBERS_AT_ONCE = 8_000_000
# Two orders whose coefficients differ by less are equally far, or rounding would decide which p a tie gets.
_SAME = 1e-10


@dataclass(frozen=True)
class Orders:
    """Orders of models.

    Attributes:
        rows: Shape (orders, models); each row holds the numbers from 0.
        exact: Whether these are all orders that there are.
    """

    rows: NDArray[np.int64]
    exact: bool

    @cached_property
    def places(self) -> NDArray[np.int32] | None:
        """Where the pairs of models of each order stand in a square table; None if they are too many."""
        orders, n = self.rows.shape
        return _places(self.rows) if orders * n * (n - 1) // 2 <= 2 * _NUMBERS_AT_ONCE else None


def orders(n: int, rng: np.random.Generator, draws: int) -> Orders:
    """Return all orders of up to 8 models, or some of more.

    Args:
        n: Models.
        rng: Draws the orders if there are too many to try them all.
        draws: How many are then drawn.
    """
    if n <= MOST_ENUMERATED:
        return _all_orders(n)
    return Orders(rng.permuted(np.tile(np.arange(n), (draws, 1)), axis=1), False)


@lru_cache(maxsize=MOST_ENUMERATED + 1)
def _all_orders(n: int) -> Orders:
    return Orders(np.array(list(itertools.permutations(range(n))), dtype=np.int64).reshape(-1, n), True)


def _places(rows: NDArray[np.int64]) -> NDArray[np.int32]:
    n = rows.shape[1]
    first, second = np.triu_indices(n, 1)
    return (rows[:, first] * n + rows[:, second]).astype(np.int32)


def permutation_p(values: Matrix, tried: Orders, method: str) -> Matrix:
    """Return the two-sided p-values of all pairs of columns.

    The p-value of a pair is the share of orders with a coefficient at least as far from 0 as the real one. Of drawn
    orders the real one counts as one more, (b + 1) / (m + 1), so that p is never 0.

    Args:
        values: Shape (models, columns), all finite, no column constant.
        tried: Orders of the models.
        method: `pearson`, `spearman` or `kendall`.

    Returns:
        Shape (columns, columns); only entries above the diagonal are filled, all others are NaN.
    """
    check_method(method)
    vectors = features(values, method)
    real = np.abs(vectors.T @ vectors)
    columns = values.shape[1]
    found = np.full((columns, columns), np.nan)
    step = max(1, _NUMBERS_AT_ONCE // len(vectors))
    for column in range(columns - 1):
        others = slice(column + 1, columns)
        far = np.zeros(columns - column - 1)
        for start in range(0, len(tried.rows), step):
            moved = _reordered(values[:, column], vectors[:, column], tried, slice(start, start + step), method)
            far += (np.abs(moved @ vectors[:, others]) >= real[column, others] - _SAME).sum(axis=0)
        found[column, others] = far / len(tried.rows) if tried.exact else (far + 1) / (len(tried.rows) + 1)
    return found


def _reordered(
    column: NDArray[np.float64], vector: NDArray[np.float64], tried: Orders, part: slice, method: str
) -> Matrix:
    if method != KENDALL:
        return vector[tried.rows[part]]
    signs = np.sign(column[:, None] - column[None, :])
    places = tried.places[part] if tried.places is not None else _places(tried.rows[part])
    return np.take(signs.ravel() / np.sqrt(np.count_nonzero(signs) / 2), places)
