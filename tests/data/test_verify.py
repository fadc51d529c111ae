"""Checking a data folder: every way in which a file or a task's rows can differ from what they should be."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.manifest import writing
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.data.verify import Verified, verify
from lm_eval_healthcare.sample import rows_path

FACTS = {task.facts.name: task.facts for task in every_task([tasks_path()])}
CAREQA = replace(FACTS["careqa_en"], rows={"test": 12})


def rows(task: str, split: str = "test") -> list[dict[str, Any]]:
    text = (rows_path() / task / f"{split}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all of CareQA's sample rows, as `data fetch` would write it."""
    with writing(tmp_path) as writer:
        writer.write(
            "careqa_en/test.jsonl", rows("careqa_en"), tasks=("careqa_en",), split="test", splits=("test",),
            licence="Apache-2.0", origin={"hub": "HPAI-BSC/CareQA"},
        )  # fmt: skip
    return tmp_path


def check(folder: Path, *facts: TaskFacts, named: bool = False, **options: dict[str, str]) -> Verified:
    names = [one.name for one in facts] if named else []
    return verify(folder, facts or [CAREQA, FACTS["medtext"]], names, names, options)


def problems(found: Verified) -> str:
    in_tasks = [problem for task in found.tasks for problem in task.problems]
    return "\n".join(
        [*found.problems, *(f"{f.path} {f.state}: {f.problem}" for f in found.files if f.problem), *in_tasks]
    )


def test_a_sound_folder(folder: Path) -> None:
    found = check(folder)
    assert found.ok
    assert [(f.path, f.state, f.rows, f.origin) for f in found.files] == [
        ("careqa_en/test.jsonl", "whole", 12, "HPAI-BSC/CareQA")
    ]
    assert [(t.task, t.rows, t.published, t.problems, t.notes) for t in found.tasks] == [
        ("careqa_en", 12, (12,), [], [])
    ]


def test_nothing_is_written(folder: Path) -> None:
    before = sorted((p.as_posix(), p.stat().st_mtime_ns) for p in folder.rglob("*"))
    check(folder)
    assert sorted((p.as_posix(), p.stat().st_mtime_ns) for p in folder.rglob("*")) == before


def test_a_changed_byte(folder: Path) -> None:
    file = folder / "careqa_en" / "test.jsonl"
    file.write_text(file.read_text("utf-8").replace("e", "a", 1), "utf-8")
    found = check(folder)
    assert not found.ok
    assert "careqa_en/test.jsonl changed: its checksum is not that in manifest.json" in problems(found)


def test_a_file_cut_short(folder: Path) -> None:
    file = folder / "careqa_en" / "test.jsonl"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-20])
    found = problems(check(folder))
    assert f"careqa_en/test.jsonl changed: {size - 20:,} bytes, where manifest.json says {size:,}" in found
    assert "line 12: not valid JSON" in found


def test_a_missing_file(folder: Path) -> None:
    (folder / "careqa_en" / "test.jsonl").unlink()
    found = check(folder)
    assert "careqa_en/test.jsonl missing: it is in manifest.json but not in the folder" in problems(found)
    assert [t.task for t in found.tasks] == ["careqa_en"]


def test_extra_files(folder: Path) -> None:
    (folder / "careqa_en" / "README.md").write_text("a note")
    assert check(folder).ok
    (folder / "careqa_en" / "train.csv").write_text("question\nx\n")
    found = check(folder)
    assert [(f.path, f.state, bool(f.problem)) for f in found.files[1:]] == [
        ("careqa_en/README.md", "extra", False),
        ("careqa_en/train.csv", "extra", True),
    ]


def test_leftovers(folder: Path) -> None:
    (folder / "careqa_en" / "train.jsonl.4711.part").write_text("{")
    found = check(folder)
    assert not found.ok
    assert "train.jsonl.4711.part leftover: left by a writing that ended early" in problems(found)


def test_a_fetch_that_ended_early(folder: Path) -> None:
    content = json.loads((folder / "manifest.json").read_text())
    content["files"]["careqa_en/test.jsonl"]["splits"] = ["test", "train"]
    (folder / "manifest.json").write_text(json.dumps(content))
    assert "careqa_en: the splits train were not fetched; give the command again" in problems(check(folder))


def test_a_wrong_row_count_in_the_manifest(folder: Path) -> None:
    content = json.loads((folder / "manifest.json").read_text())
    content["files"]["careqa_en/test.jsonl"]["rows"] = 13
    (folder / "manifest.json").write_text(json.dumps(content))
    assert "12 rows, where manifest.json says 13" in problems(check(folder))


def test_a_broken_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    found = check(folder)
    assert "not a manifest that can be read" in problems(found)
    assert [t.rows for t in found.tasks] == [12]


def test_another_number_of_rows_than_published(folder: Path) -> None:
    found = check(folder, FACTS["careqa_en"])
    assert not found.ok
    assert problems(found) == "12 rows are scored, 5,621 are published"
    assert found.tasks[0].notes == []


def test_one_of_several_published_numbers(folder: Path) -> None:
    assert check(folder, replace(CAREQA, rows={"test": [400, 12]})).ok
    found = check(folder, replace(CAREQA, rows={"test": [400, 1301]}))
    assert problems(found) == "12 rows are scored, 400 or 1,301 are published"


def test_rows_that_do_not_fit_the_columns(tmp_path: Path) -> None:
    (tmp_path / "careqa_en").mkdir()
    broken = [{**row, "cop": 5} if number == 3 else row for number, row in enumerate(rows("careqa_en"), 1)]
    (tmp_path / "careqa_en" / "test.json").write_text(json.dumps(broken))
    found = check(tmp_path)
    assert "test.json, row 3: column 'cop': expected int 1..4, got 5" in problems(found)
    assert found.notes == ["there is no manifest.json: files are not checked, only the rows of tasks"]


def test_a_folder_that_was_made_by_hand_is_checked_without_a_manifest(tmp_path: Path) -> None:
    shutil.copytree(rows_path() / "careqa_en", tmp_path / "careqa_en")
    assert check(tmp_path).ok


def test_tasks_that_the_user_names_must_be_there(folder: Path) -> None:
    found = check(folder, CAREQA, FACTS["medtext"], named=True)
    assert not found.ok
    assert "no rows in" in problems(found)


def test_a_users_own_files_may_be_missing_where_only_a_group_was_named(folder: Path) -> None:
    own = FACTS["meddialog_raw_dialogues"]  # the hub has no copy
    facts, names = [CAREQA, own, FACTS["mimic_repsum"]], ["careqa_en", own.name, "mimic_repsum"]
    found = verify(folder, facts, expected=names, named=["careqa_en"])
    assert found.ok
    assert [(t.task, t.missing, t.rows) for t in found.tasks] == [
        ("careqa_en", False, 12), (own.name, True, None), ("mimic_repsum", True, None),
    ]  # fmt: skip
    assert not verify(folder, facts, expected=names, named=names).ok
    assert not verify(folder, [CAREQA, FACTS["medtext"]], expected=["careqa_en", "medtext"]).ok, "the hub has it"
    assert [t.task for t in verify(folder, facts).tasks] == ["careqa_en"]
    (folder / own.folder_name).mkdir()
    (folder / own.folder_name / "test.jsonl").write_text('{"description": "x"}\n')
    assert "column 'utterances' is missing" in problems(verify(folder, facts, expected=names))


def test_options_choose_the_rows_that_are_looked_at(tmp_path: Path) -> None:
    shutil.copytree(rows_path() / "mts_dialog", tmp_path / "mts_dialog")  # five rows in each official set
    facts = FACTS["mts_dialog"]
    assert "10 rows are scored" in problems(check(tmp_path, facts))
    found = check(tmp_path, facts, mts_dialog={"subset": "test1", "section": "hidden"})
    assert found.ok
    assert found.tasks[0].rows == 5
    assert found.tasks[0].notes == [
        "rows are those of subset=test1; their number is not compared with the published one"
    ]
    assert "subset=nonsense: expected one of auto," in problems(
        check(tmp_path, facts, mts_dialog={"subset": "nonsense"})
    )


def test_two_files_that_could_be_meant(folder: Path) -> None:
    (folder / "careqa_en.jsonl").write_text("{}")
    assert "it is not clear which is meant" in problems(check(folder))


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    assert "holds no data of any task" in problems(check(tmp_path))
    with pytest.raises(DataError, match="no such folder"):
        check(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="a file, not a folder"):
        check(tmp_path / "file")
