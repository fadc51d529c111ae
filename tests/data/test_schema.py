"""Columns: what the YAML says, what a row gives, and what a user is told when they differ."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.data.schema import check_row, parse_columns, without_lone_surrogates


def check(kind: str, value: object) -> tuple[object, list[str]]:
    row, problems = check_row({"c": value}, parse_columns({"c": kind}, "t"))
    return row["c"], problems


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("str", "µg ≥ β", "µg ≥ β"),
        ("str", "", ""),
        ("str?", None, ""),
        ("str?", float("nan"), ""),
        ("int", 3, 3),
        ("int", "3", 3),  # a CSV has only text
        ("int", 3.0, 3),  # pandas turns an int column with a null into float
        ("int 1..4", 4, 4),
        ("list[str]", ["a", "b"], ["a", "b"]),
        ("list[str]", '["a", "b"]', ["a", "b"]),
        ("list[str]", "['a', 'b']", ["a", "b"]),
        ("list[str] x4", list("abcd"), list("abcd")),
        ("yes|no|maybe", "maybe", "maybe"),
    ],
)
def test_accepted(kind: str, value: object, expected: object) -> None:
    assert check(kind, value) == (expected, [])


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("str", None, "null"),
        ("str", 5, "of type int"),
        ("int", "three", "of type str"),
        ("int", True, "of type bool"),
        ("int", 2.5, "of type float"),
        ("int 1..4", 5, "outside 1..4"),
        ("int 0..3", -1, "outside 0..3"),
        ("list[str]", "no list", "of type str"),
        ("list[str]", [1, 2], "of type list"),
        ("list[str] x4", ["a"], "with 1 entries"),
        ("yes|no|maybe", "Yes", "not one of them"),
    ],
)
def test_refused_and_said_why(kind: str, value: object, told: str) -> None:
    _, (problem,) = check(kind, value)
    assert "column 'c'" in problem
    assert f"expected {kind}" in problem
    assert told in problem


def test_missing_column_names_what_is_there() -> None:
    _, (problem,) = check_row({"Question": "?", "b": 1}, parse_columns({"question": "str"}, "t"))
    assert "column 'question' is missing" in problem
    assert "Question, b" in problem


def test_columns_inside_a_struct() -> None:
    columns = parse_columns({"context.contexts": "list[str]"}, "t")
    row, problems = check_row({"context": {"contexts": '["a"]', "labels": []}}, columns)
    assert (row, problems) == ({"context": {"contexts": ["a"], "labels": []}}, [])
    assert "is missing" in check_row({"context": None}, columns)[1][0]


def test_the_row_given_is_not_changed() -> None:
    given = {"context": {"contexts": '["a"]'}, "n": "1"}
    check_row(given, parse_columns({"context.contexts": "list[str]", "n": "int"}, "t"))
    assert given == {"context": {"contexts": '["a"]'}, "n": "1"}


def test_unknown_type_in_a_yaml() -> None:
    with pytest.raises(ValueError, match="task t, column c: unknown type 'float'"):
        parse_columns({"c": "float"}, "t")


def test_lone_surrogates_become_writable() -> None:
    cleaned = without_lone_surrogates({"a": ["x\ud83dy", {"b\udc00": "😀"}], "n": 1})
    assert cleaned == {"a": ["x\ufffdy", {"b\ufffd": "😀"}], "n": 1}
    str(cleaned).encode("utf-8")
