from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from lm_eval_healthcare.metrics.transport import distances, earth_movers_distance

pytest.importorskip("ot", reason="pip install POT")

Matrix = NDArray[np.float64]


def linear_program(cost: Matrix, left: Matrix, right: Matrix) -> float:
    """The same minimum, by the definition: one variable a pair, one equation a point."""
    n, m = cost.shape
    equations = np.zeros((n + m, n * m))
    for row in range(n):
        equations[row, row * m : (row + 1) * m] = 1
    for column in range(m):
        equations[n + column, column::m] = 1
    sums = np.concatenate([left / left.sum(), right / right.sum()])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # One equation follows from the others, and rounding must not make it contradict them.
    found = linprog(cost.ravel(), A_eq=equations[:-1], b_eq=sums[:-1], method="highs", options=tight)
    assert found.success, found.message
    return float(found.fun)


@pytest.mark.parametrize(
    ("cost", "left", "right", "expected"),
    [
        # A half stays, a half moves by 1.
        ([[0, 1], [1, 0]], [1, 1], [2, 0], 0.5),
        # Points 0 and 2 on a line against 1 and 5: 0 -> 1 and 2 -> 5, (1 + 3) / 2.
        ([[1, 5], [1, 3]], [1, 1], [1, 1], 2.0),
        # Weights 3/4 and 1/4 against 1/4 and 3/4 of the same places, 2 apart: a half moves.
        ([[0, 2], [2, 0]], [3, 1], [1, 3], 1.0),
        # One point against several: each weight times its distance.
        ([[1, 2, 4]], [7], [1, 1, 2], (1 + 2 + 2 * 4) / 4),
        ([[1], [2], [4]], [1, 1, 2], [7], (1 + 2 + 2 * 4) / 4),
        # Greed is wrong: the cheapest pair (0) would force the dearest one (10). 1 + 1 is less than 0 + 10.
        ([[0, 1], [1, 10]], [1, 1], [1, 1], 1.0),
        # A point without weight plays no part, even if its costs are no numbers.
        ([[0, 1], [np.nan, np.inf]], [1, 0], [1, 1], 0.5),
    ],
)
def test_hand_examples(cost: list[list[float]], left: list[float], right: list[float], expected: float) -> None:
    found = earth_movers_distance(np.array(cost), np.array(left), np.array(right))
    assert found == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("seed", range(25))
def test_equals_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 16, 2)
    cost = distances(rng.normal(size=(n, 5)), rng.normal(size=(m, 5)))
    left, right = rng.random(n) + 1e-3, rng.random(m) + 1e-3
    assert earth_movers_distance(cost, left, right) == pytest.approx(linear_program(cost, left, right), abs=1e-9)


DEGENERATE = {
    "all points in one place": lambda rng: (np.zeros((6, 4)), np.ones(6), np.ones(4)),
    "all costs the same": lambda rng: (np.full((5, 7), 1.5), rng.random(5), rng.random(7)),
    "equal weights, many optima": lambda rng: (rng.integers(0, 2, (8, 8)).astype(float), np.ones(8), np.ones(8)),
    "equal points repeated": lambda rng: (np.tile(rng.random((3, 1)), (3, 9)), np.ones(9), rng.random(9)),
    "weights of very different size": lambda rng: (rng.random((6, 6)), 10.0 ** -np.arange(6), 10.0 ** np.arange(6)),
    "one heavy point": lambda rng: (rng.random((6, 6)), np.array([1e6, 1, 1, 1, 1, 1]), np.ones(6)),
    "most weights are 0": lambda rng: (rng.random((9, 9)), np.eye(9)[2] + np.eye(9)[5], np.eye(9)[0] + np.eye(9)[8]),
    "sums that differ": lambda rng: (rng.random((4, 6)), np.full(4, 1 / 3), np.full(6, 700.1)),
    "costs of zero and huge ones": lambda rng: (rng.choice([0.0, 1e6], (7, 7)), rng.random(7), rng.random(7)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_cases_equal_the_linear_program(name: str) -> None:
    cost, left, right = DEGENERATE[name](np.random.default_rng(3))
    expected = linear_program(cost, left, right)
    assert earth_movers_distance(cost, left, right) == pytest.approx(expected, abs=1e-9 * max(1.0, cost.max()))


def test_it_is_a_distance() -> None:
    rng = np.random.default_rng(1)
    points = [rng.normal(size=(n, 3)) for n in (4, 6, 5)]
    weights = [rng.random(len(places)) for places in points]

    def between(one: int, other: int) -> float:
        return earth_movers_distance(distances(points[one], points[other]), weights[one], weights[other])

    assert between(0, 0) == pytest.approx(0, abs=1e-15)
    assert between(0, 1) == pytest.approx(between(1, 0), abs=1e-14)
    assert 0 < between(0, 2) < between(0, 1) + between(1, 2)


def test_order_and_scale_of_the_weights_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    cost, left, right = rng.random((30, 20)), rng.random(30), rng.random(20)
    expected = earth_movers_distance(cost, left, right)
    rows, columns = rng.permutation(30), rng.permutation(20)
    moved = earth_movers_distance(cost[rows][:, columns], 7 * left[rows], right[columns] / 3)
    assert moved == pytest.approx(expected, abs=1e-14)


def test_five_hundred_points_a_side_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)
    cost = distances(rng.normal(size=(500, 16)), rng.normal(size=(480, 16)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = earth_movers_distance(cost, rng.random(500), rng.random(480))
    # No plan is cheaper than every point going to its nearest, nor dearer than spreading everything evenly.
    assert cost.min() < found < cost.mean()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([0, 0], [1, 1], "left side has no weight"),
        ([1, 1], [0, 0], "right side has no weight"),
        ([1, -1], [1, 1], "weight on the left is negative"),
        ([1, 1], [1, np.nan], "weight on the right is negative or not finite"),
        ([1, 1, 1], [1, 1], r"shape \(2, 2\) for 3 and 2 weights"),
    ],
)
def test_weights_that_cannot_be_used(left: list[float], right: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        earth_movers_distance(np.ones((2, 2)), np.array(left), np.array(right))


def test_costs_that_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="a cost is not finite"):
        earth_movers_distance(np.array([[1, np.nan], [1, 1]]), np.ones(2), np.ones(2))


def test_a_solver_that_gives_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lm_eval_healthcare.metrics.transport._MAX_STEPS", 1)
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="found no optimum for 50 and 50 points"):
        earth_movers_distance(rng.random((50, 50)), rng.random(50), rng.random(50))


def test_distances_equal_scipy() -> None:
    rng = np.random.default_rng(5)
    left, right = rng.normal(size=(40, 96)), rng.normal(size=(30, 96))
    np.testing.assert_allclose(distances(left, right), cdist(left, right), rtol=1e-13)
    squares = cdist(left, right, "sqeuclidean")
    np.testing.assert_allclose(distances(left, right, squared=True), squares, rtol=1e-13)


@pytest.mark.parametrize("apart", [0, 1e-12, 1e-9, 1e-6, 1e-4, 9e-4, 1.1e-3, 1e-2])
def test_distances_of_points_that_almost_coincide(apart: float) -> None:
    rng = np.random.default_rng(6)
    left = rng.normal(size=(50, 384))
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    step = rng.normal(size=left.shape)
    right = left + apart * step / np.linalg.norm(step, axis=1, keepdims=True)
    found = distances(left, right)
    np.testing.assert_allclose(found, cdist(left, right), atol=1e-12, rtol=0)
    if apart == 0:
        assert not found.diagonal().any()


def test_many_points_in_one_place() -> None:
    points = np.tile(np.array([[0.6, 0.8]]), (300, 1))
    assert not distances(points, points).any()  # 90,000 differences, a part at a time
    assert not distances(np.zeros((2, 3)), np.zeros((4, 3))).any()
