"""Scores by a column of the rows, such as CareQA's category and year."""

from __future__ import annotations

import itertools
import logging
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.analysis.aggregate import scored, scored_mean, scored_mean_stderr

logger = logging.getLogger(__name__)

_MOST_VALUES = 40
_MOST_METRICS = 40
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Cell:
    """One metric over the documents that have one value in one column."""

    key: str
    metric: str
    column: str
    value: str

    def holds(self, doc: Mapping[str, Any]) -> bool:
        """Say whether a document belongs to the cell."""
        return str(doc.get(self.column)) == self.value


def cells(metrics: Sequence[str], columns: Iterable[str], rows: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """Return one cell for each metric and each value of each column.

    Args:
        metrics: The metrics that are broken down.
        columns: Columns to break it down by.
        rows: The values of each column, repeated or not; a column that is not there gives no cells.

    Returns:
        Cells with distinct keys such as `acc_category_nursing`, which are also metric names in the results.
    """
    out: list[Cell] = []
    taken: set[str] = set()
    for column in columns:
        found = values(rows.get(column, []))
        if len(found) > _MOST_VALUES:
            logger.warning(
                "column '%s' has more than %d values; scores are not broken down by it", column, _MOST_VALUES
            )
            continue
        for metric, value in itertools.product(metrics, found):
            key = base = f"{metric}_{column}_{_slug(value)}"
            number = 1
            while key in taken:
                number += 1
                key = f"{base}_{number}"
            taken.add(key)
            out.append(Cell(key, metric, column, value))
    return out


def values(column: Iterable[Any]) -> list[str]:
    """Return the distinct values of a column, as text and in order; one more than are ever shown is enough."""
    return sorted({str(value) for value in column})[: _MOST_VALUES + 1]


def as_metrics(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that are also metrics of the results: of columns that neither fill the table nor say nothing."""
    counts = Counter(cell.column for cell in cells)
    several = {column for column in counts if len({cell.value for cell in cells if cell.column == column}) > 1}
    return [cell for cell in cells if cell.column in several and counts[cell.column] <= _MOST_METRICS]


def cell_scores(cells: Iterable[Cell], doc: Mapping[str, Any], scores: Mapping[str, float]) -> dict[str, float]:
    """Return a document's value for every cell: its score where it belongs, NaN elsewhere."""
    return {cell.key: scores[cell.metric] if cell.holds(doc) else math.nan for cell in cells}


def cell_values(
    cells: Iterable[Cell], documents: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
) -> dict[str, list[float]]:
    """Return the scores of the documents of every cell."""
    return {cell.key: [scores[cell.metric] for doc, scores in documents if cell.holds(doc)] for cell in cells}


def table(cells: Iterable[Cell], values: Mapping[str, Sequence[float]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return mean, standard error and n of every cell, by column and value."""
    out: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for cell in cells:
        found = values.get(cell.key, ())
        row = out[cell.column].setdefault(cell.value, {})
        row.setdefault("n", len(scored(found)))
        row |= {cell.metric: scored_mean(found), f"{cell.metric}_stderr": scored_mean_stderr(found)}
    return dict(out)


def _slug(value: str) -> str:
    """Letters and digits of any script, accents taken off, everything else as one underscore."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", value.lower()) if not unicodedata.combining(c))
    return re.sub(r"[\W_]+", "_", plain).strip("_")[:_LONGEST_NAME] or "unknown"
