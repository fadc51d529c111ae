"""From log-probabilities to every reading of Relaxed Perplexity: float64 arithmetic, without a model.

In what follows A_i is the event that the target comes after i tokens of the answer, k counts the scored prefixes of i
tokens, l_i is how many there are, and p_ik = P(target | question, prefix_k). All logarithms are natural.

Three steps lead from the p_ik to a number, and the paper leaves room in each; the readings are the ways through:

1. The prefixes of a position become one probability, P_i = sum_k w_ik p_ik (`COMBINATIONS`).
2. The positions become one cross-entropy, with S = sum_i log P_i (`QUANTITIES`).
3. Perplexities divide it by N = n_eff + tokens of the target. Completions that have ended leave the later positions;
   n_eff is the length that was reached.

Source: "Automatic Evaluation of Healthcare LLMs Beyond Question-Answering", arXiv 2502.06666, section 6.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix

ROUNDING = 1e-6
"""A log-probability may be so far above 0, in nats; it is then read as 0."""

COMBINATIONS = {
    "": "prefixes of a position added up, as published",
    "_averaged": "prefixes of a position averaged",
    "_weighted": "prefixes of a position weighted by their probability, as in the law of total probability",
    "_sampled": "prefixes of a position weighted by how many completions begin with them",
}
"""How the prefixes of a position become one P_i, by the end of a reading's name."""

QUANTITIES = {
    "relaxed_perplexity": "exp(-S / N), the published formula",
    "log_relaxed_perplexity": "-S / N, the logarithm of relaxed_perplexity, in nats",
    "relaxed_perplexity_corrected": "relaxed_perplexity as if every position had been scored, whatever the stride",
    "log_relaxed_perplexity_corrected": "the logarithm of relaxed_perplexity_corrected, in nats",
    "relaxed_cross_entropy_sum": "-S, over all positions, in nats",
    "relaxed_cross_entropy_mean": "-S / positions, of one position on average, in nats",
    "relaxed_cross_entropy_any": "-log sum_i P_i: the target at any of the positions, in nats",
    "relaxed_nats_per_byte": "relaxed_cross_entropy_mean per byte of the target, comparable across tokenizers",
}
"""What is made of the P_i, by the beginning of a reading's name: S = sum_i log P_i, N = n_eff + the target's tokens."""

READINGS: Mapping[str, str] = {
    **{
        quantity + end: f"{meaning}; {combination}"
        for end, combination in COMBINATIONS.items()
        for quantity, meaning in QUANTITIES.items()
    },
    "n_eff": "tokens of the completions that count: the length asked for, or less where all of them ended early",
    "positions": "positions that were scored",
}
"""Every reading and what it means. Of all but the last two, lower is better."""

_NEEDS = {"_weighted": "log_p_prefix", "_sampled": "counts"}


def needs(reading: str) -> tuple[str, ...]:
    """Return the optional arguments of `reduce` without which it does not give a reading.

    Raises:
        ValueError: If there is no such reading.
    """
    if reading not in READINGS:
        raise ValueError(f"{reading!r} is no reading of Relaxed Perplexity; expected one of {', '.join(READINGS)}")
    of_end = tuple(argument for end, argument in _NEEDS.items() if reading.endswith(end))
    return of_end + (("target_bytes",) if "per_byte" in reading else ())


class _Position(NamedTuple):
    place: int
    log_p: list[float]
    log_p_prefix: list[float] | None
    counts: list[float] | None


def reduce(
    log_p: Sequence[ArrayLike],
    *,
    positions: Sequence[int],
    target_length: int,
    n: int | None = None,
    stride: int = 1,
    log_p_prefix: Sequence[ArrayLike] | None = None,
    counts: Sequence[ArrayLike] | None = None,
    target_bytes: int | None = None,
) -> dict[str, float]:
    """Return every reading of one target that the arguments allow.

    The prefixes of position i become P_i, evaluated as log P_i by log-sum-exp:

    - as published:  P_i = sum_k p_ik  ("final approximation", section 6; it may be more than 1, up to l_i);
    - `_averaged`:   P_i = sum_k p_ik / l_i;
    - `_weighted`:   P_i = sum_k P(prefix_k) p_ik / sum_k P(prefix_k), the law of total probability over the prefixes
      that are scored, exact if those are all there are: without the skew of a sum, whose constant the paper drops;
    - `_sampled`:    P_i = sum_k c_k p_ik / sum_k c_k, the Monte Carlo mean over completions, c_k of which begin with
      prefix_k, if all their prefixes are scored.

    With S = sum_i log P_i over the |I| positions that are scored, and N = n_eff + target_length:

    - log_relaxed_perplexity           = -S / N, relaxed_perplexity = exp(-S / N) (the paper's definition);
    - log_relaxed_perplexity_corrected = -S / N * (n_eff + 1) / |I|, and its exp: a stride leaves positions out of S but
      not out of the paper's N, so that the published value shrinks like 1 / stride; this one does not;
    - relaxed_cross_entropy_sum        = -S (the paper's Relaxed-CE);
    - relaxed_cross_entropy_mean       = -S / |I|;
    - relaxed_cross_entropy_any        = -log sum_i P_i (the paper's first display: at whichever position it comes);
    - relaxed_nats_per_byte            = -S / |I| / target_bytes.

    n_eff is n if a completion got to the last position of the grid (positions reach above n - stride), otherwise the
    largest position that has a prefix, as without n.

    Args:
        log_p: For each position the values log P(target | question, prefix_k) in nats, shape (l_i,), in any order;
            minus infinity is a probability of zero. A position without values is left out, as if not there.
        positions: For each position its number of tokens, increasing.
        target_length: Tokens of the target, 1 or more.
        n: Tokens that a completion was meant to have.
        stride: Tokens from one position to the next.
        log_p_prefix: log P(prefix_k | question) in nats, shaped like `log_p`; for the `_weighted` readings. Where all
            are minus infinity the prefixes weigh the same.
        counts: How many completions begin with prefix_k, shaped like `log_p`; for the `_sampled` readings. Where all
            are 0 the prefixes weigh the same.
        target_bytes: Bytes of the target; for `relaxed_nats_per_byte`.

    Returns:
        The value of each reading, named as in `READINGS`. Perplexities lie between 0 and infinity (below 1 where sums
        over prefixes exceed 1), logarithms and cross-entropies between minus infinity and infinity. They are infinite
        where the target has a probability of zero or the value exceeds float64; they are never NaN.

    Raises:
        ValueError: If an argument is not as described; NaN, and log-probabilities above 0, are not.

    Example:
        >>> import math
        >>> found = reduce([[math.log(0.5)], [math.log(0.25), math.log(0.25)]], positions=[0, 1], target_length=1)
        >>> round(found["relaxed_perplexity"], 12), round(found["relaxed_perplexity_averaged"], 12)
        (2.0, 2.828427124746)
    """
    target_length, stride = _whole("target_length", target_length, 1), _whole("stride", stride, 1)
    target_bytes = None if target_bytes is None else _whole("target_bytes", target_bytes, 1)
    scored = _positions(log_p, positions, log_p_prefix, counts)
    n_eff = _reached(scored[-1].place, n, stride)
    found: dict[str, float] = {}
    for end, log_weights in _log_weights(scored):
        combined = [
            _log_sum(value + weight for value, weight in zip(position.log_p, weights, strict=True))
            for position, weights in zip(scored, log_weights, strict=True)
        ]
        quantities = _quantities(combined, n_eff, target_length, target_bytes)
        found |= {quantity + end: value for quantity, value in quantities.items()}
    return {**found, "n_eff": float(n_eff), "positions": float(len(scored))}


def read(matrix: Matrix, target_place: int, *, n: int | None, stride: int) -> dict[str, float]:
    """Return every reading of one target of a matrix.

    Args:
        matrix: The matrix; for a larger stride, a shorter length or fewer prefixes its `thinned`.
        target_place: The target's place among the matrix's targets.
        n: Tokens that a completion was meant to have, in the matrix as it is given.
        stride: Tokens from one of its positions to the next.

    Returns:
        As `reduce`. If the target has no scores all are NaN; its `reason` says why.
    """
    target = matrix.targets[target_place]
    if target.reason is not None:
        return dict.fromkeys(READINGS, math.nan)
    return reduce(
        matrix.by_position(target.log_p),
        positions=matrix.positions,
        target_length=target.length,
        n=n,
        stride=stride,
        log_p_prefix=matrix.by_position([prefix.log_p for prefix in matrix.prefixes]),
        counts=matrix.by_position([prefix.count for prefix in matrix.prefixes]),
        target_bytes=target.bytes,
    )


def _quantities(combined: list[float], n_eff: int, target_length: int, target_bytes: int | None) -> dict[str, float]:
    entropy = 0.0 - _sum(combined)  # not minus the sum: that of 0 would be -0
    mean = entropy / len(combined)
    log_perplexity = entropy / (n_eff + target_length)
    corrected = log_perplexity * ((n_eff + 1) / len(combined))
    found = {
        "relaxed_perplexity": _exp(log_perplexity),
        "log_relaxed_perplexity": log_perplexity,
        "relaxed_perplexity_corrected": _exp(corrected),
        "log_relaxed_perplexity_corrected": corrected,
        "relaxed_cross_entropy_sum": entropy,
        "relaxed_cross_entropy_mean": mean,
        "relaxed_cross_entropy_any": 0.0 - _log_sum(combined),
    }
    return found if target_bytes is None else {**found, "relaxed_nats_per_byte": mean / target_bytes}


def _log_weights(scored: list[_Position]) -> Iterator[tuple[str, list[list[float]]]]:
    """Give, by the end of readings' names, the logarithm of each prefix's weight at each position."""
    yield "", [[0.0] * len(position.log_p) for position in scored]
    yield "_averaged", [_normalised([0.0] * len(position.log_p)) for position in scored]
    if scored[0].log_p_prefix is not None:
        yield "_weighted", [_normalised(position.log_p_prefix or []) for position in scored]
    if scored[0].counts is not None:
        logs = [[math.log(c) if c else -math.inf for c in position.counts or []] for position in scored]
        yield "_sampled", [_normalised(weights) for weights in logs]


def _normalised(log_weights: list[float]) -> list[float]:
    """Bring weights to a sum of 1; those that are all zero become equal."""
    largest = max(log_weights)
    if largest == -math.inf:
        return _normalised([0.0] * len(log_weights))
    from_largest = [weight - largest for weight in log_weights]
    total = math.log(math.fsum(map(math.exp, from_largest)))
    return [weight - total for weight in from_largest]


def _log_sum(logs: Iterable[float]) -> float:
    """Return log of a sum of numbers whose logarithms are given."""
    logs = list(logs)
    largest = max(logs)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in logs))


def _sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:  # the only values of such a size are those of probabilities near zero
        return -math.inf


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _reached(largest: int, n: int | None, stride: int) -> int:
    if n is None:
        return largest
    n = _whole("n", n, 0)
    if largest > n:
        raise ValueError(f"positions up to {largest} with n={n}: expected none above n")
    return n if largest > n - stride else largest


def _positions(
    log_p: Sequence[ArrayLike],
    positions: Sequence[int],
    log_p_prefix: Sequence[ArrayLike] | None,
    counts: Sequence[ArrayLike] | None,
) -> list[_Position]:
    """Check the arguments, and return the positions that have values."""
    places = [_whole("positions", place, 0) for place in positions]
    if any(after <= before for before, after in pairwise(places)):
        raise ValueError(f"positions={places}: expected increasing numbers of tokens")
    rows = _rows("log_p", log_p, places)
    sizes = [len(row) for row in rows]
    prefix_rows = None if log_p_prefix is None else _rows("log_p_prefix", log_p_prefix, places, sizes)
    count_rows = None if counts is None else _rows("counts", counts, places, sizes)
    scored = [
        _Position(place, row, prefix_rows[at] if prefix_rows else None, count_rows[at] if count_rows else None)
        for at, (place, row) in enumerate(zip(places, rows, strict=True))
        if row
    ]
    if not scored:
        raise ValueError(f"log_p has no value at any of {len(places)} positions: expected one value or more")
    return scored


def _rows(
    name: str, given: Sequence[ArrayLike], places: list[int], sizes: list[int] | None = None
) -> list[list[float]]:
    given = list(given)
    if len(given) != len(places):
        raise ValueError(f"{name} has {len(given)} entries for {len(places)} positions: expected one for each")
    rows = [_row(f"{name} at position {place}", row, name) for place, row in zip(places, given, strict=True)]
    found = [len(row) for row in rows]
    if sizes is not None and found != sizes:
        raise ValueError(f"{name} has {found} values at the positions, log_p has {sizes}: expected as many")
    return rows


def _row(where: str, given: ArrayLike, name: str) -> list[float]:
    try:
        with np.errstate(all="ignore"):
            row = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: expected numbers, got {given!r}") from error
    if row.ndim != 1:
        raise ValueError(f"{where} has shape {row.shape}: expected one value for each prefix")
    if np.isnan(row).any():
        raise ValueError(f"{where} holds NaN: expected numbers; a probability of zero is minus infinity")
    if name == "counts":
        if not ((row >= 0) & np.isfinite(row)).all():
            raise ValueError(f"{where} holds {row.tolist()}: expected how many completions begin with each prefix")
        return row.tolist()
    if (row > ROUNDING).any():
        raise ValueError(f"{where} holds {row.max()}: expected logarithms of probabilities, at most 0")
    return np.minimum(row, 0.0).tolist()


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: expected a whole number") from None
    if number < least:
        raise ValueError(f"{name}={number}: expected {least} or more")
    return number
