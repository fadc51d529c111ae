"""What a sample file says that is needed to score it again: predictions, references, filters, categories."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.references import references
from lm_eval_healthcare.results.results_file import TEXT_OUTPUT, ResultsError
from lm_eval_healthcare.results.samples_file import (
    FIXED_KEYS,
    HIDDEN_ROW,
    SampleFile,
    document_hash,
    first_of,
    is_text,
    kept_answers,
)

NO_FILTER = "none"
UNTOLD = ""
"""What stands for the filter of a row that does not say it."""
_TOLERANCE = 1e-6
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_TARGET = "its rows have no target to compare answers with; log samples with the harness 0.4.3 or newer"


class NoText(Exception):
    """The rows of a sample file hold nothing that a text metric could score; the message says why."""


@dataclass(slots=True)
class TextRow:
    """One row of a sample file: a document after one filter.

    Attributes:
        prediction: The text that is scored, or None.
        references: What it is compared with, or None.
        filter: The filter's name.
        doc_id: The number that the harness gave the document.
        columns: The columns of the document that categories are made of, as far as it has them.
        values: The values in the row that were asked for.
        others: Further answers to the same question that the filter kept.
    """

    prediction: str | None
    references: str | list[str] | None
    filter: str
    doc_id: Any
    columns: Mapping[str, Any]
    values: Mapping[str, float]
    others: Sequence[str | None] = ()

    @property
    def answers(self) -> list[str | None]:
        """All answers that the filter kept, the prediction first."""
        return [self.prediction, *self.others]


@dataclass
class TextRows:
    """The rows of one sample file, in its order.

    Attributes:
        path: The file.
        rows: Its rows, each with a filter.
        cut: What was skipped, or None.
        repeats: How many answers to a question there are of which the first is scored.
    """

    path: Path
    rows: list[TextRow]
    cut: str | None = None
    repeats: int = 1

    @property
    def filters(self) -> list[str]:
        """The names of the filters, in order of their first rows."""
        return list(dict.fromkeys(row.filter for row in self.rows))

    def of(self, name: str) -> list[TextRow]:
        """Return the rows of one filter."""
        return [row for row in self.rows if row.filter == name]


def look_into(path: Path, output_type: str | None = None, target: str | None = None) -> dict[str, Any]:
    """Return the first row of a sample file, whose rows are not read further than to the first with a target.

    Args:
        path: The file.
        output_type: The task's, if known.
        target: The task's `doc_to_target`, if known.

    Raises:
        NoText: If there is no text to score, as far as these rows tell.
        ResultsError: If they cannot be read.
    """
    first: dict[str, Any] | None = None
    for row in SampleFile(path):
        first = first or row
        _refuse_without_text(row, output_type if row is first else TEXT_OUTPUT)
        if references(row, target) is not None:
            return first
    raise NoText(_NO_TARGET)


def read_texts(
    path: Path,
    output_type: str | None = None,
    target: str | None = None,
    columns: Sequence[str] = (),
    values: Sequence[str] = (),
    recorded: Mapping[str, Mapping[str, Any]] | None = None,
    known: dict[str, str] | None = None,
) -> TextRows:
    """Read a sample file.

    Args:
        path: The file.
        output_type: The task's, if known.
        target: The task's `doc_to_target`, if known.
        columns: Columns of the documents to keep.
        values: Values of the rows to keep.
        recorded: The values of the task's metrics by filter, as its results file has them; they tell the filters of
            rows that do not say theirs.
        known: References of other files, and of this one from now on, so that equal ones are in memory once.

    Raises:
        NoText: If there is no text to score: another kind of task, texts that are not logged, no targets.
        ResultsError: If the file cannot be read, or its rows cannot be told apart.
    """
    file, known = SampleFile(path), {} if known is None else known
    rows: list[_Row] = []
    repeats = 1
    for row in file:
        _refuse_without_text(row, TEXT_OUTPUT if rows else output_type)
        rows.append(_Row.of(row, _text_row(row, target, columns, values, known)))
        repeats = max(repeats, first_of(row))
    if not any(row.text.references is not None for row in rows):
        raise NoText(_NO_TARGET)
    name_filters(path, rows, recorded or {})
    return TextRows(path, [row.text for row in rows], file.cut, repeats)


class Filtered(Protocol):
    """A row of which the filter may have to be told.

    Attributes:
        filter: Its name; `UNTOLD` if the row does not say it.
        document: What tells the row's document from others of the file.
        values: The values of all metrics, where the row does not say its filter.
    """

    filter: str

    @property
    def document(self) -> tuple[str, str]: ...  # noqa: D102
    @property
    def values(self) -> Mapping[str, float]: ...  # noqa: D102


@dataclass(slots=True)
class _Row:
    """A row with what its filter is told by.

    Attributes:
        text: What is kept.
        document: What tells the row's document from others of the file.
        values: The values of all metrics, where the row does not say its filter.
    """

    text: TextRow
    document: tuple[str, str]
    values: dict[str, float]

    @classmethod
    def of(cls, row: Mapping[str, Any], text: TextRow) -> _Row:
        values = _numbers(row) if text.filter == UNTOLD else {}
        return cls(text, (str(row.get("doc_id")), document_hash(row)), values)

    @property
    def filter(self) -> str:
        return self.text.filter

    @filter.setter
    def filter(self, name: str) -> None:
        self.text.filter = name


def _refuse_without_text(row: Mapping[str, Any], output_type: str | None) -> None:
    if not is_text(row, output_type):
        raise NoText("its answers are log-likelihoods of choices, not texts")
    doc = row.get("doc")
    if isinstance(doc, dict) and HIDDEN_ROW in doc:
        raise NoText("the texts of this credentialed data set are not in the log (keep_text=yes in the run keeps them)")


def _text_row(
    row: Mapping[str, Any], target: str | None, columns: Sequence[str], values: Sequence[str], known: dict[str, str]
) -> TextRow:
    doc, name, texts = row.get("doc"), row.get("filter"), references(row, target)
    if isinstance(texts, str):
        texts = known.setdefault(texts, texts)
    elif texts is not None:
        texts = [known.setdefault(text, text) for text in texts]
    numbers = _numbers(row) if values else {}
    first, *others = kept_answers(row)
    return TextRow(
        prediction=first,
        references=texts,
        filter=sys.intern(name) if isinstance(name, str) else UNTOLD,
        doc_id=row.get("doc_id"),
        columns={c: doc[c] for c in columns if isinstance(doc, dict) and c in doc} or _NOTHING,
        values={key: numbers[key] for key in values if key in numbers} or _NOTHING,
        others=tuple(others),
    )


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in row.items() if key not in FIXED_KEYS and isinstance(value, int | float)}


def name_filters(path: Path, rows: Sequence[Filtered], recorded: Mapping[str, Mapping[str, Any]]) -> None:
    """Give every row its filter, and refuse files in which a document comes twice with one filter.

    Args:
        path: The file.
        rows: Its rows, in its order.
        recorded: The values of the task's metrics by filter, as its results file has them.

    Raises:
        ResultsError: If the filters cannot be told, or a document is there twice.
    """
    if all(row.filter == UNTOLD for row in rows):
        for found, block in zip(*_blocks(path, rows, recorded), strict=True):
            for row in block:
                row.filter = found
    for row in rows:
        row.filter = NO_FILTER if row.filter == UNTOLD else row.filter
    counts = Counter((row.filter, row.document) for row in rows)
    repeated = [key for key, count in counts.items() if count > 1]
    if repeated:
        name, (doc_id, _) = repeated[0]
        raise ResultsError(
            f"{printable(path)}: document {doc_id} is there more than once with the filter '{name}', so the file "
            f"holds more than one run ({len(repeated)} documents repeat); it is left out. Keep the rows of one run"
        )


def _blocks(
    path: Path, rows: Sequence[Filtered], recorded: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[list[Filtered]]]:
    """Return the filters of rows that do not name theirs: each filter wrote all documents, one filter after the other.

    Raises:
        ResultsError: If it cannot be made sure which filter is which.
    """
    blocks: list[list[Filtered]] = [[]]
    seen: set[tuple[Any, str]] = set()
    for row in rows:
        if row.document in seen:
            blocks.append([])
            seen = set()
        seen.add(row.document)
        blocks[-1].append(row)
    names = list(recorded)
    if len(blocks) == 1:
        return [names[0] if len(names) == 1 else NO_FILTER], blocks
    same = all({row.document for row in block} == {row.document for row in blocks[0]} for block in blocks)
    if not same or len(names) != len(blocks) or not all(map(_agrees, blocks, recorded.values())):
        raise ResultsError(
            f"{printable(path)}: documents are there {len(blocks)} times without saying after which filter, and "
            "the values in the results file do not tell; it is left out. Run again with the harness 0.4.7 or newer"
        )
    return names, blocks


def _agrees(block: Sequence[Filtered], recorded: Mapping[str, Any]) -> bool:
    """Say whether the means of a block are those that a filter has in the results file."""
    compared = 0
    for metric, value in recorded.items():
        values = [row.values[metric] for row in block if metric in row.values]
        if isinstance(value, int | float) and len(values) == len(block):
            compared += 1
            if not math.isclose(math.fsum(values) / len(values), value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                return False
    return compared > 0
