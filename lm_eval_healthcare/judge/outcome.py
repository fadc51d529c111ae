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
from lm_eval_healthcare.judge.usability import METRIC, Tally, section_of, total, unusable

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.rubric import Rubric
    from lm_eval_healthcare.judge.session import Judged
    from lm_eval_healthcare.judge.store import Stored

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
        filter: The filter's name.
    """

    judges: list[Judge]
    judged: list[list[Judged]]
    answers: Sequence[str | None]
    rubric: Rubric
    failure_limit: float
    details: Mapping[Reason, str] = field(default_factory=dict)
    filter: str = "none"

    @property
    def n(self) -> int:
        """Number of documents."""
        return len(self.answers)

    @property
    def tallies(self) -> dict[str, Tally]:
        """The verdicts of each judge: how many are missing of how many that there should be."""
        return {
            judge.label: Tally(
                sum(score is None for one in judged if _needs_verdict(one) for score in one.scores),
                sum(len(one.scores) for one in judged if _needs_verdict(one)),
            )
            for judge, judged in zip(self.judges, self.judged, strict=True)
        }

    @property
    def tally(self) -> Tally:
        """The verdicts of all judges."""
        return total(self.tallies.values())

    @property
    def unusable(self) -> str | None:
        """Why the mean cannot be used, or None if it can."""
        return unusable(self.tallies, self.failure_limit)

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
        missing = section_of({self.filter: self.tallies}, self.failure_limit)
        judges = [
            {"model": judge.model, "label": judge.label, **judge.facts, "signature": judge.signature}
            for judge in self.judges
        ]
        return {
            **missing,
            "signatures": {METRIC: " + ".join(judge.signature for judge in self.judges)},
            "reasons": dict(self.reasons),
            "judge": {
                "judges": judges,
                "rubric": f"{self.rubric.name}@{self.rubric.digest}",
                "scale": list(self.rubric.scale),
                **missing["judge"],
                **({"details": {str(reason): text for reason, text in self.details.items()}} if self.details else {}),
            },
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
