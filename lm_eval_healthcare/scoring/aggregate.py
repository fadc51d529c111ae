r"""From scores of documents to one number with its error: the mean over the scored documents.

With the n values that exist, $\bar x = \frac1n\sum_i x_i$ and its standard error
$s_{\bar x} = \sqrt{\frac{\sum_i (x_i-\bar x)^2}{n(n-1)}}$: closed forms, no bootstrap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
