"""BLEURT is that of bleurt-pytorch 0.0.1 with the same weights, on transformers 4.57, text by text."""

from __future__ import annotations

import math
from typing import Any

import pytest

from known_answers import DOCUMENTS, VISIBLE, far, settings, texts
from lm_eval_healthcare.metrics.bleurt import Bleurt

TOLERANCE = 1e-6
UNREADABLE = {"lone-surrogate", "only-a-lone-surrogate"}
# Subwords that Google's BLEURT makes otherwise than the tokenizer that bleurt-pytorch takes from transformers: that one
# makes a special token of a written "[SEP]", and one unknown token of a word of 101 to 200 characters.
OTHERWISE = {
    "bert": {"special-tokens-bert", "very-long-word"},
    "rembert": {"special-tokens-bert", "special-tokens-roberta"},
}

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")


def known_answers(setting: dict[str, Any], part: int) -> dict[str, float]:
    """Return the best of several references, of documents for which the package has a number for each."""
    return {
        key: max(pair[part] for pair in pairs)
        for key, pairs in setting["documents"].items()
        if not any(isinstance(pair[part], dict) for pair in pairs)
    }


@pytest.mark.parametrize("setting", settings("bleurt"))
def test_scores_are_those_of_bleurt_pytorch(setting: dict[str, Any], model_folder: Any) -> None:
    measured = Bleurt().measure(["bleurt"], *texts(VISIBLE), bleurt_model=str(model_folder(setting["model"])))
    ids = [document["id"] for document in VISIBLE]
    found = dict(zip(ids, measured.scores["bleurt"].tolist(), strict=True))
    truncated = {key for key, cut in zip(ids, measured.truncated["bleurt"], strict=True) if cut}
    assert all(math.isfinite(value) for value in found.values())

    whole, cut = known_answers(setting, 0), known_answers(setting, 1)
    other = OTHERWISE[setting["name"]] | UNREADABLE
    for known in (whole, cut):
        wanted = {key: known[key] for key in ids if key in known and key not in other}
        assert len(wanted) >= 48
        assert far({key: found[key] for key in wanted}, wanted, TOLERANCE) == {}
    # bleurt-pytorch fails on what is too long for the model, and on nothing else that it can read.
    assert truncated - other == set(cut) - set(whole) - other
    assert len(truncated) >= 12


@pytest.mark.parametrize("setting", settings("bleurt"))
def test_the_order_of_the_two_texts_is_that_of_bleurt(setting: dict[str, Any], model_folder: Any) -> None:
    [document] = [document for document in DOCUMENTS if document["id"] == "negation"]
    [[known, _]] = setting["documents"]["negation"]
    model = str(model_folder(setting["model"]))
    [prediction], [[reference]] = texts([document])
    [right] = Bleurt().score([prediction], [[reference]], bleurt_model=model)
    [wrong] = Bleurt().score([reference], [[prediction]], bleurt_model=model)
    assert right == pytest.approx(known, abs=TOLERANCE)
    assert abs(wrong - known) > 1e-4
