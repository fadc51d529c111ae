"""MedDialog: the doctor's turn is found by speaker, the patient's part by label, in every layout of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import meddialog
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name.startswith("meddialog")}
RAW, QSUMM = FACTS["meddialog_raw_dialogues"], FACTS["meddialog_qsumm"]
P, D = "patient", "doctor"


def consultation(*turns: tuple[Any, str], description: str | None = "Cough for a week.") -> dict[str, Any]:
    return {
        "description": description,
        "utterances": {"speaker": [s for s, _ in turns], "utterance": [u for _, u in turns]},
    }


def prepared(*rows: dict[str, Any]) -> Any:
    return meddialog.raw_documents({"test": [one for row in rows for one in meddialog.dialogue(row)]}, {})


def document(*turns: tuple[Any, str], **kwargs: Any) -> dict[str, Any]:
    (only,) = prepared(consultation(*turns, **kwargs)).splits["test"]
    return only


@pytest.mark.parametrize(
    "row",
    [
        consultation((P, "I cough."), (D, "Since when?")),
        consultation((0, "I cough."), (1, "Since when?")),
        consultation((0.0, "I cough."), (1.0, "Since when?")),
        consultation(("Patient:", "I cough."), ("DOCTOR", " Since when? ")),
        {
            "description": "Cough for a week.",
            "utterances": [{"speaker": 0, "utterance": "I cough."}, {"speaker": "doctor", "utterance": "Since when?"}],
        },
        {"description": "Cough for a week.", "utterances": ["patient: I cough.", "doctor: Since when?"]},
        {
            "description": "Cough for a week.",
            "dialogue_turns": {"speaker": [0, 1], "utterance": ["I cough.", "Since when?"]},
        },
    ],
    ids=[
        "names",
        "class labels",
        "labels as floats",
        "other spellings",
        "list of structs",
        "list of texts",
        "dialogue_turns",
    ],
)
def test_every_layout_gives_the_same_document(row: dict[str, Any]) -> None:
    assert prepared(row).splits["test"] == [
        {
            "description": "Cough for a week.",
            "patient": "I cough.",
            "question": "Cough for a week.\nI cough.",
            "answer": "Since when?",
        }
    ]


def test_the_doctor_is_found_by_speaker_not_by_position() -> None:
    """The second turn is the patient's here."""
    made = document((P, "I cough."), (P, "And I sweat."), (D, "Rest."), (D, "Drink."), (P, "Thanks."), (D, "Bye."))
    assert (made["patient"], made["answer"]) == ("I cough.\nAnd I sweat.", "Rest.\nDrink.")


def test_a_greeting_doctor_is_passed_over() -> None:
    made = document((D, "Hello, how can I help?"), (P, "I cough."), (D, "Since when?"))
    assert (made["patient"], made["answer"]) == ("I cough.", "Since when?")


def test_a_doctor_who_speaks_only_first_answers_the_description() -> None:
    made = document((D, "Drink a lot."), (P, "Thank you."))
    assert (made["patient"], made["question"], made["answer"]) == ("", "Cough for a week.", "Drink a lot.")


def test_blank_turns_are_no_turns() -> None:
    made = document((P, "I cough."), (D, " "), (P, "Badly."), (D, "Rest."))
    assert (made["patient"], made["answer"]) == ("I cough.\nBadly.", "Rest.")


@pytest.mark.parametrize("description", [None, "", "  "])
def test_a_blank_description_is_replaced_by_what_the_patient_says(description: str | None) -> None:
    made = document((P, "I cough."), (D, "Rest."), description=description)
    assert (made["description"], made["question"]) == ("I cough.", "I cough.")


def test_a_description_that_the_patient_repeats_is_said_once() -> None:
    made = document((P, "Hello, cough for a  week. What now?"), (D, "Rest."))
    assert made["question"] == "Hello, cough for a  week. What now?"


def test_what_cannot_be_asked_is_counted() -> None:
    made = prepared(
        consultation((P, "I cough.")),
        consultation((P, "I cough."), (D, "  ")),
        consultation(),
        consultation((D, "Rest."), description=""),
        consultation((P, "I cough."), (D, "Rest.")),
    )
    assert len(made.splits["test"]) == 1
    assert made.left_out == {"no_doctor_turn": 3, "no_question": 1}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"description": "x"}, "'utterances' is missing or null"),
        ({"description": "x", "utterances": None}, "'utterances' is missing or null"),
        (consultation(("nurse", "x")), "speaker 'nurse': expected patient or doctor"),
        (consultation((2, "x")), "speaker 2"),
        ({"utterances": ["no label"]}, "speaker 'no label'"),
        ({"utterances": {"speaker": [0], "utterance": []}}, "of one length"),
        ({"utterances": [3]}, "structs or texts, got int"),
        ({"utterances": 3}, "expected a list of turns"),
        ({"utterances": [{"speaker": 0, "utterance": 4}]}, "utterance as text, got int"),
        ({"description": 5, "utterances": []}, "'description': expected text"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(row: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        meddialog.dialogue(row)


# Local files

TEXT = """id=1
https://example.org/consultations/1
Description
Dry cough for four days, no fever.

Dialogue
Patient:
Hello, I have a dry cough.
My description: it is worst at night.
Doctor:
Hello.

Drink warm fluids.
Patient:
Thank you.

id=2
https://example.org/consultations/2
Description
Can I visit my mother?

Dialogue
Doctor: Yes, with a mask.

id=3
https://example.org/consultations/3
Description
No dialogue came of it.
"""


def test_an_original_text_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "meddialog_raw_dialogues.txt").write_text(TEXT, encoding="utf-8")
    data = load(RAW, Source("folder", tmp_path))
    assert data.left_out == {"no_doctor_turn": 1}
    first, second = data.splits["test"]
    assert first["description"] == "Dry cough for four days, no fever."
    assert first["patient"] == "Hello, I have a dry cough.\nMy description: it is worst at night."
    assert first["answer"] == "Hello.\n\nDrink warm fluids."
    assert (second["question"], second["answer"]) == ("Can I visit my mother?", "Yes, with a mask.")
    assert meddialog.read_text(tmp_path / "meddialog_raw_dialogues.txt")[0]["url"].endswith("/1")


def test_a_text_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("Description\nx\n")
    with pytest.raises(DataError, match="no consultation in it; each begins with a line 'id=NUMBER'"):
        meddialog.read_text(path)
    path.write_bytes(b"id=1\n\xff")
    with pytest.raises(DataError, match="not UTF-8 at byte 5"):
        meddialog.read_text(path)
    with pytest.raises(DataError, match="no such file"):
        meddialog.read_text(tmp_path / "absent.txt")


def test_the_original_json_file_and_examples_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "meddialog_raw_dialogues"
    folder.mkdir()
    rows = [{"description": "a", "utterances": ["patient: x: y", "doctor: z"]}]
    (folder / "test.json").write_text(json.dumps(rows))
    (folder / "train.json").write_text(json.dumps(rows))
    data = load(RAW, Source("folder", tmp_path))
    assert data.splits["test"] == [{"description": "a", "patient": "x: y", "question": "a\nx: y", "answer": "z"}]
    assert data.fewshot_split == "train"


def test_there_is_no_hub_to_load_it_from() -> None:
    with pytest.raises(DataError, match="meddialog_raw_dialogues"):
        load(RAW, parse_source("hub"))


# Summaries


@pytest.mark.parametrize(
    ("text", "patient"),
    [
        ("Patient: I cough. Doctor: Rest.", "I cough."),
        ("Patient: I cough.\nDoctor: Rest.\nPatient: Thanks.", "I cough."),
        ("Doctor: Hello. Patient: I cough. Doctor: Rest.", "I cough."),
        ("Patient: Hello Doctor: I cough. Thank you Doctor: Rest.", "Hello Doctor: I cough. Thank you"),
        ("Patient: The ward's Doctor said: wait. Doctor: Rest.", "The ward's Doctor said: wait."),
        ("Patient : I cough", "I cough"),
        ("patient: i cough\ndoctor: rest", "i cough"),
        ("I cough. Doctor: Rest.", "I cough."),
        ("Patient: I cough. Patient: Badly. Doctor: Rest.", "I cough.\nBadly."),
        ("I cough and my doctor: he says nothing.", None),
        ("Doctor: Rest.", None),
        ("", None),
        ("Doctor: hi Patient: I am ill. Doctor: ok Patient: more", "I am ill."),
        ("Patient: Hello Doctor: I cough. Doctor: Dear friend, rest.", "Hello Doctor: I cough."),
    ],
)
def test_the_patients_part(text: str, patient: str | None) -> None:
    assert meddialog.patient_part(text) == patient


def test_the_whole_dialogue_is_the_default() -> None:
    rows = [{"src": "Patient: I cough. Doctor: Rest.", "tgt": "What helps?", "id": 3}, {"src": "I cough", "tgt": ""}]
    whole = meddialog.qsumm_documents({"test": rows}, {"dialogue": "whole"})
    assert [d["src"] for d in whole.splits["test"]] == [r["src"] for r in rows]
    patient = meddialog.qsumm_documents({"test": rows, "train": rows}, {"dialogue": "patient"})
    assert [d["src"] for d in patient.splits["test"]] == ["I cough.", "I cough"]
    assert patient.warnings == ["1 of 2 consultations do not say who speaks; their whole text is used"]
    assert [d["tgt"] for d in patient.splits["train"]] == ["What helps?", ""]


def hub_files(root: Path, rows: list[dict[str, Any]]) -> None:
    """Parquet files and configurations, as the hub's set has them."""
    folder = root / "lighteval" / "med_dialog"
    (folder / "icliniq").mkdir(parents=True)
    names = ("train", "validation", "test")
    for name in names:
        datasets.Dataset.from_list(rows).to_parquet(folder / "icliniq" / f"{name}-00000-of-00001.parquet")
    files = "".join(f"  - split: {name}\n    path: icliniq/{name}-*\n" for name in names)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: icliniq\n  data_files:\n{files}---\n")


def test_the_hubs_parquet_files(hub_copy: Path) -> None:
    rows = [{"tgt": "What helps?", "src": "Patient: I cough. Doctor: Rest.", "id": n} for n in range(3)]
    hub_files(hub_copy, [*rows, {"tgt": None, "src": "Patient: I sneeze.", "id": 3}])
    data = load(QSUMM, parse_source("hub"), options={"dialogue": "patient"})
    assert [(d["src"], d["tgt"]) for d in data.splits["test"]] == [("I cough.", "What helps?")] * 3 + [
        ("I sneeze.", "")
    ]
    assert data.fewshot_split == "train"


def test_a_missing_column_and_a_null_are_named(hub_copy: Path, tmp_path: Path) -> None:
    hub_files(hub_copy, [{"target": "What helps?", "src": "Patient: I cough."}])
    with pytest.raises(DataError, match=r"split test, row 1: column 'tgt' is missing \(found: target, src\)"):
        load(QSUMM, parse_source("hub"))
    write_jsonl(tmp_path / "meddialog_qsumm.jsonl", [{"src": None, "tgt": "x"}, {"src": 4, "tgt": "x"}])
    with pytest.raises(DataError, match=r"row 1: column 'src': expected str, got None(.|\n)*row 2: .* of type int"):
        load(QSUMM, Source("folder", tmp_path))
