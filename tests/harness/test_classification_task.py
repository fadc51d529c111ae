"""F1 over classes, several right answers, and options that are drawn once; through the harness's own evaluator."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.data.biored import RELATIONS
from lm_eval_healthcare.data.transcriptions import SPECIALTIES
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.scoring.f1 import confusion_matrix, jackknife_stderr, macro_f1
from scripted import ScriptedModel, evaluate
from support import write_jsonl

# The relations of five pairs, and what the model answers.
GOLD = ["Bind", "Bind", "Association", "Cotreatment", "Association"]
ANSWERED = ["Bind", "Association", "Association", "Association", "Comparison"]


def pair_rows(folder: Path, relations: list[str], name: str = "biored") -> Path:
    write_jsonl(
        folder / f"{name}.jsonl",
        [
            {"pmid": str(i), "title": f"Title {i}.", "abstract": "Text.", "entity1": f"QRX{i}", "entity2": "Zorvatin",
             "type1": "GeneOrGeneProduct", "type2": "ChemicalEntity", "relation": relation, "novel": "Novel"}
            for i, relation in enumerate(relations)
        ],
    )  # fmt: skip
    return folder


def answering(answers: list[str], missing: tuple[int, ...] = ()) -> ScriptedModel:
    """Give the letter of the answer to the last question of a prompt; no likelihood for the `missing` ones."""

    def likelihood(context: str, continuation: str) -> float:
        number = int(context.rsplit("Title ", 1)[1].split(".")[0])
        if number in missing:
            return math.nan
        letter = "ABCDEFGH"[RELATIONS.index(answers[number])]
        return -1.0 if continuation == f" {letter}" else -2.0

    return ScriptedModel(likelihood=likelihood)


def test_f1_by_hand(tmp_path: Path) -> None:
    """Bind: 1 of 2 found, given once: F1 2/3. Association: 1 of 2 found, given 3 times: 2/5. Cotreatment: 0 of 1.

    Comparison is given and never right, so it is not averaged: (2/3 + 2/5 + 0) / 3. Micro: 2 of 5.
    """
    out = evaluate("biored", answering(ANSWERED), pair_rows(tmp_path, GOLD))
    found = out["results"]["biored"]
    assert found["acc,none"] == pytest.approx(0.4)
    assert found["f1_macro,none"] == pytest.approx((2 / 3 + 2 / 5 + 0) / 3)
    assert found["f1_micro,none"] == pytest.approx(0.4)
    assert found["f1_macro_coverage,none"] == found["f1_micro_coverage,none"] == 1.0
    places = [(RELATIONS.index(g), RELATIONS.index(a)) for g, a in zip(GOLD, ANSWERED, strict=True)]
    assert found["f1_macro_stderr,none"] == pytest.approx(jackknife_stderr(confusion_matrix(places), macro_f1))
    assert found["f1_micro_stderr,none"] == pytest.approx(found["acc_stderr,none"])
    assert found["acc_relation_association,none"] == pytest.approx(0.5)
    assert [sample["f1_macro"] for sample in out["samples"]["biored"]] == places
    json.dumps(out["samples"]["biored"], default=str)
    details = out["configs"]["biored"]["metadata"]["healthcare"]
    assert "classes:mean over the classes that occur among the gold ones" in details["signatures"]["f1_macro"]
    assert "impl:lm_eval|" in details["signatures"]["acc"]


def test_against_scikit_learn(tmp_path: Path) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold = [RELATIONS[(3 * i * i + i // 4) % 7] for i in range(40)]
    answered = [RELATIONS[(3 * i * i + i // 4) % 7 if i % 3 else i % 8] for i in range(40)]
    found = evaluate("biored", answering(answered), pair_rows(tmp_path, gold))["results"]["biored"]
    labels = sorted(set(gold))
    theirs = metrics.f1_score(gold, answered, labels=labels, average="macro", zero_division=0)
    assert found["f1_macro,none"] == pytest.approx(theirs)
    assert found["f1_micro,none"] == pytest.approx(metrics.accuracy_score(gold, answered))


def test_questions_without_a_likelihood_are_not_scored(tmp_path: Path) -> None:
    """Without the third and the fourth question: Bind 2/3, Association 0 of 1, given once: 0."""
    out = evaluate("biored", answering(ANSWERED, missing=(2, 3)), pair_rows(tmp_path, GOLD))
    found = out["results"]["biored"]
    assert found["f1_macro,none"] == pytest.approx((2 / 3 + 0) / 2)
    assert found["f1_micro,none"] == pytest.approx(1 / 3)
    assert found["f1_macro_coverage,none"] == pytest.approx(3 / 5)
    assert out["configs"]["biored"]["metadata"]["healthcare"]["reasons"] == {"nan_loglikelihood": 2}


def test_no_question_has_a_likelihood(tmp_path: Path) -> None:
    found = evaluate("biored", answering(ANSWERED, missing=tuple(range(5))), pair_rows(tmp_path, GOLD))
    row = found["results"]["biored"]
    assert all(math.isnan(row[f"{name},none"]) for name in ("acc", "f1_macro", "f1_micro"))
    assert math.isnan(row["f1_macro_stderr,none"])


def test_novelty_has_two_classes(tmp_path: Path) -> None:
    model = ScriptedModel(likelihood=lambda context, continuation: -1.0 if continuation == " A" else -2.0)
    out = evaluate("biored_novelty", model, pair_rows(tmp_path, GOLD))
    assert out["results"]["biored_novelty"]["acc,none"] == 1.0
    assert out["results"]["biored_novelty"]["f1_macro,none"] == 1.0


# Several right answers

NOTES = [
    (" Urology", "NOTE 0"),
    (" Surgery", "NOTE 0"),
    (" Letters", "NOTE 1"),
    (" Autopsy", "NOTE 2"),
    (" Surgery", "NOTE 2"),
]


def note_rows(path: Path, notes: list[tuple[str, str]]) -> None:
    write_jsonl(path, [{"medical_specialty": s, "transcription": t} for s, t in notes])


@pytest.mark.parametrize("task", ["med_transcriptions", "med_text_classification_hard"])
def test_any_specialty_of_a_note_is_right(tmp_path: Path, task: str) -> None:
    """The model gives Surgery to notes 0 and 2, which have it among others, and to note 1, which has not."""
    note_rows(tmp_path / "med_transcriptions.jsonl", NOTES)
    model = ScriptedModel(likelihood=lambda context, continuation: -1.0 if continuation == " Surgery" else -50.0)
    found = evaluate(task, model, tmp_path)["results"][task]
    assert found["acc,none"] == pytest.approx(2 / 3)
    assert found["acc_norm,none"] == pytest.approx(2 / 3)
    assert found["acc_norm_specialty_count_2,none"] == 1.0
    assert found["acc_norm_specialty_count_1,none"] == 0.0


def test_length_is_taken_into_account(tmp_path: Path) -> None:
    """The same log-likelihood a character and less in all for longer names: acc takes the shortest, acc_norm the best.

    With -0.5 a character for `Pain Management` (15) and -0.6 for the rest, `acc` takes `Letters` or another of the
    names with 7 characters (-4.2 against -7.5), and `acc_norm` takes `Pain Management`.
    """
    note_rows(tmp_path / "med_transcriptions.jsonl", [(" Pain Management", "NOTE"), (" Letters", "OTHER")])

    def likelihood(context: str, continuation: str) -> float:
        return (-0.5 if continuation == " Pain Management" else -0.6) * len(continuation.strip())

    out = evaluate("med_transcriptions", ScriptedModel(likelihood=likelihood), tmp_path)
    by_note = {s["doc"]["transcription"]: s for s in out["samples"]["med_transcriptions"]}
    assert (by_note["NOTE"]["acc_norm"], by_note["NOTE"]["acc"]) == (1.0, 0.0)


def test_an_example_shows_one_of_its_specialties(tmp_path: Path) -> None:
    note_rows(tmp_path / "med_transcriptions" / "test.jsonl", NOTES)
    note_rows(tmp_path / "med_transcriptions" / "train.jsonl", [(" Urology", "EXAMPLE"), (" Neurology", "EXAMPLE")])
    manager = task_manager(metadata={"data": str(tmp_path), "answers": "off"}, include_defaults=False)
    task = manager.load(["med_transcriptions"])["tasks"]["med_transcriptions"]
    text = task.fewshot_context(task.eval_docs[0], 1)
    assert "Note: EXAMPLE\n\nThe medical specialty of the note above is: Neurology\n\n" in text
    assert text.endswith("The medical specialty of the note above is:")
    assert text.index(SPECIALTIES[0]) < text.index("NOTE 0")


# Options that are drawn once


def options_of(task: Any, doc: dict[str, Any]) -> list[str]:
    lines = task.fewshot_context(doc, 0).split("\n")
    return [line.split(". ", 1)[1].strip() for line in lines if line[:3] in ("A. ", "B. ", "C. ", "D. ")]


@pytest.mark.parametrize("prompt", ["harness", "pack"])
@pytest.mark.parametrize("name", ["med_prescriptions_easy", "med_prescriptions_hard"])
def test_the_options_of_the_prompt_are_those_that_are_scored(name: str, prompt: str) -> None:
    for scored in ("letters", "text"):
        metadata = {"data": "sample", "answers": "off", "prompt": prompt, "scored": scored}
        manager = task_manager(metadata=metadata, include_defaults=False)
        task = manager.load([name])["tasks"][name]
        for doc in task.eval_docs:
            shown = options_of(task, doc)
            assert options_of(task, doc) == shown
            requests = task.construct_requests(doc, task.fewshot_context(doc, 0), metadata=(name, 0, 1))
            continuations = [request.args[1] for request in requests]
            assert continuations == [f" {text}" for text in (shown if scored == "text" else "ABCD")]
            assert doc["complaint"] in task.fewshot_context(doc, 0)


def test_easy_and_hard_ask_for_the_same_medicine() -> None:
    manager = task_manager(metadata={"data": "sample", "answers": "off"}, include_defaults=False)
    easy, hard = (
        manager.load([name])["tasks"][name].eval_docs for name in ("med_prescriptions_easy", "med_prescriptions_hard")
    )
    golds = [[doc[f"option_{'abcd'[doc['answer']]}"] for doc in docs] for docs in (easy, hard)]
    assert golds[0] == golds[1]
    assert [doc["option_a"] for doc in easy] != [doc["option_a"] for doc in hard]


def test_letters_of_an_abstract_are_scored(tmp_path: Path) -> None:
    write_jsonl(
        tmp_path / "med_text_classification_easy.jsonl",
        [{"condition_label": label, "medical_abstract": f"Abstract {label}."} for label in (1, 2, 3, 4, 5)],
    )
    model = ScriptedModel(likelihood=lambda context, continuation: {" B": -1.0, " C": -2.0}.get(continuation, -9.0))
    out = evaluate("med_text_classification_easy", model, tmp_path)
    found = out["results"]["med_text_classification_easy"]
    assert found["acc,none"] == pytest.approx(0.2)
    # Class 2 is right once and given five times: 2 / (1 + 5); the other four are 0.
    assert found["f1_macro,none"] == pytest.approx((1 / 3) / 5)
    assert found["acc_condition_digestive_system_diseases,none"] == 1.0


def test_prompts_are_those_of_the_installed_harness() -> None:
    """The harness's own functions, on the same text, print the same prompt but for the names of specialties."""
    path = HARNESS_TASKS / "med_text_classification" / "utils.py"
    spec = importlib.util.spec_from_file_location("their_utils", path)
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    manager = task_manager(metadata={"data": "sample", "answers": "off"}, include_defaults=False)
    easy, hard = "med_text_classification_easy", "med_text_classification_hard"
    tasks = manager.load([easy, hard])["tasks"]
    for doc in tasks[easy].eval_docs:
        expected = theirs.doc_to_text_easy({"text": doc["medical_abstract"]})
        assert tasks[easy].fewshot_context(doc, 0) == expected
        assert theirs.doc_to_choice_easy({})[doc["answer"]] == doc["condition"]
    names = theirs.doc_to_choice_hard({})
    assert sorted(name.strip() for name in names) == list(SPECIALTIES)
    for doc in tasks[hard].eval_docs:
        expected = theirs.doc_to_text_hard(doc).replace(str(names), str(list(SPECIALTIES)))
        assert tasks[hard].fewshot_context(doc, 0) == expected
