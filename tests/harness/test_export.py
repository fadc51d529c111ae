"""Exported documents are what the harness asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.harness.export import export
from lm_eval_healthcare.sample import rows_path

CREDENTIALED = [task.facts for task in every_task([tasks_path()]) if task.facts.credentialed]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def asked(task: str, metadata: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Prompt and continuations of every request that the harness builds."""
    loaded = task_manager(metadata=metadata, include_defaults=False).load([task])["tasks"][task]
    loaded.build_all_requests()
    by_row: dict[int, tuple[str, list[str]]] = {}
    for instance in sorted(loaded.instances, key=lambda instance: (instance.doc_id, instance.idx)):
        prompt, continuation = instance.arguments[:2]
        by_row.setdefault(instance.doc_id, (prompt, []))[1].append(continuation)
    return list(by_row.values())


@pytest.mark.parametrize("prompt", ["harness", "pack"])
def test_multiple_choice_as_the_harness_asks_it(tmp_path: Path, prompt: str) -> None:
    metadata = {"data": "sample", "prompt": prompt}
    (file,) = export(["careqa_es"], tmp_path, metadata)
    found = lines(file.path)
    assert (file.documents, file.wording, file.source) == (12, prompt, "sample")
    rows = lines(rows_path() / "careqa_es" / "test.jsonl")
    assert [doc["target_index"] for doc in found] == [row["cop"] - 1 for row in rows]
    assert [doc["target"] for doc in found] == ["ABCD"[row["cop"] - 1] for row in rows]
    assert [doc["id"] for doc in found] == [row["unique_id"] for row in rows]
    wanted = asked("careqa_es", metadata)
    assert [(doc["prompt"], [doc["target_delimiter"] + choice for choice in doc["choices"]]) for doc in found] == wanted


def test_open_ended_as_the_harness_asks_it(tmp_path: Path) -> None:
    (file,) = export(["careqa_open"], tmp_path, {"data": "sample"}, limit=3)
    found, rows = lines(file.path), lines(rows_path() / "careqa_open" / "test.jsonl")
    assert [doc["prompt"] for doc in found] == [prompt for prompt, _ in asked("careqa_open", {"data": "sample"})[:3]]
    assert [(doc["row"], doc["target"], doc["choices"], doc["target_index"]) for doc in found] == [
        (number, row["answer"], None, None) for number, row in enumerate(rows[:3])
    ]


def test_no_metric_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default set asks for models that are not here; prompts do not."""
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS", "default")
    (file,) = export(["medtext"], tmp_path, {"data": "sample"}, limit=1)
    assert len(lines(file.path)) == 1


def test_labels_as_targets(tmp_path: Path) -> None:
    (file,) = export(["pubmedqa"], tmp_path, {"data": "sample"})
    for doc in lines(file.path):
        assert doc["choices"][doc["target_index"]] == doc["target"]


def test_examples_are_not_the_question(tmp_path: Path) -> None:
    (plain,) = export(["medqa_4options"], tmp_path / "0", {"data": "sample"})
    (shots,) = export(["medqa_4options"], tmp_path / "2", {"data": "sample"}, num_fewshot=2)
    for zero, two in zip(lines(plain.path), lines(shots.path), strict=True):
        assert two["prompt"].endswith(zero["prompt"])
        assert two["prompt"].count("Answer:") == 3


def test_groups_are_exported_task_by_task(tmp_path: Path) -> None:
    files = export(["healthcare_open"], tmp_path, {"data": "sample"}, limit=1)
    assert {"careqa_open", "medtext"} <= {file.task for file in files}
    assert {path.name for path in tmp_path.iterdir()} == {f"{file.task}.prompts.jsonl" for file in files}


@pytest.mark.parametrize("facts", CREDENTIALED, ids=lambda facts: facts.name)
def test_credentialed_texts_are_not_written_unless_asked(tmp_path: Path, facts: Any) -> None:
    shutil.copytree(rows_path() / facts.folder_name, tmp_path / "data" / facts.folder_name)
    metadata = {"data": str(tmp_path / "data"), "metrics": "ngram"}
    with pytest.raises(UserError, match="--keep-text"):
        export([facts.name], tmp_path / "to", metadata)
    assert not (tmp_path / "to").exists()
    (file,) = export([facts.name], tmp_path / "to", metadata, keep_text=True)
    assert file.documents > 0


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tasks not found: nothing"):
        export(["nothing"], tmp_path, {"data": "sample"})
    with pytest.raises(UserError, match="expected 'hub', 'sample' or an existing folder"):
        export(["medtext"], tmp_path, {"data": str(tmp_path / "none")})
    with pytest.raises(UserError, match="limit"):
        export(["medtext"], tmp_path, {"data": "sample"}, limit=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        export(["medtext"], tmp_path / "file", {"data": "sample"})
    assert {path.name for path in tmp_path.iterdir()} == {"file"}
