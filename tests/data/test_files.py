"""Local files of every kind: what is read, and where a fault is."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare.data.files import DataError, read_rows

ROWS = [
    {"question": 'Dose of "X", 5–10 µg?\nSecond line', "answer": "≥ 5 µg; β-blocker", "cop": 1},
    {"question": "Line separator \u2028 and \u0085 inside", "answer": "100% {sure}", "cop": 2},
]


def test_every_kind_gives_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in ROWS), "utf-8")
    (tmp_path / "a.json").write_text(json.dumps(ROWS), "utf-8")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["question", "answer", "cop"])
        writer.writeheader()
        writer.writerows(ROWS)
    for kind in ("jsonl", "json", "parquet"):
        assert read_rows(tmp_path / f"a.{kind}") == ROWS
    assert read_rows(tmp_path / "a.csv") == [{**row, "cop": str(row["cop"])} for row in ROWS]


def test_json_lines_in_a_json_file_and_a_wrapped_array(tmp_path: Path) -> None:
    lines = tmp_path / "a.json"
    lines.write_text("\n".join(json.dumps(row) for row in ROWS), "utf-8")
    assert read_rows(lines) == ROWS
    lines.write_text(json.dumps({"version": "1", "data": ROWS}), "utf-8")
    assert read_rows(lines) == ROWS


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(row).encode() for row in ROWS) + b"\r\n\r\n")
    assert read_rows(path) == ROWS
    table = tmp_path / "a.csv"
    table.write_bytes("\ufeffquestion,answer\r\nq,\r\n".encode())
    assert read_rows(table) == [{"question": "q", "answer": None}]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"a\.jsonl, line 2: not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', r"a\.jsonl, line 2: expected an object.*list"),
        ("a.jsonl", b'{"a": "\xff"}\n', r"a\.jsonl: not UTF-8 at byte 7"),
        ("a.json", b'{"a": ', r"a\.json: not valid JSON"),
        ("a.json", b'[{"a": 1}, 2]', r"a\.json, row 2: expected an object"),
        ("a.json", b"[" * 100_000, r"a\.json: not valid JSON"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", r"a\.csv, line 3: 3 cells where the header has 2"),
        ("a.csv", b'a,b\n1,"open\n', r"a\.csv, line \d: not readable as CSV"),
        (
            "a.csv",
            b"a,b,a,c,c\n1,2,3,4,5\n",
            r"a\.csv: the first line must name .* once; more than one is called 'a', 'c'",
        ),
        ("a.parquet", b"not parquet", r"a\.parquet: not readable as Parquet"),
        ("a.xlsx", b"", r"a\.xlsx: unknown kind of file; expected one of jsonl, json, csv, parquet"),
    ],
)
def test_faults_are_placed(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_rows(tmp_path / name)


def test_all_faults_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n" * 30)
    with pytest.raises(DataError) as caught:
        read_rows(tmp_path / "a.jsonl")
    assert "line 1:" in str(caught.value)
    assert "line 10:" in str(caught.value)
    assert "and 20 more" in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_rows(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="no such file"):
        read_rows(tmp_path / "none.parquet")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_rows(tmp_path / "folder.json")
