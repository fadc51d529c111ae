"""The results file and the sample rows of saved answers that were judged, as a run of the harness writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.judge.outcome import JudgedTask, directions
from lm_eval_healthcare.judge.saved import TaskAnswers
from lm_eval_healthcare.judge.usability import together
from lm_eval_healthcare.results.derived import counts_of, summary_of
from lm_eval_healthcare.results.results_file import (
    SECTION,
    TEXT_OUTPUT,
    ResultsError,
    task_config,
    task_metadata,
)
from lm_eval_healthcare.results.samples_file import SampleFile, completed

_KEPT = ("prompt", "wording", "provenance", "chat", "options")
Verdicts = Callable[[Sequence[int]], dict[int, list[dict[str, Any]]]]
"""Returns, for places of rows, what the judges wrote about each."""
_AT_ONCE = 200


@dataclass(frozen=True)
class TaskResult:
    """What a results file says of a task that was judged.

    Attributes:
        task: The task and its rows.
        outcomes: What came of it by filter.
        values: What is logged for each row, in the order of the file.
    """

    task: TaskAnswers
    outcomes: Mapping[str, JudgedTask]
    values: list[dict[str, float]]

    @classmethod
    def of(cls, task: TaskAnswers, outcomes: Mapping[str, JudgedTask]) -> TaskResult:
        """Put the values of all filters in the order of the rows."""
        by_filter = {name: iter(outcome.values()) for name, outcome in outcomes.items()}
        return cls(task, outcomes, [next(by_filter[row.filter]) for row in task.rows])

    @property
    def size(self) -> int:
        """Number of documents."""
        return max(outcome.n for outcome in self.outcomes.values())

    def columns(self, name: str) -> dict[str, list[float]]:
        """Return the values after one filter, one per document."""
        own = [values for row, values in zip(self.task.rows, self.values, strict=True) if row.filter == name]
        return {key: [values[key] for values in own] for key in own[0]}

    @property
    def summary(self) -> dict[str, Any]:
        """Its part of `results`."""
        return summary_of(self.task.saved.task, self.size, {name: self.columns(name) for name in self.outcomes})

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of each value."""
        return directions(list(self.values[0]))

    @property
    def counts(self) -> dict[str, Any]:
        """Its part of `n-samples`."""
        return counts_of(self.task.saved.run, self.task.saved.task, self.size)

    @property
    def config(self) -> dict[str, Any]:
        """Its part of `configs`: that of the run with the metrics that it has now."""
        saved = self.task.saved
        metadata = task_metadata(saved.run.content, saved.task)
        of_run = metadata.get(SECTION)
        better = self.higher_is_better
        own = together([outcome.section() for outcome in self.outcomes.values()])
        kept = {key: value for key, value in of_run.items() if key in _KEPT} if isinstance(of_run, dict) else {}
        return {
            "task": saved.task,
            "output_type": TEXT_OUTPUT,
            **task_config(saved.run.content, saved.task),
            "metric_list": [
                {"metric": key, "aggregation": "scored_mean", "higher_is_better": better[key]} for key in better
            ],
            "metadata": {**metadata, "metrics": "prometheus", SECTION: {**kept, **own}},
        }

    def rows(self, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
        """Yield the rows of the sample file with the judges' values and texts.

        Args:
            verdicts: Asked for a few rows at a time, so that only their texts are in memory.

        Raises:
            ResultsError: If the file has changed since it was read.
        """
        count, path = 0, self.task.saved.path
        texts: dict[int, list[dict[str, Any]]] = {}
        for place, (row, text, own) in enumerate(zip(SampleFile(path), self.task.rows, self.values, strict=False)):
            if row.get("doc_id") != text.doc_id:
                break
            if place % _AT_ONCE == 0:
                texts = verdicts(range(place, min(place + _AT_ONCE, len(self.values))))
            yield {**completed(row, text.filter), "metrics": list(own), **own, "judge": texts.get(place, [])}
            count += 1
        if count != len(self.values):
            raise ResultsError(f"{path}: the file has changed while it was judged; give the same command again")
