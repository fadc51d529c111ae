"""Multiple choice in free text: what is right, what is wrong, what could not be read."""

from __future__ import annotations

import math

import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue
from scripted import ScriptedModel, evaluate

NAMES = [entry.name for entry in catalogue(tasks_path()) if entry.kind == "task" and entry.name.endswith("_gen")]


def gold_letters(name: str) -> list[str]:
    task = task_manager(metadata={"data": "sample"}, include_defaults=False).load([name])["tasks"][name]
    found = []
    for doc in task.eval_docs:
        target, labels = task.doc_to_target(doc), task.doc_to_choice(doc)
        found.append(target if isinstance(target, str) and target in labels else labels[int(target)])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_in_many_forms_are_right(name: str) -> None:
    forms = ["{}", "The answer is {}.", "<think>Hm, A?\n\nOr C?</think>\n\n**Answer:** {}", "({})"]
    gold = gold_letters(name)
    replies = [forms[n % len(forms)].format(letter) for n, letter in enumerate(gold)]
    out = evaluate(name, ScriptedModel(replies))["results"][name]
    assert out["acc,none"] == 1.0
    assert out["unparsed,none"] == 0.0


def test_every_kind_of_failure_is_counted() -> None:
    gold = gold_letters("medmcqa_gen")
    wrong = next(letter for letter in "ABCD" if letter != gold[1])
    replies = [gold[0], wrong, "I cannot say.", "", "<think>Perhaps", *gold[5:]]
    out = evaluate("medmcqa_gen", ScriptedModel(replies))
    results, n = out["results"]["medmcqa_gen"], len(gold)
    assert n == 10
    assert results["acc,none"] == pytest.approx(6 / 10)  # the first and the last five
    assert results["acc_parsed,none"] == pytest.approx(6 / 7)  # of seven that could be read
    assert results["acc_parsed_coverage,none"] == pytest.approx(7 / 10)
    assert results["unparsed,none"] == pytest.approx(3 / 10)
    assert results["empty_prediction,none"] == pytest.approx(2 / 10)
    assert results["cut_reasoning,none"] == pytest.approx(1 / 10)
    # a share p of n: sqrt(p (1 - p) / (n - 1))
    assert results["acc_stderr,none"] == pytest.approx(math.sqrt(0.6 * 0.4 / 9))
    reasons = out["configs"]["medmcqa_gen"]["metadata"]["healthcare"]["reasons"]
    assert reasons == {"unparsed": 3, "empty_prediction": 2, "cut_reasoning": 1}


def test_scores_by_category_as_in_the_task_by_likelihood() -> None:
    out = evaluate("careqa_en_gen", ScriptedModel(gold_letters("careqa_en_gen")))["results"]["careqa_en_gen"]
    assert out["acc_category_nursing,none"] == 1.0


def test_spanish_is_asked_in_spanish() -> None:
    task = task_manager(metadata={"data": "sample"}, include_defaults=False).load(["careqa_es_gen"])["tasks"]
    text = task["careqa_es_gen"].fewshot_context(task["careqa_es_gen"].eval_docs[0], 0)
    assert text.startswith("Elija")
    assert text.endswith("\nRespuesta:")
