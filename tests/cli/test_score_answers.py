"""The command `score` on saved answers: moved, cut, repeated, one file of them, and what it prints."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.scoring.answers import SavedRequest, read_run, write_answers, write_run
from support import child_environment

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run of two tasks without samples."""
    folder = tmp_path_factory.mktemp("run") / "out"
    command = [sys.executable, "-m", "lm_eval_healthcare.cli.main", "run", "--model", "dummy", "--tasks"]
    command += ["careqa_open,careqa_en", "--metadata", "data=sample", "metrics=bleu", "--output_path", str(folder)]
    subprocess.run(command, check=True, capture_output=True, env=child_environment())
    return folder


@pytest.fixture
def out(run_of_two: Path, tmp_path: Path) -> Path:
    """A copy, whose run.json still names the place of the original."""
    return Path(shutil.copytree(run_of_two, tmp_path / "copy"))


def answers_in(folder: Path) -> Path:
    (path,) = (folder / "answers").iterdir()
    return path


def written(folder: Path) -> list[dict[str, Any]]:
    """The results that were made from answers below a folder."""
    contents = [json.loads(path.read_text("utf-8")) for path in folder.glob("**/results_*.json")]
    return [content for content in contents if content["config"].get("scored_from")]


@pytest.mark.long
def test_answers_that_have_moved_do_not_write_to_where_they_were(run_of_two: Path, out: Path, cli: Cli) -> None:
    before = len(list(run_of_two.rglob("*")))
    done = cli("score", str(out / "answers"))
    assert done.returncode == 0, done.stderr
    assert len(list(run_of_two.rglob("*"))) == before
    assert len(written(out)) == 1
    alone = Path(shutil.move(answers_in(out), out.parent / "elsewhere" / "answers_of_mine"))
    assert cli("score", str(alone)).returncode == 0
    assert len(written(out.parent / "elsewhere")) == 1


def test_answers_that_have_not_moved_write_to_where_the_run_did(run_of_two: Path, tmp_path: Path, cli: Cli) -> None:
    folder = answers_in(Path(shutil.copytree(run_of_two, tmp_path / "again")))
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, "output_path": str(tmp_path / "again" / "mine.json")}))
    assert cli("score", str(folder)).returncode == 0
    assert len(list((tmp_path / "again").glob("mine_*.json"))) == 1


def test_a_place_that_is_not_writable_is_named_with_its_flag(out: Path, cli: Cli) -> None:
    (out / "file").write_text("")
    done = cli("score", str(answers_in(out)), "-o", str(out / "file" / "x"))
    assert done.returncode == 2
    assert "choose a folder with --output-dir" in done.stderr
    assert "--output_path" not in done.stderr


def test_the_screen_shows_a_table_and_no_noise(out: Path, cli: Cli) -> None:
    done = cli("score", str(answers_in(out)), cwd=out, env={"LM_EVAL_HEALTHCARE_METRICS": ""})
    assert done.returncode == 0, done.stderr
    table = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()]
    assert table[0] == ["task", "n", "metric", "value", "stderr", "coverage"]
    results = written(out)[0]["results"]
    assert [row[:4] for row in table[2:]] == [
        ["careqa_open", "10", "bleu", f"{results['careqa_open']['bleu,none']:.4f}"],
        ["careqa_en", "12", "acc", f"{results['careqa_en']['acc,none']:.4f}"],
    ]
    assert done.stderr == ""


def test_one_file_of_a_folder_is_one_task(out: Path, cli: Cli) -> None:
    done = cli("score", str(answers_in(out) / "careqa_open.jsonl"))
    assert done.returncode == 0, done.stderr
    assert [list(content["results"]) for content in written(out)] == [["careqa_open"]]


@pytest.mark.long
def test_scores_of_answers_are_known_as_earlier_ones(out: Path, cli: Cli) -> None:
    for _ in range(2):
        assert cli("score", str(answers_in(out))).returncode == 0
    done = cli("score", str(out), "--metrics", "rouge1", "-o", str(out.parent / "new"))
    assert done.returncode == 0, done.stderr
    assert "2 results are earlier ones of this command; their sources are scored" in done.stderr
    assert "left out" not in done.stderr  # the run has no samples, but its answers
    assert len(written(out.parent / "new")) == 1


def test_a_bad_folder_does_not_stop_others(out: Path, cli: Cli) -> None:
    good = answers_in(out)
    for name, lines in (("2000-repeated", 2), ("2000-twice", 1)):
        bad = Path(shutil.copytree(good, good.parent / name))
        text = (bad / "careqa_open.jsonl").read_text()
        (bad / "careqa_open.jsonl").write_text(text + text if lines == 1 else text + text.split("\n")[0] + "\n")
    odd = Path(shutil.copytree(good, good.parent / "2000-odd"))
    (odd / "run.json").write_text('{"format": "lm_eval_healthcare answers 1", "tasks": [1]}')
    done = cli("score", str(out / "answers"), "--strict")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("hold document 0 more than once") == 2
    assert "not as a run writes it" in done.stderr
    assert "3 files or lines could not be used" in done.stderr
    assert len(written(out)) == 1


def test_the_runs_chat_template_is_kept(out: Path, cli: Cli) -> None:
    folder = answers_in(out)
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, "chat_template": "{{ messages }}"}))
    assert cli("score", str(folder)).returncode == 0
    assert written(out)[0]["chat_template"] == "{{ messages }}"


def saved(folder: Path, *numbers: int) -> Path:
    write_run(folder, {"tasks": {"t": {}}})
    return write_answers(folder, "t", [SavedRequest(n, 0, "generate_until", {}, ["p"], ["a"]) for n in numbers])


def test_a_cut_last_line_is_skipped_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = saved(tmp_path, 0, 1)
    path.write_bytes(path.read_bytes() + b'{"doc_id": 2, "idx": "\xc3')
    with pytest.raises(DataError, match=r"t\.jsonl, line 3: not valid JSON"):
        read_run(tmp_path)
    assert len(read_run(tmp_path, partial=True).tasks["t"]) == 2
    assert "line 3, the last one, is cut and was skipped" in caplog.text
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(DataError, match="line 1"):
        read_run(tmp_path, partial=True)


def test_repeated_and_odd_lines_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path, 0, 3, 3)
    with pytest.raises(DataError, match=r"the answers of t hold document 3 more than once \(1 documents"):
        read_run(tmp_path)
    path.write_text(path.read_text().split("\n")[0].replace('"doc_id": 0', '"doc_id": "x"') + "\n")
    with pytest.raises(DataError, match=r"line 1: not a saved answer \(doc_id of another kind"):
        read_run(tmp_path)
