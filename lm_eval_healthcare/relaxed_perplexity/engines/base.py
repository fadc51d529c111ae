"""What an engine does: sample completions of questions, and score targets after prefixes of them.

Engines differ in how they get there, never in the numbers: each value is log P(target | question, prefix), a sum over
the target's tokens of the model's own log-probabilities (no temperature, no truncation), the target's tokens following
the prefix's raw tokens. In float32 the values of all engines agree within 1e-4 nats with one forward pass a branch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_eval_healthcare.relaxed_perplexity.prefixes import Prefix, Sample, Tokens

if TYPE_CHECKING:
    import numpy as np

    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

CLAMPED = -9999.0
"""Some servers write this, or less, for the log-probability of a token that has none: its probability is zero."""


@dataclass(frozen=True)
class Question:
    """One document as an engine sees it.

    Attributes:
        tokens: The prompt's tokens, one at least; with `Settings.length` and the longest target it fits into the model.
        targets: The tokens of each target, one at least in each.
        seed: The seed of this document's samples.
    """

    tokens: Tokens
    targets: tuple[Tokens, ...]
    seed: int = 0


@dataclass(frozen=True)
class Job:
    """Branches to score: every target of a question after every prefix.

    Attributes:
        question: The question.
        samples: Its completions.
        prefixes: Beginnings of them, by position.
    """

    question: Question
    samples: Sequence[Sample]
    prefixes: Sequence[Prefix]

    def prefix_tokens(self, prefix: Prefix) -> Tokens:
        """Return the tokens of one of the prefixes."""
        return self.samples[prefix.sample].tokens[: prefix.position]


class Engine(ABC):
    """Samples and scores with one model.

    Attributes:
        name: What the results call it.
        group: How many questions it likes to get at once; what a run that is killed loses at most.
    """

    name: str
    group: int = 1

    @abstractmethod
    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        """Return `settings.samples` completions of each question; equal seeds give equal samples."""

    @abstractmethod
    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        """Return log P(target | question, prefix) of each job, float64 of shape (targets, prefixes), in nats.

        Minus infinity stands for a probability of zero, NaN for a value that the model did not give.
        """
