r"""Where the error of a mean score comes from: from the answers that happened to be drawn, or from the questions.

Question i has an expected score $\mu_i$, of which K answers $x_{ij} = \mu_i + \varepsilon_{ij}$ were drawn, with
$\mathrm{Var}(\varepsilon_{ij}) = \sigma_i^2$; questions are drawn from all that might have been asked. With the means
$\bar x_i$ of the $K_i$ answers, the variance of these means, $s^2 = \mathrm{var}(\bar x_i)$ with n - 1, and the
unbiased variances $s_i^2$ within questions,

$$\hat\sigma^2 = \frac1n\sum_i s_i^2, \qquad \hat\omega^2 = s^2 - \frac1n\sum_i\frac{s_i^2}{K_i}, \qquad
\mathrm{SE}^2 = \frac{s^2}{n} = \frac{\hat\omega^2}{n} + \frac1n\cdot\frac1n\sum_i\frac{s_i^2}{K_i}$$

are the prediction noise of one answer, the data noise, and the squared standard error of the mean of all $\bar x_i$
with its two parts. More answers make the second part smaller, only more questions the first. Of two models on the same
questions the same holds with the differences of their means, whose prediction noises add up. Source: E. Miller, Adding
Error Bars to Evals (2024), arXiv 2411.00640, sections 2.1, 3 and 4. What is undefined is NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lm_eval_healthcare.analysis.variances import Values, divided, moments


@dataclass(frozen=True)
class Noise:
    """The two noises of a mean, or of a difference of means, and its standard error.

    Attributes:
        value: The mean, or the difference.
        prediction: Prediction noise: variance of one answer's score about its question's expected one; of a difference
            that of both models together.
        data: Data noise: variance of the questions' expected scores. The unbiased estimate, which may come out below 0
            where it is nearly 0.
        se: Standard error of `value`.
        se_prediction: The part of it that more answers make smaller.
        se_data: The part that only more questions make smaller; 0 where the estimate of the data noise is below 0.
        n: Questions that count: those with two scores or more (of each model).
    """

    value: float
    prediction: float
    data: float
    se: float
    se_prediction: float
    se_data: float
    n: int


@dataclass(frozen=True)
class Needed:
    """What a wanted standard error takes.

    Attributes:
        se: The wanted standard error.
        repeats: Answers to each of the present questions; None if no number of answers is enough.
        prompts: Questions, with as many answers to each as now; None if that is not known.
    """

    se: float
    repeats: int | None
    prompts: int | None


def split(scores: ArrayLike) -> Noise:
    """Split the noise of a model's mean score.

    Args:
        scores: Shape (n questions, K answers); NaN where there is no score. Questions with fewer than two are left out.

    Raises:
        ValueError: If the array has another shape.
    """
    means, variances, counts = _moments(scores)
    use = counts > 1
    return _noise(means[use], variances[use], variances[use] / counts[use])


def split_difference(a: ArrayLike, b: ArrayLike) -> Noise:
    """Split the noise of the difference of two models' means, a - b, question by question.

    Args:
        a: Scores of one model, shape (n questions, K answers); NaN where there is no score.
        b: Scores of the other of the same questions in the same order, shape (n questions, any number of answers).

    Raises:
        ValueError: If the arrays have other shapes.
    """
    (means_a, var_a, n_a), (means_b, var_b, n_b) = _moments(a), _moments(b)
    if means_a.shape != means_b.shape:
        raise ValueError(f"{len(means_a)} and {len(means_b)} questions; both models need the same ones")
    use = (n_a > 1) & (n_b > 1)
    of_means = (var_a[use] / n_a[use]) + (var_b[use] / n_b[use])
    return _noise((means_a - means_b)[use], var_a[use] + var_b[use], of_means)


def needed(noise: Noise, se: float) -> Needed:
    r"""Return what it takes to come down to a standard error.

    With n questions, $K = \lceil \hat\sigma^2 / (n\,\mathrm{SE}^2 - \hat\omega^2) \rceil$ answers are enough, and no
    number of them where the data noise alone is more.

    Args:
        noise: What is known.
        se: The wanted standard error, above 0, in the unit of the scores.

    Raises:
        ValueError: If it is not above 0.
    """
    if not (se > 0 and math.isfinite(se)):
        raise ValueError(f"a standard error of {se} was asked for; expected a number above 0")
    if math.isnan(noise.se):
        return Needed(se, None, None)
    data = max(0.0, noise.data)
    room = noise.n * se * se - data
    share = noise.se / se
    return Needed(se, _ceil(noise.prediction / room) if room > 0 else None, _ceil(noise.n * share * share))


def _noise(means: Values, variances: Values, of_means: Values) -> Noise:
    n = len(means)
    if n < 2:
        nan = math.nan
        return Noise(float(means.mean()) if n else nan, float(variances.mean()) if n else nan, nan, nan, nan, nan, n)
    total, chance = float(means.var(ddof=1)), float(of_means.mean())
    data = total - chance
    se_data = math.sqrt(max(0.0, data) / n)
    return Noise(
        float(means.mean()), float(variances.mean()), data, math.sqrt(total / n), math.sqrt(chance / n), se_data, n
    )


def _moments(scores: ArrayLike) -> tuple[Values, Values, NDArray[np.int64]]:
    """Return means, unbiased variances and numbers of the scores of each question."""
    counts, means, squares = moments(scores)
    return means, divided(squares, counts - 1), counts


def _ceil(value: float) -> int | None:
    """Round up to 1 or more, but not because of rounding errors; None for what is beyond all numbers."""
    return max(1, math.ceil(round(value, 9))) if math.isfinite(value) else None
