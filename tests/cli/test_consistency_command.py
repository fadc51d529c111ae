"""`consistency` from the command line: the cases, what is printed and written, and what is refused."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from repeated_runs import GREEDY, row, write
from scripted_server import ScriptedJudge
from support import SHARED

CASES = SHARED / "cases" / "files"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")


def logged(*values: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        row(n, [f"answer {n} {place}" for place in range(len(own))], rougeL_per_answer=own, **more)
        for n, own in enumerate(values)
    ]


@needs_cases
def test_case_b58(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consistency", str(CASES / "b58-cv-undefined"), "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    one = content["metrics"]["rougeL"]
    assert one["cvs"] == [pytest.approx(0.170561, abs=5e-7), None, None, None]
    assert one["variances"][0] == pytest.approx(0.00181818, abs=5e-9)
    assert one["mean_cv"] == pytest.approx(0.170561, abs=5e-7)
    assert (one["n_prompts"], one["n_undefined"], one["repeats"]) == (4, 3, 11)
    # The file says repeats 1 and do_sample false; the answers and their arguments say otherwise.
    assert {"repeats_mismatch", "settings_mismatch"} <= set(one["flags"])


@needs_cases
@pytest.mark.parametrize(
    ("case", "flags"),
    [
        ("b32-repeats-take-first", {"not_sampled", "identical_answers"}),
        ("b34-gen-kwargs-mismatch", {"not_sampled", "settings_mismatch", "repeats_mismatch"}),
    ],
)
def test_cases_without_sampling(case: str, flags: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Three answers are read, none of them was drawn at random: no variance, least of all 0."""
    assert main(["consistency", str(CASES / case), "--format", "json"]) == 1
    said = capsys.readouterr()
    content = json.loads(said.out)
    assert content["metrics"]
    for one in content["metrics"].values():
        assert one["mean_variance"] is None
        assert one["mean_cv"] is None
        assert one["repeats"] == 3
        assert one["n_undefined"] == one["n_prompts"]
        assert set(one["flags"]) >= flags
    assert "no run is left" in said.err


def test_tables_words_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs", logged([0.5, 0.7], [0.4, 0.6]), model="org/one")
    write(tmp_path / "runs", logged([0.1, 0.5], [0.2, 0.4]), model="org/two")
    folder = tmp_path / "study"
    assert main(["consistency", str(tmp_path / "runs"), "-o", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "asking again moves rougeL of a question by \u00b10.132 (sd)" in said  # sqrt((0.025 + 0.01) / 2)
    assert "org/one  org/two" in said
    content = json.loads((folder / "consistency.json").read_text(encoding="utf-8"))
    assert content["study"] == "self-consistency"
    assert content["metrics"]["rougeL"]["mean_variance"] == pytest.approx(0.0175)
    with (folder / "consistency_prompts.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [(line["model"], line["doc_id"]) for line in lines] == [
        ("org/one", "0"), ("org/one", "1"), ("org/two", "0"), ("org/two", "1"),
    ]  # fmt: skip
    assert [float(line["variance"]) for line in lines] == pytest.approx([0.01, 0.01, 0.04, 0.01])
    assert list(folder.glob("*.png"))
    assert not list(folder.glob(".*"))


def test_without_figures_or_what_draws_them_the_numbers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "runs", logged([0.5, 0.7], [0.4, 0.6]))
    assert main(["consistency", str(tmp_path / "runs"), "-o", str(tmp_path / "plain"), "--no-figures"]) == 0
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as where it is not installed
    assert main(["consistency", str(tmp_path / "runs"), "-o", str(tmp_path / "none"), "--format", "json"]) == 0
    for name in ("plain", "none"):
        names = sorted(path.name for path in (tmp_path / name).iterdir())
        assert names == ["consistency.json", "consistency_prompts.csv"]


def test_one_answer_a_question_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [row(0, ["a"]), row(1, ["b"])])
    assert main(["consistency", str(tmp_path), "--format", "json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "single_answer" in said.err
    assert "careqa_open_consistency" in said.err


def test_greedy_answers_only_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, logged([0.5, 0.5], settings=GREEDY))
    assert main(["consistency", str(tmp_path)]) == 1
    assert "--not-sampled-too" in capsys.readouterr().err
    assert main(["consistency", str(tmp_path), "--format", "json", "--not-sampled-too"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["rougeL"]["mean_variance"] == 0.0


def test_paths_stand_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "runs", [row(0, ["halve the dose", "halve"]), row(1, ["the dose", "x"])])
    assert main(["consistency", "--metrics", "rouge1", "bleu", str(path), "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)["metrics"]
    assert list(first) == ["rouge1", "bleu"]
    assert first["rouge1"]["mean_variance"] == pytest.approx((1 / 16 + 0.16) / 2)
    assert (
        main(["consistency", "--metrics", "rouge1+bleu", "--where", "model=org*", str(tmp_path), "--format", "json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["metrics"] == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no PATH was given"),
        (["nowhere"], "no such file or folder"),
        (["RUNS", "--precision", "0"], "a standard error is a number above 0"),
        (["RUNS", "--precision", "nan"], "a standard error is a number above 0"),
        (["RUNS", "--metrics", "rogueL"], "unknown metric 'rogueL'"),
        (["RUNS", "--metrics", "prometheus"], "needs a judge"),
        (["RUNS", "--metrics", "rouge1", "--judge-model", "x"], "does not ask for prometheus"),
        (["RUNS", "--where", "size=7b"], "expected model=PATTERN or task=PATTERN"),
        (["RUNS", "--metrics", "bert_score", "--bert-score-model", "nowhere/at/all"], "bert_score"),
        (["RUNS", "--device", "later"], "--device later"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    write(tmp_path / "runs", logged([0.5, 0.7]))
    assert main(["consistency", *(str(tmp_path / "runs") if one == "RUNS" else one for one in arguments)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--where", "model=other"], "models are org/one"), ([], "There are no samples_*.jsonl there")],
)
def test_nothing_to_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = write(tmp_path, logged([0.5, 0.7]))
    if not arguments:
        path.unlink()
    assert main(["consistency", str(tmp_path), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_broken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file and a cut line cost themselves, are told, and count with --strict."""
    write(tmp_path, logged([0.5, 0.7]))
    write(tmp_path, logged([0.5, 0.7]), model="org/empty").write_text("")
    cut = write(tmp_path, logged([0.5, 0.7], [0.1, 0.2]), model="org/cut")
    cut.write_text(cut.read_text()[:-30])
    assert main(["consistency", str(tmp_path), "--format", "json"]) == 0
    said = capsys.readouterr()
    content = json.loads(said.out)
    assert sorted((run["model"], run["n_prompts"]) for run in content["runs"]) == [("org/cut", 1), ("org/one", 1)]
    assert "the file is empty" in content["left_out"][0]["why"]
    assert main(["consistency", str(tmp_path), "--format", "json", "--strict"]) == 1


def test_without_any_variance_the_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blank references: no answer has a score, so there is nothing to say; an equal score is a result."""
    write(tmp_path / "blank", [row(n, ["an answer", "another"], reference=" ") for n in range(2)])
    assert main(["consistency", str(tmp_path / "blank"), "--metrics", "rouge1", "--format", "json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["metrics"]["rouge1"]["undefined"] == {"no_score": 2}
    assert "no metric has a variance (no score)" in said.err
    write(tmp_path / "equal", logged([0.5, 0.5], [0.5, 0.5]))
    assert main(["consistency", str(tmp_path / "equal"), "--format", "json"]) == 0


def test_a_judge_is_asked_once_for_every_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The server breaks off after four verdicts; the second command asks for the rest only."""
    rows = [row(n, [f"{n} worth-{1 + n}", f"{n} worth-{2 + n}", f"{n} worth-{3 + n}"]) for n in range(3)]
    write(tmp_path / "runs", rows)
    options = [
        "--metrics", "prometheus", "--judge-model", "scripted", "--judge-retries", "0", "--judge-concurrency", "1",
        "--verdict-cache", str(tmp_path / "verdicts"), "--format", "json",
    ]  # fmt: skip
    with ScriptedJudge(script=["ok"] * 4 + ["bad"] * 5) as server:
        command = ["consistency", str(tmp_path / "runs"), "--judge-base-url", server.base_url, *options]
        main(command)
        first = json.loads(capsys.readouterr().out)["metrics"]["prometheus"]
        done = sum(server.verdicts.values())
        assert 0 < done < 9
        assert main(command) == 0
        second = json.loads(capsys.readouterr().out)["metrics"]["prometheus"]
        assert sum(server.verdicts.values()) == 9
        assert max(server.verdicts.values()) == 1
    assert first["mean_variance"] != second["mean_variance"] or first["n_no_variance"]
    assert second["variances"] == pytest.approx([2 / 3] * 3)
    assert second["range"] == [1.0, 5.0]


def test_help_is_light(cli: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = cli("consistency", "--help")
    assert done.returncode == 0
    assert "--not-sampled-too" in done.stdout
    assert "examples:" in done.stdout
