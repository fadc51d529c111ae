"""One task's rows described: loaded, measured, and drawn where that is wanted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.describe import count_words, describe, measure
from lm_eval_healthcare.data.questions import layout_of, questions
from lm_eval_healthcare.data.source import load, parse_source
from lm_eval_healthcare.data.token_lengths import token_counter
from lm_eval_healthcare.report.data_figures import draw

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lm_eval_healthcare.data.selection import Task

logger = logging.getLogger(__name__)


def describe_task(
    task: Task,
    data: str | None = None,
    revision: str | None = None,
    options: Mapping[str, str] | None = None,
    tokenizer: Path | None = None,
    columns: Mapping[str, str | None] | None = None,
    figures: Path | None = None,
) -> dict[str, Any]:
    """Load the rows of a task and describe those that are scored.

    Args:
        task: The task.
        data: `hub`, `sample` or a folder.
        revision: Revision of the hub's set.
        options: Values of the task's own options.
        tokenizer: Where the tokenizer lies whose tokens are the unit of length; words if None.
        columns: Columns that hold `question`, `answer`, `category` or `year`, where it is not known.
        figures: Folder for PNG figures; none are drawn if None.

    Returns:
        The result of `data.describe.describe`, and `source`, `split`, `licence`, `left_out`, `warnings` and `figures`.

    Raises:
        DataError: If the rows cannot be used or it is not known what their columns hold.
    """
    facts = task.facts
    count, unit = token_counter(tokenizer) if tokenizer else (count_words, "words")
    found = load(facts, parse_source(data), {"revision": revision} if revision else {}, options)
    documents = list(found.splits[found.eval_split])
    given = {key: name for key, name in (columns or {}).items() if name}
    layout = layout_of(documents[0], facts.name, task.config, given)
    rows = questions(documents, layout)
    quotable = not facts.credentialed or found.provenance["source"] == "sample"
    out = {
        "source": data or "hub",
        "split": found.eval_split,
        "licence": facts.licence,
        **describe(rows, layout, documents, count, unit, quotable),
        "left_out": dict(found.left_out),
        "warnings": found.warnings,
    }
    for warning in found.warnings:
        logger.warning(warning)
    if figures is not None:
        out["figures"] = [str(path) for path in draw(figures, facts.name, out, rows, measure(rows, count))]
    return out
