"""Templates of prompts: texts with named places, which are filled in one pass, whatever the material holds."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lm_eval_healthcare.judge.errors import JudgeError

_PLACE = re.compile(r"\{(\{?)([A-Za-z_][A-Za-z0-9_]{0,40})(\}?)\}")
_BLOCKS = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True)
class Template:
    """A text with named places.

    Attributes:
        source: The text as it was written.
        parts: Its literal pieces, each with the name of the place behind it; None behind the last.
    """

    source: str
    parts: tuple[tuple[str, str | None], ...]

    @property
    def literal(self) -> str:
        """The template without what its places are filled with."""
        return "".join(text for text, _ in self.parts)

    @property
    def names(self) -> frozenset[str]:
        """The names of its places."""
        return frozenset(name for _, name in self.parts if name is not None)

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with every place filled; braces in the values are text like any other."""
        return "".join(text + ("" if name is None else values[name]) for text, name in self.parts)


def from_braces(source: str, where: str, needed: Collection[str], optional: Collection[str] = ()) -> Template:
    """Read a template in which `{name}` is a place, `{{name}}` that word in braces, and any other brace a brace.

    Args:
        source: The text.
        where: How messages call it.
        needed: Names that must stand in it.
        optional: Names that may.

    Raises:
        JudgeError: If a needed name is missing or an unknown one stands in it.
    """
    parts: list[tuple[str, str | None]] = []
    literal, done = "", 0
    for place in _PLACE.finditer(source):
        literal += source[done : place.start()]
        done = place.end()
        if place[1] and place[3]:
            literal += "{" + place[2] + "}"
            continue
        parts.append((literal + place[1], place[2]))
        literal = place[3]
    template = Template(source, (*parts, (literal + source[done:], None)))
    _check(template, where, needed, optional)
    return template


def from_format(source: str, where: str, needed: Collection[str], renamed: Mapping[str, str]) -> Template:
    """Read a template that was written for `str.format`.

    Args:
        source: The text.
        where: How messages call it.
        needed: Names, as this package calls them, that must stand in it; no other may.
        renamed: This package's names by the template's.

    Raises:
        JudgeError: If it is no such template, a needed name is missing or an unknown one stands in it.
    """
    try:
        found = [(text, name, spec, way) for text, name, spec, way in string.Formatter().parse(source)]
    except ValueError as error:
        raise JudgeError(f"{where}: not a template: {error}") from error
    if any(spec or way for _, _, spec, way in found):
        raise JudgeError(f"{where}: has a place with a format; expected names alone, as {{rubric}}")
    parts = [(text, None if name is None else renamed.get(name, name)) for text, name, _, _ in found]
    template = Template(source, (*parts, ("", None)))
    _check(template, where, needed, ())
    return template


def without_block(source: str, name: str) -> str:
    """Return a template's text without the paragraph, between blank lines, that holds a place."""
    return "\n\n".join(block for block in _BLOCKS.split(source) if "{" + name + "}" not in block)


def _check(template: Template, where: str, needed: Collection[str], optional: Collection[str]) -> None:
    allowed = ", ".join("{" + name + "}" for name in (*needed, *optional))
    for name in sorted(template.names):
        if name not in needed and name not in optional:
            raise JudgeError(
                f"{where}: unknown place {{{name}}}; allowed: {allowed}. Double the braces if it is meant to be text."
            )
    for name in needed:
        if name not in template.names:
            raise JudgeError(f"{where}: has no place {{{name}}}; needed: {', '.join('{' + n + '}' for n in needed)}")
