"""No row that is scored is ever shown as an example, in any task, from any source."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts, catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError, read_rows
from lm_eval_healthcare.data.holdout import hold_out
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.task import HealthcareTask
from lm_eval_healthcare.sample import rows_path
from support import write_jsonl

FACTS = [facts_from_config(entry.config) for entry in catalogue(tasks_path()) if entry.kind == "task"]
SHOWING = [facts for facts in FACTS if not facts.name.endswith("_perplexity") or "conditional" in facts.name]
IDS = [facts.name for facts in SHOWING]


def load(name: str, **metadata: Any) -> HealthcareTask:
    return task_manager(metadata=metadata, include_defaults=False).load([name])["tasks"][name]


def asked(task: HealthcareTask, docs: Any) -> set[str]:
    return {str(task.doc_to_text(doc)) for doc in docs}


def shown(task: HealthcareTask) -> list[dict[str, Any]]:
    task.prepare_fewshot(1)
    return list(task._examples or [])


@pytest.mark.parametrize("facts", SHOWING, ids=IDS)
def test_examples_of_the_sample_or_held_out_ones(facts: TaskFacts) -> None:
    task = load(facts.name, data="sample")
    if task._data.fewshot_split is None:
        with pytest.raises(OptionError, match="fewshot_holdout=N"):
            task.prepare_fewshot(1)
        task = load(facts.name, data="sample", fewshot_holdout=3)
    assert shown(task)
    assert not asked(task, shown(task)) & asked(task, task.eval_docs)


@pytest.mark.parametrize("facts", SHOWING, ids=IDS)
def test_examples_that_are_also_scored_are_not_used(facts: TaskFacts, tmp_path: Path) -> None:
    """A data folder whose examples hold every scored row, and those of the sample besides."""
    name = facts.folder_name
    folder = tmp_path / name
    shutil.copytree(rows_path() / name, folder)
    task = load(facts.name, data="sample")
    split = task._data.fewshot_split
    if split is None or facts.name.startswith("pubmedqa"):
        return  # nothing to mix: pubmedqa's own ids divide it
    files = [path for path in folder.iterdir() if path.stem != split]
    rows = [row for path in files for row in read_rows(path)]
    write_jsonl(folder / f"{split}.jsonl", rows + read_rows(folder / f"{split}.jsonl"))
    mixed = load(facts.name, data=str(tmp_path))
    assert shown(mixed)
    assert not asked(mixed, shown(mixed)) & asked(mixed, mixed.eval_docs)


def test_held_out_rows_depend_on_content_alone() -> None:
    rows = [{"text": f"row {n}"} for n in range(50)]
    stay, held = hold_out(rows, 8)
    again, held_again = hold_out(rows[::-1], 8)
    assert len(held) == 8
    assert {json.dumps(row) for row in held} == {json.dumps(row) for row in held_again}
    assert stay == again[::-1]
    copies = [*rows, rows[0], held[0]]
    stay, held = hold_out(copies, 8)
    assert not {json.dumps(row) for row in held} & {json.dumps(row) for row in stay}, "copies stay together"


@pytest.mark.parametrize("n", [10, 11, 5000])
def test_something_must_be_left_to_score(n: int) -> None:
    with pytest.raises(DataError, match="10 distinct rows"):
        load("medtext", data="sample", fewshot_holdout=n)


@pytest.mark.parametrize("value", ["-1", "many", "1.5"])
def test_what_is_no_number_is_told(value: str) -> None:
    with pytest.raises(OptionError, match="expected a number of rows"):
        load("medtext", data="sample", fewshot_holdout=value)


def test_what_is_held_out_is_told() -> None:
    task = load("medtext", data="sample", fewshot_holdout=4)
    assert len(task.eval_docs) == 6
    assert task.provenance["rows"] == {"train": 6, "holdout": 4}
    assert task.provenance["left_out"] == {"held_out_for_fewshot": 4}


def test_the_same_question_with_another_answer_is_the_same(tmp_path: Path) -> None:
    rows = read_rows(rows_path() / "medtext" / "train.jsonl")
    again = [{"Prompt": f"{row['Prompt']} ", "Completion": f"Another answer {n}."} for n, row in enumerate(rows)]
    write_jsonl(tmp_path / "medtext.jsonl", rows + again)
    task = load("medtext", data=str(tmp_path), fewshot_holdout=3)
    words = [{" ".join(text.split()) for text in asked(task, docs)} for docs in (shown(task), task.eval_docs)]
    assert len(shown(task)) == 6
    assert not words[0] & words[1]


def test_the_same_question_with_its_options_in_another_order_is_the_same(tmp_path: Path) -> None:
    scored = read_rows(rows_path() / "medmcqa" / "validation.jsonl")
    turned = [{**row, "opa": row["opd"], "opd": f"{row['opa']} ", "cop": 3 - row["cop"]} for row in scored]
    fresh = read_rows(rows_path() / "medmcqa" / "train.jsonl")
    (tmp_path / "medmcqa").mkdir()
    write_jsonl(tmp_path / "medmcqa" / "validation.jsonl", scored)
    write_jsonl(tmp_path / "medmcqa" / "train.jsonl", turned + fresh)
    task = load("medmcqa", data=str(tmp_path))
    assert [row["question"] for row in shown(task)] == [row["question"] for row in fresh]
