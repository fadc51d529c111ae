r"""Scores by a column of the documents, such as the year of an exam: how high in each group, and whether they rise.

Whether the share of right answers rises or falls with the year is tested by Cochran and Armitage's test. With the n
documents' scores $y_i$ in {0, 1} and years $t_i$, it is the score test of the slope of a logistic regression,
$z = \sqrt n\, r$ with Pearson's r of y and t. Sources: W. G. Cochran, Biometrics 10 (1954), 417-451; P. Armitage,
Biometrics 11 (1955), 375-386.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lm_eval_healthcare.analysis.paired_runs import NOT_KNOWN, Interval, Values, is_binary, mean_interval

NOT_NUMBERS, ONE_GROUP, CONSTANT = "column_is_not_numeric", "fewer_than_2_groups", "all_scores_are_equal"
COCHRAN_ARMITAGE, LINEAR = "cochran_armitage", "linear_regression"
CONTAMINATION_NOTE = (
    "Scores that are far higher for older years than for the newest are a hint of contamination (the model may have "
    "seen the older exams in training), not a proof: exams also differ in difficulty and in subjects."
)


@dataclass(frozen=True)
class Group:
    """The documents with one value of the column.

    Attributes:
        label: The value.
        n: Documents with a score.
        mean: Their mean score; NaN without any.
        interval: Its 95% interval: Wilson's for 0/1 scores, otherwise Student's t.
    """

    label: str
    n: int
    mean: float
    interval: Interval


@dataclass(frozen=True)
class Trend:
    """How scores change along a numeric column.

    Attributes:
        test: `cochran_armitage` for 0/1 scores, otherwise `linear_regression`.
        n: Documents with a score and a number in the column.
        slope: Change of the mean score per unit of the column, by least squares.
        statistic: z of Cochran and Armitage's test, or t; positive if scores rise.
        p: Two-sided p-value, documents taken for independent.
        before_last: Mean score of all earlier groups less that of the last one (the newest year).
        interval: Its 95% interval: Newcombe's for 0/1 scores, otherwise Welch's.
        reason: Why there is none; None if there is.
    """

    test: str
    n: int
    slope: float = math.nan
    statistic: float = math.nan
    p: float = math.nan
    before_last: float = math.nan
    interval: Interval = NOT_KNOWN
    reason: str | None = None


def group_scores(scores: Sequence[float] | Values, labels: Sequence[str]) -> list[Group]:
    """Return the mean score of each group, in the order of `ordered`.

    Args:
        scores: One per document; NaN for none.
        labels: The group of each document.
    """
    values, names = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=object)
    found, binary = [], is_binary(values[np.isfinite(values)])
    for label in ordered(labels):
        part = values[names == label]
        part = part[np.isfinite(part)]
        found.append(
            Group(label, len(part), float(part.mean()) if len(part) else math.nan, mean_interval(part, binary=binary))
        )
    return found


def ordered(labels: Sequence[str]) -> list[str]:
    """Return the distinct labels in the order in which they are shown: numbers, then texts."""
    numbers = {label: number(label) for label in labels}
    return sorted(numbers, key=lambda label: (math.isnan(numbers[label]), np.nan_to_num(numbers[label]), label))


def number(label: str) -> float:
    """Return a label as a number, NaN if it is none or not finite."""
    try:
        value = float(label)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def trend(scores: Sequence[float] | Values, labels: Sequence[str]) -> Trend:
    """Test whether scores rise or fall along a numeric column.

    Args:
        scores: One per document; NaN for none.
        labels: The group of each document; those that are no numbers, such as a missing year, are left out.
    """
    from scipy import stats

    values, at = np.asarray(scores, dtype=np.float64), np.array([number(label) for label in labels], dtype=np.float64)
    kept = np.isfinite(values) & np.isfinite(at)
    if not np.isfinite(at).any():
        return Trend(LINEAR, 0, reason=NOT_NUMBERS)
    values, at = values[kept], at[kept]
    n, test = len(values), COCHRAN_ARMITAGE if is_binary(values) else LINEAR
    if len(np.unique(at)) < 2:
        return Trend(test, n, reason=ONE_GROUP)
    gap, interval = _before_last(values[at < at.max()], values[at == at.max()], test == COCHRAN_ARMITAGE)
    if values.min() == values.max():
        return Trend(test, n, before_last=gap, interval=interval, reason=CONSTANT)
    line = stats.linregress(at, values)
    statistic, p = float(line.slope / line.stderr) if line.stderr else math.nan, float(line.pvalue)
    if test == COCHRAN_ARMITAGE:
        statistic = math.sqrt(n) * float(line.rvalue)
        p = 2 * float(stats.norm.sf(abs(statistic)))
    return Trend(test, n, float(line.slope), statistic, p, gap, interval)


def _before_last(before: Values, last: Values, binary: bool) -> tuple[float, Interval]:
    """Return the difference of two means of different documents, with its 95% interval.

    Newcombe's interval joins Wilson's of both shares: R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890.
    """
    from scipy import stats

    gap = float(before.mean() - last.mean())
    if binary:
        (low, high), (low_last, high_last) = mean_interval(before, binary=True), mean_interval(last, binary=True)
        p, q = float(before.mean()), float(last.mean())
        return gap, (gap - math.hypot(p - low, high_last - q), gap + math.hypot(high - p, q - low_last))
    if min(len(before), len(last)) < 2 or not (before.std() or last.std()):
        return gap, NOT_KNOWN
    found = stats.ttest_ind(before, last, equal_var=False).confidence_interval()
    return gap, (float(found.low), float(found.high))
