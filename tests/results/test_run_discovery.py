"""Finding runs and saved answers at any depth."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.discovery import ANSWERS_FILE, find
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.scoring.answers import FORMAT

ONE, TWO = "2026-03-01T10-00-00.000001", "2026-03-02T10-00-00.000002"


def put(folder: Path, stamp: str, *tasks: str, **content: Any) -> Path:
    """A run's files, the samples empty."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / f"results_{stamp}.json"
    results.write_text(json.dumps({"results": {task: {} for task in tasks}, **content}))
    for task in tasks:
        (folder / f"samples_{task}_{stamp}.jsonl").write_text("")
    return results


def test_runs_at_any_depth(tmp_path: Path) -> None:
    put(tmp_path / "a", ONE, "medtext", model_name="org/a")
    put(tmp_path / "deep" / "er" / "b", ONE, "medtext", "careqa_open")
    put(tmp_path / "deep" / "er" / "b", TWO, "medtext")
    (tmp_path / "deep" / "notes.json").write_text("[]")
    found = find([tmp_path])
    assert [(run.folder.name, run.stamp, sorted(run.samples), run.model) for run in found.runs] == [
        ("a", ONE, ["medtext"], "org/a"),
        ("b", ONE, ["careqa_open", "medtext"], "b"),
        ("b", TWO, ["medtext"], "b"),
    ]
    assert (found.faults, found.answers) == ([], [])


def test_paths_that_overlap_give_each_run_once(tmp_path: Path) -> None:
    results = put(tmp_path / "a", ONE, "medtext")
    found = find([tmp_path, tmp_path / "a", results, tmp_path / "a" / f"samples_medtext_{ONE}.jsonl"])
    assert len(found.runs) == 1


def test_one_sample_file_is_one_task_and_finds_its_results(tmp_path: Path) -> None:
    results = put(tmp_path, ONE, "medtext", "olaph")
    (run,) = find([tmp_path / f"samples_olaph_{ONE}.jsonl"]).runs
    assert (list(run.samples), run.results) == (["olaph"], results)


def test_a_results_file_brings_all_its_samples(tmp_path: Path) -> None:
    put(tmp_path, TWO, "aci_bench")
    (run,) = find([put(tmp_path, ONE, "medtext", "olaph")]).runs
    assert sorted(run.samples) == ["medtext", "olaph"]


def test_results_of_another_name(tmp_path: Path) -> None:
    results = put(tmp_path, ONE, "medtext")
    other = results.rename(tmp_path / f"mine_{ONE}.json")
    assert [run.results for run in find([tmp_path]).runs] == [other]


@pytest.mark.parametrize("content", ["", "{", '{"results": 1}'])
def test_results_that_cannot_be_read_leave_their_samples(tmp_path: Path, content: str) -> None:
    results = put(tmp_path / "org__a", ONE, "medtext")
    results.write_text(content)
    found = find([tmp_path])
    assert [(run.model, list(run.samples)) for run in found.runs] == [("org__a", ["medtext"])]
    assert len(found.faults) == 1
    assert str(results) in found.faults[0]


def test_samples_without_a_time_in_their_name(tmp_path: Path) -> None:
    (tmp_path / "samples_medtext.jsonl").write_text("")
    (run,) = find([tmp_path / "samples_medtext.jsonl"]).runs
    assert (list(run.samples), run.name) == (["medtext"], "samples_medtext.jsonl")


def test_what_was_scored_again_is_left_out_beside_its_source(tmp_path: Path) -> None:
    source = put(tmp_path / "a", ONE, "medtext")
    again = put(tmp_path / "out", TWO, "medtext", config={"scored_from": source.name})
    found = find([tmp_path])
    assert [run.results for run in found.runs] == [source]
    assert found.scored_again == 1
    assert [run.results for run in find([tmp_path / "out"]).runs] == [again]  # its source is not here
    assert [run.results for run in find([tmp_path, again]).runs] == [source, again]  # named


def test_answers_folders(tmp_path: Path) -> None:
    for name in ("2026-01-01", "2026-01-02"):
        (tmp_path / "out" / "answers" / name).mkdir(parents=True)
        (tmp_path / "out" / "answers" / name / ANSWERS_FILE).write_text(json.dumps({"format": FORMAT}))
    (tmp_path / "out" / "else").mkdir()
    (tmp_path / "out" / "else" / ANSWERS_FILE).write_text("{}")  # another program's
    put(tmp_path / "out" / "model", ONE, "medtext")
    both = [tmp_path / "out" / "answers" / name for name in ("2026-01-01", "2026-01-02")]
    found = find([tmp_path / "out"])
    assert (found.answers, len(found.runs)) == (both, 1)
    assert find([tmp_path / "out" / "answers"]).answers == both
    assert find([both[1]]).answers == [both[1]]
    # A folder that the user names is taken for what it looks like; reading it tells what is wrong.
    assert find([tmp_path / "out" / "else"]).answers == [tmp_path / "out" / "else"]


def test_hidden_folders_and_loops_of_links(tmp_path: Path) -> None:
    put(tmp_path / ".ipynb_checkpoints", ONE, "medtext")
    put(tmp_path / "a", ONE, "medtext")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert [run.folder for run in find([tmp_path]).runs] == [tmp_path / "a"]


def test_links_to_folders_are_followed(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", ONE, "medtext")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "model").symlink_to(tmp_path / "elsewhere")
    assert len(find([tmp_path / "results"]).runs) == 1


@pytest.mark.parametrize("name", ["missing", "table.csv"])
def test_paths_that_are_no_results(tmp_path: Path, name: str) -> None:
    (tmp_path / "table.csv").write_text("a,b")
    with pytest.raises(ResultsError, match=r"no such file or folder|expected results_"):
        find([tmp_path / name])


@pytest.mark.parametrize("name", [".__sm2", "..__sm2", ".hidden", "__x"])
def test_folders_of_models_given_by_relative_paths_are_found(tmp_path: Path, name: str) -> None:
    put(tmp_path / name, ONE, "medtext")
    assert [run.folder.name for run in find([tmp_path]).runs] == [name]


@pytest.mark.parametrize("name", [".git", ".venv", ".venv-check", "__pycache__", "node_modules", ".ruff_cache"])
def test_folders_of_tools_are_not_entered(tmp_path: Path, name: str) -> None:
    put(tmp_path / name / "a", ONE, "medtext")
    assert find([tmp_path]).runs == []


@pytest.mark.parametrize("name", ["/abs", "../../x", "..", ".", "", "a/b", "a\nb", "\x00", "x" * 400, "\ud800", " a "])
def test_folders_of_models_lie_where_they_should(tmp_path: Path, name: str) -> None:
    put(tmp_path / "a", ONE, "medtext", model_name_sanitized=name)
    (run,) = find([tmp_path]).runs
    folder = tmp_path / "out" / run.model_folder
    folder.mkdir(parents=True)
    assert folder.resolve().parent == (tmp_path / "out").resolve()
    assert run.model_folder.isprintable()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_pipes_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path, ONE, "medtext")
    for name in (f"samples_olaph_{ONE}.jsonl", f"results_{TWO}.json", ANSWERS_FILE):
        os.mkfifo(tmp_path / name)
    (run,) = find([tmp_path]).runs
    assert list(run.samples) == ["medtext"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("group_subtasks", 7, "'group_subtasks' is a number"),
        ("configs", [], "'configs' is a list"),
        ("configs", {"medtext": "x"}, "'configs' of 'medtext' is a text"),
        ("n-samples", True, "'n-samples' is a truth value"),
        ("configs", {"medtext": {"metadata": {"healthcare": [1]}}}, "'healthcare' of 'medtext' is a list"),
        ("configs", {"a\nb": {"metadata": {"healthcare": {"reasons": 1}}}}, r"'reasons' of 'a\nb' is a number"),
    ],
)
def test_results_with_odd_contents_are_named_and_left_out(tmp_path: Path, key: str, value: Any, told: str) -> None:
    results = put(tmp_path, ONE, "medtext", **{key: value})
    found = find([tmp_path])
    assert found.faults == [f"{results}: {told}, which no results of the harness have; the file is left out"]
    assert [run.content for run in found.runs] == [{}]


def test_old_results_whose_metadata_are_a_list_are_read(tmp_path: Path) -> None:
    put(tmp_path, ONE, "medtext", configs={"medtext": {"metadata": [{"version": 1.0}]}}, groups=None)
    assert find([tmp_path]).faults == []


def answers(folder: Path, *tasks: str) -> Path:
    folder.mkdir(parents=True)
    (folder / ANSWERS_FILE).write_text(json.dumps({"format": FORMAT}))
    for task in tasks:
        (folder / f"{task}.jsonl").write_text("")
    return folder


def test_what_was_made_from_answers_is_left_out_beside_them(tmp_path: Path) -> None:
    folder = answers(tmp_path / "answers" / "run1", "medtext")
    put(tmp_path / "a", ONE, "medtext", config={"scored_from": "run1"})
    kept = put(tmp_path / "a", TWO, "medtext", "olaph", config={"scored_from": "run1"})
    found = find([tmp_path])
    assert found.answers == [folder]
    # `olaph` has no answers any more, so its samples are all that there is.
    assert [(run.results, list(run.samples)) for run in found.runs] == [(kept, ["olaph"])]
    assert found.scored_again == 2


def test_the_newest_counts_of_what_was_made_from_answers_that_are_elsewhere(tmp_path: Path) -> None:
    first = put(tmp_path / "a", ONE, "medtext", "olaph", config={"scored_from": "x.json"}, model_name="org/a")
    second = put(tmp_path / "a", TWO, "medtext", config={"scored_from": "x.json"}, model_name="org/a")
    other = put(tmp_path / "b", ONE, "medtext", config={"scored_from": "x.json"}, model_name="org/b")
    found = find([tmp_path])
    expected = [(first, ["olaph"]), (second, ["medtext"]), (other, ["medtext"])]
    assert [(run.results, list(run.samples)) for run in found.runs] == expected
    assert (found.scored_again, found.outdated) == (0, 1)


def test_files_of_two_models_may_have_the_same_name(tmp_path: Path) -> None:
    source = put(tmp_path / "a", ONE, "medtext", model_name="org/a")
    put(tmp_path / "out" / "a", TWO, "medtext", model_name="org/a", config={"scored_from": source.name})
    other = put(tmp_path / "out" / "b", TWO, "medtext", model_name="org/b", config={"scored_from": source.name})
    assert [run.results for run in find([tmp_path]).runs] == [source, other]


def test_one_file_of_a_folder_of_answers(tmp_path: Path) -> None:
    folder = answers(tmp_path / "run1", "medtext", "olaph", "olaph.rank1")
    found = find([folder / "medtext.jsonl", folder / "olaph.rank1.jsonl"])
    assert (found.answers, found.answered, found.runs) == ([folder], {folder: ["medtext", "olaph"]}, [])
    found = find([folder / ANSWERS_FILE])
    assert (found.answers, found.answered) == ([folder], {})
