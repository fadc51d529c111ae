"""`lm-eval-healthcare consistency`: how much scores move when a model is asked the same question again."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import nothing_matches
from lm_eval_healthcare.cli.study_options import (
    about,
    add_study_options,
    asked_metrics,
    given_judge,
    judged,
    known_tasks,
    open_cache,
    start,
    tell_failed,
    wishes,
)
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks
    from lm_eval_healthcare.studies.consistency_runs import Studied, Wanted

logger = logging.getLogger("lm_eval_healthcare")

_EPILOG = """\
PATH is a folder that holds results_*.json and samples_*.jsonl at any depth, or one such file, of runs with several
answers to each question: those of careqa_open_consistency, or of any task with the harness's own `repeats`. Of a model
and task that was run several times the newest run counts. A statistic that does not exist is null, and counted.

examples:
  lm-eval-healthcare consistency results
  lm-eval-healthcare consistency results --metrics ngram,bert_score --bert-score-model /models/roberta-large -o study
  lm-eval-healthcare consistency results --where model=*llama* --precision 0.01 0.005 --format json
  lm-eval-healthcare consistency results --metrics prometheus --judge-model my-judge \\
      --judge-base-url http://127.0.0.1:8000/v1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the metrics, the judge, and what is asked of the noise."""
    add_study_options(
        parser, "default: those whose scores of single answers were logged; n-gram metrics where none was"
    )
    parser.add_argument(
        "--precision", nargs="+", type=float, default=[], metavar="SE",
        help="standard errors of a mean for which the number of answers is wanted (default: a half and a quarter of "
        "the present one)",
    )  # fmt: skip
    parser.add_argument(
        "--not-sampled-too", action="store_true",
        help="take answers that were not drawn at random (greedy decoding) as if they were",
    )  # fmt: skip
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics of --metrics also where their scores were logged"
    )
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Score what is missing, compute the statistics, print and write them.

    Returns:
        1 if there is nothing to say: no task has several answers to a question, none of the answers was drawn at
        random, or no metric has a variance; also if a metric failed, or, with `--strict`, if a file or line could not
        be read; else 0.
    """
    from lm_eval_healthcare.cli.consistency_output import show
    from lm_eval_healthcare.cli.tables import print_json
    from lm_eval_healthcare.results.discovery import find
    from lm_eval_healthcare.studies import consistency, consistency_runs

    start(args, "consistency")
    wanted, judge = _wanted(args), given_judge(args)
    own_wishes, cache_place = wishes(args)
    known = known_tasks(args)
    found = find(args.paths)
    studied = consistency_runs.read(found.runs, own_wishes)
    faults = [*found.faults, *studied.faults]
    consistency_runs.plan(studied, wanted, own_wishes, known)
    for text in [*faults, *studied.remarks]:
        logger.warning(text)
    for what, why in studied.left_out:
        print(f"left out: {what}: {why}", file=sys.stderr)
    if not studied.tasks:
        print(f"lm-eval-healthcare: nothing to study. {_why(found, studied)}", file=sys.stderr)
        return 1
    _score(args, studied, wanted, cache_place)
    if judge is not None:
        _judge(args, judge, studied, wanted, known)
    left_out = [{"what": what, "why": why} for what, why in studied.left_out]
    content = consistency.study(studied.tasks, wanted, {**about("consistency", judge), "left_out": left_out})
    files = _write(args, content, consistency.prompt_rows(studied.tasks, wanted, content))
    if args.format == "json":
        print_json(content)
    else:
        show(content, files)
    failed = any(one.scores.errors for one in studied.tasks)
    empty = _tell_not_sampled(studied, wanted) or _tell_empty(content)
    return int(empty or failed or bool(args.strict and faults))


def _wanted(args: argparse.Namespace) -> Wanted:
    from lm_eval_healthcare.studies.consistency_runs import PROMETHEUS, Wanted

    names = asked_metrics(args)
    has_judge = bool(args.judge_model or args.judge_base_url)
    if has_judge and PROMETHEUS not in names:
        if names:
            raise UserError(f"a judge was named, but --metrics {','.join(names)} does not ask for prometheus; add it")
        names = [PROMETHEUS]
    for value in args.precision:
        if not 0 < value < float("inf"):
            raise UserError(f"--precision {value}: a standard error is a number above 0, such as 0.01")
    return Wanted(names, args.recompute, args.not_sampled_too, has_judge, args.precision)


def _score(args: argparse.Namespace, studied: Studied, wanted: Wanted, cache_place: str | None) -> None:
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.score_progress import Progress
    from lm_eval_healthcare.studies.consistency_runs import score

    planned = [one.planned for one in studied.tasks if one.planned is not None]
    neural = any(metrics.AVAILABLE[name].heavy for plan in planned for name in plan.names)
    total = sum(len(row.answers) for one in studied.tasks if one.planned is not None for row in one.task.rows)
    with open_cache(cache_place, neural) as cache, Progress(total) as progress:
        for one in studied.tasks:
            score(one, wanted, cache, progress.advance)
            tell_failed(one.name, one.scores)


def _judge(args: argparse.Namespace, judge: JudgeOptions, studied: Studied, wanted: Wanted, known: KnownTasks) -> None:
    from lm_eval_healthcare.studies.consistency_runs import without_scores

    tasks = [one for one in studied.tasks if one.judged and (wanted.not_sampled_too or one.sampled.any())]
    for one in studied.tasks:
        if one.judged and one not in tasks:
            without_scores(one)
    if not tasks:
        return
    for one, scores in zip(tasks, judged(args, [one.task for one in tasks], judge, known), strict=True):
        one.scores.update(scores)


def _write(args: argparse.Namespace, content: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Sequence[Path]:
    from lm_eval_healthcare.studies.consistency import prompt_table
    from lm_eval_healthcare.studies.writing import write

    if args.output_dir is None:
        return []
    return write(content, prompt_table(rows), args.output_dir, "consistency", None if args.no_figures else args.figures)


def _tell_not_sampled(studied: Studied, wanted: Wanted) -> bool:
    """Say of runs whose answers were not drawn at random that they say nothing; return whether no other is left."""
    if wanted.not_sampled_too:
        return False
    greedy = [one for one in studied.tasks if not one.sampled.any()]
    for one in greedy:
        text = next((flag.text for flag in one.task.flags if flag.flag == "not_sampled"), "")
        print(f"no statistics for {one.name}: {text} (--not-sampled-too computes them)", file=sys.stderr)
    if greedy and len(greedy) == len(studied.tasks):
        print(
            "lm-eval-healthcare: no run is left. Run again with do_sample=true and a temperature above 0, as "
            "careqa_open_consistency does",
            file=sys.stderr,
        )
        return True
    return False


def _tell_empty(content: Mapping[str, Any]) -> bool:
    """Say it if no metric has a variance; return whether it is so."""
    found = content["metrics"]
    if any(one["mean_variance"] is not None for one in found.values()):
        return False
    reasons = sorted({why.replace("_", " ") for one in found.values() for why in one["undefined"]})
    because = f" ({', '.join(reasons)})" if reasons else ""
    print(f"lm-eval-healthcare: no metric has a variance{because}", file=sys.stderr)
    return True


def _why(found: Found, studied: Studied) -> str:
    if studied.left_out:
        return "See above for the reasons"
    if not found.runs or not any(run.samples for run in found.runs):
        return "There are no samples_*.jsonl there; a run logs samples with --log_samples"
    return nothing_matches(found.runs)
