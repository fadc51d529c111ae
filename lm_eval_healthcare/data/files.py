"""Reading rows from local files: JSON Lines, JSON, CSV and Parquet, with the place of every fault.

A row that cannot be read is an error that names the file and the line, never a row that is left out in silence.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EXTENSIONS = ("jsonl", "json", "csv", "parquet")
_MAX_REPORTED = 10


class DataError(UserError, ValueError):
    """The data of a task cannot be used; the message names the file, the row and the column."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read every row of one file, in file order.

    Args:
        path: A file that ends in one of `EXTENSIONS`. A `.json` file may hold an array of objects or JSON Lines.

    Raises:
        DataError: If the file is missing, empty, of another kind, or holds something that is not a row.
    """
    extension = path.suffix.removeprefix(".").lower()
    if extension not in EXTENSIONS:
        raise DataError(f"{path}: unknown kind of file; expected one of {', '.join(EXTENSIONS)}")
    if extension == "parquet":
        return _read_parquet(path)
    text = read_utf8(path)
    if extension == "csv":
        return _parse_csv(text, path)
    return _parse_json(text, path) if extension == "json" else _parse_json_lines(text, path)


def read_utf8(path: Path) -> str:
    """Return a file's text, without the mark that some programs put in front of it.

    Raises:
        DataError: If the file is missing, cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def refuse_repeated_columns(header: Sequence[str], place: str) -> None:
    """Refuse a table in which two columns have one name, since only one of them could be read.

    Raises:
        DataError: With the names and what to do.
    """
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise DataError(
            f"{place}: the first line must name the columns, each once; more than one is called "
            f"{', '.join(map(repr, repeated))}. Rename or delete the others"
        )


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _parse_json_lines(text: str, path: Path) -> list[dict[str, Any]]:
    rows, problems = [], []
    # Only a line feed ends a line: U+2028 and its like stand unescaped inside JSON texts.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"{path}, line {number}: not valid JSON ({error})")
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            problems.append(f"{path}, line {number}: expected an object with the columns, got {type(row).__name__}")
    _raise_if(problems)
    return rows


def _parse_json(text: str, path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if "\n" in text.strip():
            return _parse_json_lines(text, path)
        raise DataError(f"{path}: not valid JSON ({error})") from error
    if isinstance(content, dict):
        inner = [
            value for value in content.values() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        content = inner[0] if len(inner) == 1 else [content]
    if not isinstance(content, list):
        raise DataError(f"{path}: expected an array of objects, got {type(content).__name__}")
    problems = [
        f"{path}, row {number}: expected an object with the columns, got {type(row).__name__}"
        for number, row in enumerate(content, start=1)
        if not isinstance(row, dict)
    ]
    _raise_if(problems)
    return content


def _parse_csv(text: str, path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    try:
        header = next(reader, [])
        refuse_repeated_columns(header, str(path))
        for record in reader:
            if len(record) == len(header):
                # An empty cell is how CSV writes null.
                rows.append({name: cell if cell else None for name, cell in zip(header, record, strict=True)})
            elif record:
                problems.append(
                    f"{path}, line {reader.line_num}: {len(record)} cells where the header has {len(header)}"
                )
    except csv.Error as error:
        problems.append(f"{path}, line {reader.line_num}: not readable as CSV ({error})")
    _raise_if(problems)
    return rows


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.lib
    import pyarrow.parquet

    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        return pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as Parquet ({error})") from error


def _raise_if(problems: list[str]) -> None:
    if problems:
        more = f"\n... and {len(problems) - _MAX_REPORTED} more" if len(problems) > _MAX_REPORTED else ""
        raise DataError("\n".join(problems[:_MAX_REPORTED]) + more)
