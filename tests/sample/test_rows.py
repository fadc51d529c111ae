"""The packaged sample rows: the hub's columns, sound values, no question twice, none from a real benchmark."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from sample_layouts import (
    FEW_QUESTIONS,
    FILES,
    MMLU,
    REAL_ROWS,
    ROWS,
    SPOKEN,
    normal,
    question,
    rows,
    sentences,
    texts,
)

DECISIONS = {"yes", "no", "maybe"}
CATEGORIES = {"Medicine", "Nursing", "Biology", "Chemistry", "Psychology", "Pharmacology"}
SCORED = {
    **{name: ["test"] for name in FEW_QUESTIONS},
    **{"medtext": ["train"], "medmcqa": ["validation"], "mts_dialog": ["test1", "test2"]},
    **{"aci_bench": ["test1", "test2", "test3"], "med_prescriptions": ["train"], "med_transcriptions": ["train"]},
    "olaph": ["healthsearch_qa", "kqa_golden", "kqa_silver_wogold", "live_qa", "medication_qa"],
}
MULTIPLE_CHOICE = [name for name, (_, kinds) in FILES.items() if {"op1", "opa", "ending0", "choices"} & kinds.keys()]


def options(row: dict[str, Any]) -> list[str]:
    if "choices" in row:
        return row["choices"]
    for columns in (("op1", "op2", "op3", "op4"), ("opa", "opb", "opc", "opd")):
        if columns[0] in row:
            return [row[column] for column in columns]
    return [row[f"ending{i}"] for i in range(4)]


def gold(row: dict[str, Any]) -> int:
    """The right option's place, 0 to 3: CareQA counts from 1, the others from 0."""
    if "op1" in row:
        return row["cop"] - 1
    return row["cop"] if "opa" in row else row["label"] if "label" in row else row["answer"]


def fields_of_all_rows() -> list[str]:
    return [text for name in FILES for row in rows(name) for text in texts(row)]


def test_the_folder_holds_exactly_these_files() -> None:
    found = {path.relative_to(ROWS).as_posix() for path in ROWS.rglob("*") if path.is_file()}
    assert found == {f"{name}.jsonl" for name in FILES}


def test_rows_path_is_the_folder() -> None:
    from lm_eval_healthcare.sample import rows_path

    assert rows_path().resolve() == ROWS


@pytest.mark.parametrize("name", FILES)
def test_file_is_clean_json_lines(name: str) -> None:
    text = (ROWS / f"{name}.jsonl").read_bytes().decode("utf-8")
    assert text.endswith("}\n")
    assert "\r" not in text
    assert "\\u" not in text, "letters are written as they are, not escaped"
    assert all(line.startswith("{") for line in text.removesuffix("\n").split("\n"))


@pytest.mark.parametrize("name", FILES)
def test_columns_types_and_count(name: str) -> None:
    count, columns = FILES[name]
    found = rows(name)
    assert len(found) == count
    for row in found:
        assert list(row) == list(columns)
        for column, kind in columns.items():
            assert isinstance(row[column], kind), column
            assert not isinstance(row[column], bool), column


@pytest.mark.parametrize("name", FILES)
def test_texts_are_neither_blank_nor_padded(name: str) -> None:
    for row in rows(name):
        for column, value in row.items():
            if column == "sent2":  # always empty on the hub
                assert value == ""
                continue
            for text in texts(value):
                assert text
                assert text == (" " if column == "medical_specialty" else "") + text.strip()  # the hub's leading space
                assert column in SPOKEN or "\n" not in text


def test_scored_splits_hold_at_least_eight_rows() -> None:
    assert {name.split("/")[0] for name in FILES} == SCORED.keys() | {"biored"}
    for benchmark, splits in SCORED.items():
        assert sum(FILES[f"{benchmark}/{split}"][0] for split in splits) >= 8
    assert sum(len(row["relations"]) for row in rows("biored/test")) >= 8  # a question a pair, not a document


@pytest.mark.parametrize("name", MULTIPLE_CHOICE)
def test_options_differ_and_the_gold_position_is_balanced(name: str) -> None:
    found = rows(name)
    for row in found:
        assert len(options(row)) == 4
        assert len({" ".join(option.split()) for option in options(row)}) == 4  # with case: Aa and aa are two genotypes
        assert gold(row) in range(4)
    counts = Counter(gold(row) for row in found)
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(("task", "column"), [("medmcqa", "id"), ("medqa_4options", "id"), ("pubmedqa", "pubid")])
def test_ids_are_unique_over_the_splits_of_a_task(task: str, column: str) -> None:
    ids = [row[column] for name in FILES if name.startswith(f"{task}/") for row in rows(name)]
    assert len(ids) == len(set(ids))


def test_unique_ids_of_careqa() -> None:
    ids = [row["unique_id"] for name in ("careqa_en/test", "careqa_open/test") for row in rows(name)]
    assert len(ids) == len(set(ids)) == 22
    for unique_id in ids:  # the form of a UUID, version 4
        assert [len(part) for part in unique_id.split("-")] == [8, 4, 4, 4, 12]
        assert unique_id[14] == "4"


@pytest.mark.parametrize("name", ["careqa_en/test", "careqa_es/test", "careqa_open/test"])
def test_careqa_years_and_categories(name: str) -> None:
    found = rows(name)
    assert {row["year"] for row in found} == {2020, 2021, 2022, 2023, 2024}
    assert all(1 <= row["exam_id"] <= 210 for row in found)
    counts = Counter(row["category"] for row in found)
    assert set(counts) == CATEGORIES
    if name != "careqa_open/test":
        assert set(counts.values()) == {2}


def test_careqa_is_the_same_exam_in_two_languages() -> None:
    english, spanish = ({row["unique_id"]: row for row in rows(f"careqa_{lang}/test")} for lang in ("en", "es"))
    assert english.keys() == spanish.keys()
    for unique_id, row in english.items():
        other = spanish[unique_id]
        assert [row[c] for c in ("cop", "year", "category", "exam_id")] == [
            other[c] for c in ("cop", "year", "category", "exam_id")
        ]
        assert normal(row["question"]) != normal(other["question"])


def test_medmcqa_rows_have_one_right_answer() -> None:
    found = rows("medmcqa/validation") + rows("medmcqa/train")
    assert {row["choice_type"] for row in found} == {"single"}
    assert any(row["exp"] is None for row in found)
    assert any(row["topic_name"] is None for row in found)


@pytest.mark.parametrize("subject", MMLU)
def test_mmlu_rows_name_their_subject(subject: str) -> None:
    assert {row["subject"] for split in ("test", "dev") for row in rows(f"mmlu_{subject}/{split}")} == {subject}


@pytest.mark.parametrize("name", ["pubmedqa/test", "pubmedqa/train"])
def test_pubmedqa_contexts(name: str) -> None:
    columns = ["contexts", "labels", "meshes", "reasoning_required_pred", "reasoning_free_pred"]
    for row in rows(name):
        context = row["context"]
        assert list(context) == columns
        assert all(isinstance(text, str) for column in columns for text in context[column])
        assert 2 <= len(context["contexts"]) <= 4
        assert len(context["labels"]) == len(context["contexts"])
        assert row["final_decision"] in DECISIONS
        assert context["reasoning_required_pred"] == context["reasoning_free_pred"] == [row["final_decision"]]
        assert row["pubid"] > 90_000_000, "not a real PubMed id"


def test_pubmedqa_decisions_are_balanced() -> None:
    assert Counter(row["final_decision"] for row in rows("pubmedqa/test")) == {"yes": 3, "no": 3, "maybe": 3}
    assert {row["final_decision"] for row in rows("pubmedqa/train")} == DECISIONS


@pytest.mark.parametrize(("name", "column", "low", "high"), [
    ("medtext/train", "Prompt", 50, 110),
    ("medtext/train", "Completion", 60, 130),
    ("medqa_4options/test", "sent1", 50, 100),
    ("medqa_4options/train", "sent1", 50, 100),
])  # fmt: skip
def test_cases_are_of_the_usual_length(name: str, column: str, low: int, high: int) -> None:
    for row in rows(name):
        assert low <= len(row[column].split()) <= high


def test_one_medtext_case_cannot_be_answered() -> None:
    assert sum("cannot be answered" in row["Completion"] for row in rows("medtext/train")) == 1


def test_careqa_open_has_short_and_long_answers() -> None:
    lengths = [len(row["answer"].split()) for row in rows("careqa_open/test")]
    assert sum(length <= 3 for length in lengths) >= 3
    assert sum(length >= 8 for length in lengths) >= 3


def test_no_question_occurs_twice() -> None:
    asked = [normal(question(row)) for name in FILES if name != "careqa_es/test" for row in rows(name)]
    asked += [normal(question(row)) for row in rows("careqa_es/test")]
    assert [text for text, count in Counter(asked).items() if count > 1] == []


def test_spanish_is_spanish() -> None:
    text = " ".join(text for row in rows("careqa_es/test") for text in texts(row))
    assert all(letter in text for letter in "ñáéíóú¿«»")


@pytest.mark.parametrize("sign", [
    "Sjögren", "Ménière", "Behçet", "µg", "mg/dL", "mmol/L", "°C", "≥", "≤", "±", "→", "β-blocker", "α-synuclein",
    "CO₂", "Na⁺", "0.15–0.6 mg/kg", "100%", '"', "'", "/",
])  # fmt: skip
def test_signs_that_break_careless_code_occur(sign: str) -> None:
    assert any(sign in text for text in fields_of_all_rows())


def test_braces_occur_in_questions_and_in_answers() -> None:
    assert any("{" in question(row) and "}" in question(row) for row in rows("medtext/train"))
    assert any("{" in row["answer"] for row in rows("careqa_open/test"))
    assert any("{" in option for row in rows("careqa_es/test") for option in options(row))


@pytest.mark.skipif(not REAL_ROWS.is_dir(), reason="no folder of real rows beside the repository")
def test_no_question_and_no_sentence_is_from_a_real_benchmark() -> None:
    questions = {normal(question(row)) for name in FILES for row in rows(name)}
    stock = ("which of the following", "what is the likely diagnosis")  # how exams ask
    ours = {sentence for text in fields_of_all_rows() for sentence in sentences(text)}
    ours = {sentence for sentence in ours if len(sentence.split()) >= 8 and not sentence.startswith(stock)}
    real: set[str] = set()
    parts: set[str] = set()
    for path in sorted(REAL_ROWS.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for text in (text for line in lines for text in texts(json.loads(line))):
                real.add(normal(text))
                parts.update(sentences(text))
    assert real, "the folder holds no rows"
    assert questions & real == set()
    assert ours & parts == set()
