"""The command `resilience`: real metrics on every version, what is printed and written, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.cli.resilience import reading
from lm_eval_healthcare.scoring import documents
from reworded_files import FULL, NONE, THREE, TWO, reworded, row
from scripted_server import ScriptedJudge


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two questions; rouge1 of the first: 1, 0.75, 2/3; of the second: 0.75, 0.75 and none."""
    turned_down = [["number_lost", "some text"]]
    reworded(tmp_path / "out", [row(0, [FULL, THREE, TWO]), row(1, [THREE, None, THREE], rejected=turned_down)])
    return tmp_path / "out"


def run(*arguments: str | Path) -> int:
    return main(["resilience", *map(str, arguments)])


def test_json_has_the_numbers_of_a_hand_calculation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """rouge1 lies between 2/3 and 1, so variances are divided by (1/3)^2 = 1/9.

    Question 0: 1 3/4 2/3 = (12 9 8)/12, mean 29/36; deviations 7/36 -2/36 -5/36; variance (49 + 4 + 25)/3/1296 =
    26/1296, scaled 234/1296. Question 1: 0. Mean 117/1296.
    """
    assert run(folder, "--metrics", "rouge1,rougeL", "--format", "json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["study"] == "resilience"
    found = content["metrics"]["rouge1"]
    assert found["variances"] == pytest.approx([234 / 1296, 0])
    assert found["mean_variance"] == pytest.approx(117 / 1296)
    assert found["variance_of_variance"] == pytest.approx((117 / 1296) ** 2)
    assert (found["n_prompts"], found["n_undefined"], found["versions"]) == (2, 0, 3)
    # Rewordings less original: (3/4 + 2/3)/2 - 1 = -7/24, and 0.
    assert found["mean_change"] == pytest.approx(-7 / 48)
    assert set(content["metrics"]) == {"rouge1", "rougeL"}
    assert found["signature"].startswith("rouge1")
    assert content["rewordings"] == {
        "accepted": 3, "missing": 1, "asked": 5, "rejected_by_reason": {"number_lost": 1},
    }  # fmt: skip


def test_table_counts_and_a_line_in_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    out = capsys.readouterr().out
    (line,) = [one.split() for one in out.splitlines() if one.startswith("rouge1 ")]
    assert line[1:3] == ["0.09028", "0.00815"]  # 117/1296 and its square
    assert "rewordings: 3 accepted, 1 missing; turned down: number lost 1" in out
    assert "org/one, medtext: 1 of 4 rewordings are missing" in out
    assert "Rewording moves" in out.splitlines()[-1]


def test_what_is_written(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    where = tmp_path / "study"
    assert run(folder, "-o", where, "--figures", "svg") == 0
    assert sorted(path.name for path in where.iterdir()) == [
        "resilience.json", "resilience_metrics.svg", "resilience_prompts.csv", "resilience_variances.svg",
    ]  # fmt: skip
    lines = list(csv.DictReader((where / "resilience_prompts.csv").open(encoding="utf-8")))
    (first,) = [line for line in lines if line["metric"] == "rouge1" and line["doc_id"] == "0"]
    assert [float(first[name]) for name in ("original", "v1", "v2")] == pytest.approx([1, 0.75, 2 / 3])
    assert float(first["scaled_variance"]) == pytest.approx(234 / 1296)
    assert json.loads((where / "resilience.json").read_text())["metrics"]["rouge1"]["n_prompts"] == 2


def test_versions_and_without_original(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first rewording alone beside the original: 1 and 3/4; the second question has no first rewording."""
    assert run(folder, "--metrics", "rouge1", "--versions", "1", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["rouge1"]
    assert found["mean_variance"] == pytest.approx(1 / 4)  # (1/8)^2 / (1/4)^2
    assert (found["n_undefined"], found["versions"]) == (1, 2)
    assert run(folder, "--metrics", "rouge1", "--without-original", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["rouge1"]
    assert found["mean_variance"] == pytest.approx((1 / 24) ** 2 * 9)  # 3/4 and 2/3
    assert found["n_undefined"] == 1


def test_results_without_rewordings_are_refused_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = folder.glob("*/results_*.json")
    content = json.loads(path.read_text())
    del content["rephrased"]
    path.write_text(json.dumps(content))
    (samples,) = folder.glob("*/samples_*")
    plain = [json.loads(line) for line in samples.read_text().splitlines()]
    samples.write_text("".join(json.dumps({k: v for k, v in one.items() if k != "rewordings"}) + "\n" for one in plain))
    assert run(folder) == 1
    error = capsys.readouterr().err
    assert "lm-eval-healthcare rephrase PATH -o OUT" in error
    assert "lm-eval-healthcare consistency" in error


def test_nothing_to_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No answer has a rewording: every cell is undefined and counted, and the command says so."""
    reworded(tmp_path, [row(0, [FULL, None]), row(1, [NONE, None])])
    assert run(tmp_path, "--metrics", "rouge1", "--format", "json") == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)["metrics"]["rouge1"]
    assert (found["mean_variance"], found["n_undefined"]) == (None, 2)
    assert "no answer has two versions with a score" in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics", "prometheus"], "--judge-model"),
        (["--metrics", "no_such_metric"], "no_such_metric"),
        (["--judge-model", "x"], "add prometheus"),
    ],
)
def test_mistakes(folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, *options) != 0
    assert message in capsys.readouterr().err


def test_a_judge_grades_every_version_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Grades 5, 3 and 1: mean 3, variance 8/3, divided by 4^2 it is 1/6. What is missing is not asked about."""
    versions = ["it is worth-5", "that is worth-3", "this is worth-1", None]
    reworded(tmp_path / "out", [row(0, versions)])
    store = tmp_path / "verdicts"
    with ScriptedJudge() as server:
        options = ["--metrics", "prometheus", "--judge-base-url", server.base_url, "--verdict-cache", store]
        for _ in range(2):
            assert run(tmp_path / "out", *options, "--format", "json") == 0
            found = json.loads(capsys.readouterr().out)["metrics"]["prometheus"]
            assert found["mean_variance"] == pytest.approx(1 / 6)
            assert (found["range"], found["mean_change"], found["versions"]) == ([1.0, 5.0], -3.0, 3)
        assert sum(server.verdicts.values()) == 3  # the second command knows them
        assert run(tmp_path / "out", *options, "--judge-seed", "7", "--format", "json") == 0
        assert json.loads(capsys.readouterr().out)["seed"] == 7


def test_a_metric_that_fails_fails_the_command_and_leaves_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = documents.metrics.measure

    def failing(*arguments: Any, metrics: list[str], **options: Any) -> Any:
        if "rouge2" in metrics:
            raise RuntimeError("no memory left")
        return measure(*arguments, metrics=metrics, **options)

    monkeypatch.setattr(documents.metrics, "measure", failing)
    assert run(folder, "--metrics", "rouge1,rouge2", "--format", "json") == 1
    said = capsys.readouterr()
    found = json.loads(said.out)["metrics"]
    assert found["rouge1"]["mean_variance"] == pytest.approx(117 / 1296)
    assert (found["rouge2"]["mean_variance"], found["rouge2"]["n_undefined"]) == (None, 2)


def metrics(**variances: float | None) -> dict[str, Any]:
    return {"metrics": {name: {"mean_variance": value} for name, value in variances.items()}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (metrics(a=0.0001, b=0.01, c=None), "Rewording moves a least (by 1% of its range"),  # 0.01 = 1%
        (metrics(a=0.0001, b=0.01), "b most (by 10%; its variance is 100 times as large)"),
        (metrics(a=0.0, b=0.0), "No metric moves at all"),
        (metrics(a=0.0, b=0.25), "does not move a at all, and moves b most (50% of its range)"),
        (metrics(a=0.04), "Rewording moves a by 20% of its range"),
        (metrics(a=None), "No metric has a scaled variance"),
    ],
)
def test_the_line_in_words(content: dict[str, Any], said: str) -> None:
    assert said in reading(content)


def test_faulty_files_are_named_once_and_no_new_rewordings_are_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = folder.glob("*/samples_*.jsonl")
    text = file.read_text()
    file.write_text(text[:-100])
    assert run(folder, "--metrics", "rouge1", "--no-figures") == 0
    said = capsys.readouterr().err
    assert said.count(str(file)) == 1
    assert "line 2, the last one, is cut and was skipped" in said
    file.write_text("")
    assert run(folder, "--metrics", "rouge1") == 1
    said = capsys.readouterr().err
    assert "the file is empty" in said
    assert "make them" not in said
