"""Instructions that stand in the harness's Python code: the pack's prompt is what that code makes of our fields."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.prompts import apply_prompt
from lm_eval_healthcare.harness.task import HealthcareTask


def ours(name: str, **metadata: Any) -> HealthcareTask:
    return task_manager(metadata={"data": "sample", **metadata}, include_defaults=False).load([name])["tasks"][name]


def theirs(module: str) -> ModuleType:
    with mock.patch("evaluate.load"), mock.patch.dict(sys.modules, {"radgraph": mock.MagicMock()}):
        return importlib.import_module(f"lm_eval.tasks.{module}.utils")


@pytest.mark.parametrize("level", ["easy", "hard"])
def test_prescriptions(level: str) -> None:
    task, code = ours(f"med_prescriptions_{level}"), theirs("med_prescriptions")
    assert task.wording == "harness"
    for doc in task.eval_docs:
        options = [doc[f"option_{letter}"] for letter in "abcd"]
        with (
            mock.patch.object(code, "get_diagnosis", return_value=doc["complaint"]),
            mock.patch.object(code, f"doc_to_choice_{level}", return_value=options),
        ):
            assert task.doc_to_text(doc) == getattr(code, f"doc_to_text_{level}")({})


def test_transcriptions() -> None:
    task, code = ours("med_text_classification_hard"), theirs("med_text_classification")
    for doc in task.eval_docs:
        with mock.patch.object(code, "doc_to_choice_hard", return_value=list(doc["choices"])):
            assert task.doc_to_text(doc) == code.doc_to_text_hard(doc)


def test_reports() -> None:
    task, code = ours("mimic_repsum"), theirs("mimic_repsum")
    for doc in task.eval_docs:
        # The harness's code takes everything between the two headings that is not broken by five blanks.
        text = {"extractive_notes_summ": "FINDINGS" + "IMPRESSION"}
        expected = code.doc_to_text(text).replace("FINDINGS", doc["findings"])
        assert task.doc_to_text(doc) == expected


def test_texts_with_template_signs_stay_texts() -> None:
    task = ours("med_text_classification_easy")
    doc = {**task.eval_docs[0], "medical_abstract": "{{ 7 * 7 }} {% if x %} {# c #} {}"}
    assert "{{ 7 * 7 }} {% if x %} {# c #} {}" in task.doc_to_text(doc)


def test_another_harness_is_told() -> None:
    task = ours("med_prescriptions_easy")
    for change, message in (
        ({"fields": ["complaint"]}, "not as expected"),
        ({"file": "gone/utils.py"}, "has no gone/"),
    ):
        facts = dataclasses.replace(task.facts, harness_template={**task.facts.harness_template, **change})
        with pytest.raises(OptionError, match=message):
            apply_prompt({}, facts, "harness")
