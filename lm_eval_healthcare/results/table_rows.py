"""The table as rows: JSON, csv, markdown, parquet, and a text for people."""

from __future__ import annotations

import csv
import io
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.cell import Cell, Table
from lm_eval_healthcare.results.leaves import leaf_averages
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.whole_file import whole_file

COLUMNS = (
    "model", "task", "metric", "filter", "value", "stderr", "n", "n_total", "complete", "n_shot", "version", "file",
    "date", "coverage", "scored", "higher_is_better", "template", "signature", "prompt", "revision", "unusable", "kind",
    "format", "part_of",
)  # fmt: skip
SHOWN = ("model", "task", "metric", "filter", "value", "stderr", "n", "scored", "n_shot", "version", "date", "part_of")
_MARKDOWN = ("model", "task", "metric", "filter", "value", "stderr", "n", "n_shot", "version", "date")


def as_row(cell: Cell) -> dict[str, Any]:
    """Return a value and what belongs to it; what is not known, NaN too, is None."""
    return {
        "model": cell.model,
        "task": cell.task,
        "metric": cell.metric,
        "filter": cell.filter,
        "value": _finite(cell.value),
        "stderr": _finite(cell.stderr),
        "n": cell.n,
        "n_total": cell.n_total,
        "complete": cell.complete,
        "n_shot": cell.n_shot,
        "version": _version(cell.version),
        "file": str(cell.file),
        "date": _finite(cell.date),
        "coverage": _finite(cell.coverage),
        "scored": cell.scored,
        "higher_is_better": cell.higher_is_better,
        "template": cell.template,
        "signature": cell.signature,
        "prompt": cell.prompt,
        "revision": cell.revision,
        "unusable": cell.unusable,
        "kind": cell.kind,
        "format": cell.dialect,
        "part_of": cell.extra.get("part_of"),
    }


def as_json(table: Table) -> dict[str, Any]:
    """Return the whole table as plain JSON, without NaN."""
    return {
        "cells": [{**as_row(cell), "extra": cell.extra} for cell in table.cells],
        "set_aside": [{**as_row(one.cell), "reason": one.reason} for one in table.set_aside],
        "skipped": [{"file": str(one.file), "reason": one.reason, "broken": one.broken} for one in table.skipped],
        "averages": averages(table),
        "notes": table.notes,
    }


def averages(table: Table) -> list[dict[str, Any]]:
    """Return each model's accuracy over its distinct multiple-choice tasks, weighted by documents."""
    return [
        {"model": model, "metric": one.metric, "value": one.value, "stderr": _finite(one.stderr), "n": one.n,
         "tasks": list(one.tasks)}
        for model, one in sorted(leaf_averages(table.cells).items())
    ]  # fmt: skip


def as_csv(table: Table) -> str:
    """Return the chosen values as csv, numbers in full, empty where nothing is known."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(as_row(cell) for cell in table.cells)
    return stream.getvalue()


def as_markdown(table: Table) -> str:
    """Return the chosen values as a markdown table."""
    rows = [shown(cell) for cell in table.cells]
    lines = [f"| {' | '.join(_MARKDOWN)} |", f"|{'|'.join(_rule(column) for column in _MARKDOWN)}|"]
    lines += [f"| {' | '.join(_escaped(row[column]) for column in _MARKDOWN)} |" for row in rows]
    return "\n".join(lines) + "\n"


def write_parquet(table: Table, file: Path) -> None:
    """Write the chosen values; the file is there whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"value", "stderr", "date", "coverage"}
    counts, truths = {"n", "n_total", "n_shot", "scored"}, {"complete", "higher_is_better"}
    rows = [as_row(cell) for cell in table.cells]
    columns = {}
    for name in COLUMNS:
        kind = pa.float64() if name in numbers else pa.int64() if name in counts else pa.string()
        kind = pa.bool_() if name in truths else kind
        values = [row[name] for row in rows]
        columns[name] = pa.array(
            [None if v is None else printable(v) for v in values] if kind == pa.string() else values, kind
        )
    with whole_file(file) as part:
        pq.write_table(pa.table(columns), part)


def shown(cell: Cell) -> dict[str, Any]:
    """Return a value as people read it: rounded, `scored` only where some documents have no score."""
    row = as_row(cell)
    gap = cell.scored is not None and cell.scored != cell.n
    moment = None if math.isnan(cell.date) else datetime.fromtimestamp(cell.date, timezone.utc)
    return {
        **{name: printable(row[name]) for name in ("model", "task", "metric", "filter")},
        "value": _rounded(cell.value),
        "stderr": _rounded(cell.stderr),
        "n": _of_total(cell),
        "scored": f"{cell.scored}/{cell.n} parsed" if gap else None,
        "n_shot": cell.n_shot,
        "version": cell.version,
        "date": None if moment is None else f"{moment:%Y-%m-%d %H:%M}",
        "part_of": row["part_of"],
    }


def _of_total(cell: Cell) -> str | None:
    if cell.n is None:
        return None
    return f"{cell.n}/{cell.n_total}" if cell.complete is False and cell.n_total is not None else str(cell.n)


def _rounded(value: float) -> str | None:
    return f"{value:.4f}" if math.isfinite(value) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _version(version: str | None) -> float | str | None:
    """Return a task's version as the number that it is in the file; those of groups are texts."""
    try:
        found = math.nan if version is None else float(version)
    except ValueError:
        return version
    return found if math.isfinite(found) else version


def _rule(column: str) -> str:
    return "---:" if column in ("value", "stderr", "n", "n_shot") else "---"


def _escaped(value: Any) -> str:
    return "" if value is None else str(value).replace("\\", "\\\\").replace("|", "\\|")
