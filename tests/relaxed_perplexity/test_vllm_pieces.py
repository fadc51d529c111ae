"""On the CPU, sampling requests go in groups whose prompts vLLM reads in one piece (the real engine: see below)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.vllm_pieces import groups


def llm(device: str = "cpu", step: int = 100, block: int = 16, caching: bool = True, pieces: bool = True) -> Any:
    config = SimpleNamespace(
        device_config=SimpleNamespace(device_type=device),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=step, enable_chunked_prefill=pieces),
        cache_config=SimpleNamespace(block_size=block, enable_prefix_caching=caching),
    )
    return SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))


def sizes(model: Any, lengths: list[int], n: int = 1) -> list[list[int]]:
    requests = [((7,) * length, {"n": n}) for length in lengths]
    return [[len(tokens) for tokens, _ in group] for group in groups(model, requests)]


def test_groups_fill_a_step_and_keep_the_order() -> None:
    assert sizes(llm(), [40, 50, 30, 60, 10]) == [[40, 50], [30, 60, 10]]
    assert sizes(llm(), [100, 1]) == [[100], [1]]
    assert sizes(llm(), []) == []


def test_further_completions_cost_a_block_each_or_all_without_the_cache() -> None:
    """40 + 2 x 16 = 72 tokens: one a step of 100, where a third of that would fit twice; without the cache 3 x 30."""
    assert sizes(llm(), [40, 40], n=3) == [[40], [40]]
    assert sizes(llm(step=144), [40, 40], n=3) == [[40, 40]]
    assert sizes(llm(caching=False), [30, 30], n=3) == [[30], [30]]


@pytest.mark.parametrize("model", [llm(device="cuda"), llm(pieces=False)])
def test_elsewhere_all_go_at_once(model: Any) -> None:
    assert sizes(model, [90, 90, 300]) == [[90, 90, 300]]


def test_what_no_step_takes_is_told_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=r"takes 101 tokens here, and a step has 100.*max_num_batched_tokens"):
        sizes(llm(), [50, 101])
