"""Rubrics: what a judge grades by, one for each open-ended task, from the package or from a user's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rubric:
    """What is graded, and what each score means.

    Attributes:
        name: The task's name, or the file's stem.
        languages: ISO 639-1 codes for which the rubric has texts, the first being the default.
        criteria: The question that the judge answers, in one language.
        descriptions: What each score of the scale means, in that language, lowest first.
        language: The language of these texts.
        expected_language: The language in which answers are to be.
        digest: The first 12 hexadecimal digits of the SHA-256 of what the judge is shown.
    """

    name: str
    criteria: str
    descriptions: Mapping[int, str]
    language: str = "en"
    expected_language: str = "en"
    languages: tuple[str, ...] = ("en",)
    digest: str = ""

    @property
    def scale(self) -> tuple[int, int]:
        """The lowest and the highest score."""
        return min(self.descriptions), max(self.descriptions)

    @property
    def text(self) -> str:
        """The rubric as a judge is shown it: `[criteria]`, then `Score 1: ...` to `Score 5: ...`, a line each."""
        raise NotImplementedError


def rubric_for(task: str, where: str = "auto", language: str = "en") -> Rubric:
    """Return the rubric of a task.

    Args:
        task: The task's name.
        where: `auto` for the packaged rubric of the task (the general one for tasks that have none), the name of a
            packaged rubric, or a file's path.
        language: ISO 639-1 code of the task's texts.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If there is no such rubric, or it is not as a rubric must be.
    """
    raise NotImplementedError


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics in the package."""
    raise NotImplementedError
