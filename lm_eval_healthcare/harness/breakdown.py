"""Scores by a column of the rows, as the harness takes them; the arithmetic is in `scoring.breakdown`."""

from __future__ import annotations

from typing import Any

from lm_eval_healthcare.scoring.breakdown import Cell, as_metrics, cell_scores, cell_values, cells, table, values

__all__ = ["Cell", "ScoredDocument", "as_metrics", "cell_scores", "cell_values", "cells", "table", "values"]


class ScoredDocument(dict):
    """The scores of one document as the harness takes them.

    The dict holds what is logged for the document. `items()`, from which the harness aggregates, leaves out what is not
    a number, and adds the scores by category: NaN for every category but the document's own. So every document gives
    the same keys, and the log is not filled with NaN.
    """

    def __init__(self, scores: dict[str, Any], by_category: dict[str, float] | None = None) -> None:
        """Keep `scores` for the log and add `by_category` for the aggregation."""
        super().__init__(scores)
        self._by_category = by_category or {}

    def keys(self) -> Any:
        """Return the names of the metrics."""
        return {name: None for name in self if not isinstance(self[name], str)}.keys()

    def items(self) -> Any:
        """Return the pairs that are aggregated."""
        return {**{name: self[name] for name in self.keys()}, **self._by_category}.items()
