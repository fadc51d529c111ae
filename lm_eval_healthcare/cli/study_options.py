"""The options that `consistency` and `resilience` have in common: answers, metrics, judges, and where files go."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import refuse_no_path, take_paths
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.results.repeated_answers import RepeatedTask
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks
    from lm_eval_healthcare.scoring.saved_samples import Wishes
    from lm_eval_healthcare.scoring.score_cache import ScoreCache
    from lm_eval_healthcare.studies.answer_scores import AnswerScores

logger = logging.getLogger("lm_eval_healthcare")

PROMETHEUS = "prometheus"
_ENDINGS = ("png", "svg", "pdf")


def add_study_options(parser: argparse.ArgumentParser, metrics: str) -> None:
    """Add paths, metrics with their options, judges, and output.

    Args:
        parser: Gets them.
        metrics: What `--metrics` says of its default.
    """
    from lm_eval_healthcare.cli.judge_options import add_judge_options
    from lm_eval_healthcare.cli.score_options import ParserWithMetricOptions
    from lm_eval_healthcare.cli.tables import add_format

    parser.__class__ = ParserWithMetricOptions
    parser.allow_abbrev = False
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="what to read, see below")
    parser.add_argument(
        "--metrics", nargs="+", action="extend", default=[], metavar="LIST",
        help="metrics and sets (default, ngram, all), prometheus for the judge, separated by commas or '+' "
        f"({metrics})",
    )  # fmt: skip
    add_format(parser)
    parser.add_argument(
        "--output-dir", "-o", type=Path, metavar="OUT", help="folder for the study as JSON, as CSV, and for figures"
    )
    parser.add_argument("--figures", choices=_ENDINGS, default="png", help="format of figures (default: %(default)s)")
    parser.add_argument("--no-figures", action="store_true", help="draw nothing")
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KIND=PATTERN",
        help="take only models (model=PATTERN) or tasks (task=PATTERN) of these names; several of a kind: any of them",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a file or a line could not be read")
    parser.add_argument("-v", "--verbose", action="store_true", help="say more")
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    _add_scoring(parser)
    # The judge's options have names of their own here, since metrics have a device and studies a seed as well.
    add_judge_options(parser, "the judge (for the metric prometheus)", "averaged", prefix="judge-")


def _add_scoring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scoring answers")
    group.add_argument("--device", metavar="DEVICE", help="for neural metrics: auto, cpu, cuda, cuda:N (default: auto)")
    group.add_argument("--batch-tokens", metavar="N", help="tokens in a batch (default: as the device likes it)")
    group.add_argument(
        "--metrics-missing", choices=("fail", "skip"), help="what to do about a metric that lacks its model or package"
    )
    group.add_argument(
        "--score-cache", metavar="FOLDER|off", help="where scores of neural metrics are kept (default: ~/.cache)"
    )


def start(args: argparse.Namespace, command: str) -> None:
    """Let warnings go to stderr, and take paths out of the values of flags that take several.

    Raises:
        UserError: If there is no path, or the output folder cannot be written.
    """
    from lm_eval_healthcare.results.writing import refuse_unwritable

    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", stream=sys.stderr)
    take_paths(args, "where")
    _take_paths_from_metrics(args)
    refuse_no_path(args, command)
    if args.output_dir is not None:
        refuse_unwritable(args.output_dir)


def asked_metrics(args: argparse.Namespace) -> list[str]:
    """Return the names and sets of `--metrics`, in order; nothing if it was not given."""
    parts = [part.strip() for value in args.metrics for part in value.replace("+", ",").split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def wishes(args: argparse.Namespace) -> tuple[Wishes, str | None]:
    """Return the options of metrics that were given, checked, and where the score cache is.

    Raises:
        UserError: If a value cannot be used.
    """
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.score_options import patterns
    from lm_eval_healthcare.harness.options import MISSING, Options
    from lm_eval_healthcare.scoring.saved_samples import Wishes

    flags = {
        "metrics_device": args.device,
        "metrics_batch_tokens": args.batch_tokens,
        "metrics_missing": args.metrics_missing,
        "score_cache": args.score_cache,
        **{name: getattr(args, name) for name in args.metric_options},
    }
    given = {name: value for name, value in flags.items() if value is not None}
    if given.get("metrics_device") == "later":
        raise UserError("--device later: this command is what computes scores; use auto, cpu, cuda or cuda:N")
    everything = Options.from_metadata(given)  # checks them, and knows the environment
    of_metrics = metrics.option_names()
    return Wishes(
        options={name: value for name, value in given.items() if name in of_metrics},
        defaults={name: value for name, value in everything.for_metrics.items() if name not in given},
        skip_missing=everything.metrics_missing != MISSING[0],
        where=patterns(args.where),
    ), everything.score_cache


def known_tasks(args: argparse.Namespace) -> KnownTasks:
    """Return what knows the facts of tasks."""
    from lm_eval_healthcare.cli.data_arguments import roots
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

    pack, *own = roots(args.include_path)
    return KnownTasks([*own, pack])


def open_cache(where: str | None, neural: bool) -> ScoreCache:
    """Return the score cache; one in memory where there is none, so that work is shared at least here."""
    from lm_eval_healthcare.scoring.score_cache import OFF, ScoreCache

    cache = ScoreCache.open(where if neural else OFF)
    return ScoreCache.in_memory() if neural and not cache.is_open else cache


def given_judge(args: argparse.Namespace) -> JudgeOptions | None:
    """Return the judge and how it is asked; None if none was named.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If a value cannot be used.
    """
    from lm_eval_healthcare.cli.judge_options import judge_options

    return judge_options(args) if args.judge_model or args.judge_base_url else None


def judged(
    args: argparse.Namespace, tasks: Sequence[RepeatedTask], judge: JudgeOptions, known: KnownTasks
) -> list[AnswerScores]:
    """Let the judge grade all answers of tasks, telling of progress, and return the scores of each task.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If the judge cannot be used, or may not see the texts.
    """
    from lm_eval_healthcare.judge.store import VerdictStore
    from lm_eval_healthcare.studies.answer_scores import judge_answers

    with VerdictStore.open(args.verdict_cache) as store, _verdict_bar() as (forecast, advance):
        return judge_answers(
            tasks, judge, store, known, forecast, advance,
            send_anyway=args.send_credentialed_texts_to_a_remote_judge,
        )  # fmt: skip


def tell_failed(name: str, scores: AnswerScores) -> bool:
    """Log each metric of a task that failed, with the reason; return whether there is one."""
    for metric, text in scores.errors.items():
        logger.error("%s: %s failed: %s", name, metric, text)
    return bool(scores.errors)


def about(command: str, judge: JudgeOptions | None) -> dict[str, Any]:
    """Return what a study says of how it was made: the command, the package's version, and the judge's seed or 0."""
    import lm_eval_healthcare

    arguments = sys.argv[1:] if command in sys.argv[1:2] else [command]
    return {
        "command": shlex.join(["lm-eval-healthcare", *arguments]),
        "package": lm_eval_healthcare.__version__,
        "seed": 0 if judge is None else judge.settings.seed,
    }


@contextmanager
def _verdict_bar() -> Iterator[tuple[Callable[[str, int, int], None], Callable[[str, float], None]]]:
    """Give what tells of a judge's work: what it is about to be asked, and how far it is."""
    from tqdm import tqdm

    bars: list[Any] = []

    def forecast(judge: str, to_ask: int, known: int) -> None:
        more = f", {known:,} known from before" if known else ""
        print(f"{judge}: {to_ask:,} verdicts to ask for{more}", file=sys.stderr)
        while bars:
            bars.pop().close()
        bars.append(tqdm(total=to_ask, unit=" verdicts", delay=2, mininterval=0.5, file=sys.stderr, leave=False))

    def advance(task: str, n: float) -> None:
        if n and bars:
            bars[-1].set_description(task, refresh=False)
            bars[-1].update(n)

    try:
        yield forecast, advance
    finally:
        while bars:
            bars.pop().close()


def _take_paths_from_metrics(args: argparse.Namespace) -> None:
    """Move what stands behind the names of metrics and is a path to the paths."""
    names: list[str] = []
    for value in args.metrics:
        if os.sep in value or (Path(value).exists() and not _is_metric(value)):
            args.paths.append(Path(value))
        else:
            names.append(value)
    args.metrics = names


def _is_metric(value: str) -> bool:
    from lm_eval_healthcare import metrics

    try:
        metrics.resolve([part for part in value.replace("+", ",").split(",") if part != PROMETHEUS] or "ngram")
    except ValueError:
        return False
    return True
