"""Standard errors from logged samples, where the harness's own came out as NaN though the value is fine.

That happens with `nanmean`, whose bootstrap may draw documents without a score alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from lm_eval_healthcare.results.cell import LEAF, Cell
from lm_eval_healthcare.results.names import parse_results_name
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.samples_file import SampleFile

LOST = "stderr_is_nan"
"""The key in a cell's `extra` that says so."""
FROM = "stderr_from"
_TOLERANCE = 1e-6
_NO_FILTER = "none"


def with_sample_errors(cells: Iterable[Cell]) -> list[Cell]:
    """Give cells whose standard error was lost that of their documents, sd / sqrt(n), where samples lie beside them."""
    return [_mended(cell) if cell.extra.get(LOST) and cell.kind == LEAF else cell for cell in cells]


def _mended(cell: Cell) -> Cell:
    stamp = parse_results_name(cell.file.name)
    path = cell.file.parent / f"samples_{cell.task}_{stamp}.jsonl"
    if stamp is None or not path.is_file():
        return cell
    try:
        values = [
            float(row[cell.metric])
            for row in SampleFile(path)
            if row.get("filter", _NO_FILTER) == cell.filter and isinstance(row.get(cell.metric), int | float)
        ]
    except ResultsError:
        return cell
    known = [value for value in values if math.isfinite(value)]
    # Only the mean of these documents has their error: another aggregation, or another file, has another value.
    if len(known) < 2 or not math.isclose(statistics.fmean(known), cell.value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        return cell
    error = statistics.stdev(known) / math.sqrt(len(known))
    return replace(cell, stderr=error, extra={**cell.extra, FROM: f"{len(known)} of {len(values)} logged samples"})
