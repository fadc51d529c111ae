r"""Columns that go together: hierarchical clusters over the correlation of scores, and how firm they are.

The distance of two columns is $1 - |r|$ (a column that falls as another rises is near it) or $1 - r$ (it is far), and
clusters are joined by the mean distance of their columns (average linkage). A pair without a coefficient gets the
distance 1, that of columns which have nothing to do with each other: it neither joins nor parts them. A column that has
no coefficient with any other, such as a constant one, is left out and named.

Unless told, the number of clusters is the one with the largest mean silhouette (P. J. Rousseeuw, Journal of
Computational and Applied Mathematics 20 (1987), 53-65). How firm they are is seen by drawing models anew and clustering
the columns again into as many clusters.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.coefficients import check_method, gapped_correlations
from lm_eval_healthcare.analysis.directions import Prepared, prepare, varies
from lm_eval_healthcare.analysis.scores import Matrix, Scores

ABSOLUTE, SIGNED = "absolute", "signed"
DISTANCES = (ABSOLUTE, SIGNED)
CONSTANT, TOO_FEW_MODELS = "constant", "too_few_models"
N_RESAMPLES = 500

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Clusters:
    """Clusters of columns.

    Attributes:
        names: The columns that were clustered.
        labels: The cluster of each, from 1, numbered in the order of the columns.
        distances: Shape (columns, columns), with 0 on the diagonal.
        linkage: scipy's linkage, shape (columns - 1, 4); empty for fewer than 2 columns.
        order: The columns' places in a dendrogram, near ones beside each other.
        together: Shape (columns, columns): share of the resamples in which two columns are in one cluster; NaN without
            resamples.
        agreement: Mean adjusted Rand index of the clusters of resamples with these ones: 1 for the same clusters, 0 for
            chance; NaN without resamples, and where all columns are one cluster or each is its own.
        left_out: Columns that could not be clustered, with the reason.
        undefined_pairs: Pairs that got the distance 1 because they have no coefficient.
    """

    names: tuple[str, ...]
    labels: tuple[int, ...]
    distances: Matrix
    linkage: Matrix
    order: tuple[int, ...]
    together: Matrix
    agreement: float
    left_out: tuple[tuple[str, str], ...]
    undefined_pairs: int

    @property
    def groups(self) -> list[list[str]]:
        """The names in each cluster, in the order of the labels."""
        found: dict[int, list[str]] = {}
        for name, label in zip(self.names, self.labels, strict=True):
            found.setdefault(label, []).append(name)
        return [found[label] for label in sorted(found)]


def cluster(
    scores: Scores,
    method: str = "spearman",
    *,
    rng: np.random.Generator,
    distance: str = ABSOLUTE,
    n_clusters: int | None = None,
    min_models: int = 3,
    log_metrics: Collection[str] = (),
    align_directions: bool = True,
    n_resamples: int = N_RESAMPLES,
) -> Clusters:
    """Cluster columns by their correlation over models.

    Args:
        scores: The scores.
        method: `pearson`, `spearman` or `kendall`.
        rng: Draws the models.
        distance: `absolute` for 1 - abs(r), `signed` for 1 - r.
        n_clusters: How many; None for the number with the largest silhouette.
        min_models: Common models below which a pair has no coefficient.
        log_metrics: Metrics that enter as logarithms.
        align_directions: Turn columns in which lower is better.
        n_resamples: Draws of models; 0 for no stability.

    Raises:
        ValueError: If the method or the distance is unknown, or `n_clusters` is not between 1 and the number of columns
            that can be clustered.
    """
    check_method(method)
    if distance not in DISTANCES:
        raise ValueError(f"distance '{distance}': expected one of {', '.join(DISTANCES)}")
    ready = prepare(scores, log_metrics=log_metrics, align=align_directions)
    r = coefficients_of(ready, np.ones((1, len(ready.models))), method, min_models)[0]
    kept, left_out = _kept(ready, r)
    values = ready.values[:, kept]
    r = r[np.ix_(kept, kept)]
    distances = _distances(r, distance)
    joined = _linkage(distances)
    k = _number(joined, distances, n_clusters)
    labels = cut(joined, k, len(kept))
    resampled = _resampled(values, method, distance, k, rng, n_resamples)
    return Clusters(
        names=tuple(ready.names[place] for place in kept),
        labels=tuple(labels.tolist()),
        distances=distances,
        linkage=joined,
        order=_order(joined, distances),
        together=_together(resampled, len(kept)),
        agreement=_agreement(labels, resampled),
        left_out=left_out,
        undefined_pairs=int(np.isnan(r[np.triu_indices(len(kept), 1)]).sum()),
    )


def coefficients_of(ready: Prepared, weights: Matrix, method: str, min_models: int = 3) -> NDArray[np.float64]:
    """Return the coefficients of all pairs under each row of weights, NaN where a pair is undefined.

    Args:
        ready: The columns.
        weights: Shape (resamples, models).
        method: `pearson`, `spearman` or `kendall`.
        min_models: Common models below which a pair has no coefficient.
    """
    there = np.isfinite(ready.values)
    found = gapped_correlations(ready.values, weights, method)
    common = there.T.astype(np.int64) @ there.astype(np.int64)
    flat = np.array([not varies(ready.values[there[:, c], c]) for c in range(there.shape[1])], dtype=bool)
    undefined = (common < min_models) | flat[:, None] | flat[None, :]
    np.fill_diagonal(undefined, False)
    found[:, undefined] = np.nan
    return found


def _kept(ready: Prepared, r: Matrix) -> tuple[list[int], tuple[tuple[str, str], ...]]:
    kept, left_out = [], []
    for place, name in enumerate(ready.names):
        column = ready.values[:, place]
        others = np.delete(r[place], place)
        if np.isfinite(others).any():
            kept.append(place)
        else:
            column = column[np.isfinite(column)]
            flat = len(column) >= 2 and not varies(column)
            left_out.append((name, CONSTANT if flat else TOO_FEW_MODELS))
    return kept, tuple(left_out)


def _distances(r: Matrix, distance: str) -> Matrix:
    found = 1.0 - (np.abs(r) if distance == ABSOLUTE else r)
    found = np.where(np.isnan(found), 1.0, np.maximum(found, 0.0))
    np.fill_diagonal(found, 0.0)
    return found


def _linkage(distances: Matrix) -> Matrix:
    from scipy.cluster.hierarchy import linkage

    if len(distances) < 2:
        return np.empty((0, 4))
    # A coefficient that fell out of 1 by rounding must not decide which of equal pairs joins first.
    condensed = np.round(distances[np.triu_indices(len(distances), 1)], 12)
    return np.asarray(linkage(condensed, method="average"), dtype=np.float64)


def cut(joined: Matrix, k: int, columns: int) -> Labels:
    """Return k clusters of a linkage, numbered from 1 in the order of the columns.

    Args:
        joined: scipy's linkage.
        k: How many clusters.
        columns: How many columns.
    """
    from scipy.cluster.hierarchy import cut_tree

    if columns < 2:
        return np.ones(columns, dtype=np.int64)
    raw = cut_tree(joined, n_clusters=k).ravel()
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse] + 1, dtype=np.int64)


def _order(joined: Matrix, distances: Matrix) -> tuple[int, ...]:
    from scipy.cluster.hierarchy import leaves_list, optimal_leaf_ordering

    if not len(joined):
        return tuple(range(len(distances)))
    condensed = distances[np.triu_indices(len(distances), 1)]
    return tuple(int(place) for place in leaves_list(optimal_leaf_ordering(joined, condensed)))


def _number(joined: Matrix, distances: Matrix, asked: int | None) -> int:
    columns = len(distances)
    if asked is not None:
        if not 1 <= asked <= max(1, columns):
            raise ValueError(f"{asked} clusters of {columns} columns; expected 1 to {columns}")
        return asked
    if columns < 3:
        return 1
    widths = [silhouette(distances, cut(joined, k, columns)) for k in range(2, columns)]
    return 2 + int(np.argmax(np.round(widths, 12)))


def silhouette(distances: Matrix, labels: Labels) -> float:
    """Return the mean silhouette, from -1 to 1: how much nearer columns are to their own cluster than to the next.

    Args:
        distances: Shape (columns, columns).
        labels: The cluster of each column; two clusters or more. A column alone in its cluster counts as 0.
    """
    member = labels[:, None] == np.unique(labels)[None, :]
    sizes = member.sum(axis=0)
    sums = distances @ member
    size = (member * sizes).sum(axis=1)
    own = (sums * member).sum(axis=1) / np.maximum(size - 1, 1)
    other = np.where(member, np.inf, sums / sizes).min(axis=1)
    wider = np.maximum(own, other)
    width = np.divide(other - own, wider, out=np.zeros(len(labels)), where=(size > 1) & (wider > 0))
    return float(width.mean())


def _resampled(
    values: Matrix, method: str, distance: str, k: int, rng: np.random.Generator, n_resamples: int
) -> list[Labels]:
    models, columns = values.shape
    if not n_resamples or columns < 2:
        return []
    times = rng.multinomial(models, np.full(models, 1 / models), size=n_resamples).astype(np.float64)
    return [cut(_linkage(_distances(r, distance)), k, columns) for r in gapped_correlations(values, times, method)]


def _together(resampled: list[Labels], columns: int) -> Matrix:
    if not resampled:
        return np.full((columns, columns), np.nan)
    stacked = np.stack(resampled)
    return np.asarray((stacked[:, :, None] == stacked[:, None, :]).mean(axis=0), dtype=np.float64)


def _agreement(labels: Labels, resampled: list[Labels]) -> float:
    if not resampled or len(set(labels.tolist())) in (1, len(labels)):
        return math.nan
    return float(np.mean([adjusted_rand(labels, other) for other in resampled]))


def adjusted_rand(one: Labels, other: Labels) -> float:
    """Return the adjusted Rand index of two clusterings: 1 for the same, 0 on average for chance.

    Source: L. Hubert and P. Arabie, Journal of Classification 2 (1985), 193-218.

    Args:
        one: Labels.
        other: Labels of the same columns.
    """
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one, other), 1)
    pairs = (table * (table - 1) / 2).sum()
    rows, columns = ((s * (s - 1) / 2).sum() for s in (table.sum(axis=1), table.sum(axis=0)))
    expected = rows * columns / (len(one) * (len(one) - 1) / 2)
    most = (rows + columns) / 2
    return 1.0 if most == expected else float((pairs - expected) / (most - expected))
