"""Tiny encoders, each made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_encoders import TINY


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a tiny encoder by the name of its kind."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("tiny")
    return lambda kind: folder / kind if (folder / kind).exists() else TINY[kind](folder / kind)


@pytest.fixture(autouse=True)
def _own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is remembered between runs inside the test, and warnings from being told once for all tests."""
    from lm_eval_healthcare.metrics.encoding import device, fingerprints

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "_known", {})
    monkeypatch.setattr(device, "_told", set())
