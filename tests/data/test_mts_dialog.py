"""MTS-Dialog: which rows are scored, which are examples, and how a section is named."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import mts_dialog
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.fetch import fetch
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source

(FACTS,) = (facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name == "mts_dialog")
COLUMNS = ("ID", "section_header", "section_text", "dialogue")


def row(number: int, header: str | None = "GENHX", text: str | None = "He coughs.") -> dict[str, Any]:
    dialogue = f"Doctor: What is it?\nPatient: Cough, number {number}."
    return {"ID": number, "section_header": header, "section_text": text, "dialogue": dialogue}


def write_csv(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...] = COLUMNS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


TEST1, TEST2, TRAIN, HARNESS, OWN = ([row(10 * k), row(10 * k + 1, "CC")] for k in range(5))
OFFICIAL = {"test1": TEST1, "test2": TEST2, "train": TRAIN}


def scored(splits: dict[str, Any], **options: str) -> list[tuple[str, str]]:
    made = mts_dialog.documents(splits, options).splits["test"]
    return [(d["subset"], d["dialogue"].split("number ")[1]) for d in made]


@pytest.mark.parametrize(
    ("splits", "subset", "wanted"),
    [
        (OFFICIAL, "auto", [("test1", "0."), ("test1", "1."), ("test2", "10."), ("test2", "11.")]),
        (OFFICIAL, "official", [("test1", "0."), ("test1", "1."), ("test2", "10."), ("test2", "11.")]),
        (OFFICIAL, "test2", [("test2", "10."), ("test2", "11.")]),
        ({**OFFICIAL, "harness": HARNESS}, "harness", [("harness", "30."), ("harness", "31.")]),
        ({"harness": HARNESS}, "auto", [("harness", "30."), ("harness", "31.")]),
        ({"harness": HARNESS, "train": TRAIN}, "harness", [("harness", "30."), ("harness", "31.")]),
        ({"test": OWN, "train": TRAIN}, "auto", [("own", "40."), ("own", "41.")]),
    ],
)
def test_the_rows_that_are_scored(splits: dict[str, Any], subset: str, wanted: list[tuple[str, str]]) -> None:
    assert scored(splits, subset=subset) == wanted


@pytest.mark.parametrize(
    ("splits", "subset"),
    [
        ({"harness": HARNESS}, "official"),
        ({"harness": HARNESS}, "test1"),
        (OFFICIAL, "harness"),
        ({"test": OWN}, "test2"),
        ({"train": TRAIN}, "auto"),
        ({"train": TRAIN}, "harness"),
    ],
)
def test_rows_that_are_not_there_are_asked_for(splits: dict[str, Any], subset: str) -> None:
    with pytest.raises(DataError, match=rf"subset={subset} needs rows that are not there.*test1.csv.*data=hub"):
        mts_dialog.documents(splits, {"subset": subset})


def test_examples_are_never_the_scored_dialogues_with_another_reference() -> None:
    assert list(mts_dialog.documents(OFFICIAL, {}).splits) == ["test", "train"]
    assert list(mts_dialog.documents({**OFFICIAL, "harness": HARNESS}, {"subset": "harness"}).splits) == ["test"]
    assert list(mts_dialog.documents({"harness": HARNESS, "train": TRAIN}, {}).splits) == ["test"]


def test_a_single_official_set_is_told() -> None:
    assert "test2 alone" in mts_dialog.documents({"test2": TEST2}, {}).warnings[0]
    assert mts_dialog.documents({"test2": TEST2}, {"subset": "test2"}).warnings == []


def test_the_section_is_named_only_if_asked_for() -> None:
    for options, wanted in (({}, ["", ""]), ({"section": "named"}, ["history of present illness", "chief complaint"])):
        made = mts_dialog.documents(OFFICIAL, options)
        prompts = [d["section_prompt"] for d in made.splits["test"]][:2]
        assert prompts == [f"Section of the note: {name}\n" if name else "" for name in wanted]
        assert [bool(d["section_prompt"]) for d in made.splits["train"]] == [bool(wanted[0])] * 2


def test_a_row_without_a_header_names_none() -> None:
    made = mts_dialog.documents({"test1": [row(1, "")], "test2": TEST2}, {"section": "named"})
    assert made.splits["test"][0]["section_prompt"] == ""
    assert "1 of 3 rows have no section header" in made.warnings[0]


def test_the_twenty_headers_of_the_corpus_are_spelled_out() -> None:
    """The list of the corpus's README."""
    headers = (
        "fam/sochx genhx pastmedicalhx cc pastsurgical allergy ros medications assessment exam diagnosis disposition "
        "plan edcourse immunizations imaging gynhx procedures other_history labs"
    )
    assert set(headers.upper().split()) == set(mts_dialog.SECTIONS)
    assert mts_dialog.section_name(" genhx ") == "history of present illness"
    assert mts_dialog.section_name("Next_Steps") == "next steps"


def test_only_official_rows_are_broken_down_by_section() -> None:
    assert mts_dialog.documents(OFFICIAL, {}).splits["test"][1]["section_header"] == "CC"
    assert "section_header" not in mts_dialog.documents({"harness": HARNESS, "train": TRAIN}, {}).splits["test"][0]


def test_original_files_in_a_folder(tmp_path: Path) -> None:
    for name, rows in OFFICIAL.items():
        write_csv(tmp_path / "mts_dialog" / f"{name}.csv", rows)
    data = load(FACTS, Source("folder", tmp_path))
    assert [d["subset"] for d in data.splits["test"]] == ["test1"] * 2 + ["test2"] * 2
    assert (data.eval_split, data.fewshot_split, len(data.splits["train"])) == ("test", "train", 2)


def test_the_hubs_two_files_are_one_split(hub_copy: Path) -> None:
    folder = hub_copy / "har1" / "MTS_Dialogue-Clinical_Note"
    blocks = "Symptoms: cough\nDiagnosis: N/A\nHistory of Patient: N/A\nPlan of Action: N/A"
    write_csv(folder / "MTS-Dialog-TrainingSet (SDHP).csv", [row(1, text=blocks), row(2, text=None)])
    write_csv(folder / "MTS-Dialog-Validation Set (SDHP).csv", [row(1, text=blocks)])
    data = load(FACTS, parse_source("hub"))
    assert Counter(d["section_text"] for d in data.splits["test"]) == {blocks: 2, "": 1}
    assert {d["subset"] for d in data.splits["test"]} == {"harness"}
    assert data.fewshot_split is None


def test_fetched_rows_stay_the_harnesss_beside_official_files(hub_copy: Path, tmp_path: Path) -> None:
    write_csv(hub_copy / "har1" / "MTS_Dialogue-Clinical_Note" / "train.csv", HARNESS)
    to = tmp_path / "to"
    (found,) = fetch([FACTS], to)
    assert (found.state, found.rows) == ("fetched", {"harness": 2})
    assert fetch([FACTS], to)[0].state == "already there"
    from_hub = load(FACTS, parse_source("hub"))
    assert load(FACTS, Source("folder", to)).splits == from_hub.splits
    for name in ("test1", "test2"):
        write_csv(to / "mts_dialog" / f"{name}.csv", OFFICIAL[name])
    official = load(FACTS, Source("folder", to))
    assert {d["subset"] for d in official.splits["test"]} == {"test1", "test2"}
    assert official.fewshot_split is None, "rewritten rows are no examples for original ones"
    assert load(FACTS, Source("folder", to), options={"subset": "harness"}).splits == from_hub.splits


def test_rows_that_were_fetched_under_the_hubs_name_are_fetched_anew(hub_copy: Path, tmp_path: Path) -> None:
    write_csv(hub_copy / "har1" / "MTS_Dialogue-Clinical_Note" / "train.csv", HARNESS)
    to = tmp_path / "to"
    fetch([replace(FACTS, hub_splits={})], to)
    assert [p.name for p in (to / "mts_dialog").iterdir()] == ["train.jsonl"]
    assert fetch([FACTS], to)[0].state == "fetched"
    assert [p.name for p in (to / "mts_dialog").iterdir()] == ["harness.jsonl"]


def test_a_missing_column_is_named(hub_copy: Path, tmp_path: Path) -> None:
    folder = hub_copy / "har1" / "MTS_Dialogue-Clinical_Note"
    write_csv(folder / "MTS-Dialog-TrainingSet (SDHP).csv", [row(1)], ("ID", "section_header", "dialogue"))
    with pytest.raises(DataError, match=r"row 1: column 'section_text' is missing"):
        load(FACTS, parse_source("hub"))
    write_csv(tmp_path / "mts_dialog" / "test1.csv", [row(1), {**row(2), "dialogue": None}])
    with pytest.raises(DataError, match=r"test1.csv, row 2: column 'dialogue': expected str, got None"):
        load(FACTS, Source("folder", tmp_path))


def test_real_rows_have_headers_of_the_corpus(shared_rows: Path) -> None:
    lines = (shared_rows / "mts_dialog.jsonl").read_text("utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    made = mts_dialog.documents({"test1": rows}, {"section": "named"})
    assert len(made.splits["test"]) == len(rows)
    assert {d["section_header"] for d in made.splits["test"]} <= set(mts_dialog.SECTIONS)
