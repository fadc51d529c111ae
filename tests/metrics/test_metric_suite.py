from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from support import STRING_METRICS

NGRAM = ["bleu", "rouge1", "rouge2", "rougeL", "sacrebleu"]
UNICODE = ["rouge1_unicode", "rouge2_unicode", "rougeL_unicode"]
NEURAL = ["bert_score", "bert_score_precision", "bert_score_recall", "mover_score", "bleurt", "f1_radgraph"]
DEFAULT_NEURAL = ["bert_score", "mover_score", "bleurt"]


class Length(metrics.Metric):
    """A metric whose value is obvious: how many characters longer the prediction is."""

    name = "length"
    description = "Characters of the prediction minus characters of the first reference."
    worst = -1000.0
    minimum = -1000.0
    maximum = 1000.0
    options = ("times",)

    def score(self, predictions: Sequence[str], references: Any, times: int = 1, **options: Any) -> Any:
        return times * np.array([len(p) - len(r[0]) for p, r in zip(predictions, references, strict=True)])

    def signature(self, times: int = 1, **options: Any) -> str:
        return f"length|times:{times}"


@pytest.fixture
def length(monkeypatch: pytest.MonkeyPatch) -> Length:
    """The metric `length`, registered for one test."""
    metric = Length()
    monkeypatch.setitem(metrics.AVAILABLE, metric.name, metric)
    return metric


def test_names_and_sets() -> None:
    assert list(metrics.AVAILABLE) == NGRAM + UNICODE + NEURAL
    assert metrics.resolve("ngram") == NGRAM
    assert metrics.resolve("default") == NGRAM + DEFAULT_NEURAL
    assert metrics.resolve("all") == NGRAM + UNICODE + NEURAL
    assert [name for name, metric in metrics.AVAILABLE.items() if metric.heavy] == NEURAL
    assert metrics.resolve("rougeL+bleu") == ["rougeL", "bleu"]
    assert metrics.resolve("bleu, rouge1") == ["bleu", "rouge1"]
    assert metrics.resolve(["bleu", "ngram", "bleu"]) == NGRAM


@pytest.mark.parametrize("languages", [("es",), ("en", "es"), ("zh-Hant",), "es"])
def test_other_languages_add_the_unicode_rouge(languages: Any) -> None:
    assert metrics.resolve("ngram", languages=languages) == NGRAM + UNICODE
    assert metrics.resolve("default", languages=languages) == NGRAM + UNICODE + DEFAULT_NEURAL
    assert metrics.resolve("bleu", languages=languages) == ["bleu"]


@pytest.mark.parametrize("languages", [("en",), ("en-US",), ("EN",), "en"])
def test_english_has_no_unicode_rouge_by_default(languages: Any) -> None:
    assert metrics.resolve("ngram", languages=languages) == NGRAM


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(
        ValueError, match=r"'rougeLL'.*Did you mean 'rougeL'.*rouge2, rougeL.*ngram, default, all.*bleu\+"
    ):
        metrics.resolve("bleu+rougeLL")
    with pytest.raises(ValueError, match="unknown metric 'prometheus'"):
        metrics.score(["a"], ["a"], metrics=["prometheus"])
    with pytest.raises(ValueError, match="Did you mean 'ngram'"):
        metrics.resolve("ngrams")
    with pytest.raises(ValueError, match="unknown metric 'blue'"):
        metrics.signature("blue")


@pytest.mark.parametrize("spec", ["", " + ", []])
def test_an_empty_specification_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match="no metric was named"):
        metrics.resolve(spec)


def test_scores_are_float64_in_document_order() -> None:
    scores = metrics.score(["a b", "c"], ["a x", "c"], metrics="rouge1")
    assert list(scores) == ["rouge1"]
    assert scores["rouge1"].dtype == np.float64
    # One of two words on both sides; the one word.
    assert scores["rouge1"].tolist() == [0.5, 1.0]


def test_an_empty_batch_gives_empty_arrays() -> None:
    for scores in metrics.score([], [], metrics=STRING_METRICS).values():
        assert scores.shape == (0,)
        assert scores.dtype == np.float64


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 predictions and 1 references"):
        metrics.score(["a", "b"], ["a"])


def test_one_string_in_place_of_a_sequence_is_refused() -> None:
    with pytest.raises(TypeError, match=r"predictions is one string"):
        metrics.score("fever", ["fever"])
    with pytest.raises(TypeError, match=r"references is one string"):
        metrics.score(["f"], "f")


def test_batch_and_order_do_not_matter(generated_pairs: list[tuple[str, str]]) -> None:
    pairs = generated_pairs[:300]
    order = list(range(len(pairs)))
    random.Random(3).shuffle(order)
    predictions, references = zip(*pairs, strict=True)
    whole = metrics.score(predictions, references, metrics=STRING_METRICS)
    shuffled = metrics.score(
        [predictions[row] for row in order], [references[row] for row in order], metrics=STRING_METRICS
    )
    alone = [metrics.score([prediction], [reference], metrics=STRING_METRICS) for prediction, reference in pairs]
    for name, scores in whole.items():
        assert np.isfinite(scores).sum() > 250
        np.testing.assert_array_equal(shuffled[name], scores[order])
        np.testing.assert_array_equal([row[name][0] for row in alone], scores)


def test_alone_and_with_its_family_a_metric_gives_the_same() -> None:
    predictions, references = ["mild cough today", "c b a"], ["mild fever today", ["a b c", "c b"]]
    together = metrics.score(predictions, references, metrics=STRING_METRICS)
    for name in metrics.resolve(STRING_METRICS):
        np.testing.assert_array_equal(metrics.score(predictions, references, metrics=name)[name], together[name])


def test_a_family_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import rouge_score_rs.rouge_scorer as backend

    asked = []
    original = backend.RougeScorer.score_batch

    def counting(self: Any, targets: Any, predictions: Any) -> Any:
        asked.append(list(self.rouge_types))
        return original(self, targets, predictions)

    monkeypatch.setattr(backend.RougeScorer, "score_batch", counting)
    metrics.score(["a b"], ["a b"], metrics="rouge1+bleu+rougeL+rouge2")
    assert asked == [["rouge1", "rougeL", "rouge2"]]


def test_ten_thousand_equal_documents() -> None:
    text = "the patient has mild fever"
    scores = metrics.score([text] * 10_000, [text] * 10_000, metrics="ngram")
    assert scores["bleu"].tolist() == [1.0] * 10_000
    assert scores["rougeL"].tolist() == [1.0] * 10_000
    np.testing.assert_allclose(scores["sacrebleu"], 100.0, rtol=1e-12)


def test_scores_stay_within_the_declared_bounds(generated_pairs: list[tuple[str, str]]) -> None:
    predictions, references = zip(*generated_pairs, strict=True)
    for name, scores in metrics.score(predictions, references, metrics=STRING_METRICS).items():
        metric = metrics.AVAILABLE[name]
        assert np.nanmin(scores) == metric.worst == metric.minimum == 0.0
        assert np.nanmax(scores) == pytest.approx(metric.maximum, rel=1e-12)
        assert metric.higher_is_better


def test_sequences_of_other_types_are_taken() -> None:
    expected = metrics.score(["a b", "c"], [["a x", "b"], ["c"]], metrics=STRING_METRICS)
    given = metrics.score(np.array(["a b", "c"]), (np.array(["a x", "b"]), ("c",)), metrics=STRING_METRICS)  # type: ignore[arg-type]
    for name, scores in expected.items():
        np.testing.assert_array_equal(given[name], scores)


def test_a_metric_can_be_added(length: Length) -> None:
    scores = metrics.score(["abc", None, "a"], ["a", "b", None], metrics="length+rouge1", times=2)
    np.testing.assert_array_equal(scores["length"], [4.0, -1000.0, np.nan])
    np.testing.assert_array_equal(scores["rouge1"], [0.0, 0.0, np.nan])
    assert metrics.signature("length", times=2) == "length|times:2"
    assert metrics.resolve("all")[-1] == "length"


def test_register_refuses_names_that_are_taken_or_cannot_be_asked_for() -> None:
    before = dict(metrics.AVAILABLE)
    for name in ("bleu", "ngram", "a+b", "a,b", ""):
        metric = Length()
        metric.name = name
        with pytest.raises(ValueError, match=r"cannot register .* Choose another name"):
            metrics.register(metric)
    assert before == metrics.AVAILABLE
    try:
        assert metrics.register(Length()) is metrics.AVAILABLE["length"]
    finally:
        metrics.AVAILABLE.pop("length", None)


def test_an_unknown_option_is_refused(length: Length) -> None:
    with pytest.raises(ValueError, match=r"unknown option 'time': options are .*\btimes\b"):
        metrics.score(["a"], ["a"], metrics="length", time=2)
    with pytest.raises(ValueError, match="unknown option 'smooth'"):
        metrics.signature("bleu", smooth="exp")


def test_a_metric_that_miscounts_is_caught(length: Length, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length, "score", lambda predictions, references, **options: np.zeros(1))
    with pytest.raises(RuntimeError, match=r"'length' returned an array of shape \(1,\) for 2 documents"):
        metrics.score(["a", "b"], ["a", "b"], metrics="length")


def test_signatures_name_what_the_scores_depend_on() -> None:
    import importlib.metadata

    signatures = {name: metrics.signature(name) for name in metrics.AVAILABLE}
    assert len(set(signatures.values())) == len(signatures)
    for name, signature in signatures.items():
        head, *fields = signature.split("|")
        values = dict(field.split(":", 1) for field in fields)
        assert head == name
        needed = {"impl", "ref", "refs", "scale", "blank"}
        needed |= {"model", "dtype"} if name in NEURAL else {"tok", "case", "order"}
        assert needed <= set(values)
        assert signature == metrics.signature(name)
    assert "ref:evaluate-0.4.6/bleu|tok:13a|case:mixed|order:4|smooth:none" in signatures["bleu"]
    assert f"impl:rouge-score-rs-{importlib.metadata.version('rouge-score-rs')}" in signatures["rougeL"]
    assert f"impl:sacrebleu-{importlib.metadata.version('sacrebleu')}" in signatures["sacrebleu"]
    assert "smooth:exp" in signatures["sacrebleu"]
