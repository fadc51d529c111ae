r"""95% intervals of a correlation coefficient from resampled models.

Which one is used was chosen by simulation, of normal columns with a coefficient of 0, 0.5 and 0.9 and of Student's t
with 5 degrees of freedom (`tests/analysis/test_correlation_intervals.py`):

* Pearson: at 12 to 30 models the percentile interval holds the truth too rarely (87 to 92% instead of 95), BCa a little
  more often (90 to 94%). Percentiles that are moved outwards as Student's t with n - 1 degrees and a variance over
  n - 1 would move them reach 92 to 96%. Source of the correction: T. C. Hesterberg, What Teachers Should Know About the
  Bootstrap, The American Statistician 69 (2015), 371-386. Fisher's z is as good for normal columns (93 to 96%), and too
  narrow for others (86 to 91%).
* Spearman: BCa, 94 to 97%. Source: B. Efron, Better Bootstrap Confidence Intervals, Journal of the American Statistical
  Association 82 (1987), 171-185.
* Kendall: the plain percentile interval, which the ties within a resample make wide enough, 94 to 97%.

Five models hold what they can: 92 to 98% for Pearson, 92 to 99.5% for Spearman and 98 to 100% for Kendall, with
intervals that often reach over half of what is possible and more.

Where two orders of models are the same, or the opposite, every resample is too, and an interval without any width would
claim that no other model could differ. There the coefficient is moved inwards by half of the smallest step it can make,
and the inner end is that of the normal interval of $\operatorname{artanh} r$ with the standard error of D. G. Bonett
and T. A. Wright, Psychometrika 65 (2000), 23-28.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.coefficients import KENDALL, PEARSON, SPEARMAN

PERCENTILE, BCA, EXPANDED, ORDER = "percentile", "bca", "expanded_percentile", "perfect_order"
INTERVALS = (PERCENTILE, BCA, EXPANDED)
CHOSEN = {PEARSON: EXPANDED, SPEARMAN: BCA, KENDALL: PERCENTILE}
"""The interval for each coefficient, by simulation."""

FEWEST_MODELS = 5
"""Below this there is no interval: four models have 35 different resamples, and most of them tie or repeat."""

_NORMAL = statistics.NormalDist()
_Z = _NORMAL.inv_cdf(0.975)
_SAME = 1e-12

Draws = NDArray[np.float64]
Ends = tuple[float, float]
NO_INTERVAL: Ends = (math.nan, math.nan)


def check_interval(kind: str) -> None:
    """Refuse a kind of interval that does not exist.

    Raises:
        ValueError: If it does not.
    """
    if kind not in INTERVALS:
        raise ValueError(f"interval '{kind}': expected one of {', '.join(INTERVALS)}")


def interval(r: float, draws: Draws, left_out: Draws, method: str, kind: str | None = None) -> tuple[Ends, str]:
    """Return the 95% interval of a coefficient and its kind.

    Args:
        r: The coefficient.
        draws: Those of resampled models; NaN for a resample in which it is undefined, which is left out.
        left_out: Those with one model left out each, as many as there are models.
        method: `pearson`, `spearman` or `kendall`.
        kind: `percentile`, `bca` or `expanded_percentile`; None for the chosen one.

    Returns:
        Both ends, NaN twice if there are fewer than 5 models, or if the coefficient is undefined in half of the
        resamples or more; and the kind, which is `perfect_order` for equal or opposite ranks.

    Raises:
        ValueError: If the kind is unknown.
    """
    kind = kind or CHOSEN[method]
    check_interval(kind)
    n, defined = len(left_out), draws[np.isfinite(draws)]
    if math.isnan(r) or n < FEWEST_MODELS or 2 * len(defined) <= len(draws):
        return NO_INTERVAL, ""
    if method != PEARSON and abs(r) > 1 - _SAME:
        return perfect_order(r, n, method), ORDER
    if kind == BCA:
        low, high = _bca_levels(r, defined, left_out)
    else:
        low = _expanded_level(n) if kind == EXPANDED else 0.025
        high = 1 - low
    ends = np.quantile(defined, [low, high])
    return (float(ends[0]), float(ends[1])), kind


def _expanded_level(n: int) -> float:
    from scipy import stats

    return _NORMAL.cdf(math.sqrt(n / (n - 1)) * float(stats.t.ppf(0.025, n - 1)))


def _bca_levels(r: float, draws: Draws, left_out: Draws) -> Ends:
    below = float((draws < r - _SAME).sum() + 0.5 * (np.abs(draws - r) <= _SAME).sum()) / len(draws)
    edge = 1 / (len(draws) + 1)
    bias = _NORMAL.inv_cdf(min(max(below, edge), 1 - edge))
    kept = left_out[np.isfinite(left_out)]
    distance = kept.mean() - kept if len(kept) else np.zeros(1)
    squares = float((distance**2).sum())
    acceleration = float((distance**3).sum()) / (6 * squares**1.5) if squares > _SAME**2 else 0.0
    levels = [_NORMAL.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-_Z, _Z)]
    return levels[0], levels[1]


def perfect_order(r: float, n: int, method: str) -> Ends:
    """Return the interval of a rank coefficient of 1 or -1.

    Args:
        r: 1 or -1.
        n: Models, 5 or more.
        method: `spearman` or `kendall`.
    """
    # The smallest step is two neighbours that change places: 12 / (n^3 - n) for Spearman, 4 / (n^2 - n) for Kendall.
    inner = 1 - (6 / (n**3 - n) if method == SPEARMAN else 2 / (n * n - n))
    error = math.sqrt((1 + inner**2 / 2) / (n - 3) if method == SPEARMAN else 0.437 / (n - 4))
    inmost = math.tanh(math.atanh(inner) - _Z * error)
    return (inmost, 1.0) if r > 0 else (-1.0, -inmost)


def fisher_z(r: float, n: int) -> Ends:
    r"""Return Fisher's 95% interval of Pearson's coefficient of normal columns.

    $$\tanh\left(\operatorname{artanh} r \pm \frac{1.96}{\sqrt{n - 3}}\right)$$

    Args:
        r: The coefficient.
        n: Models.

    Returns:
        Both ends; NaN twice for fewer than 4 models or an undefined coefficient; r twice for 1 and -1.
    """
    if math.isnan(r) or n < 4:
        return NO_INTERVAL
    if abs(r) > 1 - _SAME:
        return r, r
    reach = _Z / math.sqrt(n - 3)
    return math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)
