from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from support import STRING_METRICS

INVISIBLE = [
    "", " ", "   ", "\t\r\n", "\f", "\v", "\x00", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u200b",
    "\u200d", "\u2060", "\u202e", "\ufeff", "\u00ad", " \u200b\ufeff\f ",
]  # fmt: skip
VISIBLE = ["a", "\ud800", "\ue000", "0", ".", "...", "-", "\u0301", "हृ", "👍", "\u200bx", " \n|", "<skipped>"]
MISSING: list[Any] = [None, math.nan, np.nan, 0, b"text"]


@pytest.mark.parametrize("text", INVISIBLE + MISSING)
def test_blank(text: Any) -> None:
    assert metrics.is_blank(text)


@pytest.mark.parametrize("text", VISIBLE)
def test_not_blank(text: str) -> None:
    assert not metrics.is_blank(text)


def test_case_b11() -> None:
    pairs = [
        ("mild fever", "\f"),
        ("", "renal colic"),
        ("   ", "renal colic"),
        ("\u200b", "renal colic"),
        ("...", "..."),
    ]
    predictions, references = zip(*pairs, strict=True)
    scores = metrics.score(predictions, references, metrics=STRING_METRICS)
    for name in metrics.resolve(STRING_METRICS):
        np.testing.assert_array_equal(scores[name][:4], [np.nan, 0.0, 0.0, 0.0])
    # "..." is three 13a tokens: too short for the published BLEU, identical for the smoothed one, nothing for ROUGE.
    last = {name: values[4] for name, values in scores.items()}
    assert last.pop("sacrebleu") == pytest.approx(100.0)
    assert set(last.values()) == {0.0}


@pytest.mark.parametrize("text", INVISIBLE + MISSING)
def test_blank_reference_is_unscorable_and_blank_prediction_is_worst(text: Any) -> None:
    predictions = ["renal colic", text, text, "renal colic", text]
    references = [text, "renal colic", text, [text, "renal colic"], [text]]
    for name, scores in metrics.score(predictions, references, metrics=STRING_METRICS).items():
        np.testing.assert_array_equal(np.isnan(scores), [True, False, True, False, True], err_msg=name)
        assert scores[1] == 0.0
        # The blank one of two references does not count: the same as the other alone.
        assert scores[3] == metrics.score(["renal colic"], ["renal colic"], metrics=name)[name][0]


def test_no_references_at_all_is_unscorable() -> None:
    assert np.isnan(metrics.score(["a"], [[]], metrics="bleu")["bleu"]).all()


def test_every_metric_scores_the_same_documents(generated_pairs: list[tuple[str, str]]) -> None:
    predictions, references = zip(*generated_pairs, strict=True)
    scores = metrics.score(predictions, references, metrics=STRING_METRICS)
    blank = [metrics.is_blank(reference) for reference in references]
    assert 0 < sum(blank) < len(blank) / 2
    for name, values in scores.items():
        np.testing.assert_array_equal(np.isnan(values), blank, err_msg=name)


LONG = {
    "one word": "x" * 100_000,
    "many words": "ab " * 33_333,
    "points": ".," * 50_000,
    "points before a digit": ".." * 49_999 + "5",
    "hyphens": "-" * 100_000,
    "digits and hyphens": "1-" * 50_000,
    "blanks": " " * 99_999 + "x",
    "marks": "a" + "\u0301\u0316" * 50_000,
    "ideographs": "高血压" * 33_333,
    "surrogates": "\ud800" * 99_999 + "x",
    "NUL": "\x00" * 99_999 + "x",
    "right to left": "ارتفاع ضغط " * 9_000,
    "entities": "&amp;" * 20_000,
    "emoji": "👍🏽" * 50_000,
}


@pytest.mark.parametrize("kind", LONG)
def test_long_and_odd_texts_score_in_bounded_time(kind: str) -> None:
    text = LONG[kind]
    start = time.perf_counter()
    scores = metrics.score([text, text, "mild fever"], [text, "mild fever", text], metrics=STRING_METRICS)
    assert time.perf_counter() - start < 30
    for name, values in scores.items():
        assert values[0] >= values[1:].max(), name
        assert np.isfinite(values).all()


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "\u202e", "\ufffe", "👩🏽\u200d⚕️", "\U0010ffff"])
def test_odd_characters_inside_a_text(odd: str) -> None:
    text = f"the patient {odd} has mild fever"
    scores = metrics.score([text], [text], metrics=STRING_METRICS)
    assert scores["bleu"].tolist() == [1.0]
    assert scores["rouge1"].tolist() == scores["rougeL_unicode"].tolist() == [1.0]
