"""One chosen value of each model, task, metric and filter, by stated rules; everything else with the reason.

1. A value that cannot be used is set aside: it is no number, the row is a group's, the run is partial, too old to say
   its counts, marked as unusable, or scored too few of its documents. `Rules` says what is allowed all the same.
2. Of the others, runs over all documents come before those that do not say, and these before partial ones.
3. Then the newest run wins, by the time when it began; scores made later from a run's own answers belong to that run,
   and of these the newest are taken.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lm_eval_healthcare.results.cell import GROUP, PRE_04, Cell, Key, Rules, SetAside
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.protocol import differences


@dataclass(frozen=True, slots=True)
class Origin:
    """When values came to be.

    Attributes:
        run: When the run began whose answers they are made from, in seconds since the epoch; minus infinity if unknown.
        own: When they themselves were made.
        stamp: The time in the file's name.
    """

    run: float
    own: float
    stamp: float


class Candidate(NamedTuple):
    """A value that may be chosen.

    Attributes:
        cell: The value.
        problem: Why it is no number; None if it is one.
        origin: When it was made.
    """

    cell: Cell
    problem: str | None
    origin: Origin


def choose(candidates: Iterable[Candidate], rules: Rules) -> tuple[list[Cell], list[SetAside]]:
    """Choose one value of each key.

    Args:
        candidates: All values.
        rules: What is allowed.

    Returns:
        The chosen values in the order of their keys, and all others in the order of keys and files.
    """
    by_key: dict[Key, list[Candidate]] = defaultdict(list)
    aside: list[SetAside] = []
    for candidate in candidates:
        why = why_not(candidate, rules)
        if why is None:
            by_key[candidate.cell.key].append(candidate)
        else:
            aside.append(SetAside(candidate.cell, why))
    chosen = []
    for key in sorted(by_key):
        found = by_key[key]
        best = max(found, key=_rank) if len(found) > 1 else found[0]
        chosen.append(best.cell)
        aside += [SetAside(one.cell, _why_worse(one, best)) for one in found if one is not best]
    aside.sort(key=lambda one: (one.cell.key, str(one.cell.file)))
    return chosen, aside


def why_not(candidate: Candidate, rules: Rules) -> str | None:
    """Say why a value cannot be chosen, or return None if it can."""
    cell = candidate.cell
    if candidate.problem is not None or not math.isfinite(cell.value):
        return f"no value: {candidate.problem or _not_finite(cell.value)}"
    return next(_objections(cell, rules), None)


def _objections(cell: Cell, rules: Rules) -> Iterator[str]:
    if cell.kind == GROUP and not rules.groups:
        yield "a group: its tasks stand for it, where they are here (--groups keeps it)"
    if cell.dialect == PRE_04 and not rules.allow_legacy:
        yield (
            "not comparable: format pre-0.4, which does not say how many documents were scored, nor the settings "
            "(--allow-legacy takes it)"
        )
    if cell.unusable is not None and not rules.allow_unusable:
        yield f"unusable, as the run itself says: {cell.unusable} (--allow-unusable takes it)"
    if cell.n == 0:
        yield "no value: no document was scored"
    if cell.coverage < rules.min_coverage:
        yield _little_coverage(cell, rules)
    if cell.complete is False and not rules.allow_partial:
        yield f"{_partial(cell)} (--allow-partial takes it where there is no complete one)"


def _not_finite(value: float) -> str:
    return "the mean is NaN" if math.isnan(value) else f"it is {'' if value > 0 else 'minus '}infinite"


def _little_coverage(cell: Cell, rules: Rules) -> str:
    parsed = f" ({cell.scored}/{cell.n} parsed)" if cell.n is not None else ""
    return (
        f"too little coverage: {cell.metric} {round(cell.value, 4)}{parsed}, {cell.coverage:.1%} of the documents have "
        f"a score, --min-coverage asks for {rules.min_coverage:.1%}"
    )


def _partial(cell: Cell) -> str:
    counts = f"{cell.n} of {cell.n_total} documents" if cell.n is not None and cell.n_total is not None else "a part"
    limit = cell.extra.get("limit")
    return f"partial: {counts}" + (f", --limit {limit:g}" if isinstance(limit, int | float) else "")


def _rank(candidate: Candidate) -> tuple[int, float, float, float, str]:
    cell, origin = candidate.cell, candidate.origin
    complete = cell.complete
    level = 0 if complete is False else 1 if cell.dialect == PRE_04 else 3 if complete else 2
    return level, origin.run, origin.own, origin.stamp, str(cell.file)


@functools.lru_cache(maxsize=4096)
def _printable(file: Path) -> str:
    return printable(file)


def _why_worse(one: Candidate, best: Candidate) -> str:
    """Say why a value that could be used is not the chosen one."""
    file = _printable(best.cell.file)
    if one.cell.complete is False and best.cell.complete is not False:
        return f"{_partial(one.cell)}; {file} has all"
    if found := differences(one.cell, best.cell):
        return f"another protocol: {'; '.join(found)} in {file}, which is preferred"
    return f"superseded by {file}"
