r"""Two columns of scores of the same documents: how far they agree, and in what they differ.

Both columns are float64 with NaN where a document has no score; every statistic is of the documents that have both.
A statistic that does not exist is NaN and says why: with too few documents, or where a column does not vary, there is
nothing that could agree or differ beyond chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOO_FEW = "too_few_documents"
NO_VARIATION = "no_variation"
RESAMPLES = 1000
_FEWEST_RANKED = 3

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """One number, or the reason why there is none.

    Attributes:
        value: NaN if it does not exist.
        n: The documents (or pairs) that it is made of.
        reason: Why it does not exist; None if it does.
        p: Two-sided p-value, where one is defined.
        low: Lower end of the 95% interval, where there is one.
        high: Upper end of it.
    """

    value: float
    n: int
    reason: str | None = None
    p: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        """Return the number with its interval and p-value, as far as they exist; else why there is none."""
        if math.isnan(self.value):
            return f"undefined ({(self.reason or TOO_FEW).replace('_', ' ')}; n = {self.n})"
        interval = "" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"
        p = "" if math.isnan(self.p) else f", p {'< 0.001' if self.p < 0.001 else f'= {self.p:.3f}'}"
        return f"{self.value:.3f}{interval}{p}, n = {self.n}"

    def row(self) -> dict[str, float | int | str | None]:
        """Return it for JSON, where numbers that do not exist are null."""
        numbers = {"value": self.value, "p": self.p, "low": self.low, "high": self.high}
        return {**{k: None if math.isnan(v) else v for k, v in numbers.items()}, "n": self.n, "reason": self.reason}


def undefined(n: int, reason: str) -> Statistic:
    """Return a statistic that does not exist."""
    return Statistic(math.nan, n, reason)


def both(*columns: Sequence[float] | Column) -> tuple[Column, ...]:
    """Return the columns with only those documents that have a value in each of them.

    Raises:
        ValueError: If they are not of one length.
    """
    arrays = [np.asarray(column, dtype=np.float64).ravel() for column in columns]
    if len({len(array) for array in arrays}) != 1:
        raise ValueError(f"columns of {', '.join(str(len(array)) for array in arrays)} documents; expected one length")
    kept = np.all([np.isfinite(array) for array in arrays], axis=0)
    return tuple(array[kept] for array in arrays)


def _varies(column: Column) -> bool:
    return bool(len(column)) and bool(column.min() < column.max())


def exact(x: Sequence[float] | Column, y: Sequence[float] | Column) -> Statistic:
    """Return the share of documents with equal scores, from 0 to 1."""
    return within(x, y, 0.0)


def within(x: Sequence[float] | Column, y: Sequence[float] | Column, distance: float = 1.0) -> Statistic:
    """Return the share of documents whose scores differ by at most a distance, from 0 to 1."""
    x, y = both(x, y)
    if not len(x):
        return undefined(0, TOO_FEW)
    return Statistic(float((np.abs(x - y) <= distance + 1e-9).mean()), len(x))


def quadratic_kappa(x: Sequence[float] | Column, y: Sequence[float] | Column) -> Statistic:
    r"""Return Cohen's kappa with quadratic weights, at most 1; 0 is agreement by chance.

    $$\kappa = 1 - \frac{\overline{(x-y)^2}}{s_x^2 + s_y^2 + (\bar x - \bar y)^2}$$

    with variances over n. The denominator is the mean squared distance of scores that are paired at random, so that
    this is Cohen's definition (J. Cohen, Psychological Bulletin 70 (1968), 213-220) written without a table, and scores
    between whole numbers need no rounding.
    """
    x, y = both(x, y)
    if len(x) < 2:
        return undefined(len(x), TOO_FEW)
    by_chance = float(x.var() + y.var() + (x.mean() - y.mean()) ** 2)
    # One score everywhere on both sides: agreement that could not have been otherwise.
    if not _varies(np.concatenate([x, y])):
        return undefined(len(x), NO_VARIATION)
    return Statistic(1.0 - float(((x - y) ** 2).mean()) / by_chance, len(x))


def spearman(x: Sequence[float] | Column, y: Sequence[float] | Column) -> Statistic:
    """Return Spearman's rank correlation, from -1 to 1, with a p-value from Student's t with n - 2 degrees."""
    from scipy import stats

    return _ranked(x, y, stats.spearmanr)


def kendall(x: Sequence[float] | Column, y: Sequence[float] | Column) -> Statistic:
    """Return Kendall's tau-b, which allows for ties, from -1 to 1."""
    from scipy import stats

    return _ranked(x, y, stats.kendalltau)


def _ranked(x: Sequence[float] | Column, y: Sequence[float] | Column, test: Callable) -> Statistic:
    x, y = both(x, y)
    if len(x) < _FEWEST_RANKED:
        return undefined(len(x), TOO_FEW)
    if not (_varies(x) and _varies(y)):
        return undefined(len(x), NO_VARIATION)
    found = test(x, y)
    return Statistic(float(found.statistic), len(x), p=float(found.pvalue))


def mean_difference(
    x: Sequence[float] | Column,
    y: Sequence[float] | Column,
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Statistic:
    """Return the mean of x - y, with a 95% interval from resampled documents if there is a generator.

    Args:
        x: Scores.
        y: Scores of the same documents.
        rng: Draws the documents; None for no interval.
        resamples: How often they are drawn.
    """
    x, y = both(x, y)
    if not len(x):
        return undefined(0, TOO_FEW)
    difference = x - y
    value = float(difference.mean())
    if rng is None or len(x) < 2:
        return Statistic(value, len(x))
    means = np.array([difference[rng.integers(len(x), size=len(x))].mean() for _ in range(resamples)])
    low, high = percentile_interval(means)
    return Statistic(value, len(x), low=low, high=high)


def percentile_interval(values: Column) -> tuple[float, float]:
    """Return the 2.5% and 97.5% quantiles of a bootstrap's values, those left out that do not exist."""
    values = values[np.isfinite(values)]
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
