"""The engine for any model that can write a text and say how likely a text is: two requests that every back end has.

Prefixes are beginnings of what the model wrote, and log P(prefix | question) is put together from the likelihood of its
pieces from one scored position to the next, since a back end of this kind tells no log-probabilities while it samples.
Every branch costs one full pass over question, prefix and target: use it where no faster engine exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.base import CLAMPED, Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample, Tokens

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

Generate = Callable[[Sequence[Question], "Settings"], list[list[Tokens]]]
"""Takes questions and returns the tokens of `settings.samples` completions of each, of any length."""
Loglikelihood = Callable[[Sequence[tuple[Tokens, Tokens]]], Sequence[float]]
"""Takes pairs (context, continuation), none empty, and returns log P(continuation | context) of each, in nats."""


_IMPROBABLE = 100.0  # nats: the largest that a token could cost on average


class GenericEngine(Engine):
    """Samples and scores through two functions, each given everything at once."""

    name = "generic"

    def __init__(self, generate: Generate, loglikelihood: Loglikelihood, group: int = 8) -> None:
        """Take the two functions.

        Args:
            generate: Writes completions.
            loglikelihood: Scores continuations; equal pairs are asked about once.
            group: How many questions are worked on at once.
        """
        self._generate, self._loglikelihood, self.group = generate, loglikelihood, group

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        """Return completions of each question, with log P of their prefixes at the positions that are scored."""
        if not settings.length:
            written: list[list[Tokens]] = [[()] * settings.samples for _ in questions]
        else:
            written = self._generate(questions, settings)
        if [len(completions) for completions in written] != [settings.samples] * len(questions):
            raise RuntimeError(f"the model wrote fewer completions than {settings.samples} for each question")
        texts = [[tuple(tokens[: settings.length]) for tokens in completions] for completions in written]
        pieces = {
            (question.tokens + text[:start], text[start:end])
            for question, completions in zip(questions, texts, strict=True)
            for text in completions
            for start, end in _pieces(len(text), settings)
        }
        log_p = self._ask(sorted(pieces))
        return [
            [_sample(question.tokens, text, settings, log_p) for text in completions]
            for question, completions in zip(questions, texts, strict=True)
        ]

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        """Return log P of each target after each prefix, equal branches asked about once."""
        branches = [
            [[(job.question.tokens + job.prefix_tokens(p), target) for p in job.prefixes] for target in targets]
            for job in jobs
            for targets in [job.question.targets]
        ]
        log_p = self._ask(sorted({pair for rows in branches for row in rows for pair in row}))
        return [
            np.array([[log_p[pair] for pair in row] for row in rows], dtype=np.float64).reshape(
                len(job.question.targets), len(job.prefixes)
            )
            for job, rows in zip(jobs, branches, strict=True)
        ]

    def _ask(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> dict[tuple[Tokens, Tokens], float]:
        given = [float(value) for value in self._loglikelihood(pairs)]
        values = [_read(value, len(tokens)) for value, (_, tokens) in zip(given, pairs, strict=False)]
        if len(given) != len(pairs):
            raise RuntimeError(f"the model returned {len(given)} log-likelihoods for {len(pairs)} requests")
        return dict(zip(pairs, values, strict=True))


def _read(log_p: float, tokens: int) -> float:
    """Read a sum that holds what some back ends write for minus infinity: no model is that sure of every token."""
    return -math.inf if log_p <= CLAMPED and log_p < -_IMPROBABLE * tokens else log_p


def _pieces(length: int, settings: Settings) -> list[tuple[int, int]]:
    """The stretches between scored positions of a completion, the rest after the last one included."""
    marks = [position for position in settings.positions if position < length] + [length]
    return list(itertools.pairwise(marks))


def _sample(question: Tokens, text: Tokens, settings: Settings, log_p: dict[tuple[Tokens, Tokens], float]) -> Sample:
    known = np.full(len(text) + 1, np.nan)
    known[0] = 0.0
    for start, end in _pieces(len(text), settings):
        known[end] = known[start] + log_p[question + text[:start], text[start:end]]
    return Sample(text, known)
