"""OLAPH's MedLFQA: long answers to patients' questions, from five sources, with statements that an answer should make.

The hub has one file a source, and no column that names it, so the source is the raw split that a row was read from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.prepared import SCORED, Prepared
from lm_eval_healthcare.data.schema import parse_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNKNOWN = "unknown"
SOURCES = ("healthsearch_qa", "kqa_golden", "kqa_silver_wogold", "live_qa", "medication_qa")
ORIGINAL_NAMES = {f"{source}_test_MedLFQA": source for source in SOURCES}  # files as the authors named them

_STATEMENTS = ("Must_have", "Nice_to_have")


def question(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring one question into the columns `Question`, `Free_form_answer`, `Must_have`, `Nice_to_have` and `source`.

    Returns:
        One row; statements are lists of texts, empty where the row has none; `source` is blank where no column says it.

    Raises:
        ValueError: If `Question` is missing or blank, or a column holds something else than text or statements.
    """
    text = row.get("Question")
    if not isinstance(text, str) or not text.strip():
        found = ", ".join(map(str, row)) or "none"
        raise ValueError(f"column 'Question': expected text, got {text!r:.60} (found: {found})")
    if "Free_form_answer" not in row:
        raise ValueError(f"column 'Free_form_answer' is missing (found: {', '.join(map(str, row))})")
    return [
        {
            "Question": text,
            "Free_form_answer": _optional_text(row["Free_form_answer"], "Free_form_answer"),
            **{name: _statements(row.get(name), name) for name in _STATEMENTS},
            "source": _optional_text(row.get("source"), "source").strip(),
        }
    ]


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Merge the sources into one split, each row with its source, and choose one source if asked to.

    Args:
        splits: Rows as `question` shapes them, by source; `test` for a single file of unknown sources, `train` for
            examples.
        options: `source`: `all`, or the name of one source.

    Raises:
        DataError: If the source that was asked for has no row.
    """
    wanted = options.get("source", "all")
    prepared = Prepared({SCORED: []})
    for split, rows in splits.items():
        source = ORIGINAL_NAMES.get(split, split)
        named = source if source in SOURCES else UNKNOWN
        made = [{**row, "source": row["source"] or named} for row in rows]
        if source not in SOURCES and split != SCORED:
            prepared.splits[split] = made
        else:
            prepared.splits[SCORED] += [row for row in made if wanted in ("all", row["source"])]
    if not prepared.splits[SCORED]:
        there = sorted({ORIGINAL_NAMES.get(split, split) for split in splits})
        raise DataError(
            f"olaph: source={wanted} has no rows here (found: {', '.join(there)}). Put olaph/{wanted}.jsonl into the "
            "data folder, add a column 'source' to a single file, or use source=all"
        )
    return prepared


def _optional_text(value: Any, name: str) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"column '{name}': expected text, got {type(value).__name__}")
    return value


def _statements(value: Any, name: str) -> list[str]:
    """Return statements as a list of texts; a CSV may hold the list as JSON or Python, or one as plain text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = parse_literal(value.strip())
        if isinstance(value, str):
            raise ValueError(f"column '{name}': begins as a list, but is none in JSON or Python: {value!r:.60}")
    if value is None or (isinstance(value, float) and value != value):
        return []
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(item is None or isinstance(item, str) for item in value):
        raise ValueError(f"column '{name}': expected a list of statements, got {value!r:.60}")
    return [item for item in value if item and item.strip()]
