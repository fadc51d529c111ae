"""Switching the pack on for the unmodified `lm_eval` command, and off again.

`enable` writes a folder of one-line YAMLs into the installed harness's tasks folder, each of which includes the pack's
file. `_` sorts before every other folder, and within one root the first file of a name wins, so the names become the
pack's. `disable` removes exactly that folder. If the pack is uninstalled first, the stubs no longer load and the
harness's own tasks come back.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import CatalogueEntry, catalogue, facts_from_config, read_yaml
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.harness.replaced import replaced_yaml

STUB_FOLDER = "_healthcare"
_PART = ".healthcare-"
_MARK = "# written by lm-eval-healthcare enable; remove with: lm-eval-healthcare disable"


class StubError(UserError):
    """The stub folder cannot be written or removed."""


@dataclass
class StubState:
    """What is in the stub folder.

    Attributes:
        folder: The folder, whether it exists or not.
        enabled: Whether it exists.
        current: Names whose stub includes the pack's file as it is now.
        stale: Names whose stub includes something else, or that the pack no longer has.
        missing: Names of the pack without a stub, while the folder exists.
    """

    folder: Path
    enabled: bool
    current: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def stub_folder() -> Path:
    """Return the folder in the installed harness that `enable` writes."""
    return HARNESS_TASKS / STUB_FOLDER


def enable() -> list[str]:
    """Write the stubs, replacing older ones as a whole.

    Returns:
        The names that now are the pack's.

    Raises:
        StubError: If the harness's tasks folder is not writable, or holds a folder of that name that is not ours.
    """
    folder = stub_folder()
    _refuse_foreign(folder)
    stubs = _stubs()
    try:
        _remove_leftovers(folder)
        fresh = Path(tempfile.mkdtemp(prefix=_PART, dir=folder.parent))
        try:
            for name, text in stubs.items():
                (fresh / f"{name}.yaml").write_text(text, encoding="utf-8")
            fresh.chmod(folder.parent.stat().st_mode & 0o777)
            if folder.exists():
                shutil.rmtree(folder)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise StubError(
            f"cannot write {folder}: {error.strerror or error}. Run this as the owner of that environment, or leave it "
            'as it is and use: lm_eval --include_path "$(lm-eval-healthcare path)"'
        ) from error
    return sorted(stubs)


def disable() -> bool:
    """Remove the stubs.

    Returns:
        Whether there were any.

    Raises:
        StubError: If the folder is not ours or cannot be removed.
    """
    folder = stub_folder()
    _refuse_foreign(folder)
    try:
        _remove_leftovers(folder)
        if not folder.exists():
            return False
        shutil.rmtree(folder)
    except OSError as error:
        raise StubError(f"cannot remove {folder}: {error.strerror or error}; run this as its owner") from error
    return True


def state() -> StubState:
    """Compare the stub folder with the pack."""
    folder = stub_folder()
    result = StubState(folder, folder.is_dir())
    if not result.enabled:
        return result
    wanted = _stubs()
    found = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.yaml"))}
    result.current = [name for name, text in found.items() if wanted.get(name) == text]
    result.stale = [name for name, text in found.items() if wanted.get(name) != text]
    result.missing = [name for name in wanted if name not in found]
    return result


def _stubs() -> dict[str, str]:
    stubs = {}
    for entry in catalogue(tasks_path()):
        text = f"{_MARK}\ninclude: {json.dumps(os.fspath(entry.file))}\n"
        if entry.kind == "task":
            text += f"tag: {json.dumps(_tags(entry))}\n"
        stubs[entry.name] = text
    return stubs


def _tags(entry: CatalogueEntry) -> list[str]:
    """The pack's tags and those of the harness's task that it replaces: groups such as `mmlu` are made of tags."""
    harness = replaced_yaml(facts_from_config(entry.config)) if entry.kind == "task" else None
    configs = [entry.config]
    if harness and (HARNESS_TASKS / harness).is_file():
        configs.append(read_yaml(HARNESS_TASKS / harness))
    tags: list[str] = []
    for config in configs:
        given = config.get("tag") or []
        tags += [given] if isinstance(given, str) else given
    return list(dict.fromkeys(tags))


def _remove_leftovers(folder: Path) -> None:
    """Remove what an `enable` that was killed half-way left behind; the harness would index it."""
    for part in folder.parent.glob(f"{_PART}*"):
        shutil.rmtree(part)


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    files = list(folder.iterdir()) if folder.is_dir() else []
    ours = folder.is_dir() and all(
        p.suffix == ".yaml" and _MARK in p.read_text("utf-8", errors="replace") for p in files
    )
    if not ours:
        raise StubError(
            f"{folder} was not written by this command; it is left as it is. Look into it, and remove it by hand"
        )
