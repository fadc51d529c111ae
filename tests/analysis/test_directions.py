"""Scores made ready for statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.directions import prepare, varies
from lm_eval_healthcare.analysis.scores import Column, Scores


def table() -> Scores:
    return Scores(
        ("b", "a"),
        (Column("acc", "t", "acc"), Column("ppl", "t", "word_perplexity", higher_is_better=False)),
        np.array([[0.1 + 0.2, math.e], [0.3, math.e**2]]),
        np.array([[0.01, 0.1], [math.nan, 0.2]]),
        np.full((2, 2), 10.0),
    )


def test_order_rounding_logarithm_and_direction() -> None:
    ready = prepare(table(), log_metrics=("word_perplexity",))
    assert ready.models == ("a", "b")
    assert ready.values[0, 0] == ready.values[1, 0]  # 0.1 + 0.2 is 0.3
    assert ready.values[:, 1] == pytest.approx([-2.0, -1.0])
    # The standard error of log x is that of x over x.
    assert ready.stderr[:, 1] == pytest.approx([0.2 / math.e**2, 0.1 / math.e])
    assert ready.flags == ((), ("log", "reversed"))


def test_as_it_is() -> None:
    given = table()
    ready = prepare(given, align=False)
    assert ready.values[:, 1] == pytest.approx([math.e**2, math.e], rel=1e-11)
    assert ready.flags == ((), ())
    assert given.values[0, 0] == 0.1 + 0.2  # nothing is changed in place


def test_listwise_keeps_models_with_everything() -> None:
    given = table()
    given.values[1, 0] = math.nan
    assert prepare(given, listwise=True).models == ("b",)


def test_what_varies() -> None:
    assert varies(np.array([0.0, 1e-6]))
    assert not varies(np.array([0.2, 0.2 + 1e-13]))
    assert not varies(np.array([0.0, 0.0]))
    assert not varies(np.array([]))
