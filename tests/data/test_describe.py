"""Statistics of rows, counted by hand on a small invented exam and by other means on real rows."""

from __future__ import annotations

import collections
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.describe import blank_cells, count_words, describe, measure
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.questions import LAYOUTS, Layout, layout_of, questions
from lm_eval_healthcare.data.selection import Task, every_task
from lm_eval_healthcare.data.source import load, parse_source
from lm_eval_healthcare.data.token_lengths import token_counter

CAREQA = LAYOUTS[0]


def row(question: str, options: str, cop: int, category: str | None, year: int | None, **more: Any) -> dict[str, Any]:
    names = ("op1", "op2", "op3", "op4")
    cells = dict(zip(names, options.split("|"), strict=True))
    return {"question": question, **cells, "cop": cop, "category": category, "year": year, **more}


# Questions have 3, 5, 3 and 4 words; right options 1 ("aorta"), 2 ("the liver"), 1 ("Aorta"), 1 ("no").
EXAM = [
    row("Which is right?", "aorta|vein|vein|nerve", 1, "Anatomy", 2020, note=None),
    row("What makes a patient's bile?", "skin|the liver|bone|eye", 2, "Physiology", 2020, note="x"),
    row("Which  is right?", "eye|ear|Aorta|nose", 3, "Anatomy", 2021, note=" "),
    row("Is beta-blocker use safe?", "yes|no|no|maybe", 2, "Physiology", 2021, note=""),
]


def described(documents: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
    found = describe(questions(documents, CAREQA), CAREQA, documents, **kwargs)
    json.dumps(found, allow_nan=False)
    return found


def test_lengths_of_a_hand_counted_exam() -> None:
    found = described(EXAM)
    assert (found["rows"], found["unit"]) == (4, "words")
    question, answer = found["length"]["question"], found["length"]["answer"]
    assert (question["n"], question["mean"], question["median"]) == (4, 15 / 4, 3.5)
    assert (question["longest"], question["longest_row"]) == (5, 2)
    assert (answer["n"], answer["mean"], answer["longest"], answer["longest_row"]) == (4, 5 / 4, 2, 2)
    assert found["length"]["option"]["n"] == 16
    assert found["length"]["option"]["mean"] == 17 / 16  # "the liver" has two words, all others one


def test_vocabulary_takes_case_as_one() -> None:
    # which is right what makes a patient's bile beta-blocker use safe | aorta vein nerve skin the liver bone eye ear
    # nose yes no maybe
    assert described(EXAM)["vocabulary"] == 11 + 13
    assert described(EXAM)["by_category"]["Anatomy"]["vocabulary"] == 3 + 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" \n\t", 0),
        ("... !", 0),
        ("patient's beta-blocker", 2),
        ("beta - blocker", 2),
        ("5.2 mmol/L", 4),
        ("año niño", 2),
        ("ano\u0303 x", 2),
        ("α-helix β₂", 2),
        ("血压 很高", 2),
        ("don’t", 1),
    ],
)
def test_what_a_word_is(text: str, words: int) -> None:
    assert count_words([text]) == [words]


def test_categories_and_years() -> None:
    found = described(EXAM)
    assert found["by_year"] == {"2020": 2, "2021": 2}
    assert found["by_category_and_year"] == {
        "Anatomy": {"2020": 1, "2021": 1},
        "Physiology": {"2020": 1, "2021": 1},
    }
    assert {name: (c["rows"], c["share"]) for name, c in found["by_category"].items()} == {
        "Anatomy": (2, 0.5),
        "Physiology": (2, 0.5),
    }


def test_rows_without_category_or_year_are_counted_last() -> None:
    found = described([*EXAM, row("Who?", "a|b|c|d", 4, None, None), row("Whom?", "a|b|c|d", 4, " ", 2020)])
    assert list(found["by_category"]) == ["Anatomy", "Physiology", "(none)"]
    assert found["by_category"]["(none)"]["rows"] == 2
    assert found["by_year"] == {"2020": 3, "2021": 2, "(none)": 1}
    assert found["by_category_and_year"]["(none)"] == {"2020": 1, "2021": 0, "(none)": 1}


def test_gold_positions() -> None:
    found = described([*EXAM, row("Who?", "a|b|c|d", 9, "Anatomy", 2020)])["gold_positions"]
    assert found == {"counts": {"A": 1, "B": 2, "C": 1, "D": 0}, "unknown": 1, "largest_share": 0.5}


def test_repeated_questions() -> None:
    again = described([*EXAM, dict(EXAM[0])])["duplicate_questions"]
    # Rows 1, 3 and 5 ask "Which is right?" (white space aside); row 5 also has the options and answer of row 1.
    assert (again["surplus"], again["questions"], again["surplus_with_same_options_and_answer"]) == (2, 1, 1)
    assert again["most_frequent"] == [{"question": "Which is right?", "times": 3, "row_numbers": [1, 3, 5]}]
    assert "question" not in described(EXAM, show_text=False)["duplicate_questions"]["most_frequent"][0]


def test_identical_options() -> None:
    # Row 1 has "vein" twice, row 4 has "no" twice, and there one of them is the right one.
    assert described(EXAM)["identical_options"] == {"rows": 2, "right_one_among_them": 1, "row_numbers": [1, 4]}


def test_blank_cells() -> None:
    assert described(EXAM)["blank"]["note"] == 3
    assert described(EXAM)["blank"]["question"] == 0
    assert blank_cells([{"a": []}, {"b": {}}, {"a": float("nan"), "b": 0}]) == {"a": 3, "b": 2}


def test_nothing_and_one_row() -> None:
    empty = described([])
    assert empty["rows"] == 0
    assert empty["length"]["question"] == {"n": 0, "mean": None, "median": None, "longest": None, "longest_row": None}
    assert empty["gold_positions"]["largest_share"] is None
    assert described(EXAM[:1])["length"]["question"]["mean"] == 3


def test_a_very_long_cell() -> None:
    long = row("word " * 20_000, "a|b|c|d", 1, "Anatomy", 2020)  # 100,000 characters
    assert described([long])["length"]["question"]["longest"] == 20_000
    repeated = described([long, long])["duplicate_questions"]["most_frequent"][0]["question"]
    assert len(repeated) == 80


def test_open_ended_with_several_answers() -> None:
    layout = Layout("ask", answer="refs")
    rows = [{"ask": "Why so?", "refs": ["one two", "three"]}, {"ask": "How?", "refs": []}]
    found = describe(questions(rows, layout), layout, rows)
    assert found["length"]["answer"]["n"] == 2
    assert found["length"]["answer"]["mean"] == 1.5
    assert found["gold_positions"] is None
    assert found["identical_options"] is None


def test_labels_in_place_of_options() -> None:
    documents = [{"question": "Does it?", "final_decision": d} for d in ("no", "yes", "no", "perhaps")]
    layout = layout_of(documents[0], "pubmedqa")
    found = describe(questions(documents, layout), layout, documents)
    assert found["gold_positions"] == {
        "counts": {"yes": 1, "no": 2, "maybe": 0},
        "unknown": 1,
        "largest_share": 2 / 3,
    }
    assert found["identical_options"] is None


@pytest.mark.parametrize("task", every_task([tasks_path()]), ids=lambda task: task.facts.name)
def test_the_columns_of_every_task_are_known(task: Task) -> None:
    data = load(task.facts, parse_source("sample"))
    documents = list(data.splits[data.eval_split])
    found = questions(documents, layout_of(documents[0], task.facts.name, task.config))
    assert all(question.text.strip() for question in found)
    assert any(answer.strip() for question in found for answer in question.answers)


def test_columns_of_a_users_own_task() -> None:
    document = {"frage": "Warum?", "antwort": "Darum.", "fach": "Innere"}
    templates = {"doc_to_text": "{{ frage }}", "doc_to_target": "antwort"}
    assert questions([document], layout_of(document, "mine", templates))[0].answers == ("Darum.",)
    named = layout_of(document, "mine", {}, {"question": "frage", "answer": "antwort", "category": "fach"})
    assert questions([document], named)[0].category == "Innere"
    with pytest.raises(DataError, match="--question COLUMN"):
        layout_of(document, "mine", {"doc_to_text": "Q: {{frage}}"})
    with pytest.raises(DataError, match=r"no column 'answer'.*frage, antwort, fach"):
        layout_of(document, "mine", templates, {"answer": "answer"})


def test_tokens_of_a_local_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "which": 2, "is": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", None, [("[CLS]", 1)])
    tokenizer.enable_truncation(2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        count, unit = token_counter(path)
        # Words and punctuation, no [CLS], nothing cut off: which, is, it, ?
        assert count(["which is it?", ""]) == [4, 0]
        assert unit == f"tokens of {tmp_path.name}"


def test_a_tokenizer_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="on this machine"):
        token_counter(tmp_path / "org" / "model")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="not readable as a tokenizer"):
        token_counter(tmp_path)


def test_real_careqa_rows_against_the_standard_library(shared_rows: Path) -> None:
    text = (shared_rows / "careqa_en.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    found = described(rows)
    # An independent count: Python's own regular expressions, in which \w has the letters, digits and underscore.
    lengths = [len(re.findall(r"\w+(?:['’-]\w+)*", row["question"])) for row in rows]
    assert not any("_" in row["question"] for row in rows)
    assert found["length"]["question"]["mean"] == pytest.approx(statistics.fmean(lengths))
    assert found["length"]["question"]["longest"] == max(lengths)
    golds = [len(re.findall(r"\w+(?:['’-]\w+)*", row[f"op{row['cop']}"])) for row in rows]
    assert found["length"]["answer"]["mean"] == pytest.approx(statistics.fmean(golds))
    cops = collections.Counter(row["cop"] for row in rows)
    assert found["gold_positions"]["counts"] == {"A": cops[1], "B": cops[2], "C": cops[3], "D": cops[4]}
    pairs = collections.Counter((row["category"], str(row["year"])) for row in rows)
    assert {
        (category, year): n for category, years in found["by_category_and_year"].items() for year, n in years.items()
    } == pairs
    assert found["duplicate_questions"]["surplus"] == len(rows) - len({row["question"].strip() for row in rows})
    same = sum(len({row[f"op{n}"].strip() for n in range(1, 5)}) < 4 for row in rows)
    assert found["identical_options"]["rows"] == same


def test_measure_keeps_rows_apart() -> None:
    layout = Layout("ask", answer="refs")
    rows = questions([{"ask": "a b", "refs": ["c", "d e"]}, {"ask": "f", "refs": []}], layout)
    assert measure(rows) == {"question": [[2], [1]], "answer": [[1, 2], []], "option": [[], []]}
