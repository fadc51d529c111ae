"""The transformers engine on small random models of many families, each against one forward pass a branch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.relaxed_perplexity import Sample, Settings, choose
from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.transformers_engine import TransformersEngine

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
END, WORDS = 1, 97
SETTINGS = Settings(samples=4, keep=3, length=20, stride=4)
BASE = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 512,
}  # fmt: skip
GROUPED = {**BASE, "num_key_value_heads": 2}
CAPPED = {**GROUPED, "head_dim": 8, "sliding_window": 9, "query_pre_attn_scalar": 8}
FAMILIES: dict[str, Callable[[], Any]] = {
    "grouped queries": lambda: transformers.LlamaConfig(**GROUPED),
    "sliding window": lambda: transformers.MistralConfig(**GROUPED, sliding_window=7),
    "bias": lambda: transformers.Qwen2Config(**GROUPED),
    "soft-capping, alternating windows": lambda: transformers.Gemma2Config(**CAPPED),
    "learned positions": lambda: transformers.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=3, n_head=4, n_positions=512
    ),
    "parallel layers": lambda: transformers.GPTNeoXConfig(**BASE),
    "partial rotation": lambda: transformers.PhiConfig(**BASE),
    "distances as biases": lambda: transformers.BloomConfig(vocab_size=WORDS, hidden_size=32, n_layer=3, n_head=4),
    "a state instead of a cache": lambda: transformers.MambaConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=8
    ),
}  # fmt: skip


def model_of(family: str, attention: str = "sdpa") -> Any:
    """A model with weights large enough that every token matters."""
    config = FAMILIES[family]()
    kwargs = {} if family == "a state instead of a cache" else {"attn_implementation": attention}
    try:
        model = transformers.AutoModelForCausalLM.from_config(config, **kwargs).float().eval()
    except ValueError as error:
        pytest.skip(str(error)[:60])  # not every version has every attention for every family
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                size = 1.0 if "emb" in name else 1.5 / weight.shape[-1] ** 0.5
                weight.copy_(torch.randn(weight.shape, generator=generator) * size)
    return model


def one_pass(model: Any, before: Sequence[int], target: Sequence[int]) -> float:
    with torch.inference_mode():
        logits = model(torch.tensor([[*before, *target]])).logits[0, len(before) - 1 : -1].float()
        chosen = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(target)[:, None])
    return float(chosen.double().sum())


def expected(model: Any, job: Job) -> np.ndarray:
    return np.array(
        [
            [one_pass(model, job.question.tokens + job.prefix_tokens(prefix), target) for prefix in job.prefixes]
            for target in job.question.targets
        ]
    )


def tokens(seed: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, WORDS, count).tolist())


QUESTIONS = [
    Question(tokens(1, 12), (tokens(2, 9), tokens(3, 1), tokens(2, 9), tokens(4, 30)), seed=5),
    Question(tokens(5, 25), (tokens(6, 60), tokens(7, 2)), seed=6),
    Question(tokens(8, 3), (tokens(9, 4),), seed=7),
]  # fmt: skip


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_branch_is_that_of_a_forward_pass(family: str, attention: str) -> None:
    """Questions of three lengths at once, targets of 1 to 60 tokens, one of them twice, and samples that may end."""
    model = model_of(family, attention)
    engine = TransformersEngine(model, end_tokens=[END], group=3)
    sampled = engine.sample(QUESTIONS, SETTINGS)
    alone = TransformersEngine(model, end_tokens=[END], group=1).sample(QUESTIONS, SETTINGS)
    assert [[one.tokens for one in some] for some in sampled] == [[one.tokens for one in some] for some in alone]
    jobs = [Job(q, samples, choose(samples, SETTINGS)) for q, samples in zip(QUESTIONS, sampled, strict=True)]
    for job, found in zip(jobs, engine.score(jobs), strict=True):
        assert found == pytest.approx(expected(model, job), abs=1e-4)
        for one in job.samples:
            if one.tokens:
                assert one.log_p[-1] == pytest.approx(one_pass(model, job.question.tokens, one.tokens), abs=1e-4)


def test_fewer_tokens_than_one_pass_a_branch() -> None:
    """Question once, used samples once, and of each branch all of the target's tokens but the last."""
    model = model_of("grouped queries")
    samples = [
        Sample(tokens(20 + k, length), np.linspace(0, -k - 1.0, length + 1)) for k, length in enumerate((20, 20, 9, 20))
    ]
    question = Question(tokens(1, 40), (tokens(2, 12), tokens(3, 1)))
    job = Job(question, samples, choose(samples, SETTINGS))
    engine = TransformersEngine(model, end_tokens=[END])
    (found,) = engine.score([job])
    assert found == pytest.approx(expected(model, job), abs=1e-4)
    used = {
        prefix.sample: max(p.position for p in job.prefixes if p.sample == prefix.sample) for prefix in job.prefixes
    }
    floor = 40 + sum(used.values()) + len(job.prefixes) * 11
    assert floor <= engine.tokens_forwarded <= 1.3 * floor


def test_half_precision_stays_near() -> None:
    """bfloat16 has 8 bits: a sum over the target is a few hundredths off, not more, and no fall-back is needed."""
    model = model_of("grouped queries").to(torch.bfloat16)
    engine = TransformersEngine(model, end_tokens=[END])
    samples = [Sample(tokens(20 + k, 20), np.linspace(0, -k - 1.0, 21)) for k in range(4)]
    job = Job(QUESTIONS[0], samples, choose(samples, SETTINGS))
    (found,) = engine.score([job])
    wanted = expected(model, job)
    assert np.abs(found - wanted).max() < 0.5 + 0.02 * np.abs(wanted).max()
    assert "plain" not in engine.ways.values()


def test_memory_that_runs_out_makes_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocator refuses passes of more than three rows: the work is cut until it fits, and numbers stay."""
    model = model_of("grouped queries")
    samples = [Sample(tokens(20 + k, 20), np.linspace(0, -k - 1.0, 21)) for k in range(4)]
    job = Job(QUESTIONS[0], samples, choose(samples, SETTINGS))
    engine, forward = TransformersEngine(model, end_tokens=[END]), model.forward
    widths: list[int] = []

    def limited(*args: Any, **kwargs: Any) -> Any:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        widths.append(ids.shape[0])
        if ids.shape[0] > 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried")
        return forward(*args, **kwargs)

    limited.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "forward", limited)
    (found,) = engine.score([job])
    assert max(widths) > 3
    monkeypatch.setattr(model, "forward", forward)
    assert found == pytest.approx(expected(model, job), abs=1e-4)


def test_no_memory_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("grouped queries")
    engine, forward = TransformersEngine(model, end_tokens=[END]), model.forward
    engine.score([Job(QUESTIONS[2], [Sample((), np.zeros(1))], choose([Sample((), np.zeros(1))], SETTINGS))])

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    refused.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "forward", refused)
    samples = [Sample(tokens(20, 20), np.linspace(0, -1.0, 21))]
    with pytest.raises(MemoryError, match=r"relaxed_memory|memory"):
        engine.score([Job(QUESTIONS[0], samples, choose(samples, SETTINGS))])


def test_a_model_that_answers_differently_with_a_cache_is_caught(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A model that ignores what the cache holds would be silently wrong; its branches are computed one by one."""
    model = model_of("grouped queries")
    samples = [Sample(tokens(20 + k, 20), np.linspace(0, -k - 1.0, 21)) for k in range(4)]
    job = Job(QUESTIONS[0], samples, choose(samples, SETTINGS))
    wanted, forward = expected(model, job), model.forward

    def forgetful(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("position_ids") is not None and (kwargs.get("past_key_values") or kwargs.get("cache")):
            kwargs["position_ids"] = kwargs["position_ids"] * 0
        return forward(*args, **kwargs)

    forgetful.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "forward", forgetful)
    engine = TransformersEngine(model, end_tokens=[END])
    with caplog.at_level(logging.WARNING):
        (found,) = engine.score([job])
    assert found == pytest.approx(wanted, abs=1e-4)
    assert "a forward pass of its own" in caplog.text
    assert "LlamaForCausalLM" in caplog.text
