"""Scoring logged samples for `score`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.score_outcome import named
from lm_eval_healthcare.cli.score_progress import Progress
from lm_eval_healthcare.results.names import printable

if TYPE_CHECKING:
    import argparse
    from collections import Counter
    from collections.abc import Iterator, Mapping

    from lm_eval_healthcare.cli.score_outcome import Outcome
    from lm_eval_healthcare.results.writing import Written
    from lm_eval_healthcare.scoring.rescoring import Tally
    from lm_eval_healthcare.scoring.saved_samples import Plan
    from lm_eval_healthcare.scoring.score_cache import ScoreCache
    from lm_eval_healthcare.scoring.scored_results import TaskResult


def tell_left_out(left_out: Mapping[str, Counter[str]]) -> None:
    """Name the tasks that have nothing to score."""
    for why, tasks in left_out.items():
        print(f"left out: {named(tasks)}: {why}", file=sys.stderr)


def score_samples(args: argparse.Namespace, planned: Plan, options: dict[str, Any], outcome: Outcome) -> None:
    """Score logged samples and write results."""
    from lm_eval_healthcare.harness.options import Options
    from lm_eval_healthcare.scoring.comparability import comparability_warning
    from lm_eval_healthcare.scoring.rescoring import Rescoring

    neural = any(task.heavy for task in planned.tasks)
    results: list[TaskResult] = []
    files: list[Written] = []
    with _cache(Options.from_metadata(options).score_cache, neural) as cache:
        rescoring = Rescoring(planned.tasks, cache, args.output_dir)
        with Progress(rescoring.total) as progress:
            for tasks, written in rescoring.run(progress.advance):
                results += tasks
                files.append(written)
    tell_left_out(rescoring.left_out)
    outcome.faults += rescoring.faults
    outcome.done += len(results)
    places = {id(task): place for place, task in enumerate(planned.tasks)}
    results.sort(key=lambda result: places[id(result.task)])
    for result in results:
        outcome.take_failures(result.task.task, result.unscored, result.errors)
        outcome.rows += _rows(result)
    outcome.files += [_line(written) for written in sorted(files, key=lambda one: str(one.results))]
    if neural and results:
        outcome.remarks.append(_tally(rescoring.tally, cache))
    if (warning := comparability_warning(results)) is not None:
        print(f"WARNING: {warning}", file=sys.stderr)


def _cache(where: str | None, neural: bool) -> ScoreCache:
    from lm_eval_healthcare.scoring.score_cache import OFF, ScoreCache

    cache = ScoreCache.open(where if neural else OFF)
    return ScoreCache.in_memory() if neural and not cache.is_open else cache


def _rows(result: TaskResult) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table for one task."""
    task, values = result.task, result.summary
    seconds: str | None = f"{result.seconds:.1f}"
    for name, n in result.documents.items():
        for metric in task.names:
            yield {
                "model": task.run.model, "run": task.run.stamp, "task": task.task, "filter": name, "n": n,
                "metric": metric, "value": values[f"{metric},{name}"], "stderr": values[f"{metric}_stderr,{name}"],
                "coverage": values[f"{metric}_coverage,{name}"], "truncated": values.get(f"{metric}_truncated,{name}"),
                "seconds": seconds,
            }  # fmt: skip
            seconds = ""


def _line(written: Written) -> str:
    count = len(written.samples)
    return f"results: {printable(written.results)}, with the samples of {count} task{'s' if count > 1 else ''}"


def _tally(tally: Tally, cache: ScoreCache) -> str:
    where = f" ({cache.path})" if cache.path is not None else ""
    return f"neural metrics: {tally.pairs} pairs, {tally.computed} computed, {tally.cached} from the score cache{where}"
