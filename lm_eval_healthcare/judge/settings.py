"""How a judge is asked: the published settings or reproducible ones, and what the signature of its scores says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from lm_eval_healthcare.judge.errors import JudgeError

CUT, SKIP, FAIL = "cut", "skip", "fail"
TOO_LONG = (CUT, SKIP, FAIL)
PAPER, REPRODUCIBLE = "paper", "reproducible"
_SEEDS = 2**31


@dataclass(frozen=True)
class Sampling:
    """How the judge's text is drawn.

    Attributes:
        temperature: 0 for the likeliest token at every place.
        top_p: Share of the probability from which tokens are drawn.
        repetition_penalty: 1 for none.
        max_tokens: Most tokens of a verdict with its feedback.
    """

    temperature: float = 1.0
    top_p: float = 0.9
    repetition_penalty: float = 1.03
    max_tokens: int = 1024

    @property
    def greedy(self) -> bool:
        """Whether the same request gives the same text again."""
        return self.temperature == 0


@dataclass(frozen=True)
class Settings:
    """Everything about asking that does not depend on the back end.

    Attributes:
        preset: The name of the preset that the settings began with.
        sampling: How texts are drawn.
        attempts: How often an answer is shown to the judge until it gives a verdict, each time with another seed; a
            greedy judge is asked once.
        samples: Verdicts for each answer; its score is their mean.
        seed: What the seeds of all requests are made from.
        too_long: What happens to an answer with which the prompt does not fit into the judge's context: its end is
            `cut`; it is left out, `skip`; or the command ends before it begins, `fail`.
        failure_limit: Share of the answers that were shown to the judge and have no verdict, above which the mean over
            the others is marked as unusable.
    """

    preset: str = PAPER
    sampling: Sampling = Sampling()
    attempts: int = 10
    samples: int = 1
    seed: int = 0
    too_long: str = CUT
    failure_limit: float = 0.05

    def __post_init__(self) -> None:
        """Refuse values that make no sense.

        Raises:
            JudgeError: If there is one.
        """
        s = self.sampling
        for name, value, allowed, right in (
            ("temperature", s.temperature, "a number from 0 to 5", 0 <= s.temperature <= 5),
            ("top_p", s.top_p, "a number above 0, at most 1", 0 < s.top_p <= 1),
            ("repetition_penalty", s.repetition_penalty, "a number above 0, at most 2", 0 < s.repetition_penalty <= 2),
            ("max_tokens", s.max_tokens, "a whole number from 1", s.max_tokens >= 1),
            ("attempts", self.attempts, "a whole number from 1 to 100", 1 <= self.attempts <= 100),
            ("samples", self.samples, "a whole number from 1 to 1000", 1 <= self.samples <= 1000),
            ("failure_limit", self.failure_limit, "a share from 0 to 1", 0 <= self.failure_limit <= 1),
            ("too_long", self.too_long, f"one of {', '.join(TOO_LONG)}", self.too_long in TOO_LONG),
        ):
            if not right:
                raise JudgeError(f"the judge's {name} is {value}; expected {allowed}")
        if s.greedy and self.samples > 1:
            raise JudgeError(
                f"{self.samples} verdicts an answer are asked for, but at temperature 0 they are all the same; "
                "give a temperature above 0, or 1 sample"
            )

    @property
    def tries(self) -> int:
        """How often an answer is shown to the judge until it gives a verdict."""
        return 1 if self.sampling.greedy else self.attempts

    @classmethod
    def of(cls, preset: str = PAPER, **changes: object) -> Settings:
        """Return a preset with changes; those that are None change nothing.

        Args:
            preset: `paper`: temperature 1.0, top_p 0.9, repetition penalty 1.03, 1,024 tokens, up to 10 attempts.
                `reproducible`: greedy, no repetition penalty, one attempt.
            **changes: Values of attributes of this class or of `Sampling`.

        Raises:
            JudgeError: If the preset is unknown or a value makes no sense.
        """
        if preset not in PRESETS:
            raise JudgeError(f"judge preset '{preset}': expected one of {', '.join(PRESETS)}")
        given = {name: value for name, value in changes.items() if value is not None}
        of_sampling = {name: given.pop(name) for name in list(given) if name in Sampling.__dataclass_fields__}
        base = PRESETS[preset]
        return replace(base, sampling=replace(base.sampling, **of_sampling), **given)  # type: ignore[arg-type]

    def seed_of(self, key: bytes, sample: int, attempt: int) -> int:
        """Return the seed of one request, from 0 to 2**31 - 1; the same content has the same one in every run."""
        text = f"{self.seed}|{key.hex()}|{sample}|{attempt}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SEEDS

    def reply_signature(self, judge_model: str) -> str:
        """Return what one text of a judge depends on beside its prompt, its sample and its attempt.

        Args:
            judge_model: The judge's name, with its revision where that is known.
        """
        s = self.sampling
        return (
            f"judge:{judge_model}|temperature:{s.temperature:g}|top_p:{s.top_p:g}|"
            f"repetition_penalty:{s.repetition_penalty:g}|max_tokens:{s.max_tokens}|seed:{self.seed}"
        )

    def signature(self, judge_model: str, wording: str, rubric: str) -> str:
        """Return what scores depend on: equal signatures mean comparable scores.

        Args:
            judge_model: The judge's name, with its revision where that is known.
            wording: Name and digest of the wording.
            rubric: Name and digest of the rubric.
        """
        return (
            f"prometheus|{self.reply_signature(judge_model)}|wording:{wording}|rubric:{rubric}|attempts:{self.tries}|"
            f"samples:{self.samples}|too_long:{self.too_long}|version:1"
        )


PRESETS = {
    PAPER: Settings(),
    REPRODUCIBLE: Settings(
        preset=REPRODUCIBLE, sampling=Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.0), attempts=1
    ),
}
