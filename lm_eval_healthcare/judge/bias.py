"""Whether a judge goes by what it should not: how long an answer is, or which of two it is shown first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lm_eval_healthcare.judge.intervals import share
from lm_eval_healthcare.judge.paired import (
    NO_VARIATION,
    TOO_FEW,
    Column,
    Statistic,
    both,
    spearman,
    undefined,
)

NO_INCONSISTENT = "no_document_with_two_answers_to_order"
DETERMINED = "a_rank_is_determined_by_the_reference_length"
LENGTH_NOTE = (
    "A correlation of score and length is no proof that the judge likes long answers: a longer answer may hold more of "
    "what the rubric asks for. It calls for a look if it is clearly larger than that of other metrics or of people's "
    "grades on the same answers, or if it stays with the reference's length held fixed."
)
ORDER_NOTE = (
    "A judge without position bias may still disagree with itself: what shows the bias is that one place wins much "
    "more often among the documents where the two orders give the same letter."
)


@dataclass(frozen=True)
class LengthBias:
    """Score against answer length for one judge.

    Attributes:
        judge: Its name.
        spearman: Rank correlation of score and length of the answer.
        partial: The same with the rank of the reference's length held fixed; None if no references were given.
    """

    judge: str
    spearman: Statistic
    partial: Statistic | None = None

    def lines(self) -> list[str]:
        """Return it in words."""
        said = [f"{self.judge}: Spearman of score and answer length {self.spearman}"]
        if self.partial is not None:
            said.append(f"{self.judge}: the same with the reference's length held fixed {self.partial}")
        return said


@dataclass(frozen=True)
class PositionBias:
    """What changes when two answers change places.

    Attributes:
        documents: Pairs of answers judged in both orders, and those that lack a verdict in one of them or in both.
        consistent: Share of the former for which the same answer wins in both orders, with a Wilson interval.
        always_first: Share for which the answer shown first wins both times.
        always_second: Share for which the answer shown second wins both times.
        first: Share of all their verdicts that are for the answer shown first; 0.5 without bias.
        preference: Share of the first place among the documents for which one place wins both times, with a Wilson
            interval and the exact binomial p-value against 0.5.
    """

    documents: tuple[int, int]
    consistent: Statistic
    always_first: Statistic
    always_second: Statistic
    first: Statistic
    preference: Statistic

    def lines(self) -> list[str]:
        """Return it in words."""
        judged, without = self.documents
        return [
            f"{judged} documents judged in both orders, {without} without a verdict in one of them",
            f"the same answer wins in both orders: {self.consistent}",
            f"the answer shown first wins both times: {self.always_first}",
            f"the answer shown second wins both times: {self.always_second}",
            f"verdicts for the answer shown first: {self.first}",
            f"first place where one place wins both times: {self.preference}",
        ]


def answer_length(text: str | None) -> float:
    """Return the number of characters of an answer, white space around it aside; NaN if there is no answer.

    Characters and not words, since not every language sets spaces between words.
    """
    return math.nan if text is None else float(len(text.strip()))


def length_bias(
    judge: str,
    scores: Sequence[float] | Column,
    lengths: Sequence[float] | Column,
    reference_lengths: Sequence[float] | Column | None = None,
) -> LengthBias:
    """Correlate one judge's scores with the lengths of the answers.

    Args:
        judge: Its name.
        scores: One per document; NaN for no verdict.
        lengths: One per document, in any one unit; see `answer_length`.
        reference_lengths: The same of the references, if the partial correlation is wanted.
    """
    partial = None if reference_lengths is None else partial_spearman(scores, lengths, reference_lengths)
    return LengthBias(judge, spearman(scores, lengths), partial)


def length_bias_by_judge(
    judges: Sequence[str],
    scores: Sequence[Sequence[float]] | Column,
    lengths: Sequence[float] | Column,
    reference_lengths: Sequence[float] | Column | None = None,
) -> list[LengthBias]:
    """Return `length_bias` for each row of a matrix judges x documents."""
    return [
        length_bias(judge, row, lengths, reference_lengths)
        for judge, row in zip(judges, np.asarray(scores, dtype=np.float64), strict=True)
    ]


def partial_spearman(
    x: Sequence[float] | Column, y: Sequence[float] | Column, z: Sequence[float] | Column
) -> Statistic:
    r"""Return Spearman's correlation of x and y with the ranks of z held fixed, from -1 to 1.

    $$r_{xy \cdot z} = \frac{r_{xy} - r_{xz} r_{yz}}{\sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}}$$

    with the p-value of $t = r\sqrt{(n-3)/(1-r^2)}$ with $n - 3$ degrees of freedom. It does not exist for fewer than 4
    documents, where something does not vary, or where x or y has the same ranks as z (or their reverse).
    """
    from scipy import stats

    x, y, z = both(x, y, z)
    n = len(x)
    if n < 4:
        return undefined(n, TOO_FEW)
    if any(column.min() == column.max() for column in (x, y, z)):
        return undefined(n, NO_VARIATION)
    xy, xz, yz = (spearman(*pair).value for pair in ((x, y), (x, z), (y, z)))
    left = (1 - xz**2) * (1 - yz**2)
    if left < 1e-12:
        return undefined(n, DETERMINED)
    value = min(1.0, max(-1.0, (xy - xz * yz) / math.sqrt(left)))
    rest = 1 - value**2
    p = 0.0 if rest <= 0 else 2 * float(stats.t.sf(abs(value) * math.sqrt((n - 3) / rest), n - 3))
    return Statistic(value, n, p=p)


def position_bias(letters: Iterable[tuple[str | None, str | None]]) -> PositionBias:
    """Compare the verdicts of the two orders.

    Documents for which the same answer wins in both orders say nothing about places: each has one verdict for either
    place. The others are independent draws between the two places, and without bias either is as likely: the exact
    binomial test of these is McNemar's exact test of "answer 1 wins" in the one order against the other.

    Args:
        letters: For each document the letter, `A` (shown first) or `B`, that won when answer 1 was shown first, and
            the one that won when answer 2 was; None for no verdict.

    Raises:
        ValueError: If a letter is another one.
    """
    counts = {"AA": 0, "AB": 0, "BA": 0, "BB": 0}
    without = 0
    for one, other in letters:
        if one is None or other is None:
            without += 1
        elif one + other in counts:
            counts[one + other] += 1
        else:
            raise ValueError(f"letters {one!r} and {other!r}; expected 'A', 'B' or None each")
    n, first, second = sum(counts.values()), counts["AA"], counts["BB"]
    verdicts_first = 2 * first + counts["AB"] + counts["BA"]
    return PositionBias(
        documents=(n, without),
        consistent=share(counts["AB"] + counts["BA"], n),
        always_first=share(first, n),
        always_second=share(second, n),
        # The two verdicts of a document are not independent, hence no interval here.
        first=Statistic(verdicts_first / (2 * n), 2 * n) if n else undefined(0, TOO_FEW),
        preference=share(first, first + second, tested=True, reason=NO_INCONSISTENT),
    )
