"""Sampling: which tokens may be drawn, which one is, and how often, against tables that a hand can sum."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.base import Question
from lm_eval_healthcare.relaxed_perplexity.engines.sampling import draw, nucleus, uniforms
from lm_eval_healthcare.relaxed_perplexity.settings import Settings
from toy_llama import END, TABLE, token_ids, write_bigram_llama

torch = pytest.importorskip("torch")
IDS = token_ids()


def kept(chances: list[float], top_p: float) -> list[int]:
    """The tokens that may be drawn, by id."""
    values, ids = nucleus(torch.tensor([chances]), top_p)
    assert ids[0].tolist() == sorted(ids[0].tolist())
    return [token for token, value in zip(ids[0].tolist(), values[0].tolist(), strict=True) if value]


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (0.01, [2]),
        (0.5, [2]),
        (0.51, [0, 2]),
        (0.8, [0, 2]),
        (0.81, [0, 2, 3]),
        (0.95, [0, 2, 3]),
        (0.96, [0, 1, 2, 3]),
    ],
)
def test_nucleus_is_the_fewest_tokens_that_reach_the_share(top_p: float, expected: list[int]) -> None:
    assert kept([0.3, 0.05, 0.5, 0.15], top_p) == expected


def test_of_equal_tokens_the_lower_ids_come_first() -> None:
    assert kept([0.25, 0.25, 0.25, 0.25], 0.5) == [0, 1]
    assert kept([0.2, 0.4, 0.2, 0.2], 0.6) == [0, 1]


@pytest.mark.parametrize(("vocabulary", "spread"), [(50, 2.0), (3000, 3.0), (3000, 0.3)])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.99])
def test_nucleus_is_that_of_transformers(vocabulary: int, spread: float, top_p: float) -> None:
    """The last spread is so flat that a nucleus has more than a thousand tokens."""
    from transformers.generation.logits_process import TopPLogitsWarper

    logits = torch.from_numpy(np.random.RandomState(0).standard_normal((6, vocabulary)).astype(np.float32)) * spread
    expected = torch.softmax(TopPLogitsWarper(top_p)(torch.zeros(6, 1, dtype=torch.long), logits), -1)
    values, ids = nucleus(torch.softmax(logits, -1), top_p)
    found = torch.zeros_like(logits).scatter(-1, ids, values)
    np.testing.assert_allclose(found / found.sum(-1, keepdim=True), expected, atol=1e-6)


def drawn(chances: list[float], numbers: list[float], **settings: Any) -> list[int]:
    given = {"temperature": 1.0, "top_p": 1.0, **settings}
    log_p = torch.tensor([chances]).log().expand(len(numbers), -1)
    return draw(log_p, torch.tensor(numbers, dtype=torch.float64), **given).tolist()


def test_token_is_where_the_sum_passes_the_number() -> None:
    """Sums of 0.5, 0.3, 0.2: 0.5, 0.8, 1."""
    numbers = [0.0, 0.49, 0.51, 0.79, 0.81, math.nextafter(1, 0)]
    assert drawn([0.5, 0.3, 0.2], numbers) == [0, 0, 1, 1, 2, 2]
    # With top-p 0.8 the sums are 0.5 and 0.8: the border is at 0.5 / 0.8 = 0.625.
    assert drawn([0.5, 0.3, 0.2], [*numbers[:3], 0.62, 0.63, numbers[-1]], top_p=0.8) == [0, 0, 0, 0, 1, 1]
    # Without token 0 the border between the others is at 0.3 / 0.5 = 0.6.
    assert drawn([0.5, 0.3, 0.2], [0.0, 0.59, 0.61], never=[0]) == [1, 1, 2]


def test_temperature_comes_before_top_p() -> None:
    """At temperature 1/2 the chances are as 0.25, 0.09, 0.04, that is 0.658, 0.237, 0.105; at 2 as their roots."""
    assert drawn([0.5, 0.3, 0.2], [0.65, 0.67, 0.89, 0.90], temperature=0.5) == [0, 1, 1, 2]
    # 0.5 alone does not reach 0.6, 0.658 does.
    assert drawn([0.5, 0.3, 0.2], [0.99], temperature=0.5, top_p=0.6) == [0]
    assert drawn([0.5, 0.3, 0.2], [0.99], temperature=1.0, top_p=0.6) == [1]
    # Roots 0.707, 0.548, 0.447 of 1.702: sums 0.415 and 0.737.
    assert drawn([0.5, 0.3, 0.2], [0.41, 0.42, 0.73, 0.74], temperature=2.0) == [0, 1, 1, 2]
    assert drawn([0.3, 0.5, 0.2], [0.0, 0.99], temperature=1e-40) == [1, 1]


def test_impossible_tokens_are_never_drawn() -> None:
    numbers = [0.0, 0.3, 0.7, math.nextafter(1, 0)]
    assert set(drawn([0.0, 0.5, 0.0, 0.5, 0.0], numbers)) == {1, 3}
    assert set(drawn([0.0, 0.5, 0.0, 0.5, 0.0], numbers, top_p=0.9)) == {1, 3}


def test_more_or_longer_completions_begin_with_the_same_numbers() -> None:
    short, long = uniforms(7, 3, 5), uniforms(7, 6, 9)
    np.testing.assert_array_equal(short, long[:3, :5])
    assert len(np.unique(long)) == long.size
    assert not np.isin(uniforms(8, 6, 9), long).any()
    assert ((long >= 0) & (long < 1)).all()


@pytest.fixture(scope="module")
def bigram(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoModelForCausalLM

    from lm_eval_healthcare.relaxed_perplexity.engines.transformers_engine import TransformersEngine

    folder = write_bigram_llama(tmp_path_factory.mktemp("bigram"))
    return TransformersEngine(AutoModelForCausalLM.from_pretrained(folder), end_tokens=[IDS[END]])


def sampled(engine: Any, **settings: Any) -> list[Any]:
    return engine.sample([Question((IDS["a"],), (), 3)], Settings(**settings))[0]


def transitions(samples: list[Any], length: int) -> dict[str, Counter[str]]:
    """How often each token, or the end, followed each, the question's last token being `a`."""
    names = {number: name for name, number in IDS.items()}
    found: dict[str, Counter[str]] = {"a": Counter(), "b": Counter()}
    for sample in samples:
        text = ["a", *(names[token] for token in sample.tokens)]
        for before, after in zip(text, [*text[1:], END], strict=True):
            if after != END or len(sample.tokens) < length:
                found[before][after] += 1
    return found


def within_four_sigma(found: Counter[str], expected: dict[str, float]) -> None:
    total = sum(found.values())
    assert total > 500
    assert set(found) == set(expected)
    for token, chance in expected.items():
        sigma = math.sqrt(chance * (1 - chance) / total)
        assert abs(found[token] / total - chance) <= 4 * sigma, (token, found, expected)


def test_frequencies_are_those_of_the_truncated_table(bigram: Any) -> None:
    """After `a` the chances are 0.5, 0.3, 0.2, all needed for 0.85; after `b` 0.6 and 0.3 are enough: no end."""
    samples = sampled(bigram, samples=2000, length=4, top_p=0.85)
    found = transitions(samples, 4)
    within_four_sigma(found["a"], {"a": 0.5, "b": 0.3, END: 0.2})
    within_four_sigma(found["b"], {"a": 2 / 3, "b": 1 / 3})


def test_frequencies_follow_the_temperature(bigram: Any) -> None:
    """At temperature 1/2 squares: after `a` 25, 9, 4 of 38, after `b` 36, 9, 1 of 46."""
    found = transitions(sampled(bigram, samples=2000, length=3, top_p=1.0, temperature=0.5), 3)
    within_four_sigma(found["a"], {"a": 25 / 38, "b": 9 / 38, END: 4 / 38})
    within_four_sigma(found["b"], {"a": 36 / 46, "b": 9 / 46, END: 1 / 46})


def test_log_probabilities_are_those_of_the_table_itself(bigram: Any) -> None:
    """Neither temperature nor truncation nor tokens that are never drawn change them."""
    for settings in ({"top_p": 0.85}, {"temperature": 0.5}, {"end": "ignore"}):
        for sample in sampled(bigram, samples=20, length=6, **settings):
            text = ["a", *({0: "a", 1: "b"}[token] for token in sample.tokens)]
            steps = [math.log(TABLE[before][after]) for before, after in itertools.pairwise(text)]
            assert sample.log_p.dtype == np.float64
            np.testing.assert_allclose(sample.log_p, [math.fsum(steps[:i]) for i in range(len(text))], atol=1e-5)


def test_the_end_is_no_part_of_a_completion(bigram: Any) -> None:
    lengths = Counter(len(sample.tokens) for sample in sampled(bigram, samples=200, length=6))
    assert lengths[0]
    assert lengths[6]
    assert all(IDS[END] not in sample.tokens for sample in sampled(bigram, samples=200, length=6))
    ignored = sampled(bigram, samples=200, length=6, end="ignore")
    assert {len(sample.tokens) for sample in ignored} == {6}
    # After `a` then 0.5 and 0.3 of 0.8, after `b` 0.6 and 0.3 of 0.9.
    found = transitions(ignored, 6)
    within_four_sigma(found["a"], {"a": 0.625, "b": 0.375})


def test_nothing_runs_for_completions_of_no_tokens(bigram: Any) -> None:
    before = bigram.tokens_sampled
    samples = sampled(bigram, samples=3, length=0)
    assert [sample.tokens for sample in samples] == [(), (), ()]
    assert [sample.log_p.tolist() for sample in samples] == [[0.0]] * 3
    assert bigram.tokens_sampled == before


def test_sampling_stops_when_all_have_ended(tmp_path: Path) -> None:
    """The first token is `b`, after which the text always ends: one pass over the question and one token a row."""
    from transformers import AutoModelForCausalLM

    from lm_eval_healthcare.relaxed_perplexity.engines.transformers_engine import TransformersEngine

    write_bigram_llama(tmp_path, {"a": {"b": 1.0}, "b": {END: 1.0}})
    engine = TransformersEngine(AutoModelForCausalLM.from_pretrained(tmp_path), end_tokens=[IDS[END]])
    samples = sampled(engine, samples=3, length=50)
    assert [sample.tokens for sample in samples] == [(IDS["b"],)] * 3
    assert engine.tokens_sampled == 1 + 3
