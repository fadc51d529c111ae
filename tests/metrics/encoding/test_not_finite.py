"""Encoders whose vectors are no numbers: no scores, one warning a metric, and nothing that would be kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.encoding import release_all
from tiny_encoders import tiny_bert

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("ot")

NAMES = ["bert_score", "bert_score_recall", "mover_score"]


def damaged(folder: Path, number: float) -> Path:
    """An encoder whose vector of the word `cough` holds a number that is none."""
    tiny_bert(folder, layers=1)
    weights = load_file(folder / "model.safetensors")
    row = (folder / "vocab.txt").read_text("utf-8").split("\n").index("cough")
    weights["embeddings.word_embeddings.weight"][row] = number
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_score_one_warning_no_report(number: float, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = str(damaged(tmp_path / "broken", number))
    told: list[tuple[str, int]] = []
    options: dict[str, Any] = {
        "bert_score_model": model, "bert_score_layer": 1, "mover_score_model": model, "mover_score_idf": "uniform",
        "metrics_device": "cpu", "report": lambda name, row, *found: told.append((name, row)),
    }  # fmt: skip
    # The pain is in a text of its own; attention brings the cough to every word of a text.
    predictions, references = (
        ["cough", "mild fever", "fever", "mild"],
        ["fever", "dry cough", "pain", ["pain", "cough"]],
    )
    with caplog.at_level(logging.WARNING):
        found = metrics.score(predictions, references, NAMES, **options)
    for name in NAMES:
        assert np.isfinite(found[name]).tolist() == [False, False, True, False]
    assert sorted(told) == [(name, 2) for name in sorted(NAMES)]
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    for metric in ("bert_score", "mover_score"):
        assert any(text.startswith(f"{metric}: {model} gives vectors that are no finite numbers") for text in texts)
    release_all()
