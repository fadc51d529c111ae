"""When a mean over verdicts is not to be used."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.judge.usability import METRIC, Tally, section_of, together, unusable


@pytest.mark.parametrize(("failed", "asked", "usable"), [(0, 0, True), (1, 20, True), (2, 20, False), (5, 5, False)])
def test_one_judge(failed: int, asked: int, usable: bool) -> None:
    """The limit is 5%: 1 of 20 is not above it, 2 of 20 is."""
    assert (unusable({"judge1": Tally(failed, asked)}, 0.05) is None) == usable


def test_no_judge_may_be_above_the_limit() -> None:
    """9 of 100 and 0 of 100 are 4.5% together, but the first judge alone is above 5%."""
    why = unusable({"strict": Tally(9, 100), "mild": Tally(0, 100)}, 0.05)
    assert why is not None
    assert "9 of 100 verdicts of strict are missing (9.0%" in why


def test_filters_are_marked_apart() -> None:
    """The first filter has all, the second none."""
    parts = [
        {**section_of({name: {"judge1": Tally(failed, 4)}}, 0.05), "reasons": {}, "signatures": {}}
        for name, failed in (("none", 0), ("short", 4))
    ]
    whole = together(parts)
    assert list(whole["unusable"]) == [f"{METRIC},short"]
    assert (whole["judge"]["failed"], whole["judge"]["asked"], whole["judge"]["failure_rate"]) == (4, 8, 0.5)
    assert whole["judge"]["missing"] == {"none": {"judge1": [0, 4]}, "short": {"judge1": [4, 4]}}
