"""Scores that are already known, by metric signature and content, on disk and shared by all runs of a user.

The cache is an SQLite file. It holds a hash of the texts, never the texts, and is only ever a convenience: whatever is
wrong with it costs a warning and the cache, not a score. Several processes may use one file at once. What is put in is
on disk within half a second, so a process that is killed loses no more than that.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import math
import os
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.metrics.encoding.machine import cache_folder
from lm_eval_healthcare.private_database import IN_MEMORY, open_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

logger = logging.getLogger(__name__)

OFF = "off"
FILE_NAME = "scores.sqlite3"
FLUSH_SECONDS = 0.5
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_KEYS_PER_QUERY = 500
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS signatures (id INTEGER PRIMARY KEY, signature TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS scores (
    signature INTEGER NOT NULL, key BLOB NOT NULL, score REAL NOT NULL, truncated INTEGER NOT NULL,
    PRIMARY KEY (signature, key)
) WITHOUT ROWID;
"""

Entry = tuple[float, bool]
"""A score, and whether the metric did not see the end of a text."""


def key(prediction: str, references: Sequence[str]) -> bytes:
    """Return the key of a prediction with its references, whose order does not matter.

    Args:
        prediction: A text; lone surrogates are allowed.
        references: One or more texts.
    """
    digest = hashlib.sha256()
    lists = [references] if isinstance(references, str) else references
    for text in (prediction, *sorted(lists)):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.digest()


class ScoreCache:
    """Scores by signature and key. Use `ScoreCache.open`, and the object as a context manager or `close` it.

    Attributes:
        path: The file, or None for a cache that holds nothing.
    """

    def __init__(self, path: Path | None) -> None:
        """Open or make the file at `path`."""
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._timer: threading.Timer | None = None
        self._waiting: dict[tuple[str, bytes], Entry] = {}
        self._numbers: dict[str, int] = {}
        if path is not None:
            try:
                self._connection = open_database(path, _TABLES, _VERSION)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
            else:
                atexit.register(self.close)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | None = None) -> ScoreCache:
        """Open a cache.

        Args:
            where: A folder; a file, which is there or whose name ends in `.db`, `.sqlite` or `.sqlite3`; `off` for a
                cache that holds nothing; or None for the user's own in `$XDG_CACHE_HOME` or `~/.cache`.
        """
        if where is None:
            return cls(cache_folder() / FILE_NAME)
        if str(where) == OFF:
            return cls(None)
        path = Path(os.path.expanduser(where))
        is_file = path.is_file() or (path.suffix.lower() in _SUFFIXES and not path.is_dir())
        return cls(path if is_file else path / FILE_NAME)

    @classmethod
    def in_memory(cls) -> ScoreCache:
        """Return a cache that lasts as long as the object."""
        cache = cls(None)
        cache._connection = open_database(IN_MEMORY, _TABLES, _VERSION)
        return cache

    def __enter__(self) -> ScoreCache:
        """Return the cache itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the cache."""
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether scores are kept."""
        return self._connection is not None

    def get(self, signature: str, keys: Iterable[bytes]) -> dict[bytes, Entry]:
        """Return what is known of these keys under a signature: score and whether a text was not seen whole."""
        wanted, signature = list(dict.fromkeys(keys)), _writable(signature)
        with self._lock:
            known = {one: self._waiting[signature, one] for one in wanted if (signature, one) in self._waiting}
            rest = [one for one in wanted if one not in known]
            if self._connection is not None and rest:
                try:
                    known.update(self._read(self._connection, signature, rest))
                except sqlite3.Error as error:
                    self._give_up(error)
        return known

    def put(self, signature: str, key: bytes, score: float, truncated: bool = False) -> None:
        """Remember a score; it is written within half a second. A NaN is no score and is not kept."""
        if self._connection is None or math.isnan(score):
            return
        with self._lock:
            self._waiting[_writable(signature), key] = (float(score), bool(truncated))
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write what is remembered and not yet written."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            waiting, self._waiting = self._waiting, {}
            if self._connection is None or not waiting:
                return
            try:
                self._write(self._connection, waiting)
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Write what is left and close the file; calling it again does nothing."""
        self.flush()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        atexit.unregister(self.close)

    def _read(
        self, connection: sqlite3.Connection, signature: str, keys: Sequence[bytes]
    ) -> Iterator[tuple[bytes, Entry]]:
        row = connection.execute("SELECT id FROM signatures WHERE signature = ?", (signature,)).fetchone()
        if row is None:
            return
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            part = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, score, truncated FROM scores WHERE signature = ? AND key IN ({marks})"
            for found, score, truncated in connection.execute(query, (row[0], *part)):
                yield bytes(found), (float(score), bool(truncated))

    def _write(self, connection: sqlite3.Connection, waiting: Mapping[tuple[str, bytes], Entry]) -> None:
        with connection:  # one transaction
            connection.execute("BEGIN IMMEDIATE")
            for signature in {signature for signature, _ in waiting} - set(self._numbers):
                connection.execute("INSERT OR IGNORE INTO signatures (signature) VALUES (?)", (signature,))
                number = connection.execute("SELECT id FROM signatures WHERE signature = ?", (signature,)).fetchone()[0]
                self._numbers[signature] = number
            connection.executemany(
                "INSERT OR IGNORE INTO scores (signature, key, score, truncated) VALUES (?, ?, ?, ?)",
                [
                    (self._numbers[signature], one, score, int(cut))
                    for (signature, one), (score, cut) in waiting.items()
                ],
            )

    def _give_up(self, error: Exception) -> None:
        """Go on without the cache."""
        logger.warning(
            "the score cache %s cannot be used (%s); scores are computed without it. Free space, delete the file, or "
            "choose another folder",
            self.path,
            error,
        )
        connection, self._connection = self._connection, None
        self._waiting = {}
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error:
                logger.debug("closing %s failed", self.path, exc_info=True)


def _writable(signature: str) -> str:
    """A signature may hold a file name that is not UTF-8."""
    return signature.encode("utf-8", "backslashreplace").decode("utf-8")
