"""From the tidy table to a matrix of models by columns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lm_eval_healthcare.analysis.averages import weighted_average
from lm_eval_healthcare.analysis.scores import Column, Scores
from lm_eval_healthcare.results.cell import GROUP, Cell
from lm_eval_healthcare.results.results_file import ResultsError

NO_FILTER = "none"
WEIGHTED = "mcqa_weighted/acc"
"""The column of the accuracy over all multiple-choice questions."""
_ACCURACY = "acc"


def score_matrix(cells: Iterable[Cell], filters: Mapping[str, str] | None = None, weighted: bool = False) -> Scores:
    """Bring chosen values into a matrix.

    A task whose values come after several filters enters with the one that `filters` names; without a choice, which
    could reverse what comes out, it is left out, and the notes say so. Groups, scores by category and those of single
    judges are left out, since they would stand beside what they are a part of or made of.

    Args:
        cells: Chosen values, one for each model, task, metric and filter.
        filters: The filter of tasks by name.
        weighted: Whether the accuracy over all multiple-choice questions becomes a column of its own: the mean of the
            tasks' accuracies weighted by their documents, for models that have them all.

    Returns:
        Columns `task/metric`, with `[filter]` behind it where the filter is not `none`.
    """
    leaves = [cell for cell in cells if cell.kind != GROUP and "part_of" not in cell.extra]
    chosen, notes = _filters(leaves, filters or {})
    leaves = [cell for cell in leaves if cell.filter == chosen.get(cell.task)]
    models = sorted({cell.model for cell in leaves})
    columns: dict[str, Column] = {}
    for cell in sorted(leaves, key=lambda cell: (cell.task, cell.metric)):
        name = column_name(cell.task, cell.metric, cell.filter)
        known = columns.get(name)
        better = cell.higher_is_better if known is None or known.higher_is_better is None else known.higher_is_better
        columns[name] = Column(name, cell.task, cell.metric, cell.filter, better)
    rows, places = {model: n for n, model in enumerate(models)}, {name: n for n, name in enumerate(columns)}
    values, stderr, counts = (np.full((len(models), len(columns)), math.nan) for _ in range(3))
    for cell in leaves:
        place = rows[cell.model], places[column_name(cell.task, cell.metric, cell.filter)]
        values[place], stderr[place] = cell.value, cell.stderr
        counts[place] = math.nan if cell.n is None else cell.n
    scores = Scores(tuple(models), tuple(columns.values()), values, stderr, counts, tuple(notes))
    return with_weighted(scores) if weighted else scores


def column_name(task: str, metric: str, filter_name: str) -> str:
    """Return the name by which a column is known."""
    return f"{task}/{metric}" + ("" if filter_name == NO_FILTER else f"[{filter_name}]")


def _filters(cells: Sequence[Cell], wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the filter of each task, and what there is to say of the choice.

    Raises:
        ResultsError: If a filter is named that a task does not have.
    """
    by_task: dict[str, dict[str, int]] = defaultdict(dict)
    for cell in cells:
        by_task[cell.task][cell.filter] = by_task[cell.task].get(cell.filter, 0) + 1
    chosen, notes = {}, []
    for task, found in by_task.items():
        name = wanted.get(task, next(iter(found)))
        if name not in found:
            raise ResultsError(f"--filter {task}={name}: the filters of {task} are {', '.join(found)}")
        if len(found) > 1 and task not in wanted:
            names = "; ".join(f"--filter '{task}={one}'" for one in found)
            notes.append(f"{task} is left out, since it has values after several filters; choose one: {names}")
        else:
            chosen[task] = name
    return chosen, notes


def with_weighted(scores: Scores) -> Scores:
    """Put the accuracy over all multiple-choice questions in front, if there are any."""
    tasks = [place for place, column in enumerate(scores.columns) if column.metric == _ACCURACY]
    if not tasks:
        return scores
    mean, error, total = weighted_average(
        scores.values[:, tasks], np.where(scores.n[:, tasks] > 0, scores.n[:, tasks], np.nan), scores.stderr[:, tasks]
    )
    without = [model for model, there in zip(scores.models, np.isfinite(mean).tolist(), strict=True) if not there]
    notes = list(scores.notes)
    if without:
        names = ", ".join(scores.columns[place].task for place in tasks)
        notes.append(
            f"no weighted accuracy for {', '.join(without)}: a task, or its number of documents, is missing of {names}"
        )
    column = Column(WEIGHTED, WEIGHTED.partition("/")[0], _ACCURACY)

    def front(new: np.ndarray, old: np.ndarray) -> np.ndarray:
        return np.column_stack([new, old])

    return Scores(
        scores.models,
        (column, *scores.columns),
        front(mean, scores.values),
        front(error, scores.stderr),
        front(total, scores.n),
        tuple(notes),
    )
