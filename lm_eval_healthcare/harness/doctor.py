"""What is installed, which file every name of the pack resolves to, and what can be reached."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from lm_eval.tasks import TaskManager

import lm_eval_healthcare
from lm_eval_healthcare import metrics, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.folder import find_files
from lm_eval_healthcare.data.listing import hub_source
from lm_eval_healthcare.data.source import parse_source
from lm_eval_healthcare.harness import stubs
from lm_eval_healthcare.harness.options import (
    ENVIRONMENT_PREFIX,
    OptionError,
    Options,
    option_names,
    unknown_variables,
)
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

_PACKAGES = (
    "lm_eval", "datasets", "numpy", "pyarrow", "sacrebleu", "rouge-score-rs", "transformers", "torch", "POT",
    "sentencepiece", "safetensors", "radgraph", "vllm",
)  # fmt: skip
_TESTED = ((0, 4, 12), (0, 5))


def diagnose() -> dict[str, Any]:
    """Look at the installation, without any network.

    Returns:
        A JSON-ready dict: `versions`, `options` (from the environment), `enabled`, `tasks` (each with `name`, the
        `file` that plain `lm_eval` would take, `owner` of it and the pack's own file), `metrics`, `data`, `cache`,
        `problems`.
    """
    state = stubs.state()
    tasks = _tasks()
    problems = _version_problems() + _stub_problems(state)
    problems += [
        f"{task['name']} is enabled, but {task['file']} comes first"
        for task in tasks
        if state.enabled and task["name"] in state.current and task["owner"] != "pack"
    ]
    cache = _cache()
    problems += [
        f"{name}: {folder['path']} is not writable" for name, folder in cache.items() if not folder["writable"]
    ]
    problems += unknown_variables() + _option_problems()
    data, data_problems = _data()
    return {
        "lm_eval_healthcare": lm_eval_healthcare.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "versions": {name: _version(name) for name in _PACKAGES},
        "tasks_path": str(tasks_path()),
        "harness_tasks": str(HARNESS_TASKS),
        "enabled": state.enabled,
        "stubs": {
            "folder": str(state.folder),
            "current": len(state.current),
            "stale": state.stale,
            "missing": state.missing,
        },
        "options": {n: v for n in option_names() if (v := os.environ.get(ENVIRONMENT_PREFIX + n.upper()))},
        "offline": {n: os.environ.get(n) for n in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE") if os.environ.get(n)},
        "tasks": tasks,
        "metrics": _metrics(),
        "data": data,
        "cache": cache,
        "problems": problems + data_problems,
    }


def _tasks() -> list[dict[str, Any]]:
    """Which file plain `lm_eval` would take for every name of the pack, and whose that is."""
    index = TaskManager().task_index
    tasks = []
    for entry in catalogue(tasks_path()):
        found = index.get(entry.name)
        file = str(found.yaml_path) if found is not None and found.yaml_path else None
        owner = "nobody" if file is None else _owner(file)
        tasks.append(
            {"name": entry.name, "kind": entry.kind, "file": file, "owner": owner, "pack_file": str(entry.file)}
        )
    return tasks


def _owner(file: str) -> str:
    path = Path(file)
    if path.is_relative_to(tasks_path()) or path.is_relative_to(stubs.stub_folder()):
        return "pack"
    return "harness" if path.is_relative_to(HARNESS_TASKS) else "other"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _option_problems() -> list[str]:
    try:
        Options.from_metadata({})
    except OptionError as error:
        return [f"in the environment: {error}"]
    return []


def _version_problems() -> list[str]:
    text = _version("lm_eval") or "0"
    numbers = tuple(int(part) for part in text.split(".")[:3] if part.isdigit())
    if not _TESTED[0] <= numbers < _TESTED[1]:
        return [f"lm_eval {text} is outside the range that the pack is tested with (>=0.4.12,<0.5)"]
    return []


def _stub_problems(state: stubs.StubState) -> list[str]:
    problems = []
    if state.stale:
        problems.append(
            f"stale stubs ({', '.join(state.stale)}) in {state.folder}; run `lm-eval-healthcare enable` again"
        )
    if state.missing:
        problems.append(f"no stubs for {', '.join(state.missing)}; run `lm-eval-healthcare enable` again")
    return problems


def _metrics() -> dict[str, dict[str, Any]]:
    """Which metrics could be computed with the options of the environment; the hub is not asked for their models."""
    try:
        options = Options.from_metadata({}).for_metrics
    except OptionError:
        options = {}
    found = {}
    with mock.patch.dict(os.environ, HF_HUB_OFFLINE="1"):
        for name in metrics.AVAILABLE:
            try:
                lack, signature = metrics.missing(name, **options), metrics.signature(name, **options)
            except ValueError as error:
                lack, signature = str(error), None
            found[name] = {"available": lack is None, "missing": lack, "signature": signature}
    return found


def _data() -> tuple[dict[str, Any], list[str]]:
    value = os.environ.get(ENVIRONMENT_PREFIX + "DATA") or "hub"
    try:
        source = parse_source(value)
    except DataError as error:
        return {"source": value}, [str(error)]
    facts = [facts_from_config(entry.config) for entry in catalogue(tasks_path()) if entry.kind == "task"]
    if source.folder is None:
        return {"source": "hub", "folder": None, "tasks": {fact.name: _hub_state(fact) for fact in facts}}, []
    return {"source": source.kind, "folder": str(source.folder), "tasks": _local_state(facts, source.folder)}, []


def _hub_state(facts: TaskFacts) -> str:
    """Whether the hub's set has been loaded on this machine before; the hub itself is not asked."""
    if facts.credentialed or not facts.dataset_path:
        return "not on the hub, needs a data folder"
    name = hub_source(facts).partition(" ")[0]
    home = Path(os.environ.get("HF_HOME") or _cache_home() / "huggingface")
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets") / name.replace("/", "___").lower()
    cached = prepared.is_dir() or (home / "hub" / f"datasets--{name.replace('/', '--')}").is_dir()
    return f"{name}: " + ("in the local cache" if cached else "not in the local cache, needs the hub")


def _local_state(facts: Sequence[TaskFacts], folder: Path) -> dict[str, str]:
    state = {}
    for fact in facts:
        try:
            files = find_files(fact, folder)
            state[fact.name] = ", ".join(sorted(path.name for paths in files.values() for path in paths))
        except DataError as error:
            state[fact.name] = f"not there: {error}"
    return state


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _cache() -> dict[str, dict[str, Any]]:
    home = _cache_home()
    folders = {
        "hub cache": Path(os.environ.get("HF_HOME") or home / "huggingface"),
        "answers without an output path, score cache": home / "lm_eval_healthcare",
    }
    return {name: {"path": str(folder), "writable": _writable(folder)} for name, folder in folders.items()}


def _writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
