"""Back ends and requests with which tests ask the scripted server."""

from __future__ import annotations

from typing import Any

from lm_eval_healthcare.judge.backends.base import Ask, Reply
from lm_eval_healthcare.judge.backends.openai import OpenAIBackend
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.settings import Sampling
from scripted_server import ScriptedJudge, grade

PLAIN = Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.0, max_tokens=64)


def ask(number: int, text: str | None = None, system: str | None = None) -> Ask:
    messages = [Message("system", system)] if system else []
    return Ask(number, Prompt((*messages, Message("user", text or f"case {number}."))), seed=1000 + number)


def backend(server: ScriptedJudge | str, **options: Any) -> OpenAIBackend:
    url = server if isinstance(server, str) else server.base_url
    return OpenAIBackend(base_url=url, **{"first_wait": 0.01, "timeout": 5, "concurrency": 8, **options})


def judged(server: ScriptedJudge | str, n: int = 1, sampling: Sampling = PLAIN, **options: Any) -> list[Reply]:
    with backend(server, **options) as judge:
        return sorted(judge.replies((ask(i) for i in range(n)), sampling), key=lambda reply: reply.number)


def assert_own_verdicts(replies: list[Reply]) -> None:
    """Every reply is that to its own request, by the rule of the server."""
    for reply in replies:
        assert reply.text == f"Feedback: Scripted. [RESULT] {grade(f'case {reply.number}.')}", reply
