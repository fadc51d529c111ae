"""`lm-eval-healthcare score`: scores from saved answers, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and what may differ from the run."""
    parser.add_argument("folder", type=Path, help="folder of saved answers, as a run prints it")
    parser.add_argument("--metrics", default=None, help="metrics to compute (default: those of the run)")
    parser.add_argument(
        "--output_path",
        "--output-dir",
        "-o",
        type=Path,
        default=None,
        help="where results go (default: that of the run)",
    )
    parser.add_argument(
        "--partial", action="store_true", help="score what is there, even if answers of the run are missing"
    )
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.epilog = "example:\n  lm-eval-healthcare score results/answers/2026-11-30T10-15-00.000000 --metrics ngram"


def execute(args: argparse.Namespace) -> int:
    """Score, write results and samples in the harness's format, print the table."""
    from lm_eval_healthcare.harness.command_line import results_tables, start_logging
    from lm_eval_healthcare.harness.replay import score_saved_run

    start_logging()
    metadata = {"metrics": args.metrics.replace(",", "+")} if args.metrics else {}
    output, results = score_saved_run(args.folder, args.output_path, metadata, args.partial, args.include_path)
    print("\n".join(results_tables(results)))
    print(f"results and samples: {output}")
    return 0
