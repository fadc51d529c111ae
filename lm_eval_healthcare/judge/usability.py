"""Whether a mean over verdicts can be used: not if a judge has left too many out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

METRIC = "prometheus"


@dataclass(frozen=True)
class Tally:
    """Verdicts of one judge.

    Attributes:
        failed: Those that are missing.
        asked: Those that there should be; answers that are settled without asking do not count.
    """

    failed: int
    asked: int

    @property
    def rate(self) -> float:
        """The share that is missing; 0 where there should be none."""
        return self.failed / self.asked if self.asked else 0.0

    def __add__(self, other: Tally) -> Tally:
        """Count together."""
        return Tally(self.failed + other.failed, self.asked + other.asked)


def total(tallies: Iterable[Tally]) -> Tally:
    """Count those of several judges together."""
    return sum(tallies, Tally(0, 0))


def unusable(tallies: Mapping[str, Tally], limit: float) -> str | None:
    """Say why a mean over verdicts cannot be used, or return None if it can.

    Args:
        tallies: The verdicts of each judge.
        limit: Share of missing verdicts above which the mean is unusable; no judge may be above it.
    """
    bad = {judge: tally for judge, tally in tallies.items() if tally.rate > limit}
    if not bad:
        return None
    judge, worst = max(bad.items(), key=lambda item: item[1].rate)
    whose = f" of {judge}" if len(tallies) > 1 else ""
    so = "so the mean is one of the answers that the judge could deal with" if worst.rate < 1 else "so there is no mean"
    share = f"{worst.rate:.1%}, the limit is {limit:.0%}"
    return f"{worst.failed} of {worst.asked} verdicts{whose} are missing ({share}), {so}"


def section_of(tallies: Mapping[str, Mapping[str, Tally]], limit: float) -> dict[str, Any]:
    """Return what results say of missing verdicts.

    Args:
        tallies: By filter, the verdicts of each judge.
        limit: See `unusable`.
    """
    whole = total(tally for judges in tallies.values() for tally in judges.values())
    why = {f"{METRIC},{name}": text for name, judges in tallies.items() if (text := unusable(judges, limit))}
    return {
        "judge": {
            "asked": whole.asked,
            "failed": whole.failed,
            "failure_rate": whole.rate,
            "failure_limit": limit,
            "missing": {
                name: {judge: [tally.failed, tally.asked] for judge, tally in judges.items()}
                for name, judges in tallies.items()
            },
        },
        **({"unusable": why} if why else {}),
    }


def together(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make one section of those of several filters, or of several ranks, each of which saw a part of the documents."""
    known = [section for section in sections if section]
    if not known:
        return {}
    tallies: dict[str, dict[str, Tally]] = {}
    reasons: Counter[str] = Counter()
    for section in known:
        reasons.update(section["reasons"])
        for name, judges in section["judge"]["missing"].items():
            for judge, counts in judges.items():
                own = tallies.setdefault(name, {})
                own[judge] = own.get(judge, Tally(0, 0)) + Tally(*counts)
    summed = section_of(tallies, known[0]["judge"]["failure_limit"])
    rest = {key: value for key, value in known[0].items() if key != "unusable"}
    return {**rest, **summed, "reasons": dict(reasons), "judge": {**known[0]["judge"], **summed["judge"]}}
