"""What a judge is asked: instruction, answer, reference and rubric, laid out by a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lm_eval_healthcare.judge.rubric import Rubric

PACK, TRAINED, AUTO = "pack", "prometheus", "auto"


@dataclass(frozen=True)
class Message:
    """One turn: `role` is `system` or `user`."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """What is sent.

    Attributes:
        messages: The turns. A model without a chat template is given their contents, a blank line between them.
        defused: How many pieces of the answer (or answers) looked like a verdict or like the prompt's own fences and
            were written differently, so that a judge who quotes them gives no verdict by it.
    """

    messages: tuple[Message, ...]
    defused: int = 0


class Wording:
    """A template for absolute and one for relative grading.

    Attributes:
        name: `pack`, `prometheus-eval 0.1.20`, or the file's name.
        digest: The first 12 hexadecimal digits of the SHA-256 of the templates.
    """

    name: str
    digest: str

    def absolute(self, question: str, answer: str, references: Sequence[str], rubric: Rubric) -> Prompt:
        """Ask for a score of one answer.

        Args:
            question: What the model that wrote the answer was asked.
            answer: Its answer.
            references: Answers that would get the highest score, at least one that is not blank.
            rubric: What is graded.
        """
        raise NotImplementedError

    def relative(self, question: str, answers: tuple[str, str], references: Sequence[str], rubric: Rubric) -> Prompt:
        """Ask which of two answers is better; `references` may be empty."""
        raise NotImplementedError


def wording(where: str, judge_model: str = "") -> Wording:
    """Return a wording.

    Args:
        where: `pack`: the package's own. `prometheus`: the one on which Prometheus was trained, read from the installed
            `prometheus-eval`, which is not imported. A path: a template file. `auto`: `prometheus` if the judge's name
            says that it is one, else `pack`.
        judge_model: The judge's name or path.

    Raises:
        JudgeError: If it cannot be had or is not as a template must be.
    """
    raise NotImplementedError
