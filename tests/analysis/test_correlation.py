"""Correlations of columns: scipy's numbers pair by pair, and what is said where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.analysis.coefficients import METHODS
from lm_eval_healthcare.analysis.correlation import correlate
from lm_eval_healthcare.analysis.scores import Column, Correlation, Scores

CAREQA = [0.51, 0.58, 0.61, 0.66, 0.78, 0.81]
MEDQA = [0.44, 0.52, 0.60, 0.58, 0.74, 0.79]
JUDGE = [2.9, 3.1, 3.4, 3.3, 4.1, 4.0]
PERPLEXITY = [18.4, 15.1, 13.9, 14.2, 9.8, 10.3]
NAN = math.nan


def scores(columns: dict[str, Sequence[float]], stderr: float = NAN, lower: tuple[str, ...] = ()) -> Scores:
    values = np.array(list(columns.values()), dtype=float).T
    return Scores(
        tuple(f"model-{row}" for row in range(len(values))),
        tuple(Column(name, name, name, higher_is_better=name not in lower) for name in columns),
        values, np.full(values.shape, stderr), np.full(values.shape, 100.0),
    )  # fmt: skip


def pair(found: list[Correlation], x: str, y: str) -> Correlation:
    return next(one for one in found if (one.x, one.y) == (x, y))


def run(given: Scores, method: str = "spearman", **options: object) -> list[Correlation]:
    return correlate(given, method, rng=np.random.default_rng(0), **{"n_bootstrap": 200, **options})  # type: ignore[arg-type]


def test_known_values() -> None:
    table = scores({"careqa": CAREQA, "medqa": MEDQA, "ppl": PERPLEXITY}, lower=("ppl",))
    # Ranks 1 to 6 against 1 2 4 3 5 6: 1 - 6 * 2 / (6 * 35) = 0.942857.
    assert pair(run(table), "careqa", "medqa").r == pytest.approx(0.942857, abs=1e-6)
    assert pair(run(table, "pearson"), "careqa", "medqa").r == pytest.approx(0.982068, abs=1e-6)
    as_it_is = pair(run(table, "pearson", align_directions=False), "careqa", "ppl")
    assert as_it_is.r == pytest.approx(-0.96704, abs=1e-5)
    assert as_it_is.flags == ("exact_p",)
    turned = pair(run(table, "pearson"), "careqa", "ppl")
    assert turned.r == pytest.approx(0.96704, abs=1e-5)
    assert "y_reversed" in turned.flags
    newest = [*CAREQA[:2], 0.63, *CAREQA[3:]]
    assert pair(run(scores({"a": newest, "b": MEDQA}), "pearson"), "a", "b").r == pytest.approx(0.990722, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_constant_column_leaves_the_others_alone(method: str) -> None:
    flat = [0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.3]  # the first is 0.30000000000000004
    # Bigger than what rounding to 12 digits takes away, and still noise.
    nearly = [7.0, 7.0 + 3e-10, 7.0, 7.0, 7.0, 7.0]
    alone = run(scores({"careqa": CAREQA, "medqa": MEDQA}), method)[0]
    found = run(scores({"flat": flat, "careqa": CAREQA, "nearly": nearly, "medqa": MEDQA}), method)
    for one in found:
        if "flat" in (one.x, one.y) or "nearly" in (one.x, one.y):
            assert one.reason == "constant"
            assert all(math.isnan(number) for number in (one.r, one.p, one.low, one.high, one.adjusted))
            assert one.n == 6
    assert "nearly_constant" in pair(found, "careqa", "nearly").flags
    assert pair(found, "careqa", "medqa") == alone


def test_two_models_have_no_coefficient() -> None:
    for method in METHODS:
        (one,) = run(scores({"a": [0.51, 0.58], "b": [0.44, 0.52]}), method)
        assert (one.n, one.reason) == (2, "too_few_models")
        assert math.isnan(one.r)
        assert math.isnan(one.p)
    for rows in ([], [0.5]):
        assert run(scores({"a": rows, "b": rows}))[0].reason == "too_few_models"
    with pytest.raises(ValueError, match="expected 3 or more"):
        run(scores({"a": CAREQA, "b": MEDQA}), min_models=2)


def gapped() -> Scores:
    return scores(
        {
            "careqa": CAREQA[:5],
            "medqa": [0.44, 0.52, NAN, 0.58, 0.74],
            "judge": [2.9, NAN, 3.4, 3.3, NAN],
            "empty": [NAN] * 5,
        }
    )


def test_each_pair_has_its_own_models() -> None:
    five = scores(
        {
            "careqa": [*CAREQA[:5], 0.81],
            "medqa": [0.44, 0.52, NAN, 0.58, 0.74, 0.79],
            "judge": [2.9, NAN, 3.4, 3.3, NAN, 4.0],
        }
    )
    found = run(five, "pearson")
    judged = pair(found, "careqa", "judge")
    assert (judged.n, judged.r) == (4, pytest.approx(0.967871, abs=1e-6))
    assert "few_models" in judged.flags
    assert math.isnan(judged.low)  # four models: no interval
    few = pair(found, "medqa", "judge")
    assert (few.n, few.r) == (3, pytest.approx(0.999151, abs=1e-6))
    assert all(map(math.isnan, few.sensitivity))  # without one of three there are two
    full = pair(found, "careqa", "medqa")
    assert full.n == 5
    assert "few_models" not in full.flags
    assert pair(run(gapped()), "careqa", "empty").n == 0
    assert pair(run(five, min_models=4), "medqa", "judge").reason == "too_few_models"


def test_listwise_says_so() -> None:
    found = run(scores({"a": CAREQA, "b": MEDQA, "c": [NAN, NAN, *JUDGE[2:]]}), "pearson", listwise=True)
    one = pair(found, "a", "b")
    assert one.n == 4
    assert "listwise" in one.flags
    assert one.r == pytest.approx(stats.pearsonr(CAREQA[2:], MEDQA[2:]).statistic)


@pytest.mark.parametrize("n", [6, 12])
def test_scipys_numbers_with_ties(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = np.round(rng.standard_normal((2, n)), 1)
    x[1] = x[0]
    table = scores({"x": x, "y": y})
    assert run(table, "pearson")[0].r == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert run(table, "spearman")[0].r == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert run(table, "kendall")[0].r == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_leave_one_out(method: str) -> None:
    measure = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[method]
    one = pair(run(scores({"a": MEDQA, "b": JUDGE}), method), "a", "b")
    left = [measure(np.delete(MEDQA, row), np.delete(JUDGE, row)).statistic for row in range(6)]
    assert one.sensitivity == pytest.approx((min(left), max(left)), abs=1e-10)


def test_logarithm_of_perplexities() -> None:
    table = scores({"judge": JUDGE, "word_perplexity": PERPLEXITY}, stderr=0.02, lower=("word_perplexity",))
    one = run(table, "pearson", log_metrics=("word_perplexity",))[0]
    assert one.r == pytest.approx(-stats.pearsonr(JUDGE, np.log(PERPLEXITY)).statistic)
    assert one.flags[:2] == ("y_log", "y_reversed")
    bad = scores({"judge": JUDGE, "word_perplexity": [0.0, math.inf, *PERPLEXITY[2:]]})
    found = run(bad, log_metrics=("word_perplexity",))[0]
    assert found.n == 4
    assert {"y_infinite_left_out", "y_not_positive_left_out"} <= set(found.flags)


def test_direction_that_is_not_known_stays() -> None:
    table = scores({"a": CAREQA, "b": PERPLEXITY})
    unknown = Scores(
        table.models, (table.columns[0], Column("b", "b", "b", "none", None)), table.values, table.stderr, table.n
    )
    one = run(unknown)[0]
    assert one.r < 0
    assert "y_unknown_direction" in one.flags


def test_propagated_error_by_hand_and_by_simulation() -> None:
    """The gradient of r along x is (v - r u) / |x - mean|, with u and v the centred columns of length 1."""
    rng = np.random.default_rng(9)
    x, error = rng.standard_normal(10), 0.05
    y = x + rng.standard_normal(10)
    u, v = ((one - one.mean()) / np.linalg.norm(one - one.mean()) for one in (x, y))
    r = u @ v
    gradient = [(v - r * u) / np.linalg.norm(x - x.mean()), (u - r * v) / np.linalg.norm(y - y.mean())]
    one = run(scores({"x": x, "y": y}, stderr=error), "pearson", n_bootstrap=4000)[0]
    assert one.propagated == pytest.approx(error * math.sqrt(sum((part**2).sum() for part in gradient)), rel=0.06)
    ranked = run(scores({"x": x, "y": y}, stderr=0.3), "spearman", n_bootstrap=2000)[0]
    drawn = [
        stats.spearmanr(x + 0.3 * rng.standard_normal(10), y + 0.3 * rng.standard_normal(10)).statistic
        for _ in range(1000)
    ]
    assert ranked.propagated == pytest.approx(np.std(drawn), rel=0.12)
    assert math.isnan(run(scores({"x": x, "y": y}))[0].propagated)  # without errors nothing is propagated


@pytest.mark.parametrize("method", METHODS)
def test_no_number_depends_on_other_columns_or_on_the_order_of_models(method: str) -> None:
    rng = np.random.default_rng(11)
    values = {name: rng.standard_normal(10) for name in "abcd"}
    values["d"][3] = NAN
    table = scores(values, stderr=0.1)
    few = run(table.take(["a", "c"]), method, adjust=None)[0]
    many = pair(run(table, method, adjust=None), "a", "c")
    order = rng.permutation(10)
    moved = Scores(
        tuple(table.models[row] for row in order),
        table.columns,
        table.values[order],
        table.stderr[order],
        table.n[order],
    )
    other = pair(run(moved, method, adjust=None), "a", "c")
    for name in ("r", "p", "low", "high", "propagated", "undefined_resamples"):
        assert getattr(many, name) == pytest.approx(getattr(few, name), abs=1e-12)
        assert getattr(other, name) == pytest.approx(getattr(few, name), abs=1e-12)


def test_intervals_and_adjusted_p_come_with_the_pairs() -> None:
    rng = np.random.default_rng(12)
    base = rng.standard_normal(14)
    table = scores({name: base + rng.standard_normal(14) for name in "abcd"})
    found = run(table, "pearson", adjust="bh")
    assert [(one.x, one.y) for one in found] == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    wanted = stats.false_discovery_control([one.p for one in found])
    assert [one.adjusted for one in found] == pytest.approx(list(wanted))
    for one in found:
        assert one.low < one.r < one.high
        assert one.interval == "expanded_percentile"
        assert one.fisher[0] < one.r < one.fisher[1]
        assert "exact_p" not in one.flags
    bare = correlate(table, "pearson", rng=np.random.default_rng(0), n_bootstrap=0, n_permutations=0)
    assert all(math.isnan(one.low) and math.isnan(one.p) and math.isnan(one.adjusted) for one in bare)
    with pytest.raises(ValueError, match="expected one of pearson, spearman, kendall"):
        run(table, "cosine")
    with pytest.raises(ValueError, match="expected one of holm, bh"):
        run(table, adjust="bonferroni")
    with pytest.raises(ValueError, match="expected one of percentile"):
        run(table, interval="basic")


def test_same_order_is_not_certainty() -> None:
    one = run(scores({"a": [1.0, 2, 3, 4, 5], "b": [2.0, 3, 5, 8, 9]}))[0]
    assert (one.r, one.high, one.interval) == (pytest.approx(1.0), 1.0, "perfect_order")
    assert 0.1 < one.low < 0.3
    assert one.p == pytest.approx(2 / 120)  # of the 120 orders this one and its reverse
    assert one.undefined_resamples in range(5)  # all five draws are one model with a chance of 5 / 5^5
