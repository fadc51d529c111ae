"""Sample rows of questions, dialogues and notes: their layout, their traps, and that notes follow from dialogues."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from sample_layouts import normal, rows, rows_of, texts

HEADERS = {
    *("GENHX", "MEDICATIONS", "ROS", "FAM/SOCHX", "PASTMEDICALHX", "ALLERGY", "CC", "ASSESSMENT", "PLAN", "EXAM"),
    *("DISPOSITION", "DIAGNOSIS", "PASTSURGICAL", "EDCOURSE", "IMMUNIZATIONS", "LABS", "IMAGING", "PROCEDURES"),
    *("GYNHX", "OTHER_HISTORY"),
}
HEADINGS = [
    *("CHIEF COMPLAINT", "HISTORY OF PRESENT ILLNESS", "REVIEW OF SYSTEMS", "PHYSICAL EXAMINATION", "RESULTS"),
    "ASSESSMENT AND PLAN",
]
LENGTHS = [
    ("aci_bench", "dialogue", 150, 250),
    ("aci_bench", "note", 120, 220),
    ("mimic", "target_text", 60, 120),
    ("med_text_classification_easy", "medical_abstract", 60, 110),
    ("med_transcriptions", "transcription", 60, 120),
]


@pytest.mark.parametrize(("benchmark", "column", "low", "high"), LENGTHS)
def test_lengths_in_words(benchmark: str, column: str, low: int, high: int) -> None:
    for row in rows_of(benchmark):
        words = re.findall(r"\S*\w\S*", row[column] or "")  # signs that stand alone in transcripts are no words
        assert row[column] is None or low <= len(words) <= high


@pytest.mark.parametrize(("benchmark", "column"), [
    ("meddialog_qsumm", "id"), ("aci_bench", "encounter_id"), ("mimic", "subject_id"), ("mimic", "hadm_id"),
    ("med_transcriptions", "Unnamed: 0"), ("biored", "pmid"),
])  # fmt: skip
def test_ids_are_unique_over_the_splits(benchmark: str, column: str) -> None:
    ids = [row[column] for row in rows_of(benchmark)]
    assert len(ids) == len(set(ids))


# --- MEDIQA 2019


def test_mediqa_ranks_and_scores() -> None:
    questions = [row["QUESTION"] for row in rows_of("mediqa_qa2019")]
    assert len({asked["QID"] for asked in questions}) == len(questions)
    for asked in questions:
        assert list(asked) == ["QID", "QuestionText", "AnswerList"]
        answers = [item["Answer"] for item in asked["AnswerList"]]
        places = list(range(1, len(answers) + 1))
        assert len(answers) in (3, 4)
        for place, answer in zip(places, answers, strict=True):
            assert list(answer) == ["AID", "SystemRank", "ReferenceRank", "ReferenceScore", "AnswerURL", "AnswerText"]
            assert answer["AID"] == f"{asked['QID']}_Answer{place}"
            assert answer["SystemRank"] == place
            assert answer["AnswerURL"].startswith("https://example.org/")
            assert answer["ReferenceScore"] in (1, 2, 3, 4)
        by_expert = sorted(answers, key=lambda answer: answer["ReferenceRank"])
        assert [answer["ReferenceRank"] for answer in by_expert] == places
        scores = [answer["ReferenceScore"] for answer in by_expert]
        assert scores == sorted(scores, reverse=True), "a better rank never has a lower score"
        assert scores[0] == 4
        assert scores[-1] <= 2


def test_mediqa_first_answer_is_not_always_the_experts() -> None:
    firsts = [row["QUESTION"]["AnswerList"][0]["Answer"] for row in rows("mediqa_qa2019/test")]
    assert sum(answer["ReferenceRank"] == 1 for answer in firsts) == 3
    assert sum(answer["ReferenceScore"] <= 2 for answer in firsts) == 2


# --- MedDialog


def test_meddialog_turns() -> None:
    patterns: Counter[str] = Counter()
    for row in rows_of("meddialog_raw_dialogues"):
        speakers, spoken = row["utterances"]["speaker"], row["utterances"]["utterance"]
        assert list(row["utterances"]) == ["speaker", "utterance"]
        assert len(speakers) == len(spoken)
        patterns["".join(speaker[0] for speaker in speakers)] += 1
    assert patterns == {"pd": 10, "ppd": 1, "pdp": 1}


def test_meddialog_descriptions_repeat_the_patient_but_for_titles() -> None:
    found = rows_of("meddialog_raw_dialogues")
    assert sum(len(row["description"].split()) <= 5 for row in found) == 2
    assert sum(row["description"] == row["utterances"]["utterance"][0] for row in found) == 9


def test_meddialog_qsumm_is_one_short_question_about_a_consultation() -> None:
    for row in rows_of("meddialog_qsumm"):
        assert re.fullmatch(r"Patient: [^:]+(:[^:]+)*? Doctor: .+", row["src"])
        assert row["tgt"].endswith("?")
        assert len(row["tgt"].split()) <= 18 < len(row["src"].split()) / 2


# --- MTS-Dialog and ACI-Bench


@pytest.mark.parametrize("split", ["test1", "test2", "train"])
def test_mts_sections(split: str) -> None:
    found = rows(f"mts_dialog/{split}")
    assert [row["ID"] for row in found] == list(range(len(found)))
    assert {row["section_header"] for row in found} < HEADERS
    for row in found:
        assert all(re.match(r"(Doctor|Patient): \S", line) for line in row["dialogue"].split("\n"))


def test_mts_headers_differ() -> None:
    assert len({row["section_header"] for row in rows_of("mts_dialog")}) == 14


def test_aci_notes_and_dialogues() -> None:
    found = rows_of("aci_bench")
    assert {row["dataset"] for row in found} == {"aci", "virtassist", "virtscribe"}
    for row in found:
        assert re.fullmatch(r"S2N\d{3}", row["encounter_id"])
        assert [block for block in row["note"].split("\n\n") if block.isupper()] == HEADINGS
        turns = [line.split(" ", 1)[0] for line in row["dialogue"].split("\n")]
        assert set(turns) == {"[doctor]", "[patient]"}
        assert all(a != b for a, b in pairwise(turns))


@pytest.mark.parametrize(("benchmark", "note"), [("aci_bench", "note"), ("mts_dialog", "section_text")])
def test_medicines_with_a_dose_were_spoken_of(benchmark: str, note: str) -> None:
    count = 0
    for row in rows_of(benchmark):
        for name in re.findall(r"(\w+) [\d.,]+ m(?:c)?g\b(?!/)", row[note]):
            assert name.lower() in row["dialogue"].lower()
            count += 1
    assert count >= 2


# --- OLAPH


def test_olaph_statements_follow_from_the_answer() -> None:
    for row in rows_of("olaph"):
        assert len(row["Must_have"]) >= 2
        known = {word[:4] for word in re.findall(r"\w+", normal(row["Question"] + " " + row["Free_form_answer"]))}
        for statement in row["Must_have"] + row["Nice_to_have"]:
            stems = [word[:4] for word in re.findall(r"\w+", normal(statement)) if len(word) > 3]
            assert sum(stem in known for stem in stems) >= 0.6 * len(stems), statement


def test_olaph_has_rows_without_nice_to_have() -> None:
    empty = [not row["Nice_to_have"] for row in rows_of("olaph")]
    assert 2 <= sum(empty) < len(empty) / 2


# --- Hospital courses


def test_mimic_ids_and_notes_are_no_real_ones() -> None:
    for row in rows_of("mimic"):
        assert row["subject_id"] > 900_000 < row["hadm_id"]  # real ones have five and six digits, hadm below 200,000
        assert row["n_notes"] == len(row["notes"]) >= 2
        assert row["extractive_notes_summ"] == " ".join(row["notes"])
        assert not re.search(r"\[\*\*|\b(?:Mr|Mrs|Ms|Dr)\b", " ".join(texts(row)))
        assert row["target_text"].startswith("The patient")


def test_mimic_reports_with_and_without_headings() -> None:
    kinds: Counter[str] = Counter()
    for row in rows("mimic/test"):
        findings, impression = (row["extractive_notes_summ"].find(word) for word in ("FINDINGS:", "IMPRESSION:"))
        if findings < 0:
            kinds["neither" if impression < 0 else "no findings"] += 1
        else:
            kinds["no impression" if impression < 0 else "usual" if findings < impression else "reversed"] += 1
    assert kinds == {"usual": 5, "no impression": 1, "neither": 1, "reversed": 1}
