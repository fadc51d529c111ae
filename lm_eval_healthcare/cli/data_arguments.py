"""Arguments that several `data` commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from lm_eval_healthcare.data.selection import Task


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Add the tasks, and the folders in which a user's own are."""
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="tasks, groups, tags or patterns")
    add_include_path(parser)


def add_include_path(parser: argparse.ArgumentParser) -> None:
    """Add `--include_path`."""
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add `--data`, `--data-revision` and `--metadata`."""
    parser.add_argument(
        "--data",
        default=None,
        metavar="hub|sample|FOLDER",
        help="where the rows come from (default: $LM_EVAL_HEALTHCARE_DATA, else hub)",
    )
    parser.add_argument("--data-revision", default=None, metavar="REVISION", help="revision of the hub's data set")
    parser.add_argument(
        "--metadata", nargs="+", action="extend", default=[], metavar="key=value",
        help="options, as for `run`",
    )  # fmt: skip


def roots(include_path: Sequence[str]) -> list[Path]:
    """Return the folders of task YAMLs: the pack's, then the user's.

    Raises:
        UserError: If one of the user's does not exist.
    """
    folders = [Path(folder).expanduser() for folder in include_path]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"--include_path {folder}: no such folder")
    return [tasks_path(), *folders]


def selected(args: argparse.Namespace) -> list[Task]:
    """Return the tasks that were named."""
    from lm_eval_healthcare.data.selection import select

    return select(args.tasks, roots(args.include_path))


def metadata(args: argparse.Namespace) -> dict[str, str]:
    """Return the options as a run would be given them: `--metadata`, and the flags of `add_source`, which win.

    Raises:
        UserError: If an item is not `key=value`, or a name, there or in the environment, is no option's.
    """
    out = _key_values(args.metadata)
    refuse_unknown_options(out, args.include_path)
    for name, value in (("data", args.data), ("data_revision", args.data_revision)):
        if value:
            out[name] = value
    return out


def refuse_unknown_options(names: Iterable[str], include_path: Sequence[str]) -> None:
    """Refuse what is no option of the pack or of a user's task, as `run` does.

    Args:
        names: Keys of `--metadata`.
        include_path: The folders of the user's tasks.

    Raises:
        UserError: If a name, or an environment variable that looks like an option, is unknown.
    """
    from lm_eval_healthcare.data.selection import every_task
    from lm_eval_healthcare.harness.options import unknown_options, unknown_variables

    own = {name for task in every_task(roots(include_path)) for name in task.facts.options}
    problems = unknown_options([name for name in names if name not in own], strict=True) + unknown_variables()
    if problems:
        raise UserError("\n".join(problems))


def _key_values(values: Sequence[str]) -> dict[str, str]:
    out = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise UserError(f"--metadata {value}: write key=value, such as references=good")
        out[key] = text
    return out
