"""Every text that a judge wrote, with the verdict found in it, on disk before the next one is waited for.

The store is an SQLite file. A command that was killed finds there what it has already paid for, and several commands
may use one file at once. It holds texts, which may quote patients' records, so it is readable by the user alone; for
credentialed data it is told not to keep texts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.metrics.encoding.machine import cache_folder
from lm_eval_healthcare.private_database import IN_MEMORY, TEMPORARY, open_database

logger = logging.getLogger(__name__)

OFF = "off"
FILE_NAME = "verdicts.sqlite3"
_VERSION = 1
_AT_ONCE = 400
_WAITING = 256
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_TABLES = """
CREATE TABLE IF NOT EXISTS judges (id INTEGER PRIMARY KEY, signature TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS verdicts (
    judge INTEGER NOT NULL, key BLOB NOT NULL, sample INTEGER NOT NULL, attempt INTEGER NOT NULL,
    score INTEGER, reason TEXT, conflicting INTEGER NOT NULL, expected REAL, finish TEXT, text BLOB,
    prompt_tokens INTEGER, completion_tokens INTEGER, written REAL NOT NULL,
    PRIMARY KEY (judge, key, sample, attempt)
) WITHOUT ROWID;
"""
_COLUMNS = (
    "key, sample, attempt, score, reason, conflicting, expected, finish, text, prompt_tokens, completion_tokens, "
    "written"
)


@dataclass(frozen=True)
class Kind:
    """What a store holds, for its messages and the name of its file.

    Attributes:
        noun: One text, in the singular.
        option: The option by which a user chooses the folder.
        file_name: The file's name in a folder.
    """

    noun: str
    option: str
    file_name: str


VERDICTS = Kind("verdict", "--verdict-cache", FILE_NAME)


@dataclass(frozen=True)
class Stored:
    """One text of a judge.

    Attributes:
        key: Hash of the prompt.
        sample: Which of several verdicts on the same answer it is for, from 0.
        attempt: Which attempt at that verdict it is, from 0.
        score: The score found in it, or None. In relative grading 1 for A and 2 for B.
        reason: Why there is none.
        conflicting: Whether it holds another verdict before its last.
        expected: The expected score over the scale, where the back end gave log-probabilities.
        finish: `stop`, or `length` if it was cut at the most tokens.
        text: What the judge wrote; None where texts are not kept.
        prompt_tokens: Tokens of the prompt, if known.
        completion_tokens: Tokens of the text, if known.
        written: When, in seconds since the epoch.
        again: Whether it takes the place of what the store has; otherwise what came first stays.
    """

    key: bytes
    sample: int
    attempt: int
    score: int | None
    reason: Reason | None
    conflicting: bool = False
    expected: float | None = None
    finish: str | None = None
    text: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    written: float = 0.0
    again: bool = False


class VerdictStore:
    """Texts of judges by judge, prompt, sample and attempt. Use `VerdictStore.open` as a context manager.

    What is put in is written at once by a thread, in one transaction whatever has come since its last: a process that
    is killed loses what came in the last milliseconds and what it was still waiting for.

    Attributes:
        path: The file; None for a store that lasts as long as the object.
    """

    def __init__(self, path: Path | None, kind: Kind = VERDICTS) -> None:
        """Open or make the file at `path`."""
        self.path, self._kind = path, kind
        self._lock = threading.RLock()
        self._numbers: dict[str, int] = {}
        self._coming: queue.Queue[tuple[str, Stored, bool] | threading.Event | None] = queue.Queue(_WAITING)
        self._closed = False
        self._used: set[str] = set()
        self._writer: threading.Thread | None = None
        try:
            self._connection = open_database(path or TEMPORARY, _TABLES, _VERSION)
        except (sqlite3.Error, OSError) as error:
            self._go_on_in_memory(error)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | None = None, kind: Kind = VERDICTS) -> VerdictStore:
        """Open a store.

        Args:
            where: A folder; a file, whose name ends in `.db`, `.sqlite` or `.sqlite3`; `off` for a store that is gone
                when it is closed; or None for the user's own in `$XDG_CACHE_HOME` or `~/.cache`.
            kind: What it holds.
        """
        if where is None:
            return cls(cache_folder() / kind.file_name, kind)
        if str(where) == OFF:
            return cls(None, kind)
        path = Path(os.path.expanduser(where))
        is_file = path.is_file() or (path.suffix.lower() in _SUFFIXES and not path.is_dir())
        return cls(path if is_file else path / kind.file_name, kind)

    def __enter__(self) -> VerdictStore:
        """Return the store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    def put(self, judge: str, stored: Stored, keep_text: bool = True) -> None:
        """Keep a text; wait if the file is so busy that many others are still waiting.

        Args:
            judge: What texts depend on beside their prompts, `Settings.reply_signature`.
            stored: The text with its verdict; `written` is filled in.
            keep_text: False to keep the verdict alone.

        Raises:
            ValueError: If the store is closed.
        """
        if self._closed:
            raise ValueError(f"the store of {self._kind.noun}s is closed")
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name=f"{self._kind.noun}s", daemon=True)
            self._writer.start()
        self._coming.put((judge, stored, keep_text))

    def verdicts(self, judge: str, keys: Iterable[bytes]) -> Iterator[Stored]:
        """Yield what is known of some prompts, without the texts, attempts in order."""
        yield from self._select(judge, list(dict.fromkeys(keys)), texts=False)

    def texts(self, judge: str, keys: Iterable[bytes]) -> Iterator[Stored]:
        """Yield the same with the texts."""
        yield from self._select(judge, list(dict.fromkeys(keys)), texts=True)

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None:
            done = threading.Event()
            self._coming.put(done)
            done.wait()

    def close(self) -> None:
        """Write what is left and close the file; calling it again does nothing."""
        if self._writer is not None:
            self._coming.put(None)
            self._writer.join()
            self._writer = None
        with self._lock:
            self._closed = True
            self._connection.close()

    def _select(self, judge: str, keys: Sequence[bytes], texts: bool) -> Iterator[Stored]:
        self.flush()
        columns = _COLUMNS if texts else _COLUMNS.replace(" text,", " NULL,")
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            query = (
                f"SELECT {columns} FROM verdicts WHERE judge = (SELECT id FROM judges WHERE signature = ?) "
                f"AND key IN ({','.join('?' * len(part))}) ORDER BY key, sample, attempt"
            )
            with self._lock:
                self._used.add(judge)
                try:
                    rows = self._connection.execute(query, (judge, *part)).fetchall()
                except sqlite3.Error as error:
                    self._go_on_in_memory(error)
                    rows = []
            for row in rows:
                try:
                    yield _stored(row)
                except (ValueError, zlib.error) as error:
                    logger.warning("a %s in %s is damaged (%s) and is asked again", self._kind.noun, self.path, error)

    def _write_all(self) -> None:
        """Write what comes until None comes."""
        going = True
        while going:
            coming = [self._coming.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    coming.append(self._coming.get_nowait())
            with self._lock:
                self._write_safely([one for one in coming if isinstance(one, tuple)])
            for one in coming:
                if isinstance(one, threading.Event):
                    one.set()
            going = None not in coming

    def _write_safely(self, texts: Sequence[tuple[str, Stored, bool]]) -> None:
        """Write texts; one that cannot be written costs itself, a file that cannot be written costs a warning."""
        try:
            self._write_together(texts)
        except sqlite3.Error as error:
            self._go_on_in_memory(error)  # the texts were paid for
        except Exception:  # one of them holds what SQLite cannot store; which one is found out below
            logger.debug("%d %ss cannot be written together", len(texts), self._kind.noun, exc_info=True)
        else:
            return
        for text in texts:
            try:
                self._write_together([text])
            except Exception as error:
                noun, kind = self._kind.noun, type(error).__name__
                logger.warning("a %s cannot be kept (%s: %s); it is asked again", noun, kind, error)

    def _write_together(self, texts: Sequence[tuple[str, Stored, bool]]) -> None:
        if not texts:
            return
        before = dict(self._numbers)
        try:
            with self._connection:  # one transaction, given up as a whole where it fails
                self._connection.execute("BEGIN IMMEDIATE")
                for judge, stored, keep_text in texts:
                    self._write(judge, stored, keep_text)
        except BaseException:
            self._numbers = before
            raise

    def _write(self, judge: str, stored: Stored, keep_text: bool) -> None:
        connection = self._connection
        if judge not in self._numbers:
            connection.execute("INSERT OR IGNORE INTO judges (signature) VALUES (?)", (judge,))
            row = connection.execute("SELECT id FROM judges WHERE signature = ?", (judge,)).fetchone()
            self._numbers[judge] = row[0]
        otherwise = "REPLACE" if stored.again else "IGNORE"
        connection.execute(
            f"INSERT OR {otherwise} INTO verdicts (judge, {_COLUMNS}) VALUES ({','.join('?' * 13)})",
            (self._numbers[judge], *_row(stored, keep_text, time.time())),
        )

    def _go_on_in_memory(self, error: Exception) -> None:
        """Keep what is still to come, and what could not be written, for as long as this command runs."""
        where = "a temporary file" if self.path is None else str(self.path)
        logger.warning(
            "%ss cannot be kept in %s (%s); this command goes on, but if it is stopped, what comes from here on "
            "is asked again. Free space, or choose another folder with %s",
            self._kind.noun, where, error, self._kind.option,
        )  # fmt: skip
        old, numbers = getattr(self, "_connection", None), self._numbers
        self._connection, self._numbers, self.path = open_database(IN_MEMORY, _TABLES, _VERSION), {}, None
        if old is not None:
            with contextlib.suppress(sqlite3.Error):
                _copy(old, self._connection, sorted(self._used | set(numbers)))
            with contextlib.suppress(sqlite3.Error):
                old.close()


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, judges: Sequence[str]) -> None:
    """Take over what is known of some judges: results are made from it."""
    for judge in judges:
        for number, signature in old.execute("SELECT id, signature FROM judges WHERE signature = ?", (judge,)):
            new.execute("INSERT OR IGNORE INTO judges VALUES (?, ?)", (number, signature))
            rows = old.execute("SELECT * FROM verdicts WHERE judge = ?", (number,))
            while part := rows.fetchmany(_AT_ONCE):
                new.executemany(f"INSERT OR IGNORE INTO verdicts VALUES ({','.join('?' * len(part[0]))})", part)


def _row(stored: Stored, keep_text: bool, now: float) -> tuple[object, ...]:
    text = None
    if keep_text and stored.text is not None:
        text = zlib.compress(stored.text.encode("utf-8", "surrogatepass"))
    return (
        stored.key, stored.sample, stored.attempt, stored.score, None if stored.reason is None else str(stored.reason),
        int(stored.conflicting), stored.expected, stored.finish, text, stored.prompt_tokens, stored.completion_tokens,
        stored.written or now,
    )  # fmt: skip


def _stored(row: Sequence[Any]) -> Stored:
    key, sample, attempt, score, reason, conflicting, expected, finish, text, prompt, completion, written = row
    return Stored(
        bytes(key), sample, attempt, score, None if reason is None else Reason(reason),
        conflicting=bool(conflicting), expected=expected, finish=finish,
        text=None if text is None else zlib.decompress(bytes(text)).decode("utf-8", "surrogatepass"),
        prompt_tokens=prompt, completion_tokens=completion, written=written,
    )  # fmt: skip
