"""Reasoning is taken out of answers: case b61 and what else models write around their tags."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.results.reasoning import opens_reasoning, stopped, without_reasoning

B61 = [
    ("<think>Could be gout.</think>Septic arthritis.", "Septic arthritis.", False),
    ("<think>Could be gout, could be", "", True),
    ("plan</think>Septic arthritis.", "Septic arthritis.", False),
    ("Septic arthritis. <think> is a tag", "Septic arthritis. <think> is a tag", False),
    ("<think></think>", "", False),
    ("<Think>x</THINK>\n\nSeptic arthritis.", "Septic arthritis.", False),
]
MORE = [
    ("\n <think>a\n\nb</think>\n\nGout.\n", "Gout.", False),
    ("<think>a<think>b</think>c</think>Gout.", "Gout.", False),
    ("<thinking>a</thinking>Gout.", "Gout.", False),
    ("Well. <think>a</think>Gout.", "Well. Gout.", False),
    ("<think>a</think><think>b", "", True),
    ("<think>a</think>Write <think> to think.", "Write <think> to think.", False),
    ("  Gout.  ", "  Gout.  ", False),
    ("<thinker>Gout.", "<thinker>Gout.", False),
    ("<thought>a</thought>Gout.", "Gout.", False),
    ("[THINK]a[/THINK]Gout.", "Gout.", False),
    ("◁think▷a◁/think▷Gout.", "Gout.", False),
    ("<|begin_of_thought|>a<|end_of_thought|>\n\nGout.", "Gout.", False),
    ("<seed:think>a</seed:think>Gout.", "Gout.", False),
    ("", "", False),
]


@pytest.mark.parametrize(("reply", "text", "cut"), B61 + MORE)
def test_what_is_left(reply: str, text: str, cut: bool) -> None:
    answer = without_reasoning(reply)
    assert (answer.text, answer.cut) == (text, cut)


@pytest.mark.parametrize(
    ("reply", "text", "cut"),
    [
        ("all of it is thought", "", True),
        ("thought</think>\n\nGout.", "Gout.", False),
        ("<think>again</think>Gout.", "Gout.", False),
        ("", "", True),
    ],
)
def test_reasoning_begun_by_the_prompt(reply: str, text: str, cut: bool) -> None:
    answer = without_reasoning(reply, begun=True)
    assert (answer.text, answer.cut) == (text, cut)


def test_which_prompts_begin_reasoning() -> None:
    assert opens_reasoning("<|assistant|>\n<think>\n")
    assert opens_reasoning("<THINK>")
    assert not opens_reasoning("<think>\n\n</think>\n\n")
    assert not opens_reasoning("What is <think>? Answer:")


@pytest.mark.parametrize("part", ["<think>", "</think>", "<think></think>", "a<think>b"])
def test_many_tags_take_linear_time(part: str) -> None:
    assert len(without_reasoning(part * 200_000).text) <= len(part) * 200_000


def test_stop_strings() -> None:
    assert stopped("Gout.\n\nNext question: x", ["\n\n", "Next"]) == "Gout."
    assert stopped("Gout.", ["\n\n", ""]) == "Gout."
    assert stopped("\n\nGout.", ["\n\n"]) == ""
