"""The answers that a report embeds: which documents, the same for all models, and of each text how much."""

from __future__ import annotations

import heapq
import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_healthcare.report.html_data import short_names
from lm_eval_healthcare.report.html_parts import natural
from lm_eval_healthcare.results.cell import Table
from lm_eval_healthcare.results.discovery import RunFiles
from lm_eval_healthcare.results.helper_metrics import is_helper
from lm_eval_healthcare.results.questions import question_reader
from lm_eval_healthcare.results.results_file import SECTION, ResultsError, task_config, task_metadata
from lm_eval_healthcare.results.samples_file import (
    FIXED_KEYS,
    HIDDEN_ROW,
    SampleFile,
    arguments,
    document_hash,
    first_of,
    is_text,
    prediction,
)

logger = logging.getLogger(__name__)

MAX_SAMPLES = 20_000
MAX_TEXT = 2_000
PRIVATE = "texts of credentialed data are never put into a report"
_MOST_CHOICES = 26
_MOST_VERDICTS = 20
_LARGE = 1 << 40
_COLUMNS = ("category", "year")

Source = tuple[RunFiles, Path]


@dataclass
class _Document:
    """One document with the answers to it, as far as they are kept."""

    doc_id: Any
    question: tuple[str, int | None]
    reference: tuple[str, int | None] | None
    about: dict[str, str]
    answers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


def collect(
    runs: Sequence[RunFiles],
    table: Table,
    private: Callable[[str, Mapping[str, Any]], bool],
    max_samples: int = MAX_SAMPLES,
    max_text: int = MAX_TEXT,
) -> dict[str, Any]:
    """Read the sample files that belong to chosen values, and keep what a report shows.

    At most `max_samples` answers are kept. Every task gets the same number of documents, except that tasks with fewer
    leave their share to the others; within a task those documents are kept whose hashes come first, which is as good
    as drawn by lot and is the same for all models, so that their answers stand side by side. Files are read one after
    the other, row by row.

    Args:
        runs: The runs that were found.
        table: The tidy table, which says the files of the chosen values.
        private: Says of a task and the content of its results file whether its data are credentialed.
        max_samples: Most answers, that is, pairs of model and document.
        max_text: Most characters of one text.

    Returns:
        What the report's script reads: `models`, `tasks`, `docs`, and `notes` for its readers.
    """
    from tqdm import tqdm

    sources, notes, hidden = _sources(runs, table, private)
    tasks = sorted({task for _, task in sources}, key=natural)
    short = short_names(model for model, _ in sources)
    models = sorted(short, key=lambda model: (natural(short[model]), model))
    level = documents_per_task({t: _size(table, t, [m for m, k in sources if k == t]) for t in tasks}, max_samples)
    shown: list[dict[str, Any]] = []
    docs: list[dict[str, Any]] = []
    total = 0
    for task in tqdm(tasks, desc="samples", unit=" task", disable=None, delay=2):
        files = {model: sources[model, task] for model in models if (model, task) in sources}
        found, seen = _task(task, files, level.get(task, 0), max_text, notes, hidden)
        every = {key for doc in found for answer in doc.answers.values() for key in answer["s"]}
        helpers = {name for name in every if is_helper(name, every)}
        names = sorted(every - helpers) + sorted(helpers)
        total += sum(len(doc.answers) for doc in found)
        docs += [_packed(doc, len(shown), models, names) for doc in found]
        shown.append({"name": task, "metrics": names, "helpers": len(helpers), "documents": seen, "shown": len(found)})
    rule = (
        f"{total} answers to {len(docs)} documents are embedded (at most {max_samples} answers; --max-samples changes "
        f"it). Each text is cut after {max_text} characters (--max-text). Where not all documents of a task fit, those "
        "with the first hashes are taken, the same for every model."
    )
    return {
        "models": models, "tasks": shown, "docs": docs, "maxText": max_text, "rule": rule,
        "notes": notes, "hidden": sorted(hidden),
    }  # fmt: skip


def documents_per_task(sizes: Mapping[str, tuple[int, int]], most: int) -> dict[str, int]:
    """Share a number of answers among tasks.

    Args:
        sizes: For each task the number of models, and of documents.
        most: Most answers in all.

    Returns:
        The number of documents of each task: the same for all, or all that it has.
    """
    low, high = 0, max((documents for _, documents in sizes.values()), default=0)
    while low < high:
        level = (low + high + 1) // 2
        if sum(models * min(documents, level) for models, documents in sizes.values()) <= most:
            low = level
        else:
            high = level - 1
    return {task: min(documents, low) for task, (_, documents) in sizes.items()}


def _size(table: Table, task: str, models: Sequence[str]) -> tuple[int, int]:
    """Return the number of models and of documents; more than there can be if no file says it."""
    told = [cell.n for cell in table.cells if cell.task == task and cell.n is not None]
    return len(models), max(told, default=_LARGE)


def _sources(
    runs: Sequence[RunFiles], table: Table, private: Callable[[str, Mapping[str, Any]], bool]
) -> tuple[dict[tuple[str, str], list[Source]], list[str], set[str]]:
    """Return the sample files of chosen values, newest first, by model and task; those of credentialed data are out."""
    by_file = {run.results.resolve(): run for run in runs if run.results is not None}
    found: dict[tuple[str, str], dict[Path, tuple[float, RunFiles]]] = defaultdict(dict)
    hidden: set[str] = set()
    without: set[tuple[str, str]] = set()
    for cell in table.cells:
        run = by_file.get(cell.file.resolve())
        path = run.samples.get(cell.task) if run is not None else None
        if run is None or path is None:
            without.add((cell.model, cell.task))
        elif private(cell.task, run.content):
            hidden.add(cell.task)
        else:
            found[cell.model, cell.task][path] = (-math.inf if math.isnan(cell.date) else cell.date), run
    notes = []
    lacking = {key for key in without if key not in found and key[1] not in hidden}
    if lacking:
        notes.append(f"{len(lacking)} pairs of model and task have results but no sample file beside them")
    ordered = {
        key: [(run, path) for path, (_, run) in sorted(files.items(), key=lambda f: (-f[1][0], str(f[0])))]
        for key, files in sorted(found.items())
    }
    return ordered, notes, hidden


def _task(
    task: str, files: Mapping[str, Sequence[Source]], most: int, max_text: int, notes: list[str], hidden: set[str]
) -> tuple[list[_Document], int]:
    """Return the documents of a task that are kept, in the order of the set, and how many there are."""
    documents: dict[str, _Document] = {}
    seen = 0
    for model, sources in files.items():
        for place, (run, path) in enumerate(sources):
            config = task_config(run.content, task)
            # The instruction is the same for every document of a task and would hide what tells them apart.
            question = question_reader({**config, "description": None})
            file = SampleFile(path)
            try:
                rows, count = _smallest(file, most)
            except _HiddenRows:
                hidden.add(task)
                continue
            except ResultsError as error:
                notes.append(str(error))
                continue
            if file.cut:
                notes.append(file.cut)
            seen = max(seen, count)
            columns = _columns(run.content, task)
            for key, row in rows:
                if key not in documents:
                    documents[key] = _document(row, question(row), columns, max_text)
                _take(documents[key], model, row, config.get("output_type"), max_text, newest=place == 0)
    kept = sorted(documents)[:most]
    return sorted((documents[key] for key in kept), key=lambda doc: _doc_order(doc.doc_id)), seen


class _HiddenRows(Exception):
    """The rows say that their texts must not be logged."""


def _smallest(file: SampleFile, most: int) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the rows of the documents with the first hashes, and the number of documents."""
    heap: list[_Last] = []
    rows: dict[str, list[dict[str, Any]]] = {}
    seen: set[int] = set()
    for row in file:
        doc = row.get("doc")
        if isinstance(doc, dict) and HIDDEN_ROW in doc:
            raise _HiddenRows
        key = document_hash(row)
        seen.add(hash(key))
        if key in rows:
            rows[key].append(row)
        elif len(heap) < most:
            heapq.heappush(heap, _Last(key))
            rows[key] = [row]
        elif heap and key < heap[0].key:
            del rows[heapq.heapreplace(heap, _Last(key)).key]
            rows[key] = [row]
    return [(key, row) for key in sorted(rows) for row in rows[key]], len(seen)


@dataclass(frozen=True)
class _Last:
    """A hash in a heap whose first entry is the last one of the alphabet."""

    key: str

    def __lt__(self, other: _Last) -> bool:
        return self.key > other.key


def _doc_order(doc_id: Any) -> tuple[bool, float, str]:
    number = isinstance(doc_id, int | float)
    return not number, float(doc_id) if number else 0.0, str(doc_id)


def _columns(content: Mapping[str, Any], task: str) -> tuple[str, ...]:
    section = task_metadata(content, task).get(SECTION)
    given = section.get("breakdown") if isinstance(section, dict) else None
    return tuple(given) if isinstance(given, dict) and given else _COLUMNS


def _document(row: Mapping[str, Any], question: str, columns: Iterable[str], max_text: int) -> _Document:
    doc = row.get("doc") if isinstance(row.get("doc"), dict) else {}
    target = row.get("target")
    reference = None if target is None else target if isinstance(target, str) else _dumped(target)
    choices = _choices(row)
    if reference is not None and reference.isdecimal() and len(reference) < 4 and int(reference) < len(choices):
        reference = choices[int(reference)][0]
    about = {c: str(doc[c])[:100] for c in columns if isinstance(doc, dict) and doc.get(c) is not None}
    kept = None if reference is None else _cut(reference, max_text)
    return _Document(row.get("doc_id"), _cut(question, max_text), kept, about)


def _take(doc: _Document, model: str, row: Mapping[str, Any], output: Any, max_text: int, newest: bool) -> None:
    """Add a row to a document: a new answer, or further scores of one that is there."""
    name = row.get("filter") if isinstance(row.get("filter"), str) else "none"
    answer = _answer(row, output if isinstance(output, str) else None, max_text)
    there = doc.answers.get((model, str(name)))
    if there is None:
        if newest or not any(key[0] == model for key in doc.answers):
            doc.answers[model, str(name)] = answer
    elif there["x"] == answer["x"] and there.get("l") == answer.get("l"):  # scored or judged again: one answer
        there["s"] = {**answer["s"], **there["s"]}
        if "j" in answer and "j" not in there:
            there["j"] = answer["j"]


def _answer(row: Mapping[str, Any], output: str | None, max_text: int) -> dict[str, Any]:
    """Return text `x` with full length `l` if cut, scores `s`, verdicts `j`, choices `c`, number of answers `k`."""
    out: dict[str, Any] = {"s": dict(_scores(row))}
    if is_text(row, output):
        text = prediction(row)
        if text is None:
            given = row.get("filtered_resps", row.get("resps"))
            text = None if given in (None, [], [None], ["None"]) else _dumped(given)
        if first_of(row) > 1:
            out["k"] = first_of(row)
    else:
        choices = _choices(row)
        known = [(likelihood, place) for place, (_, likelihood) in enumerate(choices) if likelihood is not None]
        text = (
            choices[max(known, key=lambda pair: (pair[0], -pair[1]))[1]][0]
            if known
            else _dumped(row.get("filtered_resps"))
        )
        if len(choices) > 1:
            out["c"] = [[_cut(choice[0], 200)[0], choice[1]] for choice in choices[:_MOST_CHOICES]]
    cut, length = _cut(text, max_text) if text is not None else (None, None)
    out["x"] = cut
    if length is not None:
        out["l"] = length
    verdicts = list(_verdicts(row.get("judge"), max_text))
    if verdicts:
        out["j"] = verdicts
    return out


def _choices(row: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Return the options of a multiple-choice row with their log-likelihoods."""
    requests, given = arguments(row), row.get("filtered_resps")
    if not requests or not isinstance(given, list) or len(given) != len(requests) or len(requests) < 2:
        return []
    out = []
    for request, reply in zip(requests, given, strict=True):
        text = request[1] if len(request) > 1 and isinstance(request[1], str) else ""
        while isinstance(reply, list) and reply and isinstance(reply[0], list):
            reply = reply[0]
        out.append((text.strip(), _number(reply[0] if isinstance(reply, list) and reply else None)))
    return out


def _scores(row: Mapping[str, Any]) -> Iterator[tuple[str, float | str | None]]:
    for key, value in row.items():
        if key not in FIXED_KEYS and isinstance(value, int | float):
            number = float(value)
            yield key, None if math.isnan(number) else str(number) if math.isinf(number) else float(f"{number:.6g}")


def _verdicts(given: Any, max_text: int) -> Iterator[dict[str, Any]]:
    for verdict in given[:_MOST_VERDICTS] if isinstance(given, list) else ():
        if isinstance(verdict, dict):
            text = verdict.get("text")
            cut, length = _cut(text, max_text) if isinstance(text, str) else (None, None)
            score = _number(verdict.get("score"))
            out = {"j": str(verdict.get("judge", "judge")), "s": score, "r": verdict.get("reason"), "x": cut}
            if length is not None:
                out["l"] = length
            yield out


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return float(f"{number:.6g}") if math.isfinite(number) else None


def _packed(doc: _Document, task: int, models: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    answers = []
    for (model, name), answer in sorted(doc.answers.items(), key=lambda item: (models.index(item[0][0]), item[0][1])):
        scores = [answer["s"].get(key) for key in names]
        answers.append({**answer, "m": models.index(model), "f": name, "s": scores})
    return {"t": task, "i": doc.doc_id, "q": doc.question, "r": doc.reference, "g": doc.about, "a": answers}


def _cut(text: str, most: int) -> tuple[str, int | None]:
    """Return the beginning of a text, and its full length if it was cut."""
    return (text, None) if len(text) <= most else (text[:most], len(text))


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
