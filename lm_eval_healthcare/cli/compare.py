"""`lm-eval-healthcare compare`: two runs on the same documents, from their logged samples alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from lm_eval_healthcare.results.paired_samples import SampleScores
    from lm_eval_healthcare.results.run_comparison import Choice

FORMATS = ("table", "json", "markdown")
_EPILOG = """\
A and B are folders of results, results_*.json or samples_*.jsonl of one model each; runs must have --log_samples.
All differences are A - B. No text of a question or an answer is printed.

examples:
  lm-eval-healthcare compare results/model-a results/model-b --task careqa_en
  lm-eval-healthcare compare results/model-a results/model-b --task olaph --cluster question
  lm-eval-healthcare compare results/model-a --task careqa_en --against-task careqa_es --pair-by unique_id
  lm-eval-healthcare compare results/model-a --task careqa_en --by year
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, the task, and how they are compared."""
    parser.add_argument("a", type=Path, metavar="A", help="one run")
    parser.add_argument("b", type=Path, nargs="?", metavar="B", help="the other run (default: A itself)")
    parser.add_argument("--task", metavar="TASK", help="the task (default: the only one)")
    parser.add_argument("--against-task", metavar="TASK", help="the task of B, if it is another one")
    parser.add_argument(
        "--pair-by", metavar="COLUMN", help="pair documents by this column of theirs, not by the hash of their content"
    )
    parser.add_argument(
        "--cluster", metavar="COLUMN",
        help="documents with the same value in this column belong together (questions about one text): intervals and "
        "tests allow for it",
    )  # fmt: skip
    parser.add_argument("--by", metavar="COLUMN", help="also scores by this column, such as year, with a test of trend")
    parser.add_argument(
        "--metric", action="append", default=[], metavar="PATTERN", help="only these metrics, such as 'rouge*'; again"
    )
    parser.add_argument("--filter", metavar="NAME", help="only this filter (default: all that both runs have)")
    parser.add_argument(
        "--interval", choices=("bca", "percentile"), default="bca", help="kind of bootstrap interval (default: bca)"
    )
    parser.add_argument(
        "--resamples", type=_at_least(100), default=5000, metavar="N", help="draws of the bootstrap (default: 5000)"
    )
    parser.add_argument("--seed", type=_at_least(0), default=0, metavar="N", help="draws them (default: 0)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    parser.epilog = _EPILOG


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} or more")
        return value

    number.__name__ = "whole number"
    return number


def execute(args: argparse.Namespace) -> int:
    """Compare the runs, and print."""
    from lm_eval_healthcare.cli.compare_output import show
    from lm_eval_healthcare.results.paired_samples import pair
    from lm_eval_healthcare.results.run_comparison import Choice, compare_metrics
    from lm_eval_healthcare.results.task_runs import protocol_notes

    if args.b is None and args.against_task is None and args.by is None:
        raise UserError("give a second run B; or, for A alone, --against-task TASK or --by COLUMN")
    choice = Choice(tuple(args.metric), args.filter, args.cluster, args.interval, args.resamples, args.seed)
    runs = _read(args)
    notes = [note for run in runs for note in (*run.of.notes, *run.notes)]
    pairs = rows = None
    if len(runs) == 2:
        pairs = pair(runs[0], runs[1], args.pair_by)
        rows, more = compare_metrics(runs[0], runs[1], pairs, choice)
        notes += [*pairs.notes, *protocol_notes(runs[0].of, runs[1].of), *more]
    by = None if args.by is None else _by(args, runs, pairs, choice)
    show(args, runs, pairs, rows, by, list(dict.fromkeys(notes)))
    return 0


def _read(args: argparse.Namespace) -> list[SampleScores]:
    from tqdm import tqdm

    from lm_eval_healthcare.results.paired_samples import read_scores
    from lm_eval_healthcare.results.task_runs import choose_run

    given = [(args.a, args.task)]
    if args.b is not None or args.against_task is not None:
        given.append((args.b or args.a, args.against_task or args.task))
    chosen = [choose_run(*one) for one in given]
    if len({one.task for one in chosen}) > 1 and args.against_task is None:
        names = " and ".join(one.task for one in chosen)
        raise UserError(f"A and B are runs of different tasks, {names}; if they are to be compared, say --against-task")
    if len(chosen) == 2 and chosen[0].file.resolve() == chosen[1].file.resolve():
        raise UserError(f"A and B are the same file, {chosen[0].file}; give another run, or --against-task TASK")
    columns = [name for name in (args.pair_by, args.cluster, args.by) if name]
    return [
        read_scores(one, columns, lambda rows: tqdm(rows, unit=" rows", delay=2, file=sys.stderr, leave=False))
        for one in chosen
    ]


def _by(args: argparse.Namespace, runs: list[SampleScores], pairs: Any, choice: Choice) -> Any:
    import numpy as np

    from lm_eval_healthcare.cli.data_arguments import roots
    from lm_eval_healthcare.results.results_file import task_metadata
    from lm_eval_healthcare.results.run_comparison import by_column, labels_of
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

    known = KnownTasks(roots([]))
    facts = [known.facts(run.of.task, task_metadata(run.of.run.content, run.of.task)) for run in runs]
    private = any(one is not None and one.credentialed for one in facts)
    places = [np.arange(len(runs[0].documents))] if pairs is None else [pairs.a, pairs.b]
    return by_column(runs, places, labels_of(runs[0], places[0], args.by, private), choice)
