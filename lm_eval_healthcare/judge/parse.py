"""Finding the verdict in what a judge wrote: the last `[RESULT]` at its end, and only a whole number of the scale."""

from __future__ import annotations

from dataclasses import dataclass

from lm_eval_healthcare.judge.reasons import Reason

SCALE = (1, 5)


@dataclass(frozen=True)
class Verdict:
    """What a judge's text says.

    Attributes:
        score: A whole number of the scale, or None.
        reason: Why there is none; None if there is one.
        feedback: What the judge wrote before the verdict, without its reasoning; the whole text if there is none.
        conflicting: Whether the text holds another verdict with another number before the last one.
        span: Where the score's digits stand in the text that was given, as for slicing; None if there is none.
    """

    score: int | None
    reason: Reason | None
    feedback: str
    conflicting: bool = False
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class Choice:
    """What a judge's text says of two answers.

    Attributes:
        choice: `A` or `B`, or None.
        reason: Why there is none; None if there is one.
        feedback: What the judge wrote before the verdict.
        conflicting: Whether the text holds the other verdict before the last one.
    """

    choice: str | None
    reason: Reason | None
    feedback: str
    conflicting: bool = False


def parse_verdict(text: str | None, scale: tuple[int, int] = SCALE) -> Verdict:
    """Find the score in what a judge wrote."""
    raise NotImplementedError


def parse_choice(text: str | None) -> Choice:
    """Find the preferred answer in what a judge wrote."""
    raise NotImplementedError
