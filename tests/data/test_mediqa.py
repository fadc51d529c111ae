"""MEDIQA 2019: which answer is the reference, and every layout that its rows come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import mediqa
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

(FACTS,) = (facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name == "mediqa_qa2019")


def answer(number: int, rank: Any, score: Any, text: Any = "") -> dict[str, Any]:
    return {
        "AID": f"7_Answer{number}",
        "SystemRank": number,
        "ReferenceRank": rank,
        "ReferenceScore": score,
        "AnswerURL": f"https://example.org/{number}",
        "AnswerText": f"text {number}" if text == "" else text,
    }


def row(answers: list[dict[str, Any]], qid: str = "7", text: str = "What is a sty?") -> dict[str, Any]:
    wrapped = [{"Answer": one} for one in answers]
    return {"QUESTION": {"QID": qid, "QuestionText": text, "AnswerList": wrapped}}


# The system's first hit is the experts' third and incorrect; text 3 is the experts' first; 2 and 4 are correct as well.
ANSWERS = [answer(1, 3, 2), answer(2, 2, 3), answer(3, 1, 4), answer(4, 4, 3)]


def document(one: dict[str, Any], **options: str) -> dict[str, Any]:
    (only,) = mediqa.documents({"test": mediqa.question(one)}, options).splits["test"]
    return only


def test_the_experts_first_answer_is_the_reference_not_the_systems() -> None:
    assert document(row(ANSWERS)) == {
        "question_id": "7",
        "question": "What is a sty?",
        "answer": "text 3",
        "references": ["text 3"],
    }


def test_good_answers_are_references_with_the_experts_first_in_front() -> None:
    assert document(row(ANSWERS), references="good")["references"] == ["text 3", "text 2", "text 4"]


def test_if_no_answer_is_good_the_experts_first_is_the_only_reference() -> None:
    poor = [answer(1, 2, 1), answer(2, 1, 2)]
    assert document(row(poor), references="good")["references"] == ["text 2"]


def test_equal_good_answers_are_one_reference() -> None:
    twice = [answer(1, 1, 4, "same"), answer(2, 2, 4, "same")]
    assert document(row(twice), references="good")["references"] == ["same"]


@pytest.mark.parametrize(
    "answers", [[], [answer(1, 2, 4)], [answer(1, None, None)], [answer(1, 1, 4, " ")], [answer(1, 1, 4, None)]]
)
def test_questions_without_an_experts_answer_are_counted_and_told(answers: list[dict[str, Any]]) -> None:
    rows = [*mediqa.question(row(answers, qid="8")), *mediqa.question(row(ANSWERS))]
    prepared = mediqa.documents({"test": rows, "validation": rows[:1]}, {})
    assert len(prepared.splits["test"]) == 1
    assert prepared.splits["validation"] == []
    assert prepared.left_out == {"no_expert_answer": 1}  # of the scored split alone
    assert "rank 1: 8" in prepared.warnings[0]


@pytest.mark.parametrize(
    "shape",
    [
        lambda q: {"QUESTION": q},
        lambda q: q,
        lambda q: {"QUESTION": json.dumps(q)},
        lambda q: {"QUESTION": {**q, "AnswerList": [one["Answer"] for one in q["AnswerList"]]}},
        lambda q: {"QUESTION": {**q, "AnswerList": {"Answer": [one["Answer"] for one in q["AnswerList"]]}}},
        lambda q: {
            "QUESTION": {
                **q,
                "AnswerList": {"Answer": {k: [one["Answer"][k] for one in q["AnswerList"]] for k in ANSWERS[0]}},
            }
        },
        lambda q: {"QUESTION": {**q, "AnswerList": json.dumps(q["AnswerList"])}},
    ],
    ids=["struct", "flat", "json", "bare answers", "one Answer list", "dict of lists", "json list"],
)
def test_every_layout_gives_the_same_document(shape: Any) -> None:
    assert document(shape(row(ANSWERS)["QUESTION"])) == document(row(ANSWERS))


def test_ranks_may_be_texts_or_floats() -> None:
    assert document(row([answer(1, "2", "4"), answer(2, 1.0, 3.0)]))["answer"] == "text 2"


@pytest.mark.parametrize(
    ("faulty", "told"),
    [
        ({"QUESTION": {"QID": "1", "QuestionText": "q"}}, "AnswerList missing"),
        ({"QUESTION": {"QID": None, "QuestionText": "q", "AnswerList": []}}, "QID missing"),
        ({"QUESTION": None}, "expected a struct, got NoneType"),
        ({"QUESTION": "no json"}, "not JSON"),
        ({"id": 1}, "QID, QuestionText, AnswerList missing"),
        ({"QUESTION": {"QID": "1", "QuestionText": " ", "AnswerList": []}}, "expected text"),
        ({"QUESTION": {"QID": "1", "QuestionText": "q", "AnswerList": 3}}, "expected a list of answers"),
        ({"QUESTION": {"QID": "1", "QuestionText": "q", "AnswerList": ["x"]}}, "answers as structs"),
        (row([answer(1, "first", 4)]), "ReferenceRank: expected a whole number"),
        (row([answer(1, 1.5, 4)]), "ReferenceRank: expected a whole number"),
        (row([answer(1, 1, 4, 5)]), "AnswerText: expected text"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(faulty: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        mediqa.question(faulty)


# Original files

XML = """<?xml version="1.0" encoding="UTF-8"?>
<MEDIQA2019-Task3-QA-TestSet>
\t<Question QID="5">
\t\t<QuestionText>Sore throat &amp; fever: what can I do?</QuestionText>
\t\t<AnswerList>
\t\t\t<Answer AID="5_Answer1" SystemRank="1" ReferenceRank="2" ReferenceScore="3">
\t\t\t\t<AnswerURL>https://example.org/a</AnswerURL>
\t\t\t\t<AnswerText>Rest.</AnswerText>
\t\t\t</Answer>
\t\t\t<Answer AID="5_Answer2" SystemRank="2" ReferenceRank="1" ReferenceScore="4">
\t\t\t\t<AnswerURL>https://example.org/b</AnswerURL>
\t\t\t\t<AnswerText>Rest and drink; see a doctor if it gets worse.</AnswerText>
\t\t\t</Answer>
\t\t</AnswerList>
\t</Question>
</MEDIQA2019-Task3-QA-TestSet>
"""


def test_an_original_xml_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "mediqa_qa2019").mkdir()
    (tmp_path / "mediqa_qa2019" / "test.xml").write_text(XML, encoding="utf-8")
    (only,) = load(FACTS, Source("folder", tmp_path)).splits["test"]
    assert only["question"] == "Sore throat & fever: what can I do?"
    assert only["answer"] == "Rest and drink; see a doctor if it gets worse."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            XML.replace("<MEDIQA", '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>\n<MEDIQA', 1),
            r"line 2: .*DOCTYPE",
        ),
        (XML.replace("</AnswerList>", "", 1), r"line \d+, column \d+: not readable as XML"),
        ("<a/>", "no <Question>"),
        ("", "not readable as XML"),
    ],
)
def test_what_is_wrong_with_an_xml_file_is_said(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "test.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=told):
        mediqa.read_xml(path)


def test_an_xml_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.xml"
    path.write_bytes(XML.encode("utf-16"))
    with pytest.raises(DataError, match="not UTF-8"):
        mediqa.read_xml(path)
    with pytest.raises(DataError, match="no such file"):
        mediqa.read_xml(tmp_path / "absent.xml")


# The hub's layout


def parquet(root: Path, split: str, rows: list[dict[str, Any]]) -> None:
    folder = root / "bigbio" / "mediqa_qa@refs%2Fconvert%2Fparquet" / "mediqa_qa_source" / split
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "0000.parquet")


def test_the_hubs_parquet_files(hub_copy: Path) -> None:
    parquet(hub_copy, "test", [row(ANSWERS, qid=str(n)) for n in range(3)])
    parquet(hub_copy, "validation", [row(ANSWERS, qid="v")])
    parquet(hub_copy, "train_live_qa_med", [row(ANSWERS, qid="t", text="Another question?")])
    data = load(FACTS, parse_source("hub"))
    assert [d["answer"] for d in data.splits["test"]] == ["text 3"] * 3
    assert (data.eval_split, data.fewshot_split) == ("test", "train_live_qa_med")
    assert "3 rows in split 'test' where the published benchmark has 150" in " ".join(data.warnings)


def test_a_hub_without_first_ranks_says_what_is_left_out(hub_copy: Path) -> None:
    parquet(hub_copy, "test", [row([answer(1, 2, 4)])])
    parquet(hub_copy, "validation", [row(ANSWERS)])
    parquet(hub_copy, "train_live_qa_med", [row(ANSWERS)])
    with pytest.raises(DataError, match="no_expert_answer: 1"):
        load(FACTS, parse_source("hub"))


def test_a_folder_names_file_and_row_of_a_fault(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "mediqa_qa2019.jsonl", [row(ANSWERS), {"QUESTION": {"QID": "1"}}])
    with pytest.raises(DataError, match=r"mediqa_qa2019.jsonl, row 2: QuestionText, AnswerList missing"):
        load(FACTS, Source("folder", tmp_path))


def test_published_facts_on_real_rows(shared_rows: Path) -> None:
    """In 86 of the 150 test questions the first hit is not the experts' first, and in 26 it is incorrect.

    Counted in the challenge's own file; of the half of it (every second question) the counts are 40 and 12 of 75.
    """
    lines = (shared_rows / "mediqa_qa2019.jsonl").read_text("utf-8").split("\n")
    rows = [shaped for line in lines if line for shaped in mediqa.question(json.loads(line))]
    prepared = mediqa.documents({"test": rows}, {"references": "good"})
    documents = prepared.splits["test"]
    assert len(documents) == len(rows)
    other = sum(d["answer"] != r["answers"][0]["text"] for d, r in zip(documents, rows, strict=True))
    incorrect = sum(r["answers"][0]["text"] not in d["references"] for d, r in zip(documents, rows, strict=True))
    assert {75: (40, 12), 150: (86, 26)}[len(rows)] == (other, incorrect)
