"""`lm-eval-healthcare path`: where the task YAMLs are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval_healthcare import tasks_path

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing but an example."""
    parser.epilog = 'example:\n  lm_eval --include_path "$(lm-eval-healthcare path)" --tasks careqa_open,medtext ...'


def execute(args: argparse.Namespace) -> int:
    """Print the folder."""
    print(tasks_path())
    return 0
