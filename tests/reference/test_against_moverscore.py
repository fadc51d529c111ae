"""MoverScore is that of moverscore 1.0.3, both of its modules, on transformers 4.57, text by text."""

from __future__ import annotations

from typing import Any

import pytest

from known_answers import VISIBLE, far, settings, texts
from lm_eval_healthcare.metrics.mover_score import MoverScore
from lm_eval_healthcare.metrics.pairs import Pairs

pytest.importorskip("transformers")
pytest.importorskip("ot")

# Of the functions with exact distances, and of those as published, whose float32 distances are off by up to 4e-4. The
# weights of the first version sum to 1 / (1 + 1e-5 / sum), and what is missing is paid for by the largest distance.
TOLERANCES = {"pypi": (1e-6, 5e-4), "v1": (1e-5, 1e-5), "v1-bigram": (1e-5, 1e-5)}
# A text without a word has 0 here. There, with weights of the corpus, such a text weighs nothing, and any two texts are
# the same (1); with uniform weights its marks are compared.
WORDLESS = {"punctuation-only", "one-mark", "punctuation-answer", "only-a-lone-surrogate"}


def known_answers(setting: dict[str, Any], part: int) -> dict[str, float]:
    """Return the best of several references."""
    ids = [document["id"] for document in VISIBLE]
    return {key: max(pair[part] for pair in setting["documents"][key]) for key in ids}


@pytest.mark.parametrize("setting", settings("mover_score"))
def test_scores_are_those_of_moverscore(setting: dict[str, Any], model_folder: Any) -> None:
    predictions, references = texts(VISIBLE)
    measured = MoverScore().measure(
        ["mover_score"],
        predictions,
        references,
        corpus=Pairs.of(predictions, references),
        mover_score_model=str(model_folder(setting["model"])),
        mover_score_layer=setting["layer"],
        mover_score_variant=setting["variant"],
        mover_score_idf=setting["idf"],
    )
    found = dict(zip([document["id"] for document in VISIBLE], measured.scores["mover_score"].tolist(), strict=True))
    for part, tolerance in zip((1, 0), TOLERANCES[setting["variant"]], strict=True):
        known = {key: value for key, value in known_answers(setting, part).items() if key not in WORDLESS}
        assert far({key: found[key] for key in known}, known, tolerance) == {}
    assert {found[key] for key in WORDLESS} == {0.0}
