"""Writing results and samples as the harness does: whole or not at all, and never over an existing file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.names import time_stamp
from lm_eval_healthcare.results.results_file import ResultsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_TRIES = 100
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
        raise ResultsError(f"{folder}: cannot write there ({error}); choose a folder with --output-dir") from error


def write_run(
    folder: Path,
    prefix: str,
    samples: Mapping[str, Iterable[Mapping[str, Any]]],
    results: Callable[[Mapping[str, str]], Mapping[str, Any]],
) -> Written:
    """Write the samples of several tasks and the results file that goes with them, under one new time stamp.

    All files are written under other names first and get their own ones at the end, the results file first: so nobody
    ever sees a part of a file, or samples without the results that say where they come from.

    Args:
        folder: Where to write; made if needed.
        prefix: What stands before the time in the name of the results file; `results` as the harness has it.
        samples: The rows of each task, in order.
        results: Makes the content of the results file from the `task_hashes` of the rows that were written.

    Raises:
        ResultsError: If the disk is full or the folder not writable; then nothing is left behind.
    """
    parts: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        hashes = {}
        for task, rows in samples.items():
            parts[task] = _part(folder, f"samples_{task}")
            hashes[task] = _write_rows(parts[task], rows)
        part = parts[""] = _part(folder, prefix)
        _write(part, [json.dumps(results(hashes), indent=2, ensure_ascii=False, default=str)])
        moment = datetime.now()
        for attempt in range(_TRIES):
            stamp = time_stamp(moment + timedelta(microseconds=attempt))
            targets = {task: folder / f"samples_{task}_{stamp}.jsonl" for task in samples}
            names = [(part, folder / f"{prefix}_{stamp}.json"), *((parts[task], targets[task]) for task in samples)]
            if _publish(names):
                return Written(names[0][1], list(targets.values()))
    except OSError as error:
        raise ResultsError(
            f"{folder}: results could not be written ({error}). Free space or choose another folder with --output-dir, "
            "and give the same command again"
        ) from error
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    raise ResultsError(f"{folder}: no free name for results; choose another folder with --output-dir")


def _part(folder: Path, name: str) -> Path:
    return folder / f".{name}.{_host()}.{os.getpid()}.part"


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


def _publish(names: Sequence[tuple[Path, Path]]) -> bool:
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
            with contextlib.suppress(OSError):
                path.unlink()


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
