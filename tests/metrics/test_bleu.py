from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.tokenizer_13a import tokenize

published_13a = Tokenizer13a()


def brute_force_bleu(prediction: str, references: Sequence[str]) -> float | None:
    """BLEU from its definition, counting every n-gram by looking for it; None where the published code divides by 0."""
    given = published_13a(prediction).split()
    wanted = [published_13a(reference).split() for reference in references]
    shortest = min(len(tokens) for tokens in wanted)
    if not given or not shortest:
        return None
    precisions = []
    for order in (1, 2, 3, 4):
        ngrams = [given[start : start + order] for start in range(len(given) - order + 1)]
        if not ngrams:
            return 0.0
        distinct = [ngram for row, ngram in enumerate(ngrams) if ngram not in ngrams[:row]]
        matches = 0
        for ngram in distinct:
            most = 0
            for tokens in wanted:
                found = [tokens[start : start + order] for start in range(len(tokens) - order + 1)].count(ngram)
                most = max(most, found)
            matches += min(ngrams.count(ngram), most)
        precisions.append(Fraction(matches, len(ngrams)))
    if 0 in precisions:
        return 0.0
    geometric_mean = math.exp(sum(0.25 * math.log(float(precision)) for precision in precisions))
    ratio = len(given) / shortest
    return geometric_mean * (1.0 if ratio > 1.0 else math.exp(1 - 1.0 / ratio))


KNOWN = [
    # All precisions 1, lengths equal.
    ("the patient has mild fever", ["the patient has mild fever"], 1.0),
    # 1-grams 6/7; 2-grams: the patient, patient has, has a, fever today: 4/6; 3-grams: the patient has,
    # patient has a: 2/5; 4-grams: the patient has a: 1/4. Product 48/840 = 2/35, lengths equal.
    ("the patient has a mild fever today", ["the patient has a high fever today"], (2 / 35) ** 0.25),
    # All precisions 1, 4 tokens for 6: exp(1 - 6/4).
    ("the patient has a", ["the patient has a high fever"], math.exp(-0.5)),
    # 4/5 * 3/4 * 2/3 * 1/2 = 1/5; longer than the reference, so no penalty and no reward.
    ("a b c d e", ["a b c d"], 0.2**0.25),
    # Clipped: "a" counts 4 of 6 times, then 3/5, 2/4, 1/3: product 24/360 = 1/15.
    ("a a a a a a", ["a a a a"], (1 / 15) ** 0.25),
    # Two references: 1-grams a b c d e 5/5; ab, bc from the first, de from the second: 3/4; abc: 1/3; no 4-gram.
    ("a b c d e", ["a b c x x", "d e"], 0.0),
    # The best of both references for each n-gram: all of abcd from the first, e from the second. 1-grams 5/5, 2-grams
    # 3/4, 3-grams 2/3, 4-grams 1/2: product 1/4. The shortest reference has 1 token, so no penalty.
    ("a b c d e", ["a b c d", "e"], 0.25**0.25),
    # Tokens "38.5", "mg", ",", "(", "daily", ")", "." on both sides.
    ("38.5 mg, (daily).", ["38.5 mg , ( daily ) ."], 1.0),
    # Fewer than four tokens: no 4-gram, so 0 in the published definition, even for the same answer.
    ("Opioid withdrawal", ["Opioid withdrawal"], 0.0),
    # Case is kept.
    ("THE PATIENT HAS MILD FEVER", ["the patient has mild fever"], 0.0),
    # No 4-gram in common.
    ("mild fever in the patient since today", ["since today the patient has mild fever"], 0.0),
]


@pytest.mark.parametrize(("prediction", "references", "expected"), KNOWN)
def test_known_answers(prediction: str, references: list[str], expected: float) -> None:
    [score] = metrics.score([prediction], [references], metrics="bleu")["bleu"]
    assert score == pytest.approx(expected, rel=1e-12, abs=0)


def test_equals_the_definition_to_the_last_bit(generated_pairs: list[tuple[str, str]]) -> None:
    bleu = metrics.AVAILABLE["bleu"]
    expected = [brute_force_bleu(prediction, [reference]) for prediction, reference in generated_pairs]
    defined = [row for row, value in enumerate(expected) if value is not None]
    predictions, references = zip(*(generated_pairs[row] for row in defined), strict=True)
    scores = bleu.score(predictions, references)
    assert scores.tolist() == [expected[row] for row in defined]
    assert len(defined) >= 5000
    assert (scores > 0).sum() > 2000


def test_equals_the_definition_with_several_references(generated_multi: list[tuple[str, list[str]]]) -> None:
    bleu = metrics.AVAILABLE["bleu"]
    compared = 0
    for prediction, references in generated_multi:
        expected = brute_force_bleu(prediction, references)
        if expected is not None:
            assert bleu.score([prediction], [references])[0] == expected
            compared += expected > 0
    assert compared > 300


def test_agrees_with_unsmoothed_sacrebleu(generated_pairs: list[tuple[str, str]]) -> None:
    """A third implementation; it rounds elsewhere, and strips the right end of a text before it tokenizes."""
    sacrebleu = BLEU(smooth_method="none", effective_order=False)
    pairs = [(p, r) for p, r in generated_pairs if p == p.rstrip() and r == r.rstrip() and p and r][:1000]
    scores = metrics.AVAILABLE["bleu"].score(*zip(*pairs, strict=True))
    expected = [sacrebleu.sentence_score(prediction, [reference]).score / 100 for prediction, reference in pairs]
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-15)


def test_tokenizer_equals_the_published_13a(generated_pairs: list[tuple[str, str]]) -> None:
    texts = [text for pair in generated_pairs for text in pair]
    assert [tokenize(text) for text in texts] == [published_13a(text).split() for text in texts]


def test_tokenizer_equals_the_published_13a_on_punctuation_clusters() -> None:
    """Every string of up to five of the characters whose rules depend on their neighbours."""
    texts = [""]
    for _ in range(5):
        texts += [text + character for text in texts for character in ".,-1a "]
        texts = list(dict.fromkeys(texts))
    assert len(texts) == sum(6**length for length in range(6))
    for text in texts:
        assert tokenize(text) == published_13a(text).split(), text


@pytest.mark.parametrize("text", ["<skipped>", "-\n", "<skipped>\n", "&"])
def test_texts_that_tokenize_to_little_or_nothing(text: str) -> None:
    # The published code divides by zero for the first three; each side without tokens shares no n-gram.
    long = "the patient has mild fever"
    scores = metrics.score([text, long, long], [long, text, [text, long]], metrics="bleu")["bleu"]
    assert scores.tolist() == [0.0, 0.0, 1.0]


def test_no_epsilon_in_place_of_zero() -> None:
    assert metrics.score(["aspirin"], ["heparin"], metrics="bleu")["bleu"].tolist() == [0.0]
