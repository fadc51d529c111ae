"""A judge behind a server, before it is asked: where it is, whether it can be used, how it counts tokens."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from lm_eval_healthcare.judge.backends.chat_reply import complaint
from lm_eval_healthcare.judge.backends.http_loop import Answer
from lm_eval_healthcare.judge.backends.openai import OpenAIBackend
from lm_eval_healthcare.judge.errors import JudgeError
from scripted_server import ScriptedJudge
from server_judges import PLAIN, ask, assert_own_verdicts, backend, judged

KEY = "sk-a-very-secret-key-0123456789"


@pytest.fixture(autouse=True)
def _no_key_of_whoever_runs_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_it_finds_the_model_the_context_and_where_it_is() -> None:
    with ScriptedJudge(models=["one"], context=4096) as server, backend(server) as judge:
        assert (judge.model, judge.context, judge.remote) == ("one", 4096, False)
        assert judge.facts["base_url"] == server.base_url
        json.dumps(judge.facts)
    with ScriptedJudge(context=None) as server, backend(server, context=2048) as judge:
        assert judge.context == 2048


@pytest.mark.parametrize(
    ("options", "models", "says"),
    [
        ({}, ["a", "b"], r"2 models \(a, b\)"),
        ({"model": "c"}, ["a", "b"], "no model 'c'; it has: a, b"),
        ({}, [], "no model"),
    ],
)
def test_a_model_must_be_clear(options: dict[str, Any], models: list[str], says: str) -> None:
    with ScriptedJudge(models=models) as server, pytest.raises(JudgeError, match=says):
        backend(server, **options).start()


def test_no_server() -> None:
    with ScriptedJudge() as server:
        pass
    with pytest.raises(JudgeError, match=r"127\.0\.0\.1.*connection refused.*vllm serve"):
        backend(server).start()


def test_a_wrong_path() -> None:
    with ScriptedJudge() as server:
        with pytest.raises(JudgeError, match=rf"404.*did you mean {server.root}/v1\?"):
            backend(server.root).start()
        with pytest.raises(JudgeError, match=rf"404.*did you mean {server.root}/v1\?"):
            backend(server.root, model="scripted").start()
        with backend(f"{server.root}/v1/chat/completions/") as judge:
            assert judge.model == "scripted"


def test_a_key_is_asked_for_and_never_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedJudge(api_key=KEY) as server:
        with pytest.raises(JudgeError, match=r"wants a key.*OPENAI_API_KEY"):
            backend(server).start()
        with pytest.raises(JudgeError, match=r"JUDGE_KEY.*not set"):
            backend(server, api_key_env="JUDGE_KEY")
        monkeypatch.setenv("JUDGE_KEY", f"{KEY}\n")
        with backend(server, api_key_env="JUDGE_KEY") as judge:
            assert_own_verdicts(list(judge.replies([ask(0)], PLAIN)))
            assert KEY not in repr(judge.facts)
        monkeypatch.setenv("JUDGE_KEY", "sk-another-secret-key")
        with pytest.raises(JudgeError, match="refuses the key") as error:
            backend(server, api_key_env="JUDGE_KEY").start()
    assert "sk-" not in str(error.value) + caplog.text


def test_a_servers_message_does_not_steer_a_terminal() -> None:
    body = {"error": {"message": "bad key \x1b[31m\x07\n\ud800 Schlüssel"}}
    worded = complaint(Answer(401, {}, json.dumps(body).encode()))
    assert worded.message == "bad key \\x1b[31m\\x07 \\ud800 Schlüssel"


def test_secrets_in_the_url_and_in_a_servers_message_are_not_shown() -> None:
    with ScriptedJudge() as server:
        url = server.base_url.replace("//", "//me:pass%40word@") + "?token=query-secret"
        with backend(url) as judge:
            (reply,) = judge.replies([ask(0)], PLAIN)
            assert judge.facts["base_url"] == server.base_url
            assert not judge.remote
        assert_own_verdicts([reply])
        headers = server.requests[-1][1]
        assert headers["authorization"] == "Basic bWU6cGFzc0B3b3Jk"  # printf me:pass@word | base64
        assert "token=query-secret" in server.lines[-1]
        assert "pass" not in server.lines[-1]
    with (
        ScriptedJudge(unknown=["temperature"], aside=f"(with {KEY})") as server,
        pytest.raises(JudgeError, match=r"temperature.*with \*\*\*") as error,
    ):
        judged(server, api_key=KEY)
    assert KEY not in str(error.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html><body>nginx</body></html>", "not as an OpenAI-compatible one"),
        (b"hello", "not as an OpenAI-compatible one"),
        (b'{"models": []}', "not as an OpenAI-compatible one"),
        (b'[["' * 100_000, "not as an OpenAI-compatible one"),
    ],
)
def test_something_else_at_the_address(body: bytes, says: str) -> None:
    with ScriptedJudge(models_body=body) as server, pytest.raises(JudgeError, match=says):
        backend(server).start()


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000/v1", "ftp://127.0.0.1/v1", "http://", "http:///v1", "http://127.0.0.1:port/v1",
        "http://127.0.0.1 /v1", "http://a@b@127.0.0.1/v1", "http://[::1/v1", "",
    ],
)  # fmt: skip
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(JudgeError, match="base URL"):
        OpenAIBackend(base_url=url)


@pytest.mark.parametrize(
    ("name", "value"), [("concurrency", 0), ("timeout", 0), ("retries", -1), ("context", 0), ("first_wait", 0)]
)
def test_an_option_that_makes_no_sense(name: str, value: float) -> None:
    with pytest.raises(JudgeError, match=f"{name} is {value}; expected"):
        backend("http://127.0.0.1:1/v1", **{name: value})


def test_localhost_and_six() -> None:
    with ScriptedJudge() as server:
        assert_own_verdicts(judged(f"http://LOCALHOST:{server.port}/v1"))
    with ScriptedJudge(host="::1") as server:
        assert server.base_url.startswith("http://[::1]:")
        assert_own_verdicts(judged(server))
        assert_own_verdicts(judged(f"http://localhost:{server.port}/v1"))


def test_no_proxy_comes_between_this_machine_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("no_proxy", "")
    with ScriptedJudge() as server:
        assert_own_verdicts(judged(server))


# Counting


def test_the_server_counts_tokens_while_it_can() -> None:
    prompt = ask(0, "three words here", system="one two").prompt
    with ScriptedJudge() as server, backend(server) as judge:
        assert judge.count(prompt) == 5 + 2 + 5 + 3
    with ScriptedJudge(tokenize=False) as server, backend(server) as judge:
        asked = [path for path, _, _ in server.requests].count("/tokenize")
        assert judge.count(prompt) is judge.count(prompt) is None
        assert [path for path, _, _ in server.requests].count("/tokenize") == asked


@pytest.mark.parametrize("system", ["refused", "left out"])
def test_a_template_without_system_messages_gets_them_with_the_question(system: str) -> None:
    with ScriptedJudge(system=system) as server, backend(server) as judge:
        list(judge.replies([ask(0, "The question.", system="The rules.")], PLAIN))
        assert judge.count(ask(0, "three words here", system="one two").prompt) == 5 + 5
    assert server.requests[-2][2]["messages"] == [{"role": "user", "content": "The rules.\nThe question."}]


def test_a_refused_system_message_where_nobody_counts() -> None:
    with ScriptedJudge(system="refused", tokenize=False) as server, backend(server) as judge:
        list(judge.replies([ask(0, "The question.", system="The rules.")], PLAIN))
    assert server.requests[-1][2]["messages"] == [{"role": "user", "content": "The rules.\nThe question."}]
