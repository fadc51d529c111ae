"""How columns of scores go together over models: each pair with its interval, p-value and n, and what is doubtful."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.coefficients import (
    KENDALL,
    PEARSON,
    Cube,
    check_method,
    noisy_correlations,
    weighted_correlations,
)
from lm_eval_healthcare.analysis.directions import Prepared, prepare, varies
from lm_eval_healthcare.analysis.intervals import FEWEST_MODELS, NO_INTERVAL, check_interval, fisher_z, interval
from lm_eval_healthcare.analysis.multiplicity import HOLM, adjusted, check_adjustment
from lm_eval_healthcare.analysis.permutation import Orders, orders, permutation_p
from lm_eval_healthcare.analysis.scores import Correlation, Matrix, Scores

TOO_FEW_MODELS, CONSTANT = "too_few_models", "constant"
FEW_MODELS, EXACT_P, NEARLY_CONSTANT, LISTWISE = "few_models", "exact_p", "nearly_constant", "listwise"
MANY_UNDEFINED = "many_undefined_resamples"

LEAST_MODELS = 3
N_BOOTSTRAP = 2000
N_PERMUTATIONS = 9999
_MANY = 0.05


@dataclass(frozen=True)
class _Settings:
    method: str
    min_models: int
    few: int
    n_bootstrap: int
    n_permutations: int
    interval: str | None
    seed: int


class _Draws:
    """What chance decides, by number of models or column, so that no pair depends on which others stand beside it."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._times: dict[int, Matrix] = {}
        self._orders: dict[int, Orders] = {}
        self._noise: dict[str, Matrix] = {}

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._settings.seed, *purpose])

    def times(self, n: int) -> Matrix:
        """How often each of n models is in each resample."""
        if n not in self._times:
            drawn = self._rng(1, n).multinomial(n, np.full(n, 1 / n), size=self._settings.n_bootstrap)
            self._times[n] = drawn.astype(np.float64)
        return self._times[n]

    def orders(self, n: int) -> Orders:
        """Orders of n models."""
        if n not in self._orders:
            self._orders[n] = orders(n, self._rng(2, n), self._settings.n_permutations)
        return self._orders[n]

    def noise(self, column: str, models: int) -> Matrix:
        """Standard normal errors of a column, one row a draw."""
        if column not in self._noise:
            rng = self._rng(3, zlib.crc32(column.encode()))
            self._noise[column] = rng.standard_normal((self._settings.n_bootstrap, models))
        return self._noise[column]


def correlate(
    scores: Scores,
    method: str = "spearman",
    *,
    rng: np.random.Generator,
    min_models: int = LEAST_MODELS,
    few: int = 5,
    log_metrics: Collection[str] = (),
    align_directions: bool = True,
    listwise: bool = False,
    n_bootstrap: int = N_BOOTSTRAP,
    n_permutations: int = N_PERMUTATIONS,
    interval: str | None = None,
    adjust: str | None = HOLM,
) -> list[Correlation]:
    """Correlate every two columns over the models that have both.

    Every pair is computed from its own models, so that a gap in a third column, or a constant one, changes nothing.
    The same generator, pair and models give the same numbers, whatever other columns and in whatever order.

    Args:
        scores: The scores.
        method: `pearson`, `spearman`, or `kendall` (tau-b).
        rng: Draws models, orders and errors.
        min_models: Common models below which there is no coefficient; 3 or more, since two always give 1 or -1.
        few: Common models below which a coefficient is flagged `few_models`.
        log_metrics: Metrics that enter as logarithms, such as `directions.PERPLEXITIES`; Spearman's and Kendall's
            coefficients are the same with and without.
        align_directions: Turn columns in which lower is better (flags `x_reversed`, `y_reversed`), so that a positive
            coefficient always says: better here, better there.
        listwise: Use only models that have every column, for all pairs alike (flag `listwise`).
        n_bootstrap: Resamples for the interval, and draws for the propagated error; 0 for neither.
        n_permutations: Orders drawn for the p-value of 9 or more models; with up to 8 all orders are tried (flag
            `exact_p`); 0 for no p-values.
        interval: `percentile`, `bca` or `expanded_percentile`; None for the one that simulation chose
            (`analysis.intervals`).
        adjust: `holm`, `bh`, or None; the family is all pairs with a p-value.

    Returns:
        All pairs, in the order of the columns.

    Raises:
        ValueError: If the method, interval or correction is unknown, or `min_models` is below 3.
    """
    check_method(method)
    if interval is not None:
        check_interval(interval)
    if adjust is not None:
        check_adjustment(adjust)
    if min_models < LEAST_MODELS:
        raise ValueError(f"min_models {min_models}: expected 3 or more, since two models always give 1 or -1")
    ready = prepare(scores, log_metrics=log_metrics, align=align_directions, listwise=listwise)
    seed = int(rng.integers(2**62))
    settings = _Settings(method, min_models, few, n_bootstrap, n_permutations, interval, seed)
    draws = _Draws(settings)
    found: dict[tuple[int, int], Correlation] = {}
    for models, pairs in _by_models(ready.values).items():
        block = _Block(ready, np.frombuffer(models, dtype=bool), pairs, settings, draws)
        found.update({pair: block.correlation(*pair) for pair in pairs})
    ordered = [found[pair] for pair in combinations(range(len(ready.names)), 2)]
    if listwise:
        ordered = [replace(one, flags=(*one.flags, LISTWISE)) for one in ordered]
    if adjust is None:
        return ordered
    corrected = adjusted(np.array([one.p for one in ordered]), adjust)
    return [replace(one, adjusted=float(p)) for one, p in zip(ordered, corrected, strict=True)]


def _by_models(values: Matrix) -> dict[bytes, list[tuple[int, int]]]:
    there = np.isfinite(values)
    groups: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for pair in combinations(range(values.shape[1]), 2):
        groups[(there[:, pair[0]] & there[:, pair[1]]).tobytes()].append(pair)
    return groups


class _Block:
    """All pairs that have the same models: these share resamples, orders and draws, as products of matrices."""

    def __init__(
        self,
        ready: Prepared,
        models: NDArray[np.bool_],
        pairs: Sequence[tuple[int, int]],
        settings: _Settings,
        chance: _Draws,
    ) -> None:
        self._ready, self._models, self._settings, self._chance = ready, models, settings, chance
        self.n = int(models.sum())
        members = sorted({column for pair in pairs for column in pair})
        self._varies = {column: varies(ready.values[models, column]) for column in members}
        self._place = {column: place for place, column in enumerate(c for c in members if self._varies[c])}
        self._values = ready.values[np.ix_(np.flatnonzero(models), np.array(list(self._place), dtype=np.int64))]
        self._stderr = ready.stderr[np.ix_(np.flatnonzero(models), np.array(list(self._place), dtype=np.int64))]

    def correlation(self, x: int, y: int) -> Correlation:
        """Return one pair."""
        settings = self._settings
        blank = Correlation(
            self._ready.names[x], self._ready.names[y], settings.method,
            math.nan, math.nan, math.nan, math.nan, self.n, flags=self._flags(x, y),
        )  # fmt: skip
        if self.n < settings.min_models:
            return replace(blank, reason=TOO_FEW_MODELS)
        if not (self._varies[x] and self._varies[y]):
            return replace(blank, reason=CONSTANT)
        a, b = self._place[x], self._place[y]
        r = coefficient(self._values[:, a], self._values[:, b], settings.method)
        left_out = self._left_out[:, a, b]
        defined = left_out[np.isfinite(left_out)]
        spread = (float(defined.min()), float(defined.max())) if len(defined) else NO_INTERVAL
        tested = settings.n_permutations > 0
        exact = (EXACT_P,) if tested and self._orders.exact else ()
        found = replace(
            blank, r=r, p=float(self._p[min(a, b), max(a, b)]) if tested else math.nan,
            flags=blank.flags + exact, sensitivity=spread,
            fisher=fisher_z(r, self.n) if settings.method == PEARSON else NO_INTERVAL,
        )  # fmt: skip
        return self._with_draws(found, a, b, left_out) if settings.n_bootstrap else found

    def _with_draws(self, found: Correlation, a: int, b: int, left_out: NDArray[np.float64]) -> Correlation:
        found = replace(found, propagated=self._propagated(a, b))
        if self.n < FEWEST_MODELS:
            return found
        draws = self._draws[:, a, b]
        (low, high), kind = interval(found.r, draws, left_out, found.method, self._settings.interval)
        undefined = int(np.isnan(draws).sum())
        flags = (*found.flags, MANY_UNDEFINED) if undefined > _MANY * len(draws) else found.flags
        return replace(found, low=low, high=high, interval=kind, undefined_resamples=undefined, flags=flags)

    def _flags(self, x: int, y: int) -> tuple[str, ...]:
        found = [f"x_{flag}" for flag in self._ready.flags[x]] + [f"y_{flag}" for flag in self._ready.flags[y]]
        if self.n < self._settings.few:
            found.append(FEW_MODELS)
        if any(not self._varies[one] and np.ptp(self._ready.values[self._models, one]) > 0 for one in (x, y) if self.n):
            found.append(NEARLY_CONSTANT)
        return tuple(found)

    def _propagated(self, a: int, b: int) -> float:
        if np.isnan(self._stderr[:, [a, b]]).any():
            return math.nan
        drawn = self._noisy[:, a, b]
        drawn = drawn[np.isfinite(drawn)]
        return float(drawn.std(ddof=1)) if len(drawn) > 1 else math.nan

    @cached_property
    def _left_out(self) -> Cube:
        # Without one of `min_models` models there are too few left.
        if self.n <= self._settings.min_models:
            return np.full((self.n, len(self._place), len(self._place)), np.nan)
        return weighted_correlations(self._values, 1.0 - np.eye(self.n), self._settings.method)

    @cached_property
    def _draws(self) -> Cube:
        return weighted_correlations(self._values, self._chance.times(self.n), self._settings.method)

    @cached_property
    def _orders(self) -> Orders:
        return self._chance.orders(self.n)

    @cached_property
    def _p(self) -> Matrix:
        return permutation_p(self._values, self._orders, self._settings.method)

    @cached_property
    def _noisy(self) -> Cube:
        models = len(self._models)
        noise = [self._chance.noise(self._ready.names[column], models)[:, self._models] for column in self._place]
        errors = np.nan_to_num(self._stderr, nan=0.0)
        return noisy_correlations(self._values + errors * np.stack(noise, axis=2), self._settings.method)


def coefficient(x: NDArray[np.float64], y: NDArray[np.float64], method: str) -> float:
    """Return scipy's coefficient of two columns without gaps, neither of them constant.

    Args:
        x: Values.
        y: Values of the same models.
        method: `pearson`, `spearman` or `kendall`.
    """
    from scipy import stats

    check_method(method)
    if method == PEARSON:
        return float(stats.pearsonr(x, y).statistic)
    if method == KENDALL:
        # The asymptotic p-value is the cheap one; it is not used.
        return float(stats.kendalltau(x, y, method="asymptotic").statistic)
    return float(stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic)
