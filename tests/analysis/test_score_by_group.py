"""Scores by a column: intervals and trend against statsmodels and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.analysis.score_by_group import (
    COCHRAN_ARMITAGE,
    CONSTANT,
    LINEAR,
    NOT_NUMBERS,
    ONE_GROUP,
    group_scores,
    ordered,
    trend,
)

YEARS = {"2014": (8, 20), "2016": (18, 30), "2020": (35, 50)}  # right answers, questions


def documents() -> tuple[list[float], list[str]]:
    scores: list[float] = []
    labels: list[str] = []
    for year, (good, n) in YEARS.items():
        scores += [1.0] * good + [0.0] * (n - good)
        labels += [year] * n
    return scores, labels


def wilson(good: int, n: int) -> tuple[float, float]:
    """By the formula."""
    z, p = 1.959963984540054, good / n
    centre, reach = p + z * z / 2 / n, z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)


def test_accuracy_by_year_with_wilson_intervals() -> None:
    for group, (year, (good, n)) in zip(group_scores(*documents()), YEARS.items(), strict=True):
        assert (group.label, group.n, group.mean) == (year, n, good / n)
        assert group.interval == pytest.approx(wilson(good, n))


def test_cochran_armitage_by_hand() -> None:
    total, good_all = 100, 61
    share = good_all / total
    years = {year: float(year) for year in YEARS}
    lifted = sum(years[y] * (good - n * share) for y, (good, n) in YEARS.items())
    squares = sum(n * years[y] ** 2 for y, (_, n) in YEARS.items())
    line = sum(n * years[y] for y, (_, n) in YEARS.items())
    z = lifted / math.sqrt(share * (1 - share) * (squares - line**2 / total))
    found = trend(*documents())
    assert (found.test, found.n, found.reason) == (COCHRAN_ARMITAGE, 100, None)
    assert found.statistic == pytest.approx(z)
    assert found.p == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_trend_and_gap_of_statsmodels() -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    found = trend(*documents())
    table = tables.Table(np.array([[good, n - good] for good, n in YEARS.values()]), shift_zeros=False)
    expected = table.test_ordinal_association(np.array([2014, 2016, 2020]), np.array([1, 0]))
    # statsmodels holds both margins fixed, which gives the variance n / (n - 1) as large.
    assert found.statistic == pytest.approx(expected.zscore * math.sqrt(100 / 99))
    low, high = proportion.confint_proportions_2indep(26, 50, 35, 50, method="newcomb")
    assert found.before_last == pytest.approx(26 / 50 - 35 / 50)
    assert found.interval == pytest.approx((low, high))


def test_real_valued_scores() -> None:
    rng = np.random.default_rng(0)
    years = rng.integers(2010, 2020, size=60)
    scores = 0.1 * (years - 2010) + rng.normal(size=60)
    found, line = trend(scores, [str(year) for year in years]), stats.linregress(years, scores)
    assert (found.test, found.slope, found.p) == (LINEAR, pytest.approx(line.slope), pytest.approx(line.pvalue))
    assert found.statistic == pytest.approx(line.slope / line.stderr)
    gap = stats.ttest_ind(scores[years < 2019], scores[years == 2019], equal_var=False).confidence_interval()
    assert found.interval == pytest.approx((gap.low, gap.high))


def test_judges_scores_of_one_are_not_shares() -> None:
    groups = group_scores([1, 1, 1, 4, 5, 2], ["a", "a", "a", "b", "b", "b"])
    assert np.isnan(groups[0].interval).all()  # they do not vary
    assert groups[1].interval == pytest.approx(stats.ttest_1samp([4, 5, 2], 0).confidence_interval())


def test_unscored_documents_and_missing_years() -> None:
    scores, labels = [1.0, 0.0, math.nan, 1.0, 1.0], ["2019", "2019", "2020", "(none)", "2020"]
    assert [(group.label, group.n) for group in group_scores(scores, labels)] == [
        ("2019", 2), ("2020", 1), ("(none)", 1),
    ]  # fmt: skip
    assert trend(scores, labels).n == 3


def test_labels_are_in_order() -> None:
    assert ordered(["10", "9", "b", "a", "9", "nan"]) == ["9", "10", "a", "b", "nan"]


@pytest.mark.parametrize(
    ("scores", "labels", "reason"),
    [
        ([1, 0], ["surgery", "nursing"], NOT_NUMBERS),
        ([1, 0, 1], ["2019", "2019", "2019"], ONE_GROUP),
        ([1, 1, 1], ["2018", "2019", "2019"], CONSTANT),
        ([math.nan, math.nan], ["2018", "2019"], ONE_GROUP),
    ],
)
def test_no_trend_says_why(scores: list[float], labels: list[str], reason: str) -> None:
    found = trend(scores, labels)
    assert found.reason == reason
    assert math.isnan(found.p)
    assert math.isnan(found.slope)
