"""The engine for models of transformers that run in this process."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.branches import SharedScorer
from lm_eval_healthcare.relaxed_perplexity.engines.chunks import Footprint, Memory, even_parts
from lm_eval_healthcare.relaxed_perplexity.engines.decoding import (
    Decoder,
    GrowingDecoder,
    OwnCacheDecoder,
    PlainDecoder,
)
from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward, UnsuitedModel
from lm_eval_healthcare.relaxed_perplexity.engines.plain import PlainScorer
from lm_eval_healthcare.relaxed_perplexity.engines.sampling import Row, sample_rows
from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import Scratch, SharedStates

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

logger = logging.getLogger(__name__)

MIXED, EQUAL, PLAIN = "mixed", "equal", "plain"
"""Ways of scoring: branches of any lengths in one forward pass, only equal ones, or each by itself without a cache."""

_BORDERS = (
    "sliding_window", "attention_chunk_size", "max_position_embeddings", "original_max_position_embeddings",
    "n_positions", "max_seq_len",
)  # fmt: skip
"""Lengths of text at which models change what they do."""


class TransformersEngine(Engine):
    """Samples and scores with a causal language model of transformers.

    A question goes through the model once, each used sample once, and after that only the targets' own tokens do; see
    `SharedScorer` for the cost and `Footprint` for the memory. Before the first scores, and again when texts reach a
    length at which the model changes what it does, a few branches are compared with the plain way, one forward pass
    each. A model that gives other numbers, or whose cache is not keys and values, is scored the plain way from then
    on, with a warning. Samples are checked in the same manner.

    Attributes:
        tokens_forwarded: Tokens that went through the model for scoring, without those of comparisons.
        tokens_sampled: Tokens that went through the model for sampling.
        ways: How scoring is done, one of `mixed`, `equal` and `plain`, by what was compared.
    """

    name = "transformers"

    def __init__(
        self,
        model: Any,
        *,
        end_tokens: Collection[int],
        pad_token: int = 0,
        group: int = 1,
        memory: float | None = None,
        autocast: torch.dtype | None = None,
    ) -> None:
        """Take a model; nothing runs yet.

        Args:
            model: The model, on its device; it is put into evaluation mode.
            end_tokens: Tokens that end a completion.
            pad_token: Any token of the vocabulary; it stands in padding, which no other token sees.
            group: Questions whose completions are sampled at once.
            memory: GiB that may be taken beside the weights; if not given half of what is free on a GPU, and
                elsewhere a quarter, 1 GiB at most. A single branch takes what it needs.
            autocast: The dtype of mixed precision, if it is used.

        Raises:
            ValueError: If a number is out of range.
        """
        if group < 1:
            raise ValueError(f"group={group}: expected 1 or more")
        if memory is not None and memory <= 0:
            raise ValueError(f"memory={memory}: expected GiB above 0")
        self.group = group
        self.ways: dict[tuple[int, bool, bool], str] = {}
        self._end_tokens = frozenset(end_tokens)
        self._pad = pad_token
        self._forward = Forward(model, autocast=autocast)
        self._memory = Memory(self._forward.device, memory)
        self._plain, self._reference = PlainScorer(self._forward), PlainScorer(self._forward)
        self._shared: SharedScorer | None = None
        self._decoders: list[type[Decoder]] = [GrowingDecoder, OwnCacheDecoder, PlainDecoder]
        self._decoder_of: dict[int, type[Decoder]] = {}
        self._borders = sorted(set(_lengths(self._forward.config)))
        self._exact = True
        self._ready = False
        self.tokens_sampled = 0

    @property
    def tokens_forwarded(self) -> int:
        """Tokens that went through the model for scoring, padding with them."""
        return self._plain.tokens_forwarded + (self._shared.tokens_forwarded if self._shared else 0)

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        """Return `settings.samples` completions of each question; equal seeds give equal samples.

        Raises:
            NotEnoughMemory: If one completion alone does not fit into memory.
        """
        self._prepare()
        self._memory.measure()
        found: dict[Row, Sample] = {}
        for start in range(0, len(questions), self.group):
            places = range(start, min(start + self.group, len(questions)))
            rows = [(place, number) for place in places for number in range(settings.samples)]
            for part in self._parts(rows, questions, settings):
                self._memory.run(
                    lambda part: found.update(zip(part, self._sample_part(questions, part, settings), strict=True)),
                    part,
                    f"a completion of {settings.length} tokens",
                )
        return [[found[place, number] for number in range(settings.samples)] for place in range(len(questions))]

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        """Return log P(target | question, prefix) of each job, float64 of shape (targets, prefixes), in nats.

        Raises:
            NotEnoughMemory: If one branch alone does not fit into memory.
        """
        self._prepare()
        self._memory.measure()
        found = []
        for job in jobs:
            if job.question.targets and job.prefixes:
                found.append(self._scores(job, self._way(job)))
            else:
                found.append(np.zeros((len(job.question.targets), len(job.prefixes))))
        return found

    def _prepare(self) -> None:
        """Run a single token, to see what kind of cache the model has and how large it is."""
        if self._ready:
            return
        import torch

        self._ready, forward = True, self._forward
        try:
            if forward.stateful or not forward.cache_name:
                raise UnsuitedModel("it keeps more than keys and values of past tokens")
            states = SharedStates(1)
            states.arrange(None, 1, keep_at=0)
            one = torch.tensor([[self._pad]])
            logits = forward(one, cache=states.cache, positions=torch.zeros_like(one), keep=1)
            if not states.pools():
                raise UnsuitedModel("no layer keeps keys and values")
            need = Footprint.of(forward.config, states, logits)
        except UnsuitedModel as error:
            self._exact = _is_exact(getattr(forward.model, "dtype", torch.float32))
            self._decoders.remove(GrowingDecoder)
            self._tell(error)
            return
        self._exact = all(_is_exact(part.dtype) for part in (logits, states.pools()[0][0]))
        later_layers_look_back = any(
            name in _names(forward.config) for name in ("num_kv_shared_layers", "kv_sharing_modes")
        )
        scratch = Scratch(reuse=not later_layers_look_back)
        self._memory.forget = scratch.clear
        self._shared = SharedScorer(forward, need, self._memory, pad=self._pad, scratch=scratch)

    def _tell(self, reason: object) -> None:
        logger.warning(
            "%s cannot share keys and values between branches (%s): each branch is scored by a forward pass of its "
            "own, which gives the same numbers and takes several times as long",
            self._forward.name,
            reason,
        )

    def _parts(self, rows: Sequence[Row], questions: Sequence[Question], settings: Settings) -> list[Sequence[Row]]:
        """Return rows in parts that are sampled at once, as the memory allows."""
        if self._decoders[0] is not GrowingDecoder or self._shared is None:
            return _by_question(rows)
        longest = max(len(questions[place].tokens) for place, _ in rows) + settings.length
        return even_parts(rows, self._memory.bytes // self._shared.need.sampled(longest))

    def _sample_part(self, questions: Sequence[Question], rows: Sequence[Row], settings: Settings) -> list[Sample]:
        longest = max(len(questions[place].tokens) for place, _ in rows) + settings.length
        interval = bisect_left(self._borders, longest)
        known = self._decoder_of.get(interval)
        for kind in [known] if known else self._decoders:
            if kind is not GrowingDecoder and len(_by_question(rows)) > 1:
                parts = [self._sample_part(questions, part, settings) for part in _by_question(rows)]
                return [sample for part in parts for sample in part]
            decoder = kind(self._forward, self._pad)
            unknown = known is None and kind is not self._decoders[-1]
            try:
                samples = sample_rows(decoder, questions, rows, settings, self._end_tokens)
                problem = self._wrong_sample(questions, rows, samples) if unknown else None
            except UnsuitedModel as error:
                if not unknown:
                    raise
                problem = str(error)
            if problem is None:
                self.tokens_sampled += decoder.tokens_forwarded
                if any(sample.tokens for sample in samples):
                    self._decoder_of[interval] = kind
                return samples
            logger.info("%s cannot be sampled with %s (%s)", self._forward.name, kind.__name__, problem)
        raise AssertionError("the last way of sampling is not checked")

    def _wrong_sample(
        self, questions: Sequence[Question], rows: Sequence[Row], samples: Sequence[Sample]
    ) -> str | None:
        """Compare the longest sample's log-probabilities with those of one forward pass over it."""
        place, sample = max(
            ((row[0], sample) for row, sample in zip(rows, samples, strict=True)),
            key=lambda pair: len(questions[pair[0]].tokens) + len(pair[1].tokens),
        )
        if not sample.tokens:
            return None
        expected = np.cumsum(self._reference.log_p(questions[place].tokens, sample.tokens))
        return self._difference(sample.log_p[1:], expected)

    def _scores(self, job: Job, way: str) -> np.ndarray:
        if way != PLAIN and self._shared is not None:
            return self._shared.score(job, equal=way == EQUAL)
        return self._plain_scores(self._plain, job)

    def _plain_scores(self, scorer: PlainScorer, job: Job) -> np.ndarray:
        found: list[np.ndarray] = []
        self._memory.run(lambda _: found.append(scorer.score(job)), [0], "one branch")
        return found[0]

    def _way(self, job: Job) -> str:
        """Return how a job is scored, after a comparison if there was none yet of branches of this kind."""
        if self._shared is None:
            return PLAIN
        farthest = max(prefix.position for prefix in job.prefixes)
        longest = max(map(len, job.question.targets))
        kind = bisect_left(self._borders, len(job.question.tokens) + farthest + longest), farthest > 0, longest > 1
        if kind not in self.ways:
            self.ways[kind] = self._compared(_handful(job))
        return self.ways[kind]

    def _compared(self, job: Job) -> str:
        """Return the first way that gives a few branches the plain way's numbers."""
        assert self._shared is not None
        expected = self._plain_scores(self._reference, job)
        counted = self._shared.tokens_forwarded
        problem: object = None
        for way in (MIXED, EQUAL):
            try:
                problem = self._difference(self._shared.score(job, equal=way == EQUAL), expected)
            except UnsuitedModel as error:
                problem = error
            self._shared.tokens_forwarded = counted
            if problem is None:
                return way
            logger.info("%s: scoring in the way `%s` is not right (%s)", self._forward.name, way, problem)
        self._tell(problem)
        return PLAIN

    def _difference(self, found: np.ndarray, expected: np.ndarray) -> str | None:
        """Return what is wrong with some log-probabilities, or None."""
        absolute, relative = (1e-3, 1e-5) if self._exact else (0.5, 0.02)
        with np.errstate(invalid="ignore"):
            off = np.where(found == expected, 0.0, np.abs(found - expected) - absolute - relative * np.abs(expected))
        if not (off > 0).any() and not np.isnan(off).any():
            return None
        place = int(np.nanargmax(np.where(np.isnan(off), np.inf, off)))
        return f"log P is {found.flat[place]:.4f}, with a plain forward pass {expected.flat[place]:.4f}"


def _by_question(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [[row for row in rows if row[0] == place] for place in dict.fromkeys(row[0] for row in rows)]


def _handful(job: Job) -> Job:
    """Return the shortest, a middle and the longest branches of a job."""
    ranked = sorted(job.prefixes, key=lambda prefix: prefix.position)
    prefixes = list(dict.fromkeys(ranked[place] for place in (0, len(ranked) // 2, len(ranked) - 1)))
    targets = sorted(job.question.targets, key=len)
    longer = [target for target in targets if len(target) > 1] or targets
    chosen = tuple(dict.fromkeys((longer[0], longer[-1])))
    return replace(job, question=replace(job.question, targets=chosen), prefixes=prefixes)


def _is_exact(dtype: torch.dtype) -> bool:
    return bool(dtype.itemsize >= 4)


def _settings_of(config: Any) -> Mapping[str, Any]:
    return config.to_dict() if hasattr(config, "to_dict") else {}


def _names(config: Any) -> set[str]:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return {name for name, value in _settings_of(text).items() if value}


def _lengths(config: Any) -> Iterator[int]:
    """Give the lengths in a configuration, and in the parts of it, at which the model may change what it does."""
    waiting: list[Any] = [_settings_of(config)]
    while waiting:
        part = waiting.pop()
        for name, value in part.items():
            if isinstance(value, Mapping):
                waiting.append(value)
            elif name in _BORDERS and isinstance(value, int):
                yield value
