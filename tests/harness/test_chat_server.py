"""A model behind a chat server, which lays its prompts out itself: the harness gives it turns, not a text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from scripted import open_rows
from scripted_server import ScriptedJudge
from support import results_of, samples_of

REFERENCE = "Septic arthritis."


def ask(server: ScriptedJudge, folder: Path, task: str, *metadata: str) -> None:
    arguments = f"base_url={server.base_url}/chat/completions,model={server.models[0]},num_concurrent=4,max_retries=1"
    done = main(
        [
            "run", "--model", "local-chat-completions", "--model_args", arguments, "--tasks", task,
            "--apply_chat_template", "--output_path", str(folder / "out"), "--log_samples",
            "--metadata", "metrics=rouge1", f"data={folder / 'data'}", *metadata,
        ]
    )  # fmt: skip
    assert done == 0


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    open_rows(tmp_path / "data", [REFERENCE] * 3)
    return tmp_path


def test_open_ended_questions(rows: Path) -> None:
    def say(text: str, seed: Any) -> str:
        return "<think>Gout?</think>Septic arthritis." if "1" in text else "Gout."

    with ScriptedJudge(say=say) as server:
        ask(server, rows, "careqa_open")
        assert sorted(server.counts.values()) == [1, 1, 1]
    samples = samples_of(rows / "out", "careqa_open")
    answers = [sample["filtered_resps"][0] for sample in samples]
    assert set(answers) <= {REFERENCE, "Gout."}
    assert answers == [
        REFERENCE if "</think>" in sample["resps"][0][0] else sample["resps"][0][0] for sample in samples
    ]


def test_several_answers_a_question(rows: Path) -> None:
    given = list(sys.argv)
    with ScriptedJudge(say=lambda text, seed: f"Answer of seed {seed}.", latency=0.02) as server:
        ask(server, rows, "careqa_open_consistency", "repeats=4", "repeats_seed=7")
        asked = dict(server.counts)
        assert sorted(asked.values()) == [4, 4, 4]
        assert server.most_at_once > 1
        assert sys.argv == given, "the command line of this process is its own again"
        for sample in samples_of(rows / "out", "careqa_open_consistency"):
            assert sample["resps"] == [[f"Answer of seed {seed}." for seed in (7, 8, 9, 10)]]
        facts = results_of(rows / "out")["configs"]["careqa_open_consistency"]["metadata"]["healthcare"]["repeated"]
        assert facts["identical_answers"] == 0
        ask(server, rows, "careqa_open_consistency", "repeats=4", "repeats_seed=7")
        assert dict(server.counts) == asked, "answers that are known are asked again"


def test_scored_again_every_answer_counts(rows: Path) -> None:
    def say(text: str, seed: Any) -> str:
        return {0: REFERENCE, 1: "Septic shock.", 2: "Gout.", 3: " "}[seed]

    with ScriptedJudge(say=say) as server:
        ask(server, rows, "careqa_open_consistency", "repeats=4")
    task, metric = "careqa_open_consistency", "rouge1,none"
    assert main(["score", str(rows / "out"), "--metrics", "rouge1", "-o", str(rows / "again")]) == 0
    # F1 of one common word of two and two is 1/2; a blank answer scores 0.
    assert results_of(rows / "out")["results"][task][metric] == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    for key, value in results_of(rows / "out")["results"][task].items():
        if key.startswith(("rouge1", "empty")):
            assert results_of(rows / "again")["results"][task][key] == value, key
    for old, new in zip(samples_of(rows / "out", task), samples_of(rows / "again", task), strict=True):
        assert new["rouge1_per_answer"] == old["rouge1_per_answer"] == pytest.approx([1, 0.5, 0, 0])
