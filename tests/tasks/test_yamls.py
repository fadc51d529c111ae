"""Every YAML of the pack, held against what the harness and public bug reports say can go wrong with YAMLs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import CatalogueEntry, catalogue, facts_from_config
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS

ENTRIES = list(catalogue(tasks_path()))
TASKS = [entry for entry in ENTRIES if entry.kind == "task"]
GROUPS = [entry for entry in ENTRIES if entry.kind == "group"]
# Sets on the hub that are a Python script, which datasets >= 4 refuses (harness issue 3171 and shared benchmark notes).
SCRIPT_ONLY = {"bigbio/meddialog", "bigbio/mediqa_qa", "bigbio/pubmed_qa", "bigbio/biored", "UCSD26/medical_dialog"}
FIRST_TASKS = {
    "careqa_en", "careqa_es", "careqa_open", "medtext", "medmcqa", "medqa_4options", "pubmedqa", "mmlu_anatomy",
    "mmlu_clinical_knowledge", "mmlu_college_biology", "mmlu_college_medicine", "mmlu_medical_genetics",
    "mmlu_professional_medicine",
}  # fmt: skip


def identity(entry: CatalogueEntry) -> str:
    return entry.name


@pytest.fixture(scope="module")
def stock() -> TaskManager:
    return TaskManager()


def test_the_first_tasks_are_there() -> None:
    assert {entry.name for entry in TASKS} >= FIRST_TASKS
    assert {entry.name for entry in GROUPS} >= {"healthcare_mcqa", "healthcare_open"}


def test_no_name_stands_twice() -> None:  # case b25
    counts = Counter(entry.name for entry in ENTRIES)
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_yaml_defines_a_name() -> None:
    """The harness skips a file it cannot make sense of in silence."""
    assert len(ENTRIES) == len(list(tasks_path().glob("**/*.yaml")))


def test_names_shared_with_the_harness_are_meant(stock: TaskManager) -> None:  # case b25
    for entry in ENTRIES:
        if entry.name not in stock.task_index:
            assert entry.name.startswith("healthcare") or facts_from_config(entry.config).harness is None
            continue
        facts = facts_from_config(entry.config)
        assert facts.harness is not None, f"{entry.name} hides a task of the harness that it does not replace"
        found = stock.task_index[entry.name].yaml_path
        assert Path(found) == HARNESS_TASKS / facts.harness
        theirs = load_yaml(found, resolve_func=False).get("metadata", {}).get("version")
        assert entry.config["metadata"]["version"] != theirs, "scores differ, so the version must"


def test_tags_do_not_hide_names_of_the_harness(stock: TaskManager) -> None:
    tags = {tag for entry in TASKS for tag in [entry.config.get("tag", [])]}
    assert all(tag.startswith("healthcare") for tag in tags)
    assert not tags & set(stock.all_tasks)


@pytest.mark.parametrize("entry", ENTRIES, ids=identity)
def test_names_are_plain(entry: CatalogueEntry) -> None:  # case b26
    filters = [item["name"] for item in entry.config.get("filter_list") or []]
    for name in [entry.name, *filters]:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)


@pytest.mark.parametrize("path", sorted(p for p in tasks_path().rglob("*") if p.is_file()), ids=lambda p: p.name)
def test_no_private_path_and_no_loading_script(path: Path) -> None:  # cases b65, b67
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":  # cards may tell which sets no longer load
        assert not [name for name in SCRIPT_ONLY if name in text]
        assert "trust_remote_code" not in text
    assert not re.search(r"(?:^|[\s\"'=:])/(?:gpfs|home|root|mnt|data|scratch|work|tmp|Users)/", text)
    assert not re.search(r"[A-Z]:\\", text)


@pytest.mark.parametrize("entry", TASKS, ids=identity)
def test_loads_with_functions_resolved_and_rows_read(entry: CatalogueEntry) -> None:
    manager = task_manager(metadata={"data": "sample"}, include_defaults=False)
    task = manager.load([entry.name])["tasks"][entry.name]
    assert len(task.eval_docs) >= 8
    assert entry.config["metadata"]["version"] == task.VERSION
    text = task.fewshot_context(task.eval_docs[0], 0)
    assert isinstance(text, str)
    assert text.strip()


@pytest.mark.parametrize("entry", TASKS, ids=identity)
def test_facts_are_complete(entry: CatalogueEntry) -> None:
    facts = facts_from_config(entry.config)
    assert facts.licence != "unknown"
    assert facts.columns
    assert facts.rows.get(facts.eval_split, 0) > 0
    assert (entry.file.parent / "README.md").is_file(), "every benchmark has its card"
    assert facts.pack.get("description"), "prompt=pack needs wording of our own"


@pytest.mark.parametrize("entry", GROUPS, ids=identity)
def test_groups_hold_distinct_leaves(entry: CatalogueEntry) -> None:
    names = entry.config["task"]
    assert len(names) == len(set(names))
    assert set(names) <= {task.name for task in TASKS}
