"""Exact optimal transport between two sets of weighted points, and the distances that it needs."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Below this share of the squared lengths, a squared distance from scalar products has lost too many digits.
_NEAR = 1e-6
_DIFFERENCES_AT_A_TIME = 4096
_OPTIMAL = 1
_MAX_STEPS = 100_000_000


def distances(left: Matrix, right: Matrix, *, squared: bool = False) -> Matrix:
    """Return the Euclidean distance of every point of one set to every point of the other.

    Scalar products give all distances at once. They say little about points that almost coincide, for which the square
    root blows rounding up to 1e-8; those few distances are computed again from differences, so that equal points are 0
    apart and every distance is right to about 1e-12 of the points' lengths.

    Args:
        left: Points, float64, shape `(n, d)`.
        right: Points, float64, shape `(m, d)`.
        squared: Whether to return squared distances.

    Returns:
        Shape `(n, m)`, at least 0.
    """
    found = left @ right.T
    found *= -2.0
    lengths = np.einsum("ij,ij->i", left, left)[:, None], np.einsum("ij,ij->i", right, right)[None, :]
    for squares in lengths:
        found += squares
    rows, columns = np.nonzero(found <= _NEAR * np.maximum(*lengths))
    for start in range(0, len(rows), _DIFFERENCES_AT_A_TIME):
        row, column = (index[start : start + _DIFFERENCES_AT_A_TIME] for index in (rows, columns))
        difference = left[row] - right[column]
        found[row, column] = np.einsum("ij,ij->i", difference, difference)
    if not squared:
        np.sqrt(found, out=found)
    return found


def earth_movers_distance(cost: Matrix, left: Matrix, right: Matrix) -> float:
    r"""Return the least cost of turning one distribution of weight into another.

    $$\min_F \sum_{ij} F_{ij} C_{ij},\quad \sum_j F_{ij} = \frac{a_i}{\sum a},\quad \sum_i F_{ij} = \frac{b_j}{\sum b},
    \quad F_{ij} \ge 0$$

    The exact optimum of the linear program, by the network simplex of POT. For distances it is itself a distance, and
    lies between the smallest and the largest of them.

    Args:
        cost: What moving one unit of weight from a point of the left to one of the right costs, shape `(n, m)`.
        left: Weights $a$, shape `(n,)`. They need not sum to 1. Points of weight 0 play no part, whatever their costs.
        right: Weights $b$, shape `(m,)`.

    Raises:
        ValueError: If a side has no weight, a weight is negative, or a number is not finite.
        RuntimeError: If the solver finds no optimum.
    """
    cost, left, right = (np.asarray(values, dtype=np.float64) for values in (cost, left, right))
    if cost.shape != (len(left), len(right)):
        raise ValueError(f"costs of shape {cost.shape} for {len(left)} and {len(right)} weights; give one cost a pair")
    keep = []
    for name, weights in (("left", left), ("right", right)):
        if not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise ValueError(f"a weight on the {name} is negative or not finite; weights are numbers of at least 0")
        keep.append(np.flatnonzero(weights))
        if not len(keep[-1]):
            raise ValueError(f"the {name} side has no weight; decide what an empty side means before asking")
    if any(len(kept) < len(weights) for kept, weights in zip(keep, (left, right), strict=True)):
        cost, left, right = cost[np.ix_(*keep)], left[keep[0]], right[keep[1]]
    if not np.all(np.isfinite(cost)):
        raise ValueError("a cost is not finite; the points are broken or too far apart")
    left, right = left / left.sum(), right / right.sum()
    if 1 in cost.shape:  # there is only one way
        return float(left @ cost @ right)
    return _solve(np.ascontiguousarray(cost), left, right * (left.sum() / right.sum()))


def _solve(cost: Matrix, left: Matrix, right: Matrix) -> float:
    """Ask POT and check that it found the optimum."""
    from ot.lp import emd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it would warn of is in the result code
        _, found = emd(left, right, cost, numItermax=_MAX_STEPS, log=True, center_dual=False)
    if found["result_code"] != _OPTIMAL:
        raise RuntimeError(
            f"the transport solver (POT) found no optimum for {len(left)} and {len(right)} points: {found['warning']}"
        )
    return float(found["cost"])
