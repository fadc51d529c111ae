r"""Pearson's, Spearman's and Kendall's coefficients of all pairs of columns at once, with weighted models.

A resample of models gives each of them a weight: how often it was drawn. With a model left out its weight is 0. Each of
the three coefficients is then a cosine,

$$r_w = \frac{\sum_i w_i f_i g_i}{\sqrt{\sum_i w_i f_i^2 \sum_i w_i g_i^2}}$$

where f and g are the values less their weighted mean (Pearson), the mid-ranks less theirs (Spearman, where the mid-rank
of a model is $\sum_l w_l ([x_l < x_i] + [x_l = x_i]/2)$ up to a constant), or, with i running over pairs of models and
products of two weights, the sign of their difference (Kendall's tau-b). So thousands of resamples of all columns are a
few products of matrices, and no column is sorted twice. A weighted copy of a model is a tie, as in a resample that is
written out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.scores import Matrix

PEARSON, SPEARMAN, KENDALL = "pearson", "spearman", "kendall"
METHODS = (PEARSON, SPEARMAN, KENDALL)

Cube = NDArray[np.float64]

_NUMBERS_AT_ONCE = 8_000_000
_NO_VARIANCE = 1e-12


def check_method(method: str) -> None:
    """Refuse a method that does not exist.

    Raises:
        ValueError: If it does not.
    """
    if method not in METHODS:
        raise ValueError(f"method '{method}': expected one of {', '.join(METHODS)}")


def weighted_correlations(values: Matrix, weights: Matrix, method: str) -> Cube:
    """Return the coefficients of all pairs of columns under each row of weights.

    Args:
        values: Shape (models, columns), all finite.
        weights: Shape (resamples, models); not negative.
        method: `pearson`, `spearman` or `kendall`.

    Returns:
        Shape (resamples, columns, columns), from -1 to 1; NaN where a column does not vary among the models that have
        weight.
    """
    check_method(method)
    models, columns = values.shape
    wide = models * (models - 1) // 2 + columns * columns if method == KENDALL else columns * (models + columns)
    step = max(1, _NUMBERS_AT_ONCE // max(1, wide))
    parts = [weights[start : start + step] for start in range(0, len(weights), step)]
    prepared = _signs(values) if method == KENDALL else values
    return np.concatenate([_part(prepared, part, method) for part in parts] or [np.empty((0, columns, columns))])


def _part(values: Matrix, weights: Matrix, method: str) -> Cube:
    if method == KENDALL:
        first, second = np.triu_indices(weights.shape[1], 1)
        return cosines_from_products(_pair_products(values, weights[:, first] * weights[:, second]))
    features = _midranks(values, weights) if method == SPEARMAN else _centred(values, weights)
    rooted = features * np.sqrt(weights)[:, None, :]
    return cosines_from_products(rooted @ rooted.transpose(0, 2, 1))


def cosines_from_products(products: Cube) -> Cube:
    """Return cosines from the inner products of all pairs, shape (..., columns, columns); NaN for a length of 0."""
    squares = np.einsum("...ii->...i", products)
    lengths = np.sqrt(np.where(squares > _NO_VARIANCE, squares, np.nan))
    return np.clip(products / (lengths[..., :, None] * lengths[..., None, :]), -1.0, 1.0)


def _centred(values: Matrix, weights: Matrix) -> Cube:
    # In units of the whole column's spread, so that "no variance" means the same for accuracies and for Elo.
    scaled = _to_one(values - values.mean(axis=0), axis=0)
    spread = scaled.std(axis=0)
    scaled = scaled / np.where(spread > 0, spread, 1.0)
    means = (weights @ scaled) / weights.sum(axis=1, keepdims=True)
    return scaled.T[None, :, :] - means[:, :, None]


def _to_one(vectors: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    # The perplexity of a broken model may be 1e200, whose square is no number.
    largest = np.abs(vectors).max(axis=axis, keepdims=True, initial=0.0)
    return vectors / np.where(largest > 0, largest, 1.0)


def _midranks(values: Matrix, weights: Matrix) -> Cube:
    below = (values[None, :, :] < values[:, None, :]) + 0.5 * (values[None, :, :] == values[:, None, :])
    models, columns = values.shape
    ranks = weights @ below.transpose(1, 2, 0).reshape(models, columns * models)
    # The weighted mean of these mid-ranks is half of the weights' sum, whatever the ties.
    return ranks.reshape(len(weights), columns, models) - weights.sum(axis=1)[:, None, None] / 2


def _signs(values: Matrix) -> Matrix:
    first, second = np.triu_indices(len(values), 1)
    return np.sign(values[first] - values[second])


def _pair_products(signs: Matrix, weights: Matrix) -> Cube:
    columns = signs.shape[1]
    products = (signs[:, :, None] * signs[:, None, :]).reshape(len(signs), columns * columns)
    return (weights @ products).reshape(len(weights), columns, columns)


def features(values: Matrix, method: str) -> Matrix:
    """Return one unit vector for each column, such that the inner product of two of them is their coefficient.

    Args:
        values: Shape (models, columns), all finite, no column constant.
        method: `pearson`, `spearman` or `kendall`.

    Returns:
        Shape (models, columns), or for Kendall (pairs of models, columns).
    """
    from scipy.stats import rankdata

    check_method(method)
    if method == KENDALL:
        found = _signs(values)
    else:
        ranked = rankdata(values, axis=0) if method == SPEARMAN else values
        found = _to_one(ranked - ranked.mean(axis=0), axis=0)
    return found / np.linalg.norm(found, axis=0)


def noisy_correlations(values: Cube, method: str) -> Cube:
    """Return the coefficients of all pairs of columns in each of many tables.

    Args:
        values: Shape (tables, models, columns), all finite.
        method: `pearson`, `spearman` or `kendall`.

    Returns:
        Shape (tables, columns, columns); NaN where a column does not vary.
    """
    from scipy.stats import rankdata

    check_method(method)
    _, models, columns = values.shape
    width = columns * (models * (models - 1) // 2 if method == KENDALL else models)
    step = max(1, _NUMBERS_AT_ONCE // max(1, width))
    found = []
    for start in range(0, len(values), step):
        part = values[start : start + step]
        if method == KENDALL:
            first, second = np.triu_indices(models, 1)
            vectors = np.sign(part[:, first] - part[:, second])
        else:
            ranked = rankdata(part, axis=1) if method == SPEARMAN else part
            vectors = _to_one(ranked - ranked.mean(axis=1, keepdims=True), axis=1)
            spread = vectors.std(axis=1, keepdims=True)
            vectors = vectors / np.where(spread > 0, spread, 1.0)
        found.append(cosines_from_products(vectors.transpose(0, 2, 1) @ vectors))
    return np.concatenate(found or [np.empty((0, columns, columns))])


def gapped_correlations(values: Matrix, weights: Matrix, method: str) -> Cube:
    """Return what `weighted_correlations` does for columns with gaps, each pair over the models that have both.

    Args:
        values: Shape (models, columns); NaN for what is missing.
        weights: Shape (resamples, models); not negative.
        method: `pearson`, `spearman` or `kendall`.

    Returns:
        Shape (resamples, columns, columns); NaN where a pair is undefined, which includes a resample without any model
        that has both; 1 on the diagonal.
    """
    there = np.isfinite(values)
    columns = values.shape[1]
    found = np.full((len(weights), columns, columns), np.nan)
    groups: dict[bytes, list[tuple[int, int]]] = {}
    for a in range(columns):
        for b in range(a + 1, columns):
            groups.setdefault((there[:, a] & there[:, b]).tobytes(), []).append((a, b))
    for key, pairs in groups.items():
        models = np.frombuffer(key, dtype=bool)
        members = sorted({column for pair in pairs for column in pair})
        drawn = weights[:, models]
        some = np.flatnonzero(drawn.sum(axis=1) > 0)
        if not len(some):
            continue
        part = weighted_correlations(values[np.ix_(np.flatnonzero(models), np.array(members))], drawn[some], method)
        place = {column: position for position, column in enumerate(members)}
        for a, b in pairs:
            found[some, a, b] = found[some, b, a] = part[:, place[a], place[b]]
    found[:, np.arange(columns), np.arange(columns)] = 1.0
    return found
