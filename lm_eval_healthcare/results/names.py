"""How the harness names its files: `<model>/results_<time>.json` and `<model>/samples_<task>_<time>.jsonl`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAMP = r"(?P<stamp>\d{4}-\d{2}-\d{2}T\d{2}[-:]\d{2}[-:]\d{2}(?:\.\d+)?)"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_{_STAMP}\.jsonl?", re.DOTALL)
_RESULTS = re.compile(rf"(?:.+_)?{_STAMP}\.json", re.DOTALL)
_NOT_IN_FILE_NAMES = re.compile(r"[\"<>:/|\\?*\[\]]+")
_LONGEST_NAME = 200
_MODEL_ARGUMENTS = ("peft", "delta", "pretrained", "model", "path", "engine")


def parse_samples_name(name: str) -> tuple[str, str] | None:
    """Return task and time stamp in the name of a sample file, or None if it is not one's."""
    match = _SAMPLES.fullmatch(name)
    return (match["task"], match["stamp"]) if match else None


def parse_results_name(name: str) -> str | None:
    """Return the time stamp in the name of a results file, or None if it is not one's."""
    match = None if parse_samples_name(name) else _RESULTS.fullmatch(name)
    return match["stamp"] if match else None


def time_stamp(moment: datetime | None = None) -> str:
    """Return a local time as the harness writes it into file names, always with microseconds."""
    return (moment or datetime.now()).isoformat(timespec="microseconds").replace(":", "-")


def sanitized(model_name: str) -> str:
    """Return the folder name of a model."""
    return _NOT_IN_FILE_NAMES.sub("__", model_name)


def folder_name(name: str) -> str:
    """Return one name of a folder, whatever a file says: no separators, not `.` or `..`, nothing invisible."""
    plain = sanitized(name.encode("utf-8", "replace").decode("utf-8"))
    plain = "".join(letter if letter.isprintable() else "_" for letter in plain).strip()
    while len(plain.encode()) > _LONGEST_NAME:
        plain = plain[:-1]
    return f"__{plain}" if plain in ("", ".", "..") else plain


def printable(text: object) -> str:
    """Return a name as it can be shown: control characters and what UTF-8 does not have as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))


def model_name(results: Mapping[str, Any]) -> str | None:
    """Return the name of the model in a results file, also one that is too old to say it outright."""
    if results.get("model_name"):
        return str(results["model_name"])
    config = results.get("config")
    given = config.get("model_args") if isinstance(config, dict) else None
    if isinstance(given, str):
        given = dict(part.partition("=")[::2] for part in given.split(","))
    if not isinstance(given, dict):
        return None
    return next((str(given[key]) for key in _MODEL_ARGUMENTS if given.get(key)), None)
