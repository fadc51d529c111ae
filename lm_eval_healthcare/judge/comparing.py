"""Comparing two runs: for each document that both answered a judge prefers one answer, asked in both orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval_healthcare.judge.cases import NUMBERS, Case, Compared
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.parse import Choice
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.relative import InBothOrders
from lm_eval_healthcare.judge.saved import SavedTask, TaskAnswers
from lm_eval_healthcare.judge.session import Judged, Prepared, Session
from lm_eval_healthcare.results.samples_file import SampleFile, document_hash

_LETTERS = {number: letter for letter, number in NUMBERS.items()}


@dataclass
class Pairs:
    """The documents that two runs both answered.

    Attributes:
        cases: What is asked: for each document the two answers as they are, and the other way round.
        documents: Task and number of each of them.
        alone: Documents that only one of the runs has.
    """

    cases: list[Case] = field(default_factory=list)
    documents: list[tuple[str, Any]] = field(default_factory=list)
    alone: int = 0


def pairs_of(first: Sequence[SavedTask], second: Sequence[SavedTask]) -> Pairs:
    """Bring the answers of two runs together, document by document.

    Args:
        first: The tasks of one run.
        second: The tasks of the other.

    Raises:
        JudgeError: If the runs have no document in common.
    """
    found = Pairs()
    others = {task.task: task for task in second}
    for task in first:
        other = others.pop(task.task, None)
        if other is None:
            found.alone += len(task.read().rows)
            continue
        _add(found, task.read(), other.read())
    found.alone += sum(len(task.read().rows) for task in others.values())
    if not found.documents:
        raise JudgeError("the two runs have no document of a task in common; compare runs of the same tasks and rows")
    return found


def _add(found: Pairs, one: TaskAnswers, other: TaskAnswers) -> None:
    theirs = dict(zip(_keys(other), range(len(other.rows)), strict=True))
    texts, their_texts = one.answers, other.answers
    for place, key in enumerate(_keys(one)):
        match = theirs.pop(key, None)
        if match is None:
            found.alone += 1
            continue
        known = one.rows[place].references
        references = [] if known is None else [known] if isinstance(known, str) else known
        answers = texts[place], their_texts[match]
        for order in (answers, answers[::-1]):
            found.cases.append(Compared(one.questions[place], order, references, one.saved.rubric))
        found.documents.append((one.saved.task, len(found.documents)))
    found.alone += len(theirs)


def _keys(answers: TaskAnswers) -> list[tuple[str, str]]:
    """Tell documents by their content, and by their filter; equal ones by how many came before."""
    keys: list[tuple[str, str]] = []
    seen: dict[tuple[str, str], int] = {}
    for text, row in zip(answers.rows, SampleFile(answers.saved.path), strict=False):
        key = text.filter, document_hash(row)
        seen[key] = seen.get(key, -1) + 1
        keys.append((text.filter, f"{key[1]}/{seen[key]}"))
    return keys


def ask(session: Session, pairs: Pairs, prepared: Prepared, advance: Callable[[int], None]) -> list[InBothOrders]:
    """Ask the judge, and put the two orders of each document together."""
    judged = session.judge(prepared, advance)
    return [
        InBothOrders(task, document, _choice(judged[2 * n]), _choice(judged[2 * n + 1]))
        for n, (task, document) in enumerate(pairs.documents)
        if judged[2 * n].reason is not Reason.BLANK_ANSWERS
    ]


def _choice(judged: Judged) -> Choice:
    return Choice(_LETTERS.get(judged.scores[0] or 0), judged.reasons[0], "", judged.conflicting)
