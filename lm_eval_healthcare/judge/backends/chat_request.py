"""What a chat completion is asked with, and what is left out for servers that do not know all of it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval_healthcare.judge.backends.base import TOP, Ask
from lm_eval_healthcare.judge.backends.http_loop import Gone
from lm_eval_healthcare.judge.prompt import Message
from lm_eval_healthcare.judge.settings import Sampling

logger = logging.getLogger(__name__)

FEW = 5
"""Log-probabilities at each place, asked for where `TOP` are too many; enough for a scale of five."""
MAX_TOKENS, LOGPROBS, SEED, SYSTEM = "max_tokens", "logprobs", "seed", "system"
PENALTY = "repetition_penalty"
_REMEDIES = {
    PENALTY: "it is an extension of vLLM and a few others; choose repetition_penalty=1",
    "temperature": "choose the temperature that the server allows, mostly temperature=1",
    "top_p": "choose top_p=1",
}
_NAMES = {
    LOGPROBS: re.compile(r"\b(top_)?log_?probs\b"),
    PENALTY: re.compile(r"\brepetition_penalty\b"),
    MAX_TOKENS: re.compile(r"\bmax_(completion_)?tokens\b"),
    "temperature": re.compile(r"\btemperature\b"),
    "top_p": re.compile(r"\btop_p\b"),
    SEED: re.compile(
        r"[\"'`]seed[\"'`]|\bseed\b(?=[\s\"'`]*(is|parameter|not)\b)|(parameter|argument|supplied):? *seed\b"
    ),
    SYSTEM: re.compile(r"\bsystem[\"'`]? (role|message|prompt)|\broles?\b.*\b(alternate|supported|user)\b"),
}
_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|unsupported|unknown|unexpected|extra (inputs|fields)|not (support|permit|allow|valid|available)|"
    r"invalid|does(n't| not) support|only .* supported|must (be|alternate)|less than or equal|at most|greater than|"
    r"cannot|exceeds?|too large"
)


@dataclass(frozen=True)
class Dialect:
    """What a server understands; the first one is tried first.

    Attributes:
        length: The name of the most tokens: `max_tokens`, or `max_completion_tokens`.
        top: Log-probabilities at each place; 0 for none.
        seed: Whether seeds are sent.
        system: Whether a system message is its own; else it begins the user's message.
    """

    length: str = MAX_TOKENS
    top: int = TOP
    seed: bool = True
    system: bool = True

    def body(self, model: str, ask: Ask, sampling: Sampling) -> bytes:
        """Return the JSON of a request."""
        fields: dict[str, Any] = {
            "model": model,
            "messages": turns(ask.prompt.messages, self.system),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self.length: sampling.max_tokens,
        }
        if self.seed:
            fields["seed"] = ask.seed
        if sampling.repetition_penalty != 1:
            fields[PENALTY] = sampling.repetition_penalty
        if self.top:
            fields |= {"logprobs": True, "top_logprobs": self.top}
        return json.dumps(fields).encode()

    def without(self, name: str) -> Dialect | None:
        """Return the dialect of a server that refused a parameter; None if there is no other."""
        if name == MAX_TOKENS and self.length == MAX_TOKENS:
            return replace(self, length="max_completion_tokens")
        if name == LOGPROBS and self.top:
            fewer = replace(self, top=FEW if self.top > FEW else 0)
            if not fewer.top:
                logger.warning("the judge's server gives no log-probabilities: there will be no expected scores")
            return fewer
        if name == SEED and self.seed:
            logger.warning("the judge's server knows no seeds: another run will not give the same verdicts")
            return replace(self, seed=False)
        if name == SYSTEM and self.system:
            return replace(self, system=False)
        return None


def turns(messages: Sequence[Message], system: bool = True) -> list[dict[str, str]]:
    """Return messages as servers and chat templates take them.

    Args:
        messages: The turns of a prompt.
        system: Whether a system message may stand; else it begins the next one, on a line of its own.
    """
    if system or len(messages) < 2 or messages[0].role != "system":
        return [{"role": message.role, "content": message.content} for message in messages]
    first, second, *rest = messages
    return turns([Message(second.role, f"{first.content}\n{second.content}"), *rest])


class Understanding:
    """What a server turned out to understand, learned from what it refused; for one event loop.

    Attributes:
        dialect: How it is asked.
        proven: Whether it has answered; then it knows all that it is sent, and what it refuses is a request's content.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Begin with a dialect."""
        self.dialect, self.proven = dialect, False

    def learn(self, spoken: Dialect, message: str, parameter: object) -> bool:
        """Learn from a refusal; return whether to ask again.

        Args:
            spoken: The dialect of the request.
            message: What the server said.
            parameter: The `param` of its error, if there is one.

        Raises:
            Gone: If what it refuses cannot be left out.
        """
        if self.dialect != spoken:
            return True
        name = None if self.proven else refused_parameter(message, parameter)
        if name is None:
            return False
        other = spoken.without(name)
        if other is None:
            raise Gone(f"it does not take {name} ({message}); {remedy(name)}")
        self.dialect = other
        return True


def refused_parameter(message: str, parameter: object = None) -> str | None:
    """Return which of our parameters a server refuses: a key of the table above, or None.

    Args:
        message: What it said.
        parameter: The `param` of its error, if there is one.
    """
    if isinstance(parameter, str):
        for name, pattern in _NAMES.items():
            if parameter == name or (name != SYSTEM and pattern.fullmatch(parameter)):
                return name
    text = message.lower()
    if not _UNKNOWN.search(text):
        return None
    return next((name for name, pattern in _NAMES.items() if pattern.search(text)), None)


def remedy(name: str) -> str:
    """Return what a user can do about a parameter that a server refuses."""
    return _REMEDIES.get(name, "choose another server or model")
