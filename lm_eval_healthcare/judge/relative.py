"""Two runs side by side: which answer a judge prefers, each pair of answers shown to it in both orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from lm_eval_healthcare.judge.bias import PositionBias, position_bias
from lm_eval_healthcare.judge.intervals import share
from lm_eval_healthcare.judge.paired import Statistic
from lm_eval_healthcare.judge.parse import Choice

ALL = "all"
NO_WINNER = "no_document_with_a_winner"


class Preference(str, Enum):
    """What both orders together say."""

    FIRST = "run 1"
    """The first run's answer wins in both orders."""
    SECOND = "run 2"
    """The second run's answer wins in both orders."""
    TIE = "tie"
    """The orders disagree, so that neither answer is better enough to win from either place."""
    NO_VERDICT = "no verdict"
    """At least one of the orders has no verdict."""

    def __str__(self) -> str:
        """Return the value."""
        return self.value


@dataclass(frozen=True)
class InBothOrders:
    """One document's verdicts.

    Attributes:
        task: The task.
        doc_id: The document.
        first_order: The verdict with run 1's answer shown first, as `A`.
        second_order: The verdict with run 2's answer shown first, as `A`.
    """

    task: str
    doc_id: str | int
    first_order: Choice
    second_order: Choice

    @property
    def preference(self) -> Preference:
        """What both orders together say."""
        return preference(self.first_order, self.second_order)


@dataclass(frozen=True)
class WinRate:
    """Who wins how often, for one task or all together.

    Attributes:
        task: Its name, or `all`.
        wins: Documents that run 1 wins, and that run 2 wins.
        ties: Documents for which the orders disagree.
        no_verdict: Documents without a verdict in one of the orders or both; they count for nothing.
        rate: Share of run 1, ties counted half, with Wilson's 95% interval; 0.5 if neither run is better.
        sign_test: Share of run 1 without ties, with the exact two-sided p-value against 0.5.
    """

    task: str
    wins: tuple[int, int]
    ties: int
    no_verdict: int
    rate: Statistic
    sign_test: Statistic

    def row(self) -> dict[str, object]:
        """Return a row of a table."""
        there = self.rate.n > 0
        return {
            "task": self.task,
            "n": self.rate.n,
            "run 1 wins": self.wins[0],
            "run 2 wins": self.wins[1],
            "ties": self.ties,
            "no verdict": self.no_verdict,
            "win rate of run 1": round(self.rate.value, 3) if there else None,
            "95% interval": f"{self.rate.low:.3f} to {self.rate.high:.3f}" if there else None,
            "p": None if self.sign_test.reason else float(f"{self.sign_test.p:.3g}"),
        }


@dataclass(frozen=True)
class Comparison:
    """Two runs compared.

    Attributes:
        total: Over all documents of all tasks.
        tasks: One for each task, by name.
        position: What changes when the answers change places, over all documents.
        reasons: Why orders have no verdict, with their number.
    """

    total: WinRate
    tasks: tuple[WinRate, ...]
    position: PositionBias
    reasons: Counter[str]

    def rows(self) -> list[dict[str, object]]:
        """Return the table: the tasks, and all together if there are several."""
        return [one.row() for one in (*self.tasks, *([self.total] if len(self.tasks) > 1 else []))]

    def lines(self) -> list[str]:
        """Return it in words, without the table."""
        said = [f"win rate of run 1, ties counted half: {self.total.rate}", *self.position.lines()]
        if self.reasons:
            said.append("orders without a verdict: " + ", ".join(f"{n} {why}" for why, n in self.reasons.most_common()))
        return said


def preference(first_order: Choice, second_order: Choice) -> Preference:
    """Return what the verdicts of both orders together say.

    Args:
        first_order: With run 1's answer as `A`.
        second_order: With run 2's answer as `A`.
    """
    if first_order.choice is None or second_order.choice is None:
        return Preference.NO_VERDICT
    if first_order.choice == second_order.choice:
        return Preference.TIE
    return Preference.FIRST if first_order.choice == "A" else Preference.SECOND


def win_rate(task: str, preferences: Iterable[Preference]) -> WinRate:
    """Return who wins how often."""
    counts = Counter(preferences)
    first, second, ties = (counts[one] for one in (Preference.FIRST, Preference.SECOND, Preference.TIE))
    return WinRate(
        task=task,
        wins=(first, second),
        ties=ties,
        no_verdict=counts[Preference.NO_VERDICT],
        rate=share(first + ties / 2, first + second + ties),
        sign_test=share(first, first + second, tested=True, reason=NO_WINNER),
    )


def compare(documents: Sequence[InBothOrders]) -> Comparison:
    """Compare two runs.

    Args:
        documents: The documents that both runs answered, each once.

    Raises:
        ValueError: If a document is there twice.
    """
    twice = [key for key, n in Counter((one.task, str(one.doc_id)) for one in documents).items() if n > 1]
    if twice:
        raise ValueError(f"document {twice[0][1]} of {twice[0][0]} is there more than once; expected each once")
    by_task: dict[str, list[Preference]] = {}
    for one in documents:
        by_task.setdefault(one.task, []).append(one.preference)
    choices = [choice for one in documents for choice in (one.first_order, one.second_order)]
    return Comparison(
        total=win_rate(ALL, (one.preference for one in documents)),
        tasks=tuple(win_rate(task, by_task[task]) for task in sorted(by_task)),
        position=position_bias((one.first_order.choice, one.second_order.choice) for one in documents),
        reasons=Counter(str(choice.reason or "no reason given") for choice in choices if choice.choice is None),
    )
