"""From questions to matrices, with any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix, Target
from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens, choose

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Question
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings


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
        Job(question, samples, choose(samples, settings)) for question, samples in zip(questions, sampled, strict=True)
    ]
    found = engine.score(jobs)
    matrices = []
    for job, log_p, sizes in zip(jobs, found, target_bytes, strict=True):
        if log_p.shape != (len(job.question.targets), len(job.prefixes)) or np.isnan(log_p).any():
            raise RuntimeError(f"engine {engine.name} left scores out: shape {log_p.shape}")
        matrices.append(
            Matrix(
                prefixes=tuple(job.prefixes),
                targets=tuple(
                    Target(len(tokens), size, row)
                    for tokens, size, row in zip(job.question.targets, sizes, log_p, strict=True)
                ),
                lengths=tuple(len(sample.tokens) for sample in job.samples),
                log_p_samples=tuple(float(sample.log_p[-1]) for sample in job.samples),
                seed=job.question.seed,
                question_tokens=len(job.question.tokens),
                engine=engine.name,
                texts=tuple(decode(sample.tokens) for sample in job.samples) if decode else (),
            )
        )
    return matrices
