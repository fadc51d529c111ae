"""`judge` on real sockets: right scores, truthful failures, nothing asked twice, whatever happens in between."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lm_eval_healthcare.cli.main import main
from saved_runs import STAMP, sample, write_run
from scripted_server import ScriptedJudge
from support import child_environment, results_of, samples_of


def judge(folder: Path, server: ScriptedJudge, out: Path, *options: str, cache: Path | None = None) -> int:
    where = str(cache or out.parent / "verdicts")
    return main(
        ["judge", str(folder), "--backend", "openai", "--base-url", server.base_url, "--judge-model", "scripted",
         "--output-dir", str(out), "--verdict-cache", where, *options]
    )  # fmt: skip


def test_the_run_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mean and standard error by hand: of 5, 3, 4 and the lowest, 1, for a blank answer."""
    answers = ["Halve it. worth-5", "Wait. worth-3", "Stop it. worth-4", " "]
    rows = [sample(n, answer) for n, answer in enumerate(answers)]
    rows.append(sample(4, "Fine. worth-5", reference=" "))
    write_run(tmp_path / "runs", {"medtext": rows})
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out") == 0
        assert sum(server.verdicts.values()) == 3
        prompt = next(content for content in server.counts if "worth-5" in content)
    assert "Case 0: what now?" in prompt
    assert "Reduce the dose." in prompt
    assert "A long prompt." not in prompt
    results = results_of(tmp_path / "out")
    values = results["results"]["medtext"]
    assert values["prometheus,none"] == pytest.approx((5 + 3 + 4 + 1) / 4)
    spread = sum((score - 3.25) ** 2 for score in (5, 3, 4, 1)) / 3
    assert values["prometheus_stderr,none"] == pytest.approx(math.sqrt(spread / 4))
    assert values["prometheus_coverage,none"] == pytest.approx(4 / 5)
    # At the score ln 0.6, elsewhere ln 0.1: (0.6 k + 0.1 (15 - k)) for k = 5, 3, 4; 1 for the blank one.
    assert values["prometheus_expected,none"] == pytest.approx((4.0 + 3.0 + 3.5 + 1) / 4)
    assert results["higher_is_better"]["medtext"]["prometheus"] is True
    assert results["config"]["scored_from"] == f"results_{STAMP}.json"
    assert results["n-samples"]["medtext"] == {"original": 100, "effective": 5}
    section = results["configs"]["medtext"]["metadata"]["healthcare"]
    assert section["reasons"] == {"blank_reference:prometheus": 1, "empty_prediction": 1}
    assert section["judge"]["asked"] == 3
    assert section["judge"]["failed"] == 0
    assert "unusable" not in section
    signature = section["signatures"]["prometheus"]
    assert all(part in signature for part in ("judge:scripted", "wording:pack@", "rubric:medtext@", "temperature:1"))
    logged = samples_of(tmp_path / "out", "medtext")
    assert [row["prometheus"] for row in logged][:4] == [5.0, 3.0, 4.0, 1.0]
    assert math.isnan(logged[4]["prometheus"])
    assert [len(row["judge"]) for row in logged] == [1, 1, 1, 0, 0]
    assert logged[0]["judge"][0]["score"] == 5
    assert "[RESULT] 5" in logged[0]["judge"][0]["text"]
    assert logged[0]["metrics"] == [key for key in logged[0] if key.startswith(("prometheus", "empty", "wrong"))]
    said = capsys.readouterr()
    assert "4/5" in said.out
    assert "3 verdicts to ask for" in said.err


def test_failures_are_visible_and_mark_the_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case b52: 3 of 6 have a verdict, so the mean of 4 is shown with its coverage, and cannot be used."""
    answers = ["worth-4", "worth-4 too", "worth-4 also", "worth-9", "worth-0", "worth-7"]
    write_run(tmp_path / "runs", {"medtext": [sample(n, answer) for n, answer in enumerate(answers)]})
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out", "--attempts", "2") == 1
        assert sum(server.verdicts.values()) == 3 + 3 * 2
    results = results_of(tmp_path / "out")
    values = results["results"]["medtext"]
    assert values["prometheus,none"] == 4.0
    assert values["prometheus_coverage,none"] == 0.5
    assert not any("unparsed" in key for key in values)
    section = results["configs"]["medtext"]["metadata"]["healthcare"]
    assert "3 of 6 verdicts are missing (50.0%, the limit is 5%)" in section["unusable"]["prometheus,none"]
    assert section["reasons"]["out_of_scale:prometheus"] == 3
    said = capsys.readouterr()
    assert "UNUSABLE: medtext" in said.err
    assert "3/6" in said.out
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "two", "--attempts", "2", "--failure-limit", "0.5") == 0
        assert sum(server.counts.values()) == 0


def test_a_judge_in_trouble_is_still_right(tmp_path: Path) -> None:
    """Slow, dropping connections, 429, 500, half answers, broken JSON, wrong order: every score is its answer's."""
    rows = {
        task: [sample(n, f"{task} answer {n} worth-{1 + (n * 7 + len(task)) % 5}") for n in range(60)]
        for task in ("medtext", "careqa_open")
    }
    write_run(tmp_path / "runs", rows)
    faults = dict.fromkeys(
        ("drop", "drop_after_headers", "cut_body", "cut_chunked", "429", "500", "503", "broken_json", "no_choices"),
        0.04,
    )
    faults |= {"half": 0.05, "empty": 0.05, "late": 0.1, "twice": 0.03, "parts": 0.05, "reasoning": 0.05}
    with ScriptedJudge(latency=0.01, faults=faults, retry_after=0.05) as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out", "--concurrency", "16") == 0
    for task, expected in rows.items():
        for row in samples_of(tmp_path / "out", task):
            text = expected[row["doc_id"]]["filtered_resps"][0]
            assert row["prometheus"] == float(text[-1]), text


def test_a_judge_that_is_not_there_ends_the_command_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", {"medtext": [sample(0, "worth-4")]})
    with ScriptedJudge() as server:
        pass
    assert judge(tmp_path / "runs", server, tmp_path / "out") == 2
    assert "127.0.0.1" in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("*.json*"))


def test_several_judges_and_several_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", {"medtext": [sample(n, f"answer {n}") for n in range(12)]})
    with ScriptedJudge(models=("one", "two"), say=lambda text, seed: f"So. [RESULT] {1 + seed % 5}") as server:
        status = main(
            ["judge", str(tmp_path / "runs"), "--base-url", server.base_url, "--judge-model", "one", "--judge-model",
             "two", "--samples", "2", "-o", str(tmp_path / "out"), "--verdict-cache", "off"]
        )  # fmt: skip
        assert status == 0
        assert sum(server.verdicts.values()) == 12 * 2 * 2
    logged = samples_of(tmp_path / "out", "medtext")
    for row in logged:
        by_judge = {
            name: [found["score"] for found in row["judge"] if found["judge"] == name] for name in ("judge1", "judge2")
        }
        assert all(len(scores) == 2 for scores in by_judge.values())
        for name, scores in by_judge.items():
            assert row[f"prometheus_{name}"] == pytest.approx(sum(scores) / 2)
        assert row["prometheus"] == pytest.approx(sum(map(sum, by_judge.values())) / 4)
    said = capsys.readouterr().out
    assert "Krippendorff's alpha" in said
    assert "judge2 is two" in said


CREDENTIALED = "mimic_repsum"


def test_credentialed_texts_do_not_leave_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [sample(0, "worth-4 of Mrs Example")]
    write_run(tmp_path / "runs", {CREDENTIALED: rows})
    common = ["judge", str(tmp_path / "runs"), "--judge-model", "scripted", "-o", str(tmp_path / "out")]
    for address in ("https://judge.example.org/v1", "http://10.0.0.7:8000/v1", "http://127.0.0.1@example.org/v1"):
        assert main([*common, "--base-url", address]) == 2
        assert "may not leave this machine" in capsys.readouterr().err
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out") == 0
    text = "".join(file.read_text(encoding="utf-8") for file in (tmp_path / "out").rglob("*samples*"))
    assert '"text"' not in text
    assert all(b"Feedback" not in file.read_bytes() for file in (tmp_path / "verdicts").iterdir())


def test_what_cannot_be_judged_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = {**sample(0, ""), "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": " A"}}}
    choice["filtered_resps"] = [[-1.0, True]]
    write_run(tmp_path / "runs", {"some_choice": [choice]}, kind="multiple_choice")
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out") == 1
        assert judge(tmp_path / "runs", server, tmp_path / "out", "--where", "task=nothing*") == 1
        assert "tasks are some_choice" in capsys.readouterr().err
        assert judge(tmp_path / "nowhere", server, tmp_path / "out") == 2


def test_a_dry_run_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", {"medtext": [sample(n, f"answer {n}") for n in range(3)]})
    with ScriptedJudge() as server:
        assert judge(tmp_path / "runs", server, tmp_path / "out", "--dry-run") == 0
        assert not server.counts
    assert "3 answers, 3 verdicts to ask for" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*.json"))


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_killed_and_resumed(tmp_path: Path, kills: int) -> None:
    """After every kill -9 the command goes on; each answer is judged exactly once, and none is lost."""
    n = 60 + 40 * kills
    write_run(tmp_path / "runs", {"medtext": [sample(k, f"answer {k} worth-{1 + k % 5}") for k in range(n)]})
    rng = random.Random(7)
    with ScriptedJudge(latency=0.02) as server:
        command = [
            sys.executable, "-m", "lm_eval_healthcare.cli.main", "judge", str(tmp_path / "runs"), "--base-url",
            server.base_url, "--judge-model", "scripted", "--concurrency", "4", "-o", str(tmp_path / "out"),
            "--verdict-cache", str(tmp_path / "verdicts"),
        ]  # fmt: skip
        for _ in range(kills):
            before = sum(server.verdicts.values())
            process = subprocess.Popen(command, env=child_environment(), stderr=subprocess.DEVNULL)
            while sum(server.verdicts.values()) < before + 3 and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, "it was done before it could be killed"
            assert not list((tmp_path / "out").rglob("*.json*"))
        assert subprocess.run(command, env=child_environment(), check=False).returncode == 0
        asked = list(server.verdicts.values())
    logged = samples_of(tmp_path / "out", "medtext")
    assert [row["prometheus"] for row in logged] == [1.0 + k % 5 for k in range(n)]
    assert all(len(row["judge"]) == 1 for row in logged)
    # What was on its way when the command was killed, at most four replies, is all that can be asked again.
    assert len(asked) == n
    assert sum(asked) - n <= 4 * kills
