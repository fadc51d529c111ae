"""How rewordings are drawn, and which of them fail the command."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.judge.settings import Sampling

PAPER = "paper"
CHECKS = 1
"""Which checks are meant: raised when others turn rewordings down, so that results tell them apart."""
_SEEDS = 2**31
_FEWEST, _MOST = 64, 1024


class RephraseError(UserError, ValueError):
    """Rewordings cannot be had as asked for; the message says what to do."""


@dataclass(frozen=True)
class RewordingSettings:
    """Everything about rewordings that does not depend on where the model runs.

    Attributes:
        preset: The name of the preset that the settings began with.
        n: Rewordings of each answer.
        temperature: 0 for the likeliest token at every place, which gives one rewording only.
        top_p: Share of the probability from which tokens are drawn.
        repetition_penalty: 1 for none.
        max_tokens: Most tokens of a rewording; None: as many as a rewording of at most twice the length may need, and
            at most 1,024.
        attempts: How often each rewording is drawn until one is acceptable, each time with another seed.
        seed: What the seeds of all requests are made from.
        failure_limit: Share of the rewordings that may be missing.
    """

    preset: str = PAPER
    n: int = 6
    temperature: float = 1.0
    top_p: float = 0.9
    repetition_penalty: float = 1.0
    max_tokens: int | None = None
    attempts: int = 5
    seed: int = 0
    failure_limit: float = 0.5

    def __post_init__(self) -> None:
        """Refuse values that make no sense.

        Raises:
            RephraseError: If there is one.
        """
        for name, value, allowed, right in (
            ("n", self.n, "a whole number from 1 to 100", 1 <= self.n <= 100),
            ("temperature", self.temperature, "a number from 0 to 5", 0 <= self.temperature <= 5),
            ("top_p", self.top_p, "a number above 0, at most 1", 0 < self.top_p <= 1),
            ("repetition_penalty", self.repetition_penalty, "a number above 0, at most 2",
             0 < self.repetition_penalty <= 2),
            ("max_tokens", self.max_tokens, "a whole number from 1", self.max_tokens is None or self.max_tokens >= 1),
            ("attempts", self.attempts, "a whole number from 1 to 100", 1 <= self.attempts <= 100),
            ("failure_limit", self.failure_limit, "a share from 0 to 1", 0 <= self.failure_limit <= 1),
        ):  # fmt: skip
            if not right:
                raise RephraseError(f"--{name.replace('_', '-')} is {value}; expected {allowed}")
        if self.temperature == 0 and self.n > 1:
            raise RephraseError(
                f"{self.n} rewordings of each answer are asked for, but at temperature 0 they are all the same; give "
                "a temperature above 0, or --n 1"
            )

    @classmethod
    def of(cls, preset: str = PAPER, **changes: object) -> RewordingSettings:
        """Return a preset with changes; those that are None change nothing.

        Args:
            preset: `paper`: 6 rewordings, and the settings of the paper's other repeated generations, temperature 1.0
                and top_p 0.9, since the paper does not say with which ones it had answers reworded.
            **changes: Values of attributes.

        Raises:
            RephraseError: If the preset is unknown or a value makes no sense.
        """
        if preset not in PRESETS:
            raise RephraseError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(PRESETS[preset], **given)  # type: ignore[arg-type]

    @property
    def tries(self) -> int:
        """How often each rewording is drawn at most; the same request at temperature 0 gives the same text."""
        return 1 if self.temperature == 0 else self.attempts

    @property
    def longest(self) -> int:
        """Most tokens that any rewording may have."""
        return self.max_tokens or _MOST

    def tokens_for(self, answer: str) -> int:
        """Return the most tokens that the rewording of an answer may have: a power of two, if the user gave none.

        A token stands for two bytes at least in nearly every text, so there is room for twice the length.
        """
        if self.max_tokens is not None:
            return self.max_tokens
        size = len(answer.encode("utf-8", "surrogatepass")) + _FEWEST // 2
        return min(_MOST, max(_FEWEST, 1 << (size - 1).bit_length()))

    def sampling(self, max_tokens: int) -> Sampling:
        """Return how texts of at most so many tokens are drawn."""
        return Sampling(self.temperature, self.top_p, self.repetition_penalty, max_tokens)

    def seed_of(self, key: bytes, version: int, attempt: int) -> int:
        """Return the seed of one request, from 0 to 2**31 - 1; the same content has the same one in every run."""
        text = f"rewording|{self.seed}|{key.hex()}|{version}|{attempt}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SEEDS

    def reply_signature(self, model: str, max_tokens: int | str) -> str:
        """Return what a text depends on beside its prompt, its version and its attempt."""
        return (
            f"rephrase|model:{model}|temperature:{self.temperature:g}|top_p:{self.top_p:g}|"
            f"repetition_penalty:{self.repetition_penalty:g}|max_tokens:{max_tokens}|seed:{self.seed}"
        )

    def signature(self, model: str, instruction: str) -> str:
        """Return what a set of rewordings depends on.

        Args:
            model: The model's name, with its revision or content where that is known.
            instruction: Name and digest of the instruction.
        """
        return (
            f"{self.reply_signature(model, self.max_tokens or 'auto')}|instruction:{instruction}|n:{self.n}|"
            f"attempts:{self.tries}|checks:{CHECKS}"
        )


PRESETS = {PAPER: RewordingSettings()}
