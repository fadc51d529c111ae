"""Which rows ask the same, and that rows which do are never on both sides of a hold-out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.data.holdout import hold_out, question_columns, question_key
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.data.source import Source, load, parse_source
from support import write_jsonl

FACTS = {task.facts.name: task.facts for task in every_task([tasks_path()])}
PLAIN = TaskFacts("t", "T", doc_to_text="question")


@pytest.mark.parametrize(
    ("template", "columns"),
    [
        ("question", ("question",)),
        ("Q: {{ question }} A:", ("question",)),
        ("{{question.strip()}} {{choices[0]}} {{choices[1]}}", ("question.strip", "choices")),
        ("{{context.contexts | join('\\n')}} {{ question }}", ("context.contexts", "question")),
        ("{% for option in options %}{{ option }} {{ title }}{% endfor %}", ("options", "title")),
        ("{{ 'Q: ' ~ question }}{% if hint %} {{ hint }}{% endif %}", ("question", "hint")),
        ("{{ broken", ()),
    ],
)
def test_columns_that_a_template_names(template: str, columns: tuple[str, ...]) -> None:
    assert question_columns(replace(PLAIN, doc_to_text=template)) == columns


def test_the_fields_of_the_harness_where_the_yaml_has_no_template() -> None:
    assert question_columns(replace(PLAIN, doc_to_text=None, harness_template={"fields": ["a", "b"]})) == ("a", "b")
    assert question_columns(replace(PLAIN, doc_to_text=None)) == ()


def test_every_task_of_the_pack_names_columns_that_its_documents_have() -> None:
    for facts in FACTS.values():
        data = load(facts, parse_source("sample"))
        columns = {column.partition(".")[0] for column in question_columns(facts)}
        assert columns, facts.name
        assert columns <= set(data.splits[data.eval_split][0]), facts.name


def test_what_is_the_same_question() -> None:
    assert question_key({"question": "Is it\n so? ", "answer": "yes"}, PLAIN) == question_key(
        {"question": "Is it so?", "answer": "no", "id": 3}, PLAIN
    )
    assert question_key({"question": "Is it so?"}, PLAIN) != question_key({"question": "Is it not so?"}, PLAIN)
    struct = replace(PLAIN, doc_to_text="{{context.contexts}} {{question.strip()}}")
    row = {"context": {"contexts": ["a  b"], "labels": ["X"]}, "question": "?"}
    assert question_key(row, struct) == question_key({"context": {"contexts": ["a b"]}, "question": "?"}, struct)
    assert question_key(row, struct) != question_key({"context": {"contexts": ["a", "b"]}, "question": "?"}, struct)


def test_a_row_without_the_columns_is_its_own_question() -> None:
    assert question_key({"text": "a"}, PLAIN) != question_key({"text": "b"}, PLAIN)
    function = replace(PLAIN, doc_to_text=None)
    assert question_key({"question": "a", "x": 1}, function) != question_key({"question": "a", "x": 2}, function)


def test_equal_questions_with_other_answers_stay_together() -> None:
    rows = [{"question": f"question {n % 5}", "answer": f"answer {n}"} for n in range(15)]  # five questions, three each
    stay, held = hold_out(rows, 2, lambda row: question_key(row, PLAIN))
    assert (len(stay), len(held)) == (9, 6)
    assert not {row["question"] for row in stay} & {row["question"] for row in held}
    with pytest.raises(ValueError, match="there are 5 distinct rows"):
        hold_out(rows, 5, lambda row: question_key(row, PLAIN))


def test_equal_prompts_of_medtext_are_not_shown_and_scored(tmp_path: Path) -> None:
    rows = [{"Prompt": f"Record {n % 4}.", "Completion": f"Assessment {n}."} for n in range(12)]
    write_jsonl(tmp_path / "medtext.jsonl", rows)
    for n in (1, 2, 3):
        data = load(FACTS["medtext"], Source("folder", tmp_path), holdout=n)
        held, scored = data.splits["holdout"], data.splits[data.eval_split]
        assert (len(held), len(scored)) == (3 * n, 12 - 3 * n)
        assert not {row["Prompt"] for row in held} & {row["Prompt"] for row in scored}
