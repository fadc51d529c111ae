"""Arguments that several `data` commands take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

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
        default=os.environ.get("LM_EVAL_HEALTHCARE_DATA") or "hub",
        metavar="hub|sample|FOLDER",
        help="where the rows come from (default: %(default)s)",
    )
    parser.add_argument("--data-revision", default=None, metavar="REVISION", help="revision of the hub's data set")
    parser.add_argument(
        "--metadata", nargs="+", action="extend", default=[], metavar="key=value",
        help="options of single tasks, as for `run`",
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


def options(values: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` items.

    Raises:
        UserError: If an item is something else.
    """
    out = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise UserError(f"--metadata {value}: write key=value, such as references=good")
        out[key] = text
    return out
