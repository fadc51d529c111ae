"""Which of the answers that runs saved have samples as well, so that nothing is scored twice."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.discovery import ANSWERS_FILE
from lm_eval_healthcare.results.names import model_name, sanitized
from lm_eval_healthcare.results.results_file import scored_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.saved_samples import Wishes

_SLACK_SECONDS = 1.0


def with_samples(folder: Path, tasks: Sequence[str], runs: Sequence[RunFiles]) -> list[str]:
    """Return the tasks of a folder of answers whose samples were logged by the same run.

    Args:
        folder: A folder of saved answers.
        tasks: The tasks in it.
        runs: Runs of the harness that might be the one.
    """
    described = _described(folder)
    own = [run for run in runs if scored_from(run.content) == folder.name or _is_of(run, described)]
    return [task for task in tasks if any(task in run.samples for run in own)]


def wanted(folder: Path, tasks: Sequence[str], wishes: Wishes) -> list[str]:
    """Return the tasks of a folder of answers that a user asks for."""
    name = _model(_described(folder)) or ""
    return [task for task in tasks if wishes.takes({name, sanitized(name)}, task)]


def _described(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / ANSWERS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_of(run: RunFiles, described: Mapping[str, Any]) -> bool:
    """Say whether answers were saved while a run went on, by a model of the same name."""
    try:
        saved = datetime.fromisoformat(str(described.get("date"))).timestamp()
        began = float(run.content.get("date") or math.nan)
        ended = began + float(run.content.get("total_evaluation_time_seconds") or math.nan)
    except (TypeError, ValueError):
        return False
    names = {name for name in (_model(described), model_name(run.content)) if name}
    return began - _SLACK_SECONDS <= saved <= ended + _SLACK_SECONDS and len(names) <= 1


def _model(described: Mapping[str, Any]) -> str | None:
    """Return the name of the model that answered, as its results have it."""
    arguments = described.get("arguments")
    given = arguments.get("model_args") if isinstance(arguments, dict) else None
    if not given:
        tasks = described.get("tasks")
        first = next(iter(tasks.values()), None) if isinstance(tasks, dict) else None
        metadata = first.get("metadata") if isinstance(first, dict) else None
        known = metadata if isinstance(metadata, dict) else {}
        given = {key: value for key, value in known.items() if key in ("pretrained", "model")}
    return model_name({"config": {"model_args": given}})
