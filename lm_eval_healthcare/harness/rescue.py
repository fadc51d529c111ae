"""Saving the answers of all of the pack's tasks the moment the model is done, before the first of them is scored."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
import weakref
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval_healthcare
from lm_eval_healthcare.scoring.answers import SavedRequest, write_answers, write_run

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.task import HealthcareTask

logger = logging.getLogger(__name__)

OFF = "off"
_live_tasks: weakref.WeakSet[HealthcareTask] = weakref.WeakSet()


@dataclass
class RunContext:
    """What `lm-eval-healthcare run` knows and a task cannot: where results go and how the command was given."""

    output_path: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


_context = RunContext()


def set_context(context: RunContext) -> None:
    """Set what the following run knows about itself."""
    global _context
    _context = context


def watch(task: HealthcareTask) -> None:
    """Let `save_pending` know of a task."""
    _live_tasks.add(task)


def save_pending() -> None:
    """Save the answers of every live task whose requests are all answered and not yet saved.

    A disk that is full or a folder that cannot be written is reported, and the next folder is tried; it never stops a
    run that could still print its scores.
    """
    pending = [task for task in _live_tasks if task.answered and not task.answers_saved]
    pending = [task for task in pending if task.options.answers != OFF and not task.replaying]
    if not pending:
        return
    names = ", ".join(sorted(task.task_name for task in pending))
    for folder in _folders(pending[0]):
        try:
            _write(folder, pending)
        except OSError as error:
            logger.warning("answers of %s could not be saved in %s: %s", names, folder, error)
            continue
        logger.info(
            "answers of %s are saved in %s; if scoring stops, nothing is lost: lm-eval-healthcare score %s",
            names, folder, folder,
        )  # fmt: skip
        break
    else:
        logger.error("answers of %s are NOT on disk; scoring goes on. Free space, or name a folder: answers=DIR", names)
    for task in pending:
        task.answers_saved = True


def _write(folder: Path, tasks: list[HealthcareTask]) -> None:
    first = tasks[0]
    if first.rank == 0:
        write_run(folder, _describe(tasks))
    for task in tasks:
        write_answers(folder, task.task_name, (saved_request(i) for i in task.instances), rank=task.rank)


def saved_request(instance: Instance) -> SavedRequest:
    """Turn one of the harness's instances into what is written."""
    return SavedRequest(
        doc_id=int(instance.doc_id),
        idx=instance.idx,
        request_type=instance.request_type,
        doc=dict(instance.doc),
        arguments=list(instance.args),
        resps=[list(r) if isinstance(r, tuple) else r for r in instance.resps],
    )


def _describe(tasks: list[HealthcareTask]) -> dict[str, Any]:
    return {
        "date": datetime.now().astimezone().isoformat(),
        "argv": sys.argv,
        "arguments": _context.arguments,
        "output_path": _output_path(),
        "lm_eval_version": importlib.metadata.version("lm_eval"),
        "lm_eval_healthcare_version": lm_eval_healthcare.__version__,
        "tasks": {
            task.task_name: {
                "metadata": dict(task.config.metadata or {}),
                "num_fewshot": task.config.num_fewshot,
                "generation_kwargs": task.config.generation_kwargs,
            }
            for task in tasks
        },
    }


def _folders(task: HealthcareTask) -> list[Path]:
    """The folders to try, best first."""
    now = datetime.now()
    # Ranks must agree on a name without talking; what they share is the process that launched them.
    name = f"{now:%Y-%m-%d}_{os.getppid()}" if task.world_size > 1 else f"{now:%Y-%m-%dT%H-%M-%S.%f}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lm_eval_healthcare"
    bases = [Path(task.options.answers).expanduser()] if task.options.answers else []
    output = _output_path()
    if output:
        path = Path(output)
        bases.append((path.parent if path.suffix == ".json" else path) / "answers")
    return [base / name for base in [*bases, cache / "answers"]]


def _output_path() -> str | None:
    """The run's output path: as `run` was told, or as the harness's own command line has it."""
    if _context.output_path:
        return _context.output_path
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--output_path", "-o", nargs="?")
    try:
        known, _ = parser.parse_known_args(sys.argv[1:])
    except (argparse.ArgumentError, SystemExit):
        return None
    is_harness = Path(sys.argv[0]).stem in ("lm_eval", "lm-eval", "__main__")
    return known.output_path if is_harness else None
