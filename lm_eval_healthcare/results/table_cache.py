"""What result files said when they were last read, by the identity of each file, on disk and shared by a user's runs.

A file is the same as long as its path, size, times and inode are. Where all files are the same, so is the table that
was made of them by the same rules: the newest tables of many files are kept as well. The cache is an SQLite file and
only ever a convenience: whatever is wrong with it costs a warning and the cache, not a value. Several processes may use
it at once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import lm_eval_healthcare
from lm_eval_healthcare.private_database import make_private

logger = logging.getLogger(__name__)

OFF = "off"
FILE_NAME = "results.sqlite3"
_VERSION = 3
_MOST_FILES, _MOST_TABLES = 100_000, 8
_BUSY_SECONDS = 10.0
_PATHS_PER_QUERY = 500
_TABLES = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, identity TEXT NOT NULL, record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS tables (key TEXT PRIMARY KEY, head BLOB NOT NULL, aside BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS made_by (version TEXT NOT NULL);
"""

Identity = str
"""Size, times and inode of a file as one text."""


def identity(found: os.stat_result) -> Identity:
    """Return what changes whenever the content of a file does."""
    return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_ino}.{found.st_dev}"


class TableCache:
    """Records of files, as bytes. Use it as a context manager."""

    def __init__(self, where: Path | None = None) -> None:
        """Open or make the cache.

        Args:
            where: Its file; `off` for a cache that holds nothing; None for the user's own in `$XDG_CACHE_HOME` or
                `~/.cache`.
        """
        self._connection: sqlite3.Connection | None = None
        self.path = None if str(where) == OFF else where or _cache_folder() / FILE_NAME
        if self.path is None:
            return
        try:
            self._connection = _connect(self.path)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def __enter__(self) -> TableCache:
        """Return the cache itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the cache."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, identities: Mapping[str, Identity]) -> dict[str, bytes]:
        """Return the records of the files that are as they were, by path."""
        found: dict[str, bytes] = {}
        paths = iter(identities)
        while self._connection is not None and (part := list(itertools.islice(paths, _PATHS_PER_QUERY))):
            marks = ",".join("?" * len(part))
            query = f"SELECT path, identity, record FROM files WHERE path IN ({marks})"
            try:
                rows = self._connection.execute(query, [_writable(path) for path in part]).fetchall()
            except sqlite3.Error as error:
                self._give_up(error)
                return {}
            known = {path: (one, record) for path, one, record in rows}
            for path in part:
                own = known.get(_writable(path))
                if own is not None and own[0] == identities[path]:
                    found[path] = bytes(own[1])
        return found

    def put(self, records: Sequence[tuple[str, Identity, bytes]]) -> None:
        """Remember records of files: path, identity and record of each."""
        if self._connection is None or not records:
            return
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "INSERT OR REPLACE INTO files (path, identity, record) VALUES (?, ?, ?)",
                    [(_writable(path), one, record) for path, one, record in records],
                )
                _keep_newest(self._connection, "files", _MOST_FILES)
        except sqlite3.Error as error:
            self._give_up(error)

    def get_table(self, key: str) -> tuple[bytes, bytes] | None:
        """Return a table, as `table_store.dumped` gives it, or None."""
        if self._connection is None:
            return None
        try:
            found = self._connection.execute("SELECT head, aside FROM tables WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        return None if found is None else (bytes(found[0]), bytes(found[1]))

    def put_table(self, key: str, head: bytes, aside: bytes) -> None:
        """Remember a table."""
        if self._connection is None:
            return
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", (key, head, aside))
                _keep_newest(self._connection, "tables", _MOST_TABLES)
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.warning(
            "the results cache %s cannot be used (%s); files are read without it. Free space, delete the file, or give "
            "another with --cache",
            self.path,
            error,
        )
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _cache_folder() -> Path:
    # That of the metrics too, whose package is not loaded for it: it takes longer than reading the cache.
    base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lm_eval_healthcare"


def _keep_newest(connection: sqlite3.Connection, table: str, most: int) -> None:
    if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > most:
        newest = f"SELECT rowid FROM {table} ORDER BY rowid DESC LIMIT ?"
        connection.execute(f"DELETE FROM {table} WHERE rowid NOT IN ({newest})", (most,))


def _writable(path: str) -> str:
    """A name may hold bytes that are not UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _connect(path: Path) -> sqlite3.Connection:
    make_private(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        own = f"{_VERSION}/{lm_eval_healthcare.__version__}"
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            if connection.execute("SELECT version FROM made_by").fetchall() != [(own,)]:  # another version's records
                connection.execute("DELETE FROM files")
                connection.execute("DELETE FROM tables")
                connection.execute("DELETE FROM made_by")
                connection.execute("INSERT INTO made_by VALUES (?)", (own,))
    except BaseException:
        connection.close()
        raise
    return connection
