"""Length and position bias, against hand calculations, residuals of ranks, and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.judge.bias import (
    DETERMINED,
    NO_INCONSISTENT,
    answer_length,
    length_bias,
    length_bias_by_judge,
    partial_spearman,
    position_bias,
)
from lm_eval_healthcare.judge.intervals import share, wilson
from lm_eval_healthcare.judge.paired import NO_VARIATION, TOO_FEW

_ = math.nan


def test_length_by_hand() -> None:
    # Ranks of scores 1 2 3 4, of lengths 1 3 2 4: squared differences 0 1 1 0, so 1 - 6 * 2 / (4 * 15) = 0.8.
    found = length_bias("j", [1, 2, 3, 5, _], [10, 300, 20, 4000, 7])
    assert found.spearman.value == pytest.approx(0.8)
    assert found.spearman.n == 4
    assert found.partial is None
    assert "0.800" in found.lines()[0]


def test_partial_is_the_correlation_of_residuals() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(4)
    reference = rng.integers(10, 500, size=50).astype(float)
    length = reference + rng.normal(0, 120, size=50)
    score = np.clip(np.round(reference / 100 + rng.normal(0, 1, size=50)), 1, 5)
    ranks = [stats.rankdata(column) for column in (score, length, reference)]

    def residual(y: np.ndarray) -> np.ndarray:
        design = np.column_stack([np.ones(50), ranks[2]])
        return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]

    expected = np.corrcoef(residual(ranks[0]), residual(ranks[1]))[0, 1]
    found = partial_spearman(score, length, reference)
    assert found.value == pytest.approx(expected)
    # The p-value is that of the slope of length in a regression of the ranks of score on those of length and reference.
    design = np.column_stack([np.ones(50), ranks[1], ranks[2]])
    slope, left, *_rest = np.linalg.lstsq(design, ranks[0], rcond=None)
    error = math.sqrt(left[0] / 47 * np.linalg.inv(design.T @ design)[1, 1])
    assert found.p == pytest.approx(2 * stats.t.sf(abs(slope[1] / error), 47))


def test_partial_undefined() -> None:
    assert partial_spearman([1, 2, 3], [1, 2, 3], [3, 1, 2]).reason == TOO_FEW
    assert partial_spearman([1, 2, 3, 4], [2, 2, 2, 2], [3, 1, 2, 4]).reason == NO_VARIATION
    assert partial_spearman([1, 2, 4, 3], [1, 2, 3, 5], [10, 20, 30, 50]).reason == DETERMINED
    assert math.isnan(partial_spearman([1, 2, 4, 3], [1, 2, 3, 5], [10, 20, 30, 50]).value)


def test_by_judge_and_length() -> None:
    found = length_bias_by_judge(["a", "b"], [[1, 2, 3], [2, 2, 2]], [5, 6, 7], [1, 1, 2])
    assert [one.judge for one in found] == ["a", "b"]
    assert found[0].spearman.value == pytest.approx(1)
    assert found[1].spearman.reason == NO_VARIATION
    assert found[0].partial is not None
    assert found[0].partial.reason == TOO_FEW
    assert answer_length("  dos líneas\n") == 10
    assert answer_length("") == 0
    assert math.isnan(answer_length(None))


def test_position_by_hand() -> None:
    # 6 consistent (A then B, or B then A), 7 always first, 1 always second, 2 without a verdict.
    letters = [("A", "B")] * 4 + [("B", "A")] * 2 + [("A", "A")] * 7 + [("B", "B")] + [("A", None), (None, None)]
    found = position_bias(letters)
    assert found.documents == (14, 2)
    assert (found.consistent.value, found.always_first.value, found.always_second.value) == pytest.approx(
        (6 / 14, 7 / 14, 1 / 14)
    )
    assert found.first.value == pytest.approx((2 * 7 + 6) / 28)
    assert found.preference.value == pytest.approx(7 / 8)
    # Exact: 7 or 8 of 8 in either direction, 2 * (8 + 1) / 256.
    assert found.preference.p == pytest.approx(18 / 256)
    assert len(found.lines()) == 6


def test_position_against_mcnemar() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(8)
    letters = [tuple(rng.choice(["A", "B"], size=2, p=[0.7, 0.3])) for _ in range(60)]
    found = position_bias(letters)
    # McNemar's exact test of "answer 1 wins" (A in the first order, B in the second), from its two discordant cells.
    wins = np.array([(one == "A", other == "B") for one, other in letters])
    b, c = (wins[:, 0] & ~wins[:, 1]).sum(), (~wins[:, 0] & wins[:, 1]).sum()
    assert found.preference.p == pytest.approx(min(1.0, 2 * stats.binom.cdf(min(b, c), b + c, 0.5)))


def test_position_undefined() -> None:
    consistent = position_bias([("A", "B"), ("B", "A")])
    assert consistent.preference.reason == NO_INCONSISTENT
    assert math.isnan(consistent.preference.p)
    assert consistent.first.value == 0.5
    nothing = position_bias([(None, "A")])
    assert nothing.documents == (0, 1)
    assert nothing.consistent.reason == nothing.first.reason == TOO_FEW
    assert "nan" not in "\n".join(nothing.lines())
    with pytest.raises(ValueError, match="expected 'A', 'B' or None"):
        position_bias([("A", "C")])


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7), (250, 1000), (1, 2769)])
def test_wilson_against_scipy(successes: int, n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    theirs = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert share(successes, n, tested=True).p == pytest.approx(stats.binomtest(successes, n).pvalue)


def test_wilson_halves_lie_between() -> None:
    low, high = wilson(3.5, 10)
    assert wilson(3, 10)[0] < low < wilson(4, 10)[0]
    assert wilson(3, 10)[1] < high < wilson(4, 10)[1]
    assert all(math.isnan(end) for end in wilson(0, 0))
