"""MIMIC-III: findings and impression are found by headings, and nothing but the text that is asked about is kept.

All texts here are invented.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import mimic
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name.startswith("mimic")}
COURSE, REPSUM = FACTS["mimic_hospital_course"], FACTS["mimic_repsum"]


def row(text: str | None, course: str | None = "She got well.") -> dict[str, Any]:
    wanted = {"target_text": course, "extractive_notes_summ": text}
    return {"subject_id": 1, "hadm_id": 2, **wanted, "n_notes": 1, "notes": ["x"]}


@pytest.mark.parametrize(
    ("text", "findings", "impression"),
    [
        ("FINDINGS: Clear lungs. IMPRESSION: Normal.", "Clear lungs.", "Normal."),
        ("Finding:  Clear lungs.\n\nImpressions:\nNormal.", "Clear lungs.", "Normal."),
        ("FINDINGS\nClear lungs.\nIMPRESSION\nNormal.\n", "Clear lungs.", "Normal."),
        # A gap is not an end: lists are often set with one.
        ("FINDINGS: A.     B.   IMPRESSION:     1. Normal.     2. Old.", "A.     B.", "1. Normal.     2. Old."),
        # The next heading is.
        ("FINDINGS: Clear. COMPARISON: None. IMPRESSION: Normal. RECOMMENDATION: None.", "Clear.", "Normal."),
        ("FINDINGS: Clear.\nIMPRESSION: Normal.\nDischarge Medications:\nTea.", "Clear.", "Normal."),
        ("FINDINGS: Clear. IMPRESSION: Normal. ______________ Tea.", "Clear.", "Normal."),
        ("FINDINGS: Clear. IMPRESSION: Normal. NURSING NOTE. Slept well.", "Clear.", "Normal."),
        ("FINDINGS: CLEAR. NO FLUID. IMPRESSION: NORMAL LUNG. OLD SCAR.", "CLEAR. NO FLUID.", "NORMAL LUNG. OLD SCAR."),
        # Parts of the body are no headings.
        ("FINDINGS: LUNGS: Clear. HEART: Normal. IMPRESSION: Fine.", "LUNGS: Clear. HEART: Normal.", "Fine."),
        # Words in a sentence are no headings.
        ("These findings are old. My impression: none. FINDINGS: Clear. IMPRESSION: Normal.", "Clear.", "Normal."),
        ("FINDINGS: As in the impression: clear. IMPRESSION: Normal.", "As in the impression: clear.", "Normal."),
        # The impression may stand first.
        ("IMPRESSION: Normal.  FINDINGS: Clear.", "Clear.", "Normal."),
        # A report without an impression does not get the next one's.
        ("FINDINGS: Fracture. CT HEAD. FINDINGS: No blood. IMPRESSION: Normal head.", "No blood.", "Normal head."),
        ("FINDINGS: a b. IMPRESSION: c. FINDINGS: d e. IMPRESSION: f.", "a b.", "c."),
        ("PROVISIONAL FINDINGS IMPRESSION (PFI): Quick. FINDINGS: Clear. IMPRESSION: Normal.", "Clear.", "Normal."),
        ("FINDINGS: Clear. IMPRESSION:", "Clear.", ""),
        # Reports in one line, with single blanks: a capital and a colon after a sentence.
        ("Findings: clear. Impression: normal.", "clear.", "normal."),
        ("Chest CT. Findings: clear lungs. Impression: normal.", "clear lungs.", "normal."),
        ("Is it old? Findings: clear! Comparison: None. Impression: normal.", "clear!", "normal."),
        ("Findings: clear, see Impression: below. Impression: normal.", "clear, see Impression: below.", "normal."),
        ("Findings: clear. impression: none yet.", "clear. impression: none yet.", ""),
        # A conclusion or interpretation is the impression where there is none.
        ("FINDINGS: Clear. CONCLUSION: Normal.", "Clear.", "Normal."),
        ("FINDINGS: Clear. CONCLUSIONS: Normal. PLAN: None.", "Clear.", "Normal."),
        ("Findings: clear. Interpretation: normal.", "clear.", "normal."),
        ("FINDINGS: Clear. IMPRESSION: CONCLUSION: Normal.", "Clear.", "Normal."),
        ("FINDINGS: Clear. CONCLUSION: Old. IMPRESSION: Normal.", "Clear.", "Normal."),
        ("IMPRESSION: Normal.", "", "Normal."),
        ("FINDINGS: Clear.", "Clear.", ""),
        ("No headings at all, only findings.", "", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_a_report(text: str, findings: str, impression: str) -> None:
    assert mimic.report(text) == (findings, impression)


def test_long_runs_of_spaces_take_no_time() -> None:
    """A heading is looked for once in a run: 200,000 spaces are read in one pass."""
    assert mimic.report("FINDINGS: a" + " " * 200_000 + "b IMPRESSION: c")[1] == "c"


def test_long_texts_are_read_in_one_pass() -> None:
    """Looked at from the beginning for each title or line, these would take minutes."""
    assert mimic.report("\n" * 2_000_000) == ("", "")
    titles = "A. NURSING NOTE." + " NURSING NOTE." * 60_000
    assert mimic.report(f"FINDINGS: {titles}") == (titles, "")


def test_rows_without_findings_or_impression_are_counted() -> None:
    rows = [
        row("FINDINGS: Clear. IMPRESSION: Normal."),
        row("FINDINGS: Clear."),
        row("IMPRESSION: x."),
        row("x"),
        row(""),
    ]
    made = mimic.repsum_documents({"test": rows, "train": rows}, {})
    assert made.splits["test"] == made.splits["train"] == [{"findings": "Clear.", "impression": "Normal."}]
    assert made.left_out == {"no_impression": 1, "no_findings": 3}


def test_the_hospital_course_is_asked_for_from_the_extracted_notes() -> None:
    rows = [row("Cough for a week. "), row("", "x"), row("x", " ")]
    made = mimic.hospital_course_documents({"test": rows, "train": rows[:1]}, {})
    assert made.splits["test"] == [{"extractive_notes_summ": "Cough for a week.", "target_text": "She got well."}]
    assert made.left_out == {"no_notes": 1, "no_hospital_course": 1}


@pytest.mark.parametrize("facts", [COURSE, REPSUM], ids=lambda facts: facts.name)
def test_neither_ids_nor_other_notes_reach_a_document(facts: Any, tmp_path: Path) -> None:
    (tmp_path / "mimic").mkdir()
    rows = [row("FINDINGS: Clear. IMPRESSION: Normal."), row(None)]
    for split in ("test", "train"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "mimic" / f"{split}.parquet")
    data = load(facts, Source("folder", tmp_path))
    (only,) = data.splits["test"]
    assert not {"subject_id", "hadm_id", "notes", "n_notes"} & set(only)
    assert sum(data.left_out.values()) == 1
    assert data.fewshot_split == "train"


@pytest.mark.parametrize("facts", [COURSE, REPSUM], ids=lambda facts: facts.name)
def test_credentialed_data_is_never_taken_from_a_hub(facts: Any) -> None:
    assert facts.credentialed
    assert facts.dataset_path is None
    with pytest.raises(DataError, match="never taken from a hub"):
        load(facts, parse_source("hub"))


def test_a_missing_column_and_a_wrong_type_are_named(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "mimic.jsonl", [{"target_text": "x"}, row("x") | {"extractive_notes_summ": 3}])
    with pytest.raises(DataError, match=r"row 1: column 'extractive_notes_summ' is missing(.|\n)*row 2: .* got int"):
        load(COURSE, Source("folder", tmp_path))
