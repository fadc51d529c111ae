"""`lm-eval-healthcare run`: the harness's own `run`, with the pack's tasks found and every problem told early."""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import logging
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval.tasks
from lm_eval._cli import HarnessCLI
from lm_eval.config.evaluate_config import EvaluatorConfig

from lm_eval_healthcare.harness import rescue
from lm_eval_healthcare.harness.command_line import (
    metadata_from_arguments,
    refuse_half_written,
    refuse_unwritable,
    split_names,
    start_logging,
    take_out,
)
from lm_eval_healthcare.harness.manager import (
    build_task_manager,
    leave_out_without_rows,
    leaves,
    needs_harness_index,
    user_folders,
    without_overlap,
)
from lm_eval_healthcare.harness.open_ended import OpenEndedTask
from lm_eval_healthcare.harness.options import (
    OptionError,
    Options,
    options_of_others,
    unknown_options,
    unknown_variables,
)
from lm_eval_healthcare.harness.relaxed import RelaxedPerplexityTask
from lm_eval_healthcare.harness.relaxed_engines import engine_arguments, refuse_engine
from lm_eval_healthcare.harness.repeated_answers import RepeatedAnswersTask
from lm_eval_healthcare.harness.task import HealthcareTask

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from lm_eval.tasks import TaskManager

logger = logging.getLogger(__name__)


@dataclass
class TaskSummary:
    """What the harness's table does not show of a task.

    Attributes:
        name: The task.
        reasons: How many documents each reason concerns, such as `empty_prediction`.
        breakdown: For each column and value: the score, its standard error and n.
        to_do: The command that computes what this run left for later, if there is something.
    """

    name: str
    reasons: dict[str, int]
    breakdown: dict[str, dict[str, dict[str, float]]]
    to_do: str | None = None


@dataclass
class Prepared:
    """A command of which everything is known that can be known before a model is loaded.

    Attributes:
        cli: The harness's command line.
        args: Its parsed arguments, changed so that they can be executed.
        config: What the harness makes of the arguments as the user gave them.
        manager: The manager of the tasks.
        names: The tasks, groups and YAML files that are run.
        tasks: The loaded tasks by name; none if a YAML file is named, which only the harness loads.
    """

    cli: HarnessCLI
    args: argparse.Namespace
    config: EvaluatorConfig
    manager: TaskManager
    names: list[str]
    tasks: dict[str, Any]


def run(argv: Sequence[str]) -> list[TaskSummary]:
    """Run the harness with the pack's tasks.

    Args:
        argv: The arguments of `lm_eval run`; `--include_path` may be given several times.

    Returns:
        What the harness's own table does not show of each task of the pack.

    Raises:
        OptionError: If an option cannot be used, rows cannot be used, or a task does not exist.
    """
    given = sys.argv
    try:
        prepared = prepare(argv)
        for task in prepared.tasks.values():
            if isinstance(task, OpenEndedTask):
                task.refuse_absent_judge()
        config = prepared.config
        rescue.set_context(rescue.RunContext(output_path=config.output_path, arguments=_recorded(config)))
        started = time.time()
        with _in_place_of_task_manager(prepared.manager):
            prepared.cli.execute(prepared.args)
        if config.output_path:
            refuse_half_written(Path(config.output_path), started)
        return [summary for task in prepared.tasks.values() if (summary := summarise(task)) is not None]
    finally:  # what follows in this process is another run
        sys.argv = given
        rescue.set_context(rescue.RunContext())


def prepare(argv: Sequence[str]) -> Prepared:
    """Read a command line and load its tasks.

    Tasks are loaded before the model, so that wrong options, missing data and unknown metrics end the command in its
    first seconds.

    Args:
        argv: The arguments of `lm_eval run`; `--include_path` may be given several times.

    Raises:
        OptionError: If an option cannot be used, rows cannot be used, or a task does not exist.
    """
    start_logging()
    folders, rest = take_out(argv, "--include_path")
    metadata, rest = take_out(rest, "--metadata", several=True)
    if metadata:  # as JSON, which every version of the harness takes
        rest += ["--metadata", json.dumps(metadata_from_arguments(metadata))]
    sys.argv = ["lm-eval", "run", *rest]
    cli = HarnessCLI()
    args = cli.parse_args()
    if not getattr(args, "tasks", None) and not getattr(args, "config", None):
        raise OptionError("no --tasks given; `lm-eval-healthcare list` shows what there is")
    try:
        args.include_path = [str(folder) for folder in user_folders([*folders, *_configured_folders(args)])]
        with contextlib.redirect_stdout(io.StringIO()):  # from_cli prints a --config file; it will do so again
            config = EvaluatorConfig.from_cli(args)
        names = split_names(config.tasks)
        manager = _manager(names, args.include_path, config.metadata or {})
        _refuse_unknown_options(config, names, manager)
        names = _runnable(manager, names, config.metadata or {})
        args.tasks = ",".join(names)
        loaded = preload(manager, names, config.num_fewshot)
        _check_selection(config, loaded)
        if config.samples:  # the harness numbers selected rows in their own order, and labels them in the given one
            args.samples = json.dumps({task: sorted(set(rows)) for task, rows in config.samples.items()})
        for task in loaded.values():
            if isinstance(task, RepeatedAnswersTask):
                task.refuse_greedy(config.gen_kwargs)
        relaxed = [task for task in loaded.values() if isinstance(task, RelaxedPerplexityTask)]
        for task in relaxed:
            refuse_engine(task.relaxed.engine, config.model)
        if relaxed:
            args.model_args = engine_arguments(config.model, config.model_args)
        if config.output_path:
            refuse_unwritable(Path(config.output_path))
    except ValueError as error:  # no model is loaded yet: the message alone is what a user needs
        raise OptionError(str(error)) from error
    return Prepared(cli, args, config, manager, names, loaded)


def summarise(task: Any) -> TaskSummary | None:
    """Return what the harness's table does not show of a task.

    Returns:
        None if the task is not the pack's, was not run, or this is not the process that prints the table.
    """
    if not isinstance(task, HealthcareTask) or not task.answered or task.rank:
        return None
    return TaskSummary(task.task_name, dict(task.reasons), task.breakdown, task.to_do)


def preload(manager: TaskManager, names: Sequence[str], num_fewshot: int | None = None) -> dict[str, Any]:
    """Load tasks now and let the manager give the same objects when the harness asks for them later.

    Args:
        manager: The manager that the harness will use.
        names: Names or patterns as the user gave them; names of YAML files are left to the harness.
        num_fewshot: What the run will ask for; tasks that have no examples say so now.

    Returns:
        The loaded tasks by name; none if a YAML file is named, which only the harness loads.

    Raises:
        ValueError: If a name matches nothing.
    """
    plain = [name for name in names if not name.endswith(".yaml")]
    missing = [name for name in plain if not manager.match_tasks([name])]
    if missing:
        raise ValueError(_not_found(manager, missing))
    if not plain or len(plain) < len(names):
        return {}
    matched = list(dict.fromkeys(match for name in plain for match in manager.match_tasks([name])))
    loaded = manager.load(matched)
    for task in loaded["tasks"].values():
        if num_fewshot and isinstance(task, HealthcareTask) and task.get_config("num_fewshot") != 0:
            task.prepare_fewshot(num_fewshot)
    load = manager.load
    manager.load = lambda tasks: loaded if tasks == matched else load(tasks)
    return loaded["tasks"]


def _runnable(manager: TaskManager, names: Sequence[str], metadata: dict[str, Any]) -> list[str]:
    """Return what is run of what was asked for: each task once, and of groups only those whose rows can be had."""
    missing = [name for name in names if not name.endswith(".yaml") and not manager.match_tasks([name])]
    if missing:
        raise ValueError(_not_found(manager, missing))
    left_out = leave_out_without_rows(manager, names, Options.from_metadata(metadata).data)
    if left_out:
        logger.warning(
            "left out, since their rows can only come from your own files (--metadata data=FOLDER): %s",
            ", ".join(left_out),
        )
    for name in names:
        twice = [leaf for leaf, count in Counter(leaves(manager, [name])).items() if count > 1]
        if twice:
            logger.warning("%s holds %s more than once: its mean counts them more than once", name, ", ".join(twice))
    return without_overlap(manager, names)


def _not_found(manager: TaskManager, missing: Sequence[str]) -> str:
    close = dict.fromkeys(near for name in missing for near in difflib.get_close_matches(name, manager.task_index, n=2))
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    where = "`lm-eval-healthcare list` shows the pack's, `lm-eval ls tasks` all"
    return f"tasks not found: {', '.join(missing)}.{meant} {where}"


def _manager(names: Sequence[str], folders: Sequence[str], metadata: dict[str, Any]) -> TaskManager:
    manager = build_task_manager(folders, metadata, include_defaults=False)
    if needs_harness_index(names, manager):
        logger.info(
            "indexing the harness's own tasks too, since not every name is the pack's; this takes a few seconds"
        )
        manager = build_task_manager(folders, metadata, include_defaults=True)
    return manager


def _configured_folders(args: argparse.Namespace) -> list[str]:
    if not getattr(args, "config", None):
        return []
    folder = EvaluatorConfig.load_yaml_config(args.config).get("include_path")
    return [folder] if isinstance(folder, str) else list(folder or [])


def _refuse_unknown_options(config: EvaluatorConfig, names: Sequence[str], manager: TaskManager) -> None:
    """Only where all tasks are the pack's is an unknown key surely a mistake: other tasks have options of their own."""
    given = set(config.metadata or {}) - set(config.model_args or {})  # the harness has merged the two
    strange = options_of_others(given, leaves(manager, [m for name in names for m in manager.match_tasks([name])]))
    for message in strange:
        logger.warning(message)
    problems = unknown_options(sorted(given), strict=not needs_harness_index(names, manager)) + unknown_variables()
    if problems:
        raise OptionError("\n".join(problems))


def _check_selection(config: EvaluatorConfig, loaded: dict[str, Any]) -> None:
    if config.limit is not None and config.limit <= 0:
        raise OptionError(f"--limit {config.limit}: give a number of rows above 0, or a share between 0 and 1")
    for task, rows in (config.samples or {}).items():
        if loaded and task not in loaded:
            raise OptionError(f"--samples names {task!r}, which is not run; tasks are {', '.join(loaded)}")
        count = len(loaded[task].eval_docs) if loaded else None
        wrong = [row for row in rows if not isinstance(row, int) or row < 0 or (count is not None and row >= count)]
        if wrong or not rows:
            raise OptionError(f"--samples of {task}: {wrong or 'nothing'} given; rows are 0 to {count and count - 1}")


def _recorded(config: EvaluatorConfig) -> dict[str, Any]:
    keys = (
        "model", "model_args", "tasks", "metadata", "num_fewshot", "limit", "samples", "gen_kwargs", "include_path",
        "apply_chat_template", "fewshot_as_multiturn", "system_instruction", "seed", "batch_size", "device",
    )  # fmt: skip
    recorded = {key: getattr(config, key, None) for key in keys}
    recorded["tasks"] = split_names(config.tasks)
    recorded["include_path"] = [os.path.abspath(folder) for folder in config.include_path or []]
    return recorded


@contextlib.contextmanager
def _in_place_of_task_manager(manager: TaskManager) -> Iterator[None]:
    """Give the harness's command this manager where it would make one: its flag knows one folder, and no lazy index."""
    original = lm_eval.tasks.TaskManager
    lm_eval.tasks.TaskManager = lambda *args, **kwargs: manager
    try:
        yield
    finally:
        lm_eval.tasks.TaskManager = original
