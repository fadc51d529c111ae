"""Everything that can be wrong with a run and can be known before a model is loaded."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.tasks._yaml_loader import load_yaml

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.harness.manager import (
    build_task_manager,
    leave_out_without_rows,
    leaves,
    needs_harness_index,
    without_overlap,
)
from lm_eval_healthcare.harness.open_ended import OpenEndedTask
from lm_eval_healthcare.harness.options import (
    MISSING,
    OptionError,
    Options,
    options_of_others,
    unknown_options,
    unknown_variables,
)
from lm_eval_healthcare.harness.task import HealthcareTask
from lm_eval_healthcare.harness.text_metrics import cannot_be_computed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lm_eval.tasks import TaskManager

logger = logging.getLogger(__name__)


@dataclass
class TaskReport:
    """What `check` found out about one task."""

    name: str
    file: str | None = None
    rows: int | None = None
    source: str | None = None
    metrics: list[str] = field(default_factory=list)
    prompt: str | None = None
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(
    names: Sequence[str],
    metadata: Mapping[str, Any],
    include_path: Sequence[str | Path] = (),
    num_fewshot: int | None = None,
) -> tuple[list[TaskReport], list[str]]:
    """Load tasks with their functions, read and check their rows, resolve their metrics and build a first prompt.

    Args:
        names: Names or patterns of tasks, groups and tags.
        metadata: The options that the run would be given.
        include_path: The user's own task folders.
        num_fewshot: Number of examples that the run would use.

    Returns:
        One report for each task, and the problems that belong to no task. No problem ends the check.
    """
    problems, metadata = _option_problems(metadata)
    problems += unknown_variables()
    refuse = True
    with contextlib.suppress(OptionError):  # what the environment gives is told by every task
        refuse = Options.from_metadata(metadata).metrics_missing == MISSING[0]
    metadata = {**metadata, "metrics_missing": "skip"}  # so that what is wrong with the rows is found as well
    manager = alone = build_task_manager(list(include_path), metadata, include_defaults=False)
    problems += _unreadable(include_path)
    if needs_harness_index(names, alone):
        manager = build_task_manager(list(include_path), metadata, include_defaults=True)
    known = [name for name in names if manager.match_tasks([name])]
    problems += unknown_options(metadata, strict=not needs_harness_index(known, alone))
    reports: list[TaskReport] = []
    with contextlib.suppress(ValueError):  # a folder that is not there is told by every task
        left_out = leave_out_without_rows(manager, known, Options.from_metadata(metadata).data)
        told = "not part of this run: its rows can only come from your own files (--metadata data=FOLDER)"
        reports = [TaskReport(name, warnings=[told]) for name in left_out]
    try:
        without_overlap(manager, known)
    except ValueError as error:
        problems.append(str(error))
    matched = [match for name in known for match in manager.match_tasks([name])]
    for message in options_of_others(metadata, leaves(manager, matched)):
        logger.warning(message)
    tasks: dict[str, None] = {}
    for name in names:
        matches = manager.match_tasks([name])
        if not matches:
            problems.append(f"task not found: {name}; `lm-eval-healthcare list` shows the pack's")
        tasks.update(dict.fromkeys(leaves(manager, matches)))
    log = logging.getLogger("lm_eval_healthcare")
    level = log.level
    log.setLevel(logging.ERROR)  # warnings are in the reports
    try:
        return [_check_task(name, manager, num_fewshot, refuse) for name in tasks] + reports, problems
    finally:
        log.setLevel(level)


def _option_problems(metadata: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """What is wrong with the options, and the options without that: the rest of the check goes on with the defaults."""
    problems, usable = [], {}
    for name, value in metadata.items():
        try:
            Options.from_metadata({name: value})
            usable[name] = value
        except OptionError as error:
            problems.append(str(error))
    return problems, usable


def _check_task(name: str, manager: TaskManager, num_fewshot: int | None, refuse: bool) -> TaskReport:
    report = TaskReport(name)
    entry = manager.task_index.get(name)
    report.file = str(entry.yaml_path) if entry is not None and entry.yaml_path else None
    try:
        task = manager.load([name])["tasks"][name]
        report.rows = len(task.eval_docs)
        if isinstance(task, HealthcareTask):
            _describe(report, task, refuse)
        if num_fewshot:
            task.set_config("num_fewshot", num_fewshot)
            task.set_fewshot_seed(0)
        task.fewshot_context(task.eval_docs[0], num_fewshot or 0)
    except Exception as error:  # every problem is to be listed, whatever raised it
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        report.problems.append(f"{kind}{error}")
    return report


def _describe(report: TaskReport, task: HealthcareTask, refuse: bool) -> None:
    """Fill in what a task says of itself; `refuse`: a metric that cannot be computed would end the run."""
    report.source = str(task.provenance.get("source"))
    report.metrics = list(task.metric_names)
    report.prompt = task.wording
    report.warnings = list(task.data_warnings)
    if refuse and isinstance(task, OpenEndedTask) and task.lacking_metrics:
        report.problems.append(cannot_be_computed(task.lacking_metrics.values()))
        report.warnings = [
            text for text in report.warnings if not any(t in text for t in task.lacking_metrics.values())
        ]


def _unreadable(include_path: Iterable[str | Path]) -> list[str]:
    """The YAMLs below the user's folders that the harness would skip in silence."""
    problems = []
    for folder in include_path:
        for path in sorted(Path(folder).glob("**/*.yaml")):
            try:
                load_yaml(path, resolve_func=False)
            except Exception as error:  # whatever the harness would swallow
                problems.append(f"{path}: the harness skips this file in silence: {error}")
    return problems
