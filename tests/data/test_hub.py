"""Which files of the hub are read at a revision that was asked for, and what is known of them afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import hub
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.data.fetch import fetch
from lm_eval_healthcare.data.manifest import read_manifest
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.data.source import load, parse_source
from support import write_jsonl

FACTS = {task.facts.name: task.facts for task in every_task([tasks_path()])}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def files(name: str, revision: str | None) -> dict[str, str]:
    return hub.load_arguments(FACTS[name], {"revision": revision} if revision else {})["data_files"]


def test_a_revision_becomes_part_of_the_files_addresses() -> None:
    assert files("olaph", COMMIT)["live_qa"] == f"hf://datasets/dmis-lab/MedLFQA@{COMMIT}/live_qa*.jsonl"
    assert all("mkieffer/ACI-Bench@v1/" in file for file in files("aci_bench", "v1").values())
    assert files("olaph", "refs/pr/3")["live_qa"] == "hf://datasets/dmis-lab/MedLFQA@refs%2Fpr%2F3/live_qa*.jsonl"
    assert "revision" not in hub.load_arguments(FACTS["olaph"], {"revision": COMMIT})


def test_the_revision_of_the_yaml_is_replaced_only_if_one_is_asked_for() -> None:
    test = "hf://datasets/bigbio/mediqa_qa@{}/mediqa_qa_source/test/*.parquet"
    assert files("mediqa_qa2019", None)["test"] == test.format("refs%2Fconvert%2Fparquet")
    assert files("mediqa_qa2019", COMMIT)["test"] == test.format(COMMIT)


def test_other_ways_to_name_files() -> None:
    facts = TaskFacts("t", "T", dataset_path="json", hub_kwargs={"data_files": ["hf://datasets/a/b/x.json", "y.json"]})
    told = hub.load_arguments(facts, {"revision": "r"})
    assert told == {"data_files": ["hf://datasets/a/b@r/x.json", "y.json"]}
    plain = hub.load_arguments(FACTS["careqa_en"], {"revision": "r", "trust_remote_code": True})
    assert plain == {"revision": "r"}, "a set that `datasets` finds by its name has the revision as an argument"


@pytest.mark.parametrize(
    ("asked", "checksums", "known"),
    [
        (None, {}, None),
        ("main", {}, None),
        (COMMIT, {}, COMMIT),
        ("main", {f"hf://datasets/HPAI-BSC/CareQA@{COMMIT}/test.json": {}}, COMMIT),
    ],
)
def test_only_a_commit_is_recorded(asked: str | None, checksums: dict[str, Any], known: str | None) -> None:
    rows = datasets.Dataset.from_list([{"question": "?", "answer": "!"}])
    rows.info.download_checksums = checksums
    with mock.patch("datasets.load_dataset", return_value=datasets.DatasetDict(test=rows)):
        data = load(FACTS["careqa_open"], parse_source("hub"), {"revision": asked} if asked else {})
    assert data.provenance["revision"] == known
    assert data.provenance.get("asked_revision") == asked


def test_files_that_are_not_of_the_hub_have_no_commit() -> None:
    facts = replace(FACTS["careqa_open"], dataset_path="json", hub_kwargs={"data_files": {"test": "rows.jsonl"}})
    rows = datasets.Dataset.from_list([{"question": "?", "answer": "!"}])
    with mock.patch("datasets.load_dataset", return_value=datasets.DatasetDict(test=rows)):
        assert load(facts, parse_source("hub"), {"revision": COMMIT}).provenance["revision"] is None


def test_rows_at_a_revision_are_read_and_recorded(hub_copy: Path, tmp_path: Path) -> None:
    row = {"Question": "", "Free_form_answer": "Yes.", "Must_have": ["a"], "Nice_to_have": ["b"]}
    for place in ("MedLFQA", f"MedLFQA@{COMMIT}"):
        for source in ("healthsearch_qa", "kqa_golden", "kqa_silver_wogold", "live_qa", "medication_qa"):
            write_jsonl(hub_copy / "dmis-lab" / place / f"{source}_test.jsonl", [{**row, "Question": f"{place}?"}])
    data = load(FACTS["olaph"], parse_source("hub"), {"revision": COMMIT})
    assert {document["Question"] for document in data.splits["test"]} == {f"MedLFQA@{COMMIT}?"}
    assert data.provenance["revision"] == COMMIT
    assert f"@{COMMIT}/" in data.provenance["data_files"]["live_qa"]

    (found,) = fetch([FACTS["olaph"]], tmp_path / "to", revision=COMMIT)
    assert (found.state, found.revision) == ("fetched", COMMIT)
    manifest = read_manifest(tmp_path / "to")
    assert manifest is not None
    origin = manifest.entries["olaph/live_qa.jsonl"].origin
    assert (origin["revision"], origin["asked_revision"]) == (COMMIT, COMMIT)
    assert f"@{COMMIT}/" in origin["arguments"]["data_files"]["live_qa"]
    assert fetch([FACTS["olaph"]], tmp_path / "to", revision=COMMIT)[0].state == "already there"
    assert fetch([FACTS["olaph"]], tmp_path / "to")[0].state == "fetched"
