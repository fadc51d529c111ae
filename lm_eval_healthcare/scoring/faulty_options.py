"""Options of a multiple-choice question that cannot be told apart, or are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTICAL_OPTIONS, PLACEHOLDER_OPTION = "identical_options", "placeholder_option"
_PLACEHOLDERS = frozenset({"", "na", "n/a", "nan", "none", "null", "nil", "-", "--", "?", "...", "\u2026", "."})


def faults_of_options(options: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the options of one question.

    Args:
        options: The options' texts by label; none if the question is not asked by labels.

    Returns:
        `identical_options` if two options are the same text but for white space (the genotypes AA and Aa are not):
        where one of them is the gold one, the other is as right and counts as wrong. `placeholder_option` if one is
        blank or only stands for a missing text, such as `NA`.
    """
    texts = [" ".join(text.split()) for text in options.values()]
    real = [text for text in texts if text.casefold() not in _PLACEHOLDERS]
    found = [IDENTICAL_OPTIONS] if len(set(real)) < len(real) else []
    return found + ([PLACEHOLDER_OPTION] if len(real) < len(texts) else [])
