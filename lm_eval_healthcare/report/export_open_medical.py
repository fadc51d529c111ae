"""Result files of the Open Medical-LLM leaderboard (openlifescienceai/open_medical_llm_leaderboard)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from lm_eval_healthcare.report.export_tasks import OLD_NAMES, OPEN_MEDICAL
from lm_eval_healthcare.report.exports import (
    Document,
    Exported,
    ExportError,
    by_model,
    clean,
    differences,
    flaws,
    safe_names,
    utc,
)
from lm_eval_healthcare.results.cell import Cell
from lm_eval_healthcare.results.names import printable

METRIC, FILTER = "acc", "none"
SHOTS = 0
"""Few-shot examples of the leaderboard."""
_OF_ONE_TASK = ("version", "prompt", "signature", "template", "revision", "dtype", "n_shot")
"""What each task has for itself, and what is looked at apart."""


@dataclass(frozen=True)
class OpenMedicalOptions:
    """How strictly a model's nine values are taken.

    Attributes:
        model_dtype: The weights' precision, such as `torch.bfloat16`; None for what the results say of it.
        allow_missing: Whether a model with less than nine values gets a file.
        allow_mixed: Whether values of different protocols, or with few-shot examples, are taken.
    """

    model_dtype: str | None = None
    allow_missing: bool = False
    allow_mixed: bool = False


def export(cells: Sequence[Cell], options: OpenMedicalOptions) -> Exported:
    """Make `MODEL/results_TIME.json` for each model that has what the leaderboard asks for.

    Accuracies are from 0 to 1, as the harness writes them and as the leaderboard's reader multiplies by 100 itself.

    Raises:
        ExportError: If no model can be exported; the message says for each why.
    """
    done, why = Exported(), []
    wanted = [replace(cell, task=OLD_NAMES.get(cell.task, cell.task)) for cell in cells if concerns(cell)]
    models = by_model(wanted)
    folders = safe_names(cell.model for cell in cells)
    for model in dict.fromkeys(cell.model for cell in cells):
        own = {cell.task: cell for cell in models.get(model, [])}
        if reasons := _refusals(own, options):
            why.append(f"{printable(model)}: {'; '.join(reasons)}")
            continue
        content = record(model, own, options)
        path = PurePosixPath(folders[model], f"results_{_stamp(own.values())}.json")
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        done.documents.append(Document(path, text))
    if why and not done.documents:
        raise ExportError("no model has what the Open Medical-LLM leaderboard asks for\n" + "\n".join(why))
    done.left_out = [f"left out: {reason}" for reason in why]
    return done


def concerns(cell: Cell) -> bool:
    """Return whether a value is one of those that the leaderboard asks for."""
    return cell.metric == METRIC and cell.filter == FILTER and OLD_NAMES.get(cell.task, cell.task) in OPEN_MEDICAL


def _refusals(own: dict[str, Cell], options: OpenMedicalOptions) -> list[str]:
    missing = [task for task in OPEN_MEDICAL if task not in own]
    found = []
    if missing and (not options.allow_missing or not own):
        found.append(f"no usable {METRIC} of {', '.join(missing)} (--allow-missing)")
    protocols = [] if options.allow_mixed else _protocols(list(own.values()))
    return [*found, *(f"{one} (--allow-mixed-protocols)" for one in protocols)]


def _protocols(cells: Sequence[Cell]) -> list[str]:
    """Say where a model's values are not of the leaderboard's protocol, or of several."""
    found = []
    if with_examples := [f"{cell.task} ({cell.n_shot})" for cell in cells if cell.n_shot not in (SHOTS, None)]:
        found.append(f"few-shot examples in {', '.join(with_examples)}, where the leaderboard has none")
    for name, values in (
        ("revisions of the model", {cell.revision for cell in cells if cell.revision is not None}),
        ("chat templates", {cell.template for cell in cells if cell.template}),
        ("precisions", {str(cell.extra["dtype"]) for cell in cells if cell.extra.get("dtype")}),
    ):
        if len(values) > 1:
            found.append(f"several {name}: {', '.join(map(printable, sorted(values)))}")
    return found + differences(cells, _OF_ONE_TASK)


def _stamp(cells: Iterable[Cell]) -> str:
    """Return the newest value's time as the harness writes times in file names, which the leaderboard sorts by."""
    date = utc(max((cell.date for cell in cells if math.isfinite(cell.date)), default=math.nan))
    return "undated" if date is None else f"{date.removesuffix('Z').replace(':', '-')}.000000"


def record(model: str, own: dict[str, Cell], options: OpenMedicalOptions) -> dict[str, Any]:
    """Return the content of one file: `config` and `results`, with exactly the leaderboard's keys in its order."""
    revision = next((cell.revision for cell in own.values() if cell.revision is not None), "")
    dtype = options.model_dtype or next(
        (clean(str(d)) for cell in own.values() if (d := cell.extra.get("dtype"))), None
    )
    found: dict[str, Any] = {
        "config": {"model_dtype": dtype, "model_name": clean(model), "model_sha": clean(revision)},
        "results": {task: _values(own[task]) for task in OPEN_MEDICAL if task in own},
    }
    if notes := {task: list(flaws(cell).values()) for task, cell in own.items() if flaws(cell)}:
        found["notes"] = notes
    return found


def _values(cell: Cell) -> dict[str, float]:
    values = {f"{METRIC},{FILTER}": cell.value}
    if math.isfinite(cell.stderr):
        values[f"{METRIC}_stderr,{FILTER}"] = cell.stderr
    return values
