"""From questions to matrices, with any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
from lm_eval_healthcare.relaxed_perplexity.estimator import ROUNDING
from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix, Target
from lm_eval_healthcare.relaxed_perplexity.prefixes import Prefix, Sample, Tokens, UnknownPrefixError, choose

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Question
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings


NAN_LOGLIKELIHOOD = "nan_loglikelihood"
"""Why a target has no scores: the model gave no number for one of its branches, or for a prefix."""
POSITIVE_LOGLIKELIHOOD = "positive_loglikelihood"
"""Why a target has no scores: the model gave a probability above 1."""


def measure(
    engine: Engine,
    questions: Sequence[Question],
    settings: Settings,
    *,
    target_bytes: Sequence[Sequence[int]],
    decode: Callable[[Tokens], str] | None = None,
) -> list[Matrix]:
    """Sample completions of questions, choose prefixes, score every target after each, and return the matrices.

    Args:
        engine: The engine.
        questions: The questions; an engine likes `engine.group` of them at once.
        settings: How it is measured.
        target_bytes: For each question the bytes of each target in UTF-8.
        decode: Turns the tokens of samples into text, where texts are kept.
    """
    sampled = engine.sample(questions, settings)
    jobs = [
        Job(question, samples, _chosen(samples, settings)) for question, samples in zip(questions, sampled, strict=True)
    ]
    found = engine.score(jobs)
    return [
        Matrix(
            prefixes=tuple(job.prefixes),
            targets=_targets(job, log_p, sizes, engine.name),
            lengths=tuple(len(sample.tokens) for sample in job.samples),
            log_p_samples=tuple(float(sample.log_p[-1]) for sample in job.samples),
            seed=job.question.seed,
            question_tokens=len(job.question.tokens),
            engine=engine.name,
            texts=tuple(decode(sample.tokens) for sample in job.samples) if decode else (),
        )
        for job, log_p, sizes in zip(jobs, found, target_bytes, strict=True)
    ]


def _chosen(samples: Sequence[Sample], settings: Settings) -> list[Prefix]:
    try:
        return choose(samples, settings)
    except UnknownPrefixError:
        return []  # the document has no scores, the others do


def _targets(job: Job, log_p: np.ndarray, sizes: Sequence[int], engine: str) -> tuple[Target, ...]:
    if log_p.shape != (len(job.question.targets), len(job.prefixes)):
        raise RuntimeError(f"engine {engine}: scores of shape {log_p.shape} for {len(job.prefixes)} prefixes")
    targets = []
    for tokens, size, row in zip(job.question.targets, sizes, log_p, strict=True):
        reason = _why_unknown(row)
        kept = np.empty(0) if reason else np.asarray(row, dtype=np.float64)
        targets.append(Target(len(tokens), size, kept, reason))
    return tuple(targets)


def _why_unknown(log_p: np.ndarray) -> str | None:
    if not len(log_p) or np.isnan(log_p).any():
        return NAN_LOGLIKELIHOOD
    return POSITIVE_LOGLIKELIHOOD if log_p.max() > ROUNDING else None
