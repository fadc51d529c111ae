"""Scores made ready for statistics over models: the order of models, directions, logarithms, float noise, gaps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.scores import Matrix, Scores

PERPLEXITIES = ("word_perplexity", "byte_perplexity", "perplexity", "relaxed_perplexity")
"""Metrics that are powers of a mean loss, whose logarithm is the loss itself."""

REVERSED, LOGGED, UNKNOWN_DIRECTION = "reversed", "log", "unknown_direction"
INFINITE, NOT_POSITIVE = "infinite_left_out", "not_positive_left_out"

_DIGITS = 12
_NOISE = 1e-9


@dataclass(frozen=True)
class Prepared:
    """Columns as they enter a statistic.

    Attributes:
        models: Sorted by name, so that no result depends on the order of rows.
        names: The columns' names.
        values: float64 of shape (models, columns); NaN for what is missing.
        stderr: The same shape, transformed as the values are.
        flags: What was done to each column, or is not known of it.
    """

    models: tuple[str, ...]
    names: tuple[str, ...]
    values: Matrix
    stderr: Matrix
    flags: tuple[tuple[str, ...], ...]


def prepare(
    scores: Scores, *, log_metrics: Collection[str] = (), align: bool = True, listwise: bool = False
) -> Prepared:
    """Make columns comparable.

    Values are rounded to 12 significant digits, so that two models whose means differ only by the order of summation
    are a tie. An infinite value counts as missing, and so does one at or below 0 whose logarithm is asked for; both are
    flagged.

    Args:
        scores: The scores.
        log_metrics: Metrics of which the logarithm is taken, such as `PERPLEXITIES`; the standard error of log x is
            that of x divided by x.
        align: Turn columns in which lower is better, so that higher is better everywhere. A column of unknown direction
            stays as it is and is flagged.
        listwise: Keep only models that have every column.
    """
    order = np.array(sorted(range(len(scores.models)), key=lambda row: scores.models[row]), dtype=np.int64)
    values, stderr = scores.values[order].astype(np.float64), scores.stderr[order].astype(np.float64)
    stderr[~np.isfinite(stderr)] = np.nan
    flags: list[tuple[str, ...]] = []
    for place, column in enumerate(scores.columns):
        found = []
        if np.isinf(values[:, place]).any():
            found.append(INFINITE)
            values[np.isinf(values[:, place]), place] = np.nan
        if column.metric in log_metrics:
            found += _take_logarithm(values[:, place], stderr[:, place])
        if align and column.higher_is_better is None:
            found.append(UNKNOWN_DIRECTION)
        if align and column.higher_is_better is False:
            found.append(REVERSED)
            values[:, place] *= -1
        flags.append(tuple(found))
    values = _rounded(values)
    kept = np.flatnonzero(np.isfinite(values).all(axis=1)) if listwise else np.arange(len(values))
    models = tuple(scores.models[order[row]] for row in kept)
    names = tuple(column.name for column in scores.columns)
    return Prepared(models, names, values[kept], stderr[kept], tuple(flags))


def varies(column: NDArray[np.float64]) -> bool:
    """Return whether a column varies by more than float noise, 1e-9 of its largest value."""
    return bool(len(column)) and bool(np.ptp(column) > _NOISE * np.abs(column).max())


def _take_logarithm(values: NDArray[np.float64], stderr: NDArray[np.float64]) -> list[str]:
    bad = values <= 0
    values[bad] = np.nan
    stderr /= values
    np.log(values, out=values)
    return [LOGGED, NOT_POSITIVE] if bad.any() else [LOGGED]


def _rounded(values: Matrix) -> Matrix:
    size = np.where(np.isfinite(values) & (values != 0), np.abs(values), 1.0)
    unit = 10.0 ** (np.floor(np.log10(size)) - (_DIGITS - 1))
    return np.round(values / unit) * unit
