"""ACI-Bench: three test sets in one, and notes divided by their headings."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import aci_bench
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.fetch import fetch
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

(FACTS,) = (facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name == "aci_bench")
CORPORA = ("aci", "virtassist", "virtscribe")

SUBJECTIVE = "CHIEF COMPLAINT\n\nCough.\n\nMEDICATIONS\n\nNone.\n\nREVIEW OF SYSTEMS\n\n• Respiratory: Cough."
EXAM = "PHYSICAL EXAM\n\n• Lungs: Clear."
RESULTS = "RESULTS\n\nX-ray of the chest is normal."
PLAN = "ASSESSMENT AND PLAN\n\nViral cough.\n\nINSTRUCTIONS\n\nDrink warm fluids."
NOTE = "\n\n".join([SUBJECTIVE, EXAM, RESULTS, PLAN])
DIVIDED = dict(zip(aci_bench.DIVISIONS, [SUBJECTIVE, EXAM, RESULTS, PLAN], strict=True))


def row(number: int, note: str | None = NOTE, dataset: str = "aci") -> dict[str, Any]:
    dialogue = f"[doctor] hi , what is it ?\n[patient] visit {number} ."
    return {"dataset": dataset, "encounter_id": f"E{number}", "dialogue": dialogue, "note": note}


def test_the_three_test_sets_are_one_split_with_their_names() -> None:
    splits = {"test1": [row(1)], "test2": [row(2)], "test3": [row(3)], "train": [row(4)], "valid": [row(5)]}
    made = aci_bench.documents(splits, {"note": "full"})
    assert [(d["subset"], d["encounter_id"]) for d in made.splits["test"]] == [
        ("test1", "E1"), ("test2", "E2"), ("test3", "E3"),
    ]  # fmt: skip
    assert made.splits["test"][0]["note"] == NOTE
    assert made.splits["test"][0]["request"] == "Clinical note"
    assert "section" not in made.splits["test"][0]
    assert [made.splits[name][0]["encounter_id"] for name in ("train", "valid")] == ["E4", "E5"]


def test_the_kind_of_visit_is_kept_only_if_every_row_has_it() -> None:
    assert aci_bench.documents({"test1": [row(1)]}, {}).splits["test"][0]["dataset"] == "aci"
    without = {key: value for key, value in row(2).items() if key != "dataset"}
    assert "dataset" not in aci_bench.documents({"test1": [row(1), without]}, {}).splits["test"][0]


def test_a_note_is_divided_into_four() -> None:
    assert aci_bench.divide(NOTE) == DIVIDED
    assert aci_bench.divide(NOTE.replace("\n", "\r\n")) == DIVIDED


def test_divisions_are_put_together_from_wherever_their_headings_stand() -> None:
    note = "HPI:\nCough.\nVITALS\n37.1 °C\nASSESSMENT\nCold.\nPHYSICAL EXAMINATION\nClear.\nPLAN\nTea."
    assert aci_bench.divide(note) == {
        "subjective": "HPI:\nCough.",
        "objective_exam": "VITALS\n37.1 °C\nPHYSICAL EXAMINATION\nClear.",
        "assessment_and_plan": "ASSESSMENT\nCold.\nPLAN\nTea.",
    }


def test_what_stands_before_the_first_heading_belongs_to_it() -> None:
    assert aci_bench.divide("Mr. Z.\nEXAM\nClear.") == {"objective_exam": "Mr. Z.\nEXAM\nClear."}


@pytest.mark.parametrize("note", ["", "He coughs.\nTea.", "Results were normal"])
def test_a_note_without_headings_has_no_divisions(note: str) -> None:
    assert aci_bench.divide(note) == {}


@pytest.mark.parametrize(
    ("line", "division"),
    [
        ("CHIEF COMPLAINT", "subjective"),
        ("  Review of Systems: ", "subjective"),
        ("HPI:", "subjective"),
        ("EXAM: Lungs clear.", "objective_exam"),
        ("VITALS REVIEWED", "objective_exam"),
        ("RESULTS", "objective_results"),
        ("ASSESSMENT & PLAN", "assessment_and_plan"),
        ("Impression:", "assessment_and_plan"),
        ("Results", None),
        ("Plan: tea.", None),
        ("• Respiratory: Cough.", None),
        ("MSK:", None),
        ("2. COPD.", None),
        ("The exam is normal.", None),
        ("", None),
    ],
)
def test_headings(line: str, division: str | None) -> None:
    assert aci_bench.division_of(line) == division


def test_within_a_plan_only_capitals_begin_another_division() -> None:
    assert aci_bench.divide("PLAN\nImaging:\nX-ray.") == {"assessment_and_plan": "PLAN\nImaging:\nX-ray."}
    assert aci_bench.divide("PLAN\nTea.\nIMAGING\nNone.")["objective_results"] == "IMAGING\nNone."


def test_one_document_a_division() -> None:
    splits = {"test1": [row(1), row(2, "No heading."), row(3, None or "")], "train": [row(4, "EXAM\nClear.")]}
    made = aci_bench.documents(splits, {"note": "sections"})
    assert [(d["section"], d["note"]) for d in made.splits["test"]] == list(DIVIDED.items())
    assert len({d["request"] for d in made.splits["test"]}) == 4
    assert made.left_out == {"note_without_headings": 2}
    assert [d["section"] for d in made.splits["train"]] == ["objective_exam"]


# Where rows come from


def write_hub(root: Path) -> None:
    """Three configurations of five files, one row each; no column names the configuration."""
    for number, config in enumerate(CORPORA):
        folder = root / "mkieffer" / "ACI-Bench" / config
        folder.mkdir(parents=True)
        for split in ("test1", "test2", "test3", "train", "valid"):
            rows = [{key: value for key, value in row(number).items() if key != "dataset"}]
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{split}.parquet")


def test_the_hubs_three_configurations_are_read_together(hub_copy: Path) -> None:
    write_hub(hub_copy)
    data = load(FACTS, parse_source("hub"))
    assert [d["subset"] for d in data.splits["test"]] == ["test1"] * 3 + ["test2"] * 3 + ["test3"] * 3
    assert [(d["dataset"], d["encounter_id"]) for d in data.splits["test"]] == [
        ("aci", "E0"), ("virtassist", "E1"), ("virtscribe", "E2"),
    ] * 3  # fmt: skip
    assert data.fewshot_split == "train"
    assert [d["dataset"] for d in data.splits["train"]] == list(CORPORA)
    assert len(data.splits["valid"]) == 3


def test_fetched_rows_are_the_hubs(hub_copy: Path, tmp_path: Path) -> None:
    write_hub(hub_copy)
    (found,) = fetch([FACTS], tmp_path / "to")
    assert (found.state, len(found.rows)) == ("fetched", 15)
    assert found.rows["virtscribe_test3"] == 1
    assert load(FACTS, Source("folder", tmp_path / "to")).splits == load(FACTS, parse_source("hub")).splits
    write_jsonl(tmp_path / "to" / "aci_bench" / "test1.jsonl", [row(1)])
    with pytest.raises(DataError, match="rows of aci_test1, virtassist_test1, virtscribe_test1 are also in test1;"):
        load(FACTS, Source("folder", tmp_path / "to"))


def test_a_faulty_example_of_one_corpus_is_left_out(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "aci_bench" / "aci_test1.jsonl", [row(1)])
    write_jsonl(tmp_path / "aci_bench" / "aci_train.jsonl", [row(2), {"dialogue": 3, "note": "y"}])
    data = load(FACTS, Source("folder", tmp_path))
    assert (len(data.splits["test"]), len(data.splits["train"]), dict(data.left_out)) == (1, 1, {})
    assert any("aci_train.jsonl, row 2" in warning for warning in data.warnings)


def test_original_csv_files_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "aci_bench"
    folder.mkdir()
    for name, number in (("test1", 1), ("test2", 2), ("valid", 3)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, row(1))
            writer.writeheader()
            writer.writerow(row(number))
    data = load(FACTS, Source("folder", tmp_path))
    assert [(d["subset"], d["dataset"], d["note"]) for d in data.splits["test"]] == [
        ("test1", "aci", NOTE),
        ("test2", "aci", NOTE),
    ]
    assert data.fewshot_split == "valid"


def test_a_flat_file_is_scored_as_it_is(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "aci_bench.jsonl", [row(1), row(2, None)])
    data = load(FACTS, Source("folder", tmp_path))
    assert [(d["subset"], d["note"]) for d in data.splits["test"]] == [("own", NOTE), ("own", "")]


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "aci_bench.jsonl", [{"dialogue": "x"}, {"dialogue": 3, "note": "y"}])
    with pytest.raises(DataError, match=r"row 1: column 'note' is missing(.|\n)*row 2: .*expected str, got 3"):
        load(FACTS, Source("folder", tmp_path))


@pytest.mark.parametrize("name", ["aci_bench", "aci_bench_valid"])
def test_real_notes_are_divided_without_losing_a_character(shared_rows: Path, name: str) -> None:
    lines = (shared_rows / f"{name}.jsonl").read_text("utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    for one in rows:
        parts = aci_bench.divide(one["note"])
        assert {"subjective", "assessment_and_plan"} <= set(parts), one["encounter_id"]
        assert sorted("".join("".join(parts.values()).split())) == sorted("".join(one["note"].split()))
    assert aci_bench.counts(rows)["objective_exam"] > 0.9 * len(rows)
