"""p-values of many tests at once, corrected so that chance finds are rare among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HOLM, BENJAMINI_HOCHBERG = "holm", "bh"
ADJUSTMENTS = (HOLM, BENJAMINI_HOCHBERG)

Values = NDArray[np.float64]


def check_adjustment(how: str) -> None:
    """Refuse a correction that does not exist.

    Raises:
        ValueError: If it does not.
    """
    if how not in ADJUSTMENTS:
        raise ValueError(f"correction '{how}': expected one of {', '.join(ADJUSTMENTS)}")


def adjusted(p: Values, how: str) -> Values:
    r"""Return p-values corrected for all tests of a family.

    With the m values in order, $p_{(1)} \le \dots \le p_{(m)}$, Holm's are
    $\max_{j \le i} \min(1, (m - j + 1) p_{(j)})$, which keep the chance of any false find at the level (S. Holm,
    Scandinavian Journal of Statistics 6 (1979), 65-70), and Benjamini and Hochberg's $\min_{j \ge i} \min(1, m
    p_{(j)} / j)$, which keep the expected share of false ones among the finds there (Y. Benjamini and Y. Hochberg,
    Journal of the Royal Statistical Society B 57 (1995), 289-300).

    Args:
        p: p-values, any shape; NaN for a test that could not be made, which is no member of the family.
        how: `holm` or `bh`.

    Returns:
        The same shape, in the same order; NaN where p is.

    Raises:
        ValueError: If the correction is unknown, or a value is not a probability.
    """
    check_adjustment(how)
    p = np.asarray(p, dtype=np.float64)
    there = ~np.isnan(p)
    family = p[there]
    if ((family < 0) | (family > 1)).any():
        raise ValueError("p-values lie between 0 and 1; use NaN for a test that was not made")
    order, m = np.argsort(family, kind="stable"), len(family)
    ranked = family[order]
    if how == HOLM:
        ranked = np.maximum.accumulate(ranked * np.arange(m, 0, -1))
    else:
        ranked = np.minimum.accumulate((ranked * m / np.arange(1, m + 1))[::-1])[::-1]
    back = np.empty(m)
    back[order] = np.minimum(ranked, 1.0)
    found = np.full(p.shape, np.nan)
    found[there] = back
    return found
