"""Finding the studies, `consistency.json` and `resilience.json`, below the paths of a report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.report.study_numbers import CONSISTENCY, RESILIENCE, STUDIES
from lm_eval_healthcare.results.discovery import files_below
from lm_eval_healthcare.results.names import printable

FILES = {"consistency.json": CONSISTENCY, "resilience.json": RESILIENCE}


@dataclass(frozen=True)
class StudyFile:
    """One study.

    Attributes:
        path: Where it lies.
        content: What it holds; `study` says which it is.
    """

    path: Path
    content: dict[str, Any]


def is_study(path: Path) -> bool:
    """Say whether a file has the name of a study."""
    return path.name in FILES and path.is_file()


def find_studies(paths: Sequence[Path], faults: list[str]) -> list[StudyFile]:
    """Return the studies below folders, or of these names, self-consistency first.

    Args:
        paths: Folders, and files, of which only those with the name of a study count.
        faults: Takes what has such a name and cannot be used.
    """
    found: dict[str, StudyFile] = {}
    for file in _files(paths):
        content = _read(file, faults)
        if content is not None:
            found.setdefault(os.path.realpath(file), StudyFile(file, content))
    return sorted(found.values(), key=lambda one: STUDIES.index(one.content["study"]))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (file for file in files_below(path, tuple(FILES), []) if file.name in FILES)
        elif is_study(path):
            yield path


def _read(file: Path, faults: list[str]) -> dict[str, Any] | None:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        faults.append(f"{printable(file)}: cannot be read ({error}); the study is left out. Make it again")
        return None
    if not isinstance(content, dict) or content.get("study") not in STUDIES:
        return None  # somebody else's file of this name
    if not isinstance(content.get("metrics"), dict):
        faults.append(f"{printable(file)}: a study without 'metrics'; it is left out. Make it again")
        return None
    return content
