"""A real vLLM, on the CPU: K answers in one request, the same whatever else is asked, and kept as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from lm_eval_healthcare.harness import repeated_requests

pytestmark = pytest.mark.vllm

SAMPLING = {"until": ["\n\n"], "max_gen_toks": 8, "do_sample": True, "temperature": 1.0, "top_p": 0.9}
QUESTIONS = ["Which vitamin prevents scurvy?", "Name a sign of anaemia.", "What lowers a fever?"]
K = 11


@pytest.fixture(scope="module")
def engine(demo_model: Path) -> Any:
    pytest.importorskip("vllm")
    from lm_eval.models.vllm_causallms import VLLM

    return VLLM(
        pretrained=str(demo_model), dtype="float32", max_model_len=512, enforce_eager=True, gpu_memory_utilization=0.3
    )


@pytest.fixture
def requests_seen(engine: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the engine is asked, request by request."""
    seen: list[Any] = []
    generate = engine.model.generate

    def recorded(prompts: Any, sampling_params: Any, **kwargs: Any) -> Any:
        seen.extend(sampling_params)
        return generate(prompts, sampling_params=sampling_params, **kwargs)

    monkeypatch.setattr(engine.model, "generate", recorded)
    return seen


def answers(lm: Any, questions: list[str], seed: int = 0, cache: str = "off") -> dict[str, list[str]]:
    options = repeated_requests.options_for(K, seed, cache)
    asked = [
        Instance(request_type="repeated_generation", doc={}, arguments=(text, SAMPLING, options), idx=0,
                 metadata=("task", place, K))
        for place, text in enumerate(questions)
    ]  # fmt: skip
    flat = repeated_requests.repeated_generation(lm, [one for one in asked for _ in range(K)])
    return {text: flat[place * K : (place + 1) * K] for place, text in enumerate(questions)}


def test_one_request_a_question_whose_answers_depend_on_nothing_else(engine: Any, requests_seen: list[Any]) -> None:
    found = answers(engine, QUESTIONS)
    assert [parameters.n for parameters in requests_seen] == [K] * 3
    assert all((one.temperature, one.top_p) == (1.0, 0.9) for one in requests_seen)
    assert all(len(set(texts)) > K // 2 for texts in found.values())
    assert engine.batch_size == "auto"
    assert answers(engine, QUESTIONS[::-1]) == found
    assert answers(engine, QUESTIONS[1:2])[QUESTIONS[1]] == found[QUESTIONS[1]]
    assert answers(engine, QUESTIONS[:1], seed=1)[QUESTIONS[0]] != found[QUESTIONS[0]]
    # Answer k is what a request of its own with seed + k gives, through the harness's own method.
    (parameters,) = {one.seed for one in requests_seen[-2:-1]}
    own = [
        Instance(request_type="generate_until", doc={}, idx=0, metadata=("task", 0, 1),
                 arguments=(QUESTIONS[1], {**SAMPLING, "seed": parameters + number}))
        for number in (0, 4)
    ]  # fmt: skip
    assert engine.generate_until(own) == [found[QUESTIONS[1]][number] for number in (0, 4)]


def test_what_a_step_cannot_read_at_once_is_asked_in_parts(
    engine: Any, requests_seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval_healthcare.relaxed_perplexity.engines import vllm_pieces

    whole = answers(engine, QUESTIONS[:1])
    requests_seen.clear()
    monkeypatch.setattr(vllm_pieces, "fits", lambda llm, request: request[1]["n"] == 1)
    assert answers(engine, QUESTIONS[:1]) == whole
    assert [parameters.n for parameters in requests_seen] == [1] * K


def test_answers_that_are_known_are_not_asked_for(engine: Any, requests_seen: list[Any], tmp_path: Path) -> None:
    first = answers(engine, QUESTIONS[:2], cache=str(tmp_path))
    assert len(requests_seen) == 2
    again = answers(engine, QUESTIONS, cache=str(tmp_path))
    assert len(requests_seen) == 3
    assert {text: again[text] for text in first} == first
