"""From names as users give them (tasks, groups, tags, patterns) to tasks, from the YAMLs alone."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.catalogue import SECTION, CatalogueEntry, TaskFacts, catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Task:
    """One task: what its YAML says about its data, and the whole YAML.

    `named` says whether the user gave the task's own name, not only that of a group or a tag, or a pattern.
    """

    facts: TaskFacts
    config: Mapping[str, Any]
    named: bool = False


def select(names: Iterable[str], roots: Sequence[Path]) -> list[Task]:
    """Find the tasks behind names.

    Args:
        names: Names or patterns (`mmlu_*`) of tasks, groups and tags; each may hold several, separated by commas.
        roots: Folders of task YAMLs; the last one that has a name wins.

    Returns:
        Each task once, in the order in which it was named.

    Raises:
        DataError: If a name is unknown, or a YAML cannot be read.
    """
    entries = _entries(roots)
    tags: dict[str, list[str]] = {}
    for entry in entries.values():
        tag = entry.config.get("tag") or []
        for name in [tag] if isinstance(tag, str) else tag:
            tags.setdefault(str(name), []).append(entry.name)
    found: dict[str, None] = {}
    given = [part.strip() for item in names for part in item.split(",")]
    for name in given:
        if not name:
            continue
        matches = fnmatch.filter([*entries, *tags], name) if set("*?[") & set(name) else [name]
        if not matches or any(match not in entries and match not in tags for match in matches):
            raise DataError(_unknown(name, [*entries, *tags]))
        for match in matches:
            found.update(dict.fromkeys(_leaves(match, entries, tags, ())))
    return [_task(entries[name], name in given) for name in found]


def every_task(roots: Sequence[Path]) -> list[Task]:
    """Return all tasks of the folders."""
    return [_task(entry) for entry in _entries(roots).values() if entry.kind == "task" and SECTION in entry.config]


def _entries(roots: Sequence[Path]) -> dict[str, CatalogueEntry]:
    try:
        return {entry.name: entry for root in roots for entry in catalogue(root)}
    except (OSError, ValueError) as error:
        raise DataError(f"a task YAML cannot be read: {error}") from error


def _task(entry: CatalogueEntry, named: bool = False) -> Task:
    try:
        return Task(facts_from_config(entry.config), entry.config, named)
    except ValueError as error:
        raise DataError(f"{entry.file}: {error}") from error


def _leaves(
    name: str, entries: Mapping[str, CatalogueEntry], tags: Mapping[str, list[str]], above: tuple[str, ...]
) -> Iterator[str]:
    if name in above:
        raise DataError(f"group {name} contains itself: {' > '.join((*above, name))}")
    entry = entries.get(name)
    if entry is not None and entry.kind == "task":
        yield name
        return
    members = entry.config.get("task") or [] if entry is not None else tags.get(name, [])
    for member in _members(members):
        if member not in entries and member not in tags:
            raise DataError(
                f"group {name} names '{member}', which is not a task of the pack; name its tasks one by one"
            )
        yield from _leaves(member, entries, tags, (*above, name))


def _members(members: Any) -> Iterator[str]:
    """Names in a group's `task:`; a group may also be written out inside another."""
    for member in members if isinstance(members, list) else [members]:
        if not isinstance(member, dict):
            yield str(member)
        elif isinstance(member.get("task"), list):
            yield from _members(member["task"])
        else:
            yield str(member.get("task") or member.get("group"))


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"task not found: {name}{hint or '.'} `lm-eval-healthcare list` shows the pack's tasks and groups"
