"""`lm-eval-healthcare judge`: a language model grades the saved answers of runs."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import nothing_matches, refuse_no_path, take_paths
from lm_eval_healthcare.cli.judge_options import add_judge_options, judge_options, known_tasks, rubrics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lm_eval_healthcare.judge.judged_results import TaskResult
    from lm_eval_healthcare.judge.judging import Forecast, Judging
    from lm_eval_healthcare.judge.saved import Plan
    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.results.writing import Written

logger = logging.getLogger("lm_eval_healthcare")

_MOST_FILES = 10
_MOST_DISAGREEMENTS = 10
_EPILOG = """\
PATH is a folder that holds results_*.json and samples_*.jsonl at any depth, or one such file. Each answer gets 1 to 5
(metric `prometheus`); an answer for which the judge gives no verdict gets none, and is counted. New results and
samples, with the judge's texts, are written beside the old ones, or below --output-dir. What the judge says is kept
while it comes: after an interruption, the same command goes on where it stopped.

examples:
  lm-eval-healthcare judge results --judge-model /models/prometheus-7b-v2.0 --args gpu_memory_utilization=0.8
  lm-eval-healthcare judge results --backend openai --base-url http://127.0.0.1:8000/v1 --judge-model my-judge \\
      --preset reproducible --output-dir judged
  lm-eval-healthcare judge results --where task=medtext --backend hf --judge-model /models/small-judge --samples 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the judge, and where results go."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="what to judge, see below")
    add_judge_options(parser)
    parser.add_argument(
        "--output-dir", "--output_path", "-o", type=Path, metavar="OUT",
        help="where results go: OUT/<model>/results_*.json (default: beside the run's)",
    )  # fmt: skip
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KIND=PATTERN",
        help="judge only models (model=PATTERN) or tasks (task=PATTERN) of these names; several of a kind: any of them",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="say what would be asked, and end")
    parser.add_argument(
        "--keep-text", action="store_true",
        help="keep the judge's texts about credentialed data, which may quote it, in results and cache",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a file or a line could not be read")
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more")
    parser.epilog = _EPILOG


class _Enough(Exception):
    """The user only wanted to know what would be asked."""


def execute(args: argparse.Namespace) -> int:
    """Judge, write results and samples in the harness's format, print the table.

    Returns:
        1 if nothing was judged, if too many answers of a task have no verdict, or, with `--strict`, if a file or line
        could not be read; else 0.
    """
    from lm_eval_healthcare.cli.score_options import patterns
    from lm_eval_healthcare.judge.judging import Judging
    from lm_eval_healthcare.judge.saved import plan, refuse_to_send
    from lm_eval_healthcare.judge.store import VerdictStore
    from lm_eval_healthcare.results.discovery import find

    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", stream=sys.stderr)
    options = judge_options(args)
    take_paths(args, "where")
    refuse_no_path(args, "judge")
    found = find(args.paths)
    planned = plan(found.runs, patterns(args.where), *known_tasks(args.include_path), rubrics(options))
    for text in [*found.faults, *planned.faults]:
        logger.warning(text)
    if not planned.tasks:
        _tell_left_out(planned.left_out)
        print(f"lm-eval-healthcare: nothing was judged. {_why(found, planned)}", file=sys.stderr)
        return 1
    refuse_to_send(planned.tasks, options.base_url, args.send_credentialed_texts_to_a_remote_judge)
    with VerdictStore.open(args.verdict_cache) as store:
        judging = Judging(planned.tasks, options, store, args.output_dir, args.keep_text)
        try:
            _ask(judging, args.dry_run)
        except _Enough:
            return 0
        outcome = list(judging.write())
    _tell_left_out({**planned.left_out, **judging.left_out})
    usable = _show(outcome)
    _tell(judging, outcome)
    faults = [*found.faults, *planned.faults, *judging.faults]
    return int(not outcome or not usable or bool(args.strict and faults))


def _ask(judging: Judging, dry_run: bool) -> None:
    from tqdm import tqdm

    bar: Any = None

    def forecast(about: Forecast) -> None:
        nonlocal bar
        print(about.line(), file=sys.stderr)
        if dry_run:
            raise _Enough
        if bar is not None:
            bar.close()
        bar = tqdm(total=about.to_ask, unit=" verdicts", delay=2, mininterval=0.5, file=sys.stderr, leave=False)

    def advance(task: str, n: int) -> None:
        if n:
            bar.set_description(task, refresh=False)
            bar.update(n)

    try:
        judging.ask(forecast, advance)
    finally:
        if bar is not None:
            bar.close()


def _show(outcome: list[tuple[list[TaskResult], Written]]) -> bool:
    """Print the table; return whether every mean can be used."""
    from lm_eval_healthcare.cli.tables import table

    rows = [row for results, _ in outcome for result in results for row in _rows(result)]
    if rows:
        needless = {c for c in ("model", "filter", "expected") if len({row[c] for row in rows}) == 1}
        needless -= {"expected"} if any(row["expected"] for row in rows) else set()
        print(table(rows, [column for column in rows[0] if column not in needless]))
        print()
    files = [written for _, written in outcome]
    for written in files[:_MOST_FILES]:
        n = len(written.samples)
        print(f"results: {written.results}, with the samples of {n} task{'s' if n > 1 else ''}")
    if len(files) > _MOST_FILES:
        print(f"and {len(files) - _MOST_FILES} more")
    return not any(row["usable"] == "NO" for row in rows)


def _rows(result: TaskResult) -> Iterator[dict[str, Any]]:
    from lm_eval_healthcare.judge.outcome import EXPECTED, METRIC, WRONG_LANGUAGE
    from lm_eval_healthcare.results.names import printable

    for name, outcome in result.outcomes.items():
        values = result.summary
        yield {
            "model": printable(result.task.saved.run.model),
            "task": printable(result.task.saved.task),
            "filter": printable(name),
            METRIC: _number(values[f"{METRIC},{name}"]),
            "stderr": _number(values[f"{METRIC}_stderr,{name}"]),
            "expected": _number(values[f"{EXPECTED},{name}"]) if f"{EXPECTED},{name}" in values else "",
            "scored": f"{round(values[f'{METRIC}_coverage,{name}'] * outcome.n)}/{outcome.n}",
            "no verdict": f"{outcome.tally.failed}/{outcome.tally.asked}",
            "usable": "NO" if outcome.unusable else "yes",
            "blank": outcome.reasons.get("empty_prediction", 0),
            "cut": outcome.reasons.get(f"cut:{METRIC}", 0),
            "wrong language": _share(values[f"{WRONG_LANGUAGE},{name}"]),
        }


def _tell(judging: Judging, outcome: list[tuple[list[TaskResult], Written]]) -> None:
    """Say what a reader of the table must know: why verdicts are missing, and how far several judges agree."""
    from lm_eval_healthcare.judge.outcome import METRIC

    print(
        f"{judging.asked:,} texts of {', '.join(judge.model for judge in judging.judges)}; "
        f"{judging.tokens['prompt']:,} tokens of prompts, {judging.tokens['completion']:,} of texts"
        + (f"; kept in {judging.store.path}" if judging.store.path else "")
    )
    for results, _ in outcome:
        for result in results:
            for one in result.outcomes.values():
                counts = {
                    reason.removesuffix(f":{METRIC}"): n for reason, n in one.reasons.items() if reason.endswith(METRIC)
                }
                if counts:
                    text = ", ".join(f"{reason} {n}" for reason, n in counts.items())
                    print(f"{result.task.saved.task}: {text}")
                for reason, detail in one.details.items():
                    print(f"{result.task.saved.task}: {reason}: {detail}", file=sys.stderr)
                if one.unusable:
                    print(f"UNUSABLE: {result.task.saved.task}: {one.unusable}", file=sys.stderr)
    _tell_agreement(judging)


def _tell_agreement(judging: Judging) -> None:
    """Say how far several judges agree, and where they do least."""
    from lm_eval_healthcare.cli.tables import table

    agreement = judging.agreement()
    if agreement is None:
        return
    print()
    for judge in judging.judges:
        print(f"{judge.label} is {judge.model}")
    for line in agreement.lines():
        print(line)
    rows = agreement.rows()
    print(table([{key: _cell(value) for key, value in row.items()} for row in rows], list(rows[0])))
    if agreement.disagreements:
        print("widest disagreements:")
    for one in agreement.disagreements[:_MOST_DISAGREEMENTS]:
        scores = ", ".join(f"{score:g}" if score == score else "none" for score in one.scores)
        print(f"  {judging.answer_of(one.document)}: {scores}")


def _tell_left_out(left_out: Any) -> None:
    from lm_eval_healthcare.cli.score_outcome import named

    for why, tasks in left_out.items():
        if tasks:
            print(f"left out: {named(tasks)}: {why}", file=sys.stderr)


def _why(found: Found, planned: Plan) -> str:
    if planned.unmatched and not planned.tasks:
        return nothing_matches(found.runs)
    if found.answers and not found.runs:
        return (
            "These are saved answers, which a judge cannot read; make samples of them first: lm-eval-healthcare score "
            f"{found.answers[0]} --metrics ngram -o FOLDER"
        )
    if not any(run.samples for run in found.runs):
        return "There are no samples_*.jsonl there; a run logs samples with --log_samples"
    return "See above for the reasons"


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) and value == value else "-" if value != value else str(value)


def _share(value: Any) -> str:
    return "-" if not isinstance(value, float) or value != value else f"{value:.0%}"
