"""SQLite files that several processes may use at once and the user alone can read."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import time
from pathlib import Path

IN_MEMORY, TEMPORARY = ":memory:", ""
"""Places of databases that last as long as their connection, in memory or in a file of SQLite's own."""
_BUSY_SECONDS = 30.0
_OPEN_TRIES = 50
_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "afs", "fuse.sshfs", "9p", "ceph", "glusterfs")


def open_database(where: Path | str, tables: str, version: int) -> sqlite3.Connection:
    """Open a file, which is made if needed, or `IN_MEMORY` or `TEMPORARY`; transactions are begun explicitly.

    Args:
        where: The file.
        tables: Statements that make the tables, each ended by a semicolon.
        version: The format's number.

    Raises:
        sqlite3.Error: If the file is no such database, or of a newer format.
        OSError: If it cannot be made.
    """
    path = where if isinstance(where, Path) else None
    if path is not None:
        make_private(path)
    connection = sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for attempt in itertools.count(1):
            try:
                _prepare(connection, path, tables, version)
                return connection
            except sqlite3.OperationalError as error:  # SQLite does not always wait where modes are changed
                if "locked" not in str(error) or attempt == _OPEN_TRIES:
                    raise
                connection.rollback()
                time.sleep(0.05)
        raise AssertionError("unreachable")
    except BaseException:
        connection.close()
        raise


def make_private(path: Path) -> None:
    """Make a file, and its folder, for the user alone, whom SQLite follows; what is there already stays as it is.

    Raises:
        OSError: If that cannot be done.
    """
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path | None, tables: str, version: int) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > version:
        raise sqlite3.DatabaseError(f"it was written by a newer version of this package (format {found})")
    # The write-ahead log needs memory that all processes share, which there is not between machines.
    mode = "TRUNCATE" if path is not None and is_on_network(path) else "WAL"
    if path is not None and connection.execute("PRAGMA journal_mode").fetchone()[0].upper() != mode:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = NORMAL")
    if found < version:
        connection.executescript(f"BEGIN IMMEDIATE;{tables}PRAGMA user_version = {version};COMMIT;")


def is_on_network(path: Path) -> bool:
    """Say whether a file lies on a network file system, as far as this can be known."""
    try:
        mounts = [line.split(" ")[1:3] for line in Path("/proc/mounts").read_text("utf-8").split("\n") if line]
        folder = os.path.realpath(path.parent)
        above = [(len(mount), kind) for mount, kind in mounts if os.path.commonpath([folder, mount]) == mount]
    except (OSError, ValueError):
        return False
    return bool(above) and max(above)[1].startswith(_NETWORK)
