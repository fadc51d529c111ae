"""Scores by a column of the rows, as the harness takes them; the arithmetic is in `scoring.breakdown`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.scoring.breakdown import Cell, as_metrics, cell_scores, cell_values, cells, table, values

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Cell", "ScoredDocument", "as_metrics", "cell_scores", "cell_values", "cells", "table", "values"]


class ScoredDocument(dict):
    """The scores of one document as the harness takes them.

    The dict holds what is logged for the document. `items()`, from which the harness aggregates, leaves out what is no
    metric, and adds the scores by category: NaN for every category but the document's own. So every document gives
    the same keys, and the log is not filled with NaN.
    """

    def __init__(
        self,
        scores: dict[str, Any],
        by_category: dict[str, float] | None = None,
        metrics: Collection[str] | None = None,
    ) -> None:
        """Keep `scores` for the log; `metrics` among them, or all numbers, and `by_category` are aggregated."""
        super().__init__(scores)
        self._by_category, self._metrics = by_category or {}, metrics

    def keys(self) -> Any:
        """Return the names of the metrics."""
        if self._metrics is not None:
            return dict.fromkeys(self._metrics).keys()
        return {name: None for name in self if not isinstance(self[name], str | list)}.keys()

    def items(self) -> Any:
        """Return the pairs that are aggregated."""
        return {**{name: self[name] for name in self.keys()}, **self._by_category}.items()
