"""What is known of the tasks in result files: the pack's own, a user's that include one of them, and others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.catalogue import SECTION, CatalogueEntry, catalogue, facts_from_config, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

OPEN_ENDED = ("OpenEndedTask", "RepeatedAnswersTask")
"""Names of the task classes whose answers text metrics score."""


class KnownTasks:
    """Looks facts up by the name of a task and by what its results say of it; reads only the YAMLs that it must."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Take the folders of task YAMLs: the user's, then the pack's."""
        self._folders = list(folders)
        self._known: dict[tuple[str, str], CatalogueEntry | None] = {}
        self._all: list[CatalogueEntry] | None = None

    def facts(self, task: str, metadata: Mapping[str, Any]) -> TaskFacts | None:
        """Return the facts of a task, or None if it is not of this pack.

        Args:
            task: The name in the results.
            metadata: The task's metadata there.
        """
        entry = self._entry(task, metadata)
        return None if entry is None else facts_from_config(entry.config)

    def has_texts(self, task: str, metadata: Mapping[str, Any], text_metrics: Sequence[str]) -> bool:
        """Say whether the answers of a task are meant to be scored by text metrics, as far as this is known.

        Choices that a model writes out, classes and perplexities are not.
        """
        section = metadata.get(SECTION)
        if isinstance(section, dict) and section.get("signatures"):
            return any(name in text_metrics for name in section["signatures"])
        entry = self._entry(task, metadata)
        return entry is None or str(entry.config.get("class", "")).endswith(OPEN_ENDED)

    def _entry(self, task: str, metadata: Mapping[str, Any]) -> CatalogueEntry | None:
        section = metadata.get(SECTION)
        benchmark = str(section.get("benchmark")) if isinstance(section, dict) else ""
        if (task, benchmark) not in self._known:
            self._known[task, benchmark] = self._look(task, benchmark, metadata)
        return self._known[task, benchmark]

    def _look(self, task: str, benchmark: str, metadata: Mapping[str, Any]) -> CatalogueEntry | None:
        own = Path(str(metadata.get("config_source") or ""))
        quick = [file for folder in self._folders for file in sorted(folder.glob(f"**/{_escaped(task)}.yaml"))]
        for file in [*quick, own]:
            if file.is_file() and (entry := _read(file, task)) is not None:
                return entry
        if benchmark and self._all is None:
            self._all = [entry for folder in self._folders for entry in catalogue(folder) if _is_ours(entry.config)]
        found = [entry for entry in self._all or [] if benchmark and entry.config[SECTION]["benchmark"] == benchmark]
        named = [entry for entry in found if entry.name == task]
        return next(iter([*named, *found]), None)


def _read(file: Path, task: str) -> CatalogueEntry | None:
    try:
        config = read_yaml(file)
        facts_from_config(config)
    except (OSError, ValueError):
        return None
    return CatalogueEntry(task, "task", file, config) if config.get("task") == task else None


def _is_ours(config: Mapping[str, Any]) -> bool:
    return isinstance(config.get(SECTION), dict) and "benchmark" in config[SECTION]


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name.replace("/", "_"))
