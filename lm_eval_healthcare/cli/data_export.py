"""`lm-eval-healthcare data export`: the questions as they will be asked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.data_arguments import add_source, add_tasks, metadata
from lm_eval_healthcare.cli.tables import table

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tasks, their rows, the wording and the folder."""
    add_tasks(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the files go; made if needed")
    add_source(parser)
    parser.add_argument("--prompt", choices=("harness", "pack"), default=None, help="whose wording (default: harness)")
    parser.add_argument("--num_fewshot", type=int, default=0, metavar="N", help="examples before each question")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="only the first N documents of each task")
    parser.add_argument(
        "--keep-text", action="store_true", help="also write texts of data that need credentials; keep the files safe"
    )
    parser.epilog = (
        "Writes TASK.prompts.jsonl, one document a line: task, row (the harness's doc_id), id, prompt, choices,\n"
        "target, target_index, target_delimiter.\n\n"
        "example:\n  lm-eval-healthcare data export careqa_open --data sample --prompt pack --to prompts"
    )


def execute(args: argparse.Namespace) -> int:
    """Write the files and say what is in them."""
    from lm_eval_healthcare.harness.export import export

    logging.getLogger("lm_eval_healthcare").setLevel(logging.ERROR)
    given = {**metadata(args), **({"prompt": args.prompt} if args.prompt else {})}
    files = export(
        args.tasks, args.to, given, args.include_path, args.num_fewshot, args.limit, keep_text=args.keep_text
    )
    rows = [
        {"task": f.task, "documents": f.documents, "wording": f.wording, "from": f.source, "file": f.path}
        for f in files
    ]
    print(table(rows, ("task", "documents", "wording", "from", "file")))
    return 0
