"""Shares of documents with their 95% intervals."""

from __future__ import annotations

import math
import statistics

from lm_eval_healthcare.judge.paired import TOO_FEW, Statistic, undefined

_Z = statistics.NormalDist().inv_cdf(0.975)


def wilson(successes: float, n: int) -> tuple[float, float]:
    r"""Return Wilson's 95% interval of a share, within [0, 1].

    $$\frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}$$

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209-212.

    Args:
        successes: From 0 to n. Halves are allowed, for ties: these vary less than the formula supposes, so that the
            interval is then rather too wide.
        n: Documents.

    Returns:
        Both ends; NaN twice without documents.
    """
    if not n:
        return math.nan, math.nan
    p, z2 = successes / n, _Z**2
    centre = p + z2 / (2 * n)
    reach = _Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low, high = (centre - reach) / (1 + z2 / n), (centre + reach) / (1 + z2 / n)
    # At 0 and at n successes the formula gives the ends themselves, but for rounding.
    return (0.0 if successes <= 0 else max(0.0, low)), (1.0 if successes >= n else min(1.0, high))


def share(successes: float, n: int, *, tested: bool = False, reason: str = TOO_FEW) -> Statistic:
    """Return a share of documents with Wilson's interval.

    Args:
        successes: Documents that count; halves for ties.
        n: All documents.
        tested: Also give the exact two-sided binomial p-value against 0.5; whole successes only.
        reason: Why there is no share if there are no documents.
    """
    if not n:
        return undefined(0, reason)
    low, high = wilson(successes, n)
    p = math.nan
    if tested:
        from scipy import stats

        p = float(stats.binomtest(int(successes), n, 0.5).pvalue)
    return Statistic(successes / n, n, p=p, low=low, high=high)
