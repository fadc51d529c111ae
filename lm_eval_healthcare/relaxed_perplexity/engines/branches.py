"""Scoring with shared states: the question once, each used sample once, and then each branch as a row of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.chunks import WASTE, Limits, Row, chunked
from lm_eval_healthcare.relaxed_perplexity.engines.forward import log_p_among, log_p_of
from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import Scratch, SharedStates

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
    from lm_eval_healthcare.relaxed_perplexity.engines.chunks import Footprint, Memory
    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward


_LANES = 16
"""Numbers that the widest of common CPUs add at once."""

_NONE = -1
"""Stands among the places of samples for the empty prefix, which belongs to none of them."""


class SharedScorer:
    """Scores the branches of one question after another.

    For targets of t tokens after B prefixes of a question of q tokens, with samples of u used tokens in all, about
    q + u + B (t - 1) tokens go through the model; up to a tenth more is padding.

    A row's tokens are aligned at the end of its prefix: what it lacks in length is padding before the question. So
    distances between tokens are those of the text, and a model's sliding windows, chunks and position biases hold.

    On a CPU the order in which numbers are added depends on how many there are: sixteen at a time or fewer, and in
    matrix products all of up to 192 in one run. Question and samples are therefore run in pieces that end at 192
    tokens of the text or else at a multiple of sixteen, as far as the text goes anyway; the sums are then those of
    one pass over the whole text, to the last bit in most cases. In another order the log-probability of a long target
    changes by float32's own noise, about 1e-7 of it.

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

    def run(self, texts: Sequence[Sequence[int]], begin: torch.Tensor, **given: Any) -> torch.Tensor:
        """Return logits of rows of one length.

        Args:
            texts: The tokens of each row, padded at the right.
            begin: The first and the last place of each row's tokens in its text, shape (rows, 2).
            given: What `Forward` takes beside.
        """
        import torch

        tokens = torch.tensor(texts)
        # Padding has the last token's place, so that no place lies beyond what the model knows.
        places = torch.minimum(torch.arange(tokens.shape[1]) + begin[:, :1], begin[:, 1:])
        logits = self.forward(tokens, positions=places, **given)
        self.tokens_forwarded += tokens.numel()
        return logits

    def padded(self, text: Sequence[int], width: int) -> list[int]:
        """Return a text's tokens with padding at the right."""
        return [*text, *([self.pad] * (width - len(text)))]


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
        farthest = max(prefix.position for prefix in job.prefixes)
        self._longest = self._question + farthest + max(map(len, self._targets)) - 1
        self._slots: dict[int, torch.Tensor] = {}

    def scores(self) -> np.ndarray:
        scorer, need = self._scorer, self._scorer.need
        # Samples of which about as much is used go together, so that little of a pass is padding.
        order = sorted(self._prefixes, key=lambda sample: (self._used(sample), sample))
        slots = [int(self._used(sample) / (1 - WASTE)) + _LANES for sample in order]
        self._free = self._question + _LANES
        room = max(scorer.memory.bytes // 2 - self._free * need.layers, 0) // need.layers
        batches = _batches(order, slots, room)
        size = dict(zip(order, slots, strict=True))
        self._states = SharedStates(
            self._free + max(sum(size[sample] for sample in batch) for batch in batches), scorer.scratch
        )
        scorer.memory.run(self._do_question, [0], f"a question of {self._question} tokens")
        for batch in batches:
            scorer.memory.run(self._do_branches, batch, "the branches of one completion")
        place = {target: number for number, target in enumerate(self._targets)}
        return (self._first + self._rest)[[place[target] for target in self._job.question.targets]]

    def _used(self, sample: int) -> int:
        return max(self._job.prefixes[place].position for place in self._prefixes[sample])

    def _limits(self) -> Limits:
        scorer = self._scorer
        room = scorer.memory.bytes - self._states.slots * scorer.need.layers
        return Limits(self._question, scorer.need, room, scorer.memory.tokens, scorer.memory.enough, self._equal)

    def _piece_end(self, start: int, end: int) -> int:
        """Return where a pass had better end that starts at a place in the text."""
        run = self._scorer.memory.run_length
        return run if start < run < end else self._rounded(end)

    def _rounded(self, end: int) -> int:
        """Return the place after which a pass over a text had better end, if the text is needed up to `end`."""
        return min(-(-end // _LANES) * _LANES, self._longest) if self._scorer.memory.run_length else end

    def _do_question(self, _: Sequence[int]) -> None:
        import torch

        width = self._rounded(self._question)
        self._states.arrange(None, width, keep_at=0)
        logits = self._scorer.run(
            [self._scorer.padded(self._job.question.tokens, width)],
            torch.tensor([[0, self._question - 1]]),
            cache=self._states.cache,
            keep=[self._question - 1],
        )
        self._keep_first(self._prefixes.get(_NONE, []), log_p_among(logits[0], self._first_ids).numpy())

    def _do_branches(self, samples: Sequence[int]) -> None:
        scorer, prefixes = self._scorer, self._job.prefixes
        beginnings = [
            Row((sample,), 0, self._used(sample), len(self._prefixes[sample])) for sample in samples if sample != _NONE
        ]
        free = self._free
        for chunk in chunked(beginnings, self._limits()):
            free = self._do_samples([row.key[0] for row in chunk], free)
        branches = [
            Row((number, place), prefixes[place].position, len(target) - 1, len(target) - 1)
            for sample in samples
            for place in self._prefixes[sample]
            for number, target in enumerate(self._targets)
            if len(target) > 1
        ]
        for chunk in chunked(branches, self._limits()):
            scorer.memory.run(self._do_rows, chunk, f"a branch of {chunk[-1].before + chunk[-1].new} tokens")

    def _do_samples(self, samples: Sequence[int], free: int) -> int:
        """Run the used tokens of samples, keep their states from a slot on, and return the next free slot."""
        import torch

        used = torch.tensor([self._used(sample) for sample in samples])
        slots = torch.arange(self._question).repeat(len(samples), 1)
        start, end = self._question, self._question + int(used.max())
        while start < end:
            stop = self._piece_end(start, end)
            done = start - self._question
            texts = [
                self._scorer.padded(self._job.samples[sample].tokens[done : done + stop - start], stop - start)
                for sample in samples
            ]
            inside = [
                (row, self._job.prefixes[place].position - done - 1, place)
                for row, sample in enumerate(samples)
                for place in self._prefixes[sample]
                if start < self._question + self._job.prefixes[place].position <= stop
            ]
            grid = sorted({column for _, column, _ in inside}) or [0]
            self._states.arrange(slots, stop - start, keep_at=free)
            ends = (used + self._question - 1).clamp(min=start)
            begin = torch.stack([torch.full_like(used, start), ends], 1)
            logits = self._scorer.run(texts, begin, cache=self._states.cache, keep=grid)
            if inside:
                rows, columns, places = zip(*inside, strict=True)
                picked = logits[list(rows), [grid.index(column) for column in columns]]
                self._keep_first(places, log_p_among(picked, self._first_ids).numpy())
            taken = torch.arange(free, free + len(samples) * (stop - start)).view(len(samples), -1)
            slots = torch.cat([slots, taken], 1)
            free += taken.numel()
            start = stop
        self._slots |= dict(zip(samples, slots, strict=True))
        return free

    def _do_rows(self, rows: Sequence[Row]) -> None:
        import torch

        prefixes = [self._job.prefixes[row.key[1]] for row in rows]
        targets = [self._targets[row.key[0]] for row in rows]
        end = self._question + torch.tensor([prefix.position for prefix in prefixes])
        past, width = int(end.max()), max(row.new for row in rows)
        slots = torch.zeros(len(rows), past, dtype=torch.long)
        mask = torch.ones(len(rows), past + width, dtype=torch.long)
        question = torch.arange(self._question)
        for row, prefix in enumerate(prefixes):
            before = past - self._question - prefix.position
            known = self._slots[prefix.sample] if prefix.position else question
            slots[row, before:] = known[: past - before]
            mask[row, :before] = 0
        self._states.arrange(slots, width)
        logits = self._scorer.run(
            [self._scorer.padded(target[:-1], width) for target in targets],
            torch.stack([end, end + torch.tensor([row.new for row in rows]) - 1], 1),
            cache=self._states.cache,
            mask=None if bool(mask.all()) else mask,
        )
        wanted = torch.tensor([self._scorer.padded(target[1:], width) for target in targets])
        real = torch.arange(width) < torch.tensor([row.new for row in rows])[:, None]
        log_p = torch.where(real, log_p_of(logits, wanted), 0.0).sum(1)
        for branch, value in zip(rows, log_p.tolist(), strict=True):
            self._rest[branch.key] = value

    def _keep_first(self, places: Sequence[int], log_p: np.ndarray) -> None:
        column = {token: number for number, token in enumerate(self._first_ids)}
        for number, target in enumerate(self._targets):
            self._first[number, list(places)] = log_p[:, column[target[0]]]


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
