"""What a sample file says that is needed to score it again: predictions, references, filters, categories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.references import references
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.samples_file import (
    FIXED_KEYS,
    HIDDEN_ROW,
    SampleFile,
    document_hash,
    is_text,
    prediction,
)

NO_FILTER = "none"
_TOLERANCE = 1e-6


class NoText(Exception):
    """The rows of a sample file hold nothing that a text metric could score; the message says why."""


@dataclass
class TextRow:
    """One row of a sample file: a document after one filter.

    Attributes:
        prediction: The text that is scored, or None.
        references: What it is compared with, or None.
        filter: The filter's name; None until it is known.
        document: What tells the row's document from others of the file.
        doc_id: The number that the harness gave the document.
        columns: The columns of the document that categories are made of, as far as it has them.
        values: The values of the metrics that the row holds.
    """

    prediction: str | None
    references: str | list[str] | None
    filter: str | None
    document: tuple[Any, str]
    doc_id: Any
    columns: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)


@dataclass
class TextRows:
    """The rows of one sample file, in its order.

    Attributes:
        path: The file.
        rows: Its rows, each with a filter.
        cut: What was skipped, or None.
    """

    path: Path
    rows: list[TextRow]
    cut: str | None = None

    @property
    def filters(self) -> list[str]:
        """The names of the filters, in order of their first rows."""
        return list(dict.fromkeys(str(row.filter) for row in self.rows))

    def of(self, name: str) -> list[TextRow]:
        """Return the rows of one filter."""
        return [row for row in self.rows if row.filter == name]


def read_texts(
    path: Path,
    output_type: str | None = None,
    target: str | None = None,
    columns: Sequence[str] = (),
    recorded: Mapping[str, Mapping[str, Any]] | None = None,
) -> TextRows:
    """Read a sample file.

    Args:
        path: The file.
        output_type: The task's, if known.
        target: The task's `doc_to_target`, if known.
        columns: Columns of the documents to keep.
        recorded: The values of the task's metrics by filter, as its results file has them; they tell the filters of
            rows that do not say theirs.

    Raises:
        NoText: If there is no text to score: another kind of task, texts that are not logged, no targets.
        ResultsError: If the file cannot be read, or its rows cannot be told apart.
    """
    file = SampleFile(path)
    rows: list[TextRow] = []
    for row in file:
        doc = row.get("doc")
        if not rows and not is_text(row, output_type):
            raise NoText("its answers are log-likelihoods of choices, not texts")
        if isinstance(doc, dict) and HIDDEN_ROW in doc:
            raise NoText(
                "the texts of this credentialed data set are not in the log (keep_text=yes in the run keeps them)"
            )
        rows.append(_text_row(row, target, columns))
    if not any(row.references is not None for row in rows):
        raise NoText("its rows have no target to compare answers with; log samples with the harness 0.4.3 or newer")
    _name_filters(path, rows, recorded or {})
    return TextRows(path, rows, file.cut)


def _text_row(row: Mapping[str, Any], target: str | None, columns: Sequence[str]) -> TextRow:
    doc = row.get("doc")
    name = row.get("filter")
    return TextRow(
        prediction=prediction(row),
        references=references(row, target),
        filter=name if isinstance(name, str) else None,
        document=(str(row.get("doc_id")), document_hash(row)),
        doc_id=row.get("doc_id"),
        columns={column: doc[column] for column in columns if isinstance(doc, dict) and column in doc},
        values={
            key: float(value) for key, value in row.items() if key not in FIXED_KEYS and isinstance(value, int | float)
        },
    )


def _name_filters(path: Path, rows: Sequence[TextRow], recorded: Mapping[str, Mapping[str, Any]]) -> None:
    """Give every row its filter, and refuse files in which a document comes twice with one filter."""
    if all(row.filter is None for row in rows):
        for found, block in zip(*_blocks(path, rows, recorded), strict=True):
            for row in block:
                row.filter = found
    for row in rows:
        row.filter = NO_FILTER if row.filter is None else row.filter
    repeated = [key for key, count in Counter((row.filter, row.document) for row in rows).items() if count > 1]
    if repeated:
        name, (doc_id, _) = repeated[0]
        raise ResultsError(
            f"{path}: document {doc_id} is there more than once with the filter '{name}', so the file holds more than "
            f"one run ({len(repeated)} documents repeat); the file is left out. Keep the rows of one run"
        )


def _blocks(
    path: Path, rows: Sequence[TextRow], recorded: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[list[TextRow]]]:
    """Return the filters of rows that do not name theirs: each filter wrote all documents, one filter after the other.

    Raises:
        ResultsError: If it cannot be made sure which filter is which.
    """
    blocks: list[list[TextRow]] = [[]]
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
            f"{path}: documents are there {len(blocks)} times without saying after which filter, and the values in "
            "the results file do not tell; the file is left out. Run again with the harness 0.4.7 or newer"
        )
    return names, blocks


def _agrees(block: Sequence[TextRow], recorded: Mapping[str, Any]) -> bool:
    """Say whether the means of a block are those that a filter has in the results file."""
    compared = 0
    for metric, value in recorded.items():
        values = [row.values[metric] for row in block if metric in row.values]
        if isinstance(value, int | float) and len(values) == len(block):
            compared += 1
            if not math.isclose(math.fsum(values) / len(values), value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                return False
    return compared > 0
