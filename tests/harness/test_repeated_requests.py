"""Asking a model K times: the answers that differ, their seeds, their order, and what is kept."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

import logging_model
from lm_eval_healthcare.harness import repeated_requests
from lm_eval_healthcare.harness.repeated_store import FILE_NAME, AnswerStore, model_key
from lm_eval_healthcare.harness.repeated_ways import Asked, way_for
from scripted import ScriptedModel
from support import TESTS, child_environment, write_jsonl
from token_models import load, tiny_llama

SAMPLING = {"until": [], "max_gen_toks": 6, "do_sample": True, "temperature": 1.0, "top_p": 0.9}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    return tiny_llama(tmp_path_factory.mktemp("llama"), adds_bos=False)


def request(prompt: str, repeats: int, seed: int = 0, doc_id: int = 0, cache: str = "off", **kwargs: Any) -> Instance:
    options = repeated_requests.options_for(repeats, seed, cache)
    return Instance(
        request_type=repeated_requests.REQUEST_TYPE, doc={}, arguments=(prompt, {**SAMPLING, **kwargs}, options), idx=0,
        metadata=("task", doc_id, repeats),
    )  # fmt: skip


def answers(lm: Any, *requests: Instance) -> list[list[str]]:
    """The answers by request, each given K times as the evaluator gives it."""
    flat = repeated_requests.repeated_generation(lm, [one for one in requests for _ in range(one.repeats or 1)])
    found, start = [], 0
    for one in requests:
        found.append(flat[start : start + (one.repeats or 1)])
        start += one.repeats or 1
    return found


class Endless(ScriptedModel):
    """Never gives one text twice."""

    def generate_until(self, requests: list[Any]) -> list[Any]:
        start = len(self.seen)
        self.seen += [request.args for request in requests]
        return [f"{request.args[0]} {start + place}" for place, request in enumerate(requests)]


class TestGrouping:
    def test_each_question_is_asked_k_times_and_padding_repeats_its_answers(self) -> None:
        lm = Endless()
        first, second = request("a", 3), request("b", 2, doc_id=1)
        flat = repeated_requests.repeated_generation(lm, [first] * 3 + [second] * 2 + [second] * 2)
        assert flat == ["a 0", "a 1", "a 2", "b 3", "b 4", "b 3", "b 4"]
        assert Counter(prompt for prompt, _ in lm.seen) == {"a": 3, "b": 2}

    def test_two_documents_with_one_prompt_have_the_same_answers(self) -> None:
        assert answers(Endless(), request("a", 2), request("a", 2, doc_id=5)) == [["a 0", "a 1"]] * 2

    def test_other_arguments_are_another_question(self) -> None:
        lm = Endless()
        found = answers(lm, request("a", 2), request("a", 2, temperature=0.5), request("a", 2, seed=1))
        assert len({text for texts in found for text in texts}) == 6


class TestTransformers:
    def test_answers_differ_and_come_again_alone_and_in_another_order(self, llama: Path) -> None:
        lm = load(llama)
        questions = ["chest pain", "fever with cough", "rash"]
        together = answers(lm, *(request(text, 5) for text in questions))
        turned = answers(lm, *(request(text, 5) for text in reversed(questions)))
        alone = [answers(load(llama), request(text, 5))[0] for text in questions]
        assert together == turned[::-1] == alone
        assert all(len(set(texts)) > 2 for texts in together)
        assert answers(lm, request("rash", 5, seed=1))[0] != together[2]

    def test_the_caller_random_stream_is_left_alone(self, llama: Path) -> None:
        import torch

        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        answers(load(llama), request("rash", 2))
        assert torch.equal(torch.rand(4), expected)

    def test_k_copies_go_through_the_model_at_once_whatever_its_batch_size(
        self, llama: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lm = load(llama, batch_size=2)
        sizes, kwargs, generate = [], [], lm._model_generate

        def recorded(context: Any, **arguments: Any) -> Any:
            sizes.append(len(context))
            kwargs.append(arguments)
            return generate(context, **arguments)

        monkeypatch.setattr(lm, "_model_generate", recorded)
        answers(lm, request("rash", 7))
        answers(lm, request("rash", 3, top_k=5))
        assert sizes == [7, 3]
        assert lm.batch_size == 2
        # transformers would sample from 50 words: vLLM and the paper from all
        assert [one["top_k"] for one in kwargs] == [0, 5]
        assert kwargs[0]["repetition_penalty"] == 1.0

    def test_out_of_memory_halves_the_batch_and_remembers(
        self, llama: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        lm = load(llama)
        sizes, generate = [], lm._model_generate

        def scarce(context: Any, **arguments: Any) -> Any:
            sizes.append(len(context))
            if len(context) > 3:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return generate(context, **arguments)

        monkeypatch.setattr(lm, "_model_generate", scarce)
        found = answers(lm, request("rash", 8), request("fever", 8))
        assert [len(texts) for texts in found] == [8, 8]
        assert sizes == [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]  # 8 and 4 do not fit; 8 answers in pairs, twice
        assert "going on with 2 answers" in caplog.text

    def test_another_error_is_not_swallowed(self, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lm = load(llama)

        def broken(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("shapes do not match")

        monkeypatch.setattr(lm, "_model_generate", broken)
        with pytest.raises(RuntimeError, match="shapes"):
            answers(lm, request("rash", 2))


class TestServer:
    """The harness's own client, with what it would send recorded in place of a network."""

    def server(self, monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> tuple[Any, list[dict[str, Any]]]:
        from lm_eval.models.openai_completions import LocalCompletionsAPI

        lm = LocalCompletionsAPI(
            base_url="http://127.0.0.1:1/v1/completions", model="m", tokenizer_backend=None, max_retries=1
        )
        sent: list[dict[str, Any]] = []

        def model_call(messages: Any, *, generate: bool, gen_kwargs: dict[str, Any]) -> dict[str, Any]:
            payload = lm._create_payload(
                lm.create_message(messages), generate=generate, gen_kwargs=gen_kwargs, seed=lm._seed
            )
            if len(sent) == fail_at:
                raise KeyboardInterrupt
            sent.append(payload)
            texts = [f"{prompt} seed {payload['seed']}" for prompt in payload["prompt"]]
            return {"choices": [{"index": i, "text": text} for i, text in enumerate(texts)]}

        monkeypatch.setattr(lm, "model_call", model_call)
        return lm, sent

    def test_each_answer_has_a_seed_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lm, sent = self.server(monkeypatch)
        found = answers(lm, request("a", 3, seed=40), request("b", 3, seed=40))
        assert found == [[f"{name} seed {40 + k}" for k in range(3)] for name in "ab"]
        assert all(payload["temperature"] == 1.0 and payload["top_p"] == 0.9 for payload in sent)

    def test_answers_are_kept_as_they_come(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        where = str(tmp_path / "kept")
        lm, sent = self.server(monkeypatch, fail_at=4)
        with pytest.raises(KeyboardInterrupt):
            answers(lm, request("a", 3, cache=where), request("b", 3, cache=where))
        again, sent_again = self.server(monkeypatch)
        found = answers(again, request("a", 3, cache=where), request("b", 3, cache=where))
        assert found == [[f"{name} seed {k}" for k in range(3)] for name in "ab"]
        assert (len(sent), len(sent_again)) == (4, 2)
        asked = [(tuple(payload["prompt"]), payload["seed"]) for payload in sent + sent_again]
        assert len(set(asked)) == 6


class TestStore:
    def test_the_file_is_the_users_alone_and_holds_what_was_put(self, tmp_path: Path) -> None:
        store = AnswerStore(tmp_path / "new")
        store.put({"a": {0: "x", 2: "lone \ud800"}, "b": {0: None}})
        again = AnswerStore(tmp_path / "new")
        assert again.get("a").keys() == {0, 2}
        assert again.get("a")[0] == "x"
        assert again.get("b") == {0: None}
        assert again.get("c") == again.get(None) == {}
        assert stat.S_IMODE((tmp_path / "new" / FILE_NAME).stat().st_mode) == 0o600

    def test_a_broken_file_costs_a_warning(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
        store = AnswerStore(tmp_path)
        store.put({"a": {0: "x"}})
        assert store.get("a") == {}
        assert "are not kept" in caplog.text

    def test_a_model_is_told_from_another(self, llama: Path, tmp_path: Path) -> None:
        lm = load(llama)
        assert model_key(lm) == model_key(load(llama))
        assert model_key(lm) != model_key(load(llama, max_length=16))
        other = tiny_llama(tmp_path / "other", adds_bos=True)
        assert model_key(lm) != model_key(load(other))
        assert model_key(ScriptedModel()) is None  # nobody knows what it would say

    def test_weights_written_anew_are_another_model(self, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        folder = tiny_llama(tmp_path / "m", adds_bos=False)
        before = model_key(load(folder))
        os.utime(folder / "model.safetensors", (1, 1))
        assert model_key(load(folder)) != before

    def test_answers_are_found_again_unless_something_changed(self, llama: Path, tmp_path: Path) -> None:
        lm, where = load(llama), str(tmp_path)
        calls: list[int] = []
        generate = lm.generate_until
        lm.generate_until = lambda asked, **kwargs: calls.append(len(asked)) or generate(asked, **kwargs)
        first = answers(lm, request("rash", 4, cache=where))
        assert answers(lm, request("rash", 4, cache=where)) == first
        assert calls == [4]
        for changed in ({"seed": 1}, {"temperature": 0.7}, {"max_gen_toks": 5}):
            answers(lm, request("rash", 4, cache=where, **changed))
        answers(lm, request("rash", 3, cache=where))
        assert calls == [4, 4, 4, 4, 3]


def test_seeds_are_of_the_question() -> None:
    """`printf '7 What?' | sha256sum` begins with 6a2a5f4c, which is 1781161804, less than 2^31 - 1."""
    assert Asked("What?", {}, 3, 7).seed == 1781161804
    assert way_for(ScriptedModel()).group == 1


def test_killed_at_random_points_and_run_again_asks_nothing_twice(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"question": f"{a} {b}", "answer": "rest"} for a in ("fever", "cough", "rash") for b in ("mild", "severe")]
    write_jsonl(tmp_path / "rows" / "careqa_open.jsonl", rows)
    calls = tmp_path / "calls.jsonl"
    environment = child_environment(CALLS=str(calls), TQDM_DISABLE="1")
    environment["PYTHONPATH"] += os.pathsep + str(TESTS / "harness")

    def notes(what: str) -> list[str]:
        lines = calls.read_text("utf-8").splitlines() if calls.exists() else []
        return [prompt for kind, prompts in map(json.loads, lines) if kind == what for prompt in prompts]

    script, rng = str(TESTS / "harness" / "logging_model.py"), random.Random(8)
    arguments = [str(llama), str(tmp_path / "rows"), str(tmp_path / "kept"), str(tmp_path / "out.json")]
    with subprocess.Popen(
        [sys.executable, script, *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        statuses = []
        for answered in (2, 4, None):
            print("run", file=driver.stdin, flush=True)
            pid = int(driver.stdout.readline())
            while answered is not None and len(notes("answered")) < answered:
                time.sleep(0.005)
            if answered is not None:
                time.sleep(rng.random() * 0.1)
                os.kill(pid, signal.SIGKILL)
                killed = len(notes("asked"))
            statuses.append(int(driver.stdout.readline()))
        driver.stdin.close()
    assert statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    asked = Counter(notes("asked"))
    assert killed < asked.total()
    assert len(asked) == len(rows)
    # What was being computed when the process died is asked again: at most one question a kill.
    assert asked.total() - len(rows) <= 2
    monkeypatch.setenv("CALLS", os.devnull)
    whole = logging_model.run(str(llama), str(tmp_path / "rows"), "off")
    assert whole == json.loads((tmp_path / "out.json").read_text("utf-8"))
