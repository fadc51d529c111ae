"""The stored matrix of a document: from it every reading of Relaxed Perplexity is computed, without a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.prefixes import Prefix


@dataclass(frozen=True)
class Target:
    """The scores of one target.

    Attributes:
        length: Its tokens.
        bytes: Its bytes in UTF-8.
        log_p: float64, one for each prefix: log P(target | question, prefix) in nats; minus infinity for zero.
        reason: Why there are no scores, such as `target_too_long`; `log_p` is then empty.
        group: The list that the target belongs to, such as `must_have`; blank where there is one list only.
    """

    length: int
    bytes: int
    log_p: np.ndarray
    reason: str | None = None
    group: str = ""


@dataclass(frozen=True)
class Matrix:
    """One document: the prefixes, and the scores of its targets after each of them.

    Attributes:
        prefixes: The prefixes, by position.
        targets: The targets, in the order in which they were asked about.
        lengths: Tokens of each sample.
        log_p_samples: log P(sample | question) of each whole sample, in nats.
        seed: The document's seed.
        question_tokens: Tokens of the prompt as the model got it.
        context_cut: Tokens that were taken from the prompt's left to make room.
        engine: The engine that scored it.
        prefix_token: The text of the token that stood in for an empty prompt; None where there was a prompt.
        texts: The samples as text, if they are kept.
    """

    prefixes: tuple[Prefix, ...]
    targets: tuple[Target, ...]
    lengths: tuple[int, ...]
    log_p_samples: tuple[float, ...]
    seed: int
    question_tokens: int
    context_cut: int = 0
    engine: str = ""
    prefix_token: str | None = None
    texts: tuple[str, ...] = field(default=())

    @property
    def positions(self) -> list[int]:
        """The positions that have a prefix, in order."""
        return list(dict.fromkeys(prefix.position for prefix in self.prefixes))

    def by_position(self, values: Sequence[float] | np.ndarray) -> list[np.ndarray]:
        """Return one value a prefix as one float64 array a position."""
        places: dict[int, list[float]] = {}
        for prefix, value in zip(self.prefixes, values, strict=True):
            places.setdefault(prefix.position, []).append(float(value))
        return [np.asarray(found, dtype=np.float64) for found in places.values()]

    def thinned(self, *, stride: int | None = None, length: int | None = None, keep: int | None = None) -> Matrix:
        """Return the matrix as if it had been measured with a larger stride, a shorter length or fewer prefixes.

        Args:
            stride: Keep the positions that are multiples of it.
            length: Keep the positions up to it.
            keep: Keep so many prefixes at each position, the most likely ones.
        """
        kept, seen = [], dict.fromkeys(self.positions, 0)
        for place, prefix in enumerate(self.prefixes):
            if (stride and prefix.position % stride) or (length is not None and prefix.position > length):
                continue
            if keep is not None and seen[prefix.position] >= keep:
                continue
            seen[prefix.position] += 1
            kept.append(place)
        targets = tuple(replace(t, log_p=t.log_p[kept] if len(t.log_p) else t.log_p) for t in self.targets)
        return replace(self, prefixes=tuple(self.prefixes[place] for place in kept), targets=targets)

    def as_response(self) -> dict[str, Any]:
        """Return the matrix as JSON values, as sample logs and saved answers hold it; null is a probability of 0."""
        return {
            "engine": self.engine,
            "seed": self.seed,
            "question_tokens": self.question_tokens,
            "context_cut": self.context_cut,
            "prefix_token": self.prefix_token,
            "lengths": list(self.lengths),
            "log_p_samples": [_plain(value) for value in self.log_p_samples],
            "position": [prefix.position for prefix in self.prefixes],
            "sample": [prefix.sample for prefix in self.prefixes],
            "count": [prefix.count for prefix in self.prefixes],
            "log_p_prefix": [_plain(prefix.log_p) for prefix in self.prefixes],
            "targets": [
                {
                    "tokens": target.length,
                    "bytes": target.bytes,
                    "log_p": [_plain(value) for value in target.log_p],
                    **({"reason": target.reason} if target.reason else {}),
                    **({"group": target.group} if target.group else {}),
                }
                for target in self.targets
            ],
            **({"texts": list(self.texts)} if self.texts else {}),
        }

    @classmethod
    def from_response(cls, response: Mapping[str, Any]) -> Matrix:
        """Read what `as_response` wrote.

        Raises:
            ValueError: If it is something else.
        """
        try:
            branches = zip(
                response["position"], response["sample"], response["log_p_prefix"], response["count"], strict=True
            )
            prefixes = tuple(Prefix(int(i), int(k), _number(log_p), int(c)) for i, k, log_p, c in branches)
            return cls(
                prefixes,
                tuple(_target(item, len(prefixes)) for item in response["targets"]),
                tuple(map(int, response["lengths"])),
                tuple(map(_number, response["log_p_samples"])),
                int(response["seed"]),
                int(response["question_tokens"]),
                int(response.get("context_cut") or 0),
                str(response.get("engine") or ""),
                response.get("prefix_token"),
                tuple(response.get("texts") or ()),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a matrix of Relaxed Perplexity: {type(error).__name__}: {error}") from error


def _target(item: Mapping[str, Any], prefixes: int) -> Target:
    log_p = np.asarray([_number(value) for value in item["log_p"]], dtype=np.float64)
    reason = item.get("reason")
    if len(log_p) != (0 if reason else prefixes):
        raise ValueError(f"{len(log_p)} scores of a target for {prefixes} prefixes")
    return Target(int(item["tokens"]), int(item["bytes"]), log_p, reason, str(item.get("group") or ""))


def _plain(value: float) -> float | None:
    return None if value == -math.inf else float(value)


def _number(value: Any) -> float:
    return -math.inf if value is None else float(value)
