"""Writing results and samples as the harness does: whole or not at all, and never over an existing file."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import socket
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.names import printable, time_stamp
from lm_eval_healthcare.results.results_file import ResultsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lm_eval_healthcare.results.discovery import RunFiles

_TRIES = 100
_numbers = itertools.count()
_PART = re.compile(r"\..+\.(?P<host>[^.]*)\.(?P<pid>\d+)\.part")


@dataclass(frozen=True)
class Written:
    """The files that were written."""

    results: Path
    samples: list[Path]


def refuse_unwritable(folder: Path) -> None:
    """Make a folder and try to write there, before anything is computed.

    Raises:
        ResultsError: If that cannot be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ResultsError(
            f"{printable(folder)}: cannot write there ({error}); choose a folder with --output-dir"
        ) from error


def place_of(run: RunFiles, output: Path | None) -> tuple[Path, str]:
    """Return the folder of a run's new files and what the name of the results file begins with.

    Args:
        run: The run that they are made from.
        output: Where results go, as the harness's `--output_path`; None: beside those of the run.
    """
    if output is None:
        return run.folder, "results"
    if output.suffix == ".json":
        return output.parent, output.stem
    return output / run.model_folder, "results"


class NotWritten(ResultsError):
    """Results cannot be written: the disk is full, or the folder not writable."""


class RunWriter:
    """Writes what comes of one run, task by task, and gives all files their names when the last is written.

    All files have other names until then, and the results file gets its own first: so nobody ever sees a part of a
    file, or samples without the results that say where they come from.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        """Prepare.

        Args:
            folder: Where to write; made if needed.
            prefix: What stands before the time in the name of the results file; `results` as the harness has it.
        """
        self._folder, self._prefix = folder, prefix
        self._parts: dict[str, Path] = {}
        self._hashes: dict[str, str] = {}

    def add(self, task: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the samples of a task.

        Args:
            task: The task's name.
            rows: Its rows, in order; what they raise leaves the task out.

        Raises:
            NotWritten: If that cannot be done.
        """
        with self._told():
            if not self._parts:
                self._folder.mkdir(parents=True, exist_ok=True)
                _remove_abandoned(self._folder)
            part = _part(self._folder, f"samples_{task}")
            try:
                self._hashes[task] = _write_rows(part, rows)
            except BaseException:
                _remove(part)
                raise
            self._parts[task] = part

    def publish(self, results: Callable[[Mapping[str, str]], Mapping[str, Any]]) -> Written:
        """Write the results file and give all files their names, under one new time stamp.

        Args:
            results: Makes the content of the results file from the `task_hashes` of the rows that were written.

        Raises:
            NotWritten: If that cannot be done; then nothing is left behind.
        """
        try:
            with self._told():
                return self._publish(results)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what has no name of its own; calling it again, or after `publish`, does nothing."""
        for part in self._parts.values():
            _remove(part)
        self._parts = {}

    def _publish(self, results: Callable[[Mapping[str, str]], Mapping[str, Any]]) -> Written:
        folder, tasks = self._folder, dict(self._parts)
        part = self._parts[""] = _part(folder, self._prefix)
        _write(part, [json.dumps(results(self._hashes), indent=2, ensure_ascii=False, default=str)])
        moment = datetime.now()
        for attempt in range(_TRIES):
            stamp = time_stamp(moment + timedelta(microseconds=attempt))
            targets = {task: folder / f"samples_{task}_{stamp}.jsonl" for task in tasks}
            names = [(part, folder / f"{self._prefix}_{stamp}.json")]
            names += [(own, targets[task]) for task, own in tasks.items()]
            if _take_names(names):
                return Written(names[0][1], list(targets.values()))
        raise NotWritten(f"{printable(folder)}: no free name for results; choose another folder with --output-dir")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NotWritten(
                f"{printable(self._folder)}: results could not be written ({error}). Free space or choose "
                "another folder with --output-dir, and give the same command again"
            ) from error


def _part(folder: Path, name: str) -> Path:
    """Return the name of a file until it gets its own; several of one name may be there at once."""
    return folder / f".{name}.{next(_numbers)}.{_host()}.{os.getpid()}.part"


def _remove(part: Path) -> None:
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)


def _host() -> str:
    return re.sub(r"[^\w-]", "-", socket.gethostname())


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows and return the harness's hash of all their questions, prompts and targets."""
    digest = hashlib.sha256()

    def lines() -> Iterator[str]:
        for row in rows:
            digest.update("".join(str(row[f"{key}_hash"]) for key in ("doc", "prompt", "target")).encode())
            yield json.dumps(row, ensure_ascii=False, default=str)

    _write(path, lines())
    return digest.hexdigest()


def _write(path: Path, lines: Iterable[str]) -> None:
    # A lone surrogate, which UTF-8 does not have, stands for itself in the escapes of JSON.
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        for line in lines:
            stream.write(line + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _take_names(names: Sequence[tuple[Path, Path]]) -> bool:
    """Give files their own names, all of them or, if one is taken, none."""
    done: list[Path] = []
    try:
        for part, target in names:
            if not _take_name(part, target):
                break
            done.append(target)
    except OSError:
        for target in done:
            target.unlink(missing_ok=True)
        raise
    if len(done) < len(names):
        for target in done:
            target.unlink(missing_ok=True)
    return len(done) == len(names)


def _take_name(part: Path, target: Path) -> bool:
    try:
        os.link(part, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: take the name first
        try:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        os.replace(part, target)
    return True


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes of this machine left that were killed while they wrote."""
    for path in folder.glob(".*.part"):
        match = _PART.fullmatch(path.name)
        if match and match["host"] == _host() and not _is_alive(int(match["pid"])):
            _remove(path)


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # where this question would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
