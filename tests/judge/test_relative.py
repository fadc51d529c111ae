"""Two runs side by side: what both orders together say, win rates, and the table."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from lm_eval_healthcare.judge.parse import Choice
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.relative import NO_WINNER, Comparison, InBothOrders, Preference, compare, preference


def choice(letter: str) -> Choice:
    return Choice(None, Reason.NO_VERDICT, "") if letter == "-" else Choice(letter, None, "")


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ("AB", Preference.FIRST), ("BA", Preference.SECOND), ("AA", Preference.TIE), ("BB", Preference.TIE),
        ("A-", Preference.NO_VERDICT), ("-B", Preference.NO_VERDICT), ("--", Preference.NO_VERDICT),
    ],
)  # fmt: skip
def test_preference(orders: str, said: Preference) -> None:
    assert preference(choice(orders[0]), choice(orders[1])) is said


def compared(**tasks: Iterable[str]) -> Comparison:
    return compare(
        [
            InBothOrders(task, i, choice(o[0]), choice(o[1]))
            for task, orders in tasks.items()
            for i, o in enumerate(orders)
        ]
    )


def test_win_rates_by_task() -> None:
    stats = pytest.importorskip("scipy.stats")
    found = compared(olaph=["AB"] * 6 + ["BA"] * 2 + ["AA", "AA", "BB", "AA"] + ["A-"], medtext=["BA", "AA", "--"])
    medtext, olaph = found.tasks
    assert (olaph.task, olaph.wins, olaph.ties, olaph.no_verdict) == ("olaph", (6, 2), 4, 1)
    assert olaph.rate.value == pytest.approx((6 + 4 / 2) / 12)
    # 6 wins and 4 ties at a half are 8 of 12, a whole number that scipy knows too.
    theirs = stats.binomtest(8, 12).proportion_ci(method="wilson")
    assert (olaph.rate.low, olaph.rate.high) == pytest.approx((theirs.low, theirs.high))
    # Without ties 6 of 8: 6, 7 or 8 in either direction, 2 * (28 + 8 + 1) / 256.
    assert (olaph.sign_test.value, olaph.sign_test.p) == pytest.approx((0.75, 74 / 256))
    assert medtext.rate.value == pytest.approx(0.5 / 2)
    # By hand with z = 1.96: p = 1/4, n = 2.
    z2 = 1.959963985**2
    centre, reach = 0.25 + z2 / 4, math.sqrt(z2) * math.sqrt(0.25 * 0.75 / 2 + z2 / 16)
    assert (medtext.rate.low, medtext.rate.high) == pytest.approx(
        ((centre - reach) / (1 + z2 / 2), (centre + reach) / (1 + z2 / 2))
    )
    assert (found.total.task, found.total.wins, found.total.ties, found.total.no_verdict) == ("all", (6, 3), 5, 2)
    assert found.total.rate.value == pytest.approx((6 + 2.5) / 14)
    assert found.position.documents == (14, 2)
    assert found.position.always_first.value == pytest.approx(4 / 14)
    assert found.reasons == {"no_verdict": 3}
    assert [row["task"] for row in found.rows()] == ["medtext", "olaph", "all"]
    assert found.rows()[1] == {
        "task": "olaph", "n": 12, "run 1 wins": 6, "run 2 wins": 2, "ties": 4, "no verdict": 1,
        "win rate of run 1": 0.667, "95% interval": f"{theirs.low:.3f} to {theirs.high:.3f}", "p": 0.289,
    }  # fmt: skip
    assert "orders without a verdict: 3 no_verdict" in found.lines()


def test_exchanging_the_runs_mirrors_everything() -> None:
    orders = ["AB", "AB", "AB", "BA", "AA", "BB", "AA", "-A"]
    # With the runs exchanged, the order that was the second is the first.
    there, back = compared(t=orders), compared(t=[o[::-1] for o in orders])
    assert back.total.wins == there.total.wins[::-1]
    assert back.total.rate.value == pytest.approx(1 - there.total.rate.value)
    assert (back.total.rate.low, back.total.rate.high) == pytest.approx(
        (1 - there.total.rate.high, 1 - there.total.rate.low)
    )
    assert back.total.sign_test.p == pytest.approx(there.total.sign_test.p)
    assert back.position == there.position


def test_undefined() -> None:
    ties = compared(t=["AA", "BB"])
    assert ties.total.rate.value == 0.5
    assert ties.total.sign_test.reason == NO_WINNER
    assert ties.rows()[0]["p"] is None
    for nothing in (compare([]), compared(t=["--"])):
        assert math.isnan(nothing.total.rate.value)
        assert nothing.total.rate.reason
        assert "nan" not in "\n".join(nothing.lines())
    assert len(compared(t=["--"]).rows()) == 1


def test_a_document_counts_once() -> None:
    with pytest.raises(ValueError, match="document 3 of t is there more than once"):
        compare([InBothOrders("t", 3, choice("A"), choice("B")), InBothOrders("t", "3", choice("A"), choice("B"))])
