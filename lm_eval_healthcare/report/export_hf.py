"""Evaluation results as the Hugging Face hub reads them from a model's folder `.eval_results`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from lm_eval_healthcare.report.export_tasks import benchmark_of, is_credentialed, is_share
from lm_eval_healthcare.report.exports import (
    Document,
    Exported,
    ExportError,
    Refused,
    by_model,
    clean,
    flaws,
    percent,
    safe_names,
    utc,
)
from lm_eval_healthcare.results.cell import Cell
from lm_eval_healthcare.results.names import printable

FOLDER = ".eval_results"
METRIC = "acc"
DEFAULT_PART = "default"


@dataclass(frozen=True)
class HubOptions:
    """What the files say besides the scores.

    Attributes:
        any_metric: Whether other metrics than accuracy are taken, each into a file of its own.
        in_percent: Whether shares are told in percent, as some benchmarks of the hub do.
        task_ids: The benchmark's own name of a task (`tasks: id` in the `eval.yaml` of its dataset), by task.
        source: `url`, `name` and `user` of where the results are from; empty if nothing is to be said.
    """

    any_metric: bool = False
    in_percent: bool = False
    task_ids: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)


def export(cells: Sequence[Cell], options: HubOptions) -> Exported:
    """Make `MODEL/.eval_results/TASK.yaml` for each model and task.

    One file holds one value: the hub takes a second value of a dataset's task for another way to run it only from
    another file.

    Raises:
        ExportError: If a task has values after several filters, or a source has no address.
    """
    if options.source and "url" not in options.source:
        raise ExportError("--source-name and --source-user need --source-url: the hub shows a link")
    done = Exported()
    folders = safe_names(cell.model for cell in cells)
    for model, own in by_model(cells).items():
        taken = []
        for cell in own:
            reason = _refusal(cell, options)
            done.refused += [Refused(cell, reason)] if reason else []
            taken += [] if reason else [cell]
        _refuse_filters(taken)
        files = safe_names(_file(cell) for cell in taken)
        for cell in taken:
            path = PurePosixPath(folders[model], FOLDER, f"{files[_file(cell)]}.yaml")
            text = yaml.safe_dump([entry(cell, options)], sort_keys=False, allow_unicode=True, width=1000)
            done.documents.append(Document(path, text))
    if done.documents:
        done.notes.append(
            "the hub shows a value only if the dataset is registered as a benchmark and its eval.yaml has the task_id; "
            "give another one with --task-id TASK=ID"
        )
    return done


def entry(cell: Cell, options: HubOptions) -> dict[str, Any]:
    """Return one value as the hub's description of `.eval_results` has it."""
    known = benchmark_of(cell.task)
    if known is None or known.dataset is None:
        raise ExportError(f"{printable(cell.task)}: no dataset of the hub is known for it")
    task_id = options.task_ids.get(cell.task) or known.config or DEFAULT_PART
    in_percent = options.in_percent and is_share(cell)
    found: dict[str, Any] = {
        "dataset": {"id": known.dataset, "task_id": task_id},
        "value": percent(cell.value) if in_percent else cell.value,
    }
    if (date := utc(cell.date)) is not None:
        found["date"] = date
    if options.source:
        found["source"] = {key: options.source[key] for key in ("url", "name", "user") if key in options.source}
    found["notes"] = _notes(cell, in_percent)
    return found


def _notes(cell: Cell, in_percent: bool) -> str:
    parts = [
        f"lm-evaluation-harness task {clean(cell.task)}",
        clean(cell.metric) + (" in percent" if in_percent else ""),
    ]
    if cell.filter != "none":
        parts.append(f"filter {clean(cell.filter)}")
    parts += [] if cell.n_shot is None else [f"{cell.n_shot}-shot"]
    parts += [] if cell.template is None else ["chat template" if cell.template else "no chat template"]
    parts += [] if cell.n is None else [f"n={cell.n}"]
    if cell.stderr == cell.stderr:
        parts.append(f"stderr={percent(cell.stderr) if in_percent else cell.stderr!r}")
    return ", ".join([*parts, *flaws(cell).values()])


def _refusal(cell: Cell, options: HubOptions) -> str | None:
    known = benchmark_of(cell.task)
    if is_credentialed(cell.task):
        return "its data are credentialed, and the hub has no dataset of them"
    if known is None or known.dataset is None:
        return "no dataset of the hub is known for this task"
    if cell.metric != METRIC and not options.any_metric:
        return f"the hub wants one value for a task, and {METRIC} is taken; name others with --where metric=NAME"
    return None


def _refuse_filters(cells: Sequence[Cell]) -> None:
    filters = defaultdict(set)
    for cell in cells:
        filters[cell.task, cell.metric].add(cell.filter)
    for (task, metric), names in filters.items():
        if len(names) > 1:
            raise ExportError(
                f"{printable(task)} {printable(metric)} has values after several filters "
                f"({'; '.join(map(printable, sorted(names)))}); choose one with --where filter=NAME"
            )


def _file(cell: Cell) -> str:
    return cell.task if cell.metric == METRIC else f"{cell.task}-{cell.metric}"
