"""Scoring logged samples for `score`: progress, what came of it as a table, and what did not."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.score_progress import Progress
from lm_eval_healthcare.cli.tables import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from lm_eval_healthcare.scoring.rescoring import Tally
    from lm_eval_healthcare.scoring.saved_samples import Plan
    from lm_eval_healthcare.scoring.score_cache import ScoreCache
    from lm_eval_healthcare.scoring.scored_results import TaskResult

_COLUMNS = ("model", "run", "task", "filter", "n", "metric", "value", "stderr", "coverage", "truncated", "seconds")


@dataclass
class Outcome:
    """What came of a command.

    Attributes:
        done: Number of tasks, or of folders of answers, that were scored.
        faults: Files or lines that could not be used, each with the reason.
        unscored: The tasks in which a metric has no score for any document, by metric, each with the number of runs.
        errors: The error of each metric that failed, the first one.
    """

    done: int = 0
    faults: list[str] = field(default_factory=list)
    unscored: dict[str, Counter[str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def take_failures(self, task: str, unscored: list[str], errors: Mapping[str, str]) -> None:
        """Note what a task lacks: metrics without any score, and why, where that is known."""
        for name in dict.fromkeys([*unscored, *errors]):
            self.unscored.setdefault(name, Counter())[task] += 1
        self.errors = {**errors, **self.errors}

    def take_failures_of_answers(self, results: Mapping[str, Any]) -> None:
        """Note the same from the harness's results of saved answers."""
        from lm_eval_healthcare.results.results_file import SECTION, task_metadata, values_by_filter
        from lm_eval_healthcare.scoring.documents import METRIC_MISSING

        for task in results.get("configs", {}):
            section = task_metadata(results, task).get(SECTION) or {}
            values = [found for row in values_by_filter(results, task).values() for found in row.items()]
            without = [key.removesuffix("_coverage") for key, value in values if _is_uncovered(key, value)]
            known = [name for name in without if f"{METRIC_MISSING}:{name}" not in (section.get("reasons") or {})]
            self.take_failures(task, known, section.get("metric_errors") or {})

    def tell(self) -> None:
        """Say at the end what went wrong, one line a subject."""
        for name, tasks in self.unscored.items():
            why = f"failed ({self.errors[name]})" if name in self.errors else "has no score for any document"
            print(f"{name} {why}: {_named(tasks)}", file=sys.stderr)
        if self.errors:
            print("mend the cause and give the same command again; what was computed is kept", file=sys.stderr)
        if self.faults:
            print(f"{len(self.faults)} files or lines could not be used, see above", file=sys.stderr)


def _is_uncovered(key: str, value: Any) -> bool:
    return key.endswith("_coverage") and value == 0


def tell_left_out(left_out: Mapping[str, Counter[str]]) -> None:
    """Name the tasks that have nothing to score."""
    for why, tasks in left_out.items():
        print(f"left out: {_named(tasks)}: {why}", file=sys.stderr)


def _named(tasks: Mapping[str, int]) -> str:
    """Return the names of tasks, each with the number of its runs."""
    return ", ".join(f"{task} ({runs} runs)" if runs > 1 else task for task, runs in tasks.items())


def score_samples(args: argparse.Namespace, planned: Plan, options: dict[str, Any], outcome: Outcome) -> None:
    """Score logged samples, write results, and print what came of it."""
    from lm_eval_healthcare.harness.options import Options
    from lm_eval_healthcare.scoring.comparability import comparability_warning
    from lm_eval_healthcare.scoring.rescoring import Rescoring

    neural = any(task.heavy for task in planned.tasks)
    results: list[TaskResult] = []
    files = []
    with _cache(Options.from_metadata(options).score_cache, neural) as cache:
        rescoring = Rescoring(planned.tasks, cache, args.output_dir)
        with Progress(rescoring.total) as progress:
            for tasks, written in rescoring.run(progress.advance):
                results += tasks
                files.append(written)
    tell_left_out(rescoring.left_out)
    outcome.faults += rescoring.faults
    outcome.done += len(results)
    for result in results:
        outcome.take_failures(result.task.task, result.unscored, result.errors)
    places = {id(task): place for place, task in enumerate(planned.tasks)}
    results.sort(key=lambda result: places[id(result.task)])
    if not results:
        return
    rows = [row for result in results for row in _rows(result)]
    print(table(rows, _columns(rows)))
    print()
    for written in sorted(files, key=lambda one: str(one.results)):
        count = len(written.samples)
        print(f"results: {written.results}, with the samples of {count} task{'s' if count > 1 else ''}")
    if neural:
        _print_tally(rescoring.tally, cache)
    if (warning := comparability_warning(results)) is not None:
        print(f"WARNING: {warning}", file=sys.stderr)


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


def _rows(result: TaskResult) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table for one task."""
    task, values = result.task, result.summary
    seconds: str | None = f"{result.seconds:.1f}"
    for name, n in result.documents.items():
        for metric in task.names:
            yield {
                "model": task.run.model, "run": task.run.stamp, "task": task.task, "filter": name, "n": n,
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
