"""A real vLLM, on the CPU: perplexities against the transformers back end, in any order, and longer than the window."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import pytest

from support import write_jsonl

pytestmark = pytest.mark.vllm

TASKS = ["careqa_open_perplexity", "careqa_open_conditional_perplexity"]
WINDOW = 256


@pytest.fixture(scope="module")
def engine(demo_model: Path) -> Any:
    """vLLM with its prefix cache on, as it is by default, and a window that prompts of the sample do not fit into."""
    pytest.importorskip("vllm")
    from lm_eval.models.vllm_causallms import VLLM

    lm = VLLM(
        pretrained=str(demo_model), dtype="float32", max_model_len=WINDOW, enforce_eager=True,
        gpu_memory_utilization=0.3, enable_prefix_caching=True, batch_size="auto",
    )  # fmt: skip
    yield lm
    del lm
    gc.collect()


def ask(lm: Any, questions: list[tuple[str, str]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.likelihood import answer_loglikelihood

    return answer_loglikelihood(
        lm, [Instance("answer_loglikelihood", {}, q, 0, metadata=("t", i, 1)) for i, q in enumerate(questions)]
    )


def harness(lm: Any, method: str, arguments: list[tuple[str, ...]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    return getattr(lm, method)([Instance(method, {}, a, 0, metadata=("t", i, 1)) for i, a in enumerate(arguments)])


def texts() -> list[tuple[str, str]]:
    """Questions that share a long beginning, answers that share theirs, short and long ones."""
    shared = "A patient of sixty years comes with chest pain that began two hours ago. " * 4
    answers = [" Give aspirin and call for help.", " Give aspirin and wait.", " Take an ECG within ten minutes."]
    after = [(f"{shared}{end}", answer) for end in ("What now?", "What next?") for answer in answers]
    return after + [("", answer.strip()) for answer in answers] + [("", shared * 5), (shared * 5, shared * 3)]


@pytest.mark.long
def test_values_do_not_depend_on_order(engine: Any) -> None:  # case b41
    """The prefix cache is on and warm after the first call; every value is the same in both orders, and alone."""
    questions = texts()
    forwards = ask(engine, questions)
    backwards = ask(engine, questions[::-1])[::-1]
    alone = [ask(engine, [question])[0] for question in questions]
    again = ask(engine, questions)
    for other in (backwards, alone, again):
        assert [answer[1:] for answer in other] == [answer[1:] for answer in forwards]
        # float32; what is left is the order of additions in batches of other shapes
        assert [answer[0] for answer in other] == pytest.approx([answer[0] for answer in forwards], abs=2e-3)


def test_values_are_the_harness_own(engine: Any) -> None:
    questions = texts()
    fitting = [q for q in questions if q[0] and len(q[1]) < 100]
    assert [a[0] for a in ask(engine, fitting)] == pytest.approx(
        [value for value, _ in harness(engine, "loglikelihood", fitting)], abs=2e-3
    )
    alone = [(answer,) for context, answer in questions if not context]
    assert [a[0] for a in ask(engine, [("", text) for (text,) in alone])] == pytest.approx(
        harness(engine, "loglikelihood_rolling", alone), abs=2e-3
    )


def test_long_texts_lose_nothing(engine: Any, demo_model: Path) -> None:
    """The same windows through transformers, which needs no room for a generated token and is told of two fewer."""
    from token_models import load

    other = load(demo_model, max_length=WINDOW - 2)
    for question, (value, tokens, cut, prefix) in zip(texts(), ask(engine, texts()), strict=True):
        (expected,) = ask(other, [question])
        assert (tokens, cut, prefix) == expected[1:]
        assert value == pytest.approx(expected[0], abs=2e-3 + 1e-5 * abs(expected[0]))
        assert tokens == len(other.tok_encode(question[1], add_special_tokens=False))


def test_tasks_agree_with_the_transformers_back_end(engine: Any, demo_model: Path, tmp_path: Path) -> None:
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager
    from token_models import load

    rows = [{"question": f"What is {name}?", "answer": text} for name, text in (
        ("fever", "A body temperature above 38 degrees."), ("nothing", ""), ("anaemia", "Too little haemoglobin."),
        ("asthma", "Airways that narrow from time to time. " * 30),
    )]  # fmt: skip
    write_jsonl(tmp_path / "careqa_open.jsonl", rows)
    out = {}
    for name, lm in (("vllm", engine), ("hf", load(demo_model, max_length=WINDOW - 2))):
        manager = task_manager(metadata={"data": str(tmp_path), "answers": "off"}, include_defaults=False)
        out[name] = simple_evaluate(model=lm, tasks=TASKS, task_manager=manager, apply_chat_template=True)
    for task in TASKS:
        one, two = (found["results"][task] for found in out.values())
        assert one["nats_per_byte_coverage,none"] == 0.75
        for metric in ("word_perplexity", "byte_perplexity", "bits_per_byte", "nats_per_byte"):
            assert math.isfinite(one[f"{metric},none"])
            for key in (f"{metric},none", f"{metric}_stderr,none"):
                assert one[key] == pytest.approx(two[key], rel=1e-3)
        sections = [found["configs"][task]["metadata"]["healthcare"] for found in out.values()]
        assert sections[0]["reasons"] == sections[1]["reasons"]
        assert sections[0]["perplexity"] == sections[1]["perplexity"]
