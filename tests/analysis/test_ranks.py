"""Ranks of models: honest ties, directions, and intervals from the errors of the scores; weighted averages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.averages import weighted_average
from lm_eval_healthcare.analysis.ranks import Ranks, rank_models
from lm_eval_healthcare.analysis.scores import Column, Scores

NAN = math.nan


def ranked(values: list[list[float]], stderr: list[list[float]], better: list[bool | None], draws: int = 2000) -> Ranks:
    columns = tuple(Column(f"c{place}", f"t{place}", "m", higher_is_better=one) for place, one in enumerate(better))
    array = np.array(values)
    models = tuple(f"m{row}" for row in range(len(array)))
    given = Scores(models, columns, array, np.array(stderr), np.full(array.shape, 50.0))
    return rank_models(given, rng=np.random.default_rng(0), n_draws=draws)


def test_ties_share_their_places_and_gaps_have_none() -> None:
    found = ranked([[0.3, 9.0], [0.1 + 0.2, 5.0], [0.5, NAN], [0.1, 7.0]], [[0.0, 0.0]] * 4, [True, False])
    assert found.ranks[:, 0].tolist() == [2.5, 2.5, 1.0, 4.0]
    assert found.ranks[:, 1] == pytest.approx([3.0, 1.0, NAN, 2.0], nan_ok=True)
    assert found.of == (4, 3)
    # Without errors the ranks are certain.
    assert found.low[:, 0].tolist() == found.high[:, 0].tolist() == [2.5, 2.5, 1.0, 4.0]
    rows = [(one.column, one.model, one.rank) for one in found]
    assert rows[:2] == [("c0", "m0", 2.5), ("c0", "m1", 2.5)]
    assert len(rows) == 7


def test_interval_where_two_models_may_change_places() -> None:
    # They change places with a chance of Phi(-d / (s sqrt 2)): for d = s, 24%; for d = 4 s, 0.2%. The third is far.
    near = ranked([[0.50], [0.51], [0.9]], [[0.01]] * 3, [True])
    assert near.low[:, 0].tolist() == [2.0, 2.0, 1.0]
    assert near.high[:, 0].tolist() == [3.0, 3.0, 1.0]
    far = ranked([[0.50], [0.54], [0.9]], [[0.01]] * 3, [True])
    assert far.low[:, 0].tolist() == far.high[:, 0].tolist() == [3.0, 2.0, 1.0]


def test_what_is_not_known_is_said() -> None:
    found = ranked([[1.0, 1.0], [2.0, 2.0]], [[0.1, 0.1], [0.1, NAN]], [None, True])
    assert found.flags == (("unknown_direction",), ("unknown_errors",))
    assert np.isnan(found.ranks[:, 0]).all()
    assert found.ranks[:, 1].tolist() == [2.0, 1.0]
    assert np.isnan(found.low[:, 1]).all()
    assert np.isnan(ranked([[1.0], [2.0]], [[0.1]] * 2, [True], draws=0).low).all()


def test_weighted_average_by_hand() -> None:
    # (150 * .2 + 250 * .8) / 400 = .575; errors: sqrt((150 * .03)^2 + (250 * .02)^2) / 400 = sqrt(45.25) / 400.
    mean, error, n = weighted_average(
        np.array([[0.2, 0.8], [0.5, NAN]]), np.array([[150.0, 250.0]] * 2), np.array([[0.03, 0.02]] * 2)
    )
    assert mean == pytest.approx([0.575, NAN], nan_ok=True)
    assert error == pytest.approx([math.sqrt(45.25) / 400, NAN], nan_ok=True)
    assert n == pytest.approx([400.0, NAN], nan_ok=True)
    with pytest.raises(ValueError, match="weight of 0 or less"):
        weighted_average(np.ones((1, 2)), np.array([[1.0, 0.0]]), np.ones((1, 2)))
