"""A matrix of scores, models by columns, with what its statistics need; pure data, wherever it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One benchmark under one metric.

    Attributes:
        name: As it is shown: `task/metric`, with `[filter]` where there are several.
        task: The task, or the name of an outside column such as `elo`.
        metric: The metric.
        filter: The filter; `none` where there is one.
        higher_is_better: The direction; None if it is not known.
    """

    name: str
    task: str
    metric: str
    filter: str = "none"
    higher_is_better: bool | None = True


@dataclass(frozen=True)
class Scores:
    """Scores of models.

    Attributes:
        models: Their names, one a row.
        columns: What was measured, one a column.
        values: float64 of shape (models, columns); NaN for what is missing, for whatever reason.
        stderr: The same shape; NaN where it is not known.
        n: Documents behind each value, the same shape; NaN where it is not known.
        notes: What a reader of statistics over them must know.
    """

    models: tuple[str, ...]
    columns: tuple[Column, ...]
    values: Matrix
    stderr: Matrix
    n: Matrix
    notes: tuple[str, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit.

        Raises:
            ValueError: If they do not, or two columns have one name.
        """
        shape = len(self.models), len(self.columns)
        for name, part in (("values", self.values), ("stderr", self.stderr), ("n", self.n)):
            if part.shape != shape:
                raise ValueError(f"{name} has shape {part.shape}; expected {shape}: models by columns")
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name; give each its own")

    def take(self, columns: Sequence[str]) -> Scores:
        """Return some columns, in the order given.

        Raises:
            KeyError: If there is no such column.
        """
        names = [column.name for column in self.columns]
        places = []
        for name in columns:
            if name not in names:
                raise KeyError(name)
            places.append(names.index(name))
        return Scores(
            self.models, tuple(self.columns[place] for place in places), self.values[:, places],
            self.stderr[:, places], self.n[:, places], self.notes,
        )  # fmt: skip


@dataclass(frozen=True)
class Correlation:
    """How two columns go together over the models that have both.

    Attributes:
        x: One column's name.
        y: The other's.
        method: `pearson`, `spearman` or `kendall`.
        r: The coefficient, from -1 to 1; NaN where it is undefined.
        p: Two-sided p-value; NaN where there is none.
        low: Lower end of the 95% interval; NaN where there is none.
        high: Upper end.
        n: Models that have both.
        reason: Why `r` is undefined: `too_few_models`, `constant`; None if it is defined.
        flags: What is doubtful: `few_models` (under 5), `exact_p`, `nearly_constant`, ...
        adjusted: p after correction for all pairs of a family; NaN where there is none.
        sensitivity: Lowest and highest r with one model left out.
        propagated: Standard error of r from the errors of the scores themselves; NaN where those are not known.
        interval: How `low` and `high` were made (`analysis.intervals`); empty where there are none.
        undefined_resamples: Draws of models without a coefficient, which the interval leaves out.
        fisher: For Pearson Fisher's interval, for comparison: right for normal columns only.
    """

    x: str
    y: str
    method: str
    r: float
    p: float
    low: float
    high: float
    n: int
    reason: str | None = None
    flags: tuple[str, ...] = ()
    adjusted: float = float("nan")
    sensitivity: tuple[float, float] = (float("nan"), float("nan"))
    propagated: float = float("nan")
    interval: str = ""
    undefined_resamples: int = 0
    fisher: tuple[float, float] = (float("nan"), float("nan"))
