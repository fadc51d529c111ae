"""`lm-eval-healthcare rephrase`: saved answers in other words, to see how much metrics move."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import refuse_no_path, take_paths
from lm_eval_healthcare.cli.rephrase_options import (
    RULES,
    about_models,
    add_model_options,
    model_options,
    refuse_model_options,
    settings,
)
from lm_eval_healthcare.cli.tables import add_format
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.saved import Plan
    from lm_eval_healthcare.studies.rewording.rephrase import Forecast, Rephrasing, WrittenRun
    from lm_eval_healthcare.studies.rewording.session import RewordingSession
    from lm_eval_healthcare.studies.rewording.settings import RewordingSettings

logger = logging.getLogger("lm_eval_healthcare")

_EPILOG = """\
PATH is a folder that holds results_*.json and samples_*.jsonl at any depth, or one such file. Each answer is reworded N
times. A rewording must be in the same language and about as long, keep all numbers, units, drug names and negations,
turn nothing into its opposite, differ from the others, and be no refusal and no new answer to the question; one that
fails is drawn again, up to --attempts times, and counted by reason. Where none passes, the rewording is missing;
nothing is put in its place.
New samples hold the original and its rewordings: `lm-eval-healthcare resilience OUT` scores them.

What the model writes is kept while it comes: after an interruption, the same command goes on where it stopped.

examples:
  lm-eval-healthcare rephrase results --backend rules -o rules
  lm-eval-healthcare rephrase results --backend openai --base-url http://127.0.0.1:8000/v1 --model my-model -o reworded
  lm-eval-healthcare rephrase results --backend hf --model /models/small --args dtype=float32 --device cpu \\
      --where task=medtext --n 3 -o reworded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the model, and where results go."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="whose answers to reword, see below")
    parser.add_argument(
        "--output-dir", "--output_path", "-o", type=Path, required=True, metavar="OUT",
        help="where results go: OUT/<model>/results_*.json",
    )  # fmt: skip
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KIND=PATTERN",
        help="only models (model=PATTERN) or tasks (task=PATTERN) of these names; several of a kind: any of them",
    )  # fmt: skip
    add_model_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be asked, and end")
    parser.add_argument(
        "--keep-text", action="store_true",
        help="reword answers about credentialed data too, whose rewordings are then in results and cache",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a file or a line could not be read")
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    add_format(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="say more")
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Reword, write and print, as `_execute` says."""
    with about_models():
        return _execute(args)


def _execute(args: argparse.Namespace) -> int:
    """Reword, write results and samples in the harness's format, print what came of it.

    Returns:
        1 if nothing was reworded, if more rewordings are missing than `--failure-limit` allows, or, with `--strict`, if
        a file or line could not be read; else 0.
    """
    from lm_eval_healthcare.cli.judge_options import known_tasks, rubrics
    from lm_eval_healthcare.cli.rephrase_output import Outcome, why_nothing
    from lm_eval_healthcare.cli.score_options import patterns
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.saved import refuse_to_send
    from lm_eval_healthcare.results.discovery import find
    from lm_eval_healthcare.studies.rewording.rephrase import Rephrasing, plan_rewording, refuse_private

    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", stream=sys.stderr)
    drawn = settings(args)
    by_rules = args.backend == RULES
    if by_rules:
        refuse_model_options(args)
    options = None if by_rules else model_options(args)
    take_paths(args, "where")
    refuse_no_path(args, "rephrase")
    found = find(args.paths)
    facts_of, is_open_ended = known_tasks(args.include_path)
    planned = plan_rewording(found.runs, patterns(args.where), facts_of, is_open_ended, rubrics(JudgeOptions()))
    for text in [*found.faults, *planned.faults]:
        logger.warning(text)
    if not planned.tasks:
        _tell_left_out(planned)
        print(f"lm-eval-healthcare: nothing was reworded. {why_nothing(found, planned)}", file=sys.stderr)
        return 1
    if options is not None:
        refuse_to_send(planned.tasks, options.base_url, args.send_credentialed_texts_to_a_remote_judge)
    refuse_private(planned.tasks, args.keep_text)
    rephrasing = Rephrasing(planned.tasks, facts_of, args.output_dir)
    outcome = _by_rules(rephrasing, drawn, args) if options is None else _by_model(rephrasing, options, drawn, args)
    if outcome is None:
        return 0
    _tell_left_out(planned, rephrasing)
    for text in rephrasing.faults:
        logger.warning(text)
    shown = Outcome(outcome, drawn.failure_limit, by_rules)
    shown.show(as_json=args.format == "json")
    faults = [*found.faults, *planned.faults, *rephrasing.faults]
    return int(shown.failed or bool(args.strict and faults))


def _by_rules(rephrasing: Rephrasing, drawn: RewordingSettings, args: argparse.Namespace) -> list[WrittenRun] | None:
    from lm_eval_healthcare.studies.rewording.rephrase import RulesRewriter

    if args.dry_run:
        print(f"{len(rephrasing.tasks)} tasks to reword by rules", file=sys.stderr)
        return None
    rephrasing.refuse_unwritable()
    about = {"backend": RULES, "n": drawn.n, "settings": {}}
    return list(rephrasing.write(RulesRewriter(drawn.n), about))


def _by_model(
    rephrasing: Rephrasing, options: JudgeOptions, drawn: RewordingSettings, args: argparse.Namespace
) -> list[WrittenRun] | None:
    from dataclasses import asdict

    from lm_eval_healthcare.judge.store import VerdictStore
    from lm_eval_healthcare.studies.rewording.prompt import instruction
    from lm_eval_healthcare.studies.rewording.session import REWORDINGS, RewordingSession

    words = instruction(args.instruction)
    if not args.dry_run:
        rephrasing.refuse_unwritable()
    with VerdictStore.open(args.rewording_cache, REWORDINGS) as store, options.open(args.model) as backend:
        session = RewordingSession(backend, words, drawn, store)
        with _looking() as looked:
            about = rephrasing.forecast(session, looked)
        if args.dry_run:
            _tell_forecast(about, args.format)
            return None
        print(about.line(), file=sys.stderr)
        try:
            with _bar(about) as advance:
                rephrasing.ask(session, advance)
        except (UserError, KeyboardInterrupt):
            print(f"stopped; {session.asked:,} texts that came are kept, the same command goes on", file=sys.stderr)
            raise
        facts = {key: value for key, value in asdict(drawn).items() if key not in ("preset", "n", "failure_limit")}
        said = {
            "backend": backend.facts, "n": drawn.n, "preset": drawn.preset,
            "settings": {**facts, "instruction": words.label},
        }  # fmt: skip
        outcome = list(rephrasing.write(session, said))
        _tell_session(session, store)
    return outcome


@contextlib.contextmanager
def _looking() -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(unit=" answers", desc="known texts", delay=2, mininterval=0.5, file=sys.stderr, leave=False) as bar:
        yield bar.update


@contextlib.contextmanager
def _bar(about: Forecast) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=about.to_ask, unit=" texts", delay=2, mininterval=0.5, file=sys.stderr, leave=False) as bar:

        def advance(task: str, done: int, more: int) -> None:
            bar.total += more
            bar.set_description(task, refresh=False)
            bar.update(done)

        yield advance


def _tell_forecast(about: Forecast, form: str) -> None:
    from dataclasses import asdict

    from lm_eval_healthcare.cli.tables import print_json

    print(about.line(), file=sys.stderr)
    if form == "json":
        print_json(asdict(about))


def _tell_session(session: RewordingSession, store: Any) -> None:
    """Say what it has cost, and what failed for another reason than the texts."""
    print(
        f"{session.asked:,} texts came now; {session.tokens['prompt']:,} tokens of prompts, "
        f"{session.tokens['completion']:,} of texts" + (f"; kept in {store.path}" if store.path else ""),
        file=sys.stderr,
    )
    if session.silent:
        why = "; ".join(f"{reason}: {detail}" for reason, detail in session.details.items())
        print(f"{session.silent:,} requests got no text ({why}); the same command asks for them again", file=sys.stderr)


def _tell_left_out(planned: Plan, rephrasing: Rephrasing | None = None) -> None:
    from lm_eval_healthcare.cli.score_outcome import named

    for left_out in (planned.left_out, rephrasing.left_out if rephrasing else {}):
        for why, tasks in left_out.items():
            if tasks:
                print(f"left out: {named(tasks)}: {why}", file=sys.stderr)
