"""The numbers of the figure: P of a target position by position."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from known_matrices import first, second
from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Target
from lm_eval_healthcare.relaxed_perplexity.curves import cross_entropies
from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS, reduce


@pytest.mark.parametrize(
    ("combination", "after_four"),
    [
        ("", 1 / 4 + 1 / 8),
        ("_averaged", (1 / 4 + 1 / 8) / 2),
        ("_weighted", 0.75 * 1 / 4 + 0.25 * 1 / 8),  # 0.6 and 0.2 of 0.8
        ("_sampled", 0.25 * 1 / 4 + 0.75 * 1 / 8),  # one completion, and three
    ],
)
def test_by_hand(combination: str, after_four: float) -> None:
    assert cross_entropies(first(), 0, combination) == pytest.approx([-math.log(1 / 2), -math.log(after_four)])


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_one_position_alone_is_the_estimators(combination: str) -> None:
    rng = np.random.default_rng(3)
    prefixes = [Prefix(0, 0, 0.0, 9)]
    for position in (2, 4, 6):
        prefixes += [Prefix(position, k, -float(rng.exponential(5)), int(rng.integers(1, 4))) for k in range(position)]
    log_p = np.append(-rng.exponential(700, len(prefixes) - 1), -np.inf)  # beyond what exp can hold, and zero
    matrix = Matrix(tuple(prefixes), (Target(3, 9, log_p),), (6,) * 9, (0.0,) * 9, 1, 1)
    found = cross_entropies(matrix, 0, combination)
    for place, position in enumerate(matrix.positions):
        at = [n for n, prefix in enumerate(prefixes) if prefix.position == position]
        alone = reduce(
            [log_p[at]], positions=[position], target_length=3,
            log_p_prefix=[[prefixes[n].log_p for n in at]], counts=[[prefixes[n].count for n in at]],
        )  # fmt: skip
        assert found[place] == pytest.approx(alone[f"relaxed_cross_entropy_sum{combination}"], rel=1e-12)


def test_probability_zero() -> None:
    assert cross_entropies(second(), 1).tolist() == [math.inf]
    none = replace(first(), prefixes=tuple(replace(p, log_p=-math.inf, count=0) for p in first().prefixes))
    for combination in ("_weighted", "_sampled"):  # weights that are all zero are equal
        assert cross_entropies(none, 0, combination)[1] == pytest.approx(-math.log((1 / 4 + 1 / 8) / 2))


def test_what_cannot_be_drawn_is_told() -> None:
    with pytest.raises(ValueError, match=r"no scores .target_too_long"):
        cross_entropies(first(), 2)
    with pytest.raises(ValueError, match="combination 'median': expected one of"):
        cross_entropies(first(), 0, "median")
