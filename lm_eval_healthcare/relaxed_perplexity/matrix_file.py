"""The stored matrices of one task as one parquet file: numbers only, from which every reading can be computed again.

A row is one target of one document: its scores, and the prefixes after which they hold. No text is in it, neither of
documents nor of samples, so the file of a credentialed benchmark is as safe as its scores. What holds for the whole
file, such as the settings, is JSON in the metadata of the schema under the key `lm_eval_healthcare.relaxed_perplexity`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import lm_eval_healthcare
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix, Target
from lm_eval_healthcare.relaxed_perplexity.prefixes import Prefix
from lm_eval_healthcare.relaxed_perplexity.settings import Settings
from lm_eval_healthcare.whole_file import whole_file

FORMAT = "lm_eval_healthcare relaxed perplexity"
VERSION = 1
SUFFIX = ".parquet"
ANSWER = "answer"
"""The list of a target that belongs to none by name."""
_KEY = b"lm_eval_healthcare.relaxed_perplexity"
_ROWS = 1024  # of a row group: enough to compress well, few enough for memory
_COLUMNS = {
    "doc_id": "int64", "group": "string", "target": "int32", "target_tokens": "int32", "target_bytes": "int64",
    "seed": "int64", "question_tokens": "int32", "context_cut": "int32", "engine": "string", "prefix_token": "string",
    "lengths": "list<int32>", "log_p_samples": "list<double>", "position": "list<int32>", "sample": "list<int32>",
    "count": "list<int32>", "log_p_prefix": "list<double>", "log_p": "list<double>", "reason": "string",
}  # fmt: skip
"""The columns and their types; lists hold one entry a sample or a prefix."""
_OF_PREFIX = ("position", "sample", "count")


class MatrixFileError(UserError, ValueError):
    """A file of matrices cannot be read or written; the message names it."""


@dataclass(frozen=True)
class Row:
    """One target of one document.

    Attributes:
        doc_id: The document's place in the scored split.
        group: The name of the list that the target is from, such as `must_have`; blank where there is one list only.
        target: The target's place in that list.
        matrix: The document's matrix with this target alone.
    """

    doc_id: int
    group: str
    target: int
    matrix: Matrix


@dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        doc_id: Its place in the scored split.
        matrix: Its matrix, with all its targets.
    """

    doc_id: int
    matrix: Matrix

    @property
    def groups(self) -> tuple[str, ...]:
        """For each target the name of the list that it is from, `answer` where there is one list only."""
        return tuple(target.group or ANSWER for target in self.matrix.targets)


@dataclass(frozen=True)
class About:
    """What holds for a whole file.

    Attributes:
        task: The task's name.
        model: The model's name.
        settings: How the matrices were measured.
        signature: The whole signature of the scores; that of the settings if nothing else is known.
        date: When they were measured, ISO 8601.
        chat: Whether a chat template was applied.
        lm_eval_version: The harness that ran.
        lm_eval_healthcare_version: The version of this package that measured.
    """

    task: str
    model: str
    settings: Settings
    signature: str = ""
    date: str = ""
    chat: bool | None = None
    lm_eval_version: str = ""
    lm_eval_healthcare_version: str = field(default=lm_eval_healthcare.__version__)


@dataclass(frozen=True)
class MatrixFile:
    """A file of matrices, whose rows are read anew, a part at a time, whenever they are asked for.

    Attributes:
        path: The file.
        about: What holds for all of it.
        n_rows: The number of its rows.
    """

    path: Path
    about: About
    n_rows: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows in the order of the file.

        Raises:
            MatrixFileError: If the file's content is damaged.
        """
        import pyarrow.parquet as pq

        with _told(self.path), pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(_ROWS, columns=list(_COLUMNS)):
                yield from _rows(batch)

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the file, each with all its targets; their rows follow each other.

        Raises:
            MatrixFileError: If the file's content is damaged.
        """
        for doc_id, found in itertools.groupby(self, key=lambda row: row.doc_id):
            rows = list(found)
            matrix = replace(rows[0].matrix, targets=tuple(row.matrix.targets[0] for row in rows))
            yield Document(doc_id, matrix)


def rows_of(documents: Iterable[Document]) -> Iterator[Row]:
    """Yield the rows of documents: one for each target, which is counted within its list."""
    for document in documents:
        places: dict[str, int] = defaultdict(int)
        for target in document.matrix.targets:
            matrix = replace(document.matrix, targets=(target,), texts=())
            yield Row(document.doc_id, target.group, places[target.group], matrix)
            places[target.group] += 1


def write(path: Path, rows: Iterable[Row], about: About) -> Path:
    """Write matrices, whole or not at all; a file of that name is replaced.

    Args:
        path: The file; its folder is made if needed.
        rows: The rows, those of a document one after another; taken a part at a time. See `rows_of`.
        about: What holds for all of them.

    Returns:
        The file.

    Raises:
        MatrixFileError: If the folder cannot be written or the disk is full; nothing is left behind then.
        ValueError: If a row's matrix has more or less than one target.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema().with_metadata({_KEY: json.dumps(_content(about), ensure_ascii=False).encode()})
    remaining = iter(rows)
    try:
        with whole_file(path) as part, part.open("wb") as stream:
            # Scores of doubles differ from row to row, so a dictionary of them would only grow.
            with pq.ParquetWriter(
                stream, schema, compression="zstd", compression_level=9, write_statistics=False,
                use_dictionary=["group", "engine", "prefix_token", "reason"],
                use_byte_stream_split=["log_p.list.element"],
            ) as writer:  # fmt: skip
                while some := list(itertools.islice(remaining, _ROWS)):
                    writer.write_table(pa.Table.from_pydict(_columns(some), schema=schema))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise MatrixFileError(
            f"{path}: matrices could not be written ({error}); free space or choose another folder"
        ) from error
    return path


def read(path: Path) -> MatrixFile:
    """Open a file of matrices and check what it is; rows are read when they are asked for.

    Raises:
        MatrixFileError: If the file is missing, cut, of another kind, or written by a later version.
    """
    import pyarrow.parquet as pq

    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise MatrixFileError(f"{path}: {what}; give a file of matrices, which ends in {SUFFIX}")
    with _told(path), pq.ParquetFile(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    about = _about(path, (schema.metadata or {}).get(_KEY))
    wanted = _schema()
    odd = [name for name in _COLUMNS if name not in schema.names or not _is_alike(schema.field(name), wanted, name)]
    if odd:
        raise MatrixFileError(
            f"{path}: the columns {', '.join(odd)} are missing or of another kind; get the file again"
        )
    return MatrixFile(path, about, n_rows)


def is_matrix_file(path: Path) -> bool:
    """Say whether a parquet file calls itself one of matrices, of whatever version; other people's files do not.

    Raises:
        MatrixFileError: If it cannot be read or is cut.
    """
    import pyarrow.parquet as pq

    with _told(path), pq.ParquetFile(path) as file:
        return _KEY in (file.schema_arrow.metadata or {})


def _schema() -> Any:
    import pyarrow as pa

    kinds: dict[str, Any] = {"list<int32>": pa.list_(pa.int32()), "list<double>": pa.list_(pa.float64())}
    return pa.schema([(name, kinds.get(kind) or pa.type_for_alias(kind)) for name, kind in _COLUMNS.items()])


def _is_alike(found: Any, wanted: Any, name: str) -> bool:
    """Compare types, whatever other writers call the entries of a list."""
    expected = wanted.field(name).type
    if hasattr(expected, "value_type") and hasattr(found.type, "value_type"):
        return bool(found.type.value_type == expected.value_type)
    return bool(found.type == expected)


def _content(about: About) -> dict[str, Any]:
    settings = about.settings
    return {
        "format": FORMAT,
        "format_version": VERSION,
        **asdict(about),
        "settings": settings.as_dict(),
        "signature": about.signature or settings.signature,
    }


def _about(path: Path, content: bytes | None) -> About:
    if content is None:
        raise MatrixFileError(
            f"{path}: a parquet file, but not one of matrices of Relaxed Perplexity; runs of tasks such as "
            "careqa_open_relaxed_perplexity write those"
        )
    try:
        values = json.loads(content)
        version = int(values["format_version"])
        if version <= VERSION and values["format"] == FORMAT:
            known = {one.name: values[one.name] for one in fields(About) if one.name in values}
            return About(**{**known, "settings": Settings.from_dict(values["settings"])})
    except (ValueError, KeyError, TypeError) as error:
        raise MatrixFileError(
            f"{path}: what it says about itself cannot be read ({type(error).__name__}: {error}); get the file again"
        ) from error
    raise MatrixFileError(
        f"{path}: format {values['format']!r}, version {version}; this version of lm_eval_healthcare "
        f"({lm_eval_healthcare.__version__}) reads version {VERSION}. Update it: pip install -U lm-eval-healthcare"
    )


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for row in rows:
        matrix = row.matrix
        (target,) = matrix.targets
        values = (
            row.doc_id, row.group, row.target, target.length, target.bytes,
            matrix.seed, matrix.question_tokens, matrix.context_cut, matrix.engine, matrix.prefix_token,
            np.asarray(matrix.lengths, np.int32), np.asarray(matrix.log_p_samples, np.float64),
            *(np.asarray([getattr(p, name) for p in matrix.prefixes], np.int32) for name in _OF_PREFIX),
            np.asarray([p.log_p for p in matrix.prefixes], np.float64), np.asarray(target.log_p, np.float64),
            target.reason,
        )  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns


def _rows(batch: Any) -> Iterator[Row]:
    lists = {name: _split(batch.column(name)) for name, kind in _COLUMNS.items() if kind.startswith("list")}
    plain = {name: batch.column(name).to_pylist() for name in _COLUMNS if name not in lists}
    for place in range(batch.num_rows):
        one = {name: column[place] for name, column in {**plain, **lists}.items()}
        of_prefix = zip(*(one[name].tolist() for name in ("position", "sample", "log_p_prefix", "count")), strict=True)
        prefixes = tuple(Prefix(*values) for values in of_prefix)
        if len(one["log_p"]) != (0 if one["reason"] else len(prefixes)):
            raise ValueError(f"{len(one['log_p'])} scores for {len(prefixes)} prefixes, document {one['doc_id']}")
        target = Target(one["target_tokens"], one["target_bytes"], one["log_p"], one["reason"], one["group"])
        matrix = Matrix(
            prefixes, (target,), tuple(one["lengths"].tolist()), tuple(one["log_p_samples"].tolist()), one["seed"],
            one["question_tokens"], one["context_cut"], one["engine"], one["prefix_token"],
        )  # fmt: skip
        yield Row(one["doc_id"], one["group"], one["target"], matrix)


def _split(column: Any) -> list[np.ndarray]:
    """Return the entries of a column of lists, each as an array."""
    values = column.flatten().to_numpy(zero_copy_only=False)
    offsets = column.offsets.to_numpy() - column.offsets[0].as_py()
    return [values[low:high] for low, high in itertools.pairwise(offsets)]


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn whatever a file does to its reader into one message that names it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, MatrixFileError):
            raise
        raise MatrixFileError(
            f"{path}: cut, damaged or not a parquet file ({str(error).splitlines()[0]}); get it again from where it "
            "was written"
        ) from error
