"""Is a data folder what it should be: every file against the manifest, every task's rows against what is published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lm_eval_healthcare.data.files import EXTENSIONS, DataError, read_rows, sha256
from lm_eval_healthcare.data.manifest import LOCK, MANIFEST, Entry, Manifest, read_manifest
from lm_eval_healthcare.data.row_files import PART
from lm_eval_healthcare.data.source import Source, load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts


@dataclass
class FileReport:
    """One file: `state` is `whole`, `changed`, `missing`, `extra` or `leftover`; `problem` says what to do."""

    path: str
    state: str
    rows: int | None = None
    origin: str = ""
    problem: str = ""


@dataclass
class TaskReport:
    """One task: the rows that are scored, the numbers that are published, what is wrong, and what is good to know.

    `missing` if there are none and that is no problem, since they can only be the user's own files.
    """

    task: str
    rows: int | None = None
    published: tuple[int, ...] = ()
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: bool = False


@dataclass
class Verified:
    """What was found out about a folder."""

    files: list[FileReport] = field(default_factory=list)
    tasks: list[TaskReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        in_files = any(report.problem for report in self.files)
        return not (self.problems or in_files or any(report.problems for report in self.tasks))


def verify(
    folder: Path,
    tasks: Sequence[TaskFacts],
    expected: Collection[str] = (),
    named: Collection[str] = (),
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> Verified:
    """Check a data folder; nothing is written.

    Args:
        folder: The folder.
        tasks: The tasks to look at.
        expected: Names of tasks that should have rows; another one without rows is left out of the report.
        named: Those of them that the user gave by name. A task that is only in a group or a tag may lack rows if these
            can only be the user's own files: that is reported, and no problem.
        options: The tasks' own options by name, where they are not the defaults; such rows have no published number.

    Raises:
        DataError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: {'a file, not a folder' if folder.is_file() else 'no such folder'}")
    out = Verified()
    manifest = None
    try:
        manifest = read_manifest(folder)
        if manifest is None:
            out.notes.append(f"there is no {MANIFEST}: files are not checked, only the rows of tasks")
    except DataError as error:
        out.problems.append(str(error))
    kinds = {*EXTENSIONS, *(extension for facts in tasks for extension in facts.readers)}
    out.files = list(_check_files(folder, manifest, kinds))
    out.problems += _incomplete(manifest or Manifest())
    for facts in tasks:
        there = _has_rows(facts, folder) or _is_listed(facts, manifest)
        if not there and facts.name in expected and facts.name not in named and _only_from_users(facts):
            out.tasks.append(TaskReport(facts.name, published=tuple(facts.row_counts(facts.eval_split)), missing=True))
        elif there or facts.name in expected:
            out.tasks.append(_check_task(facts, folder, (options or {}).get(facts.name, {})))
    if not out.tasks and not out.files:
        out.problems.append(f"{folder} holds no data of any task")
    return out


def _check_files(folder: Path, manifest: Manifest | None, kinds: Iterable[str]) -> Iterator[FileReport]:
    entries = manifest.entries if manifest else {}
    for entry in entries.values():
        yield _check_file(folder, entry)
    for path in sorted(p for p in folder.rglob("*") if not p.is_dir()):
        name = path.relative_to(folder).as_posix()
        if path.name.endswith(PART):
            yield FileReport(
                name, "leftover",
                problem="left by a writing that ended early, or is going on; delete it, or give the command again",
            )  # fmt: skip
        elif manifest and name not in entries and name not in (MANIFEST, LOCK):
            is_data = path.suffix.removeprefix(".").lower() in kinds
            told = f"not in {MANIFEST}, and tasks may read it; delete it, or write it with `data prepare`"
            yield FileReport(name, "extra", problem=told if is_data else "")


def _check_file(folder: Path, entry: Entry) -> FileReport:
    origin = entry.origin.get("hub") or ", ".join(str(file.get("name")) for file in entry.origin.get("files", []))
    report = FileReport(entry.path, "whole", entry.rows, str(origin))
    path = folder / entry.path
    if not path.is_file():
        report.state, report.problem = "missing", f"it is in {MANIFEST} but not in the folder; copy or fetch it again"
        return report
    try:
        size, found = path.stat().st_size, None
        if size != entry.bytes:
            report.problem = f"{size:,} bytes, where {MANIFEST} says {entry.bytes:,}; copy or fetch it again"
        elif sha256(path) != entry.sha256:
            report.problem = f"its checksum is not that in {MANIFEST}; copy or fetch it again"
        elif (found := len(read_rows(path))) != entry.rows:
            report.problem = f"{found:,} rows, where {MANIFEST} says {entry.rows:,}"
    except (OSError, DataError) as error:
        report.problem = f"cannot be read: {error}"
    report.state = "changed" if report.problem else "whole"
    return report


def _incomplete(manifest: Manifest) -> list[str]:
    """Sets of which only some splits were written before the writing ended."""
    problems: dict[str, None] = {}
    for entry in manifest.entries.values():
        name, _, file = entry.path.rpartition("/")
        extension = file.rpartition(".")[2]
        missing = [split for split in entry.splits if f"{name}/{split}.{extension}" not in manifest.entries]
        if missing:
            problems[f"{name}: the splits {', '.join(missing)} were not fetched; give the command again"] = None
    return list(problems)


def _has_rows(facts: TaskFacts, folder: Path) -> bool:
    extensions = (*EXTENSIONS, *facts.readers)
    return any(
        any((folder / name).glob("*")) or any((folder / f"{name}.{extension}").is_file() for extension in extensions)
        for name in (facts.name, facts.folder_name)
    )


def _only_from_users(facts: TaskFacts) -> bool:
    return facts.credentialed or not facts.dataset_path


def _is_listed(facts: TaskFacts, manifest: Manifest | None) -> bool:
    return manifest is not None and any(facts.name in entry.tasks for entry in manifest.entries.values())


def _check_task(facts: TaskFacts, folder: Path, options: Mapping[str, str]) -> TaskReport:
    report = TaskReport(facts.name, published=tuple(facts.row_counts(facts.eval_split)))
    try:
        data = load(facts, Source("folder", folder), options=options)
    except DataError as error:
        report.problems.append(str(error).removeprefix(f"{facts.name}: "))
        return report
    report.rows, report.published = len(data.splits[data.eval_split]), tuple(facts.row_counts(data.eval_split))
    report.notes = [warning.removeprefix(f"{facts.name}: ") for warning in data.warnings]
    chosen = {name: value for name, value in options.items() if value != facts.options[name].default}
    if chosen:
        told = ", ".join(f"{name}={value}" for name, value in chosen.items())
        report.notes.append(f"rows are those of {told}; their number is not compared with the published one")
    elif report.published and report.rows not in report.published:
        # `load` tells it as a warning, since it is no reason not to run.
        report.notes = [note for note in report.notes if not note.endswith("not comparable with published ones")]
        lost = ", ".join(f"{reason}: {count}" for reason, count in data.left_out.items())
        report.problems.append(
            f"{report.rows:,} rows are scored, {' or '.join(f'{n:,}' for n in report.published)} are published"
            + (f" (left out: {lost})" if lost else "")
        )
    return report
