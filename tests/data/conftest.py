"""A copy of the hub on disk: files in the hub's own layout, read by `datasets` itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pytest


@pytest.fixture
def hub_copy(tmp_path: Path) -> Iterator[Path]:
    """A folder whose `OWNER/NAME` folders are what `datasets.load_dataset` finds on the hub."""
    root, real = tmp_path / "hub", datasets.load_dataset

    def load(path: str, name: str | None = None, **kwargs: Any) -> Any:
        files = kwargs.pop("data_files", None)
        if files is None:
            return real(str(root / path), name, cache_dir=str(tmp_path / "cache"), **kwargs)
        local = {split: url.replace("hf://datasets", str(root), 1) for split, url in files.items()}
        return real(path, name, data_files=local, cache_dir=str(tmp_path / "cache"), **kwargs)

    with mock.patch("datasets.load_dataset", load):
        yield root
