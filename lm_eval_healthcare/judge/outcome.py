"""What is reported of a task that was judged: scores, what is missing and why, whether the mean is usable."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.judge.cases import is_text
from lm_eval_healthcare.judge.language import LANGUAGES, mismatch
from lm_eval_healthcare.judge.reasons import Reason

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.rubric import Rubric
    from lm_eval_healthcare.judge.session import Judged
    from lm_eval_healthcare.judge.store import Stored

METRIC = "prometheus"
COVERAGE, TRUNCATED, EXPECTED, VARIANCE = (
    f"{METRIC}_{end}" for end in ("coverage", "truncated", "expected", "variance")
)
CONFLICTING = f"{METRIC}_conflicting"
EMPTY_PREDICTION, WRONG_LANGUAGE = "empty_prediction", "wrong_language"
UP = {METRIC, COVERAGE, EXPECTED}
"""Of the values, those of which more is better."""


@dataclass(frozen=True)
class Judge:
    """What results say of a judge.

    Attributes:
        model: Its name as signatures have it.
        label: A short name that tells it from the others of the same command.
        facts: What is said of its back end.
        signature: What its scores depend on.
    """

    model: str
    label: str
    facts: Mapping[str, Any]
    signature: str


@dataclass
class JudgedTask:
    """The documents of one task after one filter, as one judge or several saw them.

    Attributes:
        judges: The judges.
        judged: For each judge what came of each document, in order.
        answers: The answers, without reasoning.
        rubric: What they were graded by.
        failure_limit: Share of failures above which a mean is unusable.
        details: What was told of failed requests, by reason.
    """

    judges: list[Judge]
    judged: list[list[Judged]]
    answers: Sequence[str | None]
    rubric: Rubric
    failure_limit: float
    details: Mapping[Reason, str] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of documents."""
        return len(self.answers)

    @property
    def asked(self) -> int:
        """Answers that should have a verdict, for all judges: those that are not settled without asking."""
        return sum(map(_needs_verdict, self._all()))

    @property
    def failed(self) -> int:
        """Those of them that have none."""
        return sum(_needs_verdict(one) and one.reason is not None for one in self._all())

    @property
    def unusable(self) -> str | None:
        """Why the mean cannot be used, or None if it can."""
        return unusable(self.failed, self.asked, self.failure_limit)

    @property
    def reasons(self) -> Counter[str]:
        """Documents without a score by reason, for all judges, and what else is counted."""
        found = Counter(f"{one.reason}:{METRIC}" for one in self._all() if one.reason is not None)
        found.update({EMPTY_PREDICTION: sum(not is_text(answer) for answer in self.answers)})
        for name in ("cut", "conflicting", "defused"):
            found.update({f"{name}:{METRIC}": sum(bool(getattr(one, name)) for one in self._all())})
        return Counter({reason: n for reason, n in found.items() if n})

    def values(self) -> list[dict[str, float]]:
        """Return what is logged for each document, the same keys for all."""
        expected = any(one.expected for one in self._all())
        samples = max((len(one.scores) for one in self._all()), default=1)
        return [self._values(place, expected, samples > 1) for place in range(self.n)]

    def _values(self, place: int, expected: bool, variance: bool) -> dict[str, float]:
        own = [judged[place] for judged in self.judged]
        score = _mean([one.score for one in own])
        values = {METRIC: score, COVERAGE: float(not math.isnan(score)), TRUNCATED: float(any(one.cut for one in own))}
        if len(own) > 1:
            values |= {f"{METRIC}_{judge.label}": one.score for judge, one in zip(self.judges, own, strict=True)}
        if expected:
            values[EXPECTED] = _mean([_expected(one) for one in own])
        if variance:
            values[VARIANCE] = _mean([one.variance for one in own])
        answer = self.answers[place]
        known = self.rubric.expected_language in LANGUAGES
        wrong = mismatch(answer, self.rubric.expected_language) if known and is_text(answer) else math.nan
        return {
            **values,
            CONFLICTING: float(any(one.conflicting for one in own)),
            EMPTY_PREDICTION: float(not is_text(answer)),
            WRONG_LANGUAGE: wrong,
        }

    def _all(self) -> list[Judged]:
        return [one for judged in self.judged for one in judged]

    def section(self) -> dict[str, Any]:
        """Return what results say of the judging, for the task's metadata."""
        return {
            "signatures": {METRIC: " + ".join(judge.signature for judge in self.judges)},
            "reasons": dict(self.reasons),
            "judge": {
                "judges": [
                    {"model": judge.model, "label": judge.label, **judge.facts, "signature": judge.signature}
                    for judge in self.judges
                ],
                "rubric": f"{self.rubric.name}@{self.rubric.digest}",
                "scale": list(self.rubric.scale),
                "asked": self.asked,
                "failed": self.failed,
                "failure_rate": self.failed / self.asked if self.asked else 0.0,
                "failure_limit": self.failure_limit,
                **({"details": {str(reason): text for reason, text in self.details.items()}} if self.details else {}),
            },
            **({"unusable": {METRIC: self.unusable}} if self.unusable else {}),
        }


def unusable(failed: int, asked: int, limit: float) -> str | None:
    """Say why a mean over verdicts cannot be used, or return None if it can.

    Args:
        failed: Answers without a verdict.
        asked: Answers that should have one.
        limit: Share of failures above which the mean is unusable.
    """
    if not asked or failed <= limit * asked:
        return None
    return (
        f"{failed} of {asked} answers have no verdict ({failed / asked:.1%}, the limit is {limit:.0%}), so the mean is "
        "one of the answers that the judge could deal with"
    )


def together(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make one section of those of several ranks, each of which saw a part of the documents."""
    known = [section for section in sections if section]
    if not known:
        return {}
    judge = dict(known[0]["judge"])
    for name in ("asked", "failed"):
        judge[name] = sum(section["judge"][name] for section in known)
    judge["failure_rate"] = judge["failed"] / judge["asked"] if judge["asked"] else 0.0
    why = unusable(judge["failed"], judge["asked"], judge["failure_limit"])
    reasons: Counter[str] = Counter()
    for section in known:
        reasons.update(section["reasons"])
    return {
        "signatures": known[0]["signatures"],
        "reasons": dict(reasons),
        "judge": judge,
        **({"unusable": {METRIC: why}} if why else {}),
    }


def directions(keys: Sequence[str]) -> dict[str, bool]:
    """Return the direction of each value."""
    return {key: key in UP or key.startswith(f"{METRIC}_judge") for key in keys}


def without_texts(details: Mapping[Reason, str]) -> dict[Reason, str]:
    """Return that there was something to tell, without the words: a server may quote what it was sent."""
    return dict.fromkeys(details, "not told, since it may quote credentialed data")


def verdict_of(judge: Judge, stored: Stored, with_text: bool) -> dict[str, Any]:
    """Return what a sample row says of one text of a judge."""
    return {
        "judge": judge.label,
        "sample": stored.sample,
        "attempt": stored.attempt,
        "score": stored.score,
        "reason": None if stored.reason is None else str(stored.reason),
        "expected": stored.expected,
        "finish": stored.finish,
        **({"text": stored.text} if with_text else {}),
    }


def _needs_verdict(one: Judged) -> bool:
    return one.asked or one.reason is Reason.TOO_LONG


def _expected(one: Judged) -> float:
    if not one.asked:
        return one.score
    return _mean(one.expected)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
