"""Taking few-shot examples out of the scored rows, for benchmarks that have no other split.

A question that is shown as an example is never scored, whatever its answers. Which ones are taken depends on their
content alone, so the choice is the same for every order of rows, on every machine.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

HOLDOUT = "holdout"


def hold_out(
    rows: Sequence[dict[str, Any]], n: int, key: Callable[[dict[str, Any]], str] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Divide rows into those that stay and those that are held out.

    Args:
        rows: The rows of the scored split.
        n: How many distinct questions to hold out: those whose key has the smallest SHA-256.
        key: What a row asks, see `question_key`; the whole row if None. Rows of one key stay together, so that nothing
            that is shown is also scored.

    Returns:
        The rows that stay and the rows held out, both in their old order.

    Raises:
        ValueError: If no row would be left to score.
    """
    keys = [hashlib.sha256((key or _text)(row).encode()).hexdigest() for row in rows]
    distinct = sorted(set(keys))
    if not 0 < n < len(distinct):
        raise ValueError(
            f"fewshot_holdout={n}: there are {len(distinct)} distinct rows (those that ask the same count once); give "
            "a number from 1 below that"
        )
    taken = set(distinct[:n])
    stay = [row for row, found in zip(rows, keys, strict=True) if found not in taken]
    return stay, [row for row, found in zip(rows, keys, strict=True) if found in taken]


def question_key(row: Mapping[str, Any], facts: TaskFacts) -> str:
    """Return what a row asks, as a text: rows with equal keys ask the same, up to white space and the order of options.

    Args:
        row: A document of the task.
        facts: Names the columns of the question, see `question_columns`. A row that has none of them, and every row of
            a task whose question a function makes, is its own question.
    """
    columns = question_columns(facts)
    values = [_plain(_value(row, column)) for column in columns if column.partition(".")[0] in row]
    return json.dumps(sorted(map(_text, values))) if values else _text(_plain(row))


def question_columns(facts: TaskFacts) -> tuple[str, ...]:
    """Return the columns that make up a question: those that `doc_to_text` names, else those of the harness's template.

    A dot reaches into a struct.
    """
    own = _named(facts.doc_to_text) if facts.doc_to_text else ()
    return own or tuple((facts.harness_template or {}).get("fields", ()))


@functools.lru_cache(maxsize=512)
def _named(template: str) -> tuple[str, ...]:
    """The variables of a template, in order; a text without any is a column's name."""
    if "{{" not in template and "{%" not in template:
        return (template,)
    import jinja2.meta

    try:
        tree = jinja2.Environment().parse(template)
    except jinja2.TemplateSyntaxError:
        return ()
    given = jinja2.meta.find_undeclared_variables(tree)
    return tuple(dict.fromkeys(path for path in _paths(tree) if path.partition(".")[0] in given))


def _paths(node: Any) -> Iterable[str]:
    """Names such as `context.contexts`, outermost first; what is called or indexed ends a name."""
    import jinja2.nodes

    path, here = "", node
    while isinstance(here, jinja2.nodes.Getattr):
        path, here = f".{here.attr}{path}", here.node
    if isinstance(here, jinja2.nodes.Name):
        yield here.name + path
        return
    for child in node.iter_child_nodes():
        yield from _paths(child)


def _value(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path; a part that is no field, such as the `strip` of `question.strip()`, is passed over."""
    first, *parts = path.split(".")
    value = row[first]
    for part in parts:
        value = value[part] if isinstance(value, dict) and part in value else value
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = sorted(map(_text, value))
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
