"""`lm-eval-healthcare data fetch`: the hub's rows in a folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.data_arguments import add_tasks, selected
from lm_eval_healthcare.cli.tables import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tasks, the folder, the revision and the format."""
    add_tasks(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the data folder; made if needed")
    parser.add_argument(
        "--data-revision", default=None, metavar="REVISION", help="revision of the hub's data sets (default: newest)"
    )
    parser.add_argument(
        "--format", choices=("jsonl", "parquet"), default="jsonl", help="kind of file (default: %(default)s)"
    )
    parser.epilog = (
        "What is there and whole is not fetched again, so the same command continues after an interruption. Copy the\n"
        "folder to the machine without internet, check it with `lm-eval-healthcare data verify FOLDER`, and run with\n"
        "--metadata data=FOLDER. Data that need credentials are skipped: see `data prepare`.\n\n"
        "example:\n  lm-eval-healthcare data fetch healthcare_mcqa careqa_open --to /data/benchmarks"
    )


def execute(args: argparse.Namespace) -> int:
    """Fetch, with progress; exit code 1 if something failed or nothing was fetched."""
    from lm_eval_healthcare.data.fetch import fetch

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    tasks = [task.facts for task in selected(args)]
    fetched = fetch(tasks, args.to, args.data_revision, args.format, _progress)
    rows = [
        {
            "rows": f.name,
            "result": f.state,
            "splits": ", ".join(f"{split} {n:,}" for split, n in f.rows.items()) or None,
            "revision": f.revision and f.revision[:12],
            "licence": f.licence,
            "tasks": f.tasks,
        }
        for f in fetched
    ]
    print(table(rows, ("rows", "result", "splits", "revision", "licence", "tasks"), wrap=("tasks",)))
    for f in fetched:
        for warning in f.warnings:
            print(f"\nwarning: {warning}")
        if f.problem:
            print(f"\n{f.state}: {f.problem}")
    good = [f for f in fetched if f.state in ("fetched", "already there")]
    if good:
        print(f"\nUse it with --metadata data={args.to}")
    return int(not good or any(f.state == "failed" for f in fetched))


def _progress(rows: Iterable[Any], label: str) -> Iterable[Any]:
    from tqdm import tqdm

    total = len(rows) if isinstance(rows, Sized) else None
    return tqdm(rows, desc=label, total=total, unit=" rows", file=sys.stderr, disable=None, leave=False)
