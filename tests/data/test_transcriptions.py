"""Transcriptions: one question a note, any of its specialties right."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load
from lm_eval_healthcare.data.transcriptions import SPECIALTIES, documents
from support import write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.kind == "task"}
NOTES = FACTS["med_transcriptions"]


def rows(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"medical_specialty": specialty, "transcription": text} for specialty, text in pairs]


SOME = rows(
    (" Urology", "CYSTOSCOPY:, Normal bladder."),
    (" Surgery", "HERNIA:, Mesh placed."),
    (" Consult - History and Phy.", "CYSTOSCOPY:,  Normal bladder. "),
    (" Gastroenterology", "HERNIA:, Mesh placed."),
    (" Letters", "Dear colleague."),
    (" General Medicine", "HERNIA:, Mesh\nplaced."),
)


def test_one_question_a_text_with_all_its_specialties() -> None:
    found = {d["transcription"]: d for d in documents({"train": SOME}, {}).splits["test"]}
    assert len(found) == 3
    # Of texts equal up to white space, the smallest in the order of characters is shown.
    cystoscopy = found["CYSTOSCOPY:,  Normal bladder. "]
    assert cystoscopy["specialties"] == ["Consult - History and Phy.", "Urology"]
    assert [SPECIALTIES[place] for place in cystoscopy["targets"]] == cystoscopy["specialties"]
    assert [d["specialty_count"] for d in found.values()] == ["2", "3 or more", "1"]
    assert all(d["choices"] == list(SPECIALTIES) for d in found.values())


def test_the_forty_names() -> None:
    assert len(set(SPECIALTIES)) == 40
    assert list(SPECIALTIES) == sorted(SPECIALTIES)
    assert all(name == name.strip() for name in SPECIALTIES)


def test_order_of_rows_does_not_matter() -> None:
    def by_text(part: list[dict[str, Any]]) -> dict[str, Any]:
        return {d["transcription"]: d for d in documents({"train": part}, {}).splits["test"]}

    assert by_text(SOME) == by_text(SOME[::-1]) == by_text(SOME[3:] + SOME[:3])


def test_what_is_left_out_is_counted_and_named() -> None:
    bad = rows((" Urology", ""), (" Urology", " \n "), (" Astrology", "Stars."), (" Astrology", "Dear colleague."))
    prepared = documents({"train": [*SOME, *bad]}, {})
    assert len(prepared.splits["test"]) == 3  # the letter keeps the specialty that is known
    assert prepared.left_out == Counter({"null_transcription": 2, "unknown_specialty": 2})
    assert prepared.warnings == [
        "med_transcriptions: 2 rows have a specialty that is not one of the 40 and are left out: "
        "'Astrology' (row 9, 10)"
    ]


@pytest.mark.parametrize("name", ["med_transcriptions", "med_text_classification_hard"])
def test_csv_as_on_the_hub(tmp_path: Path, name: str) -> None:
    header = ["", "description", "medical_specialty", "sample_name", "transcription", "keywords"]
    with (tmp_path / "med_transcriptions.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for number, row in enumerate([*SOME, {"medical_specialty": " Urology", "transcription": None}]):
            writer.writerow([number, "d", row["medical_specialty"], "s", row["transcription"], None])
    data = load(FACTS[name], Source("folder", tmp_path))
    assert (data.eval_split, data.fewshot_split) == ("test", None)
    assert data.splits["test"] == documents({"train": SOME}, {}).splits["test"]
    assert data.left_out == Counter({"null_transcription": 1})


def test_local_test_and_train(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "med_transcriptions" / "test.jsonl", SOME[:2])
    write_jsonl(tmp_path / "med_transcriptions" / "train.jsonl", SOME[4:5])
    data = load(NOTES, Source("folder", tmp_path))
    assert (data.eval_split, data.fewshot_split) == ("test", "train")
    assert [d["specialties"] for d in data.splits["train"]] == [["Letters"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"transcription": "x"}, "row 1: column 'medical_specialty' is missing"),
        ({"medical_specialty": " Urology"}, "row 1: column 'transcription' is missing"),
        ({"medical_specialty": None, "transcription": "x"}, "row 1: column 'medical_specialty'.*null"),
    ],
)
def test_columns_that_are_missing_are_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write_jsonl(tmp_path / "med_transcriptions.jsonl", [row])
    with pytest.raises(DataError, match=message):
        load(NOTES, Source("folder", tmp_path))


def test_real_rows(shared_rows: Path) -> None:
    """All forty names occur; one right answer a row could reach distinct texts / rows at most."""
    lines = (shared_rows / "medical_transcriptions.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert {row["medical_specialty"] for row in found} == {f" {name}" for name in SPECIALTIES}
    prepared = documents({"train": found}, {})
    assert not prepared.left_out
    questions = prepared.splits["test"]
    assert len(questions) == len({row["transcription"] for row in found})
    assert sum(len(d["targets"]) for d in questions) == len(found)  # no row stands twice
    # The published counts: 4,999 rows, 33 without a text, 2,357 distinct texts.
    assert NOTES.rows["test"] / (4999 - 33) == pytest.approx(0.475, abs=5e-4)
