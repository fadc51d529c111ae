"""Tiny encoders, each made once, and a hub without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_hub import Hub
from tiny_encoders import TINY, tiny_roberta


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


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    import huggingface_hub

    folder = tmp_path / "hub"
    folder.mkdir()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the hub is asked at all."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        pytest.fail("the hub was asked")

    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "HfApi", refuse)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def hub(tmp_path: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    import huggingface_hub

    folder = tiny_roberta(tmp_path / "on-hub")
    files = [path.name for path in folder.iterdir()]
    hub = Hub(folder, hub_cache, [*files, "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "README.md"])
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub
