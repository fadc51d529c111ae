"""`lm-eval-healthcare data prepare`: original files into a data folder."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.data_arguments import add_include_path, roots
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task, its files and the folder."""
    parser.add_argument("task", metavar="TASK", help="one task of those that ask about these rows")
    parser.add_argument(
        "--from", dest="files", type=Path, nargs="+", required=True, metavar="FILE",
        help="original files of one split, in the wanted order: csv, tsv, jsonl, json, parquet, xlsx, or what the "
        "benchmark comes in (xml, txt, pubtator, ...)",
    )  # fmt: skip
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the data folder; made if needed")
    parser.add_argument("--split", default=None, help="the split that the files hold (default: the scored one)")
    parser.add_argument("--sheet", default=None, help="sheet of a spreadsheet (default: the first)")
    parser.add_argument(
        "--skip-faulty", action="store_true", help="leave out rows that cannot be used, instead of writing nothing"
    )
    add_include_path(parser)
    parser.epilog = (
        "In a table the first row names the columns. Rows that cannot be used are listed with file and line.\n\n"
        "example:\n"
        "  lm-eval-healthcare data prepare mts_dialog --from TestSet-1.csv --split test1 --to /data/benchmarks"
    )


def execute(args: argparse.Namespace) -> int:
    """Convert, and say what was written and what the task makes of it."""
    from lm_eval_healthcare.data.files import DataError
    from lm_eval_healthcare.data.manifest import read_manifest
    from lm_eval_healthcare.data.originals import listed, prepare
    from lm_eval_healthcare.data.selection import select
    from lm_eval_healthcare.data.source import Source, load

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    tasks = select([args.task], roots(args.include_path))
    if len(tasks) != 1:
        names = ", ".join(task.facts.name for task in tasks)
        raise UserError(f"{args.task} means several tasks ({names}); name one, files are of one benchmark")
    facts = tasks[0].facts
    before = read_manifest(args.to)
    entry, found = prepare(facts, args.files, args.to, args.split, args.skip_faulty, args.sheet)
    counts = f"{entry.rows:,} rows from {found.read:,} original ones"
    print(f"{args.to / entry.path}: {counts} (licence of the data: {facts.licence})")
    earlier = before.entries.get(entry.path) if before is not None else None
    if earlier is not None and earlier.sha256 != entry.sha256:
        print(f"it replaces the {earlier.rows:,} rows of {earlier.date} that were there")
    if found.faulty:
        print(f"\nleft out, {found.faulty:,} rows:\n  {listed(found.faults)}")
    try:
        data = load(facts, Source("folder", args.to))
    except DataError as error:
        print(f"\nnot ready to run yet: {error}")
        return 0
    for warning in data.warnings:
        print(f"\nwarning: {warning}")
    print(f"\n{len(data.splits[data.eval_split]):,} documents to score. Use it with --metadata data={args.to}")
    return 0
