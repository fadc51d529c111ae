"""A real vLLM as the judge, on the CPU, in this process, after the evaluated model, a vLLM too, has made room."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.judge.backends.base import Ask, Reply
from lm_eval_healthcare.judge.backends.vllm import VLLMBackend
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import Sampling

pytestmark = pytest.mark.vllm

ARGUMENTS = {"dtype": "float32", "max_model_len": 512, "enforce_eager": True, "gpu_memory_utilization": 0.3}
GREEDY = Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.1, max_tokens=10)


def ask(number: int, text: str) -> Ask:
    return Ask(number, Prompt((Message("system", "You grade answers."), Message("user", text))), seed=number)


ASKS = [
    ask(i, f"Grade the answer '{answer}' to '{question}' from 1 to 5, with feedback.")
    for i, (question, answer) in enumerate(
        [
            ("What lowers fever?", "Paracetamol."),
            ("What is HbA1c?", "A drug."),
            ("What causes scurvy?", "Too little C."),
        ]
    )
]


def by_number(replies: Iterator[Reply]) -> list[Reply]:
    return sorted(replies, key=lambda reply: reply.number)


def check_the_judge(backend: VLLMBackend, folder: Path) -> None:
    """Everything that needs a loaded engine."""
    from lm_eval_healthcare.judge.backends.hf import HFBackend

    engine = backend._llm.llm_engine
    assert backend.context == 512
    assert backend.facts["gpu_memory_utilization"] == 0.3
    assert backend.facts["dtype"] == "float32"

    # The texts and the probabilities are those of transformers.
    mine = by_number(backend.replies(iter(ASKS), GREEDY))
    with HFBackend(str(folder), device="cpu", dtype="float32") as other:
        yours = by_number(other.replies(iter(ASKS), GREEDY))
        assert [other.count(one.prompt) for one in ASKS] == [backend.count(one.prompt) for one in ASKS]
        assert other.model == backend.model
    assert [(r.text, r.finish, r.prompt_tokens, r.completion_tokens) for r in mine] == [
        (r.text, r.finish, r.prompt_tokens, r.completion_tokens) for r in yours
    ]
    for one, two in zip(mine, yours, strict=True):
        assert [token.text for token in one.tokens] == [token.text for token in two.tokens]
        assert "".join(token.text for token in one.tokens) == one.text
        for a, b in zip(one.tokens, two.tokens, strict=True):
            assert max(a.top.values()) == pytest.approx(max(b.top.values()), abs=1e-3)
            assert sum(map(math.exp, a.top.values())) <= 1 + 1e-4

    # A seed gives its text again, alone or among others, and other seeds give other texts.
    sampling = Sampling(max_tokens=12)
    together = by_number(backend.replies(iter(ASKS), sampling))
    (alone,) = backend.replies([ASKS[1]], sampling)
    assert alone.text == together[1].text
    (other_seed,) = backend.replies([Ask(1, ASKS[1].prompt, 99)], sampling)
    assert other_seed.text != alone.text

    # Prompts of exactly the context and longer are told, the longest that fits gets the one token that is left, and a
    # request that vLLM refuses harms no other.
    lengths = {n: backend.count(ask(0, "a " * n).prompt) for n in (100, 101)}
    assert lengths[101] == lengths[100] + 1
    words = 512 - lengths[100] + 100
    asked = [ask(0, "a " * (words - 1)), ask(1, "a " * words), ask(2, "a " * 4 * words), ASKS[0]]
    asked[3] = Ask(3, ASKS[0].prompt, 0)
    fits, same, over, short = by_number(backend.replies(asked, GREEDY))
    assert (fits.prompt_tokens, fits.completion_tokens, fits.reason) == (511, 1, None)
    assert (same.reason, same.prompt_tokens) == (Reason.TOO_LONG, 512)
    assert over.reason is Reason.TOO_LONG
    assert short.text == mine[0].text
    backend.context = 2000  # so that the engine itself has to refuse
    refused, good = by_number(backend.replies([asked[1], asked[3]], GREEDY))
    backend.context = 512
    assert (refused.reason, refused.text) == (Reason.REFUSED, None)
    assert "512" in refused.detail
    assert good.text == mine[0].text

    # More tokens of prompts than a step takes: read in pieces, seeded requests would end the engine on the CPU.
    step = engine.vllm_config.scheduler_config.max_num_batched_tokens
    many = [ask(n, f"{n} " + "a " * 400) for n in range(10, 10 + step // 400 + 2)]
    assert sum(backend.count(one.prompt) for one in many) > step
    assert all(reply.text is not None for reply in backend.replies(many, Sampling(max_tokens=1)))

    # Requests are taken as places become free; what is open when nobody wants more is given up.
    taken = itertools.count()
    endless = (Ask(next(taken), one.prompt, one.seed) for one in itertools.cycle(ASKS))
    backend.in_flight = 4
    stream = backend.replies(endless, Sampling(max_tokens=2))
    numbers = {next(stream).number for _ in range(6)}
    assert len(numbers) == 6
    assert next(taken) <= 6 + 4
    stream.close()  # type: ignore[attr-defined]
    stream = backend.replies([ASKS[0], ASKS[1], asked[2]], GREEDY)
    assert next(stream).reason is Reason.TOO_LONG
    assert engine.has_unfinished_requests()
    stream.close()  # type: ignore[attr-defined]
    assert not engine.has_unfinished_requests()

    # A vLLM that can only be asked in chunks gives the same texts.
    backend.in_flight = 2
    chunked = by_number(backend._in_chunks(iter([*ASKS[:1], asked[2], *ASKS[1:]]), GREEDY))
    assert {r.text for r in chunked if r.text is not None} == {r.text for r in mine}
    backend.context = 2000
    halves = list(backend._in_chunks(iter([asked[1], asked[3]]), GREEDY))
    backend.context = 512
    assert [r.reason for r in halves] == [Reason.REFUSED, None]


def test_a_judge_after_the_evaluated_model(demo_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are real vLLM engines in this process; results are written as if nothing had happened."""
    pytest.importorskip("vllm")
    import torch
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager
    from lm_eval_healthcare.harness.evaluated_model import ModelReleased, make_room, running_model
    from lm_eval_healthcare.harness.open_ended import GeneratedTextTask

    apply, seen = GeneratedTextTask.apply_filters, {}

    def weights_of(llm: Any) -> weakref.ref[Any]:
        runner = llm.llm_engine.model_executor.driver_worker.model_runner
        return weakref.ref(next(runner.model.parameters()))

    def applied(self: Any) -> None:
        found = running_model()
        assert found is not None
        assert found.owned
        seen["lm"], seen["evaluated"] = found.lm, weights_of(found.lm.model)
        assert make_room()
        assert not make_room()
        gc.collect()
        assert seen["evaluated"]() is None
        assert not torch.distributed.is_initialized()
        backend = VLLMBackend(str(demo_model), ARGUMENTS)
        with backend:
            seen["judge"] = weights_of(backend._llm)
            check_the_judge(backend, demo_model)
        backend.close()
        gc.collect()
        assert seen["judge"]() is None
        apply(self)

    monkeypatch.setattr(GeneratedTextTask, "apply_filters", applied)
    manager = task_manager(metadata={"data": "sample", "metrics": "ngram", "answers": "off"}, include_defaults=False)
    out = simple_evaluate(
        model="vllm", model_args={"pretrained": str(demo_model), **ARGUMENTS}, tasks=["careqa_open"], limit=2,
        task_manager=manager, gen_kwargs={"max_gen_toks": 8}, apply_chat_template=True,
    )  # fmt: skip
    assert out["results"]["careqa_open"]["rouge1_coverage,none"] == 1.0
    assert out["max_length"] == 512
    assert all(sample["resps"][0][0] for sample in out["samples"]["careqa_open"])
    with pytest.raises(ModelReleased, match="cannot answer again"):
        seen["lm"].generate_until([])


def test_arguments_and_folders_that_cannot_be_used(demo_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    with pytest.raises(JudgeError, match=r"'max_model_length' \(did you mean max_model_len"):
        VLLMBackend(str(demo_model), {"max_model_length": 5}).check()
    with pytest.raises(JudgeError, match="logprobs_mode"):
        VLLMBackend(str(demo_model), {"logprobs_mode": "processed_logits"})
    with pytest.raises(JudgeError, match="no such folder"):
        VLLMBackend(str(tmp_path / "absent")).start()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(JudgeError, match="no complete weights"):
        VLLMBackend(str(tmp_path)).check()
    with pytest.raises(JudgeError, match="call start first"):
        VLLMBackend(str(demo_model)).replies([], GREEDY)
    with pytest.raises(JudgeError, match="vLLM cannot load it"):
        VLLMBackend(str(demo_model), {**ARGUMENTS, "max_model_len": 10**6}).start()
