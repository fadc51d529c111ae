"""Small result files of every age of the harness, made for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def results(
    model: str | None = "org/one",
    tasks: dict[str, dict[str, Any]] | None = None,
    *,
    n: int | tuple[int, int] = 100,
    date: float | None = 1_000_000.0,
    **more: Any,
) -> dict[str, Any]:
    """A results file of today; `more` replaces its top-level keys, None leaves one out.

    Args:
        model: Its name.
        tasks: Values by task, such as {"qa": {"acc,none": 0.5}}.
        n: Documents scored and documents in all, or one number for both.
        date: Seconds since the epoch.
        more: Other top-level keys.
    """
    tasks = {"qa": {"acc,none": 0.5, "acc_stderr,none": 0.05}} if tasks is None else tasks
    effective, original = (n, n) if isinstance(n, int) else n
    content: dict[str, Any] = {
        "results": {task: {"name": task, "alias": task, "sample_len": effective, **row} for task, row in tasks.items()},
        "group_subtasks": {},
        "configs": {task: {"task": task, "num_fewshot": 0, "metadata": {"version": 1.0}} for task in tasks},
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {},
        "n-samples": {task: {"original": original, "effective": effective} for task in tasks},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "limit": None, "gen_kwargs": {}},
        "date": date,
        "lm_eval_version": "0.4.13",
        "task_hashes": {},
        "model_name": model,
        "chat_template": None,
        "chat_template_sha": None,
    }
    content.update(more)
    return {key: value for key, value in content.items() if value is not None or key.startswith("chat_template")}


def legacy(model: str, tasks: dict[str, dict[str, Any]], **config: Any) -> dict[str, Any]:
    """A results file of 0.3: bare keys, no counts, the model only among the arguments, as text."""
    return {
        "results": tasks,
        "versions": dict.fromkeys(tasks, 0),
        "config": {"model": "hf-causal", "model_args": f"pretrained={model},dtype=float16", "limit": None, **config},
    }


def write(path: Path, content: Any) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
