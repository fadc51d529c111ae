"""Groups: means that count each leaf once, names that overlap, members whose rows nobody has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness.manager import leave_out_without_rows, leaves, without_overlap
from lm_eval_healthcare.sample import rows_path
from scripted import ScriptedModel, evaluate
from support import results_of


def manager() -> Any:
    return task_manager(include_defaults=False)


def test_a_group_is_the_mean_over_all_questions_of_its_leaves() -> None:  # case b28
    model = ScriptedModel(likelihood=lambda context, choice: -float((len(context) * (ord(choice[-1]) + 3)) % 17))
    out = evaluate("healthcare_closed", model)
    for group in ("healthcare_closed", "healthcare_mcqa"):
        names = list(leaves(manager(), [group]))
        n = [out["n-samples"][name]["effective"] for name in names]
        acc = [out["results"][name]["acc,none"] for name in names]
        assert len(set(names)) == len(names)
        expected = sum(a * b for a, b in zip(acc, n, strict=True)) / sum(n)
        assert 0 < expected < 1
        assert out["groups"][group]["acc,none"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        (["healthcare_closed", "healthcare_mcqa"], ["healthcare_closed"]),
        (["healthcare_mcqa", "medmcqa"], ["healthcare_mcqa"]),
        (["medmcqa", "healthcare_mcqa", "careqa_es"], ["healthcare_mcqa", "careqa_es"]),
        (["healthcare_note_taking", "healthcare_diagnosis"], ["healthcare_note_taking", "healthcare_diagnosis"]),
        (["healthcare_note_taking", "mts_dialog"], ["healthcare_note_taking"]),
        (["mts_dialog", "healthcare_note_taking"], ["mts_dialog", "aci_bench"]),
        (["careqa_open", "mine.yaml", "careqa_open"], ["careqa_open", "mine.yaml"]),
    ],
)
def test_names_that_overlap(asked: list[str], run: list[str]) -> None:
    assert set(without_overlap(manager(), asked)) == set(run)


def test_everything_and_a_group_of_it() -> None:
    found = without_overlap(manager(), ["healthcare", "healthcare_mcqa"])
    names = list(leaves(manager(), found))
    assert "healthcare_mcqa" in found
    assert len(names) == len(set(names))
    assert set(names) == set(leaves(manager(), ["healthcare"]))


def test_members_without_rows_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    raw = "meddialog_raw_dialogues"
    one = manager()
    assert leave_out_without_rows(one, ["healthcare_open"], "hub") == [raw]
    assert raw not in list(leaves(one, ["healthcare_open"]))
    assert leave_out_without_rows(manager(), ["healthcare_open", raw], "hub") == []
    assert leave_out_without_rows(manager(), ["healthcare_open"], "sample") == []
    assert leave_out_without_rows(manager(), ["healthcare_open"], str(tmp_path)) == [raw]
    shutil.copytree(rows_path() / raw, tmp_path / raw)
    assert leave_out_without_rows(manager(), ["healthcare_open"], str(tmp_path)) == []
    two = manager()
    assert len(leave_out_without_rows(two, ["healthcare"], "hub")) == 3  # the dialogues and their two perplexities
    assert raw not in list(leaves(two, ["healthcare"]))


def test_run_and_check_say_what_they_leave_out(tmp_path: Path, cli: Callable[..., Any]) -> None:
    for name in ("careqa_open", "mediqa_qa2019"):
        shutil.copytree(rows_path() / name, tmp_path / "data" / name)
    asked = [
        "--tasks",
        "healthcare_open_questions,careqa_open",
        "--metadata",
        f"data={tmp_path / 'data'}",
        "metrics=bleu",
    ]
    checked = cli("check", *asked)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "its rows can only come from your own files" in checked.stdout + checked.stderr
    done = cli("run", "--model", "dummy", *asked, "--output_path", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "left out, since their rows can only come from your own files" in done.stderr + done.stdout
    assert set(results_of(tmp_path / "out")["results"]) == {"careqa_open", "mediqa_qa2019"}


@pytest.mark.long
def test_what_a_users_group_holds_twice_and_options_of_other_tasks_are_told(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    for name, members in (
        ("mine_a", "[mmlu_anatomy]"),
        ("mine_b", "[mmlu_anatomy, medtext]"),
        ("mine", "[mine_a, mine_b]"),
    ):
        (tmp_path / f"{name}.yaml").write_text(f"group: {name}\ntask: {members}\n", encoding="utf-8")
    done = cli(
        "run", "--model", "dummy", "--tasks", "mine", "--include_path", str(tmp_path), "--limit", "2",
        "--metadata", "data=sample", "references=good", "metrics=bleu",
    )  # fmt: skip
    assert "mine holds mmlu_anatomy more than once" in done.stderr + done.stdout
    assert "option 'references' changes nothing here" in done.stderr + done.stdout


@pytest.mark.long
def test_groups_that_share_a_part_are_refused_with_a_remedy(tmp_path: Path, cli: Callable[..., Any]) -> None:
    for name, members in (("one", "[careqa_en, medtext]"), ("two", "[careqa_en, careqa_open]")):
        (tmp_path / f"{name}.yaml").write_text(f"group: {name}\ntask: {members}\n", encoding="utf-8")
    for command in (["check"], ["run", "--model", "dummy"]):
        done = cli(*command, "--tasks", "one,two", "--include_path", str(tmp_path), "--metadata", "data=sample")
        assert done.returncode != 0
        assert "both hold careqa_en" in done.stdout + done.stderr


@pytest.mark.long
def test_a_group_written_inside_a_group(tmp_path: Path, cli: Callable[..., Any]) -> None:
    (tmp_path / "outer.yaml").write_text(
        "group: outer\ntask:\n  - biored\n  - group: inner\n    task: [medmcqa, medqa_4options]\n", encoding="utf-8"
    )
    assert list(leaves(task_manager(str(tmp_path), include_defaults=False), ["outer"])) == [
        "biored", "medmcqa", "medqa_4options",
    ]  # fmt: skip
    done = cli("check", "--tasks", "outer", "--inc", str(tmp_path), "--metadata", "data=sample")
    assert done.returncode == 0, done.stdout + done.stderr
