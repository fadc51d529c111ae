"""Statements of "Automatic Evaluation of Healthcare LLMs Beyond Question-Answering" as checks on any scores.

Source: arXiv 2502.06666, section 3.3 and the sections on multiple choice. Each statement becomes one number with its
95% interval over resampled models; it holds if the whole interval says so, and does not if the whole interval says the
contrary. Otherwise these models cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.clusters import coefficients_of
from lm_eval_healthcare.analysis.coefficients import PEARSON, Cube, check_method
from lm_eval_healthcare.analysis.directions import prepare
from lm_eval_healthcare.analysis.intervals import FEWEST_MODELS, fisher_z, perfect_order
from lm_eval_healthcare.analysis.scores import Scores
from lm_eval_healthcare.analysis.selections import benchmark

HOLDS, DOES_NOT_HOLD, CANNOT_TELL = "holds", "does not hold", "cannot tell"

FAMILIES = {
    "perplexities": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "n-gram metrics": ("bleu", "rouge1", "rouge2", "rougeL"),
    "semantic and judge": ("bert_score", "bleurt", "mover_score", "prometheus"),
}
"""The three clusters of metrics in the paper's section 3.3."""

PERPLEXITY_LEVEL = 0.96
AVERAGES = ("mcqa_weighted/acc",)
"""Columns that are averages of others, with which they go together by definition."""
N_BOOTSTRAP = 2000

Numbers = NDArray[np.float64]
Pairs = list[tuple[int, int]]

_ACCURACIES = ("acc", "acc_norm")
_AT_ONCE = 200


@dataclass(frozen=True)
class Claim:
    """What the scores say of one statement.

    Attributes:
        name: Short name.
        statement: The statement, in words.
        verdict: `holds`, `does not hold` or `cannot tell`.
        measured: What `value` is.
        value: The number; NaN if it cannot be computed.
        low: Lower end of its 95% interval; NaN where there is none.
        high: Upper end.
        n: Models: the fewest of any pair that counts.
        why: Why it cannot be told; empty otherwise.
        columns: The columns that count.
    """

    name: str
    statement: str
    verdict: str
    measured: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    why: str = ""
    columns: tuple[str, ...] = field(default_factory=tuple)

    @property
    def detail(self) -> str:
        """The number with its interval and n, and why it cannot be told, in words."""
        if math.isnan(self.value):
            return self.why
        ends = "" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"
        said = f"{self.measured}: {self.value:.3f}{ends}, n = {self.n}"
        return f"{said}; {self.why}" if self.why else said


def check_claims(
    scores: Scores,
    method: str = "spearman",
    *,
    rng: np.random.Generator,
    n_bootstrap: int = N_BOOTSTRAP,
    averages: Collection[str] = AVERAGES,
) -> list[Claim]:
    """Check the paper's statements on scores: perplexities, three clusters of metrics, and PubMedQA.

    Args:
        scores: The scores; columns of metrics and tasks that no statement is about do not matter.
        method: `pearson`, `spearman` or `kendall`.
        rng: Draws the models.
        n_bootstrap: How often.
        averages: Columns to leave out because they are averages of others.
    """
    check_method(method)
    known = {*_ACCURACIES, *(metric for metrics in FAMILIES.values() for metric in metrics)}
    kept = [one.name for one in scores.columns if one.metric in known and one.name not in averages]
    evidence = _Evidence(scores.take(kept), method, rng, n_bootstrap)
    return [_perplexities(evidence), _three_clusters(evidence), _pubmedqa(evidence)]


class _Evidence:
    """Coefficients of all pairs, of the scores and of resampled models."""

    def __init__(self, scores: Scores, method: str, rng: np.random.Generator, n_bootstrap: int) -> None:
        self._ready = prepare(scores)
        models = len(self._ready.models)
        self.columns, self.method = scores.columns, method
        share = np.full(max(1, models), 1 / max(1, models))
        self._times = rng.multinomial(models, share, size=n_bootstrap).astype(np.float64)[:, :models]
        self.real = coefficients_of(self._ready, np.ones((1, models)), method)
        there = np.isfinite(self._ready.values).astype(np.int64)
        self._common = there.T @ there

    def places(self, metrics: Collection[str]) -> list[int]:
        """Columns of some metrics that have a coefficient with another column."""
        others = self.real[0].copy()
        np.fill_diagonal(others, np.nan)
        usable = np.isfinite(others).any(axis=1)
        return [place for place, one in enumerate(self.columns) if one.metric in metrics and usable[place]]

    def pairs(self, one: Collection[int], other: Collection[int] | None = None, *, within: bool = False) -> Pairs:
        """Pairs with a coefficient: of some columns, or of these with others; `within` one benchmark if asked."""
        every = combinations(one, 2) if other is None else ((a, b) for a in one for b in other)
        return [
            (a, b)
            for a, b in every
            if np.isfinite(self.real[0, a, b])
            and (not within or benchmark(self.columns[a]) == benchmark(self.columns[b]))
        ]

    def measure(self, statistic: Callable[[Cube], Numbers]) -> tuple[float, float, float]:
        """Return a statistic of coefficients with its percentile interval."""
        value = float(statistic(self.real)[0])
        parts = [self._times[start : start + _AT_ONCE] for start in range(0, len(self._times), _AT_ONCE)]
        drawn = np.concatenate([statistic(coefficients_of(self._ready, part, self.method)) for part in parts])
        drawn = drawn[np.isfinite(drawn)]
        if 2 * len(drawn) <= len(self._times):
            return value, math.nan, math.nan
        low, high = np.quantile(drawn, [0.025, 0.975])
        return value, float(low), float(high)

    def filled(self, claim: Claim, measured: tuple[float, float, float], pairs: Pairs) -> Claim:
        """Return a claim with its number, the fewest models of a pair, and the columns that count."""
        value, low, high = measured
        names = tuple(self.columns[place].name for place in sorted({place for pair in pairs for place in pair}))
        n = min(int(self._common[pair]) for pair in pairs)
        return replace(claim, value=value, low=low, high=high, n=n, columns=names)


def _judge(claim: Claim, level: float, above: bool) -> Claim:
    """Fill in the verdict: is the number above a level, or below it?"""
    why = ""
    if math.isnan(claim.value):
        why = claim.why or "the number cannot be computed"
    elif claim.n < FEWEST_MODELS:
        why = f"{claim.n} common models; an interval needs {FEWEST_MODELS} or more"
    elif math.isnan(claim.low):
        why = "too many resamples in which it is undefined"
    if why:
        return replace(claim, verdict=CANNOT_TELL, low=math.nan, high=math.nan, why=why)
    if claim.low > level or claim.high < level:
        return replace(claim, verdict=HOLDS if (claim.low > level) == above else DOES_NOT_HOLD)
    return replace(claim, verdict=CANNOT_TELL, why=f"the interval includes {level:g}")


def _perplexities(evidence: _Evidence) -> Claim:
    claim = Claim(
        "perplexities", f"the perplexities of a benchmark correlate above {PERPLEXITY_LEVEL}", CANNOT_TELL,
        "lowest coefficient of two perplexities of one benchmark",
    )  # fmt: skip
    pairs = evidence.pairs(evidence.places(FAMILIES["perplexities"]), within=True)
    if not pairs:
        return replace(claim, why="no benchmark with two perplexities of 3 or more common models")
    first, second = np.array(pairs).T
    found = evidence.filled(claim, evidence.measure(lambda r: r[:, first, second].min(axis=1)), pairs)
    if found.n >= FEWEST_MODELS and found.value > 1 - 1e-12:
        # Equal in every resample: the interval of a perfect order, not one without width.
        pearson = evidence.method == PEARSON
        low, high = fisher_z(1.0, found.n) if pearson else perfect_order(1.0, found.n, evidence.method)
        found = replace(found, low=low, high=high)
    return _judge(found, PERPLEXITY_LEVEL, above=True)


def _three_clusters(evidence: _Evidence) -> Claim:
    claim = Claim(
        "three clusters",
        "metrics form three clusters: perplexities, n-gram metrics, semantic ones with the judge",
        CANNOT_TELL,
        "smallest lead, over two clusters, of the mean |r| within them over the mean |r| between them",
    )
    families = [evidence.places(metrics) for metrics in FAMILIES.values()]
    within = [evidence.pairs(places, within=True) for places in families]
    for name, pairs in zip(FAMILIES, within, strict=True):
        if not pairs:
            return replace(claim, why=f"no benchmark with two usable columns of {name} ({', '.join(FAMILIES[name])})")
    between = {(f, g): evidence.pairs(families[f], families[g], within=True) for f, g in combinations(range(3), 2)}
    if not all(between.values()):
        return replace(claim, why="no benchmark with columns of two of the clusters")

    def lead(r: Cube) -> Numbers:
        inside = [_mean(np.abs(r), pairs) for pairs in within]
        leads = [(inside[f] + inside[g]) / 2 - _mean(np.abs(r), pairs) for (f, g), pairs in between.items()]
        return np.asarray(np.min(leads, axis=0), dtype=np.float64)

    used = [pair for pairs in (*within, *between.values()) for pair in pairs]
    return _judge(evidence.filled(claim, evidence.measure(lead), used), 0.0, above=True)


def _pubmedqa(evidence: _Evidence) -> Claim:
    claim = Claim(
        "PubMedQA", "PubMedQA stands apart from the other multiple choice benchmarks", CANNOT_TELL,
        "mean r of PubMedQA with the others less the mean r of the others among themselves",
    )  # fmt: skip
    choice = evidence.places(_ACCURACIES)
    apart = [place for place in choice if "pubmedqa" in evidence.columns[place].task.lower().replace("_", "")]
    mine = evidence.pairs(apart, [place for place in choice if place not in apart])
    others = evidence.pairs([place for place in choice if place not in apart])
    if not mine or not others:
        return replace(claim, why="needs accuracies of PubMedQA and of two other benchmarks or more")
    measured = evidence.measure(lambda r: _mean(r, mine) - _mean(r, others))
    return _judge(evidence.filled(claim, measured, [*mine, *others]), 0.0, above=False)


def _mean(r: Cube, pairs: Pairs) -> Numbers:
    """Mean coefficient of pairs, those left out that are undefined; NaN where all are."""
    first, second = np.array(pairs).T
    taken = r[:, first, second]
    there = np.isfinite(taken)
    count = there.sum(axis=1)
    total = np.where(there, taken, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
