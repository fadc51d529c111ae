"""Finding the verdict in what a judge wrote: the last `[RESULT]` at its end, and only a whole number of the scale.

A number that is only mentioned (`a score of 3`) is no verdict, and what cannot be read for certain is none either: a
refused verdict costs a retry, a wrong one a wrong score. Invisible characters (without width, or of direction) are read
as if they were not there. A text that quotes `[RESULT] 5` within a sentence and ends there cannot always be told from a
verdict; that is why prompts show the judge no answer that has the mark in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.verdict_marker import Visible, markers, visible
from lm_eval_healthcare.judge.verdict_number import LONGEST_REMARK, QUOTES, Read, competing, read_number, read_side
from lm_eval_healthcare.results.reasoning import kept_spans

SCALE = (1, 5)
_EARLIER = 400  # characters behind an earlier mark that are looked at
_LABEL = re.compile(r"[#*_\s]*feedback[*_\s]*:[*_\s]*", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """What a judge's text says.

    Attributes:
        score: A whole number of the scale, or None.
        reason: Why there is none; None if there is one.
        feedback: What the judge wrote before the verdict, without its reasoning and without the label `Feedback:`; the
            whole text if there is no verdict.
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
        reason: Why there is none; None if there is one. `NOT_A_NUMBER` is here: neither `A` nor `B`.
        feedback: What the judge wrote before the verdict, as in `Verdict`.
        conflicting: Whether the text holds the other verdict before the last one.
    """

    choice: str | None
    reason: Reason | None
    feedback: str
    conflicting: bool = False


def parse_verdict(text: str | None, scale: tuple[int, int] = SCALE, begun: bool = False) -> Verdict:
    """Find the score in what a judge wrote.

    Args:
        text: What the judge wrote, its prompt before it or not; None if there is nothing.
        scale: The lowest and the highest score.
        begun: Whether the prompt ended inside the judge's reasoning.

    Raises:
        ValueError: If the scale's lowest score is above its highest.
    """
    if scale[0] > scale[1]:
        raise ValueError(f"the scale goes from {scale[0]} to {scale[1]}; expected the lowest score first")

    def read(seen: str, start: int, end: int) -> Read:
        return read_number(seen, start, end, scale)

    def other(found: Read) -> bool:
        return found.phrase or (isinstance(found.value, int) and competing(found.remark, found.value, scale))

    found, feedback, conflicting, seen = _last(text, read, other, begun)
    if found.reason is not None or found.span is None or not isinstance(found.value, int):
        return Verdict(None, found.reason, feedback)
    return Verdict(found.value, None, feedback, conflicting, seen.span(*found.span))


def parse_choice(text: str | None, begun: bool = False) -> Choice:
    """Find the preferred answer in what a judge wrote.

    Args:
        text: What the judge wrote, its prompt before it or not; None if there is nothing.
        begun: Whether the prompt ended inside the judge's reasoning.
    """
    found, feedback, conflicting, _ = _last(text, read_side, lambda found: False, begun)
    if found.reason is not None:
        return Choice(None, found.reason, feedback)
    return Choice(str(found.value), None, feedback, conflicting)


def _last(
    text: str | None, read: Callable[[str, int, int], Read], other: Callable[[Read], bool], begun: bool
) -> tuple[Read, str, bool, Visible]:
    """Read the last mark of a text: what it says, the feedback, whether an earlier one says something else."""
    parts = kept_spans(text or "", begun)
    seen = visible(text or "", parts or [])
    whole = "".join((text or "")[start:end] for start, end in parts or []).strip()
    if parts is None and text and text.strip():
        return Read(reason=Reason.CUT_REASONING), whole, False, seen
    if not seen.text.strip():
        return Read(reason=Reason.EMPTY), whole, False, seen
    marks = list(markers(seen.text))
    if not marks:
        return Read(reason=Reason.NO_VERDICT), whole, False, seen
    start, end = marks[-1]
    found = read(seen.text, end, len(seen.text))
    reason = found.reason or _not_last(seen.text, start, found) or (Reason.AMBIGUOUS if other(found) else None)
    if reason is not None:
        return Read(found.value, reason), whole, False, seen
    limits = [begin for begin, _ in marks[1:]]
    earlier = [
        read(seen.text, stop, min(limit, stop + _EARLIER)) for (_, stop), limit in zip(marks, limits, strict=False)
    ]
    conflicting = any(
        before.value not in (None, found.value) and before.reason is not Reason.AMBIGUOUS for before in earlier
    )
    return found, _feedback(text or "", parts or [], seen.span(start, end)[0]), conflicting, seen


def _not_last(seen: str, start: int, found: Read) -> Reason | None:
    """Return `NOT_AT_THE_END` for a verdict that much text follows, or that stands in a sentence as a quotation."""
    line = seen[seen.rfind("\n", 0, start) + 1 : start]
    goes_on = any(c.isalpha() for c in found.remark)
    sentence_before = any(c.isalnum() for c in line)
    quoted = any(c in QUOTES for c in found.closing)
    wrapped = seen.lstrip()[:1] in tuple(QUOTES) or line.rstrip(" *_`" + QUOTES)[-1:] in (".", "!", "?")
    if (
        len(found.remark) > LONGEST_REMARK
        or (sentence_before and goes_on and (quoted or "`" in found.closing))
        or (sentence_before and quoted and not wrapped)
        or (goes_on and line.lstrip().startswith(">"))
    ):
        return Reason.NOT_AT_THE_END
    return None


def _feedback(text: str, parts: Sequence[tuple[int, int]], end: int) -> str:
    before = "".join(text[start : min(stop, end)] for start, stop in parts if start < end)
    label = _LABEL.match(before)
    return before[label.end() if label else 0 :].rstrip(" \t\r\n*_`#>").lstrip()
