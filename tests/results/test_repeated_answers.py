"""Reading questions with several answers, in every shape, and what is to be known of the answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.answer_flags import distinct, sampled
from lm_eval_healthcare.results.discovery import find
from lm_eval_healthcare.results.repeated_answers import RepeatedTask, read_repeated
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.texts import NoText
from repeated_runs import GREEDY, SAMPLED, row, write
from support import SHARED, write_jsonl

TEXTS = ["halve it", "stop it", "halve it now"]


def read(folder: Path) -> RepeatedTask:
    (run,) = find([folder]).runs
    ((task, path),) = run.samples.items()
    return read_repeated(run, task, path)


def flags(task: RepeatedTask) -> dict[str, int]:
    return {flag.flag: flag.n for flag in task.flags}


@pytest.mark.parametrize("first_only", [False, True], ids=["pack", "harness"])
def test_all_answers_are_read(tmp_path: Path, first_only: bool) -> None:
    """Case b32: without a filter the harness scores the first answer, and the others are only in `resps`."""
    write(tmp_path, [row(0, TEXTS, first_only=first_only), row(1, [*TEXTS[::-1]], first_only=first_only)])
    task = read(tmp_path)
    assert [one.answers for one in task.rows] == [TEXTS, TEXTS[::-1]]
    assert task.rows[0].question == "Case 0: what now?"
    assert task.rows[0].references == "halve the dose"
    assert task.rows[0].settings["temperature"] == 1.0
    assert (task.repeats, task.declared, task.filter) == (3, 3, "none")
    assert task.flags == []


def test_reasoning_is_no_part_of_an_answer(tmp_path: Path) -> None:
    write(tmp_path, [row(0, ["<think>or stop?</think>halve it", "stop it"], first_only=True)])
    assert read(tmp_path).rows[0].answers == ["halve it", "stop it"]


def test_of_several_filters_that_is_taken_which_keeps_all(tmp_path: Path) -> None:
    """Both orders: the first answer after a filter, and all of them after another."""
    rows = []
    for number in (0, 1):
        rows.append(row(number, ["x: a", "x: b"]) | {"filter": "first", "filtered_resps": ["a"]})
        rows.append(row(number, ["x: a", "x: b"]) | {"filter": "all,kept", "filtered_resps": [["a", "b"]]})
    write(tmp_path / "one", rows)
    write(tmp_path / "two", rows[::-1])
    for folder in ("one", "two"):
        task = read(tmp_path / folder)
        assert task.filter == "all,kept"
        assert [one.answers for one in task.rows] == [["a", "b"], ["a", "b"]]
        assert "raw_answers" not in flags(task)


def test_a_filter_that_keeps_one_answer_leaves_the_raw_replies(tmp_path: Path) -> None:
    write(tmp_path, [row(0, ["x: a", "x: b"]) | {"filter": "first", "filtered_resps": ["a"]}])
    task = read(tmp_path)
    assert task.rows[0].answers == ["x: a", "x: b"]
    assert flags(task) == {"raw_answers": 1}


def test_a_flat_list_of_answers(tmp_path: Path) -> None:
    write(tmp_path, [row(0, TEXTS) | {"filtered_resps": TEXTS}])
    assert read(tmp_path).rows[0].answers == TEXTS


def test_scores_of_single_answers(tmp_path: Path) -> None:
    """What is no finite number is NaN: null, texts, truth values, infinities; names may hold commas."""
    odd = [0.5, None, "0.7", True, math.inf, -math.inf, math.nan, 1]
    more = {"rougeL_per_answer": odd, "a,b_per_answer": [0.25] * 8, "rougeL": 0.1, "_per_answer": [1.0], "x": [2]}
    write(tmp_path, [row(0, [f"answer {n}" for n in range(8)], **more)])
    task = read(tmp_path)
    assert task.logged == ["rougeL", "a,b"]
    nan = math.nan
    assert task.rows[0].logged["rougeL"] == pytest.approx([0.5, nan, nan, nan, nan, nan, nan, 1.0], nan_ok=True)


@pytest.mark.parametrize(("values", "expected"), [([0.5], [0.5, math.nan]), ([0.5, 0.6, 0.7], [0.5, 0.6])])
def test_scores_that_are_more_or_fewer_than_answers(tmp_path: Path, values: list[float], expected: list[float]) -> None:
    write(tmp_path, [row(0, ["a", "b"], rougeL_per_answer=values)])
    task = read(tmp_path)
    assert task.rows[0].logged["rougeL"] == pytest.approx(expected, nan_ok=True)
    assert flags(task)["per_answer_mismatch"] == 1


def test_rewordings(tmp_path: Path) -> None:
    """A version that was never accepted is null; flags of sampling are not about rewordings."""
    versions = [{"version": 0, "by": "original"}, {"version": 1, "by": "rules:case"}, {"version": 2, "accepted": False}]
    write(tmp_path, [row(0, ["a", "b", None], rewordings=versions, settings=GREEDY)], repeats=1, rephrased={"n": 2})
    task = read(tmp_path)
    assert task.rows[0].answers == ["a", "b", None]
    assert task.rows[0].rewordings == versions
    assert task.is_reworded
    assert task.flags == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"do_sample": True, "temperature": 1.0}, True),
        ({"do_sample": False, "temperature": 0.0}, False),
        ({"do_sample": False, "temperature": 1.0}, False),
        ({"do_sample": True, "temperature": 0}, False),
        ({"do_sample": "False"}, False),
        ({"temperature": "0.0"}, False),
        ({"do_sample": True, "temperature": 1e-9}, False),
        ({"do_sample": True, "temperature": 0.01}, True),
        ({"temperature": 0.7}, True),
        ({"temperature": 1, "top_k": 1}, False),
        ({"temperature": 1.0, "top_p": 0}, False),
        ({"do_sample": True}, None),  # back ends take temperature 0 then
        ({"temperature": "warm"}, None),
        ({"temperature": math.nan}, None),
        ({"temperature": [1.0]}, None),
        ({}, None),
    ],
)
def test_whether_answers_were_drawn(settings: dict[str, Any], expected: bool | None) -> None:
    assert sampled(settings) is expected


def test_flags_of_settings(tmp_path: Path) -> None:
    """Case b34: the arguments say greedy, the results file says sampled; 0 and 0.0 are the same."""
    write(tmp_path / "a", [row(0, TEXTS, settings=GREEDY)], gen_kwargs={"do_sample": True, "temperature": 1.0})
    assert flags(read(tmp_path / "a")) == {"not_sampled": 1, "settings_mismatch": 1}
    equal = {"do_sample": "True", "temperature": 1, "top_p": "0.90", "seed": 7}
    write(tmp_path / "b", [row(0, TEXTS), row(1, TEXTS)], gen_kwargs=equal)
    assert read(tmp_path / "b").flags == []
    write(tmp_path / "c", [row(0, TEXTS), row(1, TEXTS)], gen_kwargs="temperature=0.5,do_sample=True")
    found = read(tmp_path / "c")
    assert flags(found) == {"settings_mismatch": 2}
    assert "temperature 1.0 instead of 0.5" in found.flags[0].text
    write(tmp_path / "d", [row(0, TEXTS, settings=None), row(1, TEXTS)])
    assert flags(read(tmp_path / "d")) == {"settings_unknown": 1}


def test_flags_of_answers(tmp_path: Path) -> None:
    rows = [row(0, ["a"] * 4), row(1, ["a ", "a", " a", "a"]), row(2, ["a", "a", "a", "b"]), row(3, list("abcd"))]
    write(tmp_path, rows)
    task = read(tmp_path)
    assert flags(task) == {"identical_answers": 2, "few_distinct_answers": 1}
    assert "2 of 4 questions have 4 identical answers" in task.flags[0].text
    assert [distinct(one.answers) for one in task.rows] == [1, 1, 2, 4]


def test_flags_of_counts(tmp_path: Path) -> None:
    write(tmp_path, [row(0, ["a", "b", "c"]), row(1, ["a", "b"])], repeats=5)
    found = [flag for flag in read(tmp_path).flags if flag.flag == "repeats_mismatch"]
    assert [flag.n for flag in found] == [1, 2]
    assert "between 2 and 3 answers" in found[0].text
    assert "says repeats 5" in found[1].text


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    rows = [row(0, TEXTS), row(1, TEXTS)]
    write(tmp_path / "twice", [*rows, *rows])
    with pytest.raises(ResultsError, match="more than one run"):
        read(tmp_path / "twice")
    write(tmp_path / "hidden", [row(0, TEXTS) | {"doc": {"hidden_row": 1}}])
    with pytest.raises(NoText, match="credentialed"):
        read(tmp_path / "hidden")
    choice = {"resps": [[["-1.0", "False"]]], "filtered_resps": [["-1.0", "False"]]}
    content = {"output_type": "multiple_choice"}
    path = write(tmp_path / "choice", [row(0, TEXTS) | choice])
    results = next(path.parent.glob("results_*.json"))
    changed = json.loads(results.read_text())
    changed["configs"]["asked_again"].update(content)
    results.write_text(json.dumps(changed))
    with pytest.raises(NoText, match="log-likelihoods"):
        read(tmp_path / "choice")
    path = write(tmp_path / "empty", rows)
    path.write_text("")
    with pytest.raises(ResultsError, match="empty"):
        read(tmp_path / "empty")


def test_a_cut_last_line_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, [row(0, TEXTS), row(1, TEXTS)])
    path.write_text(path.read_text()[:-40])
    task = read(tmp_path)
    assert len(task.rows) == 1
    assert task.cut is not None
    assert "line 2" in task.cut


@pytest.mark.parametrize(
    "odd",
    [
        {"resps": None, "filtered_resps": [None]},
        {"resps": [], "filtered_resps": []},
        {"resps": [[]], "filtered_resps": [[]]},
        {"resps": "text", "filtered_resps": 7},
        {"arguments": None},
        {"arguments": {"gen_args_0": {"arg_0": "x", "arg_1": "greedy"}}},
        {"doc": None},
        {"rewordings": "none", "rougeL_per_answer": "0.5"},
        {"rewordings": [None, 3]},
    ],
)
def test_rows_of_odd_shapes_beside_good_ones(tmp_path: Path, odd: dict[str, Any]) -> None:
    """None of them ends the reading of the others."""
    path = write(tmp_path, [row(0, TEXTS)])
    write_jsonl(path, [row(0, TEXTS), row(1, TEXTS) | odd])
    task = read(tmp_path)
    assert task.rows[0].answers == TEXTS
    assert len(task.rows) == 2


def test_huge_answers_and_many(tmp_path: Path) -> None:
    long = [f"{n} " + "word " * 20_000 for n in range(11)]
    write(tmp_path, [row(0, long, settings=SAMPLED)])
    assert [len(text or "") for text in read(tmp_path).rows[0].answers] == [len(text) for text in long]


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the shared cases are not here")
def test_the_cases() -> None:
    folder = SHARED / "cases" / "files"
    b32 = read(folder / "b32-repeats-take-first")
    assert (b32.repeats, b32.declared) == (3, 3)
    assert [one.answers for one in b32.rows] == [["lol"] * 3] * 6
    assert flags(b32) == {"not_sampled": 6, "identical_answers": 6}
    b34 = read(folder / "b34-gen-kwargs-mismatch")
    assert b34.rows[1].answers == ["a10", "a11", "a12"]
    assert flags(b34) == {"not_sampled": 3, "settings_mismatch": 3, "repeats_mismatch": 3}
