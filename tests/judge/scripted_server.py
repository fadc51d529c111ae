"""A judge that is a script behind real HTTP on the loopback: the same request always gets the same grade.

In a test:

    with ScriptedJudge(latency=0.05, faults={"500": 0.1, "drop": 0.05}) as server:
        backend = OpenAIBackend(base_url=server.base_url)
        ...
        assert server.counts == {...}        # requests by content, faulty ones too
        assert server.verdicts == {...}      # whole, faultless replies by content
        assert server.about("case 17") == 1  # the same for all contents that hold a text

As a process of its own, which prints the address and then serves until it is ended:

    python tests/judge/scripted_server.py --port 0 --latency 0.05 --fault 500=0.1 --fault drop=0.05 --log asked.jsonl

There, `GET /scripted/counts` gives `{"counts": {content: n}, "verdicts": {content: n}, "most_at_once": n}`, and `--log`
holds one line for every request, written before it is answered: `content` (its SHA-256), `seed`, `fault`.

The grade: the number of the last `worth-N` that the prompt holds, so that a test's answers can say what they get
(`worth-9` for a verdict out of the scale); without one, 1 to 5 by a hash of the prompt. With `rule="choice"`, A if the
first `worth-N` is not below the last, else B; with `rule="first"`, always A. `say` replaces all that: a function of the
prompt's text and the seed that returns what the judge writes. The reply's `id` holds
the request's `X-Request-Id`, as vLLM's does. At the score, log-probabilities are ln 0.6 for it and
ln 0.1 for each other number from 1 to 5.

A fault comes with its probability, drawn from a hash of seed, content and how often this content was asked before, so
that it does not depend on the order in which requests come; `script` is a list of faults (or `ok`) for the first
requests as they arrive. The faults:

    ok                  none
    drop                the connection is closed before a byte is sent
    drop_after_headers  ... after the head
    cut_body            ... in the middle of a body whose length was promised
    cut_chunked         ... in the middle of a chunked one
    unclosed            half a chunked body, then nothing while the connection stays open
    hang                nothing is sent while the connection stays open
    trickle             a byte every 20 ms
    500, 503, 408, ...  any status, with an error as servers send it
    429                 with `Retry-After: {retry_after}`
    429_reset           with `x-ratelimit-remaining-requests: 0` and `x-ratelimit-reset-requests: {retry_after}s`
    half                the text is cut in the middle, finish_reason `length`
    no_verdict, empty   the text holds no verdict, or nothing
    null                content null, without a reason
    filtered            content null, finish_reason `content_filter`
    refusal             content null, with `refusal`
    parts               content as a list of parts (a good reply)
    reasoning           `reasoning_content` with another verdict beside the content (a good reply)
    no_usage            without `usage` (a good reply)
    late                ten times the latency (a good reply, so that replies come in another order)
    twice, twice_late   the reply is sent twice, at once or a moment later (good replies)
    broken_json, html, not_utf8, wrong_shape, no_choices, empty_body, huge
    too_long            400 that speaks of the context length
    bad                 400 for this request's content
    moved               307 to another host
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

GOOD = frozenset({"ok", "parts", "reasoning", "no_usage", "late", "twice", "twice_late"})
_WORTH = re.compile(r"worth-(\d+)")
_PIECES = re.compile(r"\d|\s+|[^\s\d]+")


def content_of(body: Mapping[str, Any]) -> str:
    """What a request asks: the contents of its messages, a blank line between them."""
    return "\n\n".join(str(message.get("content")) for message in body["messages"])


def count_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """The scripted tokenizer: words, and five for each message."""
    return sum(5 + len(str(message.get("content")).split()) for message in messages)


def share(*parts: object) -> float:
    """A number from 0 to 1 that depends on nothing but the parts."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def grade(content: str, rule: str = "grade") -> str:
    """The verdict on a prompt: a number, or A or B."""
    worths = [int(found) for found in _WORTH.findall(content)]
    if rule == "first":
        return "A"
    if rule == "choice":
        return "A" if not worths or worths[0] >= worths[-1] else "B"
    return str(worths[-1]) if worths else str(1 + int(5 * share(content)))


class ScriptedJudge:
    """The server. Use it as a context manager; it runs in a thread of its own.

    Attributes:
        counts: How often each content was asked, whatever came of it.
        verdicts: How often each content got a whole and faultless reply; one that the client did not wait for counts
            if all of it had been handed to the system.
        requests: Path, headers (lower case) and parsed body of the first `keep` requests.
        lines: Their first lines.
        most_at_once: The highest number of chat completions in work at the same moment.
        connections: How many connections were opened.
    """

    def __init__(
        self,
        *,
        latency: float = 0.0,
        faults: Mapping[str, float] | None = None,
        script: Sequence[str] = (),
        seed: int = 0,
        retry_after: float | str = 0.2,
        rule: str = "grade",
        say: Callable[[str, int], str] | None = None,
        models: Sequence[str] = ("scripted",),
        context: int | None = 4096,
        tokenize: bool = True,
        logprobs: bool = True,
        unknown: Sequence[str] = (),
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        system: str = "taken",
        models_body: bytes | None = None,
        aside: str = "",
        keep: int = 10_000,
        log: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Take the script.

        Args:
            latency: Seconds from a request to its reply.
            faults: Probabilities of faults, at most 1 together.
            script: Faults of the first chat completions, as they arrive.
            seed: Of the faults.
            retry_after: Seconds, or any other text, that a 429 tells to wait.
            rule: `grade`, `choice` or `first`.
            say: What the judge writes, from the prompt's text and the seed; instead of `rule`.
            models: Names that `/v1/models` lists; a request for another one gets 404.
            context: `max_model_len` of `/v1/models`; left out if None.
            tokenize: Whether there is `/tokenize`, as in vLLM.
            logprobs: Whether log-probabilities can be had; if not, a request for them gets 400.
            unknown: Parameters that are refused with 400.
            api_key: The key without which everything is refused with 401.
            headers: Further headers of every reply.
            system: What the chat template does with a system message: `taken`, `refused`, or `left out` in silence.
            models_body: What `/v1/models` sends instead of a list.
            aside: What every error message ends with.
            keep: Most requests in `requests`.
            log: File that gets a line for every chat completion before it is answered.
            host: Address.
            port: Port, 0 for a free one.
        """
        self.latency, self.seed, self.retry_after, self.rule, self.say = latency, seed, retry_after, rule, say
        self.faults, self.script = dict(faults or {}), collections.deque(script)
        self.models, self.context, self.tokenize, self.logprobs = tuple(models), context, tokenize, logprobs
        self.unknown, self.api_key, self.headers = tuple(unknown), api_key, dict(headers or {})
        self.system, self.models_body, self.aside = system, models_body, aside
        self.host, self.port, self.keep = host, port, keep
        self.counts: collections.Counter[str] = collections.Counter()
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.lines: list[str] = []
        self.most_at_once = self.at_once = self.connections = 0
        self._log: TextIO | None = log.open("a", encoding="utf-8") if log else None
        self.open: set[Connection] = set()

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client is given."""
        return f"{self.root}/v1"

    def about(self, text: str) -> int:
        """How often contents that hold a text got a verdict."""
        return sum(n for content, n in self.verdicts.items() if text in content)

    def asked(self, text: str) -> int:
        """How often contents that hold a text were asked."""
        return sum(n for content, n in self.counts.items() if text in content)

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self, loop), self.host, self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        ready()
        try:
            await loop.create_future()
        finally:
            server.close()
            for connection in list(self.open):
                connection.transport.abort()

    def __enter__(self) -> ScriptedJudge:
        """Start the thread."""
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self.serve(ready.set))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the scripted server did not start")
        return self

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    def stop(self) -> None:
        """Go away in the middle of everything, as a server that is killed; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(10)

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self.stop()
        if self._log:
            self._log.close()

    def take(self, body: dict[str, Any]) -> str:
        """Count a request and return its fault."""
        content = content_of(body)
        before = self.counts[content]
        self.counts[content] += 1
        fault = self.script.popleft() if self.script else self._drawn(content, before)
        if self._log:
            digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
            self._log.write(json.dumps({"content": digest, "seed": body.get("seed"), "fault": fault}) + "\n")
            self._log.flush()
        return fault

    def _drawn(self, content: str, before: int) -> str:
        if not self.faults:
            return "ok"
        left = share(self.seed, content, before)
        for fault, probability in self.faults.items():
            left -= probability
            if left < 0:
                return fault
        return "ok"

    def refused(self, body: dict[str, Any]) -> tuple[int, str] | None:
        """Return status and message for a request that this server does not understand."""
        if body.get("model") not in self.models:
            return 404, f"The model `{body.get('model')}` does not exist."
        if self.system == "refused" and body["messages"][0]["role"] == "system":
            return 400, "System role not supported"
        if not self.logprobs and body.get("logprobs"):
            return 400, "'logprobs' is not supported by this model"
        for name in self.unknown:
            if name == "max_tokens" and name in body:
                return 400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            if name in body:
                return 400, f"Unrecognized request argument supplied: {name}"
        return None

    def completion(self, body: dict[str, Any], fault: str) -> dict[str, Any]:
        """Return the reply to a chat completion, with the faults that lie in its text or shape."""
        content = content_of(body)
        said = self.say or (lambda content, _: f"Feedback: Scripted. [RESULT] {grade(content, self.rule)}")
        text: Any = said(content, body.get("seed") or 0)
        finish = "stop"
        if fault in {"half", "no_verdict", "empty"}:
            text = {"half": text[: len(text) // 2], "no_verdict": "It is a good answer.", "empty": ""}[fault]
            finish = "length" if fault == "half" else finish
        logprobs = {"content": pieces(text)} if body.get("logprobs") else None
        message = {"role": "assistant", "content": text}
        if fault in {"null", "filtered", "refusal"}:
            message["content"], logprobs = None, None
            message["refusal"] = "I can't help with that." if fault == "refusal" else None
            finish = "content_filter" if fault == "filtered" else finish
        elif fault == "parts":
            message["content"] = [{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}]
        elif fault == "reasoning":
            message["reasoning_content"] = "It is bad. [RESULT] 1"
        tokens = {"prompt_tokens": count_of(body["messages"]), "completion_tokens": len(_PIECES.findall(str(text)))}
        choices: Any = [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}]
        if fault in {"wrong_shape", "no_choices"}:
            choices = {"message": text} if fault == "wrong_shape" else []
        reply = {"object": "chat.completion", "model": body["model"], "choices": choices}
        return reply if fault == "no_usage" else {**reply, "usage": tokens}


@functools.lru_cache(maxsize=4096)
def _piece(token: str) -> dict[str, Any]:
    if token in set("12345"):
        top = {number: 0.6 if number == token else 0.1 for number in "12345"}
    else:
        top = {token: 0.9, f"{token}x": 0.1}
    likely = [{"token": t, "logprob": math.log(p), "bytes": list(t.encode("utf-8", "replace"))} for t, p in top.items()]
    return {**next(entry for entry in likely if entry["token"] == token), "top_logprobs": likely}


def pieces(text: str) -> list[dict[str, Any]]:
    """The tokens of a text with their log-probabilities as servers send them: digits, spaces, and what is between."""
    return [_piece(token) for token in _PIECES.findall(text)]


def head_of(status: int, headers: Mapping[str, str]) -> bytes:
    """Status line and headers."""
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Connection(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    transport: asyncio.Transport

    def __init__(self, judge: ScriptedJudge, loop: asyncio.AbstractEventLoop) -> None:
        """Take the server."""
        self.judge, self.loop, self.buffer = judge, loop, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.judge.connections += 1
        self.judge.open.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        """End."""
        self.judge.open.discard(self)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self.buffer += data
        while True:
            head, mark, rest = self.buffer.partition(b"\r\n\r\n")
            if not mark:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            method, path, _ = first.split(" ")
            if len(self.judge.lines) < self.judge.keep:
                self.judge.lines.append(first)
            self.answer(method, path.partition("?")[0], headers, rest[:length])

    def answer(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> None:
        """Answer one request, now or later."""
        judge = self.judge
        body = json.loads(raw) if raw else None
        if len(judge.requests) < judge.keep:
            judge.requests.append((path, headers, body))
        if judge.api_key and headers.get("authorization") != f"Bearer {judge.api_key}":
            self.error(401, "Incorrect API key provided.")
        elif path == "/v1/models":
            if judge.models_body is not None:
                self.write(200, judge.models_body, {"Content-Type": "application/json"})
                return
            entry = {"object": "model", **({"max_model_len": judge.context} if judge.context else {})}
            self.send(200, {"object": "list", "data": [{"id": name, **entry} for name in judge.models]})
        elif path == "/tokenize" and judge.tokenize and method == "POST":
            messages = body["messages"]
            if messages[0]["role"] == "system" and judge.system != "taken":
                if judge.system == "refused":
                    self.error(400, "System role not supported")
                    return
                messages = messages[1:]
            self.send(200, {"count": count_of(messages), "max_model_len": judge.context, "tokens": []})
        elif path == "/scripted/counts":
            self.send(200, {"counts": judge.counts, "verdicts": judge.verdicts, "most_at_once": judge.most_at_once})
        elif path == "/v1/chat/completions" and method == "POST":
            self.complete(body, headers.get("x-request-id", "1"))
        else:
            self.error(404, "Not Found")

    def complete(self, body: dict[str, Any], name: str) -> None:
        """Answer a chat completion after the latency."""
        judge = self.judge
        refused = judge.refused(body)
        if refused:
            self.error(*refused)
            return
        fault = judge.take(body)
        judge.at_once += 1
        judge.most_at_once = max(judge.most_at_once, judge.at_once)
        self.loop.call_later(judge.latency * (10 if fault == "late" else 1), self.finish, body, fault, name)

    def finish(self, body: dict[str, Any], fault: str, name: str) -> None:
        """Send a reply or what a fault makes of it."""
        self.judge.at_once -= 1
        if self.transport.is_closing():
            return
        if fault == "hang":
            return
        if fault == "drop":
            self.transport.abort()
        elif self.broken_text(fault) or self.broken_status(fault):
            return
        else:
            reply = self.judge.completion(body, fault) | {"id": f"chatcmpl-{name}"}
            data = json.dumps(reply).encode()
            if self.broken_body(fault, data):
                return
            self.write(200, data, {"Content-Type": "application/json"}, copies=1 + (fault == "twice"))
            if fault == "twice_late":
                self.loop.call_later(0.001, self.send, 200, reply)
            if fault in GOOD:
                self.judge.verdicts[content_of(body)] += 1

    def broken_text(self, fault: str) -> bool:
        """Send what is no JSON, or return False."""
        texts = {
            "broken_json": b'{"choices": [{"message": ',
            "html": b"<!DOCTYPE html><html><body>It works!</body></html>",
            "not_utf8": b'{"choices": "\xff\xfe"}',
            "empty_body": b"",
            "huge": b'{"choices": "' + b"x" * 12_000_000 + b'"}' if fault == "huge" else b"",
        }
        if fault not in texts:
            return False
        self.write(200, texts[fault], {"Content-Type": "text/html" if fault == "html" else "application/json"})
        return True

    def broken_status(self, fault: str) -> bool:
        """Send an error of the server, or return False."""
        judge = self.judge
        if fault == "429":
            self.error(429, "Rate limit reached.", {"Retry-After": str(judge.retry_after)})
        elif fault == "429_reset":
            limits = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{judge.retry_after}s"}
            self.error(429, "Rate limit reached.", limits)
        elif fault == "too_long":
            self.error(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.")
        elif fault == "bad":
            self.error(400, "The content of this request cannot be worked on.")
        elif fault == "moved":
            self.error(307, "Moved", {"Location": "http://198.51.100.1/v1/chat/completions"})
        elif fault.isdigit():
            self.error(int(fault), "Scripted error.")
        else:
            return False
        return True

    def broken_body(self, fault: str, data: bytes) -> bool:
        """Send a part of a reply, or all of it slowly, or return False."""
        half = data[: len(data) // 2]
        whole = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        chunked = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        if fault in {"drop_after_headers", "cut_body"}:
            self.transport.write(head_of(200, whole) + (half if fault == "cut_body" else b""))
            self.transport.close()
        elif fault in {"cut_chunked", "unclosed"}:
            self.transport.write(head_of(200, chunked) + f"{len(half):x}\r\n".encode() + half + b"\r\n")
            if fault == "cut_chunked":
                self.transport.close()
        elif fault == "trickle":
            self.transport.write(head_of(200, whole))
            for index in range(len(data)):
                self.loop.call_later(0.02 * index, self.transport.write, data[index : index + 1])
        else:
            return False
        return True

    def error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Send an error as servers do."""
        message = f"{message} {self.judge.aside}".rstrip()
        self.send(status, {"error": {"message": message, "type": "scripted", "code": status}}, headers)

    def send(self, status: int, reply: Any, headers: Mapping[str, str] | None = None) -> None:
        """Send JSON."""
        self.write(status, json.dumps(reply).encode(), {"Content-Type": "application/json", **(headers or {})})

    def write(self, status: int, data: bytes, headers: Mapping[str, str], copies: int = 1) -> None:
        """Send a whole reply."""
        every = {**headers, **self.judge.headers, "Content-Length": str(len(data))}
        self.transport.write((head_of(status, every) + data) * copies)


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description="A scripted judge; its file says what faults there are.")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one (default)")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=PROBABILITY")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rule", choices=("grade", "choice", "first"), default="grade")
    parser.add_argument("--retry-after", default="0.2")
    parser.add_argument("--model", action="append", help="a name for /v1/models (default: scripted)")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--no-logprobs", action="store_true")
    parser.add_argument("--no-tokenize", action="store_true")
    parser.add_argument("--log", type=Path)
    args = parser.parse_args()
    pairs = (fault.partition("=") for fault in args.fault)
    judge = ScriptedJudge(
        latency=args.latency,
        faults={name: float(probability or 1) for name, _, probability in pairs},
        seed=args.seed,
        rule=args.rule,
        retry_after=args.retry_after,
        models=args.model or ("scripted",),
        context=args.context,
        logprobs=not args.no_logprobs,
        tokenize=not args.no_tokenize,
        keep=0,
        log=args.log,
        port=args.port,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(judge.serve(lambda: print(judge.base_url, flush=True)))


if __name__ == "__main__":
    main()
