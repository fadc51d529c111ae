"""Which columns stand against which in the paper's figures, whatever benchmarks and metrics there are."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_eval_healthcare.analysis.scores import Column, Scores

ACCURACY = "acc"
PERPLEXITIES = ("word_perplexity", "byte_perplexity", "bits_per_byte")
OPEN_METRICS = (
    "bleu", "rouge1", "rouge2", "rougeL", "bert_score", "bleurt", "mover_score", "prometheus", "f1_radgraph",
    *PERPLEXITIES,
)  # fmt: skip
FIGURES = ("1", "8", "9", "10", "11", "12", "17", "18")
_OF_ANSWERS = re.compile(r"_(?:conditional_|relaxed_)?perplexity$")
_RELAXED = re.compile(r"relaxed|cross_entropy")


@dataclass(frozen=True)
class Selection:
    """One matrix of a figure.

    Attributes:
        name: For file names.
        title: For people.
        rows: Names of its rows.
        columns: Names of its columns; the same as the rows for a square matrix.
    """

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def everything(scores: Scores) -> list[Selection]:
    """Every column against every other."""
    names = tuple(column.name for column in scores.columns)
    return [Selection("all", "All benchmarks and metrics", names, names)]


def figure(scores: Scores, number: str, weighted: str) -> list[Selection]:
    """Return the matrices of one of the paper's figures.

    Args:
        scores: The matrix.
        number: `1`: accuracy over all multiple-choice questions against every other task and metric. `8`:
            multiple-choice benchmarks against each other. `9`: the same against outside columns, such as Elo. `10`:
            metrics within a benchmark. `11`: benchmarks within a metric. `12`: the same for perplexities. `17`: Relaxed
            Perplexity against everything else.
        weighted: The name of the column of the accuracy over all multiple-choice questions.

    Returns:
        The matrices that have at least two columns; none if the results do not hold what the figure is about.
    """
    choices = [one for one in scores.columns if one.metric == ACCURACY and one.name != weighted]
    outside = [one for one in scores.columns if not one.metric]
    open_ended = [one for one in scores.columns if one.metric in OPEN_METRICS]
    relaxed = [one for one in scores.columns if _RELAXED.search(one.metric)]
    if number == "1":
        others = [one for one in scores.columns if one not in choices and one.name != weighted]
        there = any(one.name == weighted for one in scores.columns)
        return _matrix("figure_1", "Multiple-choice accuracy against the rest", (weighted,) if there else (), others)
    if number == "8":
        return _square("figure_8", "Multiple-choice benchmarks", choices)
    if number == "9":
        return _matrix("figure_9", "Multiple-choice benchmarks against outside columns", _names(outside), choices)
    if number == "10":
        return [
            found
            for name, columns in _grouped(open_ended, benchmark).items()
            for found in _square(f"figure_10_{name}", f"Metrics within {name}", columns)
        ]
    if number in ("11", "12"):
        kind = [one for one in open_ended if (one.metric in PERPLEXITIES) == (number == "12")]
        return [
            found
            for name, columns in _grouped(kind, lambda one: one.metric).items()
            for found in _square(f"figure_{number}_{name}", f"Benchmarks within {name}", columns)
        ]
    others = [one for one in scores.columns if one not in relaxed]
    return _matrix("figure_17", "Relaxed Perplexity against the rest", _names(relaxed), others)


def benchmark(column: Column) -> str:
    """Return the benchmark of a column: its task, of which the perplexities are tasks of their own."""
    return _OF_ANSWERS.sub("", column.task)


def _grouped(columns: list[Column], key: object) -> dict[str, list[Column]]:
    found: dict[str, list[Column]] = defaultdict(list)
    for column in columns:
        found[key(column)].append(column)  # type: ignore[operator]
    return dict(sorted(found.items()))


def _square(name: str, title: str, columns: list[Column]) -> list[Selection]:
    names = _names(columns)
    return [Selection(name, title, names, names)] if len(names) > 1 else []


def _matrix(name: str, title: str, rows: tuple[str, ...], columns: list[Column]) -> list[Selection]:
    return [Selection(name, title, rows, _names(columns))] if rows and columns else []


def _names(columns: list[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
