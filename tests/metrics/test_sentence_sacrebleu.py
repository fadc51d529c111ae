from __future__ import annotations

import math

import pytest
import sacrebleu

from lm_eval_healthcare import metrics

KNOWN = [
    # Two tokens, effective order 2: 1-gram 1/1, 2-gram 1/1, so 100 where the published BLEU is 0.
    ("Opioid withdrawal", "Opioid withdrawal", 100.0),
    # 1-grams 1/2; no 2-gram of 1: first order without a match, 1 / (2 * 1). sqrt(1/2 * 1/2) = 1/2.
    ("mild fever", "high fever", 50.0),
    # 1-grams 3/4; 2-grams 1/3; 3-grams none of 2: 1/(2*2); 4-grams none of 1: 1/(4*1).
    ("a b x c", "a b y c", 100 * (3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** 0.25),
    # All precisions 1, 2 tokens for 3: exp(1 - 3/2).
    ("renal colic", "renal colic today", 100 * math.exp(-0.5)),
    ("aspirin", "heparin", 0.0),
]


@pytest.mark.parametrize(("prediction", "reference", "expected"), KNOWN)
def test_known_answers(prediction: str, reference: str, expected: float) -> None:
    [score] = metrics.score([prediction], [reference], metrics="sacrebleu")["sacrebleu"]
    assert score == pytest.approx(expected, rel=1e-12, abs=0)


def test_equals_sacrebleu_to_the_last_bit(generated_pairs: list[tuple[str, str]]) -> None:
    predictions, references = zip(*generated_pairs, strict=True)
    scores = metrics.AVAILABLE["sacrebleu"].score(predictions, references)
    expected = [sacrebleu.sentence_bleu(prediction, [reference]).score for prediction, reference in generated_pairs]
    assert scores.tolist() == expected


def test_equals_sacrebleu_with_several_references(generated_multi: list[tuple[str, list[str]]]) -> None:
    predictions, references = zip(*generated_multi, strict=True)
    scores = metrics.AVAILABLE["sacrebleu"].score(predictions, references)
    expected = [sacrebleu.sentence_bleu(prediction, texts).score for prediction, texts in generated_multi]
    assert scores.tolist() == expected


def test_strips_the_right_end_before_it_tokenizes_like_sacrebleu() -> None:
    # The hyphen at the end of a line is deleted by 13a, but here no line ends after it any more.
    [score] = metrics.score(["mild pain-\n"], ["mild pain"], metrics="sacrebleu")["sacrebleu"]
    assert score == sacrebleu.sentence_bleu("mild pain-\n", ["mild pain"]).score == pytest.approx(50.0)
