"""What a benchmark's own function makes of its rows: the documents that are scored, and what was left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


SCORED = "test"


@dataclass
class Prepared:
    """The documents of one task.

    Attributes:
        splits: Documents by split; one of them is the scored split, others may give few-shot examples.
        left_out: Rows of the scored split that give no document, by reason.
        warnings: What a user should know but need not stop for.
    """

    splits: dict[str, list[dict[str, Any]]]
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


def scored_split(splits: Iterable[str]) -> str:
    """Return the raw split whose rows are scored: `test`, or the first one of a folder that holds only another."""
    names = list(splits)
    return names[0] if names and SCORED not in names else SCORED
