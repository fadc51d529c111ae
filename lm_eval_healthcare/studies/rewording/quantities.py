"""The numbers that a text states, with their units, and whether another text states the same ones.

"5 mg", "5mg", "5.0 mg" and "five milligrams" are one quantity, and so are "0.5 g" and "500 mg", or "twice daily",
"BID" and "every 12 hours". The numbers of a list's items are no content, and neither is "one" as a pronoun.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.quantity_reader import Quantity, quantities

_BARE_TOO = frozenset({"mmHg", "celsius", "fahrenheit", "degrees", "count/time", "speed", "rate"})
"""Kinds whose unit is often understood: "a pressure of 120/80", "a temperature of 38.5"."""
_TIMES = frozenset({"time", "months"})
_TOLERANCE = 1e-5
_MOST_TEMPERATURES = 50
_DEGREE = 0.06  # converted temperatures are rounded to a tenth


def quantity_findings(original: str, rewording: str, question: str = "", spanish: bool = False) -> list[Finding]:
    """Return which quantities were lost, added or given another unit.

    A quantity counts once, however often it is stated. What a rewording takes from the question is not added.

    Args:
        original: The text that was reworded.
        rewording: What it became.
        question: What both answer.
        spanish: Whether "1.000" is a thousand.

    Returns:
        At most one finding a quantity.
    """
    before, after = _with_times(quantities(original, spanish)), quantities(rewording, spanish)
    there, known = _Stated(after), _Stated([*before, *_with_times(quantities(question, spanish))])
    lost = [q for q in _distinct(before) if not q.soft and not there.like(q)]
    added = [q for q in _distinct(after) if not q.soft and not known.like(q)]
    findings = []
    rivals = {_key(q.number): q for q in reversed(added)}
    gone: list[Quantity] = []
    for one in lost:
        other = rivals.get(_key(one.number)) if not one.is_frequency else None
        if other is not None:
            del rivals[_key(one.number)]
            added.remove(other)
            findings.append(Finding(Fault.UNIT_CHANGED, f"'{one.shown}' became '{other.shown}'"))
        elif one.unit and any(not q.unit and not q.name for q in there.numbers.get(_key(one.number), ())):
            findings.append(Finding(Fault.UNIT_CHANGED, f"'{one.shown}' lost its unit"))
        else:
            gone.append(one)
    findings += [Finding(Fault.NUMBER_LOST, f"'{q.shown}' is not in the rewording") for q in gone]
    findings += [Finding(Fault.NUMBER_ADDED, f"'{q.shown}' is not in the original") for q in added]
    return findings + _swapped(before, after) + _turned(before, there)


def _with_times(found: list[Quantity]) -> list[Quantity]:
    """Let numbers without a unit be times: a rewording may say what was understood, but not take a unit away."""
    return [q if q.kind else replace(q, understood=_TIMES) for q in _distinct(found)]


def _key(value: float) -> float:
    """Six digits of a number: equal for equal quantities that were converted."""
    return float(f"{value:.6g}")


class _Stated:
    """The quantities of a text, found by what they may be equal to: comparing all with all would take too long."""

    def __init__(self, found: list[Quantity]) -> None:
        self.numbers: dict[float, list[Quantity]] = {}
        self._values: dict[tuple[str, float], list[Quantity]] = {}
        for one in _distinct(found):
            self.numbers.setdefault(_key(one.number), []).append(one)
            self._values.setdefault((one.kind, _key(one.value)), []).append(one)
        self._warm = self._values_of("celsius", "fahrenheit")[:_MOST_TEMPERATURES]

    def _values_of(self, *kinds: str) -> list[Quantity]:
        return [q for (kind, _), listed in self._values.items() if kind in kinds for q in listed]

    def like(self, one: Quantity) -> list[Quantity]:
        """The stated quantities that are the same as a given one."""
        near = list(self.numbers.get(_key(one.number), ()))
        near += self._values.get((one.kind, _key(one.value)), ())
        if one.kind == "percent":
            near += self._values.get(("", _key(one.value / 100)), ())
        elif one.kind in ("celsius", "fahrenheit"):
            near += self._warm
        elif one.kind in ("per", "time") and one.value:
            near += self._values.get(("time" if one.kind == "per" else "per", _key(1 / one.value)), ())
        elif not one.kind:
            near += self._values.get(("percent", _key(one.value * 100)), ())
        return [other for other in near if _same(one, other)]


def _distinct(found: Iterable[Quantity]) -> list[Quantity]:
    kept: dict[tuple[object, ...], Quantity] = {}
    for one in found:
        kept.setdefault((one.value, one.kind, one.name, one.soft, one.inherited, one.bound, one.understood), one)
    return list(kept.values())


def _same(one: Quantity, other: Quantity) -> bool:
    """Whether two quantities are equal, after conversion within a kind."""
    if one.name or other.name:  # a number in a name, such as B12: only its number can be told
        return one.number == other.number and not (one.name and other.name and one.name != other.name)
    if one.kind == other.kind:
        if math.isclose(one.value, other.value, rel_tol=_TOLERANCE, abs_tol=1e-12):
            return True
        if not (one.inherited or other.inherited):
            return False
    kinds = {one.kind, other.kind}
    if "ordinal" in kinds and kinds <= {"ordinal", "", "time", "months"}:  # "the 12th" of May, "in the 12th week"
        return one.number == other.number
    if kinds <= {"celsius", "fahrenheit", "degrees"}:
        if "degrees" in kinds:
            return one.number == other.number
        return abs(_celsius(one) - _celsius(other)) < _DEGREE
    if kinds == {"percent", ""} and (one.soft or other.soft):
        share = one if one.kind == "percent" else other
        return math.isclose(share.value / 100, (other if share is one else one).value)
    if kinds == {"per", "time"}:
        return math.isclose(one.value * other.value, 1.0)
    if "" in kinds or one.inherited or other.inherited:
        united = one if one.kind else other
        bare = other if united is one else one
        if united.is_frequency and bare.soft:
            return False
        loose = one.inherited or other.inherited or united.kind in _BARE_TOO or united.is_frequency
        loose = loose or united.kind in bare.understood
        return loose and math.isclose(one.number, other.number)
    return False


def _celsius(one: Quantity) -> float:
    return one.value if one.kind == "celsius" else (one.value - 32) / 1.8


def _swapped(before: list[Quantity], after: list[Quantity]) -> list[Finding]:
    """Numbers in names, ordinals and "a day": no fault when lost or added, but one when another took their place."""
    findings = []
    old, new = _Stated(before), _Stated(after)
    fresh = {q.group: q for q in reversed(_distinct(after)) if q.soft and q.group and not old.like(q)}
    for one in _distinct(before):
        other = fresh.get(one.group) if one.soft and one.group else None
        if other is not None and not new.like(one):
            fault = Fault.UNIT_CHANGED if one.is_frequency else Fault.NUMBER_LOST
            findings.append(Finding(fault, f"'{one.shown}' became '{other.shown}'"))
            del fresh[one.group]
    return findings


def _turned(before: list[Quantity], after: _Stated) -> list[Finding]:
    """Limits that became their opposite: "more than 5" and "less than 5"."""
    findings = []
    there = _Stated(before)
    for one in _distinct(q for q in before if q.bound):
        sides = {q.bound for q in after.like(one)}
        if sides == {-one.bound} and {q.bound for q in there.like(one)} == {one.bound}:
            words = ("less", "more") if one.bound < 0 else ("more", "less")
            findings.append(
                Finding(Fault.NUMBER_LOST, f"{words[0]} than '{one.shown}' became {words[1]} than '{one.shown}'")
            )
    return findings
