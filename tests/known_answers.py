"""Reading the tables of the published packages' numbers (see `scripts/reference_tables.py`)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "reference"
TEXTS = FOLDER / "texts.json"
DOCUMENTS: list[dict[str, Any]] = json.loads(TEXTS.read_text(encoding="utf-8"))["documents"]
BLANK = {document["id"] for document in DOCUMENTS if document["kind"] == "blank"}
VISIBLE = [document for document in DOCUMENTS if document["kind"] != "blank"]


def table(name: str) -> dict[str, Any]:
    """Return a table, after a look at whether it was made of the texts that are there now."""
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert found["texts_sha256"] == hashlib.sha256(TEXTS.read_bytes()).hexdigest(), (
        f"{name}.json was made of other texts; write it anew: {found['command']}"
    )
    for setting in found["settings"]:
        assert list(setting["documents"]) == [document["id"] for document in DOCUMENTS]
    return found


def settings(name: str) -> list[Any]:
    """Return the settings of a table as parameters of a test."""
    import pytest

    return [pytest.param(setting, id=setting["name"]) for setting in table(name)["settings"]]


def texts(documents: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return predictions and references."""
    return [document["prediction"] for document in documents], [document["references"] for document in documents]


def far(found: dict[str, float], known: dict[str, float], tolerance: float) -> dict[str, tuple[float, float]]:
    """Return the documents whose score is further than the tolerance from the known one, or is none."""
    assert list(found) == list(known)
    return {key: (found[key], known[key]) for key in known if not abs(found[key] - known[key]) <= tolerance}
