"""The average of several benchmarks, weighted by their documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def weighted_average(
    values: NDArray[np.float64], weights: NDArray[np.float64], stderr: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Return weighted means of rows, their standard errors, and the sums of weights.

    $$\bar x = \frac{\sum_j w_j x_j}{\sum_j w_j}, \qquad s = \frac{\sqrt{\sum_j w_j^2 s_j^2}}{\sum_j w_j}$$

    The parts are different documents, so that their errors are independent.

    Args:
        values: Shape (models, parts).
        weights: The same shape, above 0; such as the number of documents.
        stderr: The same shape.

    Returns:
        Three arrays of shape (models,). A row with a part that is missing has NaN: a mean of other parts is another
        number. The standard error is NaN where one of its own is.

    Raises:
        ValueError: If a weight is 0 or less.
    """
    if (weights <= 0).any():
        raise ValueError("a weight of 0 or less; weights are numbers of documents, NaN where these are not known")
    missing = np.isnan(values).any(axis=1)
    total = np.where(missing, np.nan, weights.sum(axis=1))
    return (weights * values).sum(axis=1) / total, np.sqrt(((weights * stderr) ** 2).sum(axis=1)) / total, total
