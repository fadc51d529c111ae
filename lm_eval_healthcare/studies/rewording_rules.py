"""Rewordings by fixed rules, without a model."""

from __future__ import annotations

from dataclasses import dataclass

RULES = ("case", "punctuation", "spelling", "abbreviations", "prose")
"""The names of the rules."""


@dataclass(frozen=True)
class Reworded:
    """What a rule made of a text.

    Attributes:
        rule: A name of `RULES`, or several joined by `+`.
        text: The rewording; None if the rule changes nothing in this text.
    """

    rule: str
    text: str | None


def reword(text: str, n: int, language: str = "en") -> list[Reworded]:
    """Return up to `n` rewordings of a text."""
    return []
