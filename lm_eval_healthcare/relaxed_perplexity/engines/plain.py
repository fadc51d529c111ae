"""The plain way: one forward pass for each target after each prefix, with nothing shared and no cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.forward import log_p_of

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward
    from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens


class PlainScorer:
    """Scores every branch by itself: the measure of all faster ways, and what is left where they do not work.

    Attributes:
        tokens_forwarded: Tokens that went through the model.
    """

    def __init__(self, forward: Forward) -> None:
        """Take the model.

        Args:
            forward: The model.
        """
        self._forward = forward
        self.tokens_forwarded = 0

    def score(self, job: Job) -> np.ndarray:
        """Return log P(target | question, prefix), float64 of shape (targets, prefixes), in nats."""
        before = [(*job.question.tokens, *job.prefix_tokens(prefix)) for prefix in job.prefixes]
        found = [[float(self.log_p(text, target).sum()) for text in before] for target in job.question.targets]
        return np.asarray(found, dtype=np.float64).reshape(len(job.question.targets), len(before))

    def log_p(self, text: Tokens, target: Tokens) -> np.ndarray:
        """Return log P of each of a target's tokens after a text, float64, in nats."""
        import torch

        tokens = torch.tensor([(*text, *target[:-1])])
        logits = self._forward(tokens, keep=len(target))
        self.tokens_forwarded += tokens.shape[1]
        return log_p_of(logits[0], torch.tensor(target)).numpy()
