"""A results file made from an earlier run's: what the run says of itself is carried over, its scores are not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval_healthcare.results.results_file import SCORED_FROM

if TYPE_CHECKING:
    from lm_eval_healthcare.results.discovery import RunFiles


class DerivedTask(Protocol):
    """What a derived results file says of one task.

    Attributes:
        summary: Its part of `results`.
        config: Its part of `configs`.
        higher_is_better: The direction of each metric.
        counts: Its part of `n-samples`.
    """

    @property
    def summary(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def config(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def higher_is_better(self) -> dict[str, bool]: ...  # noqa: D102
    @property
    def counts(self) -> dict[str, Any]: ...  # noqa: D102


def derived_content(
    run: RunFiles, tasks: Mapping[str, DerivedTask], hashes: Mapping[str, str], started: float
) -> dict[str, Any]:
    """Return a results file for tasks of one run.

    Carried over are the model, its settings, the versions of everything, the wording.

    Args:
        run: The run.
        tasks: What is new, by task.
        hashes: The `task_hashes` of their rows.
        started: When the work began, in seconds since the epoch.
    """
    old = run.content
    config = old.get("config") if isinstance(old.get("config"), dict) else None
    by_task = {
        "results": {name: task.summary for name, task in tasks.items()},
        "group_subtasks": {},
        "configs": {name: task.config for name, task in tasks.items()},
        "versions": {name: of_task(old, "versions", name, "N/A") for name in tasks},
        "n-shot": {name: of_task(old, "n-shot", name, None) for name in tasks},
        "higher_is_better": {name: task.higher_is_better for name, task in tasks.items()},
        "n-samples": {name: task.counts for name, task in tasks.items()},
    }
    return {
        **by_task,
        **{key: value for key, value in old.items() if key not in by_task and key != "groups"},
        "config": {**(config or {"model": None, "model_args": None}), SCORED_FROM: run.name},
        "date": started,
        "task_hashes": dict(hashes),
        "model_source": old.get("model_source") or "samples",
        "model_name": run.model,
        "model_name_sanitized": run.model_folder,
        "total_evaluation_time_seconds": str(time.time() - started),
    }


def of_task(results: Mapping[str, Any], key: str, task: str, unknown: Any) -> Any:
    """Return what a part of a results file says of one task."""
    part = results.get(key)
    return part.get(task, unknown) if isinstance(part, dict) else unknown


def counts_of(run: RunFiles, task: str, size: int) -> dict[str, Any]:
    """Return a task's part of `n-samples`.

    Args:
        run: The run, which knows how many documents the data set has.
        task: The task.
        size: Number of documents that are here.
    """
    recorded = of_task(run.content, "n-samples", task, None)
    original = recorded.get("original") if isinstance(recorded, dict) else None
    return {"original": original or size, "effective": size}


def summary_of(task: str, size: int, columns: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    """Return a task's part of `results`: the mean over the documents that have a value, and its standard error.

    Args:
        task: The task.
        size: Number of documents.
        columns: Values of the documents by filter and metric; NaN for none.
    """
    from lm_eval_healthcare.analysis.aggregate import scored_mean, scored_mean_stderr

    out: dict[str, Any] = {"name": task, "alias": task, "sample_len": size}
    for name, values in columns.items():
        for key, column in values.items():
            out[f"{key},{name}"] = scored_mean(column)
            out[f"{key}_stderr,{name}"] = scored_mean_stderr(column) if len(column) > 1 else "N/A"
    return out
