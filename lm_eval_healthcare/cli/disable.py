"""`lm-eval-healthcare disable`: the harness's own tasks come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing but an example."""
    parser.epilog = "example:\n  lm-eval-healthcare disable"


def execute(args: argparse.Namespace) -> int:
    """Remove the stubs and say so."""
    from lm_eval_healthcare.harness import stubs

    removed = stubs.disable()
    print("the harness's own tasks are back" if removed else "nothing to do: the pack was not enabled")
    return 0
