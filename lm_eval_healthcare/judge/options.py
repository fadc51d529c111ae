"""What a user may say about a judge: in a run `--metadata judge_NAME=VALUE`, afterwards `--NAME VALUE`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.settings import PAPER, PRESETS, TOO_LONG, Settings

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.base import Backend

AUTO, OPENAI, VLLM, HF = "auto", "openai", "vllm", "hf"
BACKENDS = (AUTO, VLLM, OPENAI, HF)


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        help: What it is, for `--help`.
        read: Makes the value from a text.
        expected: What a text must be, for errors.
        values: The allowed values, if there are only some.
        metavar: What stands for the value in `--help`.
    """

    help: str
    read: Callable[[str], Any] = str
    expected: str = "a text"
    values: tuple[str, ...] = ()
    metavar: str | None = None


def _arguments(text: str) -> dict[str, Any]:
    """Read `name=value,name=value`; values are numbers, booleans or texts."""
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise ValueError(part)
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_WHOLE = "a whole number"
_NUMBER = "a number"
OPTIONS: Mapping[str, Option] = {
    "backend": Option(
        "vllm or hf: in this process; openai: any OpenAI-compatible server (default: openai if there is a base URL, "
        "else vllm if it is installed, else hf)", values=BACKENDS,
    ),
    "base_url": Option("the server, such as http://127.0.0.1:8000/v1", metavar="URL"),
    "api_key_env": Option(
        "the environment variable that holds the server's key (default: OPENAI_API_KEY)", metavar="NAME"
    ),
    "concurrency": Option("requests at once (default: 32)", int, _WHOLE, metavar="N"),
    "timeout": Option("seconds that a request may take (default: 120)", float, _NUMBER, metavar="SECONDS"),
    "retries": Option("times that a failed request is sent again (default: 6)", int, _WHOLE, metavar="N"),
    "tokenizer": Option("a folder with the judge's tokenizer, to count tokens for a server", metavar="DIR"),
    "context": Option("the judge's context in tokens, where the server does not say it", int, _WHOLE, metavar="N"),
    "args": Option(
        "arguments of the engine, such as dtype=bfloat16,gpu_memory_utilization=0.5 (vllm) or dtype=float32 (hf)",
        _arguments, "name=value,name=value", metavar="K=V,...",
    ),
    "device": Option("where an hf judge runs: auto, cpu, cuda, cuda:N (default: auto)", metavar="DEVICE"),
    "wording": Option(
        "auto, pack (this package's words), prometheus (the words that Prometheus was trained on, from the installed "
        "prometheus-eval) or a template file (default: auto: prometheus for a judge of that name, else pack)",
        metavar="NAME|FILE",
    ),
    "rubric": Option(
        "auto (each task's own), the name of a packaged rubric, or a file (default: auto)", metavar="NAME|FILE"
    ),
    "preset": Option(
        "paper: temperature 1, top_p 0.9, repetition penalty 1.03, up to 10 attempts; reproducible: greedy, one "
        "attempt (default: paper)", values=tuple(PRESETS),
    ),
    "temperature": Option("temperature, in place of the preset's", float, _NUMBER, metavar="T"),
    "top_p": Option("top_p, in place of the preset's", float, _NUMBER, metavar="P"),
    "repetition_penalty": Option("repetition penalty, in place of the preset's", float, _NUMBER, metavar="R"),
    "max_tokens": Option("most tokens of a verdict with its feedback (default: 1024)", int, _WHOLE, metavar="N"),
    "attempts": Option("times that an answer is shown until there is a verdict", int, _WHOLE, metavar="N"),
    "samples": Option("verdicts for each answer, whose mean is its score (default: 1)", int, _WHOLE, metavar="N"),
    "seed": Option("the seed from which those of all requests are made (default: 0)", int, _WHOLE, metavar="N"),
    "too_long": Option(
        "what happens to an answer that does not fit into the judge's context with its question, reference and rubric, "
        "which are never cut: cut its end, skip it, or fail before the first is judged (default: cut)", values=TOO_LONG,
    ),
    "failure_limit": Option(
        "share of answers without a verdict above which the mean is marked as unusable (default: 0.05)",
        float, _NUMBER, metavar="SHARE",
    ),
}  # fmt: skip
OF_SETTINGS = (
    "temperature", "top_p", "repetition_penalty", "max_tokens", "attempts", "samples", "seed", "too_long",
    "failure_limit",
)  # fmt: skip


@dataclass(frozen=True)
class JudgeOptions:
    """Everything that was said about judges, checked.

    Attributes:
        models: The judges by name or folder; a server with a single model needs none.
        settings: How they are asked.
    """

    models: tuple[str, ...] = ()
    backend: str = AUTO
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 32
    timeout: float = 120.0
    retries: int = 6
    tokenizer: str | None = None
    context: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    device: str = AUTO
    wording: str = AUTO
    rubric: str = AUTO
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, models: tuple[str, ...], given: Mapping[str, Any]) -> JudgeOptions:
        """Check what was said.

        Args:
            models: The judges.
            given: Options by name, as texts or as values; those that are None were not given.

        Raises:
            JudgeError: If a value cannot be used.
        """
        if any(not model.strip() for model in models):
            raise JudgeError("a judge without a name was given; name a folder, a hub id, or a server's model")
        values = {name: _read(name, value) for name, value in given.items() if value is not None}
        of_settings = {name: values.pop(name) for name in OF_SETTINGS if name in values}
        settings = Settings.of(values.pop("preset", PAPER), **of_settings)
        known = {one.name for one in fields(cls)}
        options = cls(
            models=models, settings=settings, **{name: value for name, value in values.items() if name in known}
        )
        options._refuse_nonsense()
        return options

    def _refuse_nonsense(self) -> None:
        for name, value in (("concurrency", self.concurrency), ("context", self.context), ("timeout", self.timeout)):
            if value is not None and value <= 0:
                raise JudgeError(f"the judge's {name} is {value}; expected a number above 0")
        if self.retries < 0:
            raise JudgeError(f"the judge's retries are {self.retries}; expected 0 or more")
        if self.base_url is not None and not re.match(r"https?://[^/\s]", self.base_url, re.IGNORECASE):
            shown = self.base_url.rpartition("@")[2]  # what stands before it may be a password
            raise JudgeError(f"the judge's base URL is '{shown}'; expected one like http://127.0.0.1:8000/v1")
        if self.base_url is not None and self.kind != OPENAI:
            raise JudgeError(f"a base URL goes with the back end openai, not with {self.kind}; leave one of them out")
        if self.kind == OPENAI and self.base_url is None:
            raise JudgeError("the back end openai needs the server's address: --base-url http://127.0.0.1:8000/v1")
        if self.kind != OPENAI and not self.models:
            raise JudgeError("no judge is named: --judge-model with a folder or a hub id (in a run: judge=...)")

    @property
    def kind(self) -> str:
        """The back end, with `auto` decided."""
        if self.backend != AUTO:
            return self.backend
        if self.base_url is not None:
            return OPENAI
        return VLLM if importlib.util.find_spec("vllm") is not None else HF

    def open(self, model: str | None) -> Backend:
        """Return the back end of one judge, which is yet to be started.

        Args:
            model: One of `models`; None for a server's only one.
        """
        if self.kind == OPENAI:
            from lm_eval_healthcare.judge.backends.openai import OpenAIBackend

            return OpenAIBackend(
                base_url=str(self.base_url), model=model, api_key_env=self.api_key_env,
                concurrency=self.concurrency, timeout=self.timeout, retries=self.retries, tokenizer=self.tokenizer,
                context=self.context,
            )  # fmt: skip
        if self.kind == VLLM:
            from lm_eval_healthcare.judge.backends.vllm import VLLMBackend

            return VLLMBackend(model=str(model), args=self.args)
        from lm_eval_healthcare.judge.backends.hf import HFBackend

        return HFBackend(model=str(model), device=self.device, args=self.args)


def _read(name: str, value: Any) -> Any:
    option = OPTIONS[name]
    if not isinstance(value, str):
        return value
    try:
        found = option.read(value)
    except ValueError as error:
        raise JudgeError(f"the judge's {name} is '{value}'; expected {option.expected}") from error
    if option.values and found not in option.values:
        raise JudgeError(f"the judge's {name} is '{value}'; expected one of {', '.join(option.values)}")
    return found
