"""`judge-check`: how far a judge can be trusted, from judged files and on a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from saved_runs import sample, write_run
from scripted_server import ScriptedJudge

WORTH_TO_ONE = [5, 4, 3, 2, 1, 5, 4, 3, 2, 1]
WORTH_TO_TWO = [5, 4, 3, 2, 1, 5, 4, 3, 1, 5]  # two of ten differ: by 1 and by 4


def judged(tmp_path: Path, name: str, worth: list[int], *options: str) -> Path:
    """Judge ten answers with a judge that gives these scores."""
    rows = [sample(n, f"answer number {n} " + "word " * (10 * score)) for n, score in enumerate(WORTH_TO_ONE)]
    write_run(tmp_path / "runs", {"medtext": rows})

    def say(text: str, seed: int) -> str:
        return f"So it is. [RESULT] {next(s for n, s in enumerate(worth) if f'answer number {n} ' in text)}"

    out = tmp_path / f"judged_{name}"
    with ScriptedJudge(models=(name,), say=say) as server:
        arguments = ["--base-url", server.base_url, "-o", str(out), "--verdict-cache", "off", *options]
        assert main(["judge", str(tmp_path / "runs"), *arguments]) == 0
    return out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(["judge-check", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_judges_that_judged_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = judged(tmp_path, "one", WORTH_TO_ONE), judged(tmp_path, "two", WORTH_TO_TWO)
    found = as_json(capsys, "agreement", str(one), str(two))
    (pair,) = found["pairs"]
    assert (pair["n"], pair["exact"], pair["within 1"]) == (10, 0.8, 0.9)
    assert [(row["document"], row["one"], row["two"]) for row in found["disagreements"]] == [
        ("9", 1.0, 5.0), ("8", 2.0, 1.0),
    ]  # fmt: skip
    assert main(["judge-check", "agreement", str(one), str(two)]) == 0
    assert "Krippendorff's alpha (ordinal)" in capsys.readouterr().out
    assert main(["judge-check", "agreement", str(one)]) == 2
    assert "there is one judge only, one" in capsys.readouterr().err


def test_scores_that_are_lengths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers are the longer the better they are: Spearman's correlation is 1."""
    found = as_json(capsys, "length", str(judged(tmp_path, "one", WORTH_TO_ONE)))
    assert found["lines"][0].startswith("one: Spearman of score and answer length 1.000")


def test_people_grade_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = judged(tmp_path, "one", WORTH_TO_ONE)
    lines = [f"{n},{grade}" for n, grade in enumerate(WORTH_TO_TWO)]
    (tmp_path / "grades.csv").write_text("doc_id,grade\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (found,) = as_json(capsys, "humans", str(folder), "--grades", str(tmp_path / "grades.csv"))
    matrix = {row["human"]: row for row in found["confusion"]}
    assert (matrix["5"]["5"], matrix["5"]["1"], matrix["1"]["2"], matrix["1"]["1"]) == (2, 1, 1, 1)
    assert any(line.startswith("same score: 0.800") for line in found["lines"])
    assert main(["judge-check", "humans", str(folder), "--grades", str(tmp_path / "none.csv")]) == 2


@pytest.mark.parametrize(("rule", "wins", "ties"), [("choice", (6, 4), 0), ("first", (0, 0), 10)])
def test_two_runs_in_both_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str, wins: tuple[int, int], ties: int
) -> None:
    """A judge that knows gives the same winner in both orders; one that always says A has none."""
    for name, good in (("run_a", range(6)), ("run_b", range(6, 10))):
        rows = [sample(n, f"answer {n} worth-{5 if n in good else 2}") for n in range(10)]
        write_run(tmp_path / name, {"medtext": rows}, model=name)
    with ScriptedJudge(rule=rule) as server:
        found = as_json(
            capsys, "order", str(tmp_path / "run_a"), str(tmp_path / "run_b"), "--base-url", server.base_url,
            "--verdict-cache", "off",
        )  # fmt: skip
        assert sum(server.verdicts.values()) == 20
    (row,) = found["tasks"]
    assert (row["n"], row["run 1 wins"], row["run 2 wins"], row["ties"]) == (10, *wins, ties)
    assert "run 1 is run_a" in found["lines"]


def test_what_was_not_judged_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", {"medtext": [sample(0, "answer")]})
    assert main(["judge-check", "length", str(tmp_path / "runs")]) == 2
    assert "no judged answers there" in capsys.readouterr().err
    assert main(["judge-check", "length", str(tmp_path / "nowhere")]) == 2


def test_one_judge_of_several_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each task has its own rubric, and here its own filter; the judge is one, and all of its answers count."""
    rows = {
        "medtext": [sample(n, f"This. worth-{score}") for n, score in enumerate((5, 3))],
        "olaph": [{**sample(n, f"That. worth-{score}"), "filter": "strip"} for n, score in enumerate((4, 1))],
    }
    write_run(tmp_path / "runs", rows)
    out = tmp_path / "judged"
    with ScriptedJudge() as server:
        arguments = ["--base-url", server.base_url, "-o", str(out), "--verdict-cache", "off"]
        assert main(["judge", str(tmp_path / "runs"), *arguments]) == 0
    grades = tmp_path / "grades.csv"
    grades.write_text("task,doc_id,grade\nmedtext,0,5\nmedtext,1,3\nolaph,0,4\nolaph,1,2\n", encoding="utf-8")
    (found,) = as_json(capsys, "humans", str(out), "--grades", str(grades))
    assert found["judge"] == "scripted"
    assert any("same score: 0.750, n = 4" in line for line in found["lines"])  # three of four
    assert main(["judge-check", "agreement", str(out)]) == 2
    assert "there is one judge only, scripted" in capsys.readouterr().err
