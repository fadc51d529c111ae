"""Hierarchical clusters of columns: scipy's and scikit-learn's numbers, gaps, and how firm they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score, silhouette_score

from lm_eval_healthcare.analysis.clusters import Clusters, adjusted_rand, cluster, silhouette
from lm_eval_healthcare.analysis.scores import Column, Scores


def scores(values: np.ndarray) -> Scores:
    columns = tuple(Column(f"c{place}", f"c{place}", "m") for place in range(values.shape[1]))
    blank = np.full(values.shape, np.nan)
    return Scores(tuple(f"m{row:02}" for row in range(len(values))), columns, values, blank, blank)


def run(values: np.ndarray, **options: object) -> Clusters:
    return cluster(scores(values), rng=np.random.default_rng(0), **{"n_resamples": 100, **options})  # type: ignore[arg-type]


def two_groups(noise: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((15, 2))
    return np.repeat(base, 3, axis=1) + noise * rng.standard_normal((15, 6))


def test_linkage_of_absolute_and_signed_distances_is_scipys() -> None:
    values = two_groups(0.5)
    values[:, 1] *= -1
    r = spearmanr(values).statistic
    for distance, wanted in (("absolute", 1 - np.abs(r)), ("signed", 1 - r)):
        found = run(values, distance=distance)
        condensed = squareform(np.where(np.eye(6) > 0, 0, wanted), checks=False)
        assert found.linkage == pytest.approx(linkage(condensed, "average"), abs=1e-9)
        assert sorted(found.order) == list(range(6))
    assert run(values).groups == [["c0", "c1", "c2"], ["c3", "c4", "c5"]]
    # The turned column is alone where direction counts.
    assert ["c1"] in run(values, distance="signed", n_clusters=3).groups


def test_firm_and_loose_clusters() -> None:
    firm, loose = run(two_groups(0.2)), run(two_groups(3.0), n_clusters=2)
    assert firm.agreement > 0.9
    assert firm.together[0, 1] > 0.95
    assert firm.together[0, 3] < 0.15
    assert loose.agreement < 0.6
    assert (np.diag(firm.together) == 1).all()


def test_gaps_and_constant_columns() -> None:
    values = two_groups(0.2)
    values[:, 5] = 0.4
    values[:8, 0], values[8:, 3] = np.nan, np.nan  # c0 and c3 have no model in common
    values = np.column_stack([values, np.full(15, np.nan)])
    found = run(values)
    assert found.left_out == (("c5", "constant"), ("c6", "too_few_models"))
    assert found.names == ("c0", "c1", "c2", "c3", "c4")
    assert found.undefined_pairs == 1
    assert found.distances[0, 3] == 1.0
    assert found.groups == [["c0", "c1", "c2"], ["c3", "c4"]]


def test_agreement_and_silhouette_are_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((9, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    for _ in range(20):
        one, other = rng.integers(1, 4, (2, 9))
        assert adjusted_rand(one, other) == pytest.approx(adjusted_rand_score(one, other))
        if len(set(one)) > 1:
            assert silhouette(distances, one) == pytest.approx(silhouette_score(distances, one, metric="precomputed"))
    same = np.ones(9, dtype=np.int64)
    assert adjusted_rand(same, same) == 1.0


def test_edges() -> None:
    nothing = run(np.full((5, 2), 0.5))
    assert nothing.names == ()
    assert nothing.groups == []
    two = run(two_groups(0.2)[:, :2])
    assert two.groups == [["c0", "c1"]]
    assert math.isnan(two.agreement)
    assert np.isnan(run(two_groups(0.2), n_resamples=0).together).all()
    with pytest.raises(ValueError, match="expected 1 to 6"):
        run(two_groups(0.2), n_clusters=7)
    with pytest.raises(ValueError, match="expected one of absolute, signed"):
        run(two_groups(0.2), distance="far")
