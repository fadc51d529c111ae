"""References from the text that the harness makes of a target."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval_healthcare.results.references import references

TWO = {"question": "Q?", "answers": ["fever", "it's a 'cough'"], "note": "None of these"}


@pytest.mark.parametrize(
    ("target", "doc", "column", "expected"),
    [
        ("fever", {"a": "fever"}, None, "fever"),
        # Several references, which the harness writes as the text of a list.
        (str(TWO["answers"]), TWO, None, TWO["answers"]),
        (str(TWO["answers"]), TWO, "answers", TWO["answers"]),
        (str([" fever", None, ""]), TWO, None, [" fever", ""]),
        # Lists whose items the document does not know are texts.
        ("['fever', 'chills']", TWO, None, "['fever', 'chills']"),
        ("[1, 2]", TWO, None, "[1, 2]"),
        ("[see note]", TWO, None, "[see note]"),
        ("[" * 300 + "]" * 300, TWO, None, "[" * 300 + "]" * 300),
        # A document whose text looks like a list.
        ("['fever']", {"a": "['fever']", "b": "fever"}, None, "['fever']"),
        # No reference, and an answer that says `None`.
        ("None", TWO, None, None),
        ("None", {"answer": None, "other": "None"}, "answer", None),
        ("None", {"answer": "None"}, None, "None"),
        ("None", {"answer": "None"}, "answer", "None"),
        ("[]", TWO, None, []),
        (None, TWO, None, None),
        (float("nan"), TWO, None, None),
        (7, TWO, None, "7"),
        (["a", None, "b"], TWO, None, ["a", "b"]),  # another program's rows
        ("", TWO, None, ""),
        # A column of another name than the text's: the text counts.
        ("fever", {"answer": "cough"}, "answer", "fever"),
        ("['x']", {"deep": [{"list": ["x"]}]}, None, ["x"]),
        ("None", None, "answer", None),
    ],
)
def test_references(target: Any, doc: Any, column: str | None, expected: Any) -> None:
    assert references({"target": target, "doc": doc}, column) == expected


def test_a_row_without_target() -> None:
    assert references({"doc": TWO}) is None
