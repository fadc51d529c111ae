"""Taking few-shot examples out of the scored rows, for benchmarks that have no other split.

A row that is an example is never scored. Which rows are taken depends on their content alone, so the choice is the same
for every order of rows, on every machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

HOLDOUT = "holdout"


def hold_out(rows: Sequence[dict[str, Any]], n: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Divide rows into those that stay and `n` that are held out.

    Args:
        rows: The rows of the scored split.
        n: How many distinct rows to hold out: those whose content has the smallest SHA-256. Copies of one row stay
            together, so no copy of an example is scored.

    Returns:
        The rows that stay and the rows held out, both in their old order.

    Raises:
        ValueError: If no row would be left to score.
    """
    keys = [_key(row) for row in rows]
    distinct = sorted(set(keys))
    if not 0 < n < len(distinct):
        raise ValueError(
            f"fewshot_holdout={n}: there are {len(distinct)} distinct rows; give a number from 1 below that"
        )
    taken = set(distinct[:n])
    stay = [row for row, key in zip(rows, keys, strict=True) if key not in taken]
    return stay, [row for row, key in zip(rows, keys, strict=True) if key in taken]


def _key(row: dict[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
