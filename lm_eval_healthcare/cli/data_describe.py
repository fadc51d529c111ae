"""`lm-eval-healthcare data describe`: what a benchmark's rows look like."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.data_arguments import add_source, add_tasks, metadata, selected
from lm_eval_healthcare.cli.tables import print_json

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tasks, their rows, the unit of length and the outputs."""
    add_tasks(parser)
    add_source(parser)
    parser.add_argument(
        "--format", choices=("markdown", "json"), default="markdown", help="how to print (default: %(default)s)"
    )
    parser.add_argument("--figures", type=Path, default=None, metavar="DIR", help="also draw PNG figures there")
    parser.add_argument(
        "--tokenizer", type=Path, default=None, metavar="PATH",
        help="a tokenizer on this machine (model folder or tokenizer.json): lengths in its tokens instead of words",
    )  # fmt: skip
    for name in ("question", "answer", "category", "year"):
        parser.add_argument(f"--{name}", default=None, metavar="COLUMN", help=f"column of the {name} in your own task")
    parser.epilog = (
        "example:\n  lm-eval-healthcare data describe careqa_en careqa_open --data /data/benchmarks --figures figures"
    )


def execute(args: argparse.Namespace) -> int:
    """Print the description of every task."""
    from lm_eval_healthcare.data.files import DataError
    from lm_eval_healthcare.harness.options import Options, task_options
    from lm_eval_healthcare.report.data_description import describe_task
    from lm_eval_healthcare.report.data_tables import markdown, note

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    columns = {name: getattr(args, name) for name in ("question", "answer", "category", "year")}
    given = metadata(args)
    options = Options.from_metadata(given)
    described, problems = {}, []
    for task in selected(args):
        own = task_options(task.facts, given)
        try:
            described[task.facts.name] = describe_task(
                task, options.data, options.data_revision, own, args.tokenizer, columns, args.figures
            )
        except DataError as error:  # the other tasks are still described
            problems.append(str(error))
    if problems and not described:
        raise DataError("\n".join(problems))
    if args.format == "json":
        print_json(described)
    else:
        blocks = [markdown(name, found) for name, found in described.items()]
        units = dict.fromkeys(found["unit"] for found in described.values())
        print("\n".join([*blocks, *map(note, units)]))
    for found in described.values():
        for file in found.get("figures", []):
            print(f"figure: {file}", file=sys.stderr)
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))
