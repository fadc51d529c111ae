"""PubMedQA: the official split of its 1,000 labelled questions.

The hub's `qiaojin/PubMedQA` keeps all labelled questions in one split. The authors' test set is a list of 500 ids
(test_ground_truth.json of their repository), kept here as `pubmedqa_test_ids.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def official_test_ids() -> frozenset[str]:
    """Return the 500 official test ids, as text."""
    return frozenset(map(str, json.loads(Path(__file__).with_name("pubmedqa_test_ids.json").read_text("utf-8"))))


def official_split(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make `test` (official ids) and `train` (the rest) from rows that are not split yet.

    Rows that come with a `test` split of their own stay as they are. Where no row has an official id, as with a user's
    own questions, all rows are scored and a warning says so.
    """
    if "test" in splits or "train" not in splits:
        return Prepared({name: list(rows) for name, rows in splits.items()})
    ids = official_test_ids()
    test = [row for row in splits["train"] if str(row.get("pubid")) in ids]
    train = [row for row in splits["train"] if str(row.get("pubid")) not in ids]
    if test:
        return Prepared({"test": test, "train": train})
    return Prepared(
        {"test": train},
        warnings=[f"pubmedqa: none of the {len(train)} rows has an official test id; all of them are scored"],
    )
