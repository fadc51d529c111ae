"""Copying the hub's rows into a folder that then serves a machine without internet.

Rows are written as the hub has them, every raw split that the tasks read, once for all tasks that ask about the same
rows. What is there and whole is not fetched again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data import hub
from lm_eval_healthcare.data.files import EXTENSIONS, DataError
from lm_eval_healthcare.data.folder import LOCAL_FEWSHOT_SPLITS
from lm_eval_healthcare.data.manifest import FolderError, FolderWriter, is_whole, writing
from lm_eval_healthcare.data.row_files import FORMATS
from lm_eval_healthcare.data.source import Source, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts

logger = logging.getLogger(__name__)


@dataclass
class Fetched:
    """What became of the rows of one name.

    Attributes:
        name: The folder of the rows.
        tasks: The tasks that read them.
        state: `fetched`, `already there`, `skipped` or `failed`.
        rows: Rows by raw split.
        revision: The hub's commit, if it is known.
        licence: The data's licence.
        problem: Why they were skipped, or what failed.
        warnings: What the tasks say about the rows.
    """

    name: str
    tasks: tuple[str, ...]
    licence: str
    state: str = "fetched"
    rows: dict[str, int] = field(default_factory=dict)
    revision: str | None = None
    problem: str = ""
    warnings: list[str] = field(default_factory=list)


def fetch(
    tasks: Sequence[TaskFacts],
    folder: Path,
    revision: str | None = None,
    extension: str = "jsonl",
    progress: Callable[[Iterable[Any], str], Iterable[Any]] = lambda rows, label: rows,
) -> list[Fetched]:
    """Write the rows of tasks into a folder.

    One task that cannot be fetched does not keep the others from it; a disk that refuses ends the work.

    Args:
        tasks: The tasks.
        folder: The folder; made if needed.
        revision: The revision to take of every set; the newest if None.
        extension: `jsonl` or `parquet`.
        progress: Wraps the rows of a split to show how far it is; also given a label.

    Raises:
        DataError: If the folder cannot be written, or its manifest cannot be read.
    """
    by_name: dict[str, list[TaskFacts]] = {}
    for facts in tasks:
        by_name.setdefault(facts.folder_name, []).append(facts)
    out = []
    with writing(folder) as writer:
        for name, sharing in by_name.items():
            fetched = Fetched(name, tuple(facts.name for facts in sharing), sharing[0].licence)
            out.append(fetched)
            try:
                hub.refuse_without_hub(sharing[0])
            except DataError as error:
                fetched.state, fetched.problem = "skipped", str(error)
                continue
            try:
                _fetch_one(fetched, sharing, writer, revision, extension, progress)
                fetched.warnings = _try_out(sharing, folder)
            except FolderError as error:
                fetched.state, fetched.problem = "failed", f"{error}. What comes after it was not tried."
                break
            except DataError as error:
                fetched.state, fetched.problem = "failed", str(error)
    return out


def splits_read(facts: TaskFacts, available: Iterable[str]) -> list[str]:
    """Return the raw splits that a task reads, of those that the hub has."""
    there = list(available)
    if facts.read:
        return [split for split in facts.read if split in there] or there
    scored = next((split for split in (facts.eval_split, facts.flat_split) if split in there), None)
    examples = [split for split in (*facts.fewshot_splits, *LOCAL_FEWSHOT_SPLITS) if split in there and split != scored]
    return [split for split in (scored, *examples[:1]) if split is not None]


def _fetch_one(
    fetched: Fetched,
    sharing: Sequence[TaskFacts],
    writer: FolderWriter,
    asked: str | None,
    extension: str,
    progress: Callable[[Iterable[Any], str], Iterable[Any]],
) -> None:
    facts = sharing[0]
    _refuse_different_sources(sharing)
    _refuse_other_files(facts, writer)
    if _is_there(fetched, facts, writer, asked, extension):
        fetched.state = "already there"
        return
    found, fetched.revision = hub.fetch(facts, _asked(asked))
    splits = list(dict.fromkeys(split for task in sharing for split in splits_read(task, found)))
    if not splits:
        raise DataError(
            f"{facts.name}: {facts.dataset_path} has the splits {', '.join(found)}; none of them is read by this task "
            f"(it scores '{facts.eval_split}')"
        )
    origin = {**_hub_origin(facts, asked), "revision": fetched.revision}
    old = writer.manifest.of(fetched.name)
    for split in splits:
        path = f"{fetched.name}/{split}.{extension}"
        entry = old.get(path)
        same = entry is not None and fetched.revision is not None and entry.origin == origin
        if not (entry and same and entry.splits == tuple(splits) and is_whole(writer.folder, entry)):
            rows = found[split]
            entry = writer.write(
                path, progress(rows, f"{fetched.name}/{split}"), tasks=fetched.tasks, split=split, splits=tuple(splits),
                licence=facts.licence, origin=origin,
            )  # fmt: skip
        fetched.rows[split] = entry.rows
    for path in old:
        if path not in {f"{fetched.name}/{split}.{extension}" for split in splits}:
            writer.forget(path)  # another format, or a split that the newer revision does not have


def _is_there(fetched: Fetched, facts: TaskFacts, writer: FolderWriter, asked: str | None, extension: str) -> bool:
    """Whether everything that was asked for is in the folder and whole, so that the hub need not be asked."""
    entries = writer.manifest.of(fetched.name)
    wanted = {f"{fetched.name}/{split}.{extension}" for entry in entries.values() for split in entry.splits}
    if not entries or set(entries) != wanted:
        return False
    for entry in entries.values():
        same = {key: entry.origin.get(key) for key in _hub_origin(facts, asked)} == _hub_origin(facts, asked)
        if not same or not set(fetched.tasks) <= set(entry.tasks) or not is_whole(writer.folder, entry):
            return False
    fetched.rows = {entry.split: entry.rows for entry in entries.values()}
    fetched.revision = next(iter(entries.values())).origin.get("revision")
    return True


def _hub_origin(facts: TaskFacts, asked: str | None) -> dict[str, Any]:
    origin: dict[str, Any] = {"hub": facts.dataset_path, "config": facts.dataset_name, "asked_revision": asked}
    arguments = {k: v for k, v in hub.load_arguments(facts, _asked(asked)).items() if k != "revision"}
    if arguments:
        origin["arguments"] = arguments
    if facts.hub_splits:
        origin["splits"] = dict(facts.hub_splits)
    return origin


def _asked(revision: str | None) -> dict[str, str]:
    return {"revision": revision} if revision else {}


def _refuse_different_sources(sharing: Sequence[TaskFacts]) -> None:
    first = sharing[0]
    for other in sharing[1:]:
        if _hub_origin(other, None) != _hub_origin(first, None):
            raise DataError(
                f"{first.name} and {other.name} share the rows '{first.folder_name}', but their YAMLs name different "
                f"sets on the hub ({first.dataset_path}, {other.dataset_path}); fetch them into different folders"
            )


def _refuse_other_files(facts: TaskFacts, writer: FolderWriter) -> None:
    """Files that this command did not write would make it unclear which rows are meant."""
    name, folder, kinds = facts.folder_name, writer.folder, (*EXTENSIONS, *facts.readers)
    flat = [folder / f"{name}.{extension}" for extension in kinds]
    # A file of ours whose entry was not yet written when the process was killed is told apart when it is written.
    others = [extension for extension in kinds if extension not in FORMATS]
    inside = [path for path in (folder / name).glob("*") if path.suffix.removeprefix(".").lower() in others]
    strange = [path for path in (*flat, *inside) if path.is_file()]
    prepared = [folder / path for path, entry in writer.manifest.of(name).items() if "files" in entry.origin]
    if strange or prepared:
        why = "this command did not write it" if strange else "it was prepared from original files"
        raise DataError(
            f"{name}: {', '.join(map(str, strange or prepared))} is in the way, {why}. Move it away, or choose another "
            "folder"
        )


def _try_out(sharing: Sequence[TaskFacts], folder: Path) -> list[str]:
    """Load the rows as a run on the other machine will, so that what is wrong is known while there is a hub."""
    warnings: dict[str, None] = {}
    for facts in sharing:
        warnings.update(dict.fromkeys(load(facts, Source("folder", folder)).warnings))
    return list(warnings)
