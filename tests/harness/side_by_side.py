"""The harness's own version of a task, made to load on rows of ours, beside the pack's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.harness.task import HealthcareTask

TENTHS = {"olaph", "med_text_classification_easy"}  # the harness scores the first tenth of the rows


@contextlib.contextmanager
def _offline(splits: dict[str, datasets.Dataset]) -> Iterator[None]:
    """Give the harness our rows for what it asks of the hub, and nothing for the metrics its modules load at import."""
    with (
        mock.patch("evaluate.load", return_value=None),
        mock.patch("datasets.load_dataset", return_value=datasets.DatasetDict(splits)),
    ):
        yield


def _in_their_columns(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as the harness's data set has it, where the pack's documents have other columns."""
    if name == "pubmedqa":
        return {
            "QUESTION": row["question"],
            "CONTEXTS": row["context"]["contexts"],
            "final_decision": row["final_decision"],
        }
    if name == "mediqa_qa2019":
        answers = [{"Answer": {"AnswerText": text}} for text in row["references"]]
        return {"QUESTION": {"QuestionText": row["question"], "AnswerList": answers}}
    if name == "meddialog_raw_dialogues":
        return {"description": row["description"], "utterances": {"utterance": ["", row["answer"]]}}
    if name == "med_text_classification_easy":
        return {"text": row["medical_abstract"], "class": row["answer"] + 1}
    return row


def both(name: str, data: Path | str, **metadata: Any) -> tuple[HealthcareTask, ConfigurableTask]:
    """Load a task of the pack and the harness's version of it on the same rows."""
    manager = task_manager(metadata={"data": str(data), **metadata}, include_defaults=False)
    ours = manager.load([name])["tasks"][name]
    config = load_yaml(HARNESS_TASKS / ours.facts.harness, resolve_func=False)
    wanted = {config.get(f"{kind}_split") for kind in ("training", "validation", "test", "fewshot")} - {None}
    splits = {}
    for split in wanted:
        scored = ours.dataset[ours._data.eval_split]
        rows = scored if split == config.get("test_split") else ours.dataset.get(split) or scored
        splits[split] = datasets.Dataset.from_list([_in_their_columns(name, row) for row in rows])
    with _offline(splits):
        config = load_yaml(HARNESS_TASKS / ours.facts.harness, resolve_func=True)
        for key in ("tag", "group", *(["process_docs"] if name in TENTHS else [])):
            config.pop(key, None)
        theirs = ConfigurableTask(config=config)
    return ours, theirs
