"""Prescriptions: what a cell gives, which options a question has, and that they never change."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.prepared import Prepared
from lm_eval_healthcare.data.prescription_cells import (
    INDIC_SCRIPT,
    MALFORMED_ROW,
    NO_COMPLAINT,
    NO_MEDICINE,
    UnusableCellError,
    form,
    identity,
    read_prescription,
    same_medicine,
)
from lm_eval_healthcare.data.prescriptions import TOO_FEW_OPTIONS, easy_documents, hard_documents, row
from lm_eval_healthcare.data.source import Source, load
from support import child_environment, write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name.startswith("med_presc")}
EASY = FACTS["med_prescriptions_easy"]
# Invented complaints, and for each two invented medicines with form, dose, frequency and duration.
CASES = {
    "burning eyes": ("Tab Veloquint 10 mg", "Drops Ocumirel 0.5%"),
    "stiff knee": ("Tab Artoflexan 200 mg", "Gel Kneezorbin"),
    "dry throat": ("Syp Gargolin 5 ml", "Tab Throatimex 50"),
    "blocked nose": ("Tab Nasopardil 60 mg", "Spray Zephyrox"),
    "dull earache": ("Drops Otovessin", "Cap Brumidol 250 mg"),
    "hot flushes": ("Cap Fermonal 2 mg", "Tab Quellidon 75"),
    "poor sleep": ("Tab Somnaberil 3 mg", "Syp Lullabine"),
    "itchy scalp": ("Lotion Capiderm", "Cap Histoquel 120 mg"),
}


def cell(complaint: Any, *medicines: str, often: str = "Twice daily", duration: str = "5 days") -> str:
    entries = [{"medicine_name": m, "medicine_frequency": often, "course_duration": duration} for m in medicines]
    return repr({"procedure": {"chief_complaints_diagnosis": complaint}, "medicine_details": entries})


ROWS = [{"results": cell(complaint, *medicines)} for complaint, medicines in CASES.items()]


def options(document: Mapping[str, Any]) -> list[str]:
    return [document[f"option_{letter}"] for letter in "abcd"]


def scored(prepared: Prepared) -> list[dict[str, Any]]:
    return prepared.splits["test"]


# Cells


@pytest.mark.parametrize(
    ("content", "complaint", "medicine"),
    [
        (
            {"procedure": {"chief_complaints_diagnosis": "sore heel"}, "medicine_details": [
                {"medicine_name": "Tab Heelora", "medicine_frequency": "At NIGHT", "course_duration": "2 Weeks"}]},
            "sore heel", "Tab Heelora, at night, 2 weeks",
        ),
        (
            {"procedure": {"chief_complaints": "limp", "diagnosis": "sprain"}, "medicine_details": [
                {"medicine_name": "Gel Walkon", "medicine_dosage": "Thin layer"}]},
            "limp; diagnosis: sprain", "Gel Walkon, thin layer",
        ),
        (
            {"prescription_details": {"disease_diagnosis": "pale nails"}, "Medicines Prescribed": [
                {"Name": "Syp Ferrolux", "Duration": "1 month"}]},
            "pale nails", "Syp Ferrolux, 1 month",
        ),
        (
            {"Symptoms/Complaints": ["NA", "cold  feet", "cramps"], "Medicines Prescribed": [
                {"Name": "Tab Warmol", "Dosage": "1-0-1", "Duration": "not specified"}]},
            "cold feet, cramps", "Tab Warmol, 1-0-1",
        ),
        (
            {"procedure": {"chief_complaints_diagnosis": "N/A", "diagnosis": "gout"}, "medicine_details": {
                "medicine_name": "Cap Uricet", "medicine_frequency": "nil", "course_duration": 7}},
            "gout", "Cap Uricet, 7",
        ),
        ({"procedure": {"diagnosis": "mumps"}, "medicine_details": ["Syp Parotil"]}, "mumps", "Syp Parotil"),
    ],
)  # fmt: skip
def test_known_shapes(content: dict[str, Any], complaint: str, medicine: str) -> None:
    for text in (repr(content), json.dumps(content), f"  {content!r}\n"):
        found = read_prescription(text)
        assert (found.complaint, [m.text for m in found.medicines]) == (complaint, [medicine])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", MALFORMED_ROW),
        ("nan", MALFORMED_ROW),
        ("['a list']", MALFORMED_ROW),
        ("{'a': 1", MALFORMED_ROW),
        ("{[]: 1}", MALFORMED_ROW),
        ("{'a': __import__('os')}", MALFORMED_ROW),
        ("\x00", MALFORMED_ROW),
        ("(" * 50_000, MALFORMED_ROW),
        ("-" * 90_000 + "1", MALFORMED_ROW),
        ("1+" * 45_000 + "1", MALFORMED_ROW),
        ("{'a': '" + "x" * 100_000 + "'}", MALFORMED_ROW),
        ("{}", NO_COMPLAINT),
        (repr({"procedure": None, "prescription_details": 3, "Symptoms/Complaints": ["NA", ""]}), NO_COMPLAINT),
        (cell("not specified", "Tab Ox"), NO_COMPLAINT),
        (cell("[complaint]", "Tab Oxaben"), NO_COMPLAINT),
        (cell("x", "Tab Oxaben"), NO_COMPLAINT),
        (cell("fatigue"), NO_MEDICINE),
        (repr({"procedure": {"diagnosis": "fatigue"}, "medicine_details": "NA"}), NO_MEDICINE),
        (cell("थकान", "Tab Oxaben"), INDIC_SCRIPT),
        (cell("fatigue", "Tab Oxaben", "गोली"), INDIC_SCRIPT),
    ],
    ids=range(20),
)
def test_cells_that_give_no_question(text: str, reason: str) -> None:
    with pytest.raises(UnusableCellError) as caught:
        read_prescription(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "name",
    [
        "NA", "N/A", "nil", "Not Provided by the clinic", "[Medicine Name], [medicine frequency]", "500", "B", "Syrup",
        "Tab 40 mg", "Dr. Ottoline Farnsworth", "Dr Farnsworth", "Prof. X Y", "Mrs. Bramble", "seen by Dr. Farnsworth",
        "Sunrise Clinic, 4 Mill Road", "call 555 0100 999", "a.b@example.org", "USG abdomen", "Farnsworth MBBS",
        "x" * 81,
    ],
)  # fmt: skip
def test_names_that_are_no_option(name: str) -> None:
    with pytest.raises(UnusableCellError) as caught:
        read_prescription(cell("fatigue", name))
    assert caught.value.reason == NO_MEDICINE
    kept = read_prescription(cell("fatigue", name, "Tab Oxaben"))
    assert [medicine.name for medicine in kept.medicines] == ["Tab Oxaben"]


def test_a_letter_pair_that_looks_like_a_title_is_kept() -> None:
    assert read_prescription(cell("reflux", "Zorbaprazole DR 20 mg")).medicines[0].name == "Zorbaprazole DR 20 mg"


@pytest.mark.parametrize(
    ("name", "expected", "stated"),
    [
        ("Tab. ZOR-D 40mg", "zord", "tablet"),
        ("zor d 40", "zord", ""),
        ("T. Oxaben 625 mg", "oxaben", "tablet"),
        ("Syp Gargolin 5 mg/5 ml", "gargolin", "liquid"),
        ("Inj. Monzef 1g", "monzef", "injection"),
        ("Kneezorbin GEL 1%", "kneezorbin", "skin"),
        ("Vit D 60K", "vitd", ""),
    ],
)
def test_identity_and_form(name: str, expected: str, stated: str) -> None:
    assert (identity(name), form(name)) == (expected, stated)


def test_same_medicine() -> None:
    # veloquint/velloquint: pairs ve el lo oq qu ui in nt and ve el ll lo oq qu ui in nt: 2 * 8 / (8 + 9) = 0.94
    assert same_medicine("veloquint", "velloquint")
    assert same_medicine("veloquint", "veloquintduo")
    assert same_medicine("zor", "zor")
    # No common pair; and pan and pand are too short for one within the other, but 2 * 2 / (2 + 3) = 0.8.
    assert not same_medicine("artoflexan", "nasopardil")
    assert same_medicine("pan", "pand")
    # omeprazole has 9 pairs, pantoprazole 11, and pr ra az zo ol le are common: 2 * 6 / (9 + 11) = 0.6
    assert not same_medicine("omeprazole", "pantoprazole")


# Questions


@pytest.mark.parametrize("make", [easy_documents, hard_documents])
def test_options_are_distinct_and_only_one_is_right(make: Any) -> None:
    for document in scored(make({"train": ROWS}, {})):
        names = [option.split(",")[0] for option in options(document)]
        assert len({identity(name) for name in names}) == 4
        own = CASES[document["complaint"]]
        assert names[document["answer"]] in own
        assert not {name for i, name in enumerate(names) if i != document["answer"]} & set(own)
        assert document["choices"] == ["A", "B", "C", "D"]


def test_hard_options_share_form_frequency_and_duration() -> None:
    names = ["Tab Azurol", "Tab Bexolin", "Tab Cindoret", "Tab Dumaqel", "Tab Egrotin", "Syp Foxatil", "Syp Gumival"]
    rows = [
        {"results": cell(f"complaint{chr(97 + i)}", name, often=f"{i} times a day", duration=f"{i} days")}
        for i, name in enumerate(names)
    ]
    for document in scored(hard_documents({"train": rows}, {})):
        found = [option.split(", ") for option in options(document)]
        assert len({tuple(details) for _, *details in found}) == 1
        if form(found[document["answer"]][0]) == "tablet":  # five of them, so three others are at hand
            assert {form(name) for name, *_ in found} == {"tablet"}
    easy = [
        option.split(", ") for document in scored(easy_documents({"train": rows}, {})) for option in options(document)
    ]
    assert all(f"{names.index(name)} times a day" == often for name, often, _ in easy)


def test_no_distractor_from_a_complaint_that_shares_a_word() -> None:
    shared = {"burning knee": ("Tab Zephadol 1 mg",), "burning toes": ("Tab Mirabex 2 mg",)}
    rows = [{"results": cell(c, *m)} for c, m in {**CASES, **shared}.items()]
    for make in (easy_documents, hard_documents):
        document = next(d for d in scored(make({"train": rows}, {})) if d["complaint"] == "burning knee")
        text = " ".join(options(document))
        for name in (*CASES["burning eyes"], *CASES["stiff knee"], "Tab Mirabex"):
            assert name not in text


def test_another_medicine_of_the_row_and_other_spellings_are_no_distractors() -> None:
    """Six medicines in all; the row's own two, and a misspelling of one, leave exactly three."""
    rows = [
        {"results": cell("weak grip", "Tab Graspinol 5 mg", "Cap Holdarex")},
        {"results": cell("sour taste", "TAB. GRASPINOLL 10", "Syp Mentasweet", "Drops Palatin", "Gel Buccadent")},
    ]
    prepared = easy_documents({"train": rows}, {})
    (document,) = [d for d in scored(prepared) if d["complaint"] == "weak grip"]
    assert {o.split(",")[0] for i, o in enumerate(options(document)) if i != document["answer"]} == {
        "Syp Mentasweet", "Drops Palatin", "Gel Buccadent",
    }  # fmt: skip
    # The other row finds one medicine only (Holdarex) that is not its own.
    assert prepared.left_out == Counter({TOO_FEW_OPTIONS: 1})
    assert "too_few_options: row 2" in prepared.warnings[0]
    assert "four distinct ones" in prepared.warnings[0]


def test_order_of_rows_does_not_matter() -> None:
    for make in (easy_documents, hard_documents):
        wanted = {d["id"]: d for d in scored(make({"train": ROWS}, {}))}
        for other in (ROWS[::-1], ROWS[3:] + ROWS[:3]):
            assert {d["id"]: d for d in scored(make({"train": other}, {}))} == wanted


def test_every_process_draws_the_same() -> None:
    code = (
        "import json, sys\n"
        "from lm_eval_healthcare.data.prescriptions import easy_documents, hard_documents\n"
        "rows = json.load(sys.stdin)\n"
        "print(json.dumps([f({'train': rows}, {}).splits for f in (easy_documents, hard_documents)]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], input=json.dumps(ROWS), capture_output=True, text=True, check=True,
            env=child_environment(PYTHONHASHSEED=seed), timeout=60,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert [json.loads(text) for text in found] == [
        [f({"train": ROWS}, {}).splits for f in (easy_documents, hard_documents)]
    ]


def test_gold_and_its_place_are_spread() -> None:
    """400 rows: each place is expected 100 times, with a standard deviation of 8.7; both medicines 200 times, 10."""
    rows = [{"results": cell(f"complaint {i} {complaint}", *m)} for i in range(50) for complaint, m in CASES.items()]
    documents = scored(easy_documents({"train": rows}, {}))
    places = Counter(document["answer"] for document in documents)
    assert all(abs(places[place] - 100) < 4 * 8.7 for place in range(4))
    firsts = sum(options(d)[d["answer"]].split(",")[0] == CASES[d["complaint"].split(" ", 2)[2]][0] for d in documents)
    assert abs(firsts - 200) < 4 * 10


def test_texts_can_be_scored() -> None:
    letters, texts = (scored(easy_documents({"train": ROWS}, {"scored": how})) for how in ("letters", "text"))
    for one, other in zip(letters, texts, strict=True):
        assert (options(one), one["answer"]) == (options(other), other["answer"])
        assert other["choices"] == options(other)


def test_left_out_rows_are_counted_and_named() -> None:
    bad = [{"results": "{"}, {"results": ""}, {"results": cell("NA", "Tab Oxaben")}, {"results": cell("fatigue", "NA")}]
    prepared = easy_documents({"train": [*bad, *ROWS]}, {})
    assert len(scored(prepared)) == len(ROWS)
    assert prepared.left_out == Counter({MALFORMED_ROW: 2, NO_COMPLAINT: 1, NO_MEDICINE: 1})
    (warning,) = prepared.warnings
    assert "4 of 12 rows give no question" in warning
    assert "malformed_row: row 1, 2" in warning
    assert "no_complaint: row 3" in warning


# Files in the hub's layout


def test_csv_as_on_the_hub(tmp_path: Path) -> None:
    with (tmp_path / "med_prescriptions.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["image", "results"])
        writer.writerows([f"{i}.jpg", r["results"]] for i, r in enumerate([*ROWS, {"results": None}]))
    for facts, make in ((EASY, easy_documents), (FACTS["med_prescriptions_hard"], hard_documents)):
        data = load(facts, Source("folder", tmp_path))
        assert (data.eval_split, data.fewshot_split) == ("test", None)
        assert data.splits["test"] == scored(make({"train": ROWS}, {}))
        assert data.left_out == Counter({MALFORMED_ROW: 1})
        assert "results" not in data.splits["test"][0]  # raw cells stay out of logs


def test_parquet_structs_and_two_splits(tmp_path: Path) -> None:
    place = tmp_path / "med_prescriptions"
    place.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), place / "train.parquet")
    structs = [{"results": ast.literal_eval(r["results"])} for r in ROWS]
    write_jsonl(place / "test.jsonl", structs)
    assert row(structs[0]) == [{"results": repr(structs[0]["results"])}]
    data = load(EASY, Source("folder", tmp_path), options={"scored": "text"})
    assert (data.eval_split, data.fewshot_split) == ("test", "train")
    assert data.splits["test"] == scored(easy_documents({"train": ROWS}, {"scored": "text"}))
    assert data.provenance["options"] == {"scored": "text"}


def test_missing_column_and_no_question(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "med_prescriptions.jsonl", [{"result": "x"}])
    with pytest.raises(DataError, match=r"row 1: column 'results' is missing \(found: result\)"):
        load(EASY, Source("folder", tmp_path))
    write_jsonl(tmp_path / "med_prescriptions.jsonl", ROWS[:1])
    with pytest.raises(DataError, match=r"none of the rows .*too_few_options: 1"):
        load(EASY, Source("folder", tmp_path))
