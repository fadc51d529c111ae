"""Writing rows to a file that is not yet taken for whole: JSON Lines or Parquet, with its checksum."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError, sha256
from lm_eval_healthcare.data.schema import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

PART = ".part"
FORMATS = ("jsonl", "parquet")


@dataclass
class Part:
    """A file that is written and on disk, but has not its final name yet."""

    path: Path
    rows: int
    bytes: int
    sha256: str


@contextlib.contextmanager
def write_part(target: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[Part]:
    """Write rows beside their target; the file is gone at the end unless it has been renamed.

    Args:
        target: The final path; its extension is the format.
        rows: The rows.

    Raises:
        DataError: If a row holds something that the format cannot.
        OSError: If the disk refuses.
    """
    part = target.with_name(f"{target.name}.{os.getpid()}{PART}")
    write = _write_parquet if target.suffix == ".parquet" else _write_json_lines
    try:
        yield write(part, rows)
    finally:
        part.unlink(missing_ok=True)


def json_ready(value: Any) -> Any:
    """Return a cell as JSON can hold it: dates as ISO text, NaN and infinities as null, bytes as base64."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "tolist"):  # a NumPy number or array
        return json_ready(value.tolist())
    return str(value)


def _write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Part:
    digest, count, size = hashlib.sha256(), 0, 0
    with path.open("wb") as stream:
        for row in rows:
            line = (json.dumps(json_ready(dict(row)), ensure_ascii=False, allow_nan=False) + "\n").encode()
            stream.write(line)
            digest.update(line)
            count += 1
            size += len(line)
        stream.flush()
        os.fsync(stream.fileno())
    return Part(path, count, size, digest.hexdigest())


def _write_parquet(path: Path, rows: Iterable[Mapping[str, Any]]) -> Part:
    import pyarrow
    import pyarrow.parquet

    ready = [{str(name): json_ready(value) for name, value in row.items()} for row in rows]
    names = dict.fromkeys(name for row in ready for name in row)
    ready = [{name: row.get(name) for name in names} for row in ready]
    try:
        table = pyarrow.Table.from_pylist(ready)
    except (pyarrow.lib.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path.name}: a column mixes types, which Parquet cannot hold ({error}); use jsonl") from error
    with path.open("wb") as stream:
        pyarrow.parquet.write_table(table, stream)
        stream.flush()
        os.fsync(stream.fileno())
    return Part(path, len(ready), path.stat().st_size, sha256(path))
