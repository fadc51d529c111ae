"""Credentialed data: only from a folder, nothing pushed or sent away, no text in logs, no answers left behind."""

from __future__ import annotations

import http.server
import json
import logging
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate

from lm_eval_healthcare import metrics, task_manager, tasks_path
from lm_eval_healthcare.data.files import DataError, read_rows
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.privacy import is_near
from lm_eval_healthcare.sample import rows_path
from lm_eval_healthcare.scoring import answers as answers_module
from scripted import ScriptedModel, evaluate
from support import results_of, write_jsonl

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

    monkeypatch.setattr("lm_eval_healthcare.harness.text_metrics.score_documents", fail)
    with pytest.raises(RuntimeError, match="no more memory"):
        evaluate(COURSE, ScriptedModel(REPLIES), metadata={"answers": str(tmp_path)})
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1


def test_answers_are_kept_until_every_metric_has_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A metric left for later or failed needs the answers; the folder that the log names must hold them."""

    class Heavy(metrics.Metric):
        name, description, heavy = "heavy", "Fails.", True

        def score(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("no more memory")

        def signature(self, **options: Any) -> str:
            return "heavy|"

    monkeypatch.setitem(metrics.AVAILABLE, "heavy", Heavy())
    for number, metadata in enumerate([{"metrics_device": "later"}, {}]):
        folder = tmp_path / str(number)
        evaluate(COURSE, ScriptedModel(REPLIES), metadata={"answers": str(folder), "metrics": "bleu+heavy", **metadata})
        (file,) = folder.rglob("*.jsonl")
        assert file.stat().st_mode & 0o077 == 0
        assert f"lm-eval-healthcare score {file.parent}" in caplog.text
        assert "hold texts of credentialed data and are kept" in caplog.text
        caplog.clear()


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
        (["--hf_hub_log_args", "push_samples_to_hub=on"], "not pushed to a hub"),
        (["--hf_hub_log", "push_samples_to_hub=True"], "not pushed to a hub"),
        (["--wandb_a", "project=x"], "leave out --wandb_args"),
        (["--write_out"], "leave it out, or set keep_text=yes"),
        (["-w"], "leave it out, or set keep_text=yes"),
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


def test_no_push_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["lm_eval", "run", "--hf_hub_log_args", "push_samples_to_hub=False,public_repo=True"]
    )
    load()


def test_write_out_of_the_python_interface_prints_no_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        evaluate(COURSE, ScriptedModel(REPLIES), write_out=True)
    assert f"{COURSE}: (text of a credentialed data set" in caplog.text
    assert [text for text in texts_of_rows() if text in caplog.text] == []
    caplog.clear()
    with caplog.at_level(logging.INFO):
        evaluate("careqa_open", ScriptedModel(["x"]), write_out=True)
    assert "context prompt" in caplog.text


class Server:
    """A completion server on this machine that remembers what it was sent."""

    def __enter__(self) -> Server:
        received = self.received = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                body = json.dumps({"choices": [{"index": 0, "text": "A reply."}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/completions"
        return self

    def __exit__(self, *args: Any) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_a_model_made_in_python_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    with Server() as server:
        model = LocalCompletionsAPI(base_url=server.url, model="m", tokenizer_backend=None, tokenized_requests=False)
        out = evaluate(COURSE, model, limit=2)
        assert out["results"][COURSE]["empty_prediction,none"] == 0.0
        assert len(server.received) == 2
        monkeypatch.setattr(model, "base_url", "https://api.example.com/v1/completions")
        with pytest.raises(OptionError, match=r"api\.example\.com"):
            evaluate(COURSE, model, limit=2)
        assert len(server.received) == 2


def test_the_cache_of_replies_holds_none(tmp_path: Path) -> None:
    class Caching(ScriptedModel):
        def generate_until(self, requests: list[Any]) -> list[Any]:
            for request, reply in zip(requests, answers := super().generate_until(requests), strict=True):
                self.cache_hook.add_partial("generate_until", request.args, reply)
            return answers

    for task, kept in ((COURSE, False), ("careqa_open", True)):
        out = evaluate(task, Caching(["SECRET-REPLY"]), limit=2, use_cache=str(tmp_path / task))
        assert out["results"][task]
        files = [file.read_bytes() for file in tmp_path.glob(f"{task}*")]
        assert any(b"SECRET-REPLY" in content for content in files) is kept


def test_no_category_of_a_users_own_names_a_text(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_path() / 'mimic' / 'mimic_hospital_course.yaml'}\ntask: mine\n"
        "healthcare_changes: {breakdown: [target_text]}\n",
        encoding="utf-8",
    )
    manager = task_manager(str(tmp_path), {"data": "sample", "answers": "off"}, include_defaults=False)
    out = simple_evaluate(ScriptedModel(REPLIES), tasks=["mine"], task_manager=manager)
    assert [text for text in texts_of_rows() if text in json.dumps(out, default=str, ensure_ascii=False)] == []


def test_faults_of_rows_are_told_without_their_content(tmp_path: Path) -> None:
    row = {"extractive_notes_summ": ["Mr Invented of 5 Elm Street"], "target_text": "x"}
    write_jsonl(tmp_path / "mimic.jsonl", [row])
    with pytest.raises(DataError, match=r"expected str\?, got list") as caught:
        task_manager(metadata={"data": str(tmp_path)}, include_defaults=False).load([COURSE])
    assert "Elm Street" not in str(caught.value)


def test_scoring_again_what_was_not_deleted(tmp_path: Path, cli: Any) -> None:
    manager = task_manager(
        metadata={"data": "sample", "answers": str(tmp_path), "metrics": "bleu"}, include_defaults=False
    )
    simple_evaluate(ScriptedModel(["an answer"]), tasks=[COURSE, "careqa_open"], task_manager=manager)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "run.json").read_text())["deleted_answers"] == [COURSE]
    done = cli("score", str(folder), "-o", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    (folder / "careqa_open.jsonl").unlink()
    done = cli("score", str(folder), "--partial", "-o", str(tmp_path / "again"))
    assert done.returncode == 2
    assert "were deleted once scored" in done.stderr


@pytest.mark.parametrize("task", [REPORT, f"{COURSE}_perplexity", f"{COURSE}_conditional_perplexity"])
def test_kept_answers_are_scored_again(task: str, tmp_path: Path, cli: Any) -> None:
    metadata = {"answers": str(tmp_path), "keep_text": "yes"}
    first = evaluate(task, Likely(REPLIES), metadata=metadata)
    (folder,) = tmp_path.iterdir()
    done = cli("score", str(folder), "-o", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    again = results_of(tmp_path / "again")
    assert scores(again, task) == pytest.approx(scores(first, task), nan_ok=True)


def test_a_full_folder_keeps_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write = answers_module._write_whole

    def full(path: Path, *args: Any) -> None:
        if tmp_path / "small" in path.parents and path.name == "run.json":
            raise OSError(28, "No space left on device")
        write(path, *args)

    monkeypatch.setattr(answers_module, "_write_whole", full)
    evaluate(REPORT, ScriptedModel(REPLIES), metadata={"answers": str(tmp_path / "small")})
    assert not list(tmp_path.rglob("*.jsonl"))
