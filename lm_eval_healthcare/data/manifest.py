"""A data folder that says what is in it: whole files only, each with its checksum, its rows and where it came from.

A file is written under a name that ends in `.part`, brought to disk, and renamed; only then does `manifest.json` name
it. So a process that is killed, or a full disk, never leaves half a file that could be taken for a whole one. One
process at a time writes to a folder; a second one waits.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import lm_eval_healthcare
from lm_eval_healthcare.data.files import DataError, sha256
from lm_eval_healthcare.data.row_files import PART, write_part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
LOCK = ".lock"
FORMAT = "lm_eval_healthcare data 1"


class FolderError(DataError):
    """The folder or the disk refuses; no other file would fare better."""


@dataclass(frozen=True)
class Entry:
    """What the manifest says about one file.

    Attributes:
        path: The file, relative to the folder, with `/`.
        tasks: The tasks for which it was written.
        split: The raw split that it holds.
        rows: Number of rows.
        bytes: Size.
        sha256: Checksum, in hexadecimal.
        licence: The data's licence.
        origin: Where it came from: `hub`, `config`, `revision` and `asked_revision`, or `files` (name, sha256, bytes).
        splits: All raw splits that were written with this one; fewer in the folder mean that the writing ended early.
        skipped: Rows of the origin that could not be used and were left out.
        date: When it was written, UTC.
        pack_version: Version of this package.
    """

    path: str
    tasks: tuple[str, ...]
    split: str
    rows: int
    bytes: int
    sha256: str
    licence: str
    origin: Mapping[str, Any]
    splits: tuple[str, ...] = ()
    skipped: int = 0
    date: str = ""
    pack_version: str = ""


@dataclass
class Manifest:
    """The entries of one folder by path."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def of(self, name: str) -> dict[str, Entry]:
        """Return the entries of the files that lie in the folder of that name."""
        return {path: entry for path, entry in self.entries.items() if path.rpartition("/")[0] == name}


def read_manifest(folder: Path) -> Manifest | None:
    """Read a folder's manifest.

    Returns:
        None if there is none.

    Raises:
        DataError: If it cannot be read, or is not what this module writes.
    """
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format is {content['format']!r}, expected {FORMAT!r}")
        return Manifest({name: _entry(name, found) for name, found in content["files"].items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: not a manifest that can be read ({type(error).__name__}: {error}). Take it from the folder's "
            "origin again, or move it away and fetch or prepare the data anew"
        ) from error


def _entry(path: str, content: Mapping[str, Any]) -> Entry:
    known = {f.name for f in fields(Entry)}
    entry = Entry(**{"path": path, **{key: value for key, value in content.items() if key in known}})
    sound = (
        isinstance(entry.rows, int) and isinstance(entry.bytes, int) and isinstance(entry.sha256, str)
        and isinstance(entry.origin, dict) and isinstance(entry.split, str)
    )  # fmt: skip
    if not sound or not isinstance(entry.tasks, list) or not isinstance(entry.splits, list | tuple):
        raise ValueError(f"the entry of {path} has values of the wrong type")
    if path.startswith("/") or "\\" in path or {"", ".", ".."} & set(path.split("/")):
        raise ValueError(f"{path!r} is not a file inside the folder")
    return Entry(**{**asdict(entry), "tasks": tuple(map(str, entry.tasks)), "splits": tuple(map(str, entry.splits))})


def is_whole(folder: Path, entry: Entry) -> bool:
    """Say whether an entry's file is there with the size and the checksum of the manifest."""
    path = folder / entry.path
    try:
        return path.stat().st_size == entry.bytes and sha256(path) == entry.sha256
    except OSError:
        return False


def all_from_hub(folder: Path, found: Collection[Mapping[str, Any]]) -> bool:
    """Say whether all these files are unchanged copies of the hub's rows, as `data fetch` wrote them.

    What is wrong in such rows nobody here can mend, so they deserve the same tolerance as the hub itself.

    Args:
        folder: The data folder.
        found: `name` and `sha256` of each file that was read.
    """
    entries = _entries(folder)
    known = [entries[file["name"]] for file in found if file["name"] in entries]
    whole = len(known) == len(found) > 0 and not changed(folder, found)
    return whole and all("hub" in entry.origin for entry in known)


def changed(folder: Path, found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of files that are not what the folder's manifest says; none without a manifest.

    Args:
        folder: The data folder.
        found: `name` and `sha256` of each file that was read.
    """
    entries = _entries(folder)
    return [
        file["name"] for file in found if file["name"] in entries and entries[file["name"]].sha256 != file["sha256"]
    ]


def _entries(folder: Path) -> dict[str, Entry]:
    """What the manifest vouches for; nothing where it is missing or cannot be read."""
    try:
        manifest = read_manifest(folder)
    except DataError:
        return {}
    return {} if manifest is None else manifest.entries


class FolderWriter:
    """Writes files into a data folder; made by `writing`, which keeps other writers out.

    Attributes:
        folder: The folder.
        manifest: What it holds.
    """

    def __init__(self, folder: Path, locked: bool) -> None:
        """Read the folder's manifest.

        Raises:
            DataError: If the manifest cannot be read.
        """
        self.folder = folder
        self.manifest = read_manifest(folder) or Manifest()
        self._locked = locked

    def write(self, path: str, rows: Iterable[Mapping[str, Any]], **about: Any) -> Entry:
        """Write rows into a file, whole or not at all, and name it in the manifest.

        Args:
            path: The file, relative to the folder; its extension, `.jsonl` or `.parquet`, is the format.
            rows: The rows.
            **about: The fields of `Entry` that only the caller knows.

        Raises:
            FolderError: If the disk refuses.
            DataError: If another file is in the way, or a row cannot be written.
        """
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers(target)
            with write_part(target, rows) as part:
                self._refuse_other_file(path, part.sha256)
                os.replace(part.path, target)
                _sync_folder(target.parent)
            entry = Entry(
                path=path, rows=part.rows, bytes=part.bytes, sha256=part.sha256,
                date=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                pack_version=lm_eval_healthcare.__version__, **about,
            )  # fmt: skip
            self.manifest.entries[path] = entry
            self._save()
        except OSError as error:
            raise FolderError(_explain(target, error)) from error
        return entry

    def forget(self, path: str) -> None:
        """Remove a file that this package wrote, with its entry."""
        del self.manifest.entries[path]
        self._save()
        (self.folder / path).unlink(missing_ok=True)

    def _refuse_other_file(self, path: str, checksum: str) -> None:
        """A file that is not in the manifest is somebody's own, unless it is this very file, not yet entered."""
        target = self.folder / path
        if path not in self.manifest.entries and target.exists() and sha256(target) != checksum:
            raise DataError(
                f"{target} is in the way: it is not in {MANIFEST}, so this command did not write it. Move it away, or "
                "choose another folder"
            )

    def _remove_leftovers(self, target: Path) -> None:
        if self._locked:  # nobody else is writing, so these are of processes that have ended
            for leftover in target.parent.glob(f"{target.name}.*{PART}"):
                leftover.unlink(missing_ok=True)

    def _save(self) -> None:
        content = {
            "format": FORMAT,
            "files": {path: _without(asdict(entry), "path") for path, entry in sorted(self.manifest.entries.items())},
        }
        part = self.folder / f"{MANIFEST}.{os.getpid()}{PART}"
        try:
            with part.open("w", encoding="utf-8", newline="\n") as stream:
                json.dump(content, stream, indent=2, ensure_ascii=False, allow_nan=False)
                stream.write("\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, self.folder / MANIFEST)
            _sync_folder(self.folder)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[FolderWriter]:
    """Make a folder if needed and be the only one who writes to it.

    Another writer is waited for. Its end, however it comes, releases the folder.

    Raises:
        DataError: If the folder cannot be made or written, or its manifest cannot be read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / LOCK).open("a", encoding="utf-8")
    except OSError as error:
        raise DataError(_explain(folder, error)) from error
    with stream:
        locked = _lock(stream.fileno(), folder)
        yield FolderWriter(folder, locked)


def _lock(descriptor: int, folder: Path) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.warning("another process is writing to %s; waiting until it has ended", folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        logger.warning("%s cannot be locked (%s); let no other process write to it meanwhile", folder, error)
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Bring a renamed file's name to disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(target: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{target}: the disk is full or a limit is reached ({error.strerror}). Files that are whole stay; make "
            "room and give the same command again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{target}: no permission to write there ({error.strerror}); choose a folder that is yours"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{target}: a file is where a folder is needed ({error.strerror}); choose another folder"
    return f"{target}: cannot be written ({error})"


def _without(content: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != key}
