"""Credentialed data: only from a folder, nothing pushed or sent away, no text in logs, no answers left behind."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.data.files import DataError, read_rows
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.privacy import is_near
from lm_eval_healthcare.sample import rows_path
from scripted import ScriptedModel, evaluate

COURSE, REPORT = "mimic_hospital_course", "mimic_repsum"
REPLIES = [f"The patient number {n} was treated and went home in good condition." for n in range(8)]


class Likely(ScriptedModel):
    """A model for which every text is as likely as it is short."""

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        return [(-float(len(request.args[1])), False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        return [-float(len(request.args[0])) for request in requests]


def texts_of_rows() -> list[str]:
    rows = read_rows(rows_path() / "mimic" / "test.jsonl")
    return [
        row[name][start : start + 40]
        for row in rows
        for name in ("target_text", "extractive_notes_summ")
        for start in (0, 40)
    ]


def scores(out: Any, task: str) -> dict[str, float]:
    return {key: value for key, value in out["results"][task].items() if isinstance(value, float)}


@pytest.mark.parametrize(
    "task",
    [COURSE, REPORT, f"{COURSE}_perplexity", f"{COURSE}_conditional_perplexity", f"{REPORT}_conditional_perplexity"],
)
def test_no_text_is_logged_and_scores_are_the_same(task: str) -> None:
    hidden = evaluate(task, Likely(REPLIES), log_samples=True)
    kept = evaluate(task, Likely(REPLIES), metadata={"keep_text": "yes"}, log_samples=True)
    assert scores(hidden, task)
    assert scores(hidden, task) == pytest.approx(scores(kept, task), nan_ok=True)
    logged = json.dumps(hidden, default=str, ensure_ascii=False)
    found = [text for text in [*texts_of_rows(), *REPLIES] if json.dumps(text, ensure_ascii=False)[1:-1] in logged]
    assert found == []
    shown = json.dumps(kept["samples"][task], default=str, ensure_ascii=False)
    assert any(json.dumps(text, ensure_ascii=False)[1:-1] in shown for text in texts_of_rows())
    assert len(hidden["samples"][task]) == len(kept["samples"][task])
    for mine, theirs in zip(hidden["samples"][task], kept["samples"][task], strict=True):
        assert mine["doc_id"] == theirs["doc_id"]
        for metric in theirs["metrics"]:
            assert mine[metric] == pytest.approx(theirs[metric], nan_ok=True)


def test_predictions_alone_are_hidden_too() -> None:
    out = evaluate(COURSE, ScriptedModel(REPLIES), log_samples=True, predict_only=True)
    assert "was treated" not in json.dumps(out["samples"], default=str)


def test_answers_are_deleted_once_scored_unless_texts_are_kept(tmp_path: Path) -> None:
    evaluate(COURSE, ScriptedModel(REPLIES), metadata={"answers": str(tmp_path / "a")})
    assert not list((tmp_path / "a").rglob("*.jsonl"))
    evaluate(COURSE, ScriptedModel(REPLIES), metadata={"answers": str(tmp_path / "b"), "keep_text": "yes"})
    (file,) = (tmp_path / "b").rglob("*.jsonl")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_answers_survive_a_failing_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no more memory")

    monkeypatch.setattr("lm_eval_healthcare.harness.open_ended.score_documents", fail)
    with pytest.raises(RuntimeError, match="no more memory"):
        evaluate(COURSE, ScriptedModel(REPLIES), metadata={"answers": str(tmp_path)})
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1


@pytest.mark.parametrize("task", [COURSE, REPORT, f"{COURSE}_perplexity"])
def test_never_from_the_hub(task: str) -> None:
    with pytest.raises(DataError, match="credentials"):
        task_manager(metadata={}, include_defaults=False).load([task])


def load(**metadata: Any) -> Any:
    return task_manager(metadata={"data": "sample", **metadata}, include_defaults=False).load([COURSE])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hf_hub_log_args", "hub_results_org=me,push_samples_to_hub=True"], "not pushed to a hub"),
        (["--hf_hub_log_args", "hub_results_org=me", "push_results_to_hub=True"], "not pushed to a hub"),
        (['--hf_hub_log_args={"push_results_to_hub": true}'], "not pushed to a hub"),
        (["--wandb_args", "project=x"], "leave out --wandb_args"),
        (["--trackio_args", "project=x"], "leave out --trackio_args"),
        (["--model", "openai-chat-completions"], "not on this machine or network"),
        (["-M", "anthropic-chat"], "not on this machine or network"),
    ],
)
def test_nothing_is_sent_away(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["lm_eval", "run", "--tasks", COURSE, *arguments])
    with pytest.raises(OptionError, match=message):
        load()
    task_manager(metadata={"data": "sample"}, include_defaults=False).load(["careqa_open"])  # anything else may go


def test_a_configuration_file_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("model: hf\nhf_hub_log_args: {push_samples_to_hub: true}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["lm_eval", "run", "--config", str(file)])
    with pytest.raises(OptionError, match="not pushed to a hub"):
        load()


def test_a_model_behind_an_address() -> None:
    with pytest.raises(OptionError, match=r"api\.example\.com"):
        load(base_url="https://api.example.com/v1")
    load(base_url="https://api.example.com/v1", send_text="yes")
    load(base_url="http://127.0.0.1:8000/v1/completions")


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://localhost:8000/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://[::1]:8000", True),
        ("gpu01:8000", True),
        ("http://llm.hospital.internal/v1", True),
        ("http://8.8.8.8/v1", False),
        ("https://api.openai.com/v1", False),
        ("https://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
    ],
)
def test_which_addresses_are_near(url: str, near: bool) -> None:
    assert is_near(url) is near
