"""Answers are on disk before scoring: a killed process, a failing metric and a full disk cost none of them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedModel, evaluate

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.scoring import answers as answers_module
from lm_eval_healthcare.scoring.answers import SavedRequest, read_run, write_answers, write_run
from support import child_environment, results_of, samples_of

SLOW_RUN = """
    import sys, time
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.main import main

    class Endless(type(metrics.AVAILABLE["bleu"])):
        name = "endless"
        def score(self, predictions, references, **options):
            print("SCORING", flush=True)
            time.sleep(600)

    metrics.AVAILABLE["endless"] = Endless()
    sys.exit(main(sys.argv[1:]))
"""


def run_arguments(out: Path, metric: str) -> list[str]:
    return [
        "run", "--model", "dummy", "--tasks", "careqa_open,careqa_en", "--metadata", "data=sample", f"metrics={metric}",
        "--output_path", str(out), "--log_samples",
    ]  # fmt: skip


def test_kill_in_the_middle_of_scoring_costs_no_answer(tmp_path: Path, cli: Callable[..., Any]) -> None:
    script, log = tmp_path / "slow.py", tmp_path / "log"
    script.write_text(textwrap.dedent(SLOW_RUN))
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, str(script), *run_arguments(tmp_path / "killed", "endless")],
            stdout=stream, stderr=stream, env=child_environment(PYTHONUNBUFFERED="1"),
        )  # fmt: skip
        try:
            deadline = time.time() + 120
            while "SCORING" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.time() < deadline
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert not list((tmp_path / "killed").glob("**/results_*.json"))
    (folder,) = (tmp_path / "killed" / "answers").iterdir()
    assert f"lm-eval-healthcare score {folder}" in log.read_text()
    done = cli("score", str(folder), "--metrics", "rouge1")
    assert done.returncode == 0, done.stderr
    scored = results_of(tmp_path / "killed")
    assert scored["n-samples"]["careqa_open"] == {"original": 10, "effective": 10}
    assert scored["results"]["careqa_open"]["rouge1_coverage,none"] == 1.0
    saved = read_run(folder)
    logged = samples_of(tmp_path / "killed", "careqa_open")
    assert [r.resps for r in saved.tasks["careqa_open"]] == [s["resps"][0] for s in logged]
    assert len(saved.tasks["careqa_en"]) == 12 * 4


def test_saved_answers_score_as_the_run_did(tmp_path: Path, cli: Callable[..., Any]) -> None:
    done = cli(*run_arguments(tmp_path / "run", "ngram"))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "run" / "answers").iterdir()
    again = cli("score", str(folder), "-o", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    first, second = results_of(tmp_path / "run"), results_of(tmp_path / "again")
    for key in ("results", "n-samples", "n-shot", "higher_is_better", "versions", "group_subtasks", "task_hashes"):
        assert first[key] == second[key]
    for task in ("careqa_open", "careqa_en"):
        assert samples_of(tmp_path / "run", task) == samples_of(tmp_path / "again", task)
        signatures = [r["configs"][task]["metadata"]["healthcare"]["signatures"] for r in (first, second)]
        assert signatures[0] == signatures[1]


def test_all_tasks_are_saved_before_the_first_is_scored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    evaluate(
        "healthcare_open", ScriptedModel(["an answer"]), metadata={"metrics": "bleu", "answers": str(tmp_path)}
    )  # fmt: skip
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {"run.json", "careqa_open.jsonl", "medtext.jsonl"}
    messages = [record.getMessage() for record in caplog.records]
    saved = next(i for i, m in enumerate(messages) if "are saved in" in m)
    assert not any(m.startswith("scoring") for m in messages[:saved])
    assert "careqa_open, medtext" in messages[saved]


def test_a_full_disk_is_told_and_scores_come_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, lines: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(answers_module, "_write_whole", full)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = evaluate(
        "careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path / "full")}
    )  # fmt: skip
    assert "No space left on device" in caplog.text
    assert "NOT on disk" in caplog.text
    assert out["results"]["careqa_open"]["bleu_coverage,none"] == 1.0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_half_a_file_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    def request(i: int) -> SavedRequest:
        return SavedRequest(i, 0, "generate_until", {"q": "x"}, ["p", {}], ["a"])

    def lines() -> Any:
        yield request(0)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_answers(tmp_path, "task", lines())
    assert list(tmp_path.iterdir()) == []


def test_the_next_folder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path / "file" / "x")})
    (folder,) = (tmp_path / "cache" / "lm_eval_healthcare" / "answers").iterdir()
    assert len(read_run(folder).tasks["careqa_open"]) == 10


def test_answers_survive_the_way_to_disk(tmp_path: Path) -> None:
    hostile = ["\ud83d", "a\u2028b\u0085c\x00", "", '"}]\n{"', "x" * 100_000, "é 🩺 µg ≥"]
    requests = [
        SavedRequest(i, 0, "generate_until", {"q": text}, [text, {"until": ["\n\n"]}], [text])
        for i, text in enumerate(hostile)
    ]
    write_run(tmp_path, {"tasks": {}})
    write_answers(tmp_path, "task", requests)
    back = read_run(tmp_path).tasks["task"]
    assert [r.resps[0] for r in back] == ["\ufffd", *hostile[1:]]
    assert back[1:] == requests[1:]


def test_ranks_are_put_together(tmp_path: Path) -> None:
    def request(i: int) -> SavedRequest:
        return SavedRequest(i, 0, "loglikelihood", {"q": str(i)}, ["p", " A"], [[-1.0, False]])

    write_run(tmp_path, {})
    write_answers(tmp_path, "task", [request(0), request(2)], rank=0)
    write_answers(tmp_path, "task", [request(1), request(3)], rank=1)
    assert [r.doc_id for r in read_run(tmp_path).tasks["task"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "no saved answers here"),
        ({"run.json": "{}"}, "but no task's answers"),
        ({"run.json": "{"}, r"run\.json: not valid JSON"),
        ({"run.json": "{}", "t.jsonl": "{"}, r"t\.jsonl, line 1: not valid JSON"),
        ({"run.json": "{}", "t.jsonl": '{"doc_id": 1}'}, r"t\.jsonl, line 1: not a saved answer"),
    ],
)
def test_folders_that_cannot_be_scored(tmp_path: Path, files: dict[str, str], told: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        read_run(tmp_path)


def test_the_output_folder_gives_a_hint(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run = tmp_path / "out" / "answers" / "2026-01-01T00-00-00"
    write_run(run, {})
    done = cli("score", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"Did you mean {run}?" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_json_says_how_the_run_was_made(tmp_path: Path) -> None:
    evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path)})
    (folder,) = tmp_path.iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert run["tasks"]["careqa_open"]["metadata"]["data"] == "sample"
    assert run["lm_eval_version"]
    assert os.path.basename(folder).startswith("20")
