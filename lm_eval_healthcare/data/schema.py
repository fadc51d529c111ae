"""What a row must hold: column types written in the task's YAML, checked and coerced before a model is loaded.

A type is written as `str`, `int`, `list[str]`, `list` (of anything), a range such as `int 1..4`, a fixed length such as
`list[str] x4`, or the allowed values such as `yes|no|maybe`; a trailing `?` allows null. A dot in a column's name
reaches into a struct.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPE = re.compile(r"^(?P<kind>str|int|list\[str\]|list)(?: (?P<low>-?\d+)\.\.(?P<high>-?\d+))?(?: x(?P<length>\d+))?$")
_SURROGATE = re.compile("[\ud800-\udfff]")
MISSING = object()


@dataclass(frozen=True)
class Column:
    """The type of one column; `text` is how the YAML wrote it."""

    text: str
    kind: str
    optional: bool = False
    low: int | None = None
    high: int | None = None
    length: int | None = None
    values: tuple[str, ...] = ()


def parse_columns(columns: Mapping[str, str], task: str) -> dict[str, Column]:
    """Parse the `columns:` of a task's YAML.

    Raises:
        ValueError: If a type is not written in the grammar above.
    """
    return {name: _parse_column(str(text), f"task {task}, column {name}") for name, text in columns.items()}


def _parse_column(text: str, where: str) -> Column:
    body = text.removesuffix("?")
    optional = body != text
    if "|" in body:
        return Column(text, "str", optional, values=tuple(body.split("|")))
    match = _TYPE.match(body)
    if match is None:
        raise ValueError(
            f"{where}: unknown type {text!r}; allowed: str, int, int 1..4, list, list[str], list[str] x4, a|b|c, "
            "each with ?"
        )
    number = {key: int(value) for key, value in match.groupdict().items() if key != "kind" and value is not None}
    return Column(text, match["kind"], optional, number.get("low"), number.get("high"), number.get("length"))


def check_row(
    row: Mapping[str, Any], columns: Mapping[str, Column], quote: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Check one row and bring its declared columns to their types.

    Args:
        row: A row as it was read; columns that are not declared pass through.
        columns: The declared columns.
        quote: Whether messages may quote what a cell holds.

    Returns:
        The row with coerced values (text such as "3" from a CSV becomes 3, null in an optional text column becomes ""),
        and one message for each column that is missing or of the wrong type.
    """
    out, problems = _with_structs(dict(row), columns), []
    for name, column in columns.items():
        value = field_at(out, name)
        if value is MISSING:
            problems.append(f"column '{name}' is missing (found: {', '.join(map(str, row)) or 'none'})")
            continue
        coerced, problem = _coerce(value, column)
        if problem:
            problems.append(f"column '{name}': expected {column.text}, got {_show(value, quote)}{problem}")
        else:
            _set(out, name, coerced)
    return out, problems


def _with_structs(row: dict[str, Any], columns: Mapping[str, Column]) -> dict[str, Any]:
    """Rebuild structs that a CSV can only hold flat (a column `context.contexts`) or as JSON (a cell of `context`)."""
    for name in columns:
        parent, _, child = name.partition(".")
        if not child:
            continue
        if name in row and parent not in row:
            row[parent] = {child: row.pop(name)}
        elif isinstance(row.get(parent), str):
            parsed = parse_literal(row[parent])
            row[parent] = parsed if isinstance(parsed, dict) else row[parent]
    return row


def without_lone_surrogates(value: Any) -> Any:
    """Return `value` with every lone surrogate in its texts replaced by U+FFFD; they cannot be written as UTF-8."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_lone_surrogates(key): without_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_lone_surrogates(item) for item in value]
    return value


def _coerce(value: Any, column: Column) -> tuple[Any, str]:
    if value is None or (isinstance(value, float) and value != value):
        if column.optional:
            return ("" if column.kind == "str" and not column.values else None), ""
        return None, " (null is not allowed here)"
    if column.kind == "int":
        return _coerce_int(value, column)
    if column.kind in ("list", "list[str]"):
        return _coerce_list(value, column)
    if not isinstance(value, str):
        return None, f" of type {type(value).__name__}"
    if column.values and value not in column.values:
        return None, ", which is not one of them"
    return value, ""


def _coerce_int(value: Any, column: Column) -> tuple[Any, str]:
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            return None, " of type str"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None, f" of type {type(value).__name__}"
    if column.low is not None and column.high is not None and not column.low <= value <= column.high:
        return None, f", outside {column.low}..{column.high}"
    return value, ""


def _coerce_list(value: Any, column: Column) -> tuple[Any, str]:
    if isinstance(value, str):
        value = parse_literal(value)
    wrong = (
        column.kind == "list[str]" and isinstance(value, list | tuple) and any(not isinstance(i, str) for i in value)
    )
    if not isinstance(value, list | tuple) or wrong:
        return None, f" of type {type(value).__name__}"
    if column.length is not None and len(value) != column.length:
        return None, f" with {len(value)} entries"
    return list(value), ""


def parse_literal(text: str) -> Any:
    """Return what a cell writes out as JSON or as a Python literal, which is how a CSV can hold a list or a struct.

    Returns:
        The text itself if it is neither.
    """
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return text


def field_at(row: Mapping[str, Any], name: str) -> Any:
    """Return what a row holds under a name, whose dots reach into structs; `MISSING` if there is no such field."""
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return MISSING
        value = value[part]
    return value


def _set(row: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = name.split(".")
    for part in parents:
        row[part] = dict(row[part])
        row = row[part]
    row[last] = value


def _show(value: Any, quote: bool) -> str:
    if not quote:
        return "null" if value is None else type(value).__name__
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
