r"""F1 of a classification with one gold class and one predicted class per document, from the confusion matrix alone.

For class $k$ of a confusion matrix $C$ (rows gold, columns predicted), $F_k = \frac{2C_{kk}}{\sum_j C_{kj} + \sum_i
C_{ik}}$. Macro F1 is the mean of $F_k$ over the classes that occur among the gold ones; micro F1 pools the counts of
the classes first. With one gold and one predicted class per document, micro F1 over all classes is the accuracy.

The standard error is the delete-one jackknife, $\sqrt{\frac{n-1}{n}\sum_i(\theta_{(i)}-\bar\theta_{(\cdot)})^2}$.
Documents of one cell of the matrix give the same $\theta_{(i)}$, so it costs one evaluation a cell and needs no random
draws.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray


def scored_pairs(pairs: Iterable[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the (gold, predicted) pairs that exist: a document without a prediction has NaN there."""
    return [(int(gold), int(predicted)) for gold, predicted in pairs if not (math.isnan(gold) or math.isnan(predicted))]


def confusion_matrix(pairs: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Count documents by gold class (rows) and predicted class (columns).

    Args:
        pairs: One (gold, predicted) pair of class indices from 0 per document.

    Returns:
        A square matrix as large as the largest index asks for; 0 x 0 without documents.
    """
    size = 1 + max((max(pair) for pair in pairs), default=-1)
    matrix = np.zeros((size, size), dtype=np.int64)
    for gold, predicted in pairs:
        matrix[gold, predicted] += 1
    return matrix


def f1_by_class(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F1 of every class, in [0, 1]; NaN for a class that is neither gold nor predicted anywhere."""
    hits = np.diagonal(matrix).astype(np.float64)
    total = (matrix.sum(axis=0) + matrix.sum(axis=1)).astype(np.float64)
    return np.divide(2 * hits, total, out=np.full(len(hits), np.nan), where=total > 0)


def macro_f1(matrix: NDArray[np.int64]) -> float:
    """Return the mean F1 over the classes that occur among the gold ones, in [0, 1].

    A class that is predicted but never gold lowers the F1 of the others through their recall and is not averaged.

    Returns:
        The mean, or NaN if there is no document.
    """
    present = matrix.sum(axis=1) > 0
    return float(f1_by_class(matrix)[present].mean()) if present.any() else math.nan


def micro_f1(matrix: NDArray[np.int64], classes: Collection[int] | None = None) -> float:
    """Return F1 of the pooled counts, in [0, 1].

    Args:
        matrix: The confusion matrix.
        classes: The classes that are pooled. All of them by default, which gives the accuracy.

    Returns:
        F1, or NaN if no pooled class is gold or predicted anywhere.
    """
    chosen = np.arange(len(matrix)) if classes is None else np.array(sorted(set(classes)), dtype=np.int64)
    chosen = chosen[chosen < len(matrix)]
    total = float(matrix[chosen, :].sum() + matrix[:, chosen].sum())
    return 2 * float(matrix[chosen, chosen].sum()) / total if total else math.nan


def jackknife_stderr(matrix: NDArray[np.int64], statistic: Callable[[NDArray[np.int64]], float]) -> float:
    """Return the delete-one jackknife standard error of a statistic of the confusion matrix.

    Args:
        matrix: The confusion matrix; it is left as it is.
        statistic: Such as `macro_f1`. It is evaluated as it is defined on the remaining documents: a class whose only
            document is left out is no gold class then.

    Returns:
        The error, or NaN if there are fewer than two documents.
    """
    n = int(matrix.sum())
    if n < 2:
        return math.nan
    counts, values = [], []
    rest = matrix.copy()
    for gold, predicted in np.argwhere(matrix > 0):
        rest[gold, predicted] -= 1
        counts.append(int(matrix[gold, predicted]))
        values.append(statistic(rest))
        rest[gold, predicted] += 1
    mean = math.fsum(c * v for c, v in zip(counts, values, strict=True)) / n
    spread = math.fsum(c * (v - mean) ** 2 for c, v in zip(counts, values, strict=True))
    return math.sqrt((n - 1) / n * spread)


def scored_f1_macro(pairs: Iterable[Sequence[float]]) -> float:
    """Return macro F1 over the documents that have a prediction; see `macro_f1`."""
    return macro_f1(confusion_matrix(scored_pairs(pairs)))


def scored_f1_micro(pairs: Iterable[Sequence[float]]) -> float:
    """Return micro F1 over the documents that have a prediction; see `micro_f1`."""
    return micro_f1(confusion_matrix(scored_pairs(pairs)))


def scored_f1_macro_stderr(pairs: Iterable[Sequence[float]]) -> float:
    """Return the jackknife standard error of `scored_f1_macro`."""
    return jackknife_stderr(confusion_matrix(scored_pairs(pairs)), macro_f1)


def scored_f1_micro_stderr(pairs: Iterable[Sequence[float]]) -> float:
    """Return the jackknife standard error of `scored_f1_micro`; for one class a document, that of the accuracy."""
    return jackknife_stderr(confusion_matrix(scored_pairs(pairs)), micro_f1)
