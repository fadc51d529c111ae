"""What a benchmark's own function makes of its rows: the documents that are scored, and what was left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


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
