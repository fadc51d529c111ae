"""The references of a row, from the text that the harness made of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any


def references(row: Mapping[str, Any], column: str | None = None) -> str | list[str] | None:
    """Return the reference of a row, a list where several are equally good, or None if it has none.

    The harness writes `str(target)`: a list of references becomes the text of a Python list, a missing one becomes
    `None`. Where the target is a column of the document, the document says what it was. Otherwise a text is turned back
    into a list only if all items are texts of the document, and `None` is a text only if the document holds it.

    Args:
        row: A row of a sample file.
        column: The task's `doc_to_target`, which may name a column.
    """
    target, doc = row.get("target"), row.get("doc")
    if column is not None and isinstance(doc, dict) and column in doc and target == str(doc[column]):
        target = doc[column]
        return target if isinstance(target, str) else _as_references(target)
    if not isinstance(target, str):
        return _as_references(target)
    if not (target == "None" or (target.startswith("[") and target.endswith("]"))):
        return target
    texts = set(_texts(doc))
    if target.strip() in texts:
        return target
    items = None if target == "None" else _parsed(target)
    if target == "None" or (items is not None and all(_known(item, texts) for item in items)):
        return _as_references(items)
    return target


def _as_references(target: Any) -> str | list[str] | None:
    if isinstance(target, list):
        return [str(text) for text in target if text is not None]
    return None if target is None or target != target else str(target)


def _known(item: Any, texts: set[str]) -> bool:
    return item is None or (isinstance(item, str) and (not item.strip() or item.strip() in texts))


def _parsed(text: str) -> list[Any] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a document, however deep, blanks around it taken off."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
