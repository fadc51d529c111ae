"""Scoring branches with vLLM in the best way that the engine offers, which has to prove itself before it is used."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lm_eval_healthcare.relaxed_perplexity.engines.vllm_ways import PLAIN, WAYS, Branch, Facts, Request, Way

logger = logging.getLogger(__name__)

AUTO = "auto"
Ask = Callable[[Sequence[Request]], Sequence[Any]]
"""Sends requests to vLLM all at once, and returns their outputs in the same order."""


class Scorer:
    """Scores branches, and chooses the way of it.

    Before the first branch is scored, a way scores a few branches, the plain way scores them, and the way scores them
    again in the opposite order, when the prefix cache holds everything. A way is used only if all three agree; if not,
    a warning says so and the next one is tried, the last of them the plain way.
    """

    def __init__(self, ask: Ask, facts: Facts, way: str = AUTO) -> None:
        """Choose what may be used.

        Args:
            ask: Sends requests.
            facts: What the engine can do.
            way: The name of a way, or `auto`: the best that proves itself, and the plain one where that is cheaper.

        Raises:
            ValueError: If there is no such way, or the engine lacks what it needs.
        """
        names = [each.name for each in WAYS]
        if way not in (AUTO, *names):
            raise ValueError(f"way={way} of scoring with vLLM: expected {AUTO} or one of {', '.join(names)}")
        self._ask, self._facts, self._auto = ask, facts, way == AUTO
        lacking = {each.name: each.missing(facts) for each in WAYS}
        if not self._auto and lacking[way]:
            raise ValueError(f"way={way} of scoring with vLLM needs {lacking[way]}")
        self._left = [each for each in WAYS if (not lacking[each.name] if self._auto else each.name == way)]
        self._proven = False
        self._trusts_first = True

    @property
    def way(self) -> Way:
        """The way in use."""
        return self._left[0]

    def log_p(self, branches: Sequence[Branch]) -> list[float]:
        """Return log P(target | question, prefix) of each branch, in nats; minus infinity for a probability of zero.

        Raises:
            RuntimeError: If vLLM gives no log-probabilities in any way, or others for the same request each time.
        """
        while branches:
            if not self._proven:
                self._prove(_handful(branches, self._facts))
            known = [self._trusted(branch) for branch in branches]
            try:
                return self._scored([(self._cheapest(branch), branch) for branch in known])
            except Exception as error:
                self._give_up(f"{type(error).__name__}: {error}", error)
        return []

    def _cheapest(self, branch: Branch) -> Way:
        costs_less = PLAIN.cost(branch, self._facts) <= self.way.cost(branch, self._facts)
        return PLAIN if self._auto and costs_less else self.way

    def _scored(self, pairs: Sequence[tuple[Way, Branch]]) -> list[float]:
        """Return a value for each branch, of all branches asked about at once.

        An answer that vLLM left out, as it does where the prefix cache holds a row that was asked for, is asked for
        again past the cache.
        """
        values: list[float | None] = [None if branch.asked else branch.value([]) for _, branch in pairs]
        for past_cache in (False, True):
            places = [place for place, value in enumerate(values) if value is None]
            if not places:
                break
            requests = [pairs[place][0].request(pairs[place][1]) for place in places]
            if past_cache and "skip_reading_prefix_cache" in self._facts.parameters:
                requests = [(tokens, {**params, "skip_reading_prefix_cache": True}) for tokens, params in requests]
            for place, output in zip(places, self._ask(requests), strict=True):
                way, branch = pairs[place]
                values[place] = way.value(branch, output)
        missing = values.count(None)
        if missing:
            raise RuntimeError(f"vLLM left the log-probabilities of {missing} of {len(pairs)} branches out")
        return [value for value in values if value is not None]

    def _prove(self, probe: Sequence[Branch]) -> None:
        """Compare the way in use with the plain one, in both orders, until one agrees."""
        while not self._proven:
            way, known = self.way, [self._trusted(branch) for branch in probe]
            try:
                forwards = self._scored([(way, branch) for branch in known])
                plain = self._scored([(PLAIN, replace(branch, first=None)) for branch in probe])
                backwards = self._scored([(way, branch) for branch in reversed(known)])[::-1]
            except Exception as error:
                self._give_up(f"{type(error).__name__}: {error}", error)
                continue
            worst = self._worst([*zip(forwards, plain, strict=True), *zip(backwards, plain, strict=True)])
            if not worst:
                self._proven = True
                logger.info("Relaxed Perplexity scores with vLLM in the way %s", way.name)
            elif any(branch.first is not None for branch in known):
                self._trusts_first = False
            else:
                self._give_up(worst)
        if not self._trusts_first:
            logger.warning(
                "Relaxed Perplexity: what was known of the targets' first tokens from sampling differs from one plain "
                "pass; they are scored again, which takes longer"
            )

    def _trusted(self, branch: Branch) -> Branch:
        return branch if self._trusts_first else replace(branch, first=None)

    def _worst(self, pairs: Iterable[tuple[float, float]]) -> str:
        """Return a description of the worst pair that differs by more than rounding explains, nothing if none does."""
        worst, text = 0.0, ""
        for value, plain in pairs:
            allowed = 1e-3 + 1e-5 * abs(plain) if self._facts.exact else 0.5 + 0.02 * abs(plain)
            off = 0.0 if value == plain else abs(value - plain) / allowed if math.isfinite(plain) else math.inf
            if off > max(1.0, worst):
                worst, text = off, f"{value:.6g} instead of {plain:.6g}"
        return text

    def _give_up(self, reason: str, error: Exception | None = None) -> None:
        """Leave the way in use for the next one, with a warning; raise an error if there is no other."""
        if len(self._left) == 1:
            advice = "; with enable_prefix_caching=False vLLM may be right" if self._facts.block and not error else ""
            raise RuntimeError(f"vLLM's way of scoring {self.way.name} failed: {reason}{advice}") from error
        failed = self._left.pop(0)
        self._proven, self._trusts_first = False, True
        logger.warning(
            "Relaxed Perplexity: vLLM's way of scoring %s failed and is not used, but %s, which may take longer: %s",
            failed.name, self.way.name, reason,
        )  # fmt: skip


def _handful(branches: Sequence[Branch], facts: Facts) -> list[Branch]:
    """Return a few branches of the first question: its shortest, its longest, and one at the end of a cache block."""
    ordered = sorted(branches, key=lambda branch: (len(branch.prompt), len(branch.target)))
    at_end = [branch for branch in ordered if facts.block and len(branch.prompt) % facts.block == 0]
    middle = (at_end or ordered)[len(at_end or ordered) // 2]
    return list(dict.fromkeys([ordered[0], middle, ordered[-1]]))
