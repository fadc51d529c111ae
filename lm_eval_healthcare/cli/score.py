"""`lm-eval-healthcare score`: scores from logged samples or saved answers, without a model."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.score_options import ParserWithMetricOptions, given_options, patterns, sort_out
from lm_eval_healthcare.cli.tables import table
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.scoring.rescoring import Tally
    from lm_eval_healthcare.scoring.saved_samples import Plan, Wishes
    from lm_eval_healthcare.scoring.score_cache import ScoreCache
    from lm_eval_healthcare.scoring.scored_results import ScoredTask

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
_COLUMNS = ("model", "run", "task", "filter", "n", "metric", "value", "stderr", "coverage", "truncated", "seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the metrics, and what may differ from the run."""
    parser.__class__ = ParserWithMetricOptions
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="what to score, see below")
    parser.add_argument(
        "--metrics", metavar="LIST",
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
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.add_argument(
        "--metadata", nargs="+", action="extend", default=[], metavar="key=value", help="options, as for `run`"
    )
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Score, write results and samples in the harness's format, print the tables; exit code 1 if there is nothing."""
    from lm_eval_healthcare.results.discovery import find
    from lm_eval_healthcare.scoring.saved_samples import plan

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    sort_out(args)
    options = given_options(args)
    wishes = _wishes(args, options)
    found = find(args.paths)
    planned = plan(found.runs, wishes, _known_tasks(args.include_path))
    faults = [*found.faults, *planned.faults]
    for why, tasks in planned.left_out.items():
        names = ", ".join(f"{task} ({runs} runs)" if runs > 1 else task for task, runs in tasks.items())
        print(f"left out: {names}: {why}", file=sys.stderr)
    for text in [*planned.remarks, *faults]:
        logger.warning(text)
    if found.scored_again:
        print(
            f"{found.scored_again} results are earlier ones of this command; their sources are scored", file=sys.stderr
        )
    done = _score_samples(args, planned, options) if planned.tasks else 0
    done += _score_answers(args, found, wishes, options, faults, alone=not found.runs)
    if faults:
        print(f"{len(faults)} files or lines could not be used, see above", file=sys.stderr)
    if not done:
        print(f"lm-eval-healthcare: nothing was scored. {_why(found, planned)}", file=sys.stderr)
    return int(not done or bool(args.strict and faults))


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


def _score_samples(args: argparse.Namespace, planned: Plan, options: dict[str, Any]) -> int:
    """Score logged samples and print what came of it; return the number of tasks."""
    from tqdm import tqdm

    from lm_eval_healthcare.harness.options import Options
    from lm_eval_healthcare.scoring.rescoring import Rescoring

    neural = any(task.heavy for task in planned.tasks)
    rows: list[dict[str, Any]] = []
    files = []
    with _cache(Options.from_metadata(options).score_cache, neural) as cache:
        rescoring = Rescoring(planned.tasks, cache, args.output_dir)
        interval = 0.5 if sys.stderr.isatty() else 30.0
        with tqdm(
            total=rescoring.total, unit=" documents", file=sys.stderr, delay=2, mininterval=interval, leave=False
        ) as bar:

            def advance(task: str, documents: int) -> None:
                bar.set_description(task, refresh=False)
                bar.update(documents)

            for tasks, written in rescoring.run(advance):
                rows += [row for scored in tasks for row in _rows(scored)]
                files.append(written)
    print(table(rows, _columns(rows)))
    print()
    for written in files:
        count = len(written.samples)
        print(f"results: {written.results}, with the samples of {count} task{'s' if count > 1 else ''}")
    if neural:
        _print_tally(rescoring.tally, cache)
    return len(planned.tasks)


def _cache(where: str | None, neural: bool) -> ScoreCache:
    from lm_eval_healthcare.scoring.score_cache import OFF, ScoreCache

    cache = ScoreCache.open(where if neural else OFF)
    return ScoreCache.in_memory() if neural and not cache.is_open else cache


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns that say something: models, runs and filters only where there are several."""
    runs = {(row["model"], row["run"]) for row in rows}
    models = {model for model, _ in runs}
    needless = {"model"} if len(models) == 1 else set()
    needless |= {"run"} if len(runs) == len(models) else set()
    needless |= {"filter"} if {row["filter"] for row in rows} == {"none"} else set()
    needless |= {"truncated"} if not any(row["truncated"] for row in rows) else set()
    return [column for column in _COLUMNS if column not in needless]


def _rows(scored: ScoredTask) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table for one task."""
    from lm_eval_healthcare.scoring.scored_results import summary

    task, values = scored.task, summary(scored)
    seconds: str | None = f"{task.seconds:.1f}"
    for name in task.texts.filters:
        for metric in task.names:
            yield {
                "model": task.run.model, "run": task.run.stamp, "task": task.task, "filter": name,
                "n": len(task.texts.of(name)),
                "metric": metric, "value": _number(values[f"{metric},{name}"]),
                "stderr": _number(values[f"{metric}_stderr,{name}"]),
                "coverage": _share(values[f"{metric}_coverage,{name}"]),
                "truncated": _share(values.get(f"{metric}_truncated,{name}")), "seconds": seconds,
            }  # fmt: skip
            seconds = ""


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def _print_tally(tally: Tally, cache: ScoreCache) -> None:
    where = f" ({cache.path})" if cache.path is not None else ""
    print(f"neural metrics: {tally.pairs} pairs, {tally.computed} computed, {tally.cached} from the score cache{where}")


def _score_answers(
    args: argparse.Namespace,
    found: Found,
    wishes: Wishes,
    options: dict[str, Any],
    faults: list[str],
    alone: bool,
) -> int:
    """Score saved answers that have no samples; return the number of folders."""
    from lm_eval_healthcare.scoring.unscored_answers import answered_tasks, wanted, with_samples

    done = 0
    for folder in found.answers:
        tasks = answered_tasks(folder)
        logged = [] if folder in args.paths else with_samples(folder, tasks, found.runs)
        if logged:
            names = ", ".join(logged[:3]) + (f" and {len(logged) - 3} more" if len(logged) > 3 else "")
            print(f"{folder}: the samples of {names} are scored, not these answers", file=sys.stderr)
        left = [task for task in wanted(folder, tasks, wishes) if task not in logged]
        if tasks and not left:
            continue
        try:
            _score_folder(args, folder, options, None if left == tasks else left)
            done += 1
        except UserError as error:
            if alone and len(found.answers) == 1:
                raise
            faults.append(str(error))
            logger.warning(str(error))
    return done


def _score_folder(args: argparse.Namespace, folder: Path, options: dict[str, Any], tasks: list[str] | None) -> None:
    """Score one folder of saved answers through the harness, as in the run."""
    from lm_eval_healthcare.harness.command_line import results_tables, start_logging
    from lm_eval_healthcare.harness.replay import score_saved_run

    start_logging()
    metadata = {"metrics_device": "auto", **options}  # a run may have left its metrics for later; now is later
    output, results = score_saved_run(folder, args.output_dir, metadata, args.partial, args.include_path, tasks)
    print("\n".join(results_tables(results)))
    print(f"results and samples: {output}")


def _why(found: Found, planned: Plan) -> str:
    """Say why there was nothing to score, and what to do."""
    if planned.unmatched and not planned.tasks:
        models = sorted({run.model for run in found.runs})
        tasks = sorted({task for run in found.runs for task in run.samples})
        return f"--where matches nothing: models are {', '.join(models)}; tasks are {', '.join(tasks)}"
    if not any(run.samples for run in found.runs) and not found.answers:
        return "There are no samples_*.jsonl and no saved answers there; a run logs samples with --log_samples"
    return "See above for the reasons"
