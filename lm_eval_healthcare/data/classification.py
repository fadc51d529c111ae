"""Medical text classification: five classes of disease for an abstract."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_healthcare.data.prepared import SCORED, Prepared, scored_split

BLANK_TEXT = "blank_text"
LETTERS = ("A", "B", "C", "D", "E")
# The names that the data set gives its labels 1 to 5.
CONDITIONS = (
    "neoplasms",
    "digestive system diseases",
    "nervous system diseases",
    "cardiovascular diseases",
    "general pathological conditions",
)


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make one question of every abstract.

    Args:
        splits: Rows with `condition_label` (1 to 5) and `medical_abstract`. `test` is scored; without it the first
            split is, under the name `test`.
        options: None are used.

    Returns:
        Documents with `medical_abstract`, `option_a` to `option_e`, `condition` and `answer` (0 to 4). A warning says
        how many scored abstracts carry more than one class: no model can have all of these right.
    """
    scored = scored_split(splits)
    prepared = Prepared({})
    for name, rows in splits.items():
        kept = [row for row in rows if row["medical_abstract"].strip()]
        prepared.splits[SCORED if name == scored else name] = [_document(row) for row in kept]
        if name == scored:
            prepared.left_out = Counter({BLANK_TEXT: len(rows) - len(kept)} if len(kept) < len(rows) else {})
            prepared.warnings = _contradictions(kept)
    return prepared


def best_accuracy(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the accuracy of a model that knows every text's most frequent class: below 1 where classes contradict."""
    classes: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        classes[_same(row["medical_abstract"])][row["condition_label"]] += 1
    return sum(max(counts.values()) for counts in classes.values()) / len(rows)


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    answer = row["condition_label"] - 1
    return {
        "medical_abstract": row["medical_abstract"],
        **{f"option_{letter.lower()}": condition for letter, condition in zip(LETTERS, CONDITIONS, strict=True)},
        "condition": CONDITIONS[answer],
        "answer": answer,
    }


def _contradictions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    classes: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        classes[_same(row["medical_abstract"])].add(row["condition_label"])
    several = sum(len(found) > 1 for found in classes.values())
    if not several:
        return []
    return [
        f"med_text_classification_easy: {several} of {len(classes)} distinct abstracts stand under more than one "
        f"class; no model can score more than {best_accuracy(rows):.1%}"
    ]


def _same(text: str) -> str:
    return " ".join(text.split())
