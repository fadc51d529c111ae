"""Scoring with shared states: the question once, each used sample once, and then each branch as a row of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.chunks import WASTE, Row, chunked
from lm_eval_healthcare.relaxed_perplexity.engines.forward import log_p_among, log_p_of
from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import Scratch, SharedStates

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
    from lm_eval_healthcare.relaxed_perplexity.engines.chunks import Footprint, Memory
    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward


_NONE = -1
"""Stands among the places of samples for the empty prefix, which belongs to none of them."""


class SharedScorer:
    """Scores the branches of one question after another.

    For targets of t tokens after B prefixes of a question of q tokens, with samples of u used tokens in all, about
    q + u + B (t - 1) tokens go through the model; up to a tenth more is padding.

    A row's tokens are aligned at the end of its prefix: what it lacks in length is padding before the question. So
    distances between tokens are those of the text, and a model's sliding windows, chunks and position biases hold.

    Attributes:
        forward: The model.
        need: What rows need.
        memory: What they may take.
        pad: A token that stands in padding.
        scratch: Memory that rows may be gathered in.
        tokens_forwarded: Tokens that went through the model, padding with them.
    """

    def __init__(self, forward: Forward, need: Footprint, memory: Memory, *, pad: int, scratch: Scratch) -> None:
        """Take the model and what it needs; the arguments are the attributes."""
        self.forward, self.need, self.memory, self.pad, self.scratch = forward, need, memory, pad, scratch
        self.tokens_forwarded = 0

    def score(self, job: Job, *, equal: bool = False) -> np.ndarray:
        """Return log P(target | question, prefix), float64 of shape (targets, prefixes), in nats.

        Args:
            job: The branches.
            equal: Whether only branches of equal lengths may share a forward pass, which then needs no padding.

        Raises:
            NotEnoughMemory: If one branch alone does not fit into memory.
        """
        return _Scoring(self, job, equal).scores()

    def run(self, texts: Sequence[Sequence[int]], start: torch.Tensor, **given: Any) -> torch.Tensor:
        """Return logits of texts of different lengths, padded at the right.

        Args:
            texts: The tokens of each row.
            start: The place of each row's first token, shape (rows,).
            given: What `Forward` takes beside.
        """
        import torch

        lengths = torch.tensor([len(text) for text in texts])
        width = int(lengths.max())
        tokens = torch.tensor([[*text, *([self.pad] * (width - len(text)))] for text in texts])
        # Padding has the last token's place, so that no place lies beyond what the model knows.
        places = torch.minimum(torch.arange(width), lengths[:, None] - 1) + start[:, None]
        logits = self.forward(tokens, positions=places, **given)
        self.tokens_forwarded += tokens.numel()
        return logits


class _Scoring:
    """The scoring of one job."""

    def __init__(self, scorer: SharedScorer, job: Job, equal: bool) -> None:
        self._scorer, self._job, self._equal = scorer, job, equal
        self._question = len(job.question.tokens)
        self._targets = list(dict.fromkeys(job.question.targets))
        self._first_ids = list(dict.fromkeys(target[0] for target in self._targets))
        shape = len(self._targets), len(job.prefixes)
        self._first, self._rest = np.zeros(shape), np.zeros(shape)
        self._prefixes: dict[int, list[int]] = {}
        for place, prefix in enumerate(job.prefixes):
            self._prefixes.setdefault(prefix.sample if prefix.position else _NONE, []).append(place)
        self._start: dict[int, int] = {}

    def scores(self) -> np.ndarray:
        scorer = self._scorer
        # Samples of which about as much is used go together, so that little of a pass is padding.
        order = sorted(self._prefixes, key=lambda sample: (self._used(sample), sample))
        slots = [int(self._used(sample) / (1 - WASTE)) + 1 for sample in order]
        question = self._question * scorer.need.layers
        batches = _batches(order, slots, max(scorer.memory.bytes // 2 - question, 0) // scorer.need.layers)
        most = self._question + max((sum(slots[order.index(item)] for item in batch) for batch in batches), default=0)
        self._states = SharedStates(most, scorer.scratch)
        self._room = scorer.memory.bytes - most * scorer.need.layers
        scorer.memory.run(self._do_question, [0], f"a question of {self._question} tokens")
        for batch in batches:
            scorer.memory.run(self._do_branches, batch, "the branches of one completion")
        place = {target: number for number, target in enumerate(self._targets)}
        return (self._first + self._rest)[[place[target] for target in self._job.question.targets]]

    def _used(self, sample: int) -> int:
        return max(self._job.prefixes[place].position for place in self._prefixes[sample])

    def _do_question(self, _: Sequence[int]) -> None:
        import torch

        self._states.arrange(None, self._question, keep_at=0)
        logits = self._scorer.run(
            [self._job.question.tokens], torch.zeros(1, dtype=torch.long), cache=self._states.cache, keep=1
        )
        self._keep_first(self._prefixes.get(_NONE, []), log_p_among(logits[0, -1:], self._first_ids).numpy())

    def _do_branches(self, samples: Sequence[int]) -> None:
        scorer, prefixes = self._scorer, self._job.prefixes
        split = partial(
            chunked,
            question=self._question,
            room=self._room,
            need=scorer.need,
            most=scorer.memory.tokens,
            equal=self._equal,
        )
        beginnings = [
            Row((sample,), 0, self._used(sample), len(self._prefixes[sample])) for sample in samples if sample != _NONE
        ]
        free = self._question
        for chunk in split(beginnings):
            self._do_samples([row.key[0] for row in chunk], free)
            free += len(chunk) * chunk[-1].new
        branches = [
            Row((number, place), prefixes[place].position, len(target) - 1, len(target) - 1)
            for sample in samples
            for place in self._prefixes[sample]
            for number, target in enumerate(self._targets)
            if len(target) > 1
        ]
        for chunk in split(branches):
            scorer.memory.run(self._do_rows, chunk, f"a branch of {chunk[-1].before + chunk[-1].new} tokens")

    def _do_samples(self, samples: Sequence[int], slot: int) -> None:
        import torch

        used = [self._job.samples[sample].tokens[: self._used(sample)] for sample in samples]
        width = max(map(len, used))
        self._start |= {sample: slot + row * width for row, sample in enumerate(samples)}
        places = [place for sample in samples for place in self._prefixes[sample]]
        grid = sorted({self._job.prefixes[place].position for place in places})
        question = torch.arange(self._question).expand(len(samples), -1)
        self._states.arrange(question, width, keep_at=slot)
        begin = torch.full((len(samples),), self._question)
        logits = self._scorer.run(used, begin, cache=self._states.cache, keep=[position - 1 for position in grid])
        column = {position: number for number, position in enumerate(grid)}
        rows = [row for row, sample in enumerate(samples) for _ in self._prefixes[sample]]
        columns = [column[self._job.prefixes[place].position] for place in places]
        self._keep_first(places, log_p_among(logits[rows, columns], self._first_ids).numpy())

    def _do_rows(self, rows: Sequence[Row]) -> None:
        import torch

        prefixes = [self._job.prefixes[row.key[1]] for row in rows]
        targets = [self._targets[row.key[0]] for row in rows]
        end = self._question + torch.tensor([prefix.position for prefix in prefixes])
        past, width = int(end.max()), max(row.new for row in rows)
        start = torch.tensor([self._start.get(prefix.sample, 0) if prefix.position else 0 for prefix in prefixes])
        # The place in its text of what stands in each slot of a row; below zero before the text begins.
        place = torch.arange(past) - (past - end)[:, None]
        slots = torch.where(place < self._question, place, place - self._question + start[:, None]).clamp(min=0)
        self._states.arrange(slots, width)
        mask = torch.cat([(place >= 0).long(), torch.ones(len(rows), width, dtype=torch.long)], 1)
        logits = self._scorer.run(
            [target[:-1] for target in targets],
            end,
            cache=self._states.cache,
            mask=None if bool((place >= 0).all()) else mask,
        )
        wanted = torch.tensor([[*target[1:], *([0] * (width + 1 - len(target)))] for target in targets])
        real = torch.arange(width) < torch.tensor([row.new for row in rows])[:, None]
        log_p = torch.where(real, log_p_of(logits, wanted), 0.0).sum(1)
        for row, value in zip(rows, log_p.tolist(), strict=True):
            self._rest[row.key] = value

    def _keep_first(self, places: Sequence[int], log_p: np.ndarray) -> None:
        column = {token: number for number, token in enumerate(self._first_ids)}
        for number, target in enumerate(self._targets):
            self._first[number, places] = log_p[:, column[target[0]]]


def _batches(samples: Sequence[int], slots: Sequence[int], room: int) -> list[list[int]]:
    """Return samples in batches whose slots fit into the room together; a single one always fits."""
    batches: list[list[int]] = []
    taken = 0
    for sample, size in zip(samples, slots, strict=True):
        if not batches or taken + size > room:
            batches.append([])
            taken = 0
        batches[-1].append(sample)
        taken += size
    return batches
