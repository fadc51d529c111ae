r"""Several judges of the same documents: their mean, how far they agree, and where they do not.

Krippendorff's alpha for any number of judges with gaps: with the pairable verdicts (those of documents with two or
more), $n$ of them, $m_u$ of document $u$,

$$\alpha = 1 - \frac{D_o}{D_e}, \qquad D_o = \frac1n \sum_u \frac{1}{m_u - 1} \sum_{i \ne j} \delta^2(x_{ui}, x_{uj}),
\qquad D_e = \frac{1}{n(n-1)} \sum_{i \ne j} \delta^2(x_i, x_j)$$

where $\delta$ is the difference of two verdicts: 0 or 1 (nominal), of their values (interval), or of the mid-ranks that
their values have among all pairable verdicts (ordinal). Source: K. Krippendorff, Content Analysis: An Introduction to
Its Methodology, chapter on reliability; the ordinal difference there, $\sum_{g=c}^{k} n_g - (n_c + n_k)/2$, is that of
mid-ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.paired import (
    NO_VARIATION,
    RESAMPLES,
    Column,
    Statistic,
    exact,
    mean_difference,
    percentile_interval,
    quadratic_kappa,
    spearman,
    undefined,
    within,
)

ORDINAL, INTERVAL, NOMINAL = "ordinal", "interval", "nominal"
LEVELS = (ORDINAL, INTERVAL, NOMINAL)
ONE_JUDGE = "no_document_with_two_verdicts"


@dataclass(frozen=True)
class Pair:
    """Two judges.

    Attributes:
        judges: Their names.
        exact: Share of documents with the same verdict.
        within_one: Share of documents with verdicts at most 1 apart.
        kappa: Cohen's kappa with quadratic weights.
        spearman: Rank correlation.
        difference: Mean of the first judge's score less the second's; below 0 if the first one is stricter.
    """

    judges: tuple[str, str]
    exact: Statistic
    within_one: Statistic
    kappa: Statistic
    spearman: Statistic
    difference: Statistic

    @property
    def n(self) -> int:
        """Documents with a verdict of both."""
        return self.exact.n

    @property
    def stricter(self) -> str | None:
        """The judge with the lower mean over the documents of both; None if they are equal or there are none."""
        if not self.difference.value:
            return None
        return None if math.isnan(self.difference.value) else self.judges[int(self.difference.value > 0)]

    def row(self) -> dict[str, object]:
        """Return a row of a table."""
        numbers = {
            "exact": self.exact, "within 1": self.within_one, "kappa": self.kappa,
            "spearman": self.spearman, "difference": self.difference,
        }  # fmt: skip
        cells = {name: None if math.isnan(s.value) else round(s.value, 3) for name, s in numbers.items()}
        return {"judges": " / ".join(self.judges), "n": self.n, **cells, "stricter": self.stricter}


@dataclass(frozen=True)
class Disagreement:
    """A document about which judges differ.

    Attributes:
        document: Its number, from 0, as in the matrix.
        scores: One score per judge, NaN for no verdict.
        spread: Highest less lowest score.
    """

    document: int
    scores: tuple[float, ...]
    spread: float


@dataclass(frozen=True)
class Agreement:
    """What several judges make of the same documents.

    Attributes:
        judges: Their names.
        means: Each document's mean score over the judges that gave one; NaN if none did.
        counts: How many did.
        judge_means: Each judge's mean score over the documents that it has a verdict of.
        level: How the differences in alpha are measured.
        alpha: Krippendorff's alpha with its 95% interval; `n` is the number of documents with two or more verdicts.
        undefined_resamples: Draws of documents without an alpha, which the interval leaves out.
        pairs: Every two judges.
        disagreements: Documents whose verdicts are not all equal, the widest first, then in document order.
    """

    judges: tuple[str, ...]
    means: Column
    counts: NDArray[np.int64]
    judge_means: tuple[float, ...]
    level: str
    alpha: Statistic
    undefined_resamples: int
    pairs: tuple[Pair, ...]
    disagreements: tuple[Disagreement, ...]

    def lines(self) -> list[str]:
        """Return it in words, without the table of pairs."""
        shared, some, total = int((self.counts >= 2).sum()), int((self.counts >= 1).sum()), len(self.counts)
        said = [
            f"{total} documents: {some} with a verdict, {shared} with verdicts of two or more judges, "
            f"{len(self.disagreements)} of these with different ones",
            f"Krippendorff's alpha ({self.level}): {self.alpha}",
        ]
        if self.undefined_resamples:
            said.append(f"its interval leaves {self.undefined_resamples} draws out that have no alpha")
        for judge, mean in zip(self.judges, self.judge_means, strict=True):
            said.append(f"mean of {judge}: {'none' if math.isnan(mean) else f'{mean:.3f}'}")
        return said

    def rows(self) -> list[dict[str, object]]:
        """Return the table of pairs."""
        return [pair.row() for pair in self.pairs]


def agreement(
    scores: Sequence[Sequence[float]] | Column,
    judges: Sequence[str],
    rng: np.random.Generator,
    level: str = ORDINAL,
    resamples: int = RESAMPLES,
) -> Agreement:
    """Compare judges.

    Args:
        scores: One row per judge, one column per document; NaN for no verdict.
        judges: The judges' names, in the order of the rows.
        rng: Draws the documents of the interval.
        level: `ordinal`, `interval` or `nominal`.
        resamples: How often they are drawn; 0 for no interval.

    Raises:
        JudgeError: If the level is unknown or two judges have one name.
        ValueError: If the matrix does not have a row for each judge, or holds infinity.
    """
    matrix = _matrix(scores, judges)
    alpha, without = alpha_interval(matrix, rng, level, resamples)
    counts = np.isfinite(matrix).sum(axis=0)
    return Agreement(
        judges=tuple(judges),
        means=_means(matrix),
        counts=counts.astype(np.int64),
        judge_means=tuple(_means(matrix.T).tolist()),
        level=level,
        alpha=alpha,
        undefined_resamples=without,
        pairs=tuple(
            _pair((judges[i], judges[j]), matrix[i], matrix[j]) for i, j in combinations(range(len(matrix)), 2)
        ),
        disagreements=tuple(disagreements(matrix)),
    )


def krippendorff_alpha(scores: Sequence[Sequence[float]] | Column, level: str = ORDINAL) -> Statistic:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for chance, below 0 for systematic disagreement.

    Args:
        scores: One row per judge, one column per document; NaN for no verdict.
        level: `ordinal`, `interval` or `nominal`.

    Returns:
        Alpha without an interval; `n` is the number of documents with two or more verdicts. It does not exist if there
        is none (`ONE_JUDGE`) or if all their verdicts are equal (`NO_VARIATION`).

    Raises:
        JudgeError: If the level is unknown.
    """
    pairable = _Pairable(np.asarray(scores, dtype=np.float64), level)
    if not pairable.documents:
        return undefined(0, ONE_JUDGE)
    value = pairable.alpha(np.ones(pairable.documents))
    return undefined(pairable.documents, NO_VARIATION) if math.isnan(value) else Statistic(value, pairable.documents)


def alpha_interval(
    scores: Column, rng: np.random.Generator, level: str = ORDINAL, resamples: int = RESAMPLES
) -> tuple[Statistic, int]:
    """Return `krippendorff_alpha` with the 95% percentile interval over resampled documents, and the draws without one.

    Only documents with two or more verdicts are drawn. A draw whose verdicts are all equal has no alpha and is left
    out; where these are many, the interval is narrower than it should be. One document has no interval.
    """
    found = krippendorff_alpha(scores, level)
    if math.isnan(found.value) or found.n < 2 or resamples < 1:
        return found, 0
    pairable = _Pairable(np.asarray(scores, dtype=np.float64), level)
    n = pairable.documents
    drawn = (np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(resamples))
    values = np.array([pairable.alpha(times.astype(np.float64)) for times in drawn])
    low, high = percentile_interval(values)
    return Statistic(found.value, n, low=low, high=high), int(np.isnan(values).sum())


def disagreements(scores: Sequence[Sequence[float]] | Column) -> list[Disagreement]:
    """Return the documents whose verdicts differ, the widest spread first, then in document order."""
    found = []
    for number, column in enumerate(np.asarray(scores, dtype=np.float64).T):
        given = column[np.isfinite(column)]
        if len(given) > 1 and given.max() > given.min():
            found.append(Disagreement(number, tuple(column.tolist()), float(given.max() - given.min())))
    return sorted(found, key=lambda one: -one.spread)


class _Pairable:
    """The verdicts of documents with two or more, laid out so that documents can be weighted."""

    def __init__(self, scores: Column, level: str) -> None:
        if level not in LEVELS:
            raise JudgeError(f"level of measurement '{level}': expected one of {', '.join(LEVELS)}")
        self.level = level
        columns = [column[np.isfinite(column)] for column in scores.T]
        columns = [column for column in columns if len(column) > 1]
        self.documents = len(columns)
        self.values, index = np.unique(np.concatenate([*columns, np.empty(0)]), return_inverse=True)
        sizes = np.array([len(column) for column in columns], dtype=np.int64)
        self._index, self._document = index, np.repeat(np.arange(len(columns)), sizes)
        starts = np.cumsum(sizes) - sizes
        pairs = [
            (document, index[start + i], index[start + j], 2.0 / (size - 1))
            for document, (start, size) in enumerate(zip(starts, sizes, strict=True))
            for i, j in combinations(range(size), 2)
        ]
        of, a, b, weight = zip(*pairs, strict=True) if pairs else ((), (), (), ())
        self._of, self._a, self._b = (np.array(one, dtype=np.int64) for one in (of, a, b))
        self._weight = np.array(weight, dtype=np.float64)

    def alpha(self, times: Column) -> float:
        """Return alpha with each document taken so many times; NaN if all verdicts are equal."""
        counts = np.bincount(self._index, weights=times[self._document], minlength=len(self.values))
        if np.count_nonzero(counts) < 2:
            return math.nan
        n = counts.sum()
        weight = self._weight * times[self._of]
        if self.level == NOMINAL:
            observed = weight[self._a != self._b].sum()
            expected = n**2 - (counts**2).sum()
        else:
            place = self.values if self.level == INTERVAL else np.cumsum(counts) - counts / 2
            observed = (weight * (place[self._a] - place[self._b]) ** 2).sum()
            # The sum over all ordered pairs of (p - q)^2, which is 2 n times the sum of squares around the mean.
            expected = 2 * n * (counts * (place - (counts * place).sum() / n) ** 2).sum()
        return float(1.0 - (n - 1) * observed / expected)


def _matrix(scores: Sequence[Sequence[float]] | Column, judges: Sequence[str]) -> Column:
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != len(judges):
        raise ValueError(f"scores of shape {matrix.shape} for {len(judges)} judges; expected judges x documents")
    if np.isinf(matrix).any():
        raise ValueError("scores hold infinity; expected numbers, and NaN for no verdict")
    if len(set(judges)) != len(judges):
        twice = sorted({judge for judge in judges if list(judges).count(judge) > 1})
        raise JudgeError(f"judge '{twice[0]}' is given twice; give each judge once, or each one a name of its own")
    return matrix


def _means(matrix: Column) -> Column:
    there = np.isfinite(matrix)
    count = there.sum(axis=0)
    total = np.where(there, matrix, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(matrix.shape[1], np.nan), where=count > 0)


def _pair(judges: tuple[str, str], x: Column, y: Column) -> Pair:
    return Pair(judges, exact(x, y), within(x, y), quadratic_kappa(x, y), spearman(x, y), mean_difference(x, y))
