"""Ranks of models by metric, with intervals that say how far the errors of the scores would move them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lm_eval_healthcare.analysis.scores import Matrix, Scores

UNKNOWN_DIRECTION, NO_ERRORS = "unknown_direction", "unknown_errors"
_DIGITS = 12


@dataclass(frozen=True)
class Rank:
    """The rank of one model in one column; the attributes are those of `Ranks`."""

    column: str
    model: str
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranks:
    """Ranks of models in each column.

    Attributes:
        models: One a row, in the order of the scores.
        names: The columns' names.
        ranks: Shape (models, columns); 1 is best, models with equal scores share the mean of their places; NaN for a
            model without a score, or a column of unknown direction.
        low: Lower (better) end of the 95% interval; NaN where an error in the column is not known.
        high: Upper end.
        of: How many models each column ranks.
        flags: What is doubtful in each column: `unknown_direction`, `unknown_errors`.
    """

    models: tuple[str, ...]
    names: tuple[str, ...]
    ranks: Matrix
    low: Matrix
    high: Matrix
    of: tuple[int, ...]
    flags: tuple[tuple[str, ...], ...]

    def __iter__(self) -> Iterator[Rank]:
        """Go through all ranks that exist, column by column."""
        for place, name in enumerate(self.names):
            for row, model in enumerate(self.models):
                rank, low, high = (float(part[row, place]) for part in (self.ranks, self.low, self.high))
                if not math.isnan(rank):
                    yield Rank(name, model, rank, low, high)


def rank_models(scores: Scores, *, rng: np.random.Generator, n_draws: int = 2000) -> Ranks:
    """Rank the models in each column.

    The interval is that of the ranks when every score is drawn anew from a normal distribution around it with its
    standard error. Models that answered the same questions share part of their errors, which moves them together, so
    that these intervals are rather too wide than too narrow; a paired test of two models sees more.

    Args:
        scores: The scores.
        rng: Draws the errors.
        n_draws: How often; 0 for no intervals.
    """
    seed = int(rng.integers(2**62))
    shape = scores.values.shape
    ranks, low, high = (np.full(shape, np.nan) for _ in range(3))
    of, flags = [], []
    for place, column in enumerate(scores.columns):
        there = ~np.isnan(scores.values[:, place])
        found = []
        of.append(int(there.sum()))
        if column.higher_is_better is None:
            found.append(UNKNOWN_DIRECTION)
        elif there.any():
            # The best one gets the lowest number after this, whatever the direction.
            values = _without_noise(scores.values[there, place] * (-1.0 if column.higher_is_better else 1.0))
            ranks[there, place] = _ranks(values[None, :])[0]
            errors = scores.stderr[there, place]
            if not np.isfinite(errors).all():
                found.append(NO_ERRORS)
            elif n_draws:
                column_rng = np.random.default_rng([seed, zlib.crc32(column.name.encode())])
                low[there, place], high[there, place] = _ends(values, errors, column_rng, n_draws)
        flags.append(tuple(found))
    names = tuple(column.name for column in scores.columns)
    return Ranks(scores.models, names, ranks, low, high, tuple(of), tuple(flags))


def _ranks(values: Matrix) -> Matrix:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1), dtype=np.float64)


def _without_noise(values: np.ndarray) -> np.ndarray:
    # Two means that differ only by the order of summation are a tie.
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values])


def _ends(
    values: np.ndarray, errors: np.ndarray, rng: np.random.Generator, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    drawn = _ranks(values + errors * rng.standard_normal((draws, len(values))))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    return low, high
