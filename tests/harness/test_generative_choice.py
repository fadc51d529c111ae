"""Multiple choice in free text: what is right, what is wrong, what could not be read."""

from __future__ import annotations

import math

import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue
from lm_eval_healthcare.harness.generative_choice import before_next_question
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
    forms = [
        "{}", "The answer is {}.", "There is much to say.\n\nAnswer: {}", "{}\n\nQuestion: Next?\nA. x\nAnswer: A",
        "<think>Hm, A?\n\nOr C?</think>\n\n**Answer:** {}", "({})",
    ]  # fmt: skip
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


OPTIONS = {"A": "liver", "B": "spleen"}
LISTED = "A. liver\nB. spleen\nAnswer:"


@pytest.mark.parametrize(
    ("prompt", "reply", "read"),
    [
        (f"Question: Which?\n{LISTED}", "B\n\nQuestion: What?\nA. x\nB. y\nAnswer: A", "B\n\n"),
        (f"Question: Which?\n{LISTED}", "B\nQuestion 2: What?\nAnswer: A", "B\n"),
        (f"Pregunta: ¿Cuál?\n{LISTED}", "B\n\nPregunta: ¿Qué?\nRespuesta: A", "B\n\n"),
        ("Abstract: One.\nQuestion: Is it?\nAnswer:", "no\n\nAbstract: Two.\nAnswer: yes", "no\n\n"),
        ("Title: One\nAbstract: x\nAnswer:", "B\n\nTitle: Two\nAnswer: A", "B\n\n"),
        ("Complaint or diagnosis: cough\nAnswer:", "B\nComplaint or diagnosis: fever\nAnswer: A", "B\n"),
        # without a head: the list of options tells
        (f"Which is it?\n{LISTED}", "B\n\nWhere is it?\nA. here\nB. there\nAnswer: A", "B"),
        # the same question again, a reply that begins with one, and one that discusses the options
        (f"Question: Which?\n{LISTED}", f"Well.\nQuestion: Which?\n{LISTED} B", None),
        (f"Question: Which?\n{LISTED}", "Question: Which one?\nAnswer: B", None),
        (f"Which is it?\n{LISTED}", f"Again:\n\nWhich is it?\n{LISTED} B", None),
        (f"Which is it?\n{LISTED}", "Let me see.\n\nOne by one:\nA. No.\nB. Right.\nAnswer: B", None),
        (f"Question: Which?\n{LISTED}", "The question: B?\n\nNo question: A.\n\nAnswer: A", None),
    ],
)
def test_invented_questions_are_not_read(prompt: str, reply: str, read: str | None) -> None:
    assert before_next_question(reply, prompt, OPTIONS if "A. " in prompt else {}) == (reply if read is None else read)


@pytest.mark.parametrize("part", ["Question: x\n", "A. x\n", "A. x\nB. y\nAnswer:\n\n", "\n"])
def test_looping_models_are_cut_in_time(part: str) -> None:
    cut = before_next_question("B\n" + part * (100_000 // len(part)), f"Question: Which?\n{LISTED}", OPTIONS)
    assert cut.startswith("B\n")
