"""Embedding metrics before the run: what is on the hub is fetched, what cannot be used is told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fake_hub import Hub
from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.encoding import release_all
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from tiny_encoders import tiny_bert

pytest.importorskip("torch")
pytest.importorskip("transformers")

OPTIONS = {
    "bert_score_model": "me/tiny", "bert_score_layer": 2,
    "mover_score_model": "me/tiny", "mover_score_idf": "uniform", "metrics_device": "cpu",
}  # fmt: skip


@pytest.mark.parametrize("name", ["bert_score", "bert_score_recall", "mover_score"])
def test_the_encoder_is_fetched_before_the_run_and_not_while_scoring(name: str, hub: Hub) -> None:
    if name == "mover_score":
        pytest.importorskip("ot")
    assert metrics.missing(name, **OPTIONS) is None
    assert "@absent" in metrics.signature(name, **OPTIONS)
    metrics.prepare(name, **OPTIONS)
    assert "model.safetensors" in hub.downloaded
    before = hub.asked, len(hub.downloaded)
    assert "@absent" not in metrics.signature(name, **OPTIONS)
    metrics.prepare(name, **OPTIONS)
    assert np.isfinite(metrics.score(["mild fever"], ["dry cough"], [name], **OPTIONS)[name]).all()
    assert (hub.asked, len(hub.downloaded)) == before
    release_all()


def test_an_encoder_that_cannot_be_fetched_is_told(hub: Hub) -> None:
    with pytest.raises(ModelMissing, match="me/other"):
        metrics.prepare("bert_score", bert_score_model="me/other")


def test_what_was_fetched_and_cannot_be_used_is_told(hub: Hub) -> None:
    with pytest.raises(ValueError, match="bert_score_layer=4: me/tiny has 3 layers"):
        metrics.prepare("bert_score", bert_score_model="me/tiny", bert_score_layer=4)


def test_baselines_of_an_encoder_that_is_not_here_yet(hub: Hub, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("LAYER,P,R,F\n1,0.1,0.1,0.1\n")
    options = {"bert_score_model": "me/tiny", "bert_score_layer": 2, "bert_score_rescale": str(table)}
    assert metrics.missing("bert_score", **options) is None
    with pytest.raises(ModelMissing, match=r"table\.tsv: no baseline for layer 2"):
        metrics.prepare("bert_score", **options)
    assert "no baseline for layer 2" in str(metrics.missing("bert_score", **options))


def test_what_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "tiny", model_type="no-such-type")
    options = {"mover_score_model": str(folder)}
    told = f"mover_score: mover_score_model={folder}: config.json says model_type 'no-such-type'"
    pytest.importorskip("ot")
    assert str(metrics.missing("mover_score", **options)).startswith(told)
    with pytest.raises(ModelMissing, match=re.escape(told)):
        metrics.prepare("mover_score", **options)
