"""Copying rows into a folder: a local data set stands in for the hub, read by the real `datasets` library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data import hub
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.data.fetch import fetch, splits_read
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.manifest import read_manifest
from lm_eval_healthcare.data.selection import every_task
from lm_eval_healthcare.data.source import Source, load, parse_source
from lm_eval_healthcare.sample import rows_path
from support import child_environment, write_jsonl

FACTS = {task.facts.name: task.facts for task in every_task([tasks_path()])}


def stand_in(place: Path, name: str, rename: dict[str, str] | None = None) -> TaskFacts:
    """A task whose hub set is a folder of the packaged rows."""
    facts = FACTS[name]
    for file in (rows_path() / facts.folder_name).iterdir():
        rows = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
        write_jsonl(place / facts.folder_name / f"{(rename or {}).get(file.stem, file.stem)}.jsonl", rows)
    return replace(facts, dataset_path=str(place / facts.folder_name), dataset_name=None, hub_kwargs={}, rows={})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


@pytest.mark.parametrize("extension", ["jsonl", "parquet"])
def test_the_folder_gives_the_same_documents_as_the_hub(tmp_path: Path, extension: str) -> None:
    facts = stand_in(tmp_path / "hub", "medqa_4options")
    (found,) = fetch([facts], tmp_path / "to", extension=extension)
    assert (found.state, found.problem, found.warnings) == ("fetched", "", [])
    assert found.rows == {"test": 10, "train": 4}
    from_hub, from_folder = load(facts, parse_source("hub")), load(facts, Source("folder", tmp_path / "to"))
    assert list(from_folder.splits["test"]) == list(from_hub.splits["test"])
    assert list(from_folder.splits["train"]) == list(from_hub.splits["train"])
    assert (from_folder.eval_split, from_folder.fewshot_split) == (from_hub.eval_split, from_hub.fewshot_split)


def test_the_manifest_says_where_rows_come_from(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "careqa_en")
    fetch([facts], tmp_path / "to")
    manifest = read_manifest(tmp_path / "to")
    assert manifest is not None
    (entry,) = manifest.entries.values()
    assert (entry.path, entry.tasks, entry.split, entry.rows) == ("careqa_en/test.jsonl", ("careqa_en",), "test", 12)
    assert entry.licence == "Apache-2.0"
    assert entry.origin == {"hub": facts.dataset_path, "config": None, "asked_revision": None, "revision": None}


def test_only_splits_that_are_read(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "medmcqa")
    rows = [{"id": "x", "question": "?", "opa": "", "opb": "", "opc": "", "opd": "", "cop": -1}]
    write_jsonl(tmp_path / "hub" / "medmcqa" / "test.jsonl", rows)  # as on the hub, without labels
    (found,) = fetch([facts], tmp_path / "to")
    assert set(found.rows) == {"validation", "train"}


def test_splits_that_tasks_read() -> None:
    facts = TaskFacts("t", "T", eval_split="test", flat_split="test", fewshot_splits=("dev",))
    assert splits_read(facts, ["train", "dev", "test", "extra"]) == ["test", "dev"]
    assert splits_read(facts, ["train", "test"]) == ["test", "train"]
    assert splits_read(replace(facts, read=("test1", "train")), ["train", "test1", "test2"]) == ["test1", "train"]
    assert splits_read(replace(facts, eval_split="test", flat_split="train"), ["train"]) == ["train"]
    assert splits_read(facts, ["odd"]) == []


def test_what_is_whole_is_not_fetched_again(tmp_path: Path) -> None:
    facts = [stand_in(tmp_path / "hub", name) for name in ("careqa_en", "medqa_4options")]
    fetch(facts, tmp_path / "to")
    with mock.patch.object(hub, "fetch", side_effect=AssertionError("the hub was asked")):
        again = fetch(facts, tmp_path / "to")
    assert [(f.state, sum(f.rows.values())) for f in again] == [("already there", 12), ("already there", 14)]


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_what_is_not_whole_is_fetched_again(tmp_path: Path, damage: str) -> None:
    facts = stand_in(tmp_path / "hub", "medqa_4options")
    fetch([facts], tmp_path / "to")
    file = tmp_path / "to" / "medqa_4options" / "test.jsonl"
    whole = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(whole[:-100] if damage == "cut" else whole.replace(b"a", b"b", 1))
    (found,) = fetch([facts], tmp_path / "to")
    assert (found.state, file.read_bytes()) == ("fetched", whole)


def test_another_revision_or_format_is_fetched_anew(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "medqa_4options")
    fetch([facts], tmp_path / "to")
    (parquet,) = fetch([facts], tmp_path / "to", extension="parquet")
    assert parquet.state == "fetched"
    assert {p.name for p in (tmp_path / "to" / "medqa_4options").iterdir()} == {"test.parquet", "train.parquet"}
    splits, asked = hub.fetch(facts), []

    def revised(_: TaskFacts, kwargs: dict[str, Any]) -> tuple[dict[str, Any], str]:
        asked.append(kwargs)
        return {"test": splits[0]["test"].select(range(3))}, "f" * 40

    with mock.patch.object(hub, "fetch", revised):
        (found,) = fetch([facts], tmp_path / "to", revision="v2", extension="parquet")
    assert asked == [{"revision": "v2"}]
    assert (found.revision, found.rows) == ("f" * 40, {"test": 3})
    # The split that the newer revision does not have is gone too: rows of two revisions must not mix.
    assert {p.name for p in (tmp_path / "to" / "medqa_4options").iterdir()} == {"test.parquet"}


def test_tasks_that_share_rows_get_one_copy(tmp_path: Path) -> None:
    first = stand_in(tmp_path / "hub", "careqa_en")
    second = replace(first, name="mine", rows_name="careqa_en")
    with mock.patch.object(hub, "fetch", side_effect=hub.fetch) as asked:
        (found,) = fetch([first, second], tmp_path / "to")
    assert (found.name, found.tasks, asked.call_count) == ("careqa_en", ("careqa_en", "mine"), 1)
    other = replace(second, dataset_path="somebody/else")
    (found,) = fetch([first, other], tmp_path / "to2")
    assert found.state == "failed"
    assert "different folders" in found.problem


def test_tasks_without_a_hub_are_skipped_and_the_others_fetched(tmp_path: Path) -> None:
    good = stand_in(tmp_path / "hub", "careqa_en")
    secret = replace(good, name="secret", rows_name="secret", credentialed=True)
    homeless = replace(good, name="homeless", rows_name="homeless", dataset_path=None)
    found = {f.name: f for f in fetch([secret, homeless, good], tmp_path / "to")}
    assert {name: f.state for name, f in found.items()} == {
        "secret": "skipped",
        "homeless": "skipped",
        "careqa_en": "fetched",
    }
    assert "credentials" in found["secret"].problem
    assert "data prepare homeless" in found["homeless"].problem
    assert not (tmp_path / "to" / "secret").exists()


def test_a_gated_set_names_the_remedy(tmp_path: Path) -> None:
    facts = replace(FACTS["careqa_en"], gated=True)
    error = datasets.exceptions.DatasetNotFoundError("Dataset 'x' is a gated dataset on the Hub.")
    with mock.patch.object(datasets, "load_dataset", side_effect=error):
        (found,) = fetch([facts], tmp_path / "to")
    assert found.state == "failed"
    assert "accept its terms on its hub page" in found.problem
    assert "hf auth login" in found.problem


def test_a_hub_that_is_not_there_is_told(tmp_path: Path) -> None:
    (found,) = fetch([FACTS["careqa_en"]], tmp_path / "to")  # the real library, offline
    assert found.state == "failed"
    assert "could not be loaded from the hub" in found.problem


def test_splits_that_nobody_reads(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "careqa_en")
    found_by_hub = {"odd": datasets.Dataset.from_list([{"a": 1}])}
    with mock.patch.object(hub, "fetch", return_value=(found_by_hub, None)):
        (found,) = fetch([facts], tmp_path / "to")
    assert found.state == "failed"
    assert "odd" in found.problem


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "careqa_en")
    mine = tmp_path / "to" / "careqa_en.csv"
    mine.parent.mkdir()
    mine.write_text("question\nmine\n")
    (found,) = fetch([facts], tmp_path / "to")
    assert (found.state, mine.read_text()) == ("failed", "question\nmine\n")
    assert "careqa_en.csv is in the way" in found.problem


CHILD = """
import sys, time
from dataclasses import replace
from pathlib import Path
from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.fetch import fetch
from lm_eval_healthcare.data.selection import select
facts = select(["medqa_4options"], [tasks_path()])[0].facts
facts = replace(facts, dataset_path=sys.argv[1], dataset_name=None, rows={})
def slow(rows, label):
    for number, row in enumerate(rows):
        if label.endswith(sys.argv[3]) and number == 2:
            print("half way", flush=True)
            time.sleep(60)
        yield row
fetch([facts], Path(sys.argv[2]), progress=slow)
"""


@pytest.mark.parametrize(("killed_in", "whole"), [("test", set()), ("train", {"test"})])
def test_kill_and_continue(tmp_path: Path, killed_in: str, whole: set[str]) -> None:
    facts = stand_in(tmp_path / "hub", "medqa_4options")
    to = tmp_path / "to"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(facts.dataset_path), str(to), killed_in],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=child_environment(HF_HOME=str(tmp_path / "home"), HF_HUB_OFFLINE="1"),
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "half way\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    manifest = read_manifest(to)
    assert {entry.split for entry in manifest.entries.values()} == whole if manifest else not whole
    assert [p.name for p in (to / "medqa_4options").glob("*.part")] == [f"{killed_in}.jsonl.{child.pid}.part"]
    (found,) = fetch([facts], to)
    assert (found.state, found.rows) == ("fetched", {"test": 10, "train": 4})
    assert {p.name for p in (to / "medqa_4options").iterdir()} == {"test.jsonl", "train.jsonl"}


def test_a_known_commit_is_continued_and_not_begun_again(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "medqa_4options")
    splits, _ = hub.fetch(facts)
    labels: list[str] = []

    def progress(rows: Any, label: str) -> Any:
        labels.append(label)
        if label.endswith("train") and len(labels) == 2:
            raise DataError("the connection broke")
        return rows

    with mock.patch.object(hub, "fetch", return_value=(splits, "a" * 40)):
        assert fetch([facts], tmp_path / "to", progress=progress)[0].state == "failed"
        assert fetch([facts], tmp_path / "to", progress=progress)[0].state == "fetched"
    assert labels == [f"medqa_4options/{split}" for split in ("test", "train", "train")]


def test_rows_that_the_other_machine_could_not_use_are_told_now(tmp_path: Path) -> None:
    facts = stand_in(tmp_path / "hub", "careqa_en")
    file = tmp_path / "hub" / "careqa_en" / "test.jsonl"
    file.write_text(file.read_text("utf-8").replace('"cop": 1', '"cop": 9'), "utf-8")
    (found,) = fetch([facts], tmp_path / "to")
    assert found.state == "failed"
    assert "expected int 1..4, got 9" in found.problem


def test_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="a file is where a folder is needed"):
        fetch([stand_in(tmp_path / "hub", "careqa_en")], tmp_path / "file")


def test_a_full_disk_ends_the_work_and_keeps_what_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [stand_in(tmp_path / "hub", name) for name in ("careqa_en", "medqa_4options", "careqa_es")]
    sync = os.fsync

    def full(descriptor: int) -> None:
        if "medqa" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    found = fetch(facts, tmp_path / "to")
    assert [f.state for f in found] == ["fetched", "failed"]
    assert "disk is full" in found[1].problem
    assert list((tmp_path / "to" / "medqa_4options").iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    assert [f.state for f in fetch(facts, tmp_path / "to")] == ["already there", "fetched", "fetched"]


def test_every_task_of_the_pack_has_a_source_or_says_what_to_do() -> None:
    for facts in FACTS.values():
        try:
            hub.refuse_without_hub(facts)
        except DataError as error:
            assert facts.credentialed or f"data prepare {facts.name}" in str(error)  # noqa: PT017
