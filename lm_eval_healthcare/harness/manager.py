"""Finding tasks: the pack's folder beside the user's own, with the harness's index only when it is needed."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.tasks import TaskManager

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.folder import has_rows
from lm_eval_healthcare.data.source import parse_source
from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

logger = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")
_PACK_PREFIX = "healthcare"


def build_task_manager(
    include_path: str | Path | Sequence[str | Path] | None = None,
    metadata: Mapping[str, Any] | None = None,
    include_defaults: bool = True,
) -> TaskManager:
    """Return a harness `TaskManager` over the pack's tasks and the user's own.

    Args:
        include_path: The user's folder or folders; a later one wins over an earlier, all of them over the pack.
        metadata: Options of the pack and of other tasks.
        include_defaults: Whether to index the harness's own tasks, which takes several seconds.

    Raises:
        OptionError: If a folder does not exist; the harness would take it for an empty one in silence.
    """
    folders = [tasks_path(), *user_folders(include_path)]
    with _quiet_overrides():
        return TaskManager(include_path=list(folders), include_defaults=include_defaults, metadata=dict(metadata or {}))


def user_folders(include_path: str | Path | Sequence[str | Path] | None) -> list[Path]:
    """Return the user's task folders.

    Raises:
        OptionError: If one does not exist.
    """
    given = [include_path] if isinstance(include_path, str | Path) else list(include_path or [])
    folders = [Path(folder).expanduser() for folder in given]
    for folder in folders:
        if not folder.is_dir():
            raise OptionError(f"--include_path {folder}: no such folder; give the option once for each folder")
    return folders


def needs_harness_index(names: Iterable[str], manager: TaskManager) -> bool:
    """Say whether any of these names could mean something outside the pack.

    Args:
        names: Task names or patterns as the user gave them.
        manager: A manager without the harness's own tasks.
    """
    root = tasks_path()
    for name in names:
        if _WILDCARDS & set(name):
            if not name.startswith(_PACK_PREFIX):
                return True
            matches: Sequence[str] = fnmatch.filter(manager.all_tasks, name)
        else:
            matches = [name] if name in manager.task_index else []
        if not matches or not all(_is_pack(match, manager, root) for match in matches):
            return True
    return False


def _is_pack(name: str, manager: TaskManager, root: Path) -> bool:
    entry = manager.task_index[name]
    if entry.yaml_path is None:  # a tag: the pack's if all its tasks are
        return all(_is_pack(task, manager, root) for task in entry.tags)
    return Path(entry.yaml_path).is_relative_to(root)


@contextlib.contextmanager
def _quiet_overrides() -> Iterator[None]:
    """Keep the harness from warning, once per task, that the pack replaces a task: that is what it is for."""
    root, log = tasks_path(), logging.getLogger("lm_eval.tasks._index")

    def other(record: logging.LogRecord) -> bool:
        if "overrides" not in str(record.msg) or not isinstance(record.args, tuple) or len(record.args) != 3:
            return True
        new = record.args[1]
        return new is not None and not Path(str(new)).is_relative_to(root)

    log.addFilter(other)
    try:
        yield
    finally:
        log.removeFilter(other)


def leave_out_without_rows(manager: TaskManager, names: Sequence[str], data: str) -> list[str]:
    """Take tasks out of groups and tags whose rows can only come from the user's own files, if those are not there.

    Such a task stays if the user names it: then its error says what to do. A group or a tag that it belongs to would
    otherwise never run without these files.

    Args:
        manager: The manager that will load the tasks; its groups and tags are changed.
        names: What the user asked for.
        data: The option `data`.

    Returns:
        The names that were left out.
    """
    folder = parse_source(data).folder
    tasks = [facts_from_config(entry.config) for entry in catalogue(tasks_path()) if entry.kind == "task"]
    own = [facts for facts in tasks if facts.credentialed or not facts.dataset_path]
    without = {facts.name for facts in own if folder is None or not has_rows(facts, folder)} - set(names)
    asked = set(leaves(manager, [match for name in names for match in manager.match_tasks([name])]))
    out = sorted(without & asked)
    for entry in manager.task_index.values() if out else ():
        members = (entry.cfg or {}).get("task")
        if isinstance(members, list):
            entry.cfg = {**(entry.cfg or {}), "task": [member for member in members if member not in out]}
        elif entry.yaml_path is None:
            entry.tags = entry.tags - set(out)
    return out


def without_overlap(manager: TaskManager, names: Sequence[str]) -> list[str]:
    """Return names that ask for the same tasks, each once, since the harness refuses a task that it is given twice.

    Groups stay as they are, but for one whose tasks are all in another; what a group holds is taken out of tags, and
    single tasks.

    Args:
        manager: The manager that will load the tasks.
        names: Names or patterns as the user gave them; names of YAML files stay.

    Raises:
        ValueError: If two groups share a part of their tasks.
    """
    matched = list(
        dict.fromkeys(m for name in names for m in ([name] if name.endswith(".yaml") else manager.match_tasks([name])))
    )
    members = {name: set(leaves(manager, [name])) for name in matched if _is_group(manager, name)}
    inside = {a for a in members for b in members if a != b and (members[a] < members[b])}
    kept = [name for name in members if name not in inside]
    for place, name in enumerate(kept):
        for other in kept[:place]:
            if members[name] & members[other]:
                both = ", ".join(sorted(members[name] & members[other])[:3])
                raise ValueError(
                    f"the groups {other} and {name} both hold {both}, and the harness runs a task once. Name one of "
                    "the groups and the other's tasks one by one, or run one group after the other"
                )
    if inside:
        logger.info("%s: part of another group that is run", ", ".join(sorted(inside)))
    taken = {leaf for name in kept for leaf in members[name]}
    out: list[str] = []
    for name in matched:
        own = [] if name in members else [leaf for leaf in leaves(manager, [name]) if leaf not in taken]
        whole = name in kept or own == list(leaves(manager, [name]))
        out += [name] if whole and name not in inside else own
        taken |= set(own)
    return list(dict.fromkeys(out))


def _is_group(manager: TaskManager, name: str) -> bool:
    entry = manager.task_index.get(name)
    return entry is not None and isinstance((entry.cfg or {}).get("task"), list)


def leaves(manager: TaskManager, names: Iterable[str]) -> Iterator[str]:
    """Yield the task names behind names of tasks, groups and tags, without loading anything."""
    for name in names:
        entry = manager.task_index.get(name)
        members = (entry.cfg or {}).get("task") if entry is not None else None
        if isinstance(members, list):
            yield from _members(manager, members)
        elif entry is not None and entry.yaml_path is None and entry.tags:
            yield from sorted(entry.tags)
        else:
            yield name


def _members(manager: TaskManager, members: Sequence[Any]) -> Iterator[str]:
    """Yield the task names behind the members of a group; a member may be a name, or a task or group written there."""
    for member in members:
        if isinstance(member, str):
            yield from leaves(manager, [member])
        elif isinstance(member.get("task"), list):
            yield from _members(manager, member["task"])
        else:
            yield from leaves(manager, [str(member.get("task") or member.get("group"))])
