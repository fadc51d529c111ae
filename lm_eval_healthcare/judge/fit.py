"""Fitting prompts into a judge's context before it is asked: only an answer is ever cut, and it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_eval_healthcare.judge.cases import key_of
from lm_eval_healthcare.judge.errors import JudgeError

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.judge.cases import Case
    from lm_eval_healthcare.judge.prompt import Prompt, Wording

_OVERHEAD = 64  # tokens that a chat template may add
_BYTES_A_TOKEN = 3  # where nobody can count: rather too many tokens than too few
_NEARLY = 0.98


def room(backend: Backend, max_tokens: int) -> int | None:
    """Return the most tokens that a prompt may have beside a verdict; None if the context is not known.

    Raises:
        JudgeError: If a verdict of `max_tokens` leaves no room for a prompt.
    """
    if backend.context is None:
        return None
    left = backend.context - max_tokens
    if left < 1:
        raise JudgeError(
            f"a verdict of up to {max_tokens} tokens leaves no room in the context of {backend.model}, which is "
            f"{backend.context} tokens; give fewer with --max-tokens (in a run: judge_max_tokens)"
        )
    return left


@dataclass(frozen=True)
class Fitted:
    """How a case fits.

    Attributes:
        fits: Whether it can be asked.
        most: Characters to which its answers are cut; None: they are whole.
        key: The key of its prompt in the store.
        defused: Pieces of its answers that are written differently.
    """

    fits: bool
    most: int | None = None
    key: bytes = b""
    defused: int = 0


def fit(case: Case, wording: Wording, backend: Backend, most_tokens: int | None, may_cut: bool) -> Fitted:
    """Say how a case fits into the judge's context.

    Args:
        case: What is asked.
        wording: How.
        backend: Who counts tokens.
        most_tokens: Most tokens of the prompt, from `room`.
        may_cut: Whether the end of an answer may be left out.
    """
    whole = case.prompt(wording)
    if most_tokens is None or tokens_of(whole, backend, most_tokens) <= most_tokens:
        return Fitted(True, None, key_of(whole), whole.defused)

    def fits(most: int) -> bool:
        return tokens_of(case.prompt(wording, most), backend, most_tokens) <= most_tokens

    if not may_cut or case.longest < 2 or not fits(1):
        return Fitted(False)
    low, high = 1, case.longest  # `low` fits, `high` does not
    while low < _NEARLY * high and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    cut = case.prompt(wording, low)
    return Fitted(True, low, key_of(cut), cut.defused)


def tokens_of(prompt: Prompt, backend: Backend, enough: int) -> int:
    """Return the tokens of a prompt, or more where even that is at most `enough`, or where nobody counts.

    Every token but those of the chat template stands for a byte at least, so most prompts need not be counted.
    """
    size = sum(len(message.content.encode("utf-8", "surrogatepass")) for message in prompt.messages)
    if size + _OVERHEAD <= enough:
        return size + _OVERHEAD
    counted = backend.count(prompt)
    return counted if counted is not None else size // _BYTES_A_TOKEN + _OVERHEAD
