"""Reasoning models through the harness: what is scored, what is counted, where stop strings apply (case b61)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripted import ScriptedModel, evaluate, open_rows

GENERATIONS = [
    "<think>Could be gout.</think>Septic arthritis.",
    "<think>Could be gout, could be",
    "plan</think>Septic arthritis.",
    "Septic arthritis. <think> is a tag",
    "<think></think>",
    "<Think>x</THINK>\n\nSeptic arthritis.",
]
CLEAN = ["Septic arthritis.", "", "Septic arthritis.", "Septic arthritis. <think> is a tag", "", "Septic arthritis."]


class OpensReasoning(ScriptedModel):
    """A chat model whose template begins the reasoning."""

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return super().apply_chat_template(messages) + "<think>\n"


def run(folder: Path, model: ScriptedModel, n: int, **kwargs: Any) -> tuple[Any, list[str], list[str]]:
    data = open_rows(folder, ["Septic arthritis."] * n)
    out = evaluate("careqa_open", model, data, log_samples=True, **kwargs)
    samples = out["samples"]["careqa_open"]
    return out, [s["filtered_resps"][0] for s in samples], [s["resps"][0][0] for s in samples]


def test_b61(tmp_path: Path) -> None:
    out, scored, raw = run(tmp_path, ScriptedModel(GENERATIONS), 6)
    assert scored == CLEAN
    assert raw == GENERATIONS, "the raw text stays in the log"
    results = out["results"]["careqa_open"]
    assert results["cut_reasoning,none"] == pytest.approx(1 / 6)
    assert results["empty_prediction,none"] == pytest.approx(2 / 6)
    assert results["rouge1,none"] == pytest.approx((3 * 1.0 + 2 * 2 / (2 + 6)) / 6)  # 2 of 6 words are in the fourth
    assert out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"]["cut_reasoning"] == 1


def test_stop_strings_apply_after_the_reasoning(tmp_path: Path) -> None:
    reply = "<think>First.\n\nSecond.</think>Septic arthritis.\n\nQuestion: And then?"
    _, scored, _ = run(tmp_path, ScriptedModel([reply]), 1)
    assert scored == ["Septic arthritis."]


def test_a_model_that_is_known_to_reason_gets_no_stop_strings(tmp_path: Path) -> None:
    model = ScriptedModel(["<think>a\n\nb</think>Gout.\n\nMore"])
    _, scored, _ = run(tmp_path, model, 1, metadata={"reasoning": "on"})
    assert model.seen[0][1]["until"] == []
    assert scored == ["Gout."]
    model = ScriptedModel(["Gout."])
    run(tmp_path, model, 1)
    assert model.seen[0][1]["until"] == ["\n\n"]


def test_a_template_that_begins_the_reasoning(tmp_path: Path) -> None:
    model = OpensReasoning(["thought</think>\n\nGout.", "only thought"])
    out, scored, _ = run(tmp_path, model, 2, apply_chat_template=True, gen_kwargs={"until": ["\n\n"]})
    assert scored == ["Gout.", ""]
    assert model.seen[0][1]["until"] == []
    assert out["results"]["careqa_open"]["cut_reasoning,none"] == 0.5


def test_reasoning_can_be_left_in(tmp_path: Path) -> None:
    _, scored, _ = run(tmp_path, ScriptedModel(["<think>a</think>Gout."]), 1, metadata={"reasoning": "off"})
    assert scored == ["<think>a</think>Gout."]
