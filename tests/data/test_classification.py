"""Medical abstracts: five classes, from files in the hub's layout."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.classification import CONDITIONS, LETTERS, best_accuracy, documents
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import Source, load
from support import write_jsonl

(FACTS,) = (facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name == "med_text_classification_easy")


def rows(*pairs: tuple[Any, str | None]) -> list[dict[str, Any]]:
    return [{"condition_label": label, "medical_abstract": text} for label, text in pairs]


SOME = rows((3, "Tremor of the left hand."), (1, "A mass in the thigh."), (5, "Fever of unknown cause."))


def test_a_question() -> None:
    (first, *_) = documents({"test": SOME}, {}).splits["test"]
    assert first == {
        "medical_abstract": "Tremor of the left hand.",
        "option_a": "neoplasms",
        "option_b": "digestive system diseases",
        "option_c": "nervous system diseases",
        "option_d": "cardiovascular diseases",
        "option_e": "general pathological conditions",
        "condition": "nervous system diseases",
        "answer": 2,
    }
    assert len(LETTERS) == len(CONDITIONS) == 5


def test_blank_abstracts_are_left_out_and_counted() -> None:
    prepared = documents({"train": SOME[:1], "test": [*SOME, *rows((2, " \n"), (4, ""))]}, {})
    assert len(prepared.splits["test"]) == 3
    assert prepared.left_out == Counter({"blank_text": 2})
    assert len(prepared.splits["train"]) == 1


def test_an_abstract_under_two_classes_is_told() -> None:
    """Five rows, three texts: of a text with classes 1, 1, 5, two rows can be right; so 4 of 5 in all."""
    several = [*SOME[:2], *rows((1, "Cyst."), (1, " Cyst. "), (5, "Cyst."))]
    assert best_accuracy(several) == pytest.approx(4 / 5)
    prepared = documents({"test": several}, {})
    assert prepared.warnings == [
        "med_text_classification_easy: 1 of 3 distinct abstracts stand under more than one class; no model can score "
        "more than 80.0%"
    ]
    assert len(prepared.splits["test"]) == 5


def test_parquet_as_on_the_hub(tmp_path: Path) -> None:
    place = tmp_path / "med_text_classification_easy"
    place.mkdir()
    for split, part in (("test", SOME), ("train", rows((2, "Pain after meals.")))):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(part), place / f"{split}-00000-of-00001.parquet")
    data = load(FACTS, Source("folder", tmp_path))
    assert (data.eval_split, data.fewshot_split) == ("test", "train")
    assert [d["answer"] for d in data.splits["test"]] == [2, 0, 4]
    assert [d["condition"] for d in data.splits["train"]] == ["digestive system diseases"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"condition_label": 6, "medical_abstract": "x"}, r"row 4: column 'condition_label': .*outside 1\.\.5"),
        ({"condition_label": None, "medical_abstract": "x"}, r"row 4: column 'condition_label'.*null"),
        ({"label": 1, "medical_abstract": "x"}, r"row 4: column 'condition_label' is missing"),
        ({"condition_label": 1}, r"row 4: column 'medical_abstract' is missing"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write_jsonl(tmp_path / "med_text_classification_easy.jsonl", [*SOME, row])
    with pytest.raises(DataError, match=message):
        load(FACTS, Source("folder", tmp_path))


def test_null_abstract_in_a_csv(tmp_path: Path) -> None:
    (tmp_path / "med_text_classification_easy.csv").write_text("condition_label,medical_abstract\n1,Mass.\n2,\n")
    data = load(FACTS, Source("folder", tmp_path))
    assert len(data.splits["test"]) == 1
    assert data.left_out == Counter({"blank_text": 1})


def test_real_rows(shared_rows: Path) -> None:
    """The published test distribution of the classes is 633/299/385/610/961; the rows at hand are a part of it."""
    lines = (shared_rows / "medical_abstracts.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    prepared = documents({"test": found}, {})
    assert [d["answer"] + 1 for d in prepared.splits["test"]] == [row["condition_label"] for row in found]
    assert not prepared.left_out
    assert FACTS.rows["test"] == 633 + 299 + 385 + 610 + 961
