"""What came of the rewordings of an answer: which version was accepted, after how many attempts, or why none was."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lm_eval_healthcare.judge.language import LANGUAGES, mismatch
from lm_eval_healthcare.results.reasoning import without_reasoning
from lm_eval_healthcare.studies.rewording.checks import Fault, Finding, check, cleaned
from lm_eval_healthcare.studies.rewording.prompt import repeats_instruction, without_fences

ORIGINAL = "original"
RULES = "rules"
BLANK = "blank_answer"
TOO_LONG = "too_long"
NO_REPLY = "no_reply"
CHANGES_NOTHING = "changes_nothing"
NO_MORE_RULES = "no_more_rules"
_SHOWN = 200  # characters of a text that was turned down
_FAULTS = tuple(fault.value for fault in Fault)
_ACCEPTED = 255


@dataclass(frozen=True)
class Passage:
    """One answer that is reworded.

    Attributes:
        answer: The answer, without its model's reasoning; None or blank ones are not reworded.
        question: What it answers; a rewording must not answer it anew.
        language: ISO 639-1 code of the task's language, if it is known and has one.
    """

    answer: str | None
    question: str = ""
    language: str | None = None

    @property
    def spoken(self) -> str | None:
        """The language that a rewording must have: the task's, unless the answer is surely in another one.

        None leaves it to the check to find out the answer's own.
        """
        return None if self.language is None else _spoken(self.answer, self.language)


@functools.lru_cache(maxsize=256)
def _spoken(answer: str | None, language: str) -> str | None:
    known = language.lower().split("-")[0] in LANGUAGES
    return language if known and mismatch(answer, language) != 1.0 else None


@dataclass(frozen=True)
class Version:
    """One rewording.

    Attributes:
        number: From 1.
        by: The model's identity, or `rules:` with the rule's name.
        text: The rewording; None if there is no acceptable one.
        attempts: Texts that were drawn for it.
        rejected: The fault and the beginning of each text that was turned down.
        reason: Why there is none: a fault, or `blank_answer`, `too_long`, `no_reply`, `changes_nothing`,
            `no_more_rules`.
        seed: The seed of the accepted text.
    """

    number: int
    by: str
    text: str | None
    attempts: int = 0
    rejected: tuple[tuple[str, str], ...] = ()
    reason: str | None = None
    seed: int | None = None

    def record(self) -> dict[str, Any]:
        """Return what a sample file says of it."""
        found: dict[str, Any] = {
            "version": self.number, "by": self.by, "accepted": self.text is not None, "attempts": self.attempts,
            "rejected": [list(one) for one in self.rejected],
        }  # fmt: skip
        found |= {} if self.seed is None else {"seed": self.seed}
        return found | ({} if self.reason is None else {"reason": self.reason})


class Drawn(Protocol):
    """A text of a model.

    Attributes:
        text: What it wrote.
        finish: `stop`, or `length` if it was cut.
    """

    @property
    def text(self) -> str | None: ...  # noqa: D102
    @property
    def finish(self) -> str | None: ...  # noqa: D102


@dataclass
class Settled:
    """How far the versions of an answer are.

    Attributes:
        accepted: Rewording and attempt, by version.
        rejected: Faults and texts, by version.
        silent: Versions for which the model gave no text.
        to_ask: Version and attempt of the texts that are needed next.
        seen: Version, attempt and finding of every text in the order in which they were looked at, a byte each.
    """

    accepted: dict[int, tuple[str, int]] = field(default_factory=dict)
    rejected: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    to_ask: list[tuple[int, int]] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)

    @property
    def drawn(self) -> int:
        """Texts that were drawn."""
        return len(self.accepted) + sum(map(len, self.rejected.values()))


def settle(
    passage: Passage,
    texts: Mapping[tuple[int, int], Drawn],
    n: int,
    tries: int,
    silent: Collection[int] = (),
    seen: bytes = b"",
) -> Settled:
    """Go through what a model wrote about an answer, in an order that does not depend on when it came.

    A rewording must differ from those that were accepted before, so the order decides: the first attempts of all
    versions by number, then the second ones of those that still have none, and so on. An attempt is looked at when all
    texts of its turn are there.

    Args:
        passage: The answer.
        texts: What was written, by version and attempt.
        n: Versions that are wanted.
        tries: Attempts at each.
        silent: Versions that are no longer asked for.
        seen: What was found earlier, so that no text is checked twice; what it does not fit is checked.
    """
    state = Settled(rejected={version: [] for version in range(1, n + 1)})
    for attempt in range(tries):
        turn = [version for version in range(1, n + 1) if version not in state.accepted and version not in state.silent]
        missing = [version for version in turn if (version, attempt) not in texts]
        state.silent.update(version for version in missing if version in silent)
        state.to_ask = [(version, attempt) for version in missing if version not in silent]
        if state.to_ask:
            break
        for version in turn:
            if version not in state.silent:
                _look(passage, version, attempt, texts[version, attempt], state, seen)
    return state


def _look(passage: Passage, version: int, attempt: int, drawn: Drawn, state: Settled, seen: bytes) -> None:
    original = passage.answer or ""
    text = cleaned(without_fences(without_reasoning(drawn.text or "").text, original))
    place = len(state.seen)
    state.seen += bytes((version, attempt))
    if seen[: place + 2] == state.seen and len(seen) > place + 2:
        code = seen[place + 2]
    else:
        others = [other for other, _ in state.accepted.values()]
        found = check(
            original, text, question=passage.question, language=passage.spoken, others=others, finish=drawn.finish
        )
        if not found and repeats_instruction(text, original):
            found = [Finding(Fault.PREAMBLE, "it repeats the instruction")]
        code = _FAULTS.index(found[0].fault.value) if found else _ACCEPTED
    state.seen.append(code)
    if code == _ACCEPTED:
        state.accepted[version] = text, attempt
    else:
        state.rejected[version].append((_FAULTS[code], (text or drawn.text or "")[:_SHOWN]))


@dataclass
class Counts:
    """What came of the answers of a task or a run.

    Attributes:
        answers: Answers.
        accepted: Rewordings that are there.
        missing: Rewordings that are not, of answers that have words.
        asked: Texts that a model wrote, those turned down too; once for equal answers to one question.
        rejected: Texts that were turned down, by reason; once likewise.
        not_reworded: Answers that were not reworded at all, by reason.
        absent: Missing rewordings by reason.
    """

    answers: int = 0
    accepted: int = 0
    missing: int = 0
    asked: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    not_reworded: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)

    def take(self, versions: Sequence[Version], first: bool) -> None:
        """Add the versions of one answer; `first` if none like it was added before."""
        self.answers += 1
        reasons = {version.reason for version in versions}
        for reason in (BLANK, TOO_LONG):
            self.not_reworded[reason] += reason in reasons and not any(version.attempts for version in versions)
        self.accepted += sum(version.text is not None for version in versions)
        absent = [str(version.reason) for version in versions if version.text is None and version.reason != BLANK]
        self.missing += len(absent)
        self.absent.update(absent)
        if first:
            self.asked += sum(version.attempts for version in versions)
            self.rejected.update(fault for version in versions for fault, _ in version.rejected)

    def add(self, other: Counts) -> None:
        """Add the counts of another part."""
        for name in ("answers", "accepted", "missing", "asked"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("rejected", "not_reworded", "absent"):
            getattr(self, name).update(getattr(other, name))

    @property
    def share_missing(self) -> float:
        """Share of the rewordings that are missing; 0 where none was to be had."""
        wanted = self.accepted + self.missing
        return self.missing / wanted if wanted else 0.0

    def record(self) -> dict[str, Any]:
        """Return what a results file says."""
        return {
            "answers": self.answers, "accepted": self.accepted, "missing": self.missing, "asked": self.asked,
            "rejected_by_reason": _ordered(self.rejected), "not_reworded": _ordered(self.not_reworded),
            "missing_by_reason": _ordered(self.absent),
        }  # fmt: skip


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return {reason: n for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n}
