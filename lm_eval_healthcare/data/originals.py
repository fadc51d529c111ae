"""Converting a benchmark's original files into rows of the pack's shape.

Formats that belong to one benchmark (XML, PubTator, plain text) are read by the functions that its YAML names under
`readers:`; tables (CSV, TSV, JSON Lines, JSON, Parquet, spreadsheets) by this module. Every row goes through the task's
`shape` function and is checked against its columns. A row that cannot be used is told with file and line.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import EXTENSIONS, DataError, read_rows, read_utf8, refuse_repeated_columns, sha256
from lm_eval_healthcare.data.folder import readable_splits
from lm_eval_healthcare.data.functions import named
from lm_eval_healthcare.data.manifest import Entry, writing
from lm_eval_healthcare.data.row_files import json_ready
from lm_eval_healthcare.data.schema import check_row, without_lone_surrogates
from lm_eval_healthcare.data.spreadsheet import read_spreadsheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts

TABLES = ("csv", "tsv", "jsonl", "xlsx")
MAX_REPORTED = 20


@dataclass
class Converted:
    """The rows of original files.

    Attributes:
        rows: The rows that can be used, in the declared columns, in file order.
        read: Number of original rows.
        faulty: Number of original rows that cannot be used.
        faults: What is wrong with them, each with file and line.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    read: int = 0
    faulty: int = 0
    faults: list[str] = field(default_factory=list)


def kinds(facts: TaskFacts) -> tuple[str, ...]:
    """Return the extensions of files that can be converted for a task."""
    return tuple(dict.fromkeys((*facts.readers, *TABLES, *EXTENSIONS)))


def convert(facts: TaskFacts, files: Sequence[Path], sheet: str | None = None) -> Converted:
    """Read, shape and check the rows of original files.

    Args:
        facts: What the task's YAML says about its data.
        files: The files, in the order in which their rows are wanted.
        sheet: The sheet of spreadsheets; the first if None.

    Raises:
        DataError: If a file cannot be read at all.
    """
    out = Converted()
    raw: list[dict[str, Any]] = []
    for path in files:
        for place, row in _read(facts, path, sheet):
            out.read += 1
            made = _shaped(facts, row) if isinstance(row, dict) else row
            if isinstance(made, str):
                out.faulty += 1
                out.faults.append(f"{place}: {made}")
            else:
                out.rows += made
                raw.append(row)
    if facts.shape and any(_shaped(facts, row) != [row] for row in out.rows):
        out.rows = [json_ready(row) for row in raw]  # rows that are shaped again when they are read
    return out


def prepare(
    facts: TaskFacts,
    files: Sequence[Path],
    folder: Path,
    split: str | None = None,
    skip_faulty: bool = False,
    sheet: str | None = None,
) -> tuple[Entry, Converted]:
    """Convert original files and write `<name>/<split>.jsonl` into a data folder.

    Args:
        facts: What the task's YAML says about its data.
        files: The original files.
        folder: The data folder; made if needed.
        split: The raw split; the one that a flat file would be if None.
        skip_faulty: Write the rows that can be used even if there are others.
        sheet: The sheet of spreadsheets; the first if None.

    Returns:
        The manifest's entry, and what was read.

    Raises:
        DataError: If a file cannot be read, rows cannot be used and are not to be skipped, no row can be used, or the
            folder cannot be written; nothing is written then.
    """
    split = split or facts.flat_split
    if split not in readable_splits(facts):
        raise DataError(
            f"--split {split}: {facts.name} reads the splits {', '.join(readable_splits(facts))}; name one of them. "
            "Nothing was written"
        )
    found = convert(facts, files, sheet)
    if found.faulty and not skip_faulty:
        raise DataError(
            f"{facts.name}: {found.faulty} of {found.read} rows cannot be used; nothing was written.\n  "
            + listed(found.faults)
            + "\nMend them, or leave them out with --skip-faulty"
        )
    if not found.rows:
        names = ", ".join(path.name for path in files)
        raise DataError(
            f"{facts.name}: {names}: no row that can be used; nothing was written. A row needs the columns "
            f"{', '.join(facts.columns)}" + ("\n  " + listed(found.faults) if found.faults else "")
        )
    path = f"{facts.folder_name}/{split}.jsonl"
    with writing(folder) as writer:
        _refuse_others(facts, folder, path, split)
        entry = writer.write(
            path, found.rows, tasks=(facts.name,), split=split, licence=facts.licence, skipped=found.faulty,
            origin={"files": [_described(file) for file in files]},
        )  # fmt: skip
    return entry, found


def listed(faults: Sequence[str]) -> str:
    """Return the first faults as lines, and how many more there are."""
    more = f"\n  ... and {len(faults) - MAX_REPORTED} more" if len(faults) > MAX_REPORTED else ""
    return "\n  ".join(faults[:MAX_REPORTED]) + more


def _shaped(facts: TaskFacts, row: dict[str, Any]) -> list[dict[str, Any]] | str:
    """The rows that one original row gives, or what is wrong with it."""
    clean = without_lone_surrogates(row)
    try:
        parts = named(facts.shape)(clean) if facts.shape else [clean]
    except ValueError as error:
        return str(error)
    checked = [check_row(json_ready(part), facts.columns) for part in parts]
    problems = [problem for _, found in checked for problem in found]
    return "; ".join(problems) if problems else [coerced for coerced, _ in checked]


def _read(facts: TaskFacts, path: Path, sheet: str | None) -> Iterator[tuple[str, Any]]:
    """Yield each row of a file with its place; a text in place of the row says why it cannot be read."""
    extension = path.suffix.removeprefix(".").lower()
    reader = facts.readers.get(extension)
    if not path.is_file():
        raise DataError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    if reader is None and extension not in (*TABLES, *EXTENSIONS):
        raise DataError(
            f"{path}: {facts.name} cannot be made from this kind of file; expected one of {', '.join(kinds(facts))}"
        )
    if reader is not None or extension not in TABLES:
        rows = named(reader)(path) if reader else read_rows(path)
        yield from ((f"{path.name}, row {number}", row) for number, row in enumerate(rows, start=1))
    elif extension == "xlsx":
        yield from read_spreadsheet(path, sheet, [n for n, c in facts.columns.items() if c.kind == "str"])
    elif extension == "jsonl":
        yield from _json_lines(read_utf8(path), path.name)
    else:
        yield from _table(read_utf8(path), path.name, "\t" if extension == "tsv" else ",")


def _json_lines(text: str, name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield f"{name}, line {number}", f"not valid JSON ({error})"
            continue
        whole = isinstance(row, dict)
        yield f"{name}, line {number}", row if whole else f"expected an object, got {type(row).__name__}"


def _table(text: str, name: str, delimiter: str) -> Iterator[tuple[str, Any]]:
    """Rows of a CSV or TSV file; where quotes of a TSV do not pair up they are part of the text."""
    csv.field_size_limit(2**31 - 1)
    try:
        records = list(_records(text, delimiter, csv.QUOTE_MINIMAL))
    except csv.Error as error:
        if delimiter != "\t":
            raise DataError(f"{name}: not readable as CSV ({error})") from error
        records = list(_records(text, delimiter, csv.QUOTE_NONE))
    if not records:
        return
    header = records[0][1]
    refuse_repeated_columns(header, name)
    for line, record in records[1:]:
        if not record:
            continue
        cells = f"{len(record)} cells where the first line names {len(header)} columns"
        row = dict(zip(header, (cell or None for cell in record), strict=False))
        yield f"{name}, line {line}", row if len(record) == len(header) else cells


def _records(text: str, delimiter: str, quoting: Any) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True)
    start = 1
    for record in reader:
        yield start, record
        start = reader.line_num + 1


def _described(path: Path) -> dict[str, Any]:
    return {"name": path.name, "sha256": sha256(path), "bytes": path.stat().st_size}


def _refuse_others(facts: TaskFacts, folder: Path, target: str, split: str) -> None:
    """Another file of the same split would make it unclear which rows are meant."""
    name = facts.folder_name
    flat = [folder / f"{name}.{kind}" for kind in (*EXTENSIONS, *facts.readers)]
    inside = [folder / name / f"{split}.{kind}" for kind in (*EXTENSIONS, *facts.readers)]
    found = [path for path in (*flat, *inside) if path.is_file() and path != folder / target]
    if found:
        raise DataError(
            f"{name}: {', '.join(map(str, found))} is there already, and it would not be clear which rows are meant. "
            "Move it away, or choose another folder; nothing was written"
        )
