"""Time the client of a judge's server, and see whether 10,000 verdicts need more memory than 1,000.

The server is the scripted one of the tests, in a process of its own, with a fixed latency. With c requests at once and
a latency of s seconds no client can get more than c / s verdicts a second; rates are printed as shares of that. Every
client runs in a process of its own, and the clients take turns: `OpenAIBackend`, without and with log-probabilities,
and what one would otherwise use with the same concurrency: the harness's `local-chat-completions`, and the package
`openai` where it is installed. Prints rates, their ratios, processor time of the client for each verdict, and
its resident memory. Exits with 1 if the best round of `OpenAIBackend` stays below 85% of the ideal rate, or its memory
grows by 8 MB or more between the 1,000th and the last verdict.

The server needs a processor for itself beside the client's: on a machine that does other work, rates say little.

Example:
    python bench/judge.py --verdicts 10000 --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "tests" / "judge" / "scripted_server.py"
AIM, GROWTH = 0.85, 8.0
OURS, OURS_LOGPROBS, HARNESS, OPENAI = "ours", "ours, log-probabilities", "lm-eval local-chat-completions", "openai"
WORDS = 600
Mark = Callable[[int], None]
Cost = tuple[float, float]
"""Seconds of wall time and of processor time."""


def prompt(number: int) -> str:
    return f"Grade the answer of case {number}. " + "word " * WORDS


def megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def now() -> Cost:
    return time.perf_counter(), time.process_time()


def since(start: Cost) -> Cost:
    return time.perf_counter() - start[0], time.process_time() - start[1]


def ours(url: str, n: int, concurrency: int, logprobs: bool, mark: Mark) -> Cost:
    """Return what n verdicts cost; `mark` is told how many there are."""
    from lm_eval_healthcare.judge.backends.base import Ask
    from lm_eval_healthcare.judge.backends.openai import OpenAIBackend
    from lm_eval_healthcare.judge.prompt import Message, Prompt
    from lm_eval_healthcare.judge.settings import Settings

    def asks() -> Iterator[Ask]:
        for number in range(n):
            yield Ask(number, Prompt((Message("user", prompt(number)),)), seed=number)

    with OpenAIBackend(base_url=url, concurrency=concurrency, logprobs=logprobs) as backend:
        start, got = now(), 0
        for reply in backend.replies(asks(), Settings().sampling):
            assert reply.text
            got += 1
            mark(got)
        cost = since(start)
    assert got == n
    return cost


def harness(url: str, n: int, concurrency: int, mark: Mark) -> Cost:
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalChatCompletion

    model = LocalChatCompletion(base_url=f"{url}/chat/completions", model="scripted", num_concurrent=concurrency)
    options = {"until": [], "max_gen_toks": 1024, "temperature": 1.0}
    requests = [
        Instance(
            "generate_until", {}, (model.apply_chat_template([{"role": "user", "content": prompt(i)}]), options), i
        )
        for i in range(n)
    ]
    start = now()
    texts = model.generate_until(requests, disable_tqdm=True)
    cost = since(start)
    assert len(texts) == n
    assert all(texts)
    mark(n)
    return cost


def openai(url: str, n: int, concurrency: int, mark: Mark) -> Cost:
    from openai import AsyncOpenAI

    async def run() -> Cost:
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=6)
        numbers, got = iter(range(n)), 0

        async def worker() -> None:
            nonlocal got
            for number in numbers:
                reply = await client.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": prompt(number)}], max_tokens=1024,
                    temperature=1.0, top_p=0.9, seed=number,
                )  # fmt: skip
                assert reply.choices[0].message.content
                got += 1
                mark(got)

        start = now()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        return since(start)

    return asyncio.run(run())


def child(client: str, url: str, n: int, concurrency: int) -> None:
    """Run one client and print what it took, as JSON."""
    memory: dict[int, float] = {}

    def mark(got: int) -> None:
        if got in (1000, n):
            memory[got] = megabytes()

    if client == HARNESS:
        cost = harness(url, n, concurrency, mark)
    elif client == OPENAI:
        cost = openai(url, n, concurrency, mark)
    else:
        cost = ours(url, n, concurrency, client == OURS_LOGPROBS, mark)
    print(json.dumps({"rate": n / cost[0], "processor": cost[1] / n, "memory": memory}))


def measured(client: str, arguments: argparse.Namespace) -> dict:
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--latency", str(arguments.latency)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, __file__, "--client", client, "--url", url]
        command += ["--verdicts", str(arguments.verdicts), "--concurrency", str(arguments.concurrency)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    finally:
        server.kill()
        server.wait()
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdicts", type=int, default=10_000, help="for each client and round (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds (default: 0.05)")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        child(arguments.client, arguments.url, arguments.verdicts, arguments.concurrency)
        return
    clients = [OURS, OURS_LOGPROBS, HARNESS] + [OPENAI] * (importlib.util.find_spec("openai") is not None)
    found: dict[str, list[dict]] = {client: [] for client in clients}
    for _ in range(arguments.rounds):
        for client in clients:
            found[client].append(measured(client, arguments))
    ideal = arguments.concurrency / arguments.latency
    print(f"ideal rate: {arguments.concurrency} / {arguments.latency:g} s = {ideal:.0f} verdicts a second")
    best = {client: max(one["rate"] for one in rounds) for client, rounds in found.items()}
    for client, rounds in found.items():
        shares = ", ".join(f"{one['rate'] / ideal:.1%}" for one in rounds)
        processor = min(one["processor"] for one in rounds)
        memory = ", ".join(f"{mb:.1f} MB at {int(n):,}" for n, mb in rounds[-1]["memory"].items())
        print(f"{client:32s} {shares} of it; {processor * 1e6:.0f} us of processor a verdict; {memory}")
    print()
    for client in clients[2:]:
        print(f"rate of ours / {client}: {best[OURS] / best[client]:.2f}x")
    growth = 0.0
    for one in found[OURS] + found[OURS_LOGPROBS]:
        at = [mb for _, mb in sorted((int(n), mb) for n, mb in one["memory"].items())]
        growth = max(growth, at[-1] - at[0])
    print(
        f"best share: {best[OURS] / ideal:.1%} (aim {AIM:.0%}); most growth of memory: {growth:.1f} MB (limit {GROWTH})"
    )
    if best[OURS] < AIM * ideal or growth >= GROWTH:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
