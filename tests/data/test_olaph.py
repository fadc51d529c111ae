"""OLAPH: all five sources are scored, and every row knows its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import olaph
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

(FACTS,) = (facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name == "olaph")


def row(text: str = "Can I drink coffee?", **changes: Any) -> dict[str, Any]:
    return {
        "Question": text,
        "Free_form_answer": "In moderation.",
        "Must_have": ["Coffee holds caffeine."],
        "Nice_to_have": [],
        **changes,
    }


def shaped(one: dict[str, Any]) -> dict[str, Any]:
    (only,) = olaph.question(one)
    return only


def test_statements_are_kept_and_blanks_tolerated() -> None:
    assert shaped(row()) == {**row(), "source": ""}
    for blank in (None, "", [], [None, " "]):
        assert shaped(row(Must_have=blank))["Must_have"] == []
    without = {key: value for key, value in row().items() if key != "Nice_to_have"}
    assert shaped(without)["Nice_to_have"] == []
    assert shaped(row(Must_have='["a", "b"]'))["Must_have"] == ["a", "b"]
    assert shaped(row(Must_have=" ['x', \"y's\", None]"))["Must_have"] == ["x", "y's"], "as Python writes a list"
    assert shaped(row(Must_have="one statement [sic]"))["Must_have"] == ["one statement [sic]"]


@pytest.mark.parametrize("blank", [None, "", " "])
def test_a_blank_answer_is_a_blank_reference(blank: str | None) -> None:
    assert shaped(row(Free_form_answer=blank))["Free_form_answer"].strip() == ""


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ({"Free_form_answer": "x"}, r"'Question': expected text, got None \(found: Free_form_answer\)"),
        (row(text=" "), "'Question': expected text"),
        ({"Question": "x"}, r"'Free_form_answer' is missing \(found: Question\)"),
        (row(Free_form_answer=3), "'Free_form_answer': expected text, got int"),
        (row(Must_have=3), "'Must_have': expected a list of statements, got 3"),
        (row(Must_have="["), r"'Must_have': begins as a list, but is none in JSON or Python: '\['"),
        (row(Must_have="['x', 'y"), "'Must_have': begins as a list"),
        (row(Must_have="[1, 2]"), "'Must_have': expected a list of statements"),
        (row(Nice_to_have=[1]), "'Nice_to_have': expected a list of statements"),
        (row(source=2), "'source': expected text, got int"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(one: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        olaph.question(one)


def split_rows(*names: str) -> dict[str, list[dict[str, Any]]]:
    return {name: [shaped(row(f"{name} {n}?")) for n in range(2)] for name in names}


def test_every_source_is_scored_and_named() -> None:
    made = olaph.documents(split_rows(*olaph.SOURCES), {"source": "all"}).splits["test"]
    assert [d["source"] for d in made] == [name for name in olaph.SOURCES for _ in range(2)]
    assert all(d["Question"].startswith(d["source"]) for d in made)


def test_one_source_can_be_chosen() -> None:
    made = olaph.documents(split_rows(*olaph.SOURCES), {"source": "live_qa"}).splits["test"]
    assert [d["Question"] for d in made] == ["live_qa 0?", "live_qa 1?"]


def test_a_single_file_has_the_source_of_its_column_or_none() -> None:
    rows = [shaped(row()), shaped(row(source="live_qa"))]
    assert [d["source"] for d in olaph.documents({"test": rows}, {}).splits["test"]] == ["unknown", "live_qa"]
    assert len(olaph.documents({"test": rows}, {"source": "live_qa"}).splits["test"]) == 1


def test_a_source_that_is_not_there_is_asked_for() -> None:
    with pytest.raises(DataError, match=r"source=kqa_golden has no rows here \(found: live_qa\).*source=all"):
        olaph.documents(split_rows("live_qa"), {"source": "kqa_golden"})


def test_examples_are_apart() -> None:
    made = olaph.documents(split_rows("live_qa", "train"), {}).splits
    assert {name: len(rows) for name, rows in made.items()} == {"test": 2, "train": 2}


def test_the_hubs_five_files(hub_copy: Path) -> None:
    for name in olaph.SOURCES:
        blank = row(f"{name} 1?", Free_form_answer="")
        write_jsonl(hub_copy / "dmis-lab" / "MedLFQA" / f"{name}_test_MedLFQA.jsonl", [row(f"{name} 0?"), blank])
    data = load(FACTS, parse_source("hub"))
    documents = data.splits["test"]
    assert [d["source"] for d in documents] == [name for name in olaph.SOURCES for _ in range(2)]
    assert documents[0]["Must_have"] == ["Coffee holds caffeine."]
    assert documents[1]["Free_form_answer"] == ""
    assert data.fewshot_split is None


def test_a_hub_file_without_a_column_is_told(hub_copy: Path) -> None:
    for name in olaph.SOURCES:
        write_jsonl(hub_copy / "dmis-lab" / "MedLFQA" / f"{name}_test_MedLFQA.jsonl", [{"Question": "x"}])
    with pytest.raises(DataError, match="row 1: column 'Free_form_answer' is missing"):
        load(FACTS, parse_source("hub"))


@pytest.mark.parametrize("name", ["{}.jsonl", "{}_test_MedLFQA.jsonl"])
def test_one_file_a_source_in_a_folder(tmp_path: Path, name: str) -> None:
    for source in ("kqa_golden", "live_qa"):
        write_jsonl(tmp_path / "olaph" / name.format(source), [row(f"{source}?", Sources="x")])
    documents = load(FACTS, Source("folder", tmp_path)).splits["test"]
    assert [(d["source"], d["Question"]) for d in documents] == [("kqa_golden", "kqa_golden?"), ("live_qa", "live_qa?")]


def test_a_folder_names_file_and_row_of_a_fault(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "olaph.jsonl", [row(), row(Must_have={"a": 1})])
    with pytest.raises(DataError, match=r"olaph\.jsonl, row 2: column 'Must_have'"):
        load(FACTS, Source("folder", tmp_path))


def test_real_rows_keep_their_statements(shared_rows: Path) -> None:
    lines = (shared_rows / "olaph.jsonl").read_text("utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    documents = olaph.documents({"test": [shaped(one) for one in rows]}, {}).splits["test"]
    assert [d["Must_have"] for d in documents] == [one["Must_have"] for one in rows]
    assert {d["source"] for d in documents} == {"unknown"}
