"""The ways in which vLLM can be asked for log P(target | question, prefix), and what each of them costs.

All of them ask for the same sum; they differ in how much of question and prefix the engine computes again.

`prompt_ids`
    The log-probability of one token in each row of the prompt that predicts the target. Question and prefix come from
    the prefix cache, and only the target goes through the output layer. Needs vLLM's newer model runner.
`trace`
    The target is decoded, by vLLM's own replay of given tokens. Needs the engine's argument `enable_trace_replay`.
`forced`
    The target is decoded, made to by the logits processor of `vllm_forced`, which the engine was started with.
`cached`
    The log-probabilities of the prompt, read from the prefix cache although vLLM would not by itself: rows that lie in
    cached blocks then hold no values, but what the memory held before. An answer counts only if vLLM says that fewer
    tokens were cached than lie before the first row that is read. Needs vLLM's older model runner.
`plain`
    The log-probabilities of the prompt, for which vLLM computes all of it. Needs nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.relaxed_perplexity.engines.base import CLAMPED
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import FORCED, LOGITS_PROCESSOR
from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens

Request = tuple[Tokens, dict[str, Any]]
"""The tokens of a prompt, and keyword arguments of `vllm.SamplingParams`."""


@dataclass(frozen=True)
class Branch:
    """A target after a prefix.

    Attributes:
        prompt: The tokens of question and prefix.
        target: The tokens of the target.
        first: log P of the target's first token, where it is known already.
    """

    prompt: Tokens
    target: Tokens
    first: float | None = None

    @property
    def given(self) -> Tokens:
        """The tokens whose log-probabilities are not wanted: question, prefix, and a first token that is known."""
        return self.prompt if self.first is None else self.prompt + self.target[:1]

    @property
    def asked(self) -> Tokens:
        """The tokens whose log-probabilities are wanted."""
        return self.target if self.first is None else self.target[1:]

    @property
    def tokens(self) -> Tokens:
        """All tokens."""
        return self.prompt + self.target

    def value(self, rest: Sequence[float]) -> float:
        """Return log P of the target from the log-probabilities of the tokens asked about.

        Minus infinity if one of them has probability zero, for which vLLM writes minus infinity or a clamped value.
        """
        parts = [*([] if self.first is None else [self.first]), *rest]
        return -math.inf if any(part <= CLAMPED for part in parts) else math.fsum(parts)


@dataclass(frozen=True)
class Facts:
    """What an engine can do.

    Attributes:
        parameters: Names of the parameters of a request that the installed vLLM knows.
        new_runner: Whether the newer of vLLM's two model runners runs the model.
        trace: Whether it replays given tokens.
        forced: Whether it has the logits processor.
        block: Tokens of a block of the prefix cache; 0 without the cache.
        exact: Whether it computes in float32 or better.
    """

    parameters: frozenset[str]
    new_runner: bool
    trace: bool
    forced: bool
    block: int
    exact: bool

    @classmethod
    def of(cls, llm: Any) -> Facts:
        """Read them from a `vllm.LLM`.

        Raises:
            ValueError: If the engine was started so that its log-probabilities are not the model's own.
        """
        from vllm import SamplingParams

        config = llm.llm_engine.vllm_config
        model, cache = config.model_config, config.cache_config
        mode = getattr(model.logprobs_mode, "value", model.logprobs_mode)
        if mode != "raw_logprobs":
            raise ValueError(
                f"vLLM's logprobs_mode={mode}: Relaxed Perplexity needs the model's own log-probabilities; "
                f"start the engine with logprobs_mode=raw_logprobs, or without this argument"
            )
        return cls(
            parameters=frozenset(name for name in dir(SamplingParams) if not name.startswith("_")),
            new_runner=bool(getattr(config, "use_v2_model_runner", False)),
            trace=bool(getattr(model, "enable_trace_replay", False)),
            forced=any(_name(processor) == LOGITS_PROCESSOR for processor in model.logits_processors or ()),
            block=int(cache.block_size) if cache.enable_prefix_caching else 0,
            exact=any(name in str(model.dtype) for name in ("float32", "float64")),
        )

    def again(self, tokens: int) -> int:
        """Return how many of the first tokens of a prompt are computed again, where a longer one was computed before.

        The cache holds whole blocks, and at least one token of a prompt is always computed.
        """
        return (tokens - 1) % self.block + 1 if self.block else tokens


def _name(processor: Any) -> str:
    return processor if isinstance(processor, str) else f"{processor.__module__}:{processor.__qualname__}"


class Way(ABC):
    """A way of asking.

    Attributes:
        name: What it is called.
    """

    name: str

    @abstractmethod
    def missing(self, facts: Facts) -> str | None:
        """Return what the engine lacks for it, None if nothing."""

    @abstractmethod
    def request(self, branch: Branch) -> Request:
        """Return the request for a branch."""

    @abstractmethod
    def rest(self, branch: Branch, output: Any) -> list[float] | None:
        """Read the log-probabilities of the tokens asked about; None if the engine did not give all of them."""

    @abstractmethod
    def cost(self, branch: Branch, facts: Facts) -> float:
        """Return what a branch costs, in passes of one token through the model without its output layer."""

    def value(self, branch: Branch, output: Any) -> float | None:
        """Return log P of the target, None if the engine did not give all of it."""
        rest = self.rest(branch, output)
        if rest is None or len(rest) != len(branch.asked) or any(math.isnan(part) for part in rest):
            return None
        return branch.value(rest)


HEAD = 0.35
"""Cost of the output layer and of the log-probabilities over the vocabulary, for one token, where a pass through the
model is 1. Measured on a CPU with 135 million parameters and 49,152 tokens; less in larger models."""
DECODED = 1.9
"""Cost of one decoded token, its output layer included, where 80 requests are decoded beside each other; likewise."""


class Plain(Way):
    """Log-probabilities of the whole prompt, for which vLLM reads nothing from the prefix cache."""

    name = "plain"

    def missing(self, facts: Facts) -> str | None:
        """Return None: every version has it."""
        return None

    def request(self, branch: Branch) -> Request:
        """Ask for the log-probability of each token of the prompt, and for one generated token, the least there is."""
        return branch.tokens, {"prompt_logprobs": 0, "max_tokens": 1, "temperature": 0.0, "detokenize": False}

    def rest(self, branch: Branch, output: Any) -> list[float] | None:
        """Read the last rows; the first row of a prompt is None, since nothing comes before it."""
        rows = output.prompt_logprobs
        if rows is None or len(rows) != len(branch.tokens):
            return None
        return _read(branch.asked, (rows[place] for place in range(len(branch.given), len(branch.tokens))))

    def cost(self, branch: Branch, facts: Facts) -> float:
        """Every token goes through the model and through the output layer."""
        return len(branch.tokens) * (1 + HEAD)


class Cached(Plain):
    """Log-probabilities of the whole prompt, of which only those behind the cached blocks are there."""

    name = "cached"

    def missing(self, facts: Facts) -> str | None:
        """Return what the engine lacks."""
        if "skip_reading_prefix_cache" not in facts.parameters:
            return "a vLLM that knows skip_reading_prefix_cache"
        if not facts.block:
            return "the engine's argument enable_prefix_caching=True"
        return "vLLM's older model runner (VLLM_USE_V2_MODEL_RUNNER=0)" if facts.new_runner else None

    def request(self, branch: Branch) -> Request:
        """Ask as the plain way does, and let the cache be read."""
        tokens, params = super().request(branch)
        return tokens, {**params, "skip_reading_prefix_cache": False}

    def rest(self, branch: Branch, output: Any) -> list[float] | None:
        """Read the last rows, if the pass that predicts the first of them was not spared by the cache."""
        cached = output.num_cached_tokens
        return super().rest(branch, output) if cached is not None and cached < len(branch.given) else None

    def cost(self, branch: Branch, facts: Facts) -> float:
        """Whatever is computed goes through the output layer as well."""
        return (facts.again(len(branch.prompt) + 1) - 1 + len(branch.target)) * (1 + HEAD)


class PromptIds(Way):
    """Log-probabilities of chosen tokens at the last rows of the prompt; the rows before come from the prefix cache."""

    name = "prompt_ids"

    def missing(self, facts: Facts) -> str | None:
        """Return what the engine lacks."""
        wanted = {"prompt_logprob_token_ids", "prompt_logprob_start", "skip_reading_prefix_cache"}
        if not wanted <= facts.parameters:
            return "a vLLM that knows prompt_logprob_token_ids (0.32 or newer)"
        return None if facts.new_runner else "vLLM's newer model runner (VLLM_USE_V2_MODEL_RUNNER=1)"

    def request(self, branch: Branch) -> Request:
        """Ask for one token in each of the rows that predict the target.

        Where the first token is known, its own row is not asked for: that row may lie in a block that the cache holds,
        and vLLM then leaves the whole answer out.
        """
        return branch.tokens, {
            "prompt_logprob_token_ids": [[token] for token in branch.asked],
            "prompt_logprob_start": len(branch.given) - 1,
            "skip_reading_prefix_cache": False, "max_tokens": 1, "temperature": 0.0, "detokenize": False,
        }  # fmt: skip

    def rest(self, branch: Branch, output: Any) -> list[float] | None:
        """Read the rows."""
        rows = output.prompt_token_id_logprobs
        if rows is None or tuple(rows.shape) != (len(branch.asked), 1):
            return None
        return [float(value) for value in rows[:, 0]]

    def cost(self, branch: Branch, facts: Facts) -> float:
        """Only the target goes through the output layer."""
        again = facts.again(len(branch.prompt) + 1) - 1
        return again + len(branch.target) + HEAD * len(branch.asked)


class _Decoded(Way):
    """The target is decoded token by token, all branches beside each other."""

    def request(self, branch: Branch) -> Request:
        """Ask for as many tokens as the target has, the end-of-text token being one like any other."""
        return branch.given, {
            "max_tokens": len(branch.asked), "logprobs": 0, "temperature": 0.0, "ignore_eos": True,
            "detokenize": False, **self._target(list(branch.asked)),
        }  # fmt: skip

    @abstractmethod
    def _target(self, tokens: list[int]) -> dict[str, Any]:
        """Return the parameters that name the target."""

    def rest(self, branch: Branch, output: Any) -> list[float] | None:
        """Read the log-probabilities of the tokens, if they are the target's."""
        completion = output.outputs[0]
        if tuple(completion.token_ids) != branch.asked or completion.logprobs is None:
            return None
        return _read(branch.asked, completion.logprobs)

    def cost(self, branch: Branch, facts: Facts) -> float:
        """A decoded token costs more than one of a prompt."""
        return facts.again(len(branch.given)) + DECODED * len(branch.asked)


class Trace(_Decoded):
    """vLLM's own replay of given tokens."""

    name = "trace"

    def missing(self, facts: Facts) -> str | None:
        """Return what the engine lacks."""
        if "trace_decode_token_ids" not in facts.parameters:
            return "a vLLM that knows trace_decode_token_ids (0.32 or newer)"
        return None if facts.trace else "the engine's argument enable_trace_replay=True"

    def _target(self, tokens: list[int]) -> dict[str, Any]:
        return {"trace_decode_token_ids": tokens}


class Forced(_Decoded):
    """The logits processor of `vllm_forced`."""

    name = "forced"

    def missing(self, facts: Facts) -> str | None:
        """Return what the engine lacks."""
        return None if facts.forced else f"the engine's argument logits_processors=[{LOGITS_PROCESSOR!r}]"

    def _target(self, tokens: list[int]) -> dict[str, Any]:
        return {"extra_args": {FORCED: tokens}}


PLAIN = Plain()
WAYS: tuple[Way, ...] = (PromptIds(), Trace(), Forced(), Cached(), PLAIN)
"""The ways, the best first."""


def _read(tokens: Tokens, rows: Any) -> list[float] | None:
    """Return the log-probability of each token from vLLM's table of each row; None if one is not there."""
    values = []
    for token, row in zip(tokens, rows, strict=True):
        found = row.get(token) if row else None
        if found is None:
            return None
        values.append(float(getattr(found, "logprob", found)))
    return values


def log_prob_of(row: Any, token: int) -> float | None:
    """Return the log-probability of a token from vLLM's table of a row, minus infinity for a probability of zero."""
    found = _read((token,), [row])
    if found is None or math.isnan(found[0]):
        return None
    return -math.inf if found[0] <= CLAMPED else found[0]
