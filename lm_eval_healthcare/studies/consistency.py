"""The numbers of a study of self-consistency, as `consistency.json` has them: what asking again does to scores."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lm_eval_healthcare.analysis import noise, repeated_scores, variances
from lm_eval_healthcare.analysis.repeated_scores import NO_RANGE, SCALE_BELOW_ZERO, PromptScores
from lm_eval_healthcare.results.answer_flags import COMPARED, NOT_SAMPLED, distinct
from lm_eval_healthcare.results.repeated_answers import RepeatedTask
from lm_eval_healthcare.results.results_file import SECTION, task_metadata
from lm_eval_healthcare.studies.answer_scores import SIGNATURES_DIFFER
from lm_eval_healthcare.studies.consistency_runs import SIGNATURE_UNKNOWN, StudiedTask, Wanted, masked

STUDY, VERSION = "self-consistency", 1
NO_RATIO_SCALE = ("bleurt", "mover_score")
"""Metrics whose scale has no zero from which scores could be measured, so that sd/mean says nothing."""
METRIC_FAILED = "metric_failed"
COLUMNS = (
    "model", "task", "filter", "doc_id", "document", "metric", "answers", "distinct_answers", "scores", "mean",
    "variance", "scaled_variance", "cv", "reason",
)  # fmt: skip
"""The columns of `consistency_prompts.csv`."""
_RESCALED = "|scale:rescaled"
"""What the signature of BERTScore says where a baseline is taken off, so that scores may be negative."""
_SHARES = (2, 4)
Prompt = tuple[str, str, int]
"""Task, hash of the document, and how many of the same hash came before."""


@dataclass
class RunScores:
    """One task of one model, scored.

    Attributes:
        one: The task.
        prompts: What tells its questions from others, in order.
        scores: Scores by metric, shape (n questions, K answers), without those that do not count.
        statistics: Of each metric and question.
    """

    one: StudiedTask
    prompts: list[Prompt]
    scores: dict[str, np.ndarray]
    statistics: dict[str, PromptScores]

    @classmethod
    def of(cls, one: StudiedTask, wanted: Wanted) -> RunScores:
        """Compute the statistics of a task."""
        scores = masked(one, wanted)
        hidden = [] if wanted.not_sampled_too else np.flatnonzero(~one.sampled).tolist()
        statistics = {}
        for name, values in scores.items():
            below_zero = _goes_below_zero(name, one.scores.signatures.get(name))
            found = repeated_scores.prompt_scores(values, below_zero=below_zero)
            for row in hidden:
                found.no_variance[row] = found.no_cv[row] = NOT_SAMPLED
            statistics[name] = found
        return cls(one, _prompts(one), scores, statistics)


def study(tasks: Sequence[StudiedTask], wanted: Wanted, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `consistency.json`.

    Args:
        tasks: Scored tasks.
        wanted: What is asked for.
        about: What else the file says: command, package, seed, what was left out.
    """
    runs = [RunScores.of(one, wanted) for one in tasks]
    names = list(dict.fromkeys(name for run in runs for name in run.scores))
    ranges = {name: variances.value_range([run.scores[name] for run in runs if name in run.scores]) for name in names}
    content = {
        "study": STUDY,
        "version": VERSION,
        **about,
        "metrics": {name: _metric(name, [run for run in runs if name in run.scores], ranges[name]) for name in names},
        "runs": [_run(run, ranges, wanted) for run in runs],
        "pairs": [*_pairs(runs)],
    }
    return without_nan(content)


def _prompts(one: StudiedTask) -> list[Prompt]:
    seen: Counter[str] = Counter()
    found = []
    for row in one.task.rows:
        found.append((one.task.task, row.document, seen[row.document]))
        seen[row.document] += 1
    return found


def _metric(name: str, runs: Sequence[RunScores], value_range: tuple[float, float]) -> dict[str, Any]:
    """Return what is said of one metric over some runs."""
    order = {prompt: place for place, prompt in enumerate(dict.fromkeys(p for run in runs for p in run.prompts))}
    aligned = [_aligned(run.statistics[name], [order[prompt] for prompt in run.prompts], len(order)) for run in runs]
    found = repeated_scores.spread(aligned)
    means = variances.column_means(np.array([one.means for one in aligned]))
    scaled = variances.scaled(found.variances, *value_range)
    return {
        "mean_variance": found.mean_variance,
        "variance_of_variance": found.variance_of_variance,
        "mean_cv": found.mean_cv,
        "n_prompts": len(order),
        "n_undefined": found.n_undefined,
        "repeats": max(run.one.task.repeats for run in runs),
        "flags": _flags(name, runs, value_range),
        "n_no_variance": found.n_no_variance,
        "undefined": found.undefined,
        "scaled_mean_variance": variances.mean(scaled),
        "scaled_variance_of_variance": variances.variance(scaled),
        "range": list(value_range),
        "mean": variances.mean(means),
        "signature": _signature(name, runs),
        "variances": found.variances.tolist(),
        "cvs": found.cvs.tolist(),
        "scaled_variances": scaled.tolist(),
    }


def _aligned(own: PromptScores, places: Sequence[int], n: int) -> PromptScores:
    """Put a run's prompts in the order of all; one that it lacks is no undefined value, but none at all."""

    def numbers(values: np.ndarray) -> np.ndarray:
        out = np.full(n, np.nan)
        out[places] = values
        return out

    def reasons(texts: Sequence[str]) -> list[str]:
        found = dict(zip(places, texts, strict=True))
        return [found.get(place, "") for place in range(n)]

    counts = np.zeros(n, dtype=np.int64)
    counts[places] = own.counts
    return PromptScores(
        numbers(own.means), numbers(own.variances), numbers(own.cvs), counts, reasons(own.no_variance),
        reasons(own.no_cv),
    )  # fmt: skip


def _goes_below_zero(name: str, signature: str | None) -> bool:
    return name in NO_RATIO_SCALE or _RESCALED in (signature or "")


def _flags(name: str, runs: Sequence[RunScores], value_range: tuple[float, float]) -> list[str]:
    flags = [flag.flag for run in runs for flag in run.one.task.flags]
    flags += [SIGNATURE_UNKNOWN for run in runs if name in run.one.unsigned]
    flags += [METRIC_FAILED for run in runs if name in run.one.scores.errors]
    if len({_signed(run, name) for run in runs}) > 1:
        flags.append(SIGNATURES_DIFFER)
    if any(_goes_below_zero(name, _signed(run, name)) for run in runs):
        flags.append(SCALE_BELOW_ZERO)
    if not math.isnan(value_range[0]) and not variances.has_range(*value_range):
        flags.append(NO_RANGE)
    return list(dict.fromkeys(flags))


def _signed(run: RunScores, name: str) -> str | None:
    return run.one.scores.signatures.get(name)


def _signature(name: str, runs: Sequence[RunScores]) -> str | None:
    found = {_signed(run, name) for run in runs}
    return next(iter(found)) if len(found) == 1 else None


def _run(run: RunScores, ranges: Mapping[str, tuple[float, float]], wanted: Wanted) -> dict[str, Any]:
    task = run.one.task
    counts = [distinct(row.answers) for row in task.rows]
    several = [count for count, row in zip(counts, task.rows, strict=True) if len(row.answers) > 1]
    return {
        "model": task.run.model,
        "task": task.task,
        "filter": task.filter,
        "file": task.path.name,
        "n_prompts": len(task.rows),
        "repeats": task.repeats,
        "declared_repeats": task.declared,
        "flags": [flag.as_dict() for flag in task.flags],
        "distinct_answers": {
            "mean": sum(several) / len(several) if several else math.nan,
            "identical_prompts": sum(count <= 1 for count in several),
        },
        "settings": _settings(task.rows),
        "drawn": _drawn(task),
        "reasons": dict(run.one.scores.reasons),
        "errors": dict(run.one.scores.errors),
        "metrics": {
            name: {**_metric(name, [run], ranges[name]), **_noise(values, wanted)}
            for name, values in run.scores.items()
        },
    }


def _settings(rows: Sequence[Any]) -> dict[str, Any]:
    """Return the settings that all questions were asked with."""
    found: dict[str, Any] = {}
    for name in COMPARED:
        values = [row.settings.get(name) for row in rows]
        if values and values[0] is not None and all(value == values[0] for value in values):
            found[name] = values[0]
    return found


def _drawn(task: RepeatedTask) -> dict[str, Any]:
    """Return what a run of the pack says of how its answers were drawn, seeds included."""
    section = task_metadata(task.run.content, task.task).get(SECTION)
    found = section.get("repeated") if isinstance(section, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _noise(values: np.ndarray, wanted: Wanted) -> dict[str, Any]:
    found = noise.split(values)
    asked = list(wanted.precision)
    if not asked and found.se > 0:
        asked = [found.se / share for share in _SHARES]
    needs = [noise.needed(found, se) for se in asked]
    keys = ("prediction", "data", "se", "se_prediction", "se_data", "n")
    return {
        "noise": {key: getattr(found, key) for key in keys},
        "repeats_needed": [{"se": one.se, "repeats": one.repeats, "prompts_needed": one.prompts} for one in needs],
    }


def _pairs(runs: Sequence[RunScores]) -> Iterator[dict[str, Any]]:
    """Yield the differences of all pairs of models on the questions of a task that both answered."""
    for a, b in itertools.combinations(runs, 2):
        if a.one.task.task != b.one.task.task:
            continue
        places = {prompt: place for place, prompt in enumerate(b.prompts)}
        common = [(place, places[prompt]) for place, prompt in enumerate(a.prompts) if prompt in places]
        for name in a.scores:
            if name not in b.scores or _signed(a, name) != _signed(b, name) or not common:
                continue
            found = noise.split_difference(
                a.scores[name][[mine for mine, _ in common]], b.scores[name][[other for _, other in common]]
            )
            yield {
                "models": [a.one.task.run.model, b.one.task.run.model],
                "task": a.one.task.task,
                "metric": name,
                "difference": found.value,
                "se": found.se,
                "prediction": found.prediction,
                "data": found.data,
                "se_prediction": found.se_prediction,
                "se_data": found.se_data,
                "n": found.n,
            }


def prompt_rows(tasks: Sequence[StudiedTask], wanted: Wanted, content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row a model, task, question and metric, for `consistency_prompts.csv`.

    Args:
        tasks: Scored tasks.
        wanted: What was asked for.
        content: What `study` returned of them.
    """
    for one in tasks:
        run = RunScores.of(one, wanted)
        for name, found in run.statistics.items():
            low, high = (math.nan if value is None else value for value in content["metrics"][name]["range"])
            scaled = variances.scaled(found.variances, low, high)
            for place, row in enumerate(one.task.rows):
                yield {
                    "model": one.task.run.model,
                    "task": one.task.task,
                    "filter": one.task.filter,
                    "doc_id": row.doc_id,
                    "document": row.document,
                    "metric": name,
                    "answers": len(row.answers),
                    "distinct_answers": distinct(row.answers),
                    "scores": int(found.counts[place]),
                    "mean": found.means[place],
                    "variance": found.variances[place],
                    "scaled_variance": scaled[place],
                    "cv": found.cvs[place],
                    "reason": found.no_cv[place],
                    "each": run.scores[name][place].tolist(),
                }


def prompt_table(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Yield heading and rows of `consistency_prompts.csv`: what `prompt_rows` yields, and each answer's score.

    Args:
        rows: What `prompt_rows` yields; read whole, since those with most answers make the heading.
    """
    kept = list(rows)
    most = max((len(row["each"]) for row in kept), default=0)
    yield [*COLUMNS, *(f"score_{answer}" for answer in range(1, most + 1))]
    for row in kept:
        yield [*(row[column] for column in COLUMNS), *row["each"], *[None] * (most - len(row["each"]))]


def without_nan(value: Any) -> Any:
    """Return a value in which every number that is none or infinite has become None."""
    if isinstance(value, Mapping):
        return {str(key): without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
