"""`lm-eval-healthcare judge-check`: how far a judge can be trusted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import refuse_no_path
from lm_eval_healthcare.cli.judge_options import add_judge_options, judge_options, known_tasks, rubrics
from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.judge.judged_samples import JudgedAnswer
    from lm_eval_healthcare.judge.saved import SavedTask

CHECKS = {
    "agreement": "several judges on the same answers: Krippendorff's alpha, pairs of judges, where they differ most",
    "length": "whether longer answers get higher scores",
    "humans": "a judge against people's grades: agreement, confusion matrix",
    "order": "two runs compared answer by answer, in both orders: win rate, and what the order changes",
}
_EPILOG = """\
examples:
  lm-eval-healthcare judge-check agreement judged_by_a judged_by_b
  lm-eval-healthcare judge-check length results
  lm-eval-healthcare judge-check humans results --grades grades.csv
  lm-eval-healthcare judge-check order results/model-a results/model-b --base-url http://127.0.0.1:8000/v1
"""
_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the checks."""
    subparsers = parser.add_subparsers(dest="check", metavar="CHECK")
    for name, help_text in CHECKS.items():
        one = subparsers.add_parser(
            name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name == "order":
            one.add_argument("first", type=Path, metavar="RUN_1", help="a folder or results file of one model's run")
            one.add_argument("second", type=Path, metavar="RUN_2", help="the same of the other")
            one.add_argument(
                "--where", nargs="+", action="extend", default=[], metavar="task=PATTERN", help="only these tasks"
            )
            one.add_argument("--include_path", action="append", default=[], metavar="DIR", help="your own task folder")
            add_judge_options(one)
        else:
            one.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders or files of judged results")
        if name == "humans":
            one.add_argument(
                "--grades", type=Path, required=True, metavar="FILE",
                help="a csv, tsv or jsonl file with the columns doc_id and grade, and task, model and rater where "
                "there are several",
            )  # fmt: skip
        if name == "agreement":
            one.add_argument(
                "--level", choices=("ordinal", "interval", "nominal"), default="ordinal",
                help="how differences count in alpha (default: %(default)s)",
            )  # fmt: skip
        if name != "order":
            one.add_argument("--seed", type=_seed, default=0, metavar="N", help="draws the intervals (default: 0)")
        add_format(one)
    parser.set_defaults(check_parser=parser)
    parser.epilog = _EPILOG


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or more")
    return value


def execute(args: argparse.Namespace) -> int:
    """Run a check; without one, say which there are."""
    if args.check is None:
        args.check_parser.print_help()
        return 0
    return {"agreement": _agreement, "length": _length, "humans": _humans, "order": _order}[args.check](args)


def _judged(args: argparse.Namespace) -> dict[str, list[JudgedAnswer]]:
    from lm_eval_healthcare.judge.judged_samples import read_judged, refuse_none

    refuse_no_path(args, f"judge-check {args.check}")
    judged = read_judged(args.paths)
    refuse_none(judged, args.paths)
    return judged


def _asked(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Leave blank answers out: they have their score without a judge."""
    from lm_eval_healthcare.judge.cases import is_text

    return [one for one in answers if is_text(one.answer)]


def _agreement(args: argparse.Namespace) -> int:
    import numpy as np

    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.judge.agreement import agreement

    judged = _judged(args)
    if len(judged) < 2:
        raise UserError(f"there is one judge only, {next(iter(judged))}; give the judged results of a second one too")
    by_key = {judge: {one.key: one.score for one in _asked(answers)} for judge, answers in judged.items()}
    keys = list(dict.fromkeys(key for scores in by_key.values() for key in scores))
    matrix = [[scores.get(key, float("nan")) for key in keys] for scores in by_key.values()]
    found = agreement(matrix, list(judged), np.random.default_rng(args.seed), args.level)
    widest = [
        {"model": keys[one.document][0], "task": keys[one.document][1], "document": keys[one.document][3].split("|")[0],
         **dict(zip(judged, one.scores, strict=True))}
        for one in found.disagreements
    ]  # fmt: skip
    if args.format == "json":
        print_json({"lines": found.lines(), "pairs": found.rows(), "disagreements": widest})
        return 0
    _show(found.lines(), found.rows())
    if widest:
        print("\nwidest disagreements:")
        _show([], widest[:_SHOWN])
    return 0


def _length(args: argparse.Namespace) -> int:
    from lm_eval_healthcare.judge.bias import LENGTH_NOTE, answer_length, length_bias

    found = [
        length_bias(
            judge,
            [one.score for one in answers],
            [answer_length(one.answer) for one in answers],
            [answer_length(one.reference) for one in answers],
        )
        for judge, answers in ((judge, _asked(answers)) for judge, answers in _judged(args).items())
    ]
    lines = [line for one in found for line in one.lines()]
    if args.format == "json":
        print_json({"lines": lines, "note": LENGTH_NOTE})
    else:
        _show([*lines, "", LENGTH_NOTE], [])
    return 0


def _humans(args: argparse.Namespace) -> int:
    import numpy as np

    from lm_eval_healthcare.judge.grade_file import read_grades
    from lm_eval_healthcare.judge.human_grades import JudgedDocument, meta_evaluation

    grades = read_grades(args.grades)
    shown: list[dict[str, Any]] = []
    for judge, answers in _judged(args).items():
        first: dict[tuple[str, str], str] = {}  # the first filter of each task of each model
        documents = [
            JudgedDocument(one.task, one.doc_id, one.score, one.model)
            for one in answers
            if one.filter == first.setdefault((one.model, one.task), one.filter)
        ]
        found = meta_evaluation(documents, grades, np.random.default_rng(args.seed))
        shown.append({"judge": judge, "lines": found.lines(), "confusion": found.rows()})
    if args.format == "json":
        print_json(shown)
        return 0
    for one in shown:
        _show([str(one["judge"]), *one["lines"], "human grade by judge's score:"], one["confusion"])
        print()
    return 0


def _order(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.judge.bias import ORDER_NOTE
    from lm_eval_healthcare.judge.comparing import ask, pairs_of
    from lm_eval_healthcare.judge.prompt import PACK, wording
    from lm_eval_healthcare.judge.relative import compare
    from lm_eval_healthcare.judge.saved import refuse_to_send
    from lm_eval_healthcare.judge.session import Session
    from lm_eval_healthcare.judge.store import VerdictStore

    options = judge_options(args)
    first, second = (_tasks(path, args, options) for path in (args.first, args.second))
    refuse_to_send([*first, *second], options.base_url, args.send_credentialed_texts_to_a_remote_judge)
    if len(options.models) > 1 or options.settings.samples > 1:
        raise UserError("two runs are compared by one judge that is asked once in each order; leave --samples out")
    pairs = pairs_of(first, second)
    private = any(task.credentialed for task in (*first, *second))
    model = options.models[0] if options.models else None
    with options.open(model) as backend, VerdictStore.open(args.verdict_cache) as store:
        words = wording(options.wording, model or "")
        if words.name == PACK:  # a server may know more of the judge than its name
            words = wording(options.wording, backend.identity)
        session = Session(backend, words, options.settings, store, keep_text=not private)
        prepared = session.prepare(pairs.cases)
        with tqdm(total=prepared.to_ask, unit=" verdicts", delay=2, file=sys.stderr, leave=False) as bar:
            found = compare(ask(session, pairs, prepared, bar.update))
    names = [f"run 1 is {first[0].run.model}", f"run 2 is {second[0].run.model}"]
    lines = [*names, *found.lines(), f"documents that only one run has: {pairs.alone}"]
    if args.format == "json":
        print_json({"lines": lines, "tasks": found.rows(), "note": ORDER_NOTE})
    else:
        _show([*lines, "", ORDER_NOTE, ""], found.rows())
    return 0


def _tasks(path: Path, args: argparse.Namespace, options: Any) -> list[SavedTask]:
    from lm_eval_healthcare.cli.score_options import patterns
    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.judge.saved import plan
    from lm_eval_healthcare.results.discovery import find

    planned = plan(find([path]).runs, patterns(args.where), *known_tasks(args.include_path), rubrics(options))
    if not planned.tasks:
        raise UserError(f"{path}: no logged answers there that a judge can compare")
    if len({id(task.run) for task in planned.tasks}) > 1:
        newest = max(task.run.stamp for task in planned.tasks)
        models = sorted({task.run.model for task in planned.tasks})
        if len(models) > 1:
            raise UserError(f"{path}: answers of several models are there ({', '.join(models)}); name one run")
        print(f"{path}: several runs are there; the newest, {newest}, is compared", file=sys.stderr)
        return [task for task in planned.tasks if task.run.stamp == newest]
    return planned.tasks


def _show(lines: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    for line in lines:
        print(line)
    if rows:
        print(table(rows, list(rows[0])))
