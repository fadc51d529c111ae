"""Several judges: alpha against published values and its definition, pairs against scikit-learn and scipy."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.judge.agreement import (
    INTERVAL,
    LEVELS,
    NOMINAL,
    ONE_JUDGE,
    ORDINAL,
    agreement,
    alpha_interval,
    krippendorff_alpha,
)
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.paired import NO_VARIATION, TOO_FEW, kendall, mean_difference, quadratic_kappa, spearman

_ = math.nan
# The example of K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve
# units, some not coded; the last unit has one value only and counts for nothing.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
)


@pytest.mark.parametrize(("level", "published"), [(NOMINAL, 0.743), (ORDINAL, 0.815), (INTERVAL, 0.849)])
def test_published_values(level: str, published: float) -> None:
    found = krippendorff_alpha(PUBLISHED, level)
    assert round(found.value, 3) == published
    assert (found.n, found.reason) == (11, None)


def test_by_hand() -> None:
    # Verdicts 1-1, 1-2, 3-3 and one alone. Pairable: 1 1 1 2 3 3, so n = 6. Of ordered pairs within documents only the
    # two of 1-2 differ.
    scores = np.array([[1, 1, 3, 5], [1, 2, 3, _]])
    # Nominal: D_o = 2/6; ordered pairs that differ among all: 36 - (9 + 1 + 4) = 22 of 30.
    assert krippendorff_alpha(scores, NOMINAL).value == pytest.approx(1 - (2 / 6) / (22 / 30))
    # Interval: D_o = 2 * 1 / 6; sum of squared differences 2 * (3*1*1 + 3*2*4 + 1*2*1) = 58.
    assert krippendorff_alpha(scores, INTERVAL).value == pytest.approx(1 - (2 / 6) / (58 / 30))
    # Ordinal: mid-ranks 1.5, 3.5, 5. D_o = 2 * 4 / 6; 2 * (3*1*4 + 3*2*12.25 + 1*2*2.25) = 180.
    assert krippendorff_alpha(scores, ORDINAL).value == pytest.approx(1 - (8 / 6) / (180 / 30))


def by_definition(scores: np.ndarray, level: str) -> float:
    """Every ordered pair of verdicts visited, with the ordinal difference as it is printed: a sum over categories."""
    units = [[v for v in column if not math.isnan(v)] for column in scores.T]
    units = [unit for unit in units if len(unit) > 1]
    everything = [v for unit in units for v in unit]

    def squared(a: float, b: float) -> float:
        if level == NOMINAL:
            return float(a != b)
        if level == INTERVAL:
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(low <= v <= high for v in everything)
        return (between - (everything.count(a) + everything.count(b)) / 2) ** 2 if a != b else 0.0

    n = len(everything)
    observed = sum(squared(a, b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)) / n
    expected = sum(squared(a, b) for a, b in permutations(everything, 2)) / (n * (n - 1))
    return 1 - observed / expected


verdicts = st.sampled_from([math.nan, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 4).flatmap(lambda k: st.lists(st.lists(verdicts, min_size=k, max_size=k), min_size=1, max_size=7))
)
def test_is_its_definition(documents: list[list[float]]) -> None:
    scores = np.array(documents).T
    pairable = [v for row in documents if sum(x == x for x in row) > 1 for v in row if v == v]
    for level in LEVELS:
        found = krippendorff_alpha(scores, level)
        if len(set(pairable)) < 2:
            assert math.isnan(found.value)
            assert found.reason == (NO_VARIATION if pairable else ONE_JUDGE)
        else:
            assert found.value == pytest.approx(by_definition(scores, level), abs=1e-9)


def test_undefined_is_never_a_number() -> None:
    assert krippendorff_alpha(np.array([[3.0, 3, 3], [3, 3, 3]])).reason == NO_VARIATION
    assert krippendorff_alpha(np.array([[1.0, 2, 3]])).reason == ONE_JUDGE
    assert krippendorff_alpha(np.array([[1.0, _], [_, 2.0]])).reason == ONE_JUDGE
    assert krippendorff_alpha(np.empty((2, 0))).reason == ONE_JUDGE
    for scores in ([[3.0, 3], [3, 3]], [[1.0, _], [_, 2.0]]):
        assert math.isnan(krippendorff_alpha(np.array(scores)).value)
    for statistic in (spearman, kendall):
        assert statistic([1, 2], [1, 2]).reason == TOO_FEW
        assert statistic([1, 2, _, 3], [4, 4, 1, 4]).reason == NO_VARIATION
    assert quadratic_kappa([3, 3], [3, 3]).reason == NO_VARIATION
    # Two judges that each say one thing, and not the same: no better than chance, which is a number.
    assert quadratic_kappa([3, 3], [4, 4]).value == 0


def test_interval_is_the_bootstrap_of_documents() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(1, 6, size=12)
    noisy = np.clip(truth + rng.integers(-1, 2, size=(3, 12)), 1, 5).astype(float)
    noisy[0, ::7] = np.nan
    found, without = alpha_interval(noisy, np.random.default_rng(5), resamples=60)
    draws = np.random.default_rng(5)
    values = [by_definition(noisy[:, draws.integers(12, size=12)], ORDINAL) for _ in range(60)]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=1e-9)
    assert found.low < found.value < found.high
    assert without == 0
    again, _without = alpha_interval(noisy, np.random.default_rng(5), resamples=60)
    assert again == found


def test_draws_without_alpha_are_counted() -> None:
    # Two documents, one verdict each: half of all draws take one of them twice, and have no alpha.
    found, without = alpha_interval(np.array([[1.0, 2], [1, 2]]), np.random.default_rng(0), resamples=400)
    assert 150 < without < 250
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_pairs_against_other_libraries() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(11)
    scores = rng.integers(1, 6, size=(3, 80)).astype(float)
    scores[1] = np.clip(scores[0] + rng.integers(-1, 2, size=80), 1, 5)
    scores[rng.random((3, 80)) < 0.1] = np.nan
    found = agreement(scores, ["a", "b", "c"], np.random.default_rng(0), resamples=0)
    assert [pair.judges for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    for pair, (i, j) in zip(found.pairs, [(0, 1), (0, 2), (1, 2)], strict=True):
        there = ~np.isnan(scores[i]) & ~np.isnan(scores[j])
        x, y = scores[i][there], scores[j][there]
        assert pair.n == there.sum() == pair.kappa.n == pair.spearman.n
        assert pair.kappa.value == pytest.approx(
            metrics.cohen_kappa_score(x.astype(int), y.astype(int), labels=[1, 2, 3, 4, 5], weights="quadratic")
        )
        assert (pair.spearman.value, pair.spearman.p) == pytest.approx(tuple(stats.spearmanr(x, y)))
        assert pair.exact.value == pytest.approx(metrics.accuracy_score(x.astype(int), y.astype(int)))
        assert pair.within_one.value == pytest.approx(sum(abs(a - b) <= 1 for a, b in zip(x, y, strict=True)) / len(x))
        assert pair.difference.value == pytest.approx(x.mean() - y.mean())
    tau = kendall(scores[0], scores[1])
    there = ~np.isnan(scores[:2]).any(axis=0)
    assert (tau.value, tau.p) == pytest.approx(tuple(stats.kendalltau(*scores[:2, there])))


def test_means_strictness_and_disagreements() -> None:
    scores = [[1, 5, 3, _, 4], [2, 5, _, _, 1], [4, 5, _, _, 3]]
    found = agreement(scores, ["a", "b", "c"], np.random.default_rng(0), resamples=50)
    np.testing.assert_array_equal(found.means, [7 / 3, 5, 3, _, 8 / 3])
    assert found.counts.tolist() == [3, 3, 1, 0, 3]
    assert found.judge_means == pytest.approx((13 / 4, 8 / 3, 4))
    # Documents 0 and 4 both spread over 3; document 1 is agreed on, the others have not two verdicts.
    assert [(one.document, one.spread) for one in found.disagreements] == [(0, 3), (4, 3)]
    assert found.disagreements[0].scores == (1, 2, 4)
    assert [pair.stricter for pair in found.pairs] == ["b", "a", "b"]  # over 1-5-4: 10/3, 8/3, 4
    assert found.rows()[0] == {
        "judges": "a / b", "n": 3, "exact": 0.333, "within 1": 0.667, "spearman": 0.5, "difference": 0.667,
        # 1 - (1 + 0 + 9)/3 over 26/9 + 26/9 + 4/9 = 56/9
        "kappa": round(1 - (10 / 3) / (56 / 9), 3), "stricter": "b",
    }  # fmt: skip
    text = "\n".join(found.lines())
    assert (
        "5 documents: 4 with a verdict, 3 with verdicts of two or more judges, 2 of these with different ones" in text
    )
    assert "nan" not in text


def test_nothing_in_common() -> None:
    found = agreement([[1, _], [_, 2]], ["a", "b"], np.random.default_rng(0))
    assert found.alpha.reason == ONE_JUDGE
    assert found.pairs[0].stricter is None
    row = found.rows()[0]
    assert row["n"] == 0
    assert row["exact"] is None
    assert "undefined (no document with two verdicts; n = 0)" in "\n".join(found.lines())


def test_difference_interval() -> None:
    x, y = np.array([3.0, 4, 5, 2, _, 1]), np.array([3.0, 3, 4, 4, 2, 1])
    found = mean_difference(x, y, np.random.default_rng(2), resamples=300)
    d = np.array([0.0, 1, 1, -2, 0])
    draws = np.random.default_rng(2)
    means = [np.mean([d[k] for k in draws.integers(5, size=5)]) for _ in range(300)]
    assert found.value == 0
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


@pytest.mark.parametrize(
    ("scores", "judges", "level", "error", "said"),
    [
        ([[1.0], [2.0]], ["a", "a"], ORDINAL, JudgeError, "judge 'a' is given twice"),
        ([[1.0], [2.0]], ["a", "b"], "ratio", JudgeError, "expected one of ordinal, interval, nominal"),
        ([[1.0], [2.0]], ["a"], ORDINAL, ValueError, "expected judges x documents"),
        ([[1.0], [math.inf]], ["a", "b"], ORDINAL, ValueError, "infinity"),
    ],
)
def test_refused(scores: list[list[float]], judges: list[str], level: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        agreement(scores, judges, np.random.default_rng(0), level)
