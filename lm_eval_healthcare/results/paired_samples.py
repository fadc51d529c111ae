"""The scores of two runs on the same documents, from their sample files, which are read row by row.

What joins documents is the hash of their content, or a column of their own such as `unique_id`, never the number that
the harness gave them: with an unsorted `--samples` list it numbers them wrongly.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.results_file import ResultsError, values_by_filter
from lm_eval_healthcare.results.samples_file import FIXED_KEYS, HIDDEN_ROW, SampleFile, document_hash
from lm_eval_healthcare.results.task_runs import TaskRun
from lm_eval_healthcare.results.texts import UNTOLD, name_filters

BY_HASH = "doc_hash"
ID_COLUMNS = ("unique_id", "id", "_id", "pubid", "PMID", "pmid", "qid", "question_id", "uid", "idx")
"""Columns by which data sets name their documents, the likeliest first."""
_CHECKS = frozenset(
    {"bypass", "empty_prediction", "very_short_prediction", "cut_reasoning", "wrong_language", "unparsed",
     "context_cut", "no_tokens", "extreme_perplexity"}
)  # fmt: skip
_CHECK_ENDINGS = ("_coverage", "_truncated", "_conflicting", "_variance")

Rows = Iterable[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Document:
    """One document as a run logged it.

    Attributes:
        doc_id: The number that the harness gave it.
        hash: Of its content; empty if the row holds neither the hash nor the document.
        columns: What it has of the columns that were asked for, and of `ID_COLUMNS`, as texts.
        hidden: Whether a placeholder stands for it.
    """

    doc_id: str
    hash: str
    columns: Mapping[str, str]
    hidden: bool = False


@dataclass
class SampleScores:
    """Everything in a sample file that statistics need; no texts of questions or answers.

    Attributes:
        of: The run and the task.
        documents: The documents, in the order of the file.
        scores: The values of each metric under each filter, float64 with one per document, NaN where there is none.
        names: Names of the columns that the documents have.
        notes: What to know of the file.
    """

    of: TaskRun
    documents: list[Document]
    scores: dict[str, dict[str, NDArray[np.float64]]]
    names: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)

    @property
    def hidden(self) -> bool:
        """Whether the documents were not logged."""
        return any(document.hidden for document in self.documents)

    def require(self, column: str, flag: str) -> None:
        """Refuse a column that no document has.

        Raises:
            ResultsError: Naming the columns that there are.
        """
        if any(column in document.columns for document in self.documents):
            return
        why = self.of.hidden_note if self.hidden else f"the columns are {', '.join(map(printable, sorted(self.names)))}"
        raise ResultsError(f"{flag} {printable(column)}: no document of {printable(self.of.task)} has it; {why}")


@dataclass
class Pairs:
    """Which documents of two runs are the same.

    Attributes:
        a: Places of the common documents in A.
        b: Their places in B.
        by: What they were joined by: `doc_hash` or a column.
        only_a: Documents that only A has.
        only_b: Documents that only B has.
        notes: What to know.
    """

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    by: str
    only_a: int
    only_b: int
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """What is kept of a row: its filter, its document and its numbers."""

    filter: str
    document: tuple[str, str]
    names: tuple[str, ...]
    numbers: array

    @property
    def values(self) -> Mapping[str, float]:
        return dict(zip(self.names, self.numbers, strict=True))


def read_scores(
    of: TaskRun, columns: Sequence[str] = (), progress: Callable[[Rows], Rows] | None = None
) -> SampleScores:
    """Read the scores in a sample file.

    Args:
        of: The run and the task.
        columns: Columns of the documents to keep.
        progress: Wraps the rows, to show how far the reading is.

    Raises:
        ResultsError: If the file cannot be read, or its rows cannot be told apart.
    """
    file, wanted = SampleFile(of.file), tuple(dict.fromkeys([*columns, *ID_COLUMNS]))
    rows: list[_Row] = []
    documents: dict[tuple[str, str], Document] = {}
    schemas: dict[tuple[str, ...], tuple[str, ...]] = {}
    lists: set[str] = set()
    names: frozenset[str] = frozenset()
    for row in progress(file) if progress else file:
        doc = row.get("doc")
        columns_here = frozenset(map(str, doc)) if isinstance(doc, dict) else frozenset()
        names = names if columns_here <= names else names | columns_here
        key = _document_key(row)
        if key not in documents:
            documents[key] = _document(key, doc, wanted)
        numbers = {name: value for name, value in row.items() if name not in FIXED_KEYS and _is_score(value)}
        lists |= {name for name in row.get("metrics") or () if isinstance(row.get(name), list)}
        schema = tuple(numbers)
        told = row.get("filter")
        rows.append(
            _Row(
                told if isinstance(told, str) else UNTOLD, (documents[key].doc_id, documents[key].hash),
                schemas.setdefault(schema, schema),
                array("d", (math.nan if value is None else value for value in numbers.values())),
            )
        )  # fmt: skip
    name_filters(of.file, rows, values_by_filter(of.run.content, of.task))
    notes = [file.cut] if file.cut else []
    notes += [f"{of.task}: {printable(name)} is not one number per document and is left out" for name in sorted(lists)]
    return SampleScores(of, list(documents.values()), _columns(rows, list(documents)), names, notes)


def _is_score(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _document_key(row: Mapping[str, Any]) -> tuple[str, str]:
    told = row.get("doc_hash") or row.get("doc") is not None
    return str(row.get("doc_id")), document_hash(row) if told else ""


def _document(key: tuple[str, str], doc: Any, wanted: Sequence[str]) -> Document:
    values = {name: _text(doc[name]) for name in wanted if isinstance(doc, dict) and doc.get(name) is not None}
    return Document(*key, values, isinstance(doc, dict) and HIDDEN_ROW in doc)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _columns(rows: Sequence[_Row], documents: Sequence[tuple[str, str]]) -> dict[str, dict[str, NDArray[np.float64]]]:
    places = {document: place for place, document in enumerate(documents)}
    found: dict[str, dict[str, NDArray[np.float64]]] = defaultdict(dict)
    for row in rows:
        columns = found[row.filter]
        for name, number in zip(row.names, row.numbers, strict=True):
            if name not in columns:
                columns[name] = np.full(len(documents), math.nan)
            columns[name][places[row.document]] = number
    # A key that holds nothing but null, such as `bypass`, is no score of any document.
    return {
        name: {metric: values for metric, values in columns.items() if metric != "bypass"}
        for name, columns in found.items()
    }


def is_check(metric: str) -> bool:
    """Say whether a value tells how well something was scored rather than how well a model answered."""
    return metric in _CHECKS or metric.endswith(_CHECK_ENDINGS)


def pair(a: SampleScores, b: SampleScores, by: str | None = None) -> Pairs:
    """Find the documents that two runs have in common.

    Args:
        a: One run.
        b: The other.
        by: The column that joins them; None for the hash of the documents. Where the hashes of one task have nothing in
            common, as after a change of the data set, a column of `ID_COLUMNS` that names every document is taken.

    Raises:
        ResultsError: If they have no document in common.
    """
    if by is not None:
        for one in (a, b):
            one.require(by, "--pair-by")
    pairs = _joined(a, b, by or BY_HASH)
    pairs.notes += _doubtful(a, b) if by is None else []
    other = _own_id(a, b) if by is None else None
    more = _joined(a, b, other) if other else None
    if more is not None and len(more.a) > len(pairs.a):
        if len(pairs.a) or a.of.task != b.of.task:
            hint = f"{len(more.a)} documents have the same '{other}', {len(pairs.a)} the same hash of their content"
            pairs.notes.append(f"{hint}; --pair-by {other} pairs by it")
        else:
            more.notes += [*pairs.notes, f"no document has the same content in both; they are paired by '{other}'"]
            pairs = more
    if not len(pairs.a):
        raise ResultsError(
            f"{printable(a.of.file)} and {printable(b.of.file)} have no document in common by "
            f"{'the hash of their content' if by is None else by}. Compare runs on the same data; or, for data that "
            "differs in wording only, name the column that tells the documents with --pair-by"
            + "".join(f". {note}" for note in pairs.notes)
        )
    return pairs


def _joined(a: SampleScores, b: SampleScores, by: str) -> Pairs:
    keys_a, keys_b = (_keys(one, by) for one in (a, b))
    common = [key for key in keys_a if key in keys_b]
    pairs = Pairs(
        np.array([keys_a[key] for key in common], dtype=np.int64),
        np.array([keys_b[key] for key in common], dtype=np.int64),
        by, len(a.documents) - len(common), len(b.documents) - len(common),
    )  # fmt: skip
    for name, one, keys in (("A", a, keys_a), ("B", b, keys_b)):
        if lost := len(one.documents) - len(keys):
            what = "hash" if by == BY_HASH else f"value of '{by}', or one that several documents have"
            pairs.notes.append(f"{lost} documents of {name} have no {what}, and are not compared")
    return pairs


def _keys(scores: SampleScores, by: str) -> dict[tuple[str, int], int]:
    """Return the places of documents by what tells them; equal documents are counted up in order of their numbers."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, document in enumerate(scores.documents):
        value = document.hash if by == BY_HASH else document.columns.get(by, "")
        if value:
            found[value].append(place)
    if by != BY_HASH:
        return {(value, 0): places[0] for value, places in found.items() if len(places) == 1}
    for places in found.values():
        places.sort(key=lambda place: (len(scores.documents[place].doc_id), scores.documents[place].doc_id))
    return {(value, nth): place for value, places in found.items() for nth, place in enumerate(places)}


def _own_id(a: SampleScores, b: SampleScores) -> str | None:
    """Return the column that names every document of both runs, None if there is none."""

    def names_all(scores: SampleScores, column: str) -> bool:
        values = Counter(document.columns.get(column) for document in scores.documents)
        return None not in values and len(values) == len(scores.documents)

    return next((column for column in ID_COLUMNS if names_all(a, column) and names_all(b, column)), None)


def _doubtful(a: SampleScores, b: SampleScores) -> list[str]:
    """Say what numbers of documents mean different documents, and where documents are not logged."""
    notes = []
    by_number: list[dict[str, set[str]]] = [defaultdict(set), defaultdict(set)]
    for numbers, scores in zip(by_number, (a, b), strict=True):
        for document in scores.documents:
            numbers[document.doc_id].add(document.hash)
    clashing = [number for number, hashes in by_number[0].items() if number in by_number[1]
                and hashes.isdisjoint(by_number[1][number])]  # fmt: skip
    if clashing and a.of.task == b.of.task:
        shown = ", ".join(map(printable, clashing[:5])) + (", ..." if len(clashing) > 5 else "")
        notes.append(
            f"{len(clashing)} doc_id stand for different documents in A and B ({shown}); documents are told by their "
            "content, so the right ones are compared"
        )
    if a.hidden and b.hidden:
        notes.append(f"{a.of.hidden_note}; they are paired by row, which supposes that both runs read the same data")
    return notes
