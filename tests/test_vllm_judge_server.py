"""A real `vllm serve`, on the CPU: the judge behind it says what transformers says, and what fails is told."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.judge import Reason
from lm_eval_healthcare.judge.backends.base import Ask
from lm_eval_healthcare.judge.backends.openai import OpenAIBackend
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.settings import Sampling
from vllm_server import vllm_server

pytestmark = [pytest.mark.vllm, pytest.mark.long]

CONTEXT = 512
GREEDY = Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.0, max_tokens=12)
QUESTIONS = ("What is a fever?", "Name three fruits.", "Is aspirin a drug? Say yes or no.", "¿Qué es la tos?")


@pytest.fixture(scope="module")
def url(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the demo model at a free port."""
    pytest.importorskip("vllm")
    with vllm_server(demo_model, tmp_path_factory.mktemp("server") / "log", CONTEXT) as root:
        yield f"{root}/v1"


@pytest.fixture(scope="module")
def judge(url: str) -> Iterator[OpenAIBackend]:
    with OpenAIBackend(base_url=url, concurrency=4, retries=1) as backend:
        yield backend


def prompt(question: str) -> Prompt:
    return Prompt((Message("system", "You answer in one short sentence."), Message("user", question)))


def test_what_it_knows_of_itself(judge: OpenAIBackend, demo_model: Path) -> None:
    from vllm import __version__

    assert (judge.model, judge.context, judge.remote) == ("demo", CONTEXT, False)
    assert judge.facts["vllm"] == __version__
    with OpenAIBackend(base_url=str(judge.facts["base_url"]), tokenizer=str(demo_model)) as local:
        for question in QUESTIONS:
            assert judge.count(prompt(question)) == local.count(prompt(question))


def test_replies_hold_the_name_of_their_request(url: str) -> None:
    """By which a reply to another request is told from the right one."""
    request = urllib.request.Request(
        f"{url}/chat/completions",
        json.dumps({"model": "demo", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}).encode(),
        {"Content-Type": "application/json", "X-Request-Id": "judge-1."},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert "judge-1." in json.loads(reply.read())["id"]


def test_greedy_texts_and_probabilities_are_those_of_transformers(judge: OpenAIBackend, demo_model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    model: Any = AutoModelForCausalLM.from_pretrained(demo_model, dtype=torch.float32)
    replies = {
        reply.number: reply for reply in judge.replies((Ask(i, prompt(q), i) for i, q in enumerate(QUESTIONS)), GREEDY)
    }
    for number, question in enumerate(QUESTIONS):
        reply = replies[number]
        turns = [{"role": one.role, "content": one.content} for one in prompt(question).messages]
        ids = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=False, return_tensors="pt"
        )
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=GREEDY.max_tokens, do_sample=False,
            output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        new = out.sequences[0, ids.shape[1] :]
        assert reply.text == tokenizer.decode(new, skip_special_tokens=True)
        assert reply.prompt_tokens == ids.shape[1]
        assert reply.completion_tokens == len(new)
        assert reply.text.endswith("".join(token.text for token in reply.tokens))
        if "\ufffd" not in reply.text and reply.finish == "length":
            assert len(reply.tokens) == len(new)
            for token, chosen, scores in zip(reply.tokens, new, out.scores, strict=True):
                log_p = torch.log_softmax(scores[0].double(), -1)[chosen].item()
                # Two engines' float32, and a number that a server has rounded.
                assert token.top[token.text] == pytest.approx(log_p, abs=2e-3)
                assert math.fsum(math.exp(p) for p in token.top.values()) <= 1 + 1e-6


def test_seeds_and_the_published_settings(judge: OpenAIBackend) -> None:
    """The repetition penalty is vLLM's extension; the same seed gives the same text, another one another."""
    paper = Sampling(max_tokens=16)
    seeds = (1, 1, 2, 3)
    replies = sorted(
        judge.replies((Ask(i, prompt("Tell me a story."), seed) for i, seed in enumerate(seeds)), paper),
        key=lambda reply: reply.number,
    )
    texts = [reply.text for reply in replies]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert {reply.finish for reply in replies} == {"length"}


def test_what_does_not_fit_is_told(judge: OpenAIBackend) -> None:
    long, good = sorted(
        judge.replies([Ask(0, prompt("word " * CONTEXT), 0), Ask(1, prompt("Hello?"), 0)], GREEDY),
        key=lambda reply: reply.number,
    )
    assert (long.text, long.reason) == (None, Reason.TOO_LONG), long.detail
    assert good.text
    # This server shortens a text that has too little room.
    (full,) = judge.replies([Ask(0, prompt("word " * (CONTEXT - 60)), 0)], Sampling(max_tokens=200))
    assert full.finish == "length"
    assert full.prompt_tokens is not None
    assert full.completion_tokens == CONTEXT - full.prompt_tokens
    with pytest.raises(JudgeError, match="no model 'other'; it has: demo"):
        OpenAIBackend(base_url=str(judge.facts["base_url"]), model="other").start()
