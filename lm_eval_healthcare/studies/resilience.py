"""How far each metric moves when answers are reworded: from the scores of all versions to the study's numbers.

The study is one JSON object, with null for what does not exist, and a table with a line for each answer and metric.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.analysis.resilience import Resilience, clusters, resilience
from lm_eval_healthcare.analysis.variances import value_range
from lm_eval_healthcare.studies.answer_scores import SIGNATURES_DIFFER
from lm_eval_healthcare.studies.rewording.answers import ORIGINAL, counts, facts, version_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lm_eval_healthcare.results.repeated_answers import RepeatedTask
    from lm_eval_healthcare.studies.answer_scores import AnswerScores

FEW_QUESTIONS = 10
_NO_SCORES = "no_scores"


@dataclass(frozen=True)
class _Scored:
    """One task of one run with the scores of one metric.

    Attributes:
        task: The task.
        values: Shape (questions, columns): a column for each version of the study, the original first.
        prompts: The number of each question in the study.
    """

    task: RepeatedTask
    values: NDArray[np.float64]
    prompts: NDArray[np.int64]


class ResilienceStudy:
    """The numbers of a study.

    Attributes:
        names: The versions: `original`, then those of all tasks in the order in which they come.
        metrics: What each metric does over all runs.
        groups: Metrics that move alike, the steadiest first.
    """

    def __init__(
        self, tasks: Sequence[RepeatedTask], scores: Sequence[AnswerScores], *, with_original: bool = True
    ) -> None:
        """Compute everything.

        Args:
            tasks: Tasks with rewordings.
            scores: The scores of each task's answers.
            with_original: Whether the original is one of the versions in a variance.
        """
        self._tasks, self._scores, self._with_original = list(tasks), list(scores), with_original
        self.names = _names(self._tasks)
        self._prompts = _prompts(self._tasks)
        wanted = list(dict.fromkeys(name for one in self._scores for name in one.scores))
        self._parts = {metric: list(self._of(metric)) for metric in wanted}
        self._limits = {metric: value_range([one.values for one in parts]) for metric, parts in self._parts.items()}
        self.metrics: dict[str, Resilience] = {
            metric: self._measure(metric, parts) for metric, parts in self._parts.items()
        }
        self.groups = clusters(
            {name: one.mean_variance for name, one in self.metrics.items()},
            {name: one.variance_of_variance for name, one in self.metrics.items()},
        )

    @property
    def is_empty(self) -> bool:
        """Whether no metric has a variance, scaled or not."""
        return all(math.isnan(one.raw_mean_variance) for one in self.metrics.values())

    def content(self, about: Mapping[str, Any], left_out: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the study as JSON.

        Args:
            about: What is said of it besides: `command`, `package`, `seed`.
            left_out: What was not used, each with the reason.
        """
        cluster_of = {name: number for number, group in enumerate(self.groups, 1) for name in group}
        return {
            "study": "resilience",
            "version": 1,
            **about,
            "with_original": self._with_original,
            "metrics": {
                name: {
                    **self._record(one, self._parts[name], self._signatures(name)),
                    "cluster": cluster_of.get(name),
                    "signature": " | ".join(self._signatures(name)),
                    "variances": _numbers(one.variances),
                    "raw_variances": _numbers(one.raw_variances),
                }
                for name, one in self.metrics.items()
            },
            "runs": [self._run(place) for place in range(len(self._tasks))],
            "rewordings": _sum(counts(task) for task in self._tasks),
            "clusters": self.groups,
            "left_out": [{"what": what, "why": why} for what, why in left_out],
        }

    def prompt_rows(self) -> Iterator[list[Any]]:
        """Yield a table: the heading, then one line for each answer and metric, without any text."""
        versions = self.names[1:]
        yield ["model", "task", "filter", "doc_id", "doc_hash", "metric", ORIGINAL, *versions, "variance",
               "scaled_variance"]  # fmt: skip
        for metric, parts in self._parts.items():
            for part in parts:
                alone = resilience(
                    part.values, range(len(part.values)), limits=self._limits[metric], with_original=self._with_original
                )
                numbered = np.column_stack([part.values, alone.raw_variances, alone.variances])
                for row, numbers in zip(part.task.rows, numbered, strict=True):
                    yield [
                        part.task.run.model, part.task.task, part.task.filter, row.doc_id, row.document, metric,
                        *("" if math.isnan(one) else float(one) for one in numbers),
                    ]  # fmt: skip

    def _of(self, metric: str) -> Iterator[_Scored]:
        for task, scores, prompts in zip(self._tasks, self._scores, self._prompts, strict=True):
            if metric not in scores.scores:
                continue
            given = scores.scores[metric]
            values = np.full((len(task.rows), len(self.names)), np.nan)
            for place, row in enumerate(task.rows):
                for column, name in enumerate(version_names(row)[: given.shape[1]]):
                    if name:
                        values[place, self.names.index(name)] = given[place, column]
            yield _Scored(task, values, prompts)

    def _measure(self, metric: str, parts: Sequence[_Scored]) -> Resilience:
        values = np.concatenate([one.values for one in parts]) if parts else np.empty((0, len(self.names)))
        prompts = np.concatenate([one.prompts for one in parts]) if parts else np.empty(0, dtype=np.int64)
        return resilience(values, prompts, limits=self._limits[metric], with_original=self._with_original)

    def _record(self, one: Resilience, parts: Sequence[_Scored], signatures: Sequence[str] = ()) -> dict[str, Any]:
        by_version = dict(zip(self.names, one.by_version, strict=True))
        original = by_version.pop(ORIGINAL)
        return {
            "mean_variance": _number(one.mean_variance),
            "variance_of_variance": _number(one.variance_of_variance),
            "raw_mean_variance": _number(one.raw_mean_variance),
            "raw_variance_of_variance": _number(one.raw_variance_of_variance),
            "n_prompts": one.n_prompts,
            "n_undefined": one.n_undefined,
            "undefined": dict(one.undefined),
            "n_unmoved": one.no_variance,
            "versions": one.versions,
            "flags": [*_metric_flags(one, parts), *([SIGNATURES_DIFFER] if len(signatures) > 1 else [])],
            "range": [_number(end) for end in one.range],
            "original_mean": _number(original.mean),
            "mean_change": _number(one.mean_change),
            "by_version": {
                name: {"mean": _number(of.mean), "mean_change": _number(of.mean_change), "n": of.n}
                for name, of in by_version.items()
            },
        }

    def _run(self, place: int) -> dict[str, Any]:
        task = self._tasks[place]
        parts = {
            metric: [one for one in parts if one.task is task] for metric, parts in self._parts.items()
        }  # fmt: skip
        made = counts(task)
        return {
            "model": task.run.model,
            "task": task.task,
            "filter": task.filter,
            "by": facts(task).get("by"),
            "from": facts(task).get("from"),
            "n_prompts": len(task.rows),
            "rewordings": made,
            "reasons": dict(self._scores[place].reasons),
            "flags": [*_run_flags(task, made, self._scores[place]), *_several(task, self._tasks)],
            "metrics": {metric: self._record(self._measure(metric, own), own) for metric, own in parts.items() if own},
        }

    def _signatures(self, metric: str) -> list[str]:
        signed = (one.signatures.get(metric) for one in self._scores)
        return list(dict.fromkeys(text for text in signed if text))


def _names(tasks: Sequence[RepeatedTask]) -> list[str]:
    """Return the names of all versions; those of models by number, and rules in the order in which they come."""
    found = dict.fromkeys(name for task in tasks for row in task.rows for name in version_names(row) if name)
    found.pop(ORIGINAL, None)
    numbered = sorted((name for name in found if name[1:].isdecimal()), key=lambda name: int(name[1:]))
    return [ORIGINAL, *numbered, *(name for name in found if name not in numbered)]


def _prompts(tasks: Sequence[RepeatedTask]) -> list[NDArray[np.int64]]:
    """Return the number of each row's question, the same for all models; equal questions of one run stay apart."""
    numbers: dict[tuple[str, str, int], int] = {}
    found = []
    for task in tasks:
        seen: Counter[str] = Counter()
        own = []
        for row in task.rows:
            key = (task.task, row.document, seen[row.document])
            seen[row.document] += 1
            own.append(numbers.setdefault(key, len(numbers)))
        found.append(np.array(own, dtype=np.int64))
    return found


def _metric_flags(one: Resilience, parts: Sequence[_Scored]) -> list[str]:
    flags = []
    if all(np.isnan(part.values).all() for part in parts):
        flags.append(_NO_SCORES)
    defined = int(np.isfinite(one.raw_variances).sum())
    if 0 < defined < FEW_QUESTIONS:
        flags.append("few_questions")
    if one.fewest_versions < one.versions:
        flags.append("versions_differ")
    return flags


def _run_flags(task: RepeatedTask, made: Mapping[str, Any], scores: AnswerScores) -> list[dict[str, Any]]:
    flags = []
    wanted = made["accepted"] + made["missing"]
    if made["missing"]:
        text = f"{made['missing']} of {wanted} rewordings are missing"
        flags.append({"flag": "missing_rewordings", "n": made["missing"], "text": text})
    without = sum(not any(text is not None for text in row.answers[1:]) for row in task.rows)
    if without:
        text = f"{without} of {len(task.rows)} answers have no rewording"
        flags.append({"flag": "answers_without_rewording", "n": without, "text": text})
    flags += [
        {"flag": "metric_error", "n": len(task.rows), "text": f"{name}: {why}"} for name, why in scores.errors.items()
    ]
    return flags


def _several(task: RepeatedTask, every: Iterable[RepeatedTask]) -> list[dict[str, Any]]:
    """Tell of a task whose answers stand in the study with other rewordings too: by rules, or with another seed."""
    source = facts(task).get("from")
    n = sum(
        (one.run.model, one.task, one.filter, facts(one).get("from"))
        == (task.run.model, task.task, task.filter, source)
        for one in every
    )
    if n < 2:
        return []
    text = (
        f"{n} sets of rewordings of the same answers are here (other settings, another model, or rules), of which each "
        f"counts as a model of its own; give the results file of one of them"
    )
    return [{"flag": "several_rewordings", "n": n, "text": text}]


def _sum(every: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for one in every:
        total.update({key: value for key, value in one.items() if isinstance(value, int)})
        rejected.update(one["rejected_by_reason"])
    return {
        **{key: total[key] for key in ("accepted", "missing", "asked")},
        "rejected_by_reason": dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0]))),
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(value) for value in values]
