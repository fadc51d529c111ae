"""What a judge is asked about: one answer to be graded, or two to be compared."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lm_eval_healthcare.judge.parse import parse_choice, parse_verdict
from lm_eval_healthcare.judge.prompt import Prompt, Wording
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.rubric import Rubric
from lm_eval_healthcare.metrics import is_blank

NUMBERS = {"A": 1, "B": 2}
"""By which preferences are stored."""


@dataclass(frozen=True)
class Found:
    """What was found in a judge's text.

    Attributes:
        score: The score, or the number of the preferred answer.
        reason: Why there is none.
        conflicting: Whether the text holds another verdict before its last.
        span: Where the score stands in the text.
    """

    score: int | None
    reason: Reason | None
    conflicting: bool = False
    span: tuple[int, int] | None = None


class Case(ABC):
    """Something that a judge is asked once."""

    rubric: Rubric

    @property
    @abstractmethod
    def without_asking(self) -> int | Reason | None:
        """The score that is known, or the reason why there is none; None if the judge must be asked."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Characters of the longest answer."""

    @abstractmethod
    def prompt(self, wording: Wording, most: int | None = None) -> Prompt:
        """Return what the judge is asked, answers cut to at most so many characters."""

    @abstractmethod
    def parse(self, text: str) -> Found:
        """Find the verdict in what the judge wrote."""


@dataclass(frozen=True)
class Graded(Case):
    """One answer to be graded.

    Attributes:
        question: What the model was asked.
        answer: What it answered, without its reasoning; None if it gave nothing.
        references: Answers that would get the highest score.
        rubric: What it is graded by.
    """

    question: str
    answer: str | None
    references: Sequence[str]
    rubric: Rubric

    @property
    def without_asking(self) -> int | Reason | None:
        """A blank answer gets the lowest score; without a reference nothing can be compared."""
        if not any(is_text(text) for text in self.references):
            return Reason.BLANK_REFERENCE
        return None if is_text(self.answer) else self.rubric.scale[0]

    @property
    def longest(self) -> int:
        """Characters of the answer."""
        return len(self.answer or "")

    def prompt(self, wording: Wording, most: int | None = None) -> Prompt:
        """Ask for a score."""
        references = [text for text in self.references if is_text(text)]
        return wording.absolute(self.question, (self.answer or "")[:most], references, self.rubric)

    def parse(self, text: str) -> Found:
        """Find the score."""
        verdict = parse_verdict(text, self.rubric.scale)
        return Found(verdict.score, verdict.reason, verdict.conflicting, verdict.span)


@dataclass(frozen=True)
class Compared(Case):
    """Two answers of which the better one is asked for.

    Attributes:
        question: What both models were asked.
        answers: The answer that is shown as A and the one that is shown as B.
        references: Good answers; there may be none.
        rubric: What they are compared by.
    """

    question: str
    answers: tuple[str | None, str | None]
    references: Sequence[str]
    rubric: Rubric

    @property
    def without_asking(self) -> int | Reason | None:
        """Any answer is better than a blank one; of two blank ones none is."""
        there = [is_text(text) for text in self.answers]
        if all(there):
            return None
        return Reason.BLANK_ANSWERS if not any(there) else 1 + there.index(True)

    @property
    def longest(self) -> int:
        """Characters of the longer answer."""
        return max(len(text or "") for text in self.answers)

    def prompt(self, wording: Wording, most: int | None = None) -> Prompt:
        """Ask for a preference."""
        first, second = ((text or "")[:most] for text in self.answers)
        references = [text for text in self.references if is_text(text)]
        return wording.relative(self.question, (first, second), references, self.rubric)

    def parse(self, text: str) -> Found:
        """Find the preference."""
        choice = parse_choice(text)
        return Found(NUMBERS.get(choice.choice or ""), choice.reason, choice.conflicting)


def is_text(text: str | None) -> bool:
    """Whether there is anything but blanks and characters that nobody sees."""
    return not is_blank(text)


def key_of(prompt: Prompt) -> bytes:
    """Return the key of a prompt in the store: the SHA-256 of its turns."""
    digest = hashlib.sha256()
    for message in prompt.messages:
        for text in (message.role, message.content):
            content = text.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.digest()
