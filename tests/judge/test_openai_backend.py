"""A judge behind a server: real HTTP on the loopback, with everything that goes wrong there."""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_eval_healthcare.judge import Reason
from lm_eval_healthcare.judge.backends import chat_flow
from lm_eval_healthcare.judge.backends.base import LAST_TOKENS, Ask, Reply
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.settings import Sampling
from scripted_server import ScriptedJudge, grade
from server_judges import PLAIN, ask, assert_own_verdicts, backend, judged
from support import child_environment

PAPER = Sampling()


@pytest.fixture(autouse=True)
def _no_key_of_whoever_runs_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


# What is sent and read


def test_a_verdict_with_everything_that_a_server_gives() -> None:
    with ScriptedJudge() as server:
        (reply,) = judged(server, sampling=PAPER)
    _, headers, body = server.requests[-1]
    assert body == {
        "model": "scripted", "messages": [{"role": "user", "content": "case 0."}], "temperature": 1.0, "top_p": 0.9,
        "max_tokens": 1024, "seed": 1000, "repetition_penalty": 1.03, "logprobs": True, "top_logprobs": 20,
    }  # fmt: skip
    assert "authorization" not in headers
    number = grade("case 0.")
    assert reply.text == f"Feedback: Scripted. [RESULT] {number}"
    assert (reply.finish, reply.reason, reply.number) == ("stop", None, 0)
    # The script counts five for the message and two words; seven pieces: `Feedback:`, ` `, `Scripted.`, ` `, ...
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 7)
    assert "".join(token.text for token in reply.tokens) == reply.text
    assert reply.tokens[-1].text == number
    assert {text: round(math.exp(p), 9) for text, p in reply.tokens[-1].top.items()} == {
        n: 0.6 if n == number else 0.1 for n in "12345"
    }


def test_a_greedy_request_without_extensions() -> None:
    """A repetition penalty of 1 is none, and other servers do not know the name."""
    with ScriptedJudge() as server:
        (reply,) = judged(server, logprobs=False)
    assert not {"repetition_penalty", "logprobs", "top_logprobs"} & server.requests[-1][2].keys()
    assert reply.tokens == ()
    assert_own_verdicts([reply])


def test_only_the_last_tokens_are_kept() -> None:
    with ScriptedJudge(say=lambda *_: "so " * 500 + "[RESULT] 3") as server:
        (reply,) = judged(server)
    assert len(reply.tokens) == LAST_TOKENS
    assert reply.text is not None
    assert reply.text.endswith("".join(token.text for token in reply.tokens))


def test_replies_come_in_any_order_and_are_told_apart() -> None:
    with ScriptedJudge(latency=0.01, faults={"late": 0.2}) as server, backend(server) as judge:
        replies = list(judge.replies((ask(i) for i in range(60)), PLAIN))
    assert [reply.number for reply in replies] != list(range(60))
    assert sorted(reply.number for reply in replies) == list(range(60))
    assert_own_verdicts(replies)
    assert server.most_at_once <= 8


@pytest.mark.parametrize("fault", ["parts", "reasoning", "no_usage", "twice", "twice_late"])
def test_what_other_servers_do(fault: str) -> None:
    """A reply that is sent twice must not be taken for that to the next request on the same connection."""
    with ScriptedJudge(faults={fault: 1}) as server:
        replies = judged(server, n=12, concurrency=2)
    assert_own_verdicts(replies)
    assert (replies[0].prompt_tokens is None) == (fault == "no_usage")


def test_a_text_that_is_cut_or_empty_is_a_text() -> None:
    with ScriptedJudge(script=["half", "empty", "null"]) as server:
        half, empty, null = judged(server, n=3, concurrency=1)
    assert half.finish == "length"
    assert half.text
    assert (empty.text, null.text) == ("", "")
    assert half.reason is empty.reason is null.reason is None


def test_half_a_surrogate_pair_can_be_written_to_a_file() -> None:
    with ScriptedJudge(say=lambda *_: "so \ud83d [RESULT] 4") as server:
        (reply,) = judged(server)
    assert reply.text == "so ? [RESULT] 4"
    assert reply.tokens[-1].text == "4"


# What fails and is repeated


@pytest.mark.parametrize(
    "fault",
    [
        "drop", "drop_after_headers", "cut_body", "cut_chunked", "408", "409", "425", "429", "429_reset", "500", "502",
        "503", "504", "broken_json", "html", "not_utf8", "wrong_shape", "no_choices", "empty_body",
    ],
)  # fmt: skip
def test_what_passes_is_repeated(fault: str) -> None:
    with ScriptedJudge(script=[fault, fault], retry_after=0.05) as server:
        (reply,) = judged(server)
    assert_own_verdicts([reply])
    assert server.counts == {"case 0.": 3}
    seeds = {body["seed"] for path, _, body in server.requests if path.endswith("completions")}
    assert seeds == {1000}, "a repeat is the same request"


@pytest.mark.parametrize("fault", ["drop", "500", "broken_json", "wrong_shape"])
def test_after_the_last_repeat_there_is_no_reply(fault: str) -> None:
    with ScriptedJudge(faults={fault: 1}) as server:
        (reply,) = judged(server, retries=2)
    assert (reply.text, reply.reason) == (None, Reason.NO_REPLY)
    assert reply.reason is not None
    assert reply.reason.may_pass
    assert "3 times" in reply.detail
    assert server.counts == {"case 0.": 3}


@pytest.mark.parametrize("fault", ["hang", "trickle", "unclosed"])
def test_a_time_limit_holds_for_everything_together(fault: str) -> None:
    with ScriptedJudge(script=[fault]) as server:
        began = time.monotonic()
        replies = judged(server, n=3, timeout=0.3, retries=1)
        took = time.monotonic() - began
    assert_own_verdicts(replies)
    assert took >= 0.3  # it did wait for the whole of it


def test_a_huge_reply_is_not_read() -> None:
    with ScriptedJudge(script=["huge"]) as server:
        huge, good = judged(server, n=2, concurrency=1)
    assert (huge.reason, huge.text) == (Reason.NO_REPLY, None)
    assert "10 MB" in huge.detail
    assert_own_verdicts([good])


def test_all_faults_at_once_and_every_verdict_is_there_once() -> None:
    faults = dict.fromkeys(("drop", "cut_body", "500", "429", "broken_json", "late", "wrong_shape"), 0.08)
    with ScriptedJudge(latency=0.002, faults=faults, retry_after=0.01) as server, backend(server, retries=20) as judge:
        replies = list(judge.replies((ask(i) for i in range(300)), PLAIN))
    assert collections.Counter(reply.number for reply in replies) == dict.fromkeys(range(300), 1)
    assert_own_verdicts(replies)
    assert set(server.verdicts.values()) == {1}, "what had a verdict was asked again"


# What the server wants


@pytest.mark.parametrize("fault", ["429", "429_reset"])
def test_everyone_waits_if_the_server_says_so(fault: str) -> None:
    arrivals: list[float] = []

    def say(content: str, _: int) -> str:
        arrivals.append(time.monotonic())
        return f"Feedback: Scripted. [RESULT] {grade(content)}"

    with ScriptedJudge(script=[fault], retry_after=0.4, say=say, latency=0.02) as server:
        began = time.monotonic()
        replies = judged(server, n=30, concurrency=4)
    assert_own_verdicts(replies)
    # At most those that were under way when the refusal came were answered before the pause was over.
    early = [arrival for arrival in arrivals if arrival - began < 0.4]
    assert len(early) <= 3
    assert len(arrivals) == 30


def test_a_limit_that_is_told_with_a_good_reply() -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "150ms"}
    with ScriptedJudge(headers=headers) as server:
        began = time.monotonic()
        replies = judged(server, n=3, concurrency=1)
        took = time.monotonic() - began
    assert_own_verdicts(replies)
    assert took >= 0.3  # two pauses of 150 ms between three requests


def test_a_user_hears_of_requests_that_are_put_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each wait is short, all of them together are long; it is said now and then, not each time."""
    monkeypatch.setattr(chat_flow, "_LONG_WAIT", 0.05)
    with ScriptedJudge(script=["429"] * 12, retry_after=0.02) as server:
        (reply,) = judged(server)
    assert_own_verdicts([reply])
    told = [record.getMessage() for record in caplog.records if "put requests off" in record.getMessage()]
    assert 1 <= len(told) < 12
    assert "429" in told[0]


def test_rate_limits_do_not_use_up_the_repeats() -> None:
    with ScriptedJudge(script=["429"] * 12, retry_after=0.01) as server:
        replies = judged(server, n=4, retries=0)
    assert_own_verdicts(replies)


# What fails for good


@pytest.mark.parametrize(
    ("fault", "reason", "says"),
    [
        ("too_long", Reason.TOO_LONG, "maximum context length"),
        ("bad", Reason.REFUSED, "cannot be worked on"),
        ("413", Reason.REFUSED, "413"),
        ("422", Reason.REFUSED, "422"),
        ("filtered", Reason.REFUSED, "filter"),
        ("refusal", Reason.REFUSED, "can't help"),
    ],
)
def test_a_request_that_is_refused_is_not_repeated(fault: str, reason: Reason, says: str) -> None:
    with ScriptedJudge(script=[fault]) as server:
        refused, good = judged(server, n=2, concurrency=1)
    assert (refused.text, refused.reason) == (None, reason)
    assert says in refused.detail
    assert server.counts["case 0."] == 1
    assert_own_verdicts([good])


@pytest.mark.parametrize("fault", ["401", "402", "403", "404", "moved"])
def test_a_server_that_refuses_everything_ends_the_run(fault: str) -> None:
    with (
        ScriptedJudge(latency=0.005, script=["ok"] * 5 + [fault] * 100) as server,
        pytest.raises(JudgeError, match=r"307.*not followed" if fault == "moved" else fault),
    ):
        judged(server, n=50, concurrency=2)
    assert sum(server.counts.values()) <= 9


def test_a_server_that_goes_away_ends_the_run_and_keeps_what_came() -> None:
    came: list[Reply] = []

    def run() -> None:
        for reply in judge.replies((ask(i) for i in range(100_000)), PLAIN):
            came.append(reply)
            if len(came) == 50:
                server.stop()

    with ScriptedJudge(latency=0.002) as server, backend(server, retries=1) as judge:
        with pytest.raises(JudgeError, match=r"not answered.*connection refused.*start it again"):
            run()
        assert judge.model == "scripted"
    assert_own_verdicts([reply for reply in came if reply.reason is None])
    assert 8 <= sum(reply.reason is Reason.NO_REPLY for reply in came) < 40


@pytest.mark.parametrize("logprobs", ["one", "all"])
def test_a_server_without_log_probabilities_is_asked_without(logprobs: str) -> None:
    with ScriptedJudge(logprobs=False) as server, backend(server) as judge:
        replies = list(judge.replies((ask(i) for i in range(1 if logprobs == "one" else 40)), PLAIN))
        assert judge.facts["logprobs"] == 0
    assert_own_verdicts(replies)
    assert not any(reply.tokens for reply in replies)


def test_servers_that_want_other_names_for_the_same() -> None:
    with ScriptedJudge(unknown=["max_tokens", "seed"]) as server, backend(server) as judge:
        assert_own_verdicts(list(judge.replies((ask(i) for i in range(20)), PLAIN)))
        assert judge.facts["seed"] == "not known to the server"
    body = server.requests[-1][2]
    assert body["max_completion_tokens"] == 64
    assert not {"max_tokens", "seed"} & body.keys()


def test_a_parameter_that_the_server_does_not_know_ends_the_run_with_the_remedy() -> None:
    with (
        ScriptedJudge(unknown=["repetition_penalty"]) as server,
        pytest.raises(JudgeError, match="repetition_penalty=1"),
    ):
        judged(server, n=1000, sampling=PAPER)


def test_a_refused_answer_that_speaks_of_temperature_is_one_refusal() -> None:
    """Once the server has answered, what it refuses is the content, whatever its message quotes."""
    with ScriptedJudge(script=["ok", "bad"]) as server:
        good, refused, after = judged(server, n=3, concurrency=1)
    assert_own_verdicts([good, after])
    assert refused.reason is Reason.REFUSED


# Being used


def test_requests_are_taken_only_as_fast_as_they_are_worked_on() -> None:
    taken = 0

    def asks() -> Iterator[Ask]:
        nonlocal taken
        for i in range(10**9):
            taken += 1
            yield ask(i)

    with ScriptedJudge() as server, backend(server, concurrency=4) as judge:
        replies = judge.replies(asks(), PLAIN)
        for done in range(1, 100):
            next(replies)
            assert taken <= done + 8
            if done % 30 == 0:
                time.sleep(0.05)  # who asks is slow: what is done waits, and nothing more is begun
                assert sum(server.counts.values()) <= done + 8
        replies.close()


def test_closing_early_cancels_what_is_under_way_and_the_next_call_works() -> None:
    with ScriptedJudge(latency=0.05) as server, backend(server) as judge:
        replies = judge.replies((ask(i) for i in range(1000)), PLAIN)
        next(replies)
        replies.close()
        time.sleep(0.02)  # what was sent before has arrived
        counted = sum(server.counts.values())
        time.sleep(0.15)
        assert sum(server.counts.values()) == counted
        assert_own_verdicts(list(judge.replies([ask(1)], PLAIN)))


def test_an_error_of_who_asks_is_raised_and_leaves_nothing_behind() -> None:
    def asks() -> Iterator[Ask]:
        yield ask(0)
        raise ZeroDivisionError

    before = threading.active_count()
    with ScriptedJudge() as server:
        with pytest.raises(ZeroDivisionError), backend(server) as judge:
            list(judge.replies(asks(), PLAIN))
        assert list(judge.replies([], PLAIN)) == []
        judge.close()
        judge.close()
    gc.collect()
    assert threading.active_count() == before


def test_inside_a_running_event_loop() -> None:
    async def notebook() -> list[Reply]:
        return judged(server, n=5)

    with ScriptedJudge() as server:
        assert_own_verdicts(asyncio.run(notebook()))


INTERRUPTED = """
import sys
from lm_eval_healthcare.judge.backends.base import Ask
from lm_eval_healthcare.judge.backends.openai import OpenAIBackend
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.settings import Sampling

asks = (Ask(i, Prompt((Message("user", f"case {i}."),)), 1) for i in range(10**9))
try:
    with OpenAIBackend(base_url=sys.argv[1], timeout=60) as judge:
        for reply in judge.replies(asks, Sampling()):
            print(reply.number, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_control_c_ends_it_at_once() -> None:
    with ScriptedJudge(script=["ok"] * 3, faults={"hang": 1}) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, server.base_url],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=child_environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background shells have it ignored
        )  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (out, process.returncode) == ("interrupted\n", 0), errors
    assert all(line.strip().isdigit() for line in lines)
    assert errors == ""


def test_a_server_of_its_own_process_and_its_log(tmp_path: Path) -> None:
    """The script that the benchmark and the tests with kills run."""
    log = tmp_path / "asked.jsonl"
    process = subprocess.Popen(
        [
            sys.executable, str(Path(__file__).with_name("scripted_server.py")),
            "--fault", "500=0.3", "--log", str(log),
        ],
        stdout=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        replies = judged(process.stdout.readline().strip(), n=20, retries=20)
    finally:
        process.kill()
        process.communicate()
    assert_own_verdicts(replies)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert sum(line["fault"] == "ok" for line in lines) == 20
    assert {line["fault"] for line in lines} == {"ok", "500"}


def test_the_thread_of_a_random_order_of_uses() -> None:
    """Whatever is done in whatever order, nothing hangs and every reply is its own request's."""
    rng = random.Random(7)
    with ScriptedJudge(latency=0.001, faults={"drop": 0.1}) as server, backend(server) as judge:
        for _ in range(15):
            n, most = rng.randrange(0, 30), rng.randrange(1, 30)
            replies = judge.replies((ask(i) for i in range(n)), PLAIN)
            came = [reply for reply, _ in zip(replies, range(most), strict=False)]
            replies.close()
            assert_own_verdicts(came)
            assert len(came) == min(n, most)
            if rng.random() < 0.3:
                judge.close()
                judge.start()
