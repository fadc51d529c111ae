from __future__ import annotations

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from lm_eval_healthcare import metrics

NAMES = ["rouge1", "rouge2", "rougeL"]
reference_scorer = RougeScorer(NAMES)

KNOWN = [
    ("the patient has mild fever", "the patient has mild fever", (1, 1, 1)),
    # Words 2 of 3 on both sides; pairs of neighbours none of 2; longest common subsequence "mild today".
    ("mild cough today", "mild fever today", (2 / 3, 0, 2 / 3)),
    # 1-grams: P = 4/4, R = 4/5, F = 2 * 0.8 / 1.8 = 8/9. 2-grams "a b", "c d": P = 2/3, R = 2/4, F = 4/7.
    # Subsequence a b c d: as the 1-grams.
    ("a b c d", "a b x c d", (8 / 9, 4 / 7, 8 / 9)),
    # Order: the same words, but only one of them in sequence.
    ("c b a", "a b c", (1, 0, 1 / 3)),
    # Clipped: "a" counts once. P = 1/3, R = 1: F = 1/2.
    ("a a a", "a", (1 / 2, 0, 1 / 2)),
    # Case and punctuation vanish.
    ("FEVER, (mild)!", "fever mild", (1, 1, 1)),
    # b35: everything that is not a-z or 0-9 is deleted.
    ("हृदय रोग", "हृदय रोग", (0, 0, 0)),
    # "el", "p", "ncreas" against "el", "pancreas": P = 1/3, R = 1/2, F = 2/5.
    ("el páncreas", "el pancreas", (2 / 5, 0, 2 / 5)),
    ("sí", "s", (1, 0, 1)),
    ("50 µg daily", "50 g daily", (1, 1, 1)),
    ("INR < 2", "INR > 2", (1, 1, 1)),
]


@pytest.mark.parametrize(("prediction", "reference", "expected"), KNOWN)
def test_known_answers(prediction: str, reference: str, expected: tuple[float, ...]) -> None:
    scores = metrics.score([prediction], [reference], metrics=NAMES)
    assert [scores[name][0] for name in NAMES] == pytest.approx(expected, rel=1e-12)


def test_equals_rouge_score_to_the_last_bit(generated_pairs: list[tuple[str, str]]) -> None:
    predictions, references = zip(*generated_pairs, strict=True)
    rows = [reference_scorer.score(reference, prediction) for prediction, reference in generated_pairs]
    family = metrics.AVAILABLE["rougeL"].score_family(NAMES, predictions, references)
    for name in NAMES:
        expected = [row[name].fmeasure for row in rows]
        assert family[name].tolist() == expected
        assert metrics.AVAILABLE[name].score(predictions, references).tolist() == expected
        assert 0 < np.mean(expected) < 1


def test_several_references_take_the_best_for_each_type(generated_multi: list[tuple[str, list[str]]]) -> None:
    predictions, references = zip(*generated_multi, strict=True)
    rows = [reference_scorer.score_multi(texts, prediction) for prediction, texts in generated_multi]
    family = metrics.AVAILABLE["rouge1"].score_family(NAMES, predictions, references)
    for name in NAMES:
        assert family[name].tolist() == [row[name].fmeasure for row in rows]


def test_best_reference_differs_between_types() -> None:
    # Against "c b a": 1-grams 1, subsequence 1/3. Against "a b x y": 1-grams 2 * (2/3 * 2/4) / (2/3 + 2/4) = 4/7,
    # 2-grams "a b": 2 * (1/2 * 1/3) / (1/2 + 1/3) = 2/5, subsequence 4/7.
    scores = metrics.score(["a b c"], [["c b a", "a b x y"]], metrics=NAMES)
    assert [scores[name][0] for name in NAMES] == pytest.approx([1, 2 / 5, 4 / 7], rel=1e-12)
