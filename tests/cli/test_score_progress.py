"""What a long command says while it goes on, where stderr is no terminal."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.cli import score_progress
from lm_eval_healthcare.cli.score_progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which only the test moves."""
    now = [0.0]
    monkeypatch.setattr(score_progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_half_minute_with_the_time_that_is_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(1000.0) as progress:
        for seconds, amount in [(10, 50), (31, 50), (45, 50), (70, 100), (80, 740), (120, 10)]:
            clock[0] = float(seconds)
            progress.advance("careqa_open", float(amount))
    # 31 s: 100 of 1000 done, 900 left at 0.31 s each: 279 s. 70 s: 250 done, 750 at 0.28 s: 210 s. At the end nothing.
    assert capsys.readouterr().err.splitlines() == [
        "10% done (careqa_open), about 5 min left",
        "25% done (careqa_open), about 4 min left",
    ]


@pytest.mark.parametrize(
    ("left", "text"), [(59.0, "59 s"), (60.0, "1 min"), (119 * 60.0, "119 min"), (9000.0, "2.5 h")]
)
def test_durations(left: float, text: str) -> None:
    assert score_progress._duration(left) == text
