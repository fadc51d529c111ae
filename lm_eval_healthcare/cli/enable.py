"""`lm-eval-healthcare enable`: the unmodified `lm_eval` finds the pack's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing but an explanation."""
    parser.epilog = (
        "Writes a folder of one-line YAMLs into the installed harness; `lm-eval-healthcare disable` removes it.\n\n"
        "example:\n  lm-eval-healthcare enable && lm_eval --tasks careqa_open,medtext --model hf ..."
    )


def execute(args: argparse.Namespace) -> int:
    """Write the stubs and say what changed."""
    from lm_eval_healthcare.harness import stubs

    names = stubs.enable()
    print(f"lm_eval now takes {len(names)} names from the pack: {', '.join(names)}")
    print(f"({stubs.stub_folder()}; undo with: lm-eval-healthcare disable)")
    return 0
