"""How likely a target is at each position of an answer: the numbers behind the readings, for figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix


def cross_entropies(matrix: Matrix, target_place: int, combination: str = "") -> np.ndarray:
    r"""Return $-\log P_i$ of one target at each of `matrix.positions`, see `estimator.reduce`.

    Args:
        matrix: The matrix.
        target_place: The target's place among the matrix's targets; it has scores.
        combination: A key of `estimator.COMBINATIONS`: how the prefixes of a position become one $P_i$.

    Returns:
        float64, shape (positions,), in nats; infinite where the target has a probability of zero.

    Raises:
        ValueError: If there is no such combination, or the target has no scores.
    """
    if combination not in COMBINATIONS:
        raise ValueError(f"combination {combination!r}: expected one of {', '.join(map(repr, COMBINATIONS))}")
    target = matrix.targets[target_place]
    if target.reason is not None:
        raise ValueError(f"the target has no scores ({target.reason})")
    positions = np.asarray([prefix.position for prefix in matrix.prefixes])
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    weights = _log_weights(matrix, combination, starts)
    return 0.0 - np.logaddexp.reduceat(target.log_p + weights, starts)


def _log_weights(matrix: Matrix, combination: str, starts: np.ndarray) -> np.ndarray:
    """Logarithms of the prefixes' weights, which sum to 1 at each position unless prefixes are only added up."""
    n = len(matrix.prefixes)
    if not combination:
        return np.zeros(n)
    if combination == "_weighted":
        weights = np.asarray([prefix.log_p for prefix in matrix.prefixes], dtype=np.float64)
    elif combination == "_sampled":
        with np.errstate(divide="ignore"):
            weights = np.log(np.asarray([prefix.count for prefix in matrix.prefixes], dtype=np.float64))
    else:
        weights = np.zeros(n)
    sizes = np.diff(starts, append=n)
    none = np.repeat(np.isneginf(np.maximum.reduceat(weights, starts)), sizes)
    weights = np.where(none, 0.0, weights)  # where all weigh nothing they weigh the same
    return weights - np.repeat(np.logaddexp.reduceat(weights, starts), sizes)
