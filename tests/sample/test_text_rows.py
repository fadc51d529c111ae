"""Sample rows of prescriptions, texts to classify and relations; and that measured values everywhere are possible."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sample_layouts import FILES, normal, rows, rows_of, sentences, texts

RELATIONS = {
    *("Association", "Positive_Correlation", "Negative_Correlation", "Bind", "Cotreatment", "Comparison"),
    *("Drug_Interaction", "Conversion"),
}
# What each medicine is for, from any formulary: a word of the complaint that it fits.
INDICATIONS = {
    "Paracetamol": "fever|pain",
    "Cetirizine": "runny nose",
    "Metformin": "type 2 diabetes",
    "Sitagliptin": "type 2 diabetes",
    "Omeprazole": "regurgitation",
    "Sodium Alginate": "regurgitation",
    "Amlodipine": "hypertension",
    "Telmisartan": "hypertension",
    "Nitrofurantoin": "cystitis",
    "Oral Rehydration Salts": "loose watery stools",
    "Zinc": "loose watery stools",
    "Sumatriptan": "migraine",
    "Propranolol": "migraine",
    "Levothyroxine": "hypothyroidism",
    "Budesonide": "asthma",
    "Montelukast": "asthma",
    "Ferrous Sulphate": "iron deficiency",
    "Clotrimazole": "athlete's foot",
    "Colchicine": "gout",
}
NOTES = ("mediqa_qa2019", "meddialog", "mts_dialog", "aci_bench", "olaph", "mimic", "med_", "biored")


def harness_specialties() -> list[str]:
    """The specialties among which the harness's own task chooses, read from its file without importing it."""
    spec = importlib.util.find_spec("lm_eval")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(next(iter(spec.submodule_search_locations)), "tasks/med_text_classification/utils.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == "doc_to_choice_hard":
            return next(ast.literal_eval(part) for part in ast.walk(node) if isinstance(part, ast.List))
    raise AssertionError(f"{path} has no list of specialties")


# --- Prescriptions


def complaint_and_medicines(found: dict[str, Any]) -> tuple[str, list[dict[str, str]]]:
    if "Symptoms/Complaints" in found:
        return ", ".join(found["Symptoms/Complaints"]), found["Medicines Prescribed"]
    if "procedure" in found:
        return found["procedure"]["chief_complaints_diagnosis"], found["medicine_details"]
    return found["prescription_details"]["disease_diagnosis"], found["medicine_details"]


def test_prescriptions_have_three_shapes() -> None:
    found = [ast.literal_eval(row["results"]) for row in rows("med_prescriptions/train")]
    assert Counter(next(iter(row)) for row in found) == {
        "procedure": 4,
        "prescription_details": 4,
        "Symptoms/Complaints": 4,
    }
    keys = Counter(tuple(medicine) for row in found for medicine in complaint_and_medicines(row)[1])
    assert keys == {
        ("medicine_name", "medicine_frequency", "course_duration"): 12,
        ("Name", "Duration", "Dosage"): 4,
        ("Name", "Duration"): 2,
        ("Name", "Dosage"): 2,
    }


def test_medicines_fit_their_complaint() -> None:
    prescribed: set[str] = set()
    for row in rows("med_prescriptions/train"):
        complaint, medicines = complaint_and_medicines(ast.literal_eval(row["results"]))
        for medicine in medicines:
            name = next(iter(medicine.values()))
            (drug,) = [drug for drug in INDICATIONS if drug in name]
            assert re.search(INDICATIONS[drug], complaint.lower()), f"{name}: {complaint}"
            assert re.match(r"(Tab|Syp|Cap|Cream|Inhaler|Oral Rehydration Salts) ", name)
            prescribed.add(drug)
    assert prescribed == set(INDICATIONS)
    assert len(prescribed) >= 14


# --- Medical texts and transcriptions


def test_classes_of_medical_texts_are_balanced() -> None:
    for split, each in (("test", 2), ("train", 1)):
        labels = Counter(row["condition_label"] for row in rows(f"med_text_classification_easy/{split}"))
        assert labels == dict.fromkeys(range(1, 6), each)


def test_transcriptions_have_a_null_and_a_text_with_two_specialties() -> None:
    found = rows("med_transcriptions/train")
    written = [row["transcription"] for row in found if row["transcription"] is not None]
    assert len(found) - len(written) == 1
    assert len(set(written)) == 12
    ((shared, times),) = [(text, n) for text, n in Counter(written).items() if n > 1]
    assert times == 2
    assert {row["medical_specialty"] for row in found if row["transcription"] == shared} == {" Surgery", " Orthopedic"}
    assert len({row["medical_specialty"] for row in found}) == 14


def test_specialties_are_those_of_the_harness() -> None:
    specialties = harness_specialties()
    assert len(specialties) == 40
    assert {row["medical_specialty"] for row in rows("med_transcriptions/train")} < set(specialties)


# --- BioRED


def test_biored_offsets_match_the_text() -> None:
    for row in rows_of("biored"):
        title, abstract = row["passages"]
        assert (title["type"], abstract["type"]) == ("title", "abstract")
        text = f"{title['text'][0]} {abstract['text'][0]}"
        assert 60 <= len(text.split()) <= 100
        for passage in row["passages"]:
            ((start, end),) = passage["offsets"]
            assert text[start:end] == passage["text"][0]
        for entity in row["entities"]:
            assert list(entity) == ["text", "offsets", "concept_id", "semantic_type_id"]
            ((start, end),) = entity["offsets"]
            assert text[start:end] == entity["text"][0]
        spans = [entity["offsets"][0] for entity in row["entities"]]
        assert all(a[1] <= b[0] for a, b in pairwise(spans)), "in order and apart"


def test_biored_relations_join_two_concepts_named_in_one_sentence() -> None:
    for row in rows_of("biored"):
        names: dict[str, set[str]] = {}
        kinds: dict[str, set[str]] = {}
        for entity in row["entities"]:
            names.setdefault(entity["concept_id"], set()).add(normal(entity["text"][0]))
            kinds.setdefault(entity["concept_id"], set()).add(entity["semantic_type_id"])
        assert all(len(kind) == 1 for kind in kinds.values())
        assert 3 <= len(row["relations"]) <= 5
        pairs = {frozenset((relation["concept_1"], relation["concept_2"])) for relation in row["relations"]}
        assert len(pairs) == len(row["relations"])
        parts = [part for passage in row["passages"] for part in sentences(passage["text"][0])]
        for relation in row["relations"]:
            assert list(relation) == ["novel", "type", "concept_1", "concept_2"]
            one, two = (names[relation[key]] for key in ("concept_1", "concept_2"))
            assert any(any(a in part for a in one) and any(b in part for b in two) for part in parts), relation
            assert relation["novel"] in ("Novel", "No")


def test_biored_test_has_all_eight_relations() -> None:
    found = [relation for row in rows("biored/test") for relation in row["relations"]]
    assert {relation["type"] for relation in found} == RELATIONS
    assert {relation["novel"] for relation in found} == {"Novel", "No"}
    assert {relation["type"] for row in rows("biored/train") for relation in row["relations"]} < RELATIONS


# --- Measured values that a living patient can have


@pytest.mark.parametrize(("pattern", "low", "high"), [
    (r"(\d+(?:\.\d+)?) °C", 27, 42.5),
    (r"pH (?:of |was )?(\d\.\d+)", 6.8, 7.7),
    (r"[Hh]a?emoglobin (?:of |is |was )?(\d+(?:\.\d+)?) g/dL", 5, 18),
    (r"[Pp]ulse (\d+)", 30, 220),
    (r"saturation of (\d+)%|[Ss]aturation (\d+)%", 70, 100),
    (r"ejection fraction of (\d+)%", 10, 75),
    (r"HbA1c (\d+(?:\.\d+)?)%|A1c is (\d+(?:\.\d+)?)%", 4, 15),
    (r"[Pp]otassium (\d+(?:\.\d+)?) mmol", 2, 8),
])  # fmt: skip
def test_measured_values_are_possible(pattern: str, low: float, high: float) -> None:
    found = [
        float(next(value for value in match.groups() if value))
        for name in FILES
        if name.startswith(NOTES)
        for text in texts(rows(name))
        for match in re.finditer(pattern, text)
    ]
    assert found, "no text holds this measurement"
    assert all(low <= value <= high for value in found)


def test_blood_pressures_are_possible() -> None:
    found = [
        (int(high), int(low))
        for name in FILES
        if name.startswith(NOTES)
        for text in texts(rows(name))
        for high, low in re.findall(r"[Bb]lood pressure (\d+)/(\d+)", text)
    ]
    assert len(found) >= 8
    assert all(60 <= high <= 240 and 20 <= high - low <= 110 for high, low in found)
