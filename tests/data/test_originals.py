"""Original files into the pack's shape: every kind of table, every kind of fault."""

from __future__ import annotations

import csv
import datetime
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.data.files import DataError, sha256
from lm_eval_healthcare.data.folder import readable_splits
from lm_eval_healthcare.data.functions import named
from lm_eval_healthcare.data.manifest import read_manifest
from lm_eval_healthcare.data.originals import convert, kinds, prepare
from lm_eval_healthcare.data.schema import check_row, parse_columns
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.data.source import Source, load
from lm_eval_healthcare.sample import rows_path
from support import write_jsonl

FACTS = {task.facts.name: task.facts for task in every_task([tasks_path()])}
QUIZ = TaskFacts("quiz", "Quiz", columns=parse_columns({"question": "str", "cop": "int 1..4", "note": "str?"}, "quiz"))
HEADER = ["question", "cop", "note"]
WANTED = [
    {"question": 'He said "why?",\nthen left', "cop": 1, "note": ""},
    {"question": "Dose\u2028of 5?", "cop": 4, "note": "n"},
]


def facts_and_rows() -> list[tuple[str, TaskFacts, list[dict[str, Any]]]]:
    out = []
    for name, facts in FACTS.items():
        for file in sorted((rows_path() / facts.folder_name).glob("*.jsonl")):
            rows = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
            out.append((f"{name}-{file.stem}", facts, rows))
    return out


def csv_file(path: Path, rows: list[list[Any]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", encoding=encoding, newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    return path


def written(folder: Path, path: str = "quiz/test.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / path).read_text("utf-8").split("\n") if line]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "csv with a BOM"])
def test_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"source.{kind.split()[0]}"
    cells = [HEADER, *[[row[name] or None for name in HEADER] for row in WANTED]]
    if kind == "xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in cells:
            book.active.append(row)
        book.save(path)
    elif kind in ("jsonl", "json", "parquet"):
        rows = [dict(zip(HEADER, row, strict=True)) for row in cells[1:]]
        if kind == "jsonl":
            write_jsonl(path, rows)
        elif kind == "json":
            path.write_text(json.dumps({"data": rows}))
        else:
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        csv_file(path, cells, "\t" if kind == "tsv" else ",", "utf-8-sig" if "BOM" in kind else "utf-8")
    entry, found = prepare(QUIZ, [path], tmp_path / "to")
    assert (found.read, found.faulty, entry.rows) == (2, 0, 2)
    assert written(tmp_path / "to") == WANTED
    assert entry.origin == {"files": [{"name": path.name, "sha256": sha256(path), "bytes": path.stat().st_size}]}
    assert load(QUIZ, Source("folder", tmp_path / "to")).splits["test"] == WANTED


@pytest.mark.parametrize(("name", "facts", "rows"), [pytest.param(*c, id=c[0]) for c in facts_and_rows()])
def test_rows_in_the_packs_shape_stay_as_they_are(
    tmp_path: Path, name: str, facts: TaskFacts, rows: list[dict[str, Any]]
) -> None:
    """Whoever prepares a file that is in shape already gets the same documents as from the file itself."""
    file = write_jsonl(tmp_path / "source.jsonl", rows)
    entry, _ = prepare(facts, [file], tmp_path / "to")
    shape = named(facts.shape) if facts.shape else lambda row: [row]
    wanted = [check_row(part, facts.columns)[0] for row in rows for part in shape(row)]
    again = [check_row(part, facts.columns)[0] for row in written(tmp_path / "to", entry.path) for part in shape(row)]
    assert again == wanted


def test_original_xml_of_a_benchmark(tmp_path: Path) -> None:
    """The layout of the MEDIQA 2019 files, with an invented question."""
    file = tmp_path / "official.xml"
    answers = "".join(
        f'<Answer AID="1_{n}" SystemRank="{n}" ReferenceRank="{rank}" ReferenceScore="{score}">'
        f"<AnswerURL>https://example.org/{n}</AnswerURL><AnswerText>{text}</AnswerText></Answer>"
        for n, rank, score, text in ((1, 2, 2, "Rest &amp; wait."), (2, 1, 4, "See a doctor today."))
    )
    file.write_text(
        '<?xml version="1.0" encoding="UTF-8"?><MediqaQuestions><Question QID="1">'
        f"<QuestionText>My ear hurts since Monday?</QuestionText><AnswerList>{answers}</AnswerList>"
        "</Question></MediqaQuestions>"
    )
    entry, found = prepare(FACTS["mediqa_qa2019"], [file], tmp_path / "to")
    assert (found.read, entry.rows, entry.path) == (1, 1, "mediqa_qa2019/test.jsonl")
    data = load(FACTS["mediqa_qa2019"], Source("folder", tmp_path / "to"))
    assert data.splits["test"][0]["question"] == "My ear hurts since Monday?"


def test_several_files_in_the_given_order(tmp_path: Path) -> None:
    first = csv_file(tmp_path / "b.csv", [HEADER, ["one", 1, ""]])
    second = csv_file(tmp_path / "a.csv", [HEADER, ["two", 2, ""]])
    entry, _ = prepare(QUIZ, [first, second], tmp_path / "to", split="train")
    assert [row["question"] for row in written(tmp_path / "to", "quiz/train.jsonl")] == ["one", "two"]
    assert [file["name"] for file in entry.origin["files"]] == ["b.csv", "a.csv"]


def test_faulty_rows_are_listed_and_nothing_is_written(tmp_path: Path) -> None:
    lines = ["question,cop,note", "ok,1,", '"two\nlines",7,', "short,2", "ok,3,"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.jsonl").write_text(
        '{"question": "ok", "cop": 2, "note": null}\n\n{"question": \n["x"]\n{"cop": 1}\n'
    )
    files = [tmp_path / "a.csv", tmp_path / "b.jsonl"]
    with pytest.raises(DataError) as error:
        prepare(QUIZ, files, tmp_path / "to")
    text = str(error.value)
    assert "quiz: 5 of 8 rows cannot be used; nothing was written" in text
    assert "a.csv, line 3: column 'cop': expected int 1..4, got '7', outside 1..4" in text
    assert "a.csv, line 5: 2 cells where the first line names 3 columns" in text
    assert "b.jsonl, line 3: not valid JSON" in text
    assert "b.jsonl, line 4: expected an object, got list" in text
    assert "b.jsonl, line 5: column 'question' is missing" in text
    assert "--skip-faulty" in text
    assert not (tmp_path / "to").exists()
    entry, found = prepare(QUIZ, files, tmp_path / "to", skip_faulty=True)
    assert (entry.rows, entry.skipped, found.faulty, found.read) == (3, 5, 5, 8)
    assert [row["question"] for row in written(tmp_path / "to")] == ["ok", "ok", "ok"]


def test_very_many_faults_are_not_all_listed(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"question": "q", "cop": 0, "note": ""}] * 1000)
    with pytest.raises(DataError, match=r"\.\.\. and 980 more"):
        prepare(QUIZ, [file], tmp_path / "to")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "no row that can be used"),
        ("a.csv", "question,cop,note\n", "no row that can be used"),
        ("a.jsonl", "\n\n", "no row that can be used"),
        ("a.csv", "question,cop,cop\nx,1,2\n", "each once; more than one is called 'cop'"),
        ("a.csv", 'question,cop,note\n"never closed,1,\n', "not readable as CSV"),
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[1]", "expected an object"),
        ("a.parquet", "no parquet", "not readable as Parquet"),
        ("a.xlsx", "no spreadsheet", "not readable as an .xlsx spreadsheet"),
        ("a.pdf", "%PDF", "expected one of csv, tsv, jsonl, xlsx, json, parquet"),
        ("a.csv", b"question,cop,note\ncaf\xe9,1,\n", "not UTF-8 at byte 21"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as error:
        prepare(QUIZ, [tmp_path / name], tmp_path / "to")
    assert message in str(error.value)
    assert not (tmp_path / "to").exists()


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        prepare(QUIZ, [tmp_path / "none.csv"], tmp_path / "to")
    with pytest.raises(DataError, match="a folder, not a file"):
        prepare(QUIZ, [tmp_path], tmp_path / "to")
    with pytest.raises(DataError, match=r"--split \.\./test: quiz reads the splits test, train, dev, validation;"):
        prepare(QUIZ, [tmp_path], tmp_path / "to", split="../test")


def test_a_tsv_whose_quotes_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('question\tcop\tnote\n"5\' tall?\t1\t\n6" wide\t2\tx\n')
    prepare(QUIZ, [tmp_path / "a.tsv"], tmp_path / "to")
    assert [row["question"] for row in written(tmp_path / "to")] == ["\"5' tall?", '6" wide']


def test_what_spreadsheets_make_of_texts(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_sheet("Second")
    page = book["Second"]
    page.append([])
    page.append(["question", None, "cop", "note"])
    page.append([5, "ignored", 1.0, 2.5])
    page.append([None, None, None, None])
    page.append(["=1+1", None, "3", datetime.datetime(2024, 5, 1)])
    page.append(["x" * 32_000, None, 4])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="has the sheets Sheet, Second"):
        prepare(QUIZ, [tmp_path / "a.xlsx"], tmp_path / "to", sheet="Third")
    with pytest.raises(DataError, match=r"sheet Second, row 5: column 'question'.*null"):
        prepare(QUIZ, [tmp_path / "a.xlsx"], tmp_path / "to", sheet="Second")  # a formula that was never computed
    prepare(QUIZ, [tmp_path / "a.xlsx"], tmp_path / "to", sheet="Second", skip_faulty=True)
    assert written(tmp_path / "to") == [
        {"question": "5", "cop": 1, "note": "2.5"},
        {"question": "x" * 32_000, "cop": 4, "note": ""},
    ]


def test_a_spreadsheet_cut_short(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for number in range(300):
        book.active.append([f"question {number}", number])
    book.save(tmp_path / "whole.xlsx")
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(tmp_path / "cut.xlsx", "w") as cut:
        for name in whole.namelist():
            content = whole.read(name)
            cut.writestr(name, content[: len(content) // 2] if "sheet1" in name else content)
    with pytest.raises(DataError, match=r"not readable as an \.xlsx spreadsheet"):
        prepare(QUIZ, [tmp_path / "cut.xlsx"], tmp_path / "to")


def test_without_openpyxl_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.xlsx").write_text("")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"pip install 'lm_eval_healthcare\[data\]'"):
        prepare(QUIZ, [tmp_path / "a.xlsx"], tmp_path / "to")


def test_another_file_of_the_split_stops_it(tmp_path: Path) -> None:
    file = csv_file(tmp_path / "a.csv", [HEADER, ["one", 1, ""]])
    to = tmp_path / "to"
    prepare(QUIZ, [file], to)
    prepare(QUIZ, [file], to)  # again is no mistake
    (to / "quiz" / "train.csv").write_text("question,cop,note\nx,1,\n")
    with pytest.raises(DataError, match=r"train\.csv is there already.*nothing was written"):
        prepare(QUIZ, [file], to, split="train")
    assert set((read_manifest(to) or pytest.fail("no manifest")).entries) == {"quiz/test.jsonl"}


def test_a_long_cell(tmp_path: Path) -> None:
    file = csv_file(tmp_path / "a.csv", [HEADER, ["x" * 1_000_000, 1, ""]])
    prepare(QUIZ, [file], tmp_path / "to")
    assert len(written(tmp_path / "to")[0]["question"]) == 1_000_000


def test_kinds_of_files(tmp_path: Path) -> None:
    assert kinds(QUIZ) == ("csv", "tsv", "jsonl", "xlsx", "json", "parquet")
    assert kinds(FACTS["mediqa_qa2019"])[0] == "xml"
    assert convert(QUIZ, []).rows == []


def test_only_splits_that_the_task_reads_are_written(tmp_path: Path) -> None:
    file = csv_file(tmp_path / "a.csv", [["dialogue", "section_text", "section_header"], ["x", "y", "CC"]])
    told = (
        r"--split bogus: mts_dialog reads the splits test1, test2, test, harness, train, validation; name one of them"
    )
    with pytest.raises(DataError, match=told):
        prepare(FACTS["mts_dialog"], [file], tmp_path / "to", split="bogus")
    assert not (tmp_path / "to").exists()
    for split in ("test2", "train"):
        prepare(FACTS["mts_dialog"], [file], tmp_path / "to", split=split)
    data = load(FACTS["mts_dialog"], Source("folder", tmp_path / "to"))
    assert (len(data.splits["test"]), data.fewshot_split) == (1, "train")
    for facts in FACTS.values():
        assert {facts.eval_split, facts.flat_split, *facts.fewshot_splits} <= set(readable_splits(facts)), facts.name
