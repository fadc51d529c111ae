"""BERTScore is that of bert-score 0.3.13 on transformers 4.57, text by text."""

from __future__ import annotations

import math
from typing import Any

import pytest

from known_answers import BLANK, DOCUMENTS, FOLDER, far, settings, texts
from lm_eval_healthcare import metrics

NAMES = ["bert_score_precision", "bert_score_recall", "bert_score"]
# bert-score does not clip what rounding makes of 1, and its own numbers move by up to 1.8e-7 with the batch.
TOLERANCE = 1e-6
UNREADABLE = {"lone-surrogate", "only-a-lone-surrogate"}
OTHERWISE = {
    # Where a text spells out special tokens, the slow SentencePiece tokenizer, which bert-score takes, drops the space
    # before them; fast tokenizers of the same files do not.
    "rembert-layer-3": {"special-tokens-bert", "special-tokens-roberta"},
}

pytest.importorskip("transformers")


def options(setting: dict[str, Any], model_folder: Any) -> dict[str, Any]:
    found = {"bert_score_model": str(model_folder(setting["model"])), "bert_score_layer": setting["layer"]}
    if "baseline" in setting:
        found["bert_score_rescale"] = str(FOLDER / setting["baseline"])
    return found


@pytest.mark.parametrize("setting", settings("bert_score"))
def test_precision_recall_and_f_are_those_of_bert_score(setting: dict[str, Any], model_folder: Any) -> None:
    scores = metrics.score(*texts(DOCUMENTS), metrics=NAMES, **options(setting, model_folder))
    known = {key: values for key, values in setting["documents"].items() if isinstance(values, list)}
    # Byte-level and SentencePiece tokenizers of bert-score's fail on half characters; here they have a score.
    raised = set(setting["documents"]) - set(known)
    assert raised <= UNREADABLE
    other = BLANK | OTHERWISE.get(setting["name"], set())
    for part, name in enumerate(NAMES):
        found = dict(zip(setting["documents"], scores[name].tolist(), strict=True))
        assert all(math.isfinite(found[key]) for key in raised)
        wanted = {key: values[part] for key, values in known.items() if key not in other}
        assert len(wanted) >= 67
        assert far({key: found[key] for key in wanted}, wanted, TOLERANCE) == {}


@pytest.mark.parametrize("setting", [s for s in settings("bert_score") if s.id.startswith("minilm")])
def test_a_blank_answer_has_the_same_score_without_being_encoded(setting: dict[str, Any], model_folder: Any) -> None:
    """bert-score says 0, and moves it when it rescales, as here; a blank reference has no score here."""
    blank = [document for document in DOCUMENTS if document["id"] in BLANK]
    scores = metrics.score(*texts(blank), metrics=NAMES, **options(setting, model_folder))
    for part, name in enumerate(NAMES):
        # Baselines of layer 6: 0.1725, 0.1675, 0.17. (0 - b) / (1 - b)
        base = (0.1725, 0.1675, 0.17)[part] if "baseline" in setting else 0.0
        assert all(setting["documents"][key][part] == pytest.approx(-base / (1 - base), abs=1e-6) for key in BLANK)
        found = dict(zip([document["id"] for document in blank], scores[name].tolist(), strict=True))
        assert math.isnan(found.pop("empty-reference"))
        assert list(found.values()) == pytest.approx([-base / (1 - base)] * len(found), abs=1e-12)


def test_texts_that_differ_past_the_limit_alone_are_told(model_folder: Any) -> None:
    [setting] = [s.values[0] for s in settings("bert_score") if s.id == "minilm-layer-6"]
    document = next(document for document in DOCUMENTS if document["id"] == "long-differs-at-the-end")
    assert setting["documents"][document["id"]] == [1.0, 1.0, 1.0]
    measured = metrics.measure(*texts([document]), metrics=["bert_score"], **options(setting, model_folder))
    assert measured.truncated["bert_score"].tolist() == [True]
    windows = metrics.measure(
        *texts([document]), metrics=["bert_score"], metrics_long="windows", **options(setting, model_folder)
    )
    assert windows.truncated["bert_score"].tolist() == [False]
    assert windows.scores["bert_score"][0] < 0.999
