r"""From scores of documents to one number with its error: the mean, or the median, over the scored documents.

With the n values that exist, $\bar x = \frac1n\sum_i x_i$ and its standard error
$s_{\bar x} = \sqrt{\frac{\sum_i (x_i-\bar x)^2}{n(n-1)}}$: closed forms, no bootstrap. The error of the median has a
closed form too, see `scored_median_stderr`.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FEWEST_FOR_MEDIAN_STDERR = 7
_Z = statistics.NormalDist().inv_cdf(0.995)


def scored(values: Iterable[float]) -> list[float]:
    """Return the values that exist, that is, all but NaN."""
    return [float(value) for value in values if not math.isnan(value)]


def scored_mean(values: Sequence[float]) -> float:
    """Return the mean over the scored documents.

    Args:
        values: One value per document; NaN means that the document has no score.

    Returns:
        The mean of the others, or NaN if no document was scored.
    """
    existing = scored(values)
    return math.fsum(existing) / len(existing) if existing else math.nan


def scored_mean_stderr(values: Sequence[float]) -> float:
    """Return the standard error of `scored_mean` in closed form.

    Args:
        values: One value per document; NaN means that the document has no score.

    Returns:
        The standard error, or NaN if fewer than two documents were scored.
    """
    existing = scored(values)
    n = len(existing)
    if n < 2:
        return math.nan
    mean = math.fsum(existing) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in existing) / (n - 1) / n)


def scored_median(values: Sequence[float]) -> float:
    """Return the median over the scored documents, which one extreme document cannot move far.

    Args:
        values: One value per document; NaN means that the document has no score, infinity is a value.

    Returns:
        The middle one of the others, the mean of the two middle ones if their number is even, or NaN if no document
        was scored.
    """
    existing = scored(values)
    return statistics.median(existing) if existing else math.nan


def scored_median_stderr(values: Sequence[float]) -> float:
    r"""Return the standard error of `scored_median` by McKean and Schrader's estimate, in closed form.

    With the n values in order, $x_{(1)} \le \dots \le x_{(n)}$, and $z = 2.5758$, the 0.995 quantile of the normal
    distribution,

    $$s = \frac{x_{(n-k+1)} - x_{(k)}}{2z}, \qquad k = \left[\frac{n+1}{2} - z\sqrt{\frac n4}\right]$$

    where brackets round to the nearest whole number: the two order statistics enclose the true median in about 99 % of
    all samples, whatever the distribution, so their distance is about 2 z standard errors. Source: J. W. McKean and
    R. M. Schrader, A comparison of methods for studentizing the sample median, Communications in Statistics -
    Simulation and Computation 13 (1984), 751-773. For few values of a skewed distribution it is too large on average
    (by a fifth for 15 values of an exponential one), and where many values are equal too small, 0 at worst.

    Args:
        values: One value per document; NaN means that the document has no score.

    Returns:
        The standard error; NaN if fewer than 7 documents were scored, where k would be below 1, or if it is not finite.
    """
    existing = sorted(scored(values))
    n = len(existing)
    if n < _FEWEST_FOR_MEDIAN_STDERR:
        return math.nan
    k = round((n + 1) / 2 - _Z * math.sqrt(n / 4))
    low, high = existing[k - 1], existing[n - k]
    return (high - low) / (2 * _Z) if math.isfinite(low) and math.isfinite(high) else math.nan
