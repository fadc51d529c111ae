r"""How far a metric moves when an answer is only reworded.

For one model and one question there are the score $s_0$ of the original answer and $s_1, \dots, s_n$ of rewordings.
Their population variance (divided by their number) is divided by the squared range of the metric over all data of the
study, $(\max - \min)^2$, so that metrics of any scale can be compared: it lies between 0 and 1/4. A question's variance
is the mean over the models that have one; a metric's *mean variance* and *variance of variances* are the mean and the
population variance of that over questions.

Source: "Automatic Evaluation of Healthcare LLMs Beyond Question-Answering" (arXiv 2502.06666), section 3.4 and
Appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lm_eval_healthcare.analysis.repeated_scores import NO_RANGE
from lm_eval_healthcare.analysis.variances import (
    Values,
    divided,
    mean,
    moments,
    population_variances,
    scaled,
    value_range,
    variance,
)

TOO_FEW_VERSIONS = "fewer_than_two_versions"
NEAR_IN_MEAN, NEAR_IN_SPREAD = 10**0.5, 10.0
"""Metrics belong together whose mean variances, and variances of variances, are within these factors of each other."""


@dataclass(frozen=True)
class VersionScores:
    """What one rewording does.

    Attributes:
        mean: Mean score over the answers that have it; NaN if none has.
        mean_change: Mean of the score less that of the original, over answers that have both; NaN if none has.
        n: Answers that have it.
    """

    mean: float
    mean_change: float
    n: int


@dataclass(frozen=True)
class Resilience:
    """How one metric moves. What does not exist is NaN.

    Attributes:
        range: Smallest and largest score of the study.
        variances: Scaled variance of each question, the mean over models.
        raw_variances: The same without scaling.
        mean_variance: Mean of `variances`.
        variance_of_variance: Their population variance; NaN if there are fewer than two.
        raw_mean_variance: Mean of `raw_variances`.
        raw_variance_of_variance: Their population variance.
        n_prompts: Questions looked at.
        undefined: Answers without a scaled variance, by reason.
        no_variance: Answers whose versions all have the same score.
        mean_change: Mean over answers of the rewordings' mean less the original.
        versions: The largest number of scores in a variance, the original included where it counts.
        fewest_versions: The smallest number of scores in a variance that exists; 0 if none does.
        by_version: What each column does; the original is the first.
    """

    range: tuple[float, float]
    variances: Values
    raw_variances: Values
    mean_variance: float
    variance_of_variance: float
    raw_mean_variance: float
    raw_variance_of_variance: float
    n_prompts: int
    undefined: Mapping[str, int]
    no_variance: int
    mean_change: float
    versions: int
    fewest_versions: int
    by_version: Sequence[VersionScores] = field(default_factory=tuple)

    @property
    def n_undefined(self) -> int:
        """Answers without a scaled variance."""
        return sum(self.undefined.values())


def resilience(
    scores: ArrayLike,
    prompts: ArrayLike,
    *,
    limits: tuple[float, float] | None = None,
    with_original: bool = True,
) -> Resilience:
    """Measure one metric.

    Args:
        scores: Shape (answers, 1 + rewordings): an answer is that of one model to one question, the first column is the
            original, NaN is no score.
        prompts: Shape (answers,): the number of each answer's question; equal ones are one question to several models.
        limits: The metric's smallest and largest score in the whole study; None for those of `scores`.
        with_original: Whether the original is one of the versions in a variance.

    Raises:
        ValueError: If the shapes do not fit.
    """
    values, places = _finite(scores), np.asarray(prompts, dtype=np.int64)
    if values.ndim != 2 or places.shape != values.shape[:1] or values.shape[1] < 1:
        raise ValueError(
            f"scores of shape {values.shape} with prompts of shape {places.shape}; expected (answers, versions) and "
            "(answers,), with the original in the first column"
        )
    low, high = limits if limits is not None else value_range([values])
    used = values if with_original else values[:, 1:]
    raw = population_variances(used)
    on_scale = scaled(raw, low, high)
    few = np.isnan(raw)
    undefined = {TOO_FEW_VERSIONS: int(few.sum()), NO_RANGE: int((np.isnan(on_scale) & ~few).sum())}
    by_prompt, raw_by_prompt = _means_by_prompt(on_scale, places), _means_by_prompt(raw, places)
    counts = (~np.isnan(used)).sum(axis=1)[~few]
    return Resilience(
        range=(low, high),
        variances=by_prompt,
        raw_variances=raw_by_prompt,
        mean_variance=mean(by_prompt),
        variance_of_variance=variance(by_prompt),
        raw_mean_variance=mean(raw_by_prompt),
        raw_variance_of_variance=variance(raw_by_prompt),
        n_prompts=len(by_prompt),
        undefined={reason: n for reason, n in undefined.items() if n},
        no_variance=int((raw == 0).sum()),
        mean_change=mean(moments(values[:, 1:]).means - values[:, 0]),
        versions=int(counts.max(initial=0)),
        fewest_versions=int(counts.min()) if counts.size else 0,
        by_version=tuple(_of_version(values, column) for column in range(values.shape[1])),
    )


def clusters(mean_variance: Mapping[str, float], variance_of_variance: Mapping[str, float]) -> list[list[str]]:
    """Return groups of metrics that move alike, the steadiest first, and the steadiest metric of each first.

    Two metrics belong together if their mean variances are within a factor of `NEAR_IN_MEAN` (half a decade), and their
    variances of variances within one of `NEAR_IN_SPREAD` (a decade); so do metrics that a chain of such pairs joins.
    On a log scale zero is infinitely far away, so metrics that never move are a group of their own, and a variance of
    variances of zero is near another zero only. Metrics that lack either of the two are in no group.

    Args:
        mean_variance: By metric.
        variance_of_variance: By metric.
    """
    names = sorted(
        (name for name, value in mean_variance.items() if not math.isnan(value + variance_of_variance[name])),
        key=lambda name: (mean_variance[name], name),
    )
    group = {name: place for place, name in enumerate(names)}
    for place, one in enumerate(names):
        for other in names[:place]:
            if _near(mean_variance[one], mean_variance[other], NEAR_IN_MEAN) and _near(
                variance_of_variance[one], variance_of_variance[other], NEAR_IN_SPREAD
            ):
                kept, gone = sorted((group[one], group[other]))
                group = {name: kept if number == gone else number for name, number in group.items()}
    return [[name for name in names if group[name] == number] for number in sorted(set(group.values()))]


def _near(one: float, other: float, factor: float) -> bool:
    if one == 0 or other == 0:
        return one == other
    return max(one, other) <= factor * min(one, other) * (1 + 1e-9)


def _of_version(values: Values, column: int) -> VersionScores:
    score = values[:, column]
    return VersionScores(mean(score), mean(score - values[:, 0]), int((~np.isnan(score)).sum()))


def _finite(scores: ArrayLike) -> Values:
    values = np.asarray(scores, dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _means_by_prompt(values: Values, places: NDArray[np.int64]) -> Values:
    """Return the mean of what is defined for each question, in the order of their numbers."""
    _, inverse = np.unique(places, return_inverse=True)
    there = ~np.isnan(values)
    size = int(inverse.max(initial=-1)) + 1
    n = np.bincount(inverse[there], minlength=size)
    total = np.bincount(inverse[there], weights=values[there], minlength=size)
    return divided(total, n)
