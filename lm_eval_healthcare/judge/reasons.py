"""Why an answer has no verdict."""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """Why there is no score; the value stands in results, counted.

    The first group is of texts that a judge wrote and that hold no verdict, the second of answers of which no such text
    was to be had.
    """

    EMPTY = "empty"
    """The judge wrote nothing."""
    CUT_REASONING = "cut_reasoning"
    """The judge was still reasoning when its text ended."""
    NO_VERDICT = "no_verdict"
    """No `[RESULT]` followed by anything."""
    NOT_AT_THE_END = "not_at_the_end"
    """After the last `[RESULT]` the judge went on writing, so that it may not be a verdict but a quotation."""
    NOT_A_NUMBER = "not_a_number"
    """What follows the last `[RESULT]` is no number."""
    NOT_WHOLE = "not_whole"
    """The number has decimals other than zeros."""
    OUT_OF_SCALE = "out_of_scale"
    """The number, or what it is said to be out of, does not fit the scale."""
    AMBIGUOUS = "ambiguous"
    """Several numbers follow the last `[RESULT]`, such as `3 or 4`."""

    TOO_LONG = "too_long"
    """The question, the reference and the rubric alone fill the judge's context, or cutting was not allowed."""
    NO_REPLY = "no_reply"
    """The judge could not be reached, or answered with errors only."""
    REFUSED = "refused"
    """The server refused this one request, for its content or its form."""
    BLANK_ANSWERS = "blank_answers"
    """Both of two answers that are compared are blank."""
    BLANK_REFERENCE = "blank_reference"
    """There is nothing to compare the answer with."""

    def __str__(self) -> str:
        """Return the value."""
        return self.value

    @property
    def may_pass(self) -> bool:
        """Whether the same request may do better another day, so that it is asked again by the next run."""
        return self is Reason.NO_REPLY
