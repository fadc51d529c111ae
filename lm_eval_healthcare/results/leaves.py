r"""Averages over tasks, taken from distinct leaves: no task counts twice, whatever groups it belongs to.

With tasks i of n_i documents and values a_i, $\bar a = \sum_i n_i a_i / \sum_i n_i$, the share of right answers over
all questions together. The tasks' errors are independent, so $s = \sqrt{\sum_i n_i^2 s_i^2} / \sum_i n_i$.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lm_eval_healthcare.results.cell import GROUP, LEAF, Cell

ACCURACY = "acc"
_OUTPUT_TYPES = (None, "multiple_choice")
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Average:
    """A model's average over tasks.

    Attributes:
        model: The model.
        metric: The metric.
        value: Weighted by documents, in the metric's unit.
        stderr: Its standard error; NaN if that of one task is not known.
        n: Documents of all tasks together.
        tasks: The tasks, in order.
    """

    model: str
    metric: str
    value: float
    stderr: float
    n: int
    tasks: tuple[str, ...]


def leaf_averages(
    cells: Iterable[Cell], *, metric: str = ACCURACY, tasks: Collection[str] | None = None, common: bool = False
) -> dict[str, Average]:
    """Return each model's average over its multiple-choice tasks, weighted by documents (`n-samples.effective`).

    Values of groups, of single categories, without a number of documents, and of other filters than `none` do not
    count.

    Args:
        cells: One value of each key, as a table holds them.
        metric: What is averaged.
        tasks: The tasks that count; None for all.
        common: Whether only tasks count that all models have, without which averages of models that ran different
            tasks are not comparable.

    Returns:
        Averages by model; a model without any such value has none.
    """
    by_model: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in cells:
        wanted = cell.kind == LEAF and (cell.metric, cell.filter) == (metric, "none") and bool(cell.n)
        wanted = wanted and cell.extra.get("output_type") in _OUTPUT_TYPES and math.isfinite(cell.value)
        if wanted and (tasks is None or cell.task in tasks):
            by_model[cell.model][cell.task] = cell
    if common and by_model:
        shared = set.intersection(*(set(found) for found in by_model.values()))
        by_model = defaultdict(dict, {m: {t: c for t, c in f.items() if t in shared} for m, f in by_model.items()})
    return {model: average(model, metric, list(found.values())) for model, found in by_model.items() if found}


def average(model: str, metric: str, cells: Sequence[Cell]) -> Average:
    """Return the average over cells of distinct tasks, each with a positive number of documents.

    Raises:
        ValueError: If there is none, or a task is there twice.
    """
    names = sorted({cell.task for cell in cells})
    if not cells or len(names) < len(cells):
        raise ValueError("an average needs cells of distinct tasks, at least one")
    sizes = [cell.n or 0 for cell in cells]
    n = sum(sizes)
    value = math.fsum(size * cell.value for size, cell in zip(sizes, cells, strict=True)) / n
    variance = math.fsum((size * cell.stderr) ** 2 for size, cell in zip(sizes, cells, strict=True))
    return Average(model, metric, value, math.sqrt(variance) / n, n, tuple(names))


def leaves_of(group: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the distinct tasks below a group, in order of first mention; a group within itself ends there.

    Args:
        group: The group.
        groups: The direct children of each group.
    """
    found: dict[str, None] = {}
    seen: set[str] = set()

    def walk(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        children = groups.get(name)
        if not children:
            found.setdefault(name)
        for child in children or ():
            walk(child)

    walk(group)
    return [] if list(found) == [group] else list(found)


def group_notes(cells: Sequence[Cell], groups: Mapping[str, Sequence[str]], counted: Mapping[str, int]) -> list[str]:
    """Return notes on groups of one file whose average is not that of their distinct tasks.

    Args:
        cells: All values of the file, groups and tasks.
        groups: The direct children of each group.
        counted: The number of documents that the file says each group has.
    """
    leaves = {(cell.task, cell.metric, cell.filter): cell for cell in cells if cell.kind == LEAF and cell.n}
    notes = []
    for cell in cells:
        names = leaves_of(cell.task, groups) if cell.kind == GROUP else []
        found = [leaves.get((name, cell.metric, cell.filter)) for name in names]
        below = [one for one in found if one is not None and math.isfinite(one.value)]
        if not below or len(below) < len(found) or not math.isfinite(cell.value):
            continue
        own = average(cell.model, cell.metric, below)
        twice = counted.get(cell.task, own.n) > own.n
        plain = math.fsum(one.value for one in below) / len(below)
        if not twice and min(abs(cell.value - own.value), abs(cell.value - plain)) <= _TOLERANCE:
            continue
        if abs(cell.value - own.value) > _TOLERANCE or twice:
            size = f" over {counted[cell.task]} documents" if cell.task in counted else ""
            notes.append(
                f"{cell.model}: group {cell.task}: the file says {cell.metric} {cell.value:.6g}{size}; its "
                f"{len(below)} distinct tasks give {own.value:.6g} over {own.n}"
                + (": the file counts a task more than once" if twice else "")
            )
    return notes
