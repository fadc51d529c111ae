"""Drawing a judge's tokens: the same for the same prompt and seed, whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.judge.backends.base import TOP
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.settings import Sampling
from lm_eval_healthcare.relaxed_perplexity.engines.sampling import draw, uniforms

if TYPE_CHECKING:
    import torch


class Picker:
    """Draws the next token of each row, for `generate` as a logits processor: of its scores only one token is left.

    Repetition penalty over prompt and text, temperature and top-p follow one another as in transformers. Numbers that
    decide about a row's tokens come from its own seed, and padding counts nowhere.
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        limits: Sequence[int],
        sampling: Sampling,
        end: int,
    ) -> None:
        """Take the rows.

        Args:
            prompts: The token ids of each row's prompt.
            seeds: The seed of each row.
            limits: Most tokens of each row; after them its text is ended.
            sampling: How tokens are drawn.
            end: The token that ends a row's text.
        """
        self._prompts, self._limits, self._sampling, self._end = prompts, limits, sampling, end
        self._numbers = np.zeros((len(seeds), max(limits)))
        if not sampling.greedy:
            for row, (seed, limit) in enumerate(zip(seeds, limits, strict=True)):
                self._numbers[row, :limit] = uniforms(seed, 1, limit)[0]
        self._seen: torch.Tensor | None = None
        self._picks: list[torch.Tensor] = []
        self._tops: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores of minus infinity, but 0 for the token that is drawn; shape (rows, vocabulary).

        Raises:
            JudgeError: If scores are not numbers.
        """
        import torch

        logits, step = scores.float(), len(self._picks)
        exact = torch.log_softmax(logits, -1)
        if bool(exact.isnan().any()):
            raise JudgeError(
                "the judge gives numbers that are not finite: its weights are damaged, or dtype=float16 is too narrow "
                "for it (use bfloat16 or float32)"
            )
        drawn = self._drawn(self._penalised(logits), step)
        done = torch.tensor([step >= limit for limit in self._limits], device=drawn.device)
        drawn = drawn.masked_fill(done, self._end)
        values, ids = exact.topk(min(TOP, exact.shape[-1]), -1)
        self._tops.append(
            (torch.cat([values, exact.gather(-1, drawn[:, None])], -1), torch.cat([ids, drawn[:, None]], -1))
        )
        self._picks.append(drawn)
        if self._seen is not None:
            self._seen.scatter_(-1, drawn[:, None], True)
        return torch.full_like(scores, -torch.inf).scatter(-1, drawn[:, None], 0.0)

    def results(self) -> tuple[list[list[int]], list[list[list[tuple[int, float]]]]]:
        """Return, for each row, the tokens, and the log-probabilities of the likeliest ones at their places."""
        import torch

        picks = torch.stack(self._picks, 1).tolist()
        values = torch.stack([values for values, _ in self._tops], 1).tolist()
        ids = torch.stack([ids for _, ids in self._tops], 1).tolist()
        # The token that was drawn comes last and is often among the likeliest; in a table it stands once.
        tops = [
            [list(dict(zip(*place, strict=True)).items()) for place in zip(ids[row], values[row], strict=True)]
            for row in range(len(picks))
        ]
        return picks, tops

    def _penalised(self, logits: torch.Tensor) -> torch.Tensor:
        """Make tokens of the prompt and the text less likely (Keskar et al. 2019, arXiv 1909.05858, section 4.1)."""
        import torch

        penalty = self._sampling.repetition_penalty
        if penalty == 1:
            return logits
        if self._seen is None:
            self._seen = torch.zeros_like(logits, dtype=torch.bool)
            for row, prompt in enumerate(self._prompts):
                self._seen[row, torch.tensor(sorted(set(prompt)), device=logits.device)] = True
        return torch.where(self._seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)

    def _drawn(self, logits: torch.Tensor, step: int) -> torch.Tensor:
        import torch

        if self._sampling.greedy:
            return logits.argmax(-1)
        numbers = torch.from_numpy(self._numbers[:, min(step, self._numbers.shape[1] - 1)].copy())
        drawn = draw(
            torch.log_softmax(logits, -1),
            numbers,
            temperature=self._sampling.temperature,
            top_p=self._sampling.top_p,
        )
        return drawn.to(logits.device)
