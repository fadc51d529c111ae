r"""How much scores of one question differ when a model is asked again.

The scores of a metric are an array of shape (n prompts, K answers), NaN where there is no score. Of prompt i with the
scores $x_{i1},\dots,x_{iK_i}$ and their mean $\bar x_i$,

$$v_i = \frac1{K_i}\sum_j (x_{ij}-\bar x_i)^2, \qquad c_i = \frac{\sqrt{v_i}}{\bar x_i}$$

are the population variance and the coefficient of variation. The latter says something only on a scale that begins at
0, so it is undefined where a score is negative or the mean is nearly 0. Over several models, the variance of a prompt
is the mean over those in which it is defined; then follow the mean over prompts, and the variance over prompts. To
compare metrics, variances are divided by the square of the metric's range over all data. Source: D. Arias-Duart et al.,
Automatic Evaluation of Healthcare LLMs Beyond Question-Answering (2025), arXiv 2502.06666, Appendix C. Everything that
is undefined is NaN, and counted by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lm_eval_healthcare.analysis.variances import Values, column_means, divided, mean, moments, variance

NO_SCORE, SINGLE_SCORE = "no_score", "single_score"
NEGATIVE_VALUE, MEAN_NEAR_ZERO, SCALE_BELOW_ZERO = "negative_value", "mean_near_zero", "scale_below_zero"
NO_RANGE = "no_range"
"""Why a statistic is undefined."""
EPSILON = 1e-6
"""Up to this mean a coefficient of variation is undefined."""


@dataclass(frozen=True)
class PromptScores:
    """What the scores of one model say of each prompt; all arrays have shape (n prompts,).

    Attributes:
        means: Means of the scores that are there.
        variances: Population variances; NaN with fewer than two scores.
        cvs: Coefficients of variation, 0 or more.
        counts: Scores that are there.
        no_variance: Why a variance is undefined, empty where it is defined.
        no_cv: The same of coefficients of variation.
    """

    means: Values
    variances: Values
    cvs: Values
    counts: NDArray[np.int64]
    no_variance: list[str]
    no_cv: list[str]


def prompt_scores(scores: ArrayLike, *, below_zero: bool = False, epsilon: float = EPSILON) -> PromptScores:
    """Return the statistics of every prompt.

    Args:
        scores: Shape (n prompts, K answers); NaN where there is no score.
        below_zero: Whether the metric's scale goes below zero, so that no coefficient of variation means anything,
            whatever values there happen to be.
        epsilon: Up to this mean a coefficient of variation is undefined.

    Raises:
        ValueError: If the array has another shape, or holds infinite values.
    """
    values = _matrix(scores)
    counts, means, squares = moments(values)
    variances = divided(squares, np.where(counts > 1, counts, 0))
    negative = np.any(values < 0, axis=1).tolist()  # NaN is not below 0
    no_variance = [(NO_SCORE, SINGLE_SCORE, "")[min(count, 2)] for count in counts.tolist()]
    no_cv = list(no_variance)
    for row, why in enumerate(no_cv):
        if not why:
            no_cv[row] = (
                SCALE_BELOW_ZERO if below_zero
                else NEGATIVE_VALUE if negative[row]
                else "" if means[row] > epsilon
                else MEAN_NEAR_ZERO
            )  # fmt: skip
    defined = np.array([not why for why in no_cv], dtype=bool)
    cvs = np.full(len(values), np.nan)
    cvs[defined] = np.sqrt(variances[defined]) / means[defined]
    return PromptScores(means, variances, cvs, counts, no_variance, no_cv)


@dataclass(frozen=True)
class Spread:
    """What the prompts of one metric say together, over one model or several.

    Attributes:
        variances: Of each prompt the mean over the models in which it is defined, shape (n prompts,).
        cvs: The same of the coefficients of variation.
        mean_variance: Mean over the prompts that have one.
        variance_of_variance: Population variance over these prompts; NaN if there are fewer than two.
        mean_cv: Mean coefficient of variation over the prompts that have one.
        n_no_variance: Cells (a model's prompt) without a variance.
        n_undefined: Cells without a coefficient of variation.
        undefined: Those by reason.
    """

    variances: Values
    cvs: Values
    mean_variance: float
    variance_of_variance: float
    mean_cv: float
    n_no_variance: int
    n_undefined: int
    undefined: dict[str, int]


def spread(models: Sequence[PromptScores]) -> Spread:
    """Put the prompts of several models together.

    Args:
        models: The same prompts in the same order of each; one that a model lacks has no score there.

    Raises:
        ValueError: If there is no model, or they have different numbers of prompts.
    """
    if not models or len({len(one.means) for one in models}) > 1:
        raise ValueError("expected one or more models with the same prompts in the same order")
    variances = column_means(np.array([one.variances for one in models]))
    cvs = column_means(np.array([one.cvs for one in models]))
    reasons = Counter(why for one in models for why in one.no_cv if why)
    return Spread(
        variances=variances,
        cvs=cvs,
        mean_variance=mean(variances),
        variance_of_variance=variance(variances),
        mean_cv=mean(cvs),
        n_no_variance=sum(bool(why) for one in models for why in one.no_variance),
        n_undefined=reasons.total(),
        undefined=dict(sorted(reasons.items())),
    )


def _matrix(scores: ArrayLike) -> Values:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"scores have shape {values.shape}; expected (prompts, answers), NaN where there is no score")
    if np.isinf(values).any():
        raise ValueError("scores hold infinite values; put NaN where there is no score")
    return values
