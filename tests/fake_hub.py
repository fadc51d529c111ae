"""A hub with one model, and its cache, for tests without a network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lm_eval_healthcare.metrics.encoding import fingerprints

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def into_cache(source: Path, cache: Path, name: str, revision: str = "main") -> Path:
    """Lay a model into the hub's cache as its library does: contents as blobs, names as links to them."""
    base = cache / f"models--{name.replace('/', '--')}"
    snapshot = base / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (base / "blobs").mkdir()
    for path in source.iterdir():
        blob = base / "blobs" / fingerprints.sha256_of(path)
        shutil.copyfile(path, blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    (base / "refs").mkdir()
    (base / "refs" / revision).write_text(COMMIT)
    return snapshot


class Hub:
    """Stands for the hub: knows one model, or is out of reach."""

    def __init__(self, folder: Path, cache: Path, files: list[str]) -> None:
        self.folder, self.cache, self.files = folder, cache, files
        self.downloaded: list[str] = []
        self.asked = 0

    def model_info(self, name: str, revision: str | None = None, timeout: float | None = None) -> Any:
        self.asked += 1
        assert timeout is not None
        assert timeout <= 10
        if name != "me/tiny":
            raise OSError(f"404 for {name}\nmore lines")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in self.files])

    def snapshot_download(self, name: str, allow_patterns: list[str], **kwargs: Any) -> str:
        self.downloaded += allow_patterns
        chosen = self.cache.parent / "chosen"
        chosen.mkdir()
        for file in allow_patterns:
            shutil.copyfile(self.folder / file, chosen / file)
        return str(into_cache(chosen, self.cache, name))
