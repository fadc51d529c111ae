"""`lm-eval-healthcare score`: scores from logged samples or saved answers, without a model."""

from __future__ import annotations

import copy
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import nothing_matches
from lm_eval_healthcare.cli.score_options import (
    ParserWithMetricOptions,
    given_options,
    patterns,
    sort_out,
)

if TYPE_CHECKING:
    import argparse

    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.scoring.saved_samples import Plan, Wishes

logger = logging.getLogger("lm_eval_healthcare")

_EPILOG = """\
PATH is a folder that holds results_*.json and samples_*.jsonl at any depth, one such file, or a folder of saved answers
as a run prints it. New files are written beside the old ones, or below --output-dir, in the harness's format. Scores of
neural metrics are kept while they are computed: after an interruption, the same command goes on where it stopped.

examples:
  lm-eval-healthcare score results --metrics bleu,rouge1,bert_score --bert-score-model /models/roberta-large
  lm-eval-healthcare score results --where model=*llama* task=careqa_open --output-dir scored --device cuda
  lm-eval-healthcare score results/answers/2026-11-30T10-15-00.000000 --metrics ngram
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the metrics, and what may differ from the run."""
    parser.__class__ = ParserWithMetricOptions
    parser.allow_abbrev = False  # `--metric` would be a metric's option one day and another the next
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="what to score, see below")
    parser.add_argument(
        "--metrics", nargs="+", action="extend", metavar="LIST",
        help="metrics and sets (default, ngram, all), separated by commas or '+' (default: those of the run)",
    )  # fmt: skip
    parser.add_argument(
        "--output-dir", "--output_path", "-o", type=Path, metavar="OUT",
        help="where results go: OUT/<model>/results_*.json (default: beside the run's)",
    )  # fmt: skip
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KIND=PATTERN",
        help="score only models (model=PATTERN) or tasks (task=PATTERN) of these names; several of a kind: any of them",
    )  # fmt: skip
    parser.add_argument(
        "--device", metavar="DEVICE", help="for neural metrics: auto, cpu, cuda, cuda:N (default: auto)"
    )
    parser.add_argument("--batch-tokens", metavar="N", help="tokens in a batch (default: as the device likes it)")
    parser.add_argument(
        "--metrics-missing", choices=("fail", "skip"), help="what to do about a metric that lacks its model or package"
    )
    parser.add_argument(
        "--score-cache", metavar="FOLDER|off", help="where scores of neural metrics are kept (default: ~/.cache)"
    )
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a file or a line could not be read")
    parser.add_argument(
        "--partial", action="store_true", help="saved answers: score what is there, even if some are missing"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more, and where in the code errors came from")
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.add_argument(
        "--metadata", nargs="+", action="extend", default=[], metavar="key=value", help="options, as for `run`"
    )
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Score, write results and samples in the harness's format, print the tables.

    Returns:
        1 if nothing was scored, if a metric failed, or, with `--strict`, if a file or line could not be read; else 0.
    """
    from lm_eval_healthcare.cli.score_answers import score_answers
    from lm_eval_healthcare.cli.score_outcome import Outcome
    from lm_eval_healthcare.cli.score_samples import score_samples, tell_left_out
    from lm_eval_healthcare.results.discovery import find
    from lm_eval_healthcare.scoring.saved_samples import plan

    _start_logging(args.verbose)
    sort_out(args)
    options = given_options(args)
    wishes = _wishes(args, options)
    found = find(args.paths)
    planned = plan(found.runs, wishes, _known_tasks(args.include_path))
    outcome = Outcome(faults=[*found.faults, *planned.faults])
    tell_left_out(_without_answered(planned.left_out, found))
    for text in [*planned.remarks, *outcome.faults]:
        logger.warning(text)
    _tell_earlier(found)
    if planned.tasks:
        score_samples(args, planned, options, outcome)
    score_answers(args, found, wishes, options, outcome)
    outcome.show()
    outcome.tell()
    if not outcome.done:
        print(f"lm-eval-healthcare: nothing was scored. {_why(found, planned)}", file=sys.stderr)
    return int(not outcome.done or bool(outcome.unscored) or bool(args.strict and outcome.faults))


def _without_answered(left_out: dict[str, Counter[str]], found: Found) -> dict[str, Counter[str]]:
    """Leave out of what is left out the tasks without samples whose answers are here."""
    from lm_eval_healthcare.results.discovery import answered_tasks
    from lm_eval_healthcare.scoring.saved_samples import NO_SAMPLES

    answered = {task for folder in found.answers for task in answered_tasks(folder)}
    rest = {task: runs for task, runs in left_out.get(NO_SAMPLES, {}).items() if task not in answered}
    return {
        why: Counter(rest) if why == NO_SAMPLES else tasks
        for why, tasks in left_out.items()
        if rest or why != NO_SAMPLES
    }


def _tell_earlier(found: Found) -> None:
    if n := found.scored_again:
        what = "1 result is an earlier one" if n == 1 else f"{n} results are earlier ones"
        print(f"{what} of this command; their sources are scored", file=sys.stderr)
    if n := found.outdated:
        what = "1 result is older than another" if n == 1 else f"{n} results are older than others"
        print(f"{what} made from the same answers, which are not here; the newest are scored", file=sys.stderr)


def _start_logging(verbose: bool) -> None:
    """Let warnings go to stderr; where errors came from in the code is shown only if somebody wants to know."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((logging.Formatter if verbose else _WithoutTraces)("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


class _WithoutTraces(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if not logging.getLogger().isEnabledFor(logging.DEBUG):
            record = copy.copy(record)
            record.exc_info = record.exc_text = None
        return super().format(record)


def _wishes(args: argparse.Namespace, options: dict[str, Any]) -> Wishes:
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.harness.options import MISSING, Options
    from lm_eval_healthcare.scoring.saved_samples import Wishes

    everything = Options.from_metadata(options)  # checks them, and knows the environment
    return Wishes(
        metrics=options.get("metrics"),
        default_metrics=everything.metrics,
        options={name: value for name, value in options.items() if name in metrics.option_names()},
        defaults={name: value for name, value in everything.for_metrics.items() if name not in options},
        skip_missing=everything.metrics_missing != MISSING[0],
        where=patterns(args.where),
    )


def _known_tasks(include_path: list[str]) -> Any:
    from lm_eval_healthcare.cli.data_arguments import roots
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

    pack, *own = roots(include_path)
    return KnownTasks([*own, pack])


def _why(found: Found, planned: Plan) -> str:
    """Say why there was nothing to score, and what to do."""
    if planned.unmatched and not planned.tasks:
        return nothing_matches(found.runs)
    if not any(run.samples for run in found.runs) and not found.answers:
        return "There are no samples_*.jsonl and no saved answers there; a run logs samples with --log_samples"
    return "See above for the reasons"
