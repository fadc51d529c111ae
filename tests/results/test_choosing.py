"""One value of each key: which, and what is said of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.cell import Rules, Table, read_table
from result_files import legacy, results, write

OFF = Path("off")
OLD, NEW = 1_772_000_000.0, 1_773_000_000.0


def table_of(folder: Path, files: dict[str, Any], **rules: Any) -> Table:
    for name, content in files.items():
        write(folder / name, content)
    return read_table([folder], Rules(**rules), cache=OFF)


def chosen(table: Table) -> dict[tuple[str, str, str], float]:
    return {(cell.model, cell.task, cell.metric): cell.value for cell in table.cells}


def acc(value: float, **more: Any) -> dict[str, Any]:
    return results(tasks={"qa": {"acc,none": value}}, **more)


KEY = ("org/one", "qa", "acc")


def test_the_newest_run_wins_whatever_its_file_is_called(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"m/z_old.json": acc(0.1, date=OLD), "m/a_new.json": acc(0.2, date=NEW)})
    assert chosen(table) == {KEY: 0.2}
    (aside,) = table.set_aside
    assert (aside.cell.value, aside.reason) == (0.1, f"superseded by {tmp_path}/m/a_new.json")


def test_without_a_date_the_time_in_the_name_counts_and_breaks_ties(tmp_path: Path) -> None:
    # names of 2026-03-05 and 2026-02-01; OLD is 2026-02-25
    names = {"m/results_2026-03-05T00-00-00.json": acc(0.3, date=None), "m/r.json": acc(0.1, date=OLD)}
    assert chosen(table_of(tmp_path / "a", names)) == {KEY: 0.3}
    names = {"m/results_2026-02-01T00-00-00.json": acc(0.3, date=None), "m/r.json": acc(0.1, date=OLD)}
    assert chosen(table_of(tmp_path / "b", names)) == {KEY: 0.1}
    names = {f"m/results_2026-03-0{day}T00-00-00.json": acc(day / 10, date=OLD) for day in (4, 6, 5)}
    assert chosen(table_of(tmp_path / "c", names)) == {KEY: 0.6}


@pytest.mark.parametrize("limit", [10.0, None])  # `--samples` leaves the limit null
def test_a_newer_partial_run_never_replaces_a_complete_one(tmp_path: Path, limit: float | None) -> None:
    partial = acc(0.9, date=NEW, n=(10, 100))
    partial["config"]["limit"] = limit
    files = {"m/full.json": acc(0.5, date=OLD), "m/part.json": partial}
    table = table_of(tmp_path, files)
    assert chosen(table) == {KEY: 0.5}
    assert table.set_aside[0].reason.startswith("partial: 10 of 100 documents")
    assert chosen(table_of(tmp_path, files, allow_partial=True)) == {KEY: 0.5}
    assert chosen(table_of(tmp_path / "x", {"m/part.json": partial})) == {}
    assert chosen(table_of(tmp_path / "x", {"m/part.json": partial}, allow_partial=True)) == {KEY: 0.9}


def test_a_limit_above_the_number_of_documents_is_no_limit(tmp_path: Path) -> None:
    content = acc(0.5)
    content["config"]["limit"] = 1000.0
    assert chosen(table_of(tmp_path, {"m/r.json": content})) == {KEY: 0.5}


def test_without_counts_a_limit_tells_that_a_run_is_partial(tmp_path: Path) -> None:
    early = acc(0.5, **{"n-samples": None, "lm_eval_version": None})
    del early["results"]["qa"]["sample_len"]
    limited = {**early, "config": {**early["config"], "limit": 5}, "date": NEW, "model_name": "org/two"}
    table = table_of(tmp_path, {"a/r.json": early, "b/r.json": limited})
    assert chosen(table) == {KEY: 0.5}
    assert table.cells[0].complete is None
    assert [(one.cell.model, one.cell.complete) for one in table.set_aside] == [("org/two", False)]


def test_old_formats_are_set_aside_unless_asked_for_and_never_beat_newer_ones(tmp_path: Path) -> None:
    files = {
        "a/old.json": legacy("org/old", {"qa": {"acc": 0.4, "acc_stderr": 0.01}}),
        "b/old.json": legacy("org/one", {"qa": {"acc": 0.3}}),
        "b/new.json": acc(0.5, date=OLD),
    }
    table = table_of(tmp_path, files)
    assert chosen(table) == {KEY: 0.5}
    assert {one.cell.model for one in table.set_aside} == {"org/old", "org/one"}
    assert all("pre-0.4" in one.reason for one in table.set_aside)
    assert chosen(table_of(tmp_path, files, allow_legacy=True)) == {KEY: 0.5, ("org/old", "qa", "acc"): 0.4}


def test_low_coverage_is_set_aside_with_its_counts(tmp_path: Path) -> None:
    row = {"prometheus,none": 4.0, "prometheus_unparsed,none": 0.5}
    files = {"m/r.json": results(tasks={"qa": row}, n=6)}
    table = table_of(tmp_path, files)
    assert table.cells == []
    assert "prometheus 4.0 (3/6 parsed)" in table.set_aside[0].reason
    (cell,) = table_of(tmp_path, files, min_coverage=0.5).cells
    assert (cell.coverage, cell.scored, cell.n, cell.complete) == (0.5, 3, 6, True)


def test_an_older_value_stands_in_for_a_newer_one_that_cannot_be_used(tmp_path: Path) -> None:
    nan = acc(float("nan"), date=NEW)
    table = table_of(tmp_path, {"m/old.json": acc(0.5, date=OLD), "m/new.json": nan})
    assert chosen(table) == {KEY: 0.5}
    assert [one.reason for one in table.set_aside] == ["no value: the mean is NaN"]
    assert table_of(tmp_path / "x", {"m/r.json": acc(float("inf"))}).set_aside[0].reason == "no value: it is infinite"


def test_an_unusable_mean_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    section = {"healthcare": {"unusable": {"acc,none": "2 of 9 verdicts are missing"}}}
    files = {"m/r.json": acc(0.5, configs={"qa": {"metadata": section}})}
    assert "2 of 9 verdicts" in table_of(tmp_path, files).set_aside[0].reason
    assert chosen(table_of(tmp_path, files, allow_unusable=True)) == {KEY: 0.5}


def test_scores_made_later_belong_to_the_run_whose_answers_they_score(tmp_path: Path) -> None:
    first = results(tasks={"qa": {"rougeL,none": 0.1}}, date=OLD)
    second = results(tasks={"qa": {"rougeL,none": 0.2}}, date=OLD + 100)
    source = "results_2026-01-01T00-00-00.000001.json"

    def scored(value: float, date: float, of: str) -> dict[str, Any]:
        row = {"rougeL,none": value, "judge,none": value * 10}
        made = results(tasks={"qa": row}, date=date)
        made["config"]["scored_from"] = of
        return made

    files = {
        f"m/{source}": first,
        "m/results_2026-01-02T00-00-00.json": second,
        "m/results_2026-01-03T00-00-00.json": scored(0.3, NEW, source),
        "m/results_2026-01-04T00-00-00.json": scored(0.4, NEW + 1, "results_2026-01-03T00-00-00.json"),
    }
    table = table_of(tmp_path, files)
    # the second run's own rougeL stays; the verdicts on the first run's answers are new, the last of them count
    assert chosen(table) == {("org/one", "qa", "rougeL"): 0.2, ("org/one", "qa", "judge"): 4.0}
    # without the second run, the newest scores of the first one's answers count
    (tmp_path / "m/results_2026-01-02T00-00-00.json").unlink()
    assert chosen(read_table([tmp_path], cache=OFF))["org/one", "qa", "rougeL"] == 0.4


def test_another_protocol_of_the_same_model_is_named(tmp_path: Path) -> None:
    files = {
        "m/a.json": acc(0.4, date=OLD, **{"n-shot": {"qa": 5}}),
        "m/b.json": acc(0.5, date=NEW),
    }
    (aside,) = table_of(tmp_path, files).set_aside
    assert aside.reason.startswith("another protocol: n_shot 5 instead of 0 in ")


def test_models_measured_in_different_ways_are_told_or_refused(tmp_path: Path) -> None:
    files = {
        "a/r.json": acc(0.4, model="org/a"),
        "b/r.json": acc(0.5, model="org/b"),
        "c/r.json": acc(0.6, model="org/c", versions={"qa": 2}, **{"n-shot": {"qa": 5}}),
    }
    table = table_of(tmp_path, files)
    assert len(table.cells) == 3
    assert table.notes == [
        "qa (acc): n_shot differs between models: 0 for org/a, org/b; 5 for org/c",
        "qa (acc): version differs between models: 1 for org/a, org/b; 2 for org/c",
    ]
    strict = table_of(tmp_path, files, strict_protocol=True)
    assert set(chosen(strict)) == {("org/a", "qa", "acc"), ("org/b", "qa", "acc")}
    assert strict.set_aside[0].reason.startswith("another protocol: n_shot 5, but 0 for most models")
    assert strict.notes == []


def test_no_majority_no_values(tmp_path: Path) -> None:
    files = {"a/r.json": acc(0.4, model="org/a"), "b/r.json": acc(0.5, model="org/b", **{"n-shot": {"qa": 5}})}
    assert table_of(tmp_path, files, strict_protocol=True).cells == []


def test_chat_templates_of_models_may_differ_but_not_whether_there_is_one(tmp_path: Path) -> None:
    files = {
        "a/r.json": acc(0.4, model="org/a", chat_template_sha="1" * 64, task_hashes={"qa": "x"}),
        "b/r.json": acc(0.5, model="org/b", chat_template_sha="2" * 64, task_hashes={"qa": "y"}),
    }
    assert table_of(tmp_path, files).notes == []
    write(tmp_path / "c/r.json", acc(0.6, model="org/c"))
    (note,) = read_table([tmp_path], cache=OFF).notes
    assert note == "qa (acc): chat template differs between models: no for org/c; yes for org/a, org/b"


def test_a_system_instruction_and_the_pack_s_own_task_are_told(tmp_path: Path) -> None:
    pack = {"qa": {"metadata": {"healthcare": {"signatures": {}, "benchmark": "QA"}}}}
    files = {
        "a/r.json": acc(0.4, model="org/a", system_instruction="Be brief.", system_instruction_sha="5" * 64),
        "b/r.json": acc(0.5, model="org/b", configs=pack),
    }
    for content in files.values():
        content.setdefault("system_instruction", None)
    assert table_of(tmp_path, files).notes == [
        f"qa (acc): system instruction differs between models: {'5' * 57}... for org/a; none for org/b",
        "qa (acc): task's source differs between models: harness for org/a; pack for org/b",
    ]


def test_other_questions_under_the_same_name_are_told(tmp_path: Path) -> None:
    files = {
        "a/r.json": acc(0.4, model="org/a", task_hashes={"qa": "x" * 64}),
        "b/r.json": acc(0.5, model="org/b", task_hashes={"qa": "y" * 64}),
    }
    (note,) = table_of(tmp_path, files).notes
    assert note.startswith("qa (acc): prompt differs between models")
