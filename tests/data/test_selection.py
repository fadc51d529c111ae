"""Names of tasks, groups, tags and patterns, against what the harness's own index makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.selection import every_task, select
from lm_eval_healthcare.harness.manager import build_task_manager, leaves


def names(*given: str, roots: tuple[Path, ...] = ()) -> list[str]:
    return [task.facts.name for task in select(given, [tasks_path(), *roots])]


@pytest.mark.parametrize("given", ["healthcare_mcqa", "healthcare_open", "healthcare", "mmlu_*", "medtext"])
def test_as_the_harness_reads_them(given: str) -> None:
    manager = build_task_manager(include_defaults=False)
    assert set(names(given)) == set(leaves(manager, manager.match_tasks([given])))


def test_each_once_in_the_given_order() -> None:
    assert names("medtext,careqa_en", "careqa_en", " medtext ") == ["medtext", "careqa_en"]


def test_whether_a_task_was_given_by_its_own_name() -> None:
    found = {task.facts.name: task.named for task in select(["healthcare_open,medtext", "mmlu_*"], [tasks_path()])}
    assert [name for name, named in found.items() if named] == ["medtext"]


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"task not found: careqa_eng; did you mean .*careqa_en"):
        names("careqa_eng")
    with pytest.raises(DataError, match=r"task not found: nothing\*\. `lm-eval-healthcare list`"):
        names("nothing*")


def test_a_users_tasks_and_groups(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"include: {tasks_path() / 'medtext' / 'medtext.yaml'}\ntask: mine\ntag: own\n")
    (tmp_path / "group.yaml").write_text("group: both\ntask: [mine, {group: inline, task: [inner, {task: medmcqa}]}]\n")
    (tmp_path / "inner.yaml").write_text("group: inner\ntask: [careqa_en]\n")
    (tmp_path / "loop.yaml").write_text("group: loop\ntask: [mine, loop]\n")
    (tmp_path / "far.yaml").write_text("group: far\ntask: [hellaswag]\n")
    found = select(["both", "own"], [tasks_path(), tmp_path])
    wanted = [("mine", "medtext"), ("careqa_en", "careqa_en"), ("medmcqa", "medmcqa")]
    assert [(task.facts.name, task.facts.folder_name) for task in found] == wanted
    with pytest.raises(DataError, match="contains itself: loop > loop"):
        names("loop", roots=(tmp_path,))
    with pytest.raises(DataError, match="names 'hellaswag', which is not a task of the pack"):
        names("far", roots=(tmp_path,))
    assert "mine" in {task.facts.name for task in every_task([tasks_path(), tmp_path])}


def test_yamls_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("task: plain\ndataset_path: x\n")
    with pytest.raises(DataError, match="no section 'healthcare:'"):
        names("plain", roots=(tmp_path,))
    (tmp_path / "broken.yaml").write_text("task: [")
    with pytest.raises(DataError, match="a task YAML cannot be read"):
        names("medtext", roots=(tmp_path,))
