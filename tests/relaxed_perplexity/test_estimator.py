"""Every reading against hand calculations and high-precision arithmetic."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Target, reduce
from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS, QUANTITIES, READINGS, needs, read

getcontext().prec = 60
INFINITE = math.inf
log = math.log


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def logs(rows: Sequence[Sequence[float]]) -> list[np.ndarray]:
    return [np.log(row) for row in rows]


# Three positions, 0, 4 and 8 tokens into the answer, of a target of 2 tokens and 10 bytes; n = 9.
HAND: dict[str, Any] = {
    "log_p": logs([[0.5], [0.2, 0.1], [0.04, 0.02, 0.01]]),
    "positions": [0, 4, 8],
    "target_length": 2,
    "n": 9,
    "stride": 4,
    "log_p_prefix": logs([[1.0], [0.6, 0.3], [0.2, 0.2, 0.1]]),
    "counts": [[4], [3, 1], [2, 1, 1]],
    "target_bytes": 10,
}
HAND_P = {
    "": (0.5, 0.3, 0.07),
    "_averaged": (0.5, 0.15, 0.07 / 3),
    # (0.6 * 0.2 + 0.3 * 0.1) / 0.9 = 1/6 and (0.2 * 0.04 + 0.2 * 0.02 + 0.1 * 0.01) / 0.5 = 0.026
    "_weighted": (0.5, 1 / 6, 0.026),
    # (3 * 0.2 + 1 * 0.1) / 4 = 0.175 and (2 * 0.04 + 0.02 + 0.01) / 4 = 0.0275
    "_sampled": (0.5, 0.175, 0.0275),
}


@pytest.mark.parametrize("end", HAND_P)
def test_hand_calculation(end: str) -> None:
    a, b, c = HAND_P[end]
    product = a * b * c
    found = reduce(**HAND)
    # 8 > 9 - 4: the last position of the grid 0, 4, 8 was reached, so n_eff = 9 and N = 9 + 2
    expected = {
        "relaxed_perplexity": product ** (-1 / 11),
        "log_relaxed_perplexity": -log(product) / 11,
        "relaxed_perplexity_corrected": product ** (-10 / 33),  # ten positions 0 ... 9, three of them scored
        "log_relaxed_perplexity_corrected": -log(product) * 10 / 33,
        "relaxed_cross_entropy_sum": -log(product),
        "relaxed_cross_entropy_mean": -log(product) / 3,
        "relaxed_cross_entropy_any": -log(a + b + c),
        "relaxed_nats_per_byte": -log(product) / 30,
    }
    assert {name: found[name + end] for name in expected} == pytest.approx(expected, rel=1e-13)
    assert (found["n_eff"], found["positions"]) == (9.0, 3.0)


def test_readings_are_those_that_the_arguments_allow() -> None:
    assert set(reduce(**HAND)) == set(READINGS)
    assert len(READINGS) == len(COMBINATIONS) * len(QUANTITIES) + 2
    for name in ("log_p_prefix", "counts", "target_bytes"):
        found = reduce(**{**HAND, name: None})
        assert set(READINGS) - set(found) == {reading for reading in READINGS if name in needs(reading)}
        assert found == {reading: value for reading, value in reduce(**HAND).items() if reading in found}
    assert needs("relaxed_nats_per_byte_weighted") == ("log_p_prefix", "target_bytes")
    assert needs("relaxed_perplexity_averaged") == needs("n_eff") == ()
    with pytest.raises(ValueError, match=r"'perplexity' is no reading .* expected one of relaxed_perplexity, log_"):
        needs("perplexity")


def test_sum_over_prefixes_may_exceed_one() -> None:
    found = reduce(logs([[0.9, 0.9]]), positions=[3], target_length=1)
    assert found["log_relaxed_perplexity"] == pytest.approx(-log(1.8) / 4)
    assert found["relaxed_perplexity"] == pytest.approx(1.8 ** (-1 / 4))
    assert found["relaxed_cross_entropy_any"] < 0


@pytest.mark.parametrize(
    ("positions", "n", "stride", "expected"),
    [
        ([0, 8, 16], 16, 8, 16),
        ([0, 8, 16], 20, 8, 20),  # 24 would be beyond 20: the grid ends at 16
        ([0, 8, 16], 24, 8, 16),  # all completions ended between 16 and 23 tokens
        ([0, 8], None, 8, 8),
        ([0], 0, 8, 0),
        ([0], 5, 8, 5),
        ([0], 8, 8, 0),
        ([0, 1, 2], 3, 1, 2),
        ([4], 4, 1, 4),
    ],
)
def test_length_that_counts(positions: list[int], n: int | None, stride: int, expected: int) -> None:
    found = reduce(logs([[0.5]] * len(positions)), positions=positions, target_length=3, n=n, stride=stride)
    assert (found["n_eff"], found["positions"]) == (expected, len(positions))
    assert found["log_relaxed_perplexity"] == pytest.approx(len(positions) * log(2) / (expected + 3))


def test_positions_without_prefixes_are_left_out() -> None:
    ended = reduce(
        [[-1.0], [-2.0, -3.0], [], np.array([])], positions=[0, 2, 4, 6], target_length=2, n=6, stride=2,
        log_p_prefix=[[0.0], [-1.0, -1.0], [], []], counts=[[2], [1, 1], [], ()],
    )  # fmt: skip
    assert ended == reduce(
        [[-1.0], [-2.0, -3.0]], positions=[0, 2], target_length=2, n=6, stride=2,
        log_p_prefix=[[0.0], [-1.0, -1.0]], counts=[[2], [1, 1]],
    )  # fmt: skip
    assert ended["n_eff"] == 2.0
    middle = reduce([[-1.0], [], [-2.0]], positions=[0, 2, 4], target_length=1, n=4, stride=2)
    assert (middle["n_eff"], middle["positions"], middle["relaxed_cross_entropy_sum"]) == (4.0, 2.0, 3.0)


def test_stride_correction_undoes_the_stride() -> None:
    even = {stride: range(0, 17, stride) for stride in (1, 2, 4, 8, 16)}
    found = {
        stride: reduce([[-3.0]] * len(grid), positions=grid, target_length=5, n=16, stride=stride)
        for stride, grid in even.items()
    }
    # every position costs 3 nats: 17 * 3 / 21 whatever the stride; as published 17, 9, 5, 3 and 2 positions * 3 / 21
    assert [v["log_relaxed_perplexity_corrected"] for v in found.values()] == pytest.approx([17 * 3 / 21] * 5)
    assert [v["log_relaxed_perplexity"] * 7 for v in found.values()] == pytest.approx([17, 9, 5, 3, 2])
    assert found[1]["relaxed_perplexity_corrected"] == found[1]["relaxed_perplexity"]


def test_any_kind_of_sequence() -> None:
    expected = reduce([np.array([-1.0]), np.array([-2.0])], positions=[0, 1], target_length=1)
    for log_p, positions in (
        ([-1.0, -2.0], (0, 1)),
        (((-1,), (-2,)), range(2)),
        (np.array([[-1.0], [-2.0]]), np.array([0, 1])),
        (np.array([-1.0, -2.0], dtype=np.float32), [np.int64(0), np.int32(1)]),
        ([np.float64(-1), [np.array(-2.0)]], [0, 1]),
        (iter([[-1.0], [-2.0]]), iter([0, 1])),
    ):
        assert reduce(log_p, positions=positions, target_length=np.int64(1)) == expected  # type: ignore[arg-type]


def test_probability_of_zero() -> None:
    zero = -math.inf
    one = reduce(
        [[zero, -1.0], [-2.0]], positions=[0, 1], target_length=1, log_p_prefix=[[-1.0, -1.0], [0.0]],
        counts=[[1, 1], [2]], target_bytes=2,
    )  # fmt: skip
    half = log(2)
    assert one["relaxed_cross_entropy_sum"] == 3.0
    assert [one[f"relaxed_cross_entropy_sum{end}"] for end in ("_averaged", "_weighted", "_sampled")] == pytest.approx(
        [3 + half] * 3
    )
    lost = reduce(
        [[zero, zero], [-2.0]], positions=[0, 1], target_length=1, log_p_prefix=[[-1.0, -1.0], [0.0]],
        counts=[[1, 1], [2]], target_bytes=2,
    )  # fmt: skip
    for reading, value in lost.items():
        if "any" in reading:
            assert value == pytest.approx(2.0)  # still possible at position 1
        elif reading not in ("n_eff", "positions"):
            assert value == INFINITE, reading
    never = reduce([[zero]], positions=[0], target_length=1)
    assert {value for reading, value in never.items() if reading not in ("n_eff", "positions")} == {INFINITE}


def test_prefixes_of_zero_weight() -> None:
    zero = -math.inf
    found = reduce(
        logs([[0.5, 0.1], [0.4, 0.2]]), positions=[0, 1], target_length=1,
        log_p_prefix=[[zero, -5.0], [zero, zero]], counts=[[0, 3], [0, 0]],
    )  # fmt: skip
    # the only prefix with weight gives 0.1; without any weight both count the same, (0.4 + 0.2) / 2
    assert found["relaxed_cross_entropy_sum_weighted"] == pytest.approx(-log(0.1 * 0.3))
    assert found["relaxed_cross_entropy_sum_sampled"] == pytest.approx(-log(0.1 * 0.3))


def test_certain_target_costs_nothing() -> None:
    found = reduce([[0.0], [0.0]], positions=[0, 1], target_length=1)
    assert found["relaxed_perplexity"] == 1.0
    assert all(math.copysign(1, found[name]) == 1 for name in ("log_relaxed_perplexity", "relaxed_cross_entropy_sum"))
    rounded = reduce([[5e-7], [1e-9]], positions=[0, 1], target_length=1)
    assert rounded == found


def test_large_values_do_not_overflow() -> None:
    found = reduce([[-1e6, -1e6]] * 3, positions=[0, 1, 2], target_length=1, log_p_prefix=[[-1e6, -2e6]] * 3)
    assert found["log_relaxed_perplexity"] == pytest.approx(1e6, rel=1e-6)
    assert found["log_relaxed_perplexity_weighted"] == 1e6
    assert found["relaxed_perplexity"] == found["relaxed_perplexity_corrected_weighted"] == INFINITE
    alike = reduce(logs([[0.5, 0.1]]), positions=[0], target_length=1, log_p_prefix=[[-1e20, -1e20]])
    assert alike["relaxed_cross_entropy_sum_weighted"] == pytest.approx(-log(0.3))
    largest = -1.7e308
    beyond = reduce(
        [[largest]] * 3, positions=[0, 8, 16], target_length=1, log_p_prefix=[[largest]] * 3, n=16, stride=8
    )
    assert beyond["relaxed_cross_entropy_sum"] == INFINITE
    assert beyond["relaxed_cross_entropy_any"] == -largest
    assert not any(math.isnan(value) for value in beyond.values())
    assert reduce([-709.0], positions=[0], target_length=1)["relaxed_perplexity"] == pytest.approx(math.exp(709))
    assert reduce([-710.0], positions=[0], target_length=1)["relaxed_perplexity"] == INFINITE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_p": [[math.nan], [0.0, 0.0], [-1.0] * 3]}, r"log_p at position 0 holds NaN"),
        ({"log_p": [[None], [0.0, 0.0], [-1.0] * 3]}, r"log_p at position 0 holds NaN"),
        ({"log_p": [[-1.0], [-1.0, 0.1], [-1.0] * 3]}, r"log_p at position 4 holds 0\.1: .* at most 0"),
        ({"log_p": [[-1.0], [-1.0, math.inf], [-1.0] * 3]}, r"log_p at position 4 holds inf"),
        ({"log_p": [[-1.0], [[-1.0, -1.0]], [-1.0] * 3]}, r"log_p at position 4 has shape \(1, 2\)"),
        ({"log_p": [["low"], [-1.0, -1.0], [-1.0] * 3]}, r"log_p at position 0: expected numbers, got \['low'\]"),
        ({"log_p": [[-1.0]]}, r"log_p has 1 entries for 3 positions"),
        ({"log_p": [[], [], []], "log_p_prefix": None, "counts": None}, r"log_p has no value at any of 3 positions"),
        ({"log_p": [], "positions": [], "log_p_prefix": None, "counts": None}, r"no value at any of 0 positions"),
        ({"positions": [0, 8, 4]}, r"positions=\[0, 8, 4\]: expected increasing"),
        ({"positions": [0, 4, 4]}, r"expected increasing"),
        ({"positions": [-4, 0, 4]}, r"positions=-4: expected 0 or more"),
        ({"positions": [0, 4, 8.5]}, r"positions=8\.5: expected a whole number"),
        ({"positions": [0, 4, 16]}, r"positions up to 16 with n=9"),
        ({"target_length": 0}, r"target_length=0: expected 1 or more"),
        ({"target_length": None}, r"target_length=None: expected a whole number"),
        ({"target_bytes": 0}, r"target_bytes=0: expected 1 or more"),
        ({"stride": 0}, r"stride=0: expected 1 or more"),
        ({"n": -1}, r"n=-1: expected 0 or more"),
        ({"n": 1.5}, r"n=1\.5: expected a whole number"),
        ({"log_p_prefix": [[0.0], [-1.0], [-1.0] * 3]}, r"log_p_prefix has \[1, 1, 3\] .* log_p has \[1, 2, 3\]"),
        ({"log_p_prefix": [[0.0], [-1.0, math.nan], [-1.0] * 3]}, r"log_p_prefix at position 4 holds NaN"),
        ({"log_p_prefix": [[0.0], [-1.0, 1.0], [-1.0] * 3]}, r"log_p_prefix at position 4 holds 1\.0"),
        ({"counts": [[1], [1, -1], [1, 1, 1]]}, r"counts at position 4 holds \[1\.0, -1\.0\]"),
        ({"counts": [[1], [1, math.inf], [1, 1, 1]]}, r"counts at position 4"),
        ({"counts": [[1], [1, 1]]}, r"counts has 2 entries for 3 positions"),
    ],
)
def test_faulty_arguments_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reduce(**{**HAND, **change})


values = st.one_of(st.floats(max_value=0.0, allow_nan=False), st.floats(-60.0, 0.0))


@st.composite
def arguments(draw: st.DrawFn, value: st.SearchStrategy[float] = values, least: int = 0) -> dict[str, Any]:
    """Whatever an engine could give: `least` prefixes or more at each position but the first, which has one or more."""
    stride = draw(st.integers(1, 5))
    sizes = [draw(st.integers(1, 4)), *draw(st.lists(st.integers(least, 4), max_size=5))]
    many = [st.lists(value, min_size=size, max_size=size) for size in sizes]
    tallies = [st.lists(st.integers(0, 9), min_size=size, max_size=size) for size in sizes]
    return {
        "log_p": [draw(row) for row in many],
        "positions": [place * stride for place in range(len(sizes))],
        "target_length": draw(st.integers(1, 400)),
        "n": draw(st.one_of(st.none(), st.integers((len(sizes) - 1) * stride, 40))),
        "stride": stride,
        "log_p_prefix": [draw(row) for row in many],
        "counts": [draw(row) for row in tallies],
        "target_bytes": draw(st.integers(1, 2000)),
    }


@settings(deadline=None)
@given(arguments())
def test_no_value_is_ever_undefined(given_arguments: dict[str, Any]) -> None:
    found = reduce(**given_arguments)
    assert set(found) == set(READINGS)
    assert not any(math.isnan(value) for value in found.values())
    assert all(type(value) is float for value in found.values())
    if all(value > -1e300 for row in given_arguments["log_p"] for value in row):
        assert all(math.isfinite(value) for name, value in found.items() if not name.startswith("relaxed_perplexity"))


@settings(deadline=None)
@given(arguments(), st.randoms(use_true_random=False))
def test_order_of_prefixes_does_not_matter(given_arguments: dict[str, Any], shuffle: Any) -> None:
    mixed = dict(given_arguments)
    orders = [shuffle.sample(range(len(row)), len(row)) for row in mixed["log_p"]]
    for name in ("log_p", "log_p_prefix", "counts"):
        mixed[name] = [[row[at] for at in order] for row, order in zip(mixed[name], orders, strict=True)]
    assert reduce(**mixed) == pytest.approx(reduce(**given_arguments), rel=1e-12, abs=1e-12)


@settings(deadline=None)
@given(arguments(st.floats(-200.0, 0.0)))
def test_relations_between_readings(given_arguments: dict[str, Any]) -> None:
    found = reduce(**given_arguments)
    rows = [row for row in given_arguments["log_p"] if row]
    slack = 1e-9
    for end in COMBINATIONS:
        total, mean, anywhere = (found[f"relaxed_cross_entropy_{kind}{end}"] for kind in ("sum", "mean", "any"))
        assert found[f"relaxed_cross_entropy_sum{end}"] >= found["relaxed_cross_entropy_sum"] - slack
        assert total == pytest.approx(mean * len(rows), abs=slack)
        assert anywhere <= mean + slack, "the best position is no worse than the average one"
        if end:
            assert (
                -slack <= sum(-max(row) for row in rows) <= total + slack <= sum(-min(row) for row in rows) + 2 * slack
            )
    if given_arguments["stride"] == 1 and len(rows) == found["n_eff"] + 1:
        assert found["log_relaxed_perplexity_corrected"] == found["log_relaxed_perplexity"]


@settings(deadline=None)
@given(st.lists(st.floats(-700.0, 0.0), min_size=1, max_size=6), st.floats(-700.0, 0.0), st.integers(1, 9))
def test_one_prefix_leaves_nothing_to_combine(row: list[float], log_p_prefix: float, count: int) -> None:
    found = reduce(
        row, positions=range(len(row)), target_length=3, target_bytes=7,
        log_p_prefix=[log_p_prefix] * len(row), counts=[count] * len(row),
    )  # fmt: skip
    for quantity, end in itertools.product(QUANTITIES, COMBINATIONS):
        assert found[quantity + end] == found[quantity]
    assert found["relaxed_cross_entropy_sum"] == math.fsum(-value for value in row)


def in_decimals(call: dict[str, Any]) -> dict[str, Decimal]:
    """The definitions in products and quotients of 60-digit numbers, without logarithms of sums."""
    p = [[Decimal(v).exp() for v in row] for row in call["log_p"]]
    weights = {
        "": [[Decimal(1)] * len(row) for row in p],
        "_averaged": [[Decimal(1) / len(row)] * len(row) for row in p],
        "_weighted": [[Decimal(v).exp() for v in row] for row in call["log_p_prefix"]],
        "_sampled": [[Decimal(c + 1) for c in row] for row in call["counts"]],
    }
    largest = call["positions"][-1]
    n_eff = call["n"] if call["n"] is not None and largest + call["stride"] > call["n"] else largest
    found = {}
    for end, rows in weights.items():
        product, total = Decimal(1), Decimal(0)
        for chances, row in zip(p, rows, strict=True):
            scale = sum(row) if end in ("_weighted", "_sampled") else Decimal(1)
            combined = sum(w * c for w, c in zip(row, chances, strict=True)) / scale
            product, total = product * combined, total + combined
        found[f"relaxed_cross_entropy_sum{end}"] = -product.ln()
        found[f"relaxed_cross_entropy_any{end}"] = -total.ln()
        found[f"log_relaxed_perplexity{end}"] = -product.ln() / (n_eff + call["target_length"])
        found[f"relaxed_nats_per_byte{end}"] = -product.ln() / len(p) / call["target_bytes"]
    return found


@settings(deadline=None)
@given(arguments(st.floats(-900.0, 0.0), least=1))
def test_high_precision_arithmetic_agrees(given_arguments: dict[str, Any]) -> None:
    expected = in_decimals(given_arguments)
    counts = [[count + 1 for count in row] for row in given_arguments["counts"]]
    found = reduce(**{**given_arguments, "counts": counts})
    for reading, value in expected.items():
        assert found[reading] == pytest.approx(float(value), rel=1e-12, abs=1e-12), reading


def test_reading_a_matrix() -> None:
    prefixes = (Prefix(0, 0, 0.0, 4), Prefix(4, 1, log(0.6), 3), Prefix(4, 0, log(0.3), 1))
    prefixes += (Prefix(8, 1, log(0.2), 2), Prefix(8, 2, log(0.2), 1), Prefix(8, 0, log(0.1), 1))
    log_p = np.concatenate(HAND["log_p"])
    targets = (Target(1, 3, np.empty(0), "target_too_long"), Target(2, 10, log_p))
    matrix = Matrix(prefixes, targets, lengths=(9,) * 4, log_p_samples=(-1.0,) * 4, seed=1, question_tokens=3)
    assert read(matrix, 1, n=9, stride=4) == reduce(**HAND)
    missing = read(matrix, 0, n=9, stride=4)
    assert set(missing) == set(READINGS)
    assert all(math.isnan(value) for value in missing.values())
