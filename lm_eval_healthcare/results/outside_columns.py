"""Columns from elsewhere, such as Elo ratings, joined to a matrix of scores by the models' names."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from pathlib import Path

import numpy as np

from lm_eval_healthcare.analysis.scores import Column, Scores
from lm_eval_healthcare.results.results_file import ResultsError

_LOWER = ":lower"
_SEPARATORS = ",;\t"


def join_csv(scores: Scores, path: Path) -> Scores:
    """Add columns from a table whose first column holds the models' names.

    Args:
        scores: The matrix.
        path: A file with a heading and commas, semicolons or tabs between its cells. Columns of numbers are taken,
            where empty means missing; others are named in the notes. Behind a name in the heading `:lower` says that
            lower is better.

    Raises:
        ResultsError: If the file cannot be read, has no heading or rows of another length, names a model twice, or has
            no model of the matrix, or a column that the matrix has already.
    """
    heading, rows = _read(path)
    by_model = {row[0]: row[1:] for row in rows if row[0] in scores.models}
    if not by_model:
        raise ResultsError(f"{path}: none of its models is here; models are {', '.join(scores.models)}")
    names, columns, notes = [], [], list(scores.notes)
    for place, name in enumerate(heading):
        cells = [by_model.get(model, [""] * len(heading))[place] for model in scores.models]
        try:
            columns.append([float(cell) if cell else math.nan for cell in cells])
            names.append(name)
        except ValueError:
            notes.append(f"{path.name}: column '{name}' does not hold numbers alone and is left out")
    taken = [column.name for column in scores.columns]
    twice = [name for name, n in Counter([*taken, *(name.removesuffix(_LOWER) for name in names)]).items() if n > 1]
    if twice:
        raise ResultsError(f"{path}: there are two columns '{twice[0]}'; give each a name of its own")
    if not names:
        raise ResultsError(f"{path}: no column of numbers behind the models' names")
    values = np.array(columns, dtype=np.float64).T
    unknown = np.full(values.shape, math.nan)
    outside = tuple(
        Column(name.removesuffix(_LOWER), name.removesuffix(_LOWER), "", higher_is_better=not name.endswith(_LOWER))
        for name in names
    )
    return Scores(
        scores.models,
        (*scores.columns, *outside),
        np.column_stack([scores.values, values]),
        np.column_stack([scores.stderr, unknown]),
        np.column_stack([scores.n, unknown]),
        tuple(notes),
    )


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the heading without its first cell, and the rows, blanks around cells taken off."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        first = text.lstrip().split("\n", 1)[0]
        separator = max(_SEPARATORS, key=first.count)
        stream = io.StringIO(text, newline="")
        rows = [[cell.strip() for cell in row] for row in csv.reader(stream, delimiter=separator)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultsError(f"{path}: cannot be read ({error})") from error
    rows = [row for row in rows if any(row)]
    if len(rows) < 2 or len(rows[0]) < 2 or any(_is_number(cell) for cell in rows[0][1:]):
        raise ResultsError(
            f"{path}: expected a heading, such as model,elo, and a row for each model, with commas, semicolons or tabs"
        )
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise ResultsError(f"{path}, row {number}: {len(row)} cells; the heading has {len(rows[0])}")
    repeated = [model for model, n in Counter(row[0] for row in rows[1:]).items() if n > 1]
    if repeated:
        raise ResultsError(f"{path}: model '{repeated[0]}' is there more than once; keep one row of it")
    return rows[0][1:], rows[1:]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
