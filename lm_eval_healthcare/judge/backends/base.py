"""What every back end offers: take prompts, give texts back as they come, and say truthfully what failed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lm_eval_healthcare.judge.prompt import Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import Sampling

LAST_TOKENS = 64
"""So many of a text's last tokens have their log-probabilities kept; a verdict stands at the end."""
TOP = 20
"""Log-probabilities of so many of the likeliest tokens are asked for at each place; servers allow no more."""


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        number: By which the reply is known; unique among the requests of one call.
        prompt: What is asked.
        seed: The seed of its text.
    """

    number: int
    prompt: Prompt
    seed: int


@dataclass(frozen=True)
class Token:
    """One token of a text.

    Attributes:
        text: What it adds to the text.
        top: Natural log-probabilities of the likeliest tokens at its place, by their texts; equal texts are added up.
    """

    text: str
    top: Mapping[str, float]


@dataclass(frozen=True)
class Reply:
    """What came of one request.

    Attributes:
        number: That of the request.
        text: What the judge wrote, which may be empty; None if there is none.
        reason: Why there is none: `NO_REPLY`, `TOO_LONG` or `REFUSED`.
        detail: The same in words, for people.
        finish: `stop` if the judge ended its text, `length` if it was cut at the most tokens.
        tokens: The text's last tokens, up to `LAST_TOKENS`; empty where the back end gives no log-probabilities.
        prompt_tokens: Tokens of the prompt, if known.
        completion_tokens: Tokens of the text, if known.
    """

    number: int
    text: str | None
    reason: Reason | None = None
    detail: str = ""
    finish: str | None = None
    tokens: tuple[Token, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Backend(ABC):
    """Where a judge runs. Use it as a context manager, or `start` it and `close` it.

    Attributes:
        name: `vllm`, `openai` or `hf`.
        model: The judge's name: a hub id with its revision, a folder's kind and content, or the name that a server
            knows it by.
        context: Most tokens of a prompt and its text together; None if it is not known. Set by `start`.
        remote: Whether texts leave this machine and network.
        counters: How many threads may `count` at the same time, where that saves waiting.
        facts: What results say of the back end and nothing depends on: versions, precision, address without secrets.
    """

    name: ClassVar[str]
    model: str
    context: int | None = None
    remote: bool = False
    counters: int = 1

    @property
    def identity(self) -> str:
        """The judge's name as signatures and the store of its texts have it; known once it has been started."""
        return self.model

    @property
    def facts(self) -> dict[str, object]:
        """What results say of the back end beside its model."""
        return {"backend": self.name}

    def check(self) -> None:
        """See whether the judge can be used, without loading it.

        Raises:
            lm_eval_healthcare.judge.errors.JudgeError: If it cannot.
        """
        self.start()
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Load the model, or see whether the server answers and knows it.

        Raises:
            lm_eval_healthcare.judge.errors.JudgeError: If the judge cannot be used.
        """

    @abstractmethod
    def count(self, prompt: Prompt) -> int | None:
        """Return the number of tokens of a prompt, those of the chat template included; None if it is not known."""

    @abstractmethod
    def replies(self, asks: Iterable[Ask], sampling: Sampling) -> Iterator[Reply]:
        """Yield the reply to every request, each as soon as it is there, in any order.

        Requests are taken from `asks` only as fast as they can be worked on, so that any number of them needs bounded
        memory. What fails for one request is its reply; only what makes all further requests useless is raised.

        Raises:
            lm_eval_healthcare.judge.errors.JudgeError: If the judge has gone for good.
        """

    @abstractmethod
    def close(self) -> None:
        """Free everything that `start` took, the model's memory first of all; calling it again does nothing."""

    def __enter__(self) -> Backend:
        """Start."""
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()
