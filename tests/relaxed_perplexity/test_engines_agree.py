"""One toy model, worked out by hand: every engine that runs here gives its numbers; vLLM's test has the same table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.harness.relaxed_codec import Codec
from lm_eval_healthcare.harness.relaxed_engines import engine_for
from lm_eval_healthcare.relaxed_perplexity import Sample, Settings, choose, reduce
from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from token_models import load
from toy_llama import TABLE, write_bigram_llama

pytest.importorskip("torch")
A, B = 0, 1
SETTINGS = Settings(samples=3, keep=2, length=2, stride=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(write_bigram_llama(tmp_path_factory.mktemp("toy"), TABLE))


@pytest.fixture(params=["generic", "transformers"])
def engine(request: pytest.FixtureRequest, model: Any) -> Engine:
    return engine_for(model, Codec(model), request.param, None)


def sample(*tokens: int) -> Sample:
    """A completion of the question "a", with log P by the table."""
    steps = [math.log(TABLE["ab"[first]]["ab"[second]]) for first, second in zip((A, *tokens), tokens, strict=False)]
    return Sample(tokens, np.concatenate([[0.0], np.cumsum(steps)]))


def test_by_hand(engine: Engine) -> None:
    """P(b|a) = 0.3, P(a|a) = 0.5, P(a|b) = 0.6, P(b|b) = 0.3; the question is "a", the target "ba".

    P(ba | ... a) = 0.3 * 0.6 = 0.18 and P(ba | ... b) = 0.3 * 0.6 = 0.18 too; "ab" has 0.5 * 0.3 = 0.15 after
    "a" and 0.6 * 0.3 = 0.18 after "b". The samples "ba", "bb" and "aa" begin with "b" twice, with "a" once. After two
    tokens the likelier of them are kept: "aa" (0.25) and "ba" (0.18); "bb" has 0.09.
    """
    samples = [sample(B, A), sample(B, B), sample(A, A)]
    prefixes = choose(samples, SETTINGS)
    assert [(p.position, p.sample, p.count) for p in prefixes] == [
        (0, 0, 3),
        (1, 2, 1),
        (1, 0, 2),
        (2, 2, 1),
        (2, 0, 1),
    ]
    assert [math.exp(p.log_p) for p in prefixes] == pytest.approx([1, 0.5, 0.3, 0.25, 0.18])
    (found,) = engine.score([Job(Question((A,), ((B, A), (A, B))), samples, prefixes)])
    assert np.exp(found[0]) == pytest.approx([0.18] * 5, rel=1e-5)
    assert np.exp(found[1]) == pytest.approx([0.15, 0.15, 0.18, 0.15, 0.15], rel=1e-5)
    values = reduce([found[1][:1], found[1][1:3], found[1][3:]], positions=[0, 1, 2], target_length=2, n=2)
    product = 0.15 * 0.33 * 0.30
    assert values["relaxed_perplexity"] == pytest.approx(product ** (-1 / 4), rel=1e-5)
    assert values["relaxed_cross_entropy_any"] == pytest.approx(-math.log(0.15 + 0.33 + 0.30), rel=1e-5)


def test_an_engine_samples_and_knows_how_likely_its_samples_are(engine: Engine) -> None:
    question = Question((A,), ((B,),), seed=5)
    (samples,) = engine.sample([question], Settings(samples=40, length=6, stride=2, top_p=1.0))
    assert len({one.tokens for one in samples}) > 10
    for one in samples:
        for position in range(0, len(one.tokens) + 1, 2):
            expected = sample(*one.tokens).log_p[position]
            assert one.log_p[position] == pytest.approx(expected, abs=1e-4)
    (again,) = engine.sample([question], Settings(samples=40, length=6, stride=2, top_p=1.0))
    assert [one.tokens for one in again] == [one.tokens for one in samples]


def test_no_targets_no_prefixes_no_questions(engine: Engine) -> None:
    samples = [sample(B, A)]
    assert engine.score([]) == []
    assert engine.sample([], SETTINGS) == []
    (none,) = engine.score([Job(Question((A,), ((B,),)), samples, [])])
    assert none.shape == (1, 0)
    (bare,) = engine.sample([Question((A,), ((B,),))], Settings(samples=2, length=0))
    assert [one.tokens for one in bare] == [(), ()]
