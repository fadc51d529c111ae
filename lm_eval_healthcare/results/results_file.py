"""Reading a results file of the harness: bare NaN allowed, metrics as `metric,filter`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.results.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEXT_OUTPUT = "generate_until"
SECTION = "healthcare"
METRIC_OPTIONS = "metric_options"
"""The key, in a task's section, of the options of metrics that its scores depend on."""
SCORED_FROM = "scored_from"
REPHRASED = "rephrased"
"""The key under which `rephrase` says what it did: samples then hold versions of one answer, not several answers."""
_STDERR = "_stderr"
_OBJECTS = ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "group_subtasks", "groups")
_OBJECTS_BY_TASK = ("results", "configs")


class ResultsError(UserError, ValueError):
    """A file of results or samples cannot be used; the message names it, and the line where there is one."""


def read_results(path: Path) -> dict[str, Any]:
    """Return the content of a results file.

    Raises:
        ResultsError: If it cannot be read, is cut, or is something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        empty = not isinstance(error, OSError) and path.stat().st_size == 0
        why = "the file is empty" if empty else f"it cannot be read ({error})"
        raise ResultsError(f"{printable(path)}: {why}; delete it, or get it again from where it was written") from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise ResultsError(
            f"{printable(path)}: no results of the harness (an object with the key 'results'); leave it out"
        )
    if odd := _odd(content):
        raise ResultsError(f"{printable(path)}: {odd}, which no results of the harness have; the file is left out")
    return content


def _odd(content: Mapping[str, Any]) -> str | None:
    """Say what is of another kind than in all results of the harness, or None if nothing is."""
    for key in _OBJECTS:
        if not isinstance(content.get(key), dict | None):
            return f"'{key}' is {_kind(content[key])}"
    for key in _OBJECTS_BY_TASK:
        for name, value in (content.get(key) or {}).items():
            if not isinstance(value, dict):
                return f"'{key}' of '{printable(name)}' is {_kind(value)}"
    for name, config in (content.get("configs") or {}).items():
        metadata = config.get("metadata")
        section = metadata.get(SECTION) if isinstance(metadata, dict) else None
        if not isinstance(section, dict | None):
            return f"'{SECTION}' of '{printable(name)}' is {_kind(section)}"
        for part in ("signatures", "reasons", METRIC_OPTIONS):
            if section is not None and not isinstance(section.get(part), dict | None):
                return f"'{part}' of '{printable(name)}' is {_kind(section[part])}"
    return None


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")


def task_config(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the configuration of a task as far as a results file has it."""
    configs = results.get("configs")
    config = configs.get(task) if isinstance(configs, dict) else None
    return dict(config) if isinstance(config, dict) else {}


def task_metadata(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the metadata of a task as far as a results file has them."""
    metadata = task_config(results, task).get("metadata")
    return dict(metadata) if isinstance(metadata, dict) else {}


def values_by_filter(results: Mapping[str, Any], task: str) -> dict[str, dict[str, Any]]:
    """Return the values of a task's metrics by filter, both in the order of the file, without standard errors."""
    row = results.get("results", {}).get(task)
    found: dict[str, dict[str, Any]] = {}
    for key, value in row.items() if isinstance(row, dict) else ():
        metric, comma, name = key.partition(",")  # a filter's name may hold commas, a metric's does not
        if comma and not metric.endswith(_STDERR):
            found.setdefault(name, {})[metric] = value
    return found


def scored_from(results: Mapping[str, Any]) -> str | None:
    """Return the name of the file whose answers were scored again, or None if the results are a run's own."""
    config = results.get("config")
    name = config.get(SCORED_FROM) if isinstance(config, dict) else None
    return str(name) if name else None
