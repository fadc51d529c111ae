"""The packaged sample rows: a few questions a benchmark, written for this project, in the hub's columns."""

from __future__ import annotations

from pathlib import Path


def rows_path() -> Path:
    """Return the folder of the sample rows: one subfolder a task, one JSON Lines file a split."""
    return Path(__file__).parent / "rows"
