"""Result files of the Open Medical-LLM leaderboard, read as its reader reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lm_eval_healthcare.report.export_open_medical import OpenMedicalOptions, export
from lm_eval_healthcare.report.exports import ExportError
from lm_eval_healthcare.results.cell import Cell

# The leaderboard's src/about.py: key in the file, metric in the file.
KEYS = [
    "medmcqa", "medqa_4options", "mmlu_anatomy", "mmlu_clinical_knowledge", "mmlu_college_biology",
    "mmlu_college_medicine", "mmlu_medical_genetics", "mmlu_professional_medicine", "pubmedqa",
]  # fmt: skip
METRIC = "acc,none"


def nine(model: str = "org/model", **changes: Any) -> list[Cell]:
    given = {"n": 100, "n_total": 100, "stderr": 0.0125, "n_shot": 0, "template": "", "date": 1772359200.0}
    cells = [Cell(model, task, "acc", "none", 0.1 + n / 30, **{**given, **changes}) for n, task in enumerate(KEYS)]
    return cells[::-1]  # in no order that the file should have


def only(cells: list[Cell], **options: Any) -> tuple[str, dict[str, Any]]:
    (document,) = export(cells, OpenMedicalOptions(**options)).documents
    return str(document.path), json.loads(document.text)


def test_exactly_the_nine_keys_with_unrounded_shares() -> None:
    path, content = only(nine(revision="abc", extra={"dtype": "bfloat16"}))
    assert path == "org__model/results_2026-03-01T10-00-00.000000.json"
    assert set(content) == {"config", "results"}
    assert content["config"] == {"model_dtype": "bfloat16", "model_name": "org/model", "model_sha": "abc"}
    assert list(content["results"]) == KEYS
    for n, task in enumerate(KEYS):
        assert content["results"][task] == {METRIC: 0.1 + n / 30, "acc_stderr,none": 0.0125}


def test_the_leaderboard_s_average() -> None:
    _, content = only(nine())
    shown = [100 * content["results"][key][METRIC] for key in KEYS]
    assert sum(shown) / 9 == pytest.approx(100 * (0.1 + 36 / 9 / 30))  # 0+1+...+8 = 36


def test_other_metrics_tasks_and_filters_stay_out() -> None:
    more = [
        replace(nine()[0], task="careqa_en"), replace(nine()[0], metric="acc_norm"),
        replace(nine()[0], filter="strict-match"), replace(nine()[0], task="medmcqa_gen"),
    ]  # fmt: skip
    assert only([*nine(), *more]) == only(nine())


def test_an_incomplete_model_is_refused_by_name() -> None:
    lacking = [cell for cell in nine("org/lacking") if cell.task not in ("pubmedqa", "medmcqa")]
    found = export([*nine(), *lacking], OpenMedicalOptions())
    assert len(found.documents) == 1
    (line,) = found.left_out
    assert "org/lacking" in line
    assert "medmcqa, pubmedqa" in line
    with pytest.raises(ExportError, match="org/lacking"):
        export(lacking, OpenMedicalOptions())
    _, content = only(lacking, allow_missing=True)
    assert list(content["results"]) == KEYS[1:-1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_shot": 5}, "few-shot"),
        ({"template": "hash"}, "chat template"),
        ({"revision": "other"}, "revisions"),
        ({"extra": {"dtype": "float16"}}, "precisions"),
        ({"extra": {"system": "Be brief."}}, "system"),
    ],
)
def test_a_mixture_of_protocols_is_refused(changes: dict[str, Any], words: str) -> None:
    cells = nine(revision="abc", extra={"dtype": "bfloat16", "system": "-"})
    cells[3] = replace(cells[3], **changes)
    with pytest.raises(ExportError, match=words):
        export(cells, OpenMedicalOptions())
    assert only(cells, allow_mixed=True)


def test_few_shot_throughout_is_not_the_leaderboard_s_protocol() -> None:
    with pytest.raises(ExportError, match="few-shot"):
        export(nine(n_shot=5), OpenMedicalOptions())


def test_versions_and_prompts_are_each_task_s_own() -> None:
    cells = [replace(cell, version=str(n), prompt=str(n)) for n, cell in enumerate(nine())]
    assert only(cells)


def test_two_models_that_share_a_folder_name_have_two_folders() -> None:
    found = export([*nine("a/b"), *nine("a__b"), *nine("A/B")], OpenMedicalOptions())
    paths = [str(document.path).casefold() for document in found.documents]
    assert len(set(paths)) == 3
    assert {json.loads(one.text)["config"]["model_name"] for one in found.documents} == {"a/b", "a__b", "A/B"}


def test_flaws_that_were_allowed_stay_visible() -> None:
    cells = nine()
    cells[0] = replace(cells[0], n=10)
    assert only(cells)[1]["notes"] == {"pubmedqa": ["only 10 of 100 documents"]}


def test_names_from_before_04_are_known() -> None:
    cells = [replace(c, task=c.task.replace("mmlu_", "hendrycksTest-")) for c in nine()]
    assert list(only(cells)[1]["results"]) == KEYS
