"""A number that a clinical text states, with its unit, and how each kind of them is made."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

from lm_eval_healthcare.studies.rewording.number_words import plain
from lm_eval_healthcare.studies.rewording.quantity_tokens import Token


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a text states.

    Attributes:
        number: As it is written.
        value: In the smallest unit of its kind; times a second or a month for a frequency.
        kind: Of what it is a measure, such as `mass` or `mass/volume`; `per` and `per_months` for frequencies, empty
            without a unit.
        shown: The words of the text.
        unit: The unit as written; empty without one.
        soft: Whether the text may do without it: "one" as a pronoun, "both", numbers in names.
        inherited: Whether the unit is that of a number further on, as in "5 or 10 mg".
        group: Soft numbers that can take each other's place.
        name: Letters of the name that the number belongs to, such as `b` for B12.
        bound: 1 after "more than", -1 after "less than", otherwise 0.
        understood: Kinds whose unit the words around a number without one make plain: an age, "day 3".
    """

    number: float
    value: float
    kind: str
    shown: str
    unit: str = ""
    soft: bool = False
    inherited: bool = False
    group: str = ""
    name: str = ""
    bound: int = 0
    understood: frozenset[str] = frozenset()

    @property
    def is_frequency(self) -> bool:
        """Whether it says how often something is done."""
        return self.kind in ("per", "per_months")


def united(number: float, kind: str, factor: float, shown: str, unit: str) -> Quantity:
    """A number with a unit that is `factor` times the smallest of its kind."""
    return Quantity(number, number * factor, kind, shown, unit=unit)


def frequency(number: float, value: float, kind: str, shown: str, soft: bool = False) -> Quantity:
    """How often something is done: `value` times a second or a month, written with `number`."""
    name = "per" if kind == "time" else "per_months"
    soft = soft or (number == 1 and math.isclose(value * 86400, 1) and kind == "time")  # "24 hourly" is "daily"
    return Quantity(number, value, name, shown, unit=name, soft=soft, group="every" if soft else "")


def named(number: float | None, token: Token, letters: str) -> Quantity:
    """A number in a name such as CD4: its letters stand before it."""
    value = number if number is not None else 0.0
    name = plain(letters)
    return Quantity(value, value, "name", f"{letters}{token.text}", soft=True, group=f"name {name}", name=name)


def code(raw: str) -> float:
    """A number of its own for what is equal only if written the same."""
    return zlib.crc32(raw.replace(",", "").encode("utf-8", "replace")) + 0.5
