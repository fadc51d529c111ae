"""Paths of a command: those that argparse gave to a flag, none at all, and those in which nothing is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lm_eval_healthcare.results.discovery import RunFiles


def take_paths(args: argparse.Namespace, *flags: str) -> None:
    """Move what exists as a path, and is no `name=value`, from the values of flags to `args.paths`.

    Args:
        args: With `paths`, which becomes complete.
        flags: The flags that take several values.
    """
    for flag in flags:
        given = getattr(args, flag)
        paths = [value for value in given if "=" not in value and not value.startswith("{") and Path(value).exists()]
        setattr(args, flag, [value for value in given if value not in paths])
        args.paths += map(Path, paths)


def refuse_no_path(args: argparse.Namespace, command: str) -> None:
    """Refuse a command without a path.

    Raises:
        UserError: If there is none.
    """
    if not args.paths:
        raise UserError(f"no PATH was given; give a folder of results, such as: lm-eval-healthcare {command} results")


def nothing_matches(runs: Sequence[RunFiles]) -> str:
    """Say that `--where` takes none of some runs, and what there is."""
    models = sorted({run.model for run in runs})
    tasks = sorted({task for run in runs for task in run.samples})
    return f"--where matches nothing: models are {', '.join(models)}; tasks are {', '.join(tasks)}"
