"""Sampled completions, and the choice of the prefixes after which targets are scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

Tokens = tuple[int, ...]

_ABOVE_ROUNDING = 1e-3  # nats: a prefix's log P is a sum, and rounding adds up


class UnknownPrefixError(ValueError):
    """The model did not say how likely a prefix is."""


@dataclass(frozen=True)
class Sample:
    """One sampled completion of a question.

    Attributes:
        tokens: Its tokens, without the end-of-text token that may have ended it.
        log_p: float64, shape (tokens + 1,): entry i is log P(first i tokens | question) of the model itself, in nats,
            before temperature and top-p; entry 0 is 0. NaN at prefix lengths where an engine does not know it; the
            positions at which targets are scored, and the last entry, are always known.
        first: float64, shape (targets, tokens + 1), where an engine knows it without further work: entry (j, i) is the
            log-probability that the token after the first i tokens is the first of target j. None otherwise.
    """

    tokens: Tokens
    log_p: np.ndarray
    first: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check the shape, which everything after relies on."""
        if self.log_p.shape != (len(self.tokens) + 1,):
            raise ValueError(
                f"log_p of shape {self.log_p.shape} for {len(self.tokens)} tokens; expected one more entry"
            )


@dataclass(frozen=True)
class Prefix:
    """A beginning of a completion, after which targets are scored.

    Attributes:
        position: Its length in tokens.
        sample: The place of a sample that begins with it.
        log_p: log P(prefix | question) of the model, in nats.
        count: How many of the samples begin with it.
    """

    position: int
    sample: int
    log_p: float
    count: int


def choose(samples: Sequence[Sample], settings: Settings) -> list[Prefix]:
    """Return the prefixes after which targets are scored, by position, the most likely first.

    At each position the distinct beginnings of the samples that have so many tokens are ranked, and the first `keep`
    are taken. The empty prefix at position 0 is there once. Equally likely prefixes keep the order of the samples.
    Positions beyond the longest sample have none.

    Args:
        samples: The completions of one question.
        settings: Which positions, how many prefixes, and by which log-probability they are ranked.

    Raises:
        UnknownPrefixError: If the log-probability of a prefix is NaN or above 0.
    """
    chosen = [Prefix(0, 0, 0.0, len(samples))]
    for position in settings.positions[1:]:
        groups: dict[Tokens, list[int]] = {}
        for place, sample in enumerate(samples):
            if len(sample.tokens) >= position:
                groups.setdefault(sample.tokens[:position], []).append(place)
        ranked = []
        for places in groups.values():
            best = max(places, key=lambda place: samples[place].log_p[-1])
            of_prefix = float(samples[places[0]].log_p[position])
            rank = of_prefix if settings.order == "prefix" else float(samples[best].log_p[-1])
            if math.isnan(rank) or not of_prefix < _ABOVE_ROUNDING:
                raise UnknownPrefixError(f"log P of a prefix of {position} tokens is {of_prefix}")
            ranked.append((-rank, places[0], Prefix(position, places[0], of_prefix, len(places))))
        ranked.sort(key=lambda item: item[:2])
        chosen += [prefix for _, _, prefix in ranked[: settings.keep]]
    return chosen
