"""The model's answers on disk before any scoring starts, and back again.

One folder a run holds `run.json` (what was run) and `<task>.jsonl`: one line per request with the document, the prompt
and every answer. A failing metric or a killed process costs no generation: `lm-eval-healthcare score FOLDER` goes on
from here.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.schema import without_lone_surrogates
from lm_eval_healthcare.results.discovery import ANSWERS_FILE, ANSWERS_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

DELETED = "deleted_answers"
FORMAT = f"{ANSWERS_FORMAT} 1"
_RANK = re.compile(r"^(?P<task>.+?)(?:\.rank\d+)?$")


@dataclass
class SavedRequest:
    """One request to the model and its answers.

    Attributes:
        doc_id: The document's place in the scored split.
        idx: The request's place among those of its document (one per choice in multiple choice).
        request_type: The harness's name of the model's method.
        doc: The row.
        arguments: What the model was given: prompt, then continuation or generation arguments.
        resps: The answers, one per repeat: a text, or [log-likelihood, is_greedy].
    """

    doc_id: int
    idx: int
    request_type: str
    doc: dict[str, Any]
    arguments: list[Any]
    resps: list[Any]


@dataclass
class SavedRun:
    """One folder of saved answers: how the run was made, and the requests of each task in order."""

    folder: Path
    run: dict[str, Any]
    tasks: dict[str, list[SavedRequest]] = field(default_factory=dict)


def write_run(folder: Path, run: dict[str, Any]) -> None:
    """Write `run.json`; texts that are not JSON become text."""
    folder.mkdir(parents=True, exist_ok=True)
    content = without_lone_surrogates({"format": FORMAT, **run})
    _write_whole(folder / ANSWERS_FILE, [json.dumps(content, indent=2, ensure_ascii=False, default=str)])


def answers_file(folder: Path, task: str, rank: int = 0) -> Path:
    """Return the file in which the answers of a task lie, or would lie."""
    return folder / f"{_stem(task, rank)}.jsonl"


def write_answers(
    folder: Path, task: str, requests: Iterable[SavedRequest], rank: int = 0, private: bool = False
) -> Path:
    """Write the answers of one task, whole or not at all.

    Args:
        folder: The run's folder; made if needed.
        task: The task's name.
        requests: Its requests with their answers, in order.
        rank: The process's rank; ranks other than 0 write a file of their own.
        private: Let only the user read the file.

    Returns:
        The file.

    Raises:
        OSError: If the disk is full or the folder not writable; nothing half-written stays under the final name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = answers_file(folder, task, rank)
    lines = (json.dumps(without_lone_surrogates(asdict(r)), ensure_ascii=False, default=str) for r in requests)
    _write_whole(path, lines, private)
    return path


def mark_deleted(folder: Path, task: str) -> None:
    """Write into `run.json` that the answers of a task were deleted after they had been scored."""
    run = _parse((folder / ANSWERS_FILE).read_text("utf-8"), str(folder / ANSWERS_FILE))
    write_run(folder, {**run, DELETED: sorted({*run.get(DELETED, []), task})})


def read_run(folder: Path, partial: bool = False) -> SavedRun:
    """Read a folder of saved answers.

    Args:
        folder: The run's folder.
        partial: Take what is there, even if tasks or ranks of the run are missing or a last line is cut.

    Raises:
        DataError: If the folder or its `run.json` is missing, a line is not what this module writes or is there twice,
            or the answers of a task or a rank are missing.
    """
    path = folder / ANSWERS_FILE
    if not path.is_file():
        found = sorted(p.parent for p in folder.glob(f"**/{ANSWERS_FILE}")) if folder.is_dir() else []
        hint = f" Did you mean {found[-1]}?" if found else " A run prints the folder when it saves its answers."
        raise DataError(f"{folder}: no saved answers here (no {ANSWERS_FILE}).{hint}")
    saved = SavedRun(folder, _parse(path.read_bytes(), str(path)))
    _refuse_odd(saved.run, path)
    files = sorted(folder.glob("*.jsonl"))
    if not partial:
        _refuse_incomplete(saved, {file.stem for file in files})
    for file in files:
        match = _RANK.match(file.stem)
        task = unquote(match["task"] if match else file.stem)
        saved.tasks.setdefault(task, []).extend(_requests(file, partial))
    for task, requests in saved.tasks.items():
        requests.sort(key=lambda request: (request.doc_id, request.idx))
        _refuse_repeated(folder, task, requests)
    if not saved.tasks:
        deleted = saved.run.get(DELETED)
        why = (
            f"those of {', '.join(deleted)} were deleted once scored, as credentialed texts are unless keep_text=yes"
            if deleted
            else "the run ended before they were saved"
        )
        raise DataError(f"{folder}: {ANSWERS_FILE} is there, but no task's answers; {why}")
    return saved


def _requests(file: Path, partial: bool) -> list[SavedRequest]:
    lines = [(n, line) for n, line in enumerate(file.read_bytes().split(b"\n"), 1) if line.strip()]
    found = []
    for n, line in lines:
        place = f"{file}, line {n}"
        try:
            found.append(_request(_parse(line, place), place))
        except DataError:
            if not (partial and n == lines[-1][0]):
                raise
            logger.warning("%s, the last one, is cut and was skipped", place)
    return found


def _refuse_odd(run: dict[str, Any], path: Path) -> None:
    tasks, arguments = run.get("tasks", {}), run.get("arguments")
    if (
        not isinstance(tasks, dict)
        or not all(isinstance(task, dict) for task in tasks.values())
        or not isinstance(arguments, dict | None)
    ):
        raise DataError(f"{path}: not as a run writes it ('tasks' and 'arguments' are objects); get it again")


def _refuse_repeated(folder: Path, task: str, requests: Sequence[SavedRequest]) -> None:
    counts = Counter((request.doc_id, request.idx) for request in requests)
    repeated = sorted({doc_id for (doc_id, _), count in counts.items() if count > 1})
    if repeated:
        raise DataError(
            f"{folder}: the answers of {task} hold document {repeated[0]} more than once ({len(repeated)} documents "
            "repeat), so they are of more than one run; delete the lines that are too many"
        )


def _stem(task: str, rank: int) -> str:
    """A task's file name; a name such as `my/task` is made safe for files."""
    return quote(task, safe="") + (f".rank{rank}" if rank else "")


def _refuse_incomplete(saved: SavedRun, found: set[str]) -> None:
    ranks = range(int(saved.run.get("world_size") or 1))
    kept = set(saved.run.get("tasks", {})) - set(saved.run.get(DELETED, []))
    wanted = {_stem(task, rank) for task in kept for rank in ranks}
    if wanted - found and found:
        raise DataError(
            f"{saved.folder}: the answers in {', '.join(sorted(wanted - found))} are missing; the run ended before "
            "they were saved. To score what is there, add --partial"
        )


def _write_whole(path: Path, lines: Iterable[str], private: bool = False) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    mode = 0o600 if private else 0o666  # the process's mask takes its part of this
    try:
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8", newline="\n"
        ) as stream:
            for line in lines:
                stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _parse(text: str | bytes, place: str) -> dict[str, Any]:
    try:
        content = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise DataError(f"{place}: expected an object, got {type(content).__name__}")
    return content


def _request(content: dict[str, Any], place: str) -> SavedRequest:
    try:
        request = SavedRequest(**content)
    except TypeError as error:
        raise DataError(f"{place}: not a saved answer ({error})") from error
    kinds = {"doc_id": int, "idx": int, "request_type": str, "doc": dict, "arguments": list, "resps": list}
    odd = [name for name, kind in kinds.items() if not isinstance(getattr(request, name), kind)]
    if odd:
        raise DataError(f"{place}: not a saved answer ({', '.join(odd)} of another kind than a run writes)")
    return request


def same_documents(requests: Sequence[SavedRequest]) -> list[dict[str, Any]]:
    """Return the documents of a task in order, each once."""
    return list({request.doc_id: request.doc for request in requests}.values())
