"""What can be wrong with a rewording of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(str, Enum):
    """A reason to turn a rewording down."""

    EMPTY = "empty"
    UNCHANGED = "unchanged"
    REPEATED = "repeated"
    LANGUAGE = "language"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    NUMBER_LOST = "number_lost"
    NUMBER_ADDED = "number_added"
    UNIT_CHANGED = "unit_changed"
    DRUG_LOST = "drug_lost"
    DRUG_ADDED = "drug_added"
    NUMBER_MOVED = "number_moved"
    NEGATION_CHANGED = "negation_changed"
    OPPOSITE = "opposite"
    REFUSAL = "refusal"
    ANSWERS_QUESTION = "answers_question"
    CUT = "cut"
    PREAMBLE = "preamble"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a rewording.

    Attributes:
        fault: What kind of thing.
        detail: What exactly, for a person: which number, which name.
    """

    fault: Fault
    detail: str
