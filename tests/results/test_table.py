"""The table over folders: what is found, read once, remembered, and averaged."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results import table as table_module
from lm_eval_healthcare.results.cell import GROUP, Cell, Rules, Table, read_table
from lm_eval_healthcare.results.leaves import average, leaf_averages, leaves_of
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.table_rows import as_json
from result_files import legacy, results, write

OFF = Path("off")


def models(table: Table) -> list[str]:
    return [cell.model for cell in table.cells]


def reasons(table: Table) -> dict[str, str]:
    return {one.file.name: one.reason for one in table.skipped}


def test_files_are_known_by_content_at_any_depth_and_under_any_name(tmp_path: Path) -> None:
    write(tmp_path / "a/b/c/whatever.json", results("org/one"))
    write(tmp_path / "no_ending", results("org/two"))
    write(tmp_path / "old.txt", results("org/three"))
    write(tmp_path / "x/RESULTS.JSON", results("org/four"))
    write(tmp_path / "x/notes.json", {"results": "see the wiki"})
    write(tmp_path / "x/list.json", [1, 2])
    write(tmp_path / "x/samples_qa_2026-01-01T00-00-00.jsonl", '{"results": {}}\n')
    write(tmp_path / "x/readme", "the results")
    write(tmp_path / ".git/copy.json", results("org/five"))
    table = read_table([tmp_path], cache=OFF)
    assert sorted(models(table)) == ["org/four", "org/one", "org/three", "org/two"]
    assert set(reasons(table)) == {"notes.json", "list.json"}
    assert not any(one.broken for one in table.skipped)


def test_a_named_file_is_read_and_a_missing_path_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", results())
    assert models(read_table([path], cache=OFF)) == ["org/one"]
    with pytest.raises(ResultsError, match="no such file or folder"):
        read_table([tmp_path / "gone"], cache=OFF)


def test_one_file_counts_once_however_it_is_reached(tmp_path: Path) -> None:
    path = write(tmp_path / "m/r.json", results())
    (tmp_path / "link.json").symlink_to(path)
    (tmp_path / "folder").symlink_to(path.parent)
    os.link(path, tmp_path / "hard.json")
    shutil.copy(path, tmp_path / "copy.json")
    table = read_table([tmp_path, path, tmp_path / "m"], cache=OFF)
    assert (len(table.cells), len(table.set_aside), table.files) == (1, 0, 1)
    assert [one.reason.startswith("a copy of ") for one in table.skipped] == [True]


def test_equal_files_without_a_model_are_those_of_their_folders(tmp_path: Path) -> None:
    content = results(model_name=None, config={"model_args": ""})
    write(tmp_path / "first/r.json", content)
    write(tmp_path / "second/r.json", content)
    table = read_table([tmp_path], cache=OFF)
    assert models(table) == ["first", "second"]
    assert len([note for note in table.notes if "names no model" in note]) == 2


def test_a_folder_of_a_model_that_another_file_names_is_that_models(tmp_path: Path) -> None:
    write(tmp_path / "new/r.json", results("org/one", date=1.0))
    unnamed = results(model_name=None, config={"model_args": {}}, tasks={"other": {"acc,none": 0.1}})
    write(tmp_path / "org__one/r.json", unnamed)
    assert models(read_table([tmp_path], cache=OFF)) == ["org/one", "org/one"]


def test_models_with_one_folder_name_stay_apart(tmp_path: Path) -> None:
    write(tmp_path / "org__one/a.json", results("org/one"))
    write(tmp_path / "org__one/b.json", results("org:one"))
    table = read_table([tmp_path], cache=OFF)
    assert models(table) == ["org/one", "org:one"]
    assert "share the folder name org__one" in table.notes[0]


def test_revisions_are_another_protocol_or_models_of_their_own(tmp_path: Path) -> None:
    for step, date in (("step1", 1.0), ("step2", 2.0)):
        arguments = {"pretrained": "org/one", "revision": step}
        write(tmp_path / f"{step}.json", results(date=date, config={"model_args": arguments}))
    table = read_table([tmp_path], cache=OFF)
    assert [cell.revision for cell in table.cells] == ["step2"]
    assert table.set_aside[0].reason.startswith("another protocol: revision step1 instead of step2")
    assert models(read_table([tmp_path], Rules(by_revision=True), cache=OFF)) == ["org/one@step1", "org/one@step2"]


def test_broken_files_do_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "good.json", results())
    write(tmp_path / "empty.json", "")
    write(tmp_path / "cut.json", json.dumps(results())[:200])
    table = read_table([tmp_path], cache=OFF)
    assert models(table) == ["org/one"]
    assert {one.file.name: one.broken for one in table.skipped} == {"empty.json": True, "cut.json": True}


def twice_counted() -> dict[str, Any]:
    """A task of 100 documents that lies below two groups of one group, which so counts it twice."""
    tasks = {
        "a": {"acc,none": 0.1, "acc_stderr,none": 0.03},
        "b": {"acc,none": 0.9, "acc_stderr,none": 0.01},
        "all": {"acc,none": 0.37, "sample_count": {"acc,none": 500}},
    }
    content = results(tasks=tasks, group_subtasks={"all": ["x", "y"], "x": ["a"], "y": ["a", "b"]})
    content["n-samples"] = {"a": {"original": 100, "effective": 100}, "b": {"original": 300, "effective": 300}}
    content["results"]["all"]["sample_len"] = 500
    return content


def test_the_weighted_average_is_of_distinct_tasks(tmp_path: Path) -> None:
    table = read_table([write(tmp_path / "r.json", twice_counted())], cache=OFF)
    assert [cell.task for cell in table.cells] == ["a", "b"]
    (one,) = as_json(table)["averages"]
    # (100 * 0.1 + 300 * 0.9) / 400 = 280 / 400; sqrt((100 * 0.03)^2 + (300 * 0.01)^2) / 400 = sqrt(18) / 400
    assert one["value"] == pytest.approx(0.7, abs=1e-15)
    assert one["stderr"] == pytest.approx(math.sqrt(18) / 400, abs=1e-15)
    assert (one["n"], one["tasks"]) == (400, ["a", "b"])
    assert table.notes == [
        "org/one: group all: the file says acc 0.37 over 500 documents; its 2 distinct tasks give 0.7 over 400: the "
        "file counts a task more than once"
    ]
    kept = read_table([tmp_path], Rules(groups=True), cache=OFF)
    assert [(cell.task, cell.kind == GROUP, cell.n) for cell in kept.cells][1] == ("all", True, 400)
    assert as_json(kept)["averages"][0]["n"] == 400


def test_leaves_of_groups_within_groups_and_of_circles() -> None:
    assert leaves_of("g", {"g": ["h", "a"], "h": ["b", "a"]}) == ["b", "a"]
    assert leaves_of("g", {"g": ["h"], "h": ["g", "a"]}) == ["a"]
    assert leaves_of("a", {"g": ["a"]}) == []


def test_averages_leave_out_what_has_no_documents_and_can_be_over_shared_tasks() -> None:
    cells = [
        Cell("m", "a", "acc", "none", 0.5, n=10), Cell("m", "b", "acc", "none", 1.0, n=30),
        Cell("m", "c", "acc", "none", 0.9), Cell("m", "d", "acc", "none", 0.9, n=0),
        Cell("m", "e", "f1", "none", 0.9, n=10), Cell("k", "b", "acc", "none", 0.25, n=30),
    ]  # fmt: skip
    both = leaf_averages(cells)
    assert (both["m"].value, both["m"].n, both["m"].tasks) == (0.875, 40, ("a", "b"))  # (5 + 30) / 40
    assert math.isnan(both["m"].stderr)
    shared = leaf_averages(cells, common=True)
    assert {model: (one.value, one.tasks) for model, one in shared.items()} == {"m": (1.0, ("b",)), "k": (0.25, ("b",))}
    with pytest.raises(ValueError, match="distinct"):
        average("m", "acc", [cells[0], cells[0]])


@pytest.fixture(params=[3, table_module.MANY + 5], ids=["few", "many"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for number in range(request.param):
        row = {"acc,none": number / 100, "acc_coverage,none": 1.0, "bleu,none": math.nan}
        write(tmp_path / f"runs/{number}.json", results(f"org/m{number % 7}", {"qa": row}, date=float(number + 1)))
    write(tmp_path / "runs/broken.json", "{")
    write(tmp_path / "runs/old.json", legacy("org/old", {"qa": {"acc": 0.5}}))
    return tmp_path


def same(one: Table, other: Table) -> bool:
    return json.dumps(as_json(one)) == json.dumps(as_json(other))


def test_what_is_remembered_equals_what_is_read(folder: Path) -> None:
    cache = folder / "cache/results.sqlite3"
    plain = read_table([folder / "runs"], cache=OFF)
    assert same(plain, read_table([folder / "runs"], cache=cache))
    remembered = read_table([folder / "runs"], cache=cache)
    assert same(plain, remembered)
    assert [one.reason for one in plain.set_aside] == [one.reason for one in remembered.set_aside]
    assert remembered.set_aside[0] == plain.set_aside[0]
    loose = Rules(allow_legacy=True)
    assert same(read_table([folder / "runs"], loose, cache=cache), read_table([folder / "runs"], loose, cache=OFF))
    assert (cache.stat().st_mode & 0o077) == 0


def test_a_second_reading_opens_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = folder / "results.sqlite3"
    first = read_table([folder / "runs"], cache=cache)

    def refused(path: Path) -> Any:
        raise AssertionError(f"{path} is read again")

    monkeypatch.setattr("lm_eval_healthcare.results.reading.read_record", refused)
    assert same(first, read_table([folder / "runs"], cache=cache))


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    cache = folder / "results.sqlite3"
    read_table([folder / "runs"], cache=cache)
    path = folder / "runs/1.json"
    before = path.stat()
    content = json.loads(path.read_text())
    content["results"]["qa"]["acc,none"] = 0.77
    path.write_text(json.dumps(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as tools do that keep times
    table = read_table([folder / "runs"], cache=cache)
    assert 0.77 in [cell.value for cell in table.cells] + [one.cell.value for one in table.set_aside]
    path.unlink()
    assert same(read_table([folder / "runs"], cache=cache), read_table([folder / "runs"], cache=OFF))


@pytest.mark.parametrize("damage", ["no database", "other tables", "bad records"])
def test_a_damaged_cache_costs_no_value(folder: Path, damage: str) -> None:
    cache = folder / "results.sqlite3"
    plain = read_table([folder / "runs"], cache=cache)
    if damage == "no database":
        cache.write_bytes(b"not a database" * 1000)
    else:
        with sqlite3.connect(cache) as connection:
            if damage == "other tables":
                connection.executescript("DROP TABLE files; CREATE TABLE files (x TEXT);")
            connection.executescript("UPDATE tables SET head = x'7b'; ")
            if damage == "bad records":
                connection.execute("UPDATE files SET record = x'7b'")
        connection.close()
    assert same(plain, read_table([folder / "runs"], cache=cache))


def test_several_processes_read_the_same(folder: Path) -> None:
    assert same(read_table([folder / "runs"], cache=OFF, jobs=2), read_table([folder / "runs"], cache=OFF, jobs=1))
