"""Reading people's grades of answers from a file: CSV, TSV or JSON Lines, one grade a row."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.judge.errors import JudgeError

REQUIRED = ("doc_id", "grade")
OPTIONAL = ("task", "model", "rater")
_WHOLE = re.compile(r"(-?\d+)\.0+")
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-")


@dataclass(frozen=True)
class Grade:
    """One person's grade of one answer.

    Attributes:
        doc_id: The document, as text.
        grade: On the judge's scale; NaN if the row has none.
        task: The task; None if the file has no such column or the cell is empty.
        model: The model that wrote the answer; None likewise.
        rater: Who graded; empty if it is not said.
        line: The row's number in the file, from 1.
    """

    doc_id: str
    grade: float
    task: str | None = None
    model: str | None = None
    rater: str = ""
    line: int = 0


def read_grades(path: str | Path, scale: tuple[int, int] = (1, 5)) -> list[Grade]:
    """Read a file of grades.

    Args:
        path: A file whose name ends in `.csv` (comma or semicolon), `.tsv` or `.jsonl`, in UTF-8, with the columns
            `doc_id` and `grade`, and `task`, `model` and `rater` where they are needed; others are not looked at.
        scale: The lowest and the highest grade.

    Returns:
        The grades in the file's order. A row whose grade is empty is there with NaN.

    Raises:
        JudgeError: If the file cannot be read, a column is missing, a grade is no number or off the scale, a row names
            no document, or one rater has graded one answer twice.
    """
    path = Path(path)
    grades = [_grade(path, line, row, scale) for line, row in _rows(path)]
    if not grades:
        raise JudgeError(f"{path}: no grades in it; expected a row with doc_id and grade for each graded answer")
    seen: dict[tuple[object, ...], int] = {}
    for one in grades:
        key = (one.task, one.model, one.doc_id, one.rater)
        if key in seen:
            who = f"rater '{one.rater}'" if one.rater else "no rater named"
            raise JudgeError(
                f"{path}, line {one.line}: document {one.doc_id} was graded in line {seen[key]} already ({who}); "
                "expected one grade per rater, answer and task: take one out, or tell them apart in the columns rater, "
                "model and task"
            )
        seen[key] = one.line
    return grades


def document_key(value: object) -> str:
    """Return a document's id as text, so that 7, "7" and the 7.0 that spreadsheets make of it are one."""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".jsonl"):
        raise JudgeError(f"{path}: grades are read from .csv, .tsv or .jsonl files; give one of these")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _json_rows(path, file) if kind == ".jsonl" else _table_rows(path, file, kind)
    except OSError as error:
        raise JudgeError(f"{path}: cannot be read ({error.strerror}); give the path of a file of grades") from error
    except UnicodeDecodeError as error:
        raise JudgeError(f"{path}: is not in UTF-8 (byte {error.start}); save it in UTF-8") from error
    except csv.Error as error:
        raise JudgeError(f"{path}: {error}; expected one row of cells a line, cells with line breaks quoted") from error


def _table_rows(path: Path, file: Any, kind: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    first = file.readline()
    file.seek(0)
    delimiter = "\t" if kind == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    names = [name.strip().lower() for name in next(reader, [])]
    _check_columns(path, names)
    for cells in reader:
        if len(cells) > len(names):
            raise JudgeError(
                f"{path}, line {reader.line_num}: {len(cells)} cells under {len(names)} columns; quote cells that hold "
                f"{'tabs' if kind == '.tsv' else f'the separator ({delimiter})'}"
            )
        if any(cell.strip() for cell in cells):
            yield reader.line_num, dict(zip(names, cells, strict=False))


def _json_rows(path: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            raise JudgeError(f"{path}, line {line}: no valid JSON ({error}); expected one object a line") from error
        if not isinstance(row, dict):
            raise JudgeError(f"{path}, line {line}: {type(row).__name__}; expected one JSON object a line")
        _check_columns(path, list(row), f", line {line}")
        yield line, row


def _check_columns(path: Path, names: Sequence[str], where: str = "") -> None:
    missing = [name for name in REQUIRED if name not in names]
    twice = [name for name in (*REQUIRED, *OPTIONAL) if list(names).count(name) > 1]
    if missing or twice:
        said = f"no column {' and no column '.join(missing)}" if missing else f"two columns {twice[0]}"
        raise JudgeError(
            f"{path}{where}: {said} (found: {', '.join(names) or 'none'}); expected {' and '.join(REQUIRED)}, and "
            f"where needed {', '.join(OPTIONAL)}"
        )


def _grade(path: Path, line: int, row: Mapping[str, Any], scale: tuple[int, int]) -> Grade:
    doc_id = row.get("doc_id")
    if doc_id is None or isinstance(doc_id, bool | dict | list) or not document_key(doc_id):
        raise JudgeError(f"{path}, line {line}: no doc_id; give each grade's document as in the samples file")
    cells = {name: str(row[name]).strip() for name in OPTIONAL if row.get(name) is not None}
    return Grade(
        doc_id=document_key(doc_id),
        grade=_number(path, line, row.get("grade"), scale),
        task=cells.get("task") or None,
        model=cells.get("model") or None,
        rater=cells.get("rater", ""),
        line=line,
    )


def _number(path: Path, line: int, cell: object, scale: tuple[int, int]) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return math.nan
    allowed = f"expected a number from {scale[0]} to {scale[1]}, or an empty cell for no grade"
    try:
        if isinstance(cell, bool) or not isinstance(cell, str | int | float):
            raise ValueError
        value = float(cell)
    except ValueError:
        raise JudgeError(f"{path}, line {line}: grade {cell!r} is no number; {allowed}") from None
    if isinstance(cell, float) and math.isnan(cell):
        return math.nan
    if not scale[0] <= value <= scale[1]:
        raise JudgeError(f"{path}, line {line}: grade {cell} is off the scale; {allowed}")
    return value
