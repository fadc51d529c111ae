"""The results file and the sample rows for samples that were scored again, as a run of the harness writes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.derived import counts_of, derived_content, summary_of
from lm_eval_healthcare.results.reasoning import CUT_REASONING
from lm_eval_healthcare.results.results_file import (
    METRIC_OPTIONS,
    SECTION,
    TEXT_OUTPUT,
    ResultsError,
    task_config,
    task_metadata,
    values_by_filter,
)
from lm_eval_healthcare.results.samples_file import SampleFile, completed
from lm_eval_healthcare.scoring import breakdown, documents
from lm_eval_healthcare.scoring.document_values import document_values, of_several, per_answer
from lm_eval_healthcare.scoring.saved_samples import HOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.saved_samples import SavedTask, TaskTexts

_SCORED_MEAN = "scored_mean"
_OWN_REASONS = {
    documents.EMPTY_PREDICTION,
    documents.BLANK_REFERENCE,
    documents.METRIC_ERROR,
    documents.METRIC_MISSING,
    documents.SCORED_LATER,
    documents.TRUNCATED,
    documents.NOT_FINITE,
    CUT_REASONING,
}


@dataclass(frozen=True)
class ScoredTask:
    """A task that has been scored, with what is written of it.

    Attributes:
        task: The task.
        values: What is logged for every row, in the order of the sample file; of several answers the means.
        per_answer: The scores of single answers of every row; empty where there is one.
        cells: The scores by category.
        cells_in_results: Those of them that stand among the metrics.
    """

    task: TaskTexts
    values: list[dict[str, float]]
    per_answer: list[dict[str, list[float]]]
    cells: list[breakdown.Cell]
    cells_in_results: list[breakdown.Cell]

    @classmethod
    def of(cls, task: TaskTexts) -> ScoredTask:
        """Put a task's scores in the order of its sample file."""
        places = dict.fromkeys(task.texts.filters, 0)
        know_cuts = all(CUT_REASONING in row.values for row in task.texts.rows)
        values, listed = [], []
        for row in task.texts.rows:
            cut, first = row.values[CUT_REASONING] if know_cuts else None, places[row.filter]
            places[row.filter] += len(row.answers)
            own = [document_values(task.scores[row.filter], n, cut) for n in range(first, places[row.filter])]
            values.append(of_several(own) if len(own) > 1 else own[0])
            listed.append(per_answer(own, task.saved.names) if len(own) > 1 else {})
        cells = _cells(task)
        return cls(task, values, listed, cells, _in_results(cells, task))

    @property
    def size(self) -> int:
        """Number of documents."""
        return max(len(self.task.texts.of(name)) for name in self.task.texts.filters)

    def columns(self, name: str) -> dict[str, list[float]]:
        """Return the values of all metrics after one filter, one per document; NaN outside a category."""
        places = [place for place, row in enumerate(self.task.texts.rows) if row.filter == name]
        columns = {key: [self.values[place][key] for place in places] for key in self.values[0]}
        rows = [self.task.texts.rows[place] for place in places]
        for cell in self.cells_in_results:
            scores = zip(rows, columns[cell.metric], strict=True)
            columns[cell.key] = [value if cell.holds(row.columns) else math.nan for row, value in scores]
        return columns


def sample_rows(scored: ScoredTask) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task's sample file with the new values in place of those that it had.

    Raises:
        ResultsError: If the file has changed since it was read.
    """
    texts = scored.task.texts
    count = 0
    found = zip(SampleFile(texts.path), texts.rows, scored.values, scored.per_answer, strict=False)
    for row, text, own, listed in found:
        if row.get("doc_id") != text.doc_id:
            break
        yield {**completed(row, text.filter), "metrics": list(own), **own, **listed}
        count += 1
    if count != len(scored.values):
        raise ResultsError(f"{texts.path}: the file has changed while it was scored; give the same command again")


@dataclass(frozen=True)
class TaskResult:
    """What results say of a task, without its texts and the values of its documents.

    Attributes:
        task: The task.
        documents: Number of documents by filter.
        summary: Its part of `results`.
        config: Its part of `configs`.
        higher_is_better: The direction of each metric.
        counts: Its part of `n-samples`.
        signatures: What the scores of each metric depend on, by filter.
        errors: The error of each metric that failed.
        seconds: What scoring took.
    """

    task: SavedTask
    documents: dict[str, int]
    summary: dict[str, Any]
    config: dict[str, Any]
    higher_is_better: dict[str, bool]
    counts: dict[str, Any]
    signatures: dict[str, dict[str, str]]
    errors: dict[str, str]
    seconds: float

    @classmethod
    def of(cls, scored: ScoredTask) -> TaskResult:
        """Sum a task up."""
        task = scored.task
        return cls(
            task=task.saved,
            documents={name: len(task.texts.of(name)) for name in task.texts.filters},
            summary=_summary(scored),
            config=_config(scored),
            higher_is_better=_directions(scored),
            counts=_counts(scored),
            signatures={name: dict(scores.signatures) for name, scores in task.scores.items()},
            errors={name: text for scores in task.scores.values() for name, text in scores.errors.items()},
            seconds=task.seconds,
        )

    @property
    def unscored(self) -> list[str]:
        """The metrics that have no score for any document, though they were not left out."""
        return [
            metric
            for metric in self.task.names
            if metric not in self.task.left_out
            and any(not self.summary[f"{metric}_coverage,{name}"] for name in self.documents)
        ]


def _summary(scored: ScoredTask) -> dict[str, Any]:
    """Return means, standard errors and what goes with them, by filter."""
    columns = {name: scored.columns(name) for name in scored.task.texts.filters}
    return summary_of(scored.task.saved.task, scored.size, columns)


def results_content(
    run: RunFiles, tasks: Sequence[TaskResult], hashes: Mapping[str, str], started: float
) -> dict[str, Any]:
    """Return a results file for the tasks of one run.

    Args:
        run: The run.
        tasks: Its tasks, scored.
        hashes: The `task_hashes` of their rows.
        started: When scoring began, in seconds since the epoch.
    """
    return derived_content(run, {result.task.task: result for result in tasks}, hashes, started)


def _counts(scored: ScoredTask) -> dict[str, Any]:
    return counts_of(scored.task.saved.run, scored.task.saved.task, scored.size)


def _directions(scored: ScoredTask) -> dict[str, bool]:
    cells = {cell.key: _higher_is_better(cell.metric) for cell in scored.cells_in_results}
    return {**{key: _higher_is_better(key) for key in scored.values[0]}, **cells}


def _higher_is_better(key: str) -> bool:
    if key in metrics.AVAILABLE:
        return metrics.AVAILABLE[key].higher_is_better
    return key.endswith("_coverage")


def _config(scored: ScoredTask) -> dict[str, Any]:
    """Return a task's configuration with the metrics that it was scored with now."""
    task = scored.task.saved
    metadata = task_metadata(task.run.content, task.task)
    section = metadata.get(SECTION) if isinstance(metadata.get(SECTION), dict) else {}
    known = set(metrics.option_names())
    return {
        "task": task.task,
        "output_type": TEXT_OUTPUT,
        **task_config(task.run.content, task.task),
        "metric_list": [
            {
                "metric": key,
                "aggregation": _SCORED_MEAN if key in metrics.AVAILABLE else "mean",
                "higher_is_better": _higher_is_better(key),
            }
            for key in scored.values[0]
        ],
        "metadata": {
            **{key: value for key, value in metadata.items() if key not in known},
            "metrics": "+".join(task.names),
            SECTION: _section(scored, section or {}),
        },
    }


def _section(scored: ScoredTask, of_run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the results say of the scores: signatures, reasons, errors, the table by category.

    Of several filters it is the first that is spoken of, as in a run. What is not about scores is the run's.
    """
    task = scored.task
    name = task.texts.filters[0]
    first, rows = task.scores[name], task.texts.of(name)
    cut = int(sum(row.values.get(CUT_REASONING, 0.0) for row in rows))
    recorded = of_run.get("reasons") or {}
    of_rows = {reason: n for reason, n in recorded.items() if reason.partition(":")[0] not in _OWN_REASONS}
    columns = scored.columns(name)
    values = {
        cell.key: [value for row, value in zip(rows, columns[cell.metric], strict=True) if cell.holds(row.columns)]
        for cell in scored.cells
    }
    return {
        **{key: value for key, value in of_run.items() if key not in ("breakdown", METRIC_OPTIONS)},
        "signatures": dict(first.signatures),
        **({METRIC_OPTIONS: options} if (options := _options(task.saved)) else {}),
        "reasons": {**first.reasons, **({CUT_REASONING: cut} if cut else {}), **of_rows},
        "metric_errors": dict(first.errors),
        **({"breakdown": breakdown.table(scored.cells, values)} if scored.cells else {}),
    }


def _options(task: SavedTask) -> dict[str, str]:
    """Return the options of metrics that scores depend on, as texts."""
    words = {True: "yes", False: "no"}  # as JSON may have them
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in task.options.items()
        if name in metrics.option_names() and name not in HOW and value is not None
    }


def _cells(task: TaskTexts) -> list[breakdown.Cell]:
    facts, rows = task.saved.facts, task.texts.rows
    if facts is None or facts.credentialed:
        return []
    columns = [column for column in facts.breakdown if any(column in row.columns for row in rows)]
    return breakdown.cells(task.saved.names, columns, {c: [row.columns.get(c) for row in rows] for c in columns})


def _in_results(cells: list[breakdown.Cell], task: TaskTexts) -> list[breakdown.Cell]:
    """Return the cells that are metrics of the results: those that a run of these rows has, and those that it had.

    A run over a part of the rows has the categories of all rows.
    """
    shown = {cell.key for cell in breakdown.as_metrics(cells)}
    recorded = tuple(
        name for values in values_by_filter(task.saved.run.content, task.saved.task).values() for name in values
    )
    of_run = {cell.column for cell in cells if any(name.endswith(cell.key[len(cell.metric) :]) for name in recorded)}
    return [cell for cell in cells if cell.key in shown or cell.column in of_run]
