"""`lm-eval-healthcare resilience`: how far each metric moves when answers are only reworded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.results.repeated_answers import RepeatedTask
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks
    from lm_eval_healthcare.scoring.saved_samples import Wishes
    from lm_eval_healthcare.studies.answer_scores import AnswerScores, Planned

_DEFAULT_METRICS = "ngram"
_EPILOG = """\
PATH is a folder that `lm-eval-healthcare rephrase` wrote, or a results_*.json in it. Every metric is computed anew on
the original and on every rewording. Variances are divided by the squared range of the metric over all scores of the
study; mean and variance of them are over questions. A question's variance is undefined, and counted, where fewer than
two versions have a score. -o writes resilience.json, resilience_prompts.csv and pictures.

examples:
  lm-eval-healthcare resilience reworded --metrics ngram -o resilience
  lm-eval-healthcare resilience reworded --metrics default,prometheus --judge-model /models/judge --format json
  lm-eval-healthcare resilience reworded --versions 5 --without-original
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the versions that count, metrics, judge and output."""
    from lm_eval_healthcare.cli.study_options import add_study_options

    add_study_options(parser, f"default: {_DEFAULT_METRICS}")
    parser.add_argument(
        "--versions", type=_at_least_one, metavar="N",
        help="take the first N rewordings of each answer (default: all; the paper says six, and five elsewhere)",
    )  # fmt: skip
    parser.add_argument(
        "--without-original", action="store_true", help="leave the original answer out of the variances"
    )
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Read, score, compute, print and write.

    Returns:
        1 if nothing could be computed or a metric failed, or, with `--strict`, if a file or a line could not be read;
        else 0.
    """
    from lm_eval_healthcare.cli.score_options import patterns
    from lm_eval_healthcare.cli.study_options import about, asked_metrics, given_judge, start, tell_failed
    from lm_eval_healthcare.studies import writing
    from lm_eval_healthcare.studies.resilience import ResilienceStudy
    from lm_eval_healthcare.studies.rewording.answers import read_reworded

    start(args, "resilience")
    names, judge = asked_metrics(args) or [_DEFAULT_METRICS], given_judge(args)
    found = read_reworded(args.paths, patterns(args.where), args.versions)
    for text in found.faults:
        print(f"WARNING: {text}", file=sys.stderr)
    left_out = list(found.left_out)
    tasks, scores = _score(args, found.tasks, names, judge, left_out)
    _tell_left_out(left_out)
    failed = [tell_failed(f"{one.run.model}, {one.task}", own) for one, own in zip(tasks, scores, strict=True)]
    if not tasks:
        why = (
            "see above"
            if left_out or found.faults
            else "there are no rewordings: make them with `lm-eval-healthcare rephrase PATH -o OUT`"
        )
        print(f"lm-eval-healthcare: nothing was computed; {why}", file=sys.stderr)
        return 1
    study = ResilienceStudy(tasks, scores, with_original=not args.without_original)
    content = study.content(about("resilience", judge), left_out)
    if args.format == "json":
        from lm_eval_healthcare.cli.tables import print_json

        print_json(content)
    else:
        _show(content)
    if args.output_dir is not None:
        figures = None if args.no_figures else args.figures
        made = writing.write(content, study.prompt_rows(), args.output_dir, "resilience", figures)
        print("written: " + ", ".join(map(str, made)), file=sys.stderr)
    if study.is_empty:
        print("lm-eval-healthcare: no metric has a variance: no answer has two versions with a score", file=sys.stderr)
    return int(study.is_empty or any(failed) or bool(args.strict and found.faults))


def _score(
    args: argparse.Namespace,
    tasks: Sequence[RepeatedTask],
    names: Sequence[str],
    judge: JudgeOptions | None,
    left_out: list[tuple[str, str]],
) -> tuple[list[RepeatedTask], list[AnswerScores]]:
    """Return the tasks that can be scored, and the scores of each; everything is checked before anything is scored."""
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli import study_options
    from lm_eval_healthcare.cli.score_progress import Progress
    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.studies.answer_scores import AnswerScores, score_answers

    asks_judge = study_options.PROMETHEUS in names
    if asks_judge and judge is None:
        raise UserError("--metrics prometheus: no judge was given; add --judge-model MODEL, and see --help")
    if judge is not None and not asks_judge:
        raise UserError("a judge was given, but --metrics does not ask for it; add prometheus to --metrics")
    wished, where = study_options.wishes(args)
    known = study_options.known_tasks(args)
    text_metrics = ",".join(name for name in names if name != study_options.PROMETHEUS)
    planned = _plan(tasks, text_metrics, wished, known, left_out)
    kept, found = [task for task, _ in planned], [AnswerScores() for _ in planned]
    plans = [plan for _, plan in planned if plan is not None]
    neural = any(metrics.AVAILABLE[name].heavy for plan in plans for name in plan.names)
    total = sum(len(row.answers) for task, plan in planned if plan is not None for row in task.rows)
    with study_options.open_cache(where, neural) as cache, Progress(total) as progress:
        for (task, plan), into in zip(planned, found, strict=True):
            if plan is not None:
                into.update(score_answers(task, plan.names, plan.options, cache, progress.advance, plan.left_out))
    if judge is not None and kept:
        for into, scores in zip(found, study_options.judged(args, kept, judge, known), strict=True):
            into.update(scores)
    return kept, found


def _plan(
    tasks: Sequence[RepeatedTask], names: str, wished: Wishes, known: KnownTasks, left_out: list[tuple[str, str]]
) -> list[tuple[RepeatedTask, Planned | None]]:
    """Return with which metrics each task is scored, None where a judge alone is asked; tell what is left out."""
    from lm_eval_healthcare.results.texts import NoText
    from lm_eval_healthcare.studies.answer_scores import plan_metrics

    planned: list[tuple[RepeatedTask, Planned | None]] = []
    for task in tasks:
        name = f"{task.run.model}, {task.task}"
        try:
            plan, remarks = plan_metrics(task, names, wished, known) if names else (None, [])
        except NoText as error:
            left_out.append((name, str(error)))
            continue
        for remark in dict.fromkeys(remarks):
            print(f"{task.task}: {remark}", file=sys.stderr)
        left_out += [(f"{name}, {metric}", why) for metric, why in (plan.left_out if plan else {}).items()]
        planned.append((task, plan))
    return planned


def _show(content: Mapping[str, Any]) -> None:
    """Print the table, what became of the rewordings, and what it means in a line."""
    from lm_eval_healthcare.cli.tables import table

    rows = [
        {
            "metric": name, "mean variance": _shown(one["mean_variance"]),
            "variance of variances": _shown(one["variance_of_variance"]), "mean change": _shown(one["mean_change"]),
            "questions": one["n_prompts"], "undefined": one["n_undefined"], "versions": one["versions"],
            "cluster": one["cluster"],
        }
        for name, one in sorted(content["metrics"].items(), key=lambda item: _order(item[1]["mean_variance"]))
    ]  # fmt: skip
    if rows:
        print(table(rows, list(rows[0])))
        print()
    made = content["rewordings"]
    rejected = ", ".join(f"{why.replace('_', ' ')} {n:,}" for why, n in made["rejected_by_reason"].items())
    print(f"rewordings: {made['accepted']:,} accepted, {made['missing']:,} missing"
          + (f"; turned down: {rejected}" if rejected else ""))  # fmt: skip
    for run in content["runs"]:
        for flag in run["flags"]:
            print(f"{run['model']}, {run['task']}: {flag['text']}")
    for name, one in content["metrics"].items():
        if "signatures_differ" in one["flags"]:
            print(f"{name}: the runs did not compute it in the same way, so they cannot be compared")
    print(reading(content))


def reading(content: Mapping[str, Any]) -> str:
    """Return in one line what a study says.

    Args:
        content: The study as JSON.
    """
    found = sorted(
        (one["mean_variance"], name) for name, one in content["metrics"].items() if one["mean_variance"] is not None
    )
    if not found:
        return "No metric has a scaled variance: too few versions have a score, or every score is the same."
    (low, steadiest), (high, most) = found[0], found[-1]
    if len(found) == 1:
        return f"Rewording moves {steadiest} by {_moved(low)} of its range: the square root of the mean variance."
    if high == 0:
        return "No metric moves at all when answers are reworded."
    if low == 0:
        return f"Rewording does not move {steadiest} at all, and moves {most} most ({_moved(high)} of its range)."
    return (
        f"Rewording moves {steadiest} least (by {_moved(low)} of its range: the square root of the mean variance) and "
        f"{most} most (by {_moved(high)}; its variance is {high / low:.3g} times as large)."
    )


def _moved(variance: float) -> str:
    return f"{100 * variance**0.5:.2g}%"


def _order(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _tell_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    by_reason: dict[str, list[str]] = {}
    for what, why in left_out:
        by_reason.setdefault(why, []).append(what)
    for why, named in by_reason.items():
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        print(f"left out: {'; '.join(named[:5])}{more}: {why}", file=sys.stderr)


def _at_least_one(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, 1 or more")
    return int(text)
