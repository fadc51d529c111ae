"""Saving the answers of all of the pack's tasks the moment the model is done, before the first of them is scored."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import re
import shlex
import sys
import threading
import weakref
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval_healthcare
from lm_eval_healthcare.harness.command_line import arguments_of_command
from lm_eval_healthcare.harness.ranks import from_first
from lm_eval_healthcare.scoring.answers import SavedRequest, answers_file, mark_deleted, write_answers, write_run

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.task import HealthcareTask

logger = logging.getLogger(__name__)

OFF = "off"
_SECRET = re.compile(r"(?:^|_)(?:token|key|secret|password|passwd|credential)s?(?:$|_)", re.IGNORECASE)
_local = threading.local()


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


class Answers(list):
    """The answers to one request; the last one that the model owes a task makes the run save that task."""

    def __init__(self, run: Run, task: str, needed: int) -> None:
        """Belong to a task of a run, and need so many answers."""
        super().__init__()
        self._run, self._task, self._needed = run, task, needed
        run.owed[task] += 1

    def append(self, answer: Any) -> None:
        """Take an answer from the evaluator."""
        super().append(answer)
        if len(self) == self._needed:
            self._run.owed[self._task] -= 1
            if not self._run.owed[self._task]:
                save_answered(self._run)

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        """Travel between processes as a plain list."""
        return list, (list(self),)


class Run:
    """The tasks whose requests one evaluation built together, and the folder in which their answers are saved."""

    def __init__(self, world_size: int) -> None:
        """Choose a name that all ranks share."""
        name = f"{datetime.now():%Y-%m-%dT%H-%M-%S.%f}_{os.getpid()}"
        self.name: str = from_first(name, world_size)
        self.owed: Counter[str] = Counter()
        self.saved: set[str] = set()
        self.scored: set[str] = set()
        self.folders: dict[str, Path] = {}  # where each task's answers lie
        self._tasks: list[weakref.ref[HealthcareTask]] = []

    @property
    def tasks(self) -> list[HealthcareTask]:
        """The tasks that still exist."""
        return [task for reference in self._tasks if (task := reference()) is not None]

    def takes(self, task: HealthcareTask) -> bool:
        """Say whether a task whose requests are being built can belong to this run: the model has not yet answered."""
        others = self.tasks
        if len(others) < len(self._tasks):  # an evaluation that died has left them
            return False
        begun = any(instance.resps for other in others for instance in other.instances or [])
        return not self.saved and not begun and all(other.task_name != task.task_name for other in others)

    def finish(self, task: HealthcareTask) -> bool:
        """Take note that a task is scored, and say whether it was the last."""
        self.scored.add(task.task_name)
        return self.scored >= {other.task_name for other in self.tasks}

    def add(self, task: HealthcareTask) -> None:
        """Take a task in, and watch the answers to its requests."""
        self._tasks.append(weakref.ref(task))
        for instance in task.instances or []:
            instance.resps = Answers(self, task.task_name, max(1, instance.repeats or 1))

    def save(self, tasks: list[HealthcareTask]) -> Path | None:
        """Write the answers of tasks into the first folder that takes them: where earlier ones lie, if that has room.

        Returns:
            The folder, or None if no folder took them.
        """
        names = ", ".join(sorted(task.task_name for task in tasks))
        folders = [*self.folders.values(), *(base / self.name for base in _bases(tasks[0]))]
        for folder in dict.fromkeys(folders):
            try:
                _write(folder, tasks, [task for task in self.tasks if self.folders.get(task.task_name) == folder])
            except Exception as error:
                logger.warning("answers of %s could not be saved in %s: %s", names, folder, error)
                _remove(folder, tasks)
                continue
            self.folders.update({task.task_name: folder for task in tasks})
            return folder
        return None


def join_run(task: HealthcareTask) -> Run:
    """Return the run to which a task belongs whose requests have just been built."""
    run: Run | None = getattr(_local, "run", None)
    if run is None or not run.takes(task):
        run = _local.run = Run(task.world_size)
    run.add(task)
    return run


def save_answered(run: Run | None) -> None:
    """Save the answers of every task of a run that is answered and not yet saved.

    Called when the evaluator has handed out the last answer of a task, so that texts are on disk before
    log-likelihoods are computed, and again before the first task is scored. Whatever goes wrong is reported; it never
    stops a run that could still print its scores.
    """
    if run is None:
        return
    tasks = [task for task in run.tasks if task.answered and task.task_name not in run.saved]
    tasks = [task for task in tasks if task.options.answers != OFF and not task.replaying]
    if not tasks:
        return
    names = ", ".join(sorted(task.task_name for task in tasks))
    known = set(run.folders.values())
    folder = run.save(tasks)
    run.saved |= {task.task_name for task in tasks}
    if folder is None:
        logger.error("answers of %s are NOT on disk; the run goes on. Free space, or name a folder: answers=DIR", names)
        return
    command = f"lm-eval-healthcare score {shlex.quote(str(folder))}"
    if folder not in known:
        logger.info("answers are saved in %s before they are scored; if the run stops: %s", folder, command)
    logger.debug("answers of %s are saved", names)


def discard(run: Run | None, task: HealthcareTask) -> None:
    """Delete the saved answers of a task whose texts are not kept, once they are scored with every metric."""
    folder = run.folders.get(task.task_name) if run is not None else None
    if folder is None or task.replaying:
        return
    if not task.scores_are_complete:
        logger.warning(
            "%s: its saved answers hold texts of credentialed data and are kept, readable by you alone, since not all "
            "metrics have been computed; delete %s once they are", task.task_name, folder,
        )  # fmt: skip
        return
    try:
        answers_file(folder, task.task_name, task.rank).unlink(missing_ok=True)
        if task.rank == 0:
            mark_deleted(folder, task.task_name)
    except OSError as error:
        logger.error(
            "answers of %s hold texts of credentialed data and could not be deleted: %s", task.task_name, error
        )


def _write(folder: Path, tasks: list[HealthcareTask], before: list[HealthcareTask]) -> None:
    for task in tasks:
        requests = (_saved_request(instance, task.row_number(instance.doc_id)) for instance in task.instances)
        write_answers(folder, task.task_name, requests, rank=task.rank, private=task.facts.credentialed)
    if tasks[0].rank == 0:  # last: where a disk is full, a folder does not speak of answers that it lacks
        write_run(folder, _describe([*before, *tasks]))


def _remove(folder: Path, tasks: list[HealthcareTask]) -> None:
    """Remove what a folder took of answers that go elsewhere: nobody would look for them here."""
    for task in tasks:
        with contextlib.suppress(OSError):
            answers_file(folder, task.task_name, task.rank).unlink(missing_ok=True)


def _saved_request(instance: Instance, doc_id: int) -> SavedRequest:
    return SavedRequest(
        doc_id=doc_id,
        idx=instance.idx,
        request_type=instance.request_type,
        doc=dict(instance.doc),
        arguments=list(instance.args),
        resps=[list(r) if isinstance(r, tuple) else r for r in instance.resps],
    )


def _describe(tasks: list[HealthcareTask]) -> dict[str, Any]:
    """How the run was made, with everything that scoring it again needs and nothing that is secret."""
    return without_secrets(
        {
            "date": datetime.now().astimezone().isoformat(),
            "arguments": _context.arguments or arguments_of_command(sys.argv),
            "output_path": _output_path(),
            "lm_eval_version": importlib.metadata.version("lm_eval"),
            "lm_eval_healthcare_version": lm_eval_healthcare.__version__,
            "world_size": tasks[0].world_size,
            "tasks": {
                task.task_name: {
                    "options": task.options_used,
                    "prompt": task.wording,
                    "metadata": dict(task.config.metadata or {}),
                    "num_fewshot": task.config.num_fewshot,
                    "generation_kwargs": task.generation_kwargs_used,
                    "stops": task.stops,
                    "chat": task.chat,
                    "categories": task.categories,
                    "rows": len(task.eval_docs),
                    "provenance": task.provenance,
                }
                for task in tasks
            },
        }
    )


def without_secrets(value: Any, name: str = "") -> Any:
    """Return `value` with the values behind names such as `token` or `api_key` hidden."""
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name) for item in value]
    return "(hidden)" if value and isinstance(value, str) and _SECRET.search(name) else value


def _bases(task: HealthcareTask) -> list[Path]:
    """The folders to try, best first."""
    bases = [task.options.answers] if task.options.answers else []
    output = _output_path()
    if output:
        path = Path(output)
        bases.append(str((path.parent if path.suffix == ".json" else path) / "answers"))
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    bases.append(os.path.join(cache, "lm_eval_healthcare", "answers"))
    return [Path(os.path.abspath(os.path.expanduser(base))) for base in bases]


def _output_path() -> str | None:
    """The run's output path: as `run` was told, or as the harness's own command line has it."""
    path = _context.output_path or arguments_of_command(sys.argv).get("output_path")
    return os.path.abspath(path) if path else None
