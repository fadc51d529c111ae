"""Every YAML of the pack, held against what the harness and public bug reports say can go wrong with YAMLs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import CatalogueEntry, catalogue, facts_from_config
from lm_eval_healthcare.data.listing import tags_of
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.harness.replaced import replaced_yaml

ENTRIES = list(catalogue(tasks_path()))
TASKS = [entry for entry in ENTRIES if entry.kind == "task"]
GROUPS = [entry for entry in ENTRIES if entry.kind == "group"]
# Sets on the hub that are a Python script, which datasets >= 4 refuses (harness issue 3171 and shared benchmark notes).
SCRIPT_ONLY = {"bigbio/meddialog", "bigbio/mediqa_qa", "bigbio/pubmed_qa", "bigbio/biored", "UCSD26/medical_dialog"}
# How many of the rows can be scored is published nowhere, and the rows themselves could not be read.
UNCOUNTED = {
    "med_prescriptions_easy", "med_prescriptions_hard", "med_prescriptions_easy_gen", "med_prescriptions_hard_gen",
    "mimic_repsum", "mimic_repsum_perplexity", "mimic_repsum_conditional_perplexity",
}  # fmt: skip
README_TABLE = Path(__file__).resolve().parents[2] / "scripts" / "readme_table.py"
MULTIPLE_CHOICE = {
    "careqa_en", "medmcqa", "medqa_4options", "pubmedqa", "mmlu_anatomy", "mmlu_clinical_knowledge",
    "mmlu_college_biology", "mmlu_college_medicine", "mmlu_medical_genetics", "mmlu_professional_medicine",
}  # fmt: skip
CLOSED = MULTIPLE_CHOICE | {
    "med_prescriptions_easy", "med_prescriptions_hard", "med_text_classification_easy", "med_transcriptions", "biored",
}  # fmt: skip
OPEN = {
    "careqa_open", "medtext", "mediqa_qa2019", "meddialog_raw_dialogues", "meddialog_qsumm", "mts_dialog", "aci_bench",
    "olaph",
}  # fmt: skip
CREDENTIALED = {"mimic_hospital_course", "mimic_repsum"}
TABLE_1 = CLOSED | OPEN | CREDENTIALED | {"careqa_es", "biored_novelty", "med_text_classification_hard"}


def identity(entry: CatalogueEntry) -> str:
    return entry.name


@pytest.fixture(scope="module")
def stock() -> TaskManager:
    return TaskManager()


def tags(entry: CatalogueEntry) -> set[str]:
    return set(tags_of(entry.config))


def test_every_benchmark_of_the_papers_table_is_there() -> None:
    names = {entry.name for entry in TASKS}
    assert names >= TABLE_1
    assert names >= {f"{name}_gen" for name in MULTIPLE_CHOICE | {"careqa_es"}}
    for name in OPEN | CREDENTIALED:
        assert names >= {f"{name}_perplexity", f"{name}_conditional_perplexity"}


def test_groups_and_tags() -> None:
    groups = {entry.name: entry.config["task"] for entry in GROUPS}
    assert set(groups["healthcare_mcqa"]) == MULTIPLE_CHOICE
    assert set(groups["healthcare_closed"]) == CLOSED - MULTIPLE_CHOICE | {"healthcare_mcqa"}
    assert set(groups["healthcare_open"]) == OPEN
    private = {entry.name for entry in TASKS if facts_from_config(entry.config).credentialed}
    assert private == {name + end for name in CREDENTIALED for end in ("", "_perplexity", "_conditional_perplexity")}
    alias = {"meddialog_raw_perplexity"}  # the harness's name of a task that has its own
    tagged = {entry.name for entry in TASKS if "healthcare" in tags(entry)}
    relaxed = {entry.name for entry in TASKS if "healthcare_relaxed_perplexity" in tags(entry)}
    assert relaxed == {f"{name}_relaxed_perplexity" for name in ("careqa_open", "medtext", "olaph")}
    repeated = {entry.name for entry in TASKS if "healthcare_consistency" in tags(entry)}
    assert repeated == {"careqa_open_consistency"}
    assert tagged == {entry.name for entry in TASKS} - private - alias - relaxed - repeated
    perplexities = {entry.name for entry in TASKS if "healthcare_perplexity" in tags(entry)}
    assert perplexities == {f"{name}{end}" for name in OPEN for end in ("_perplexity", "_conditional_perplexity")}
    kinds = (
        "open_questions", "diagnosis", "note_taking", "factuality", "summarization", "question_entailment",
        "prescription", "classification", "relation_extraction",
    )  # fmt: skip
    for entry in TASKS:
        if entry.name in TABLE_1 - MULTIPLE_CHOICE - {"careqa_es"}:
            assert len(tags(entry) & {f"healthcare_{kind}" for kind in kinds}) == 1


def test_no_group_holds_a_leaf_twice() -> None:  # case b28
    groups = {entry.name: entry.config["task"] for entry in GROUPS}

    def leaves(name: str) -> list[str]:
        return [leaf for member in groups[name] for leaf in leaves(member)] if name in groups else [name]

    for name in groups:
        assert len(leaves(name)) == len(set(leaves(name)))


def test_readme_table_is_what_the_yamls_say() -> None:
    found = subprocess.run([sys.executable, str(README_TABLE), "--check"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, "run: python scripts/readme_table.py"


def test_no_name_stands_twice() -> None:  # case b25
    counts = Counter(entry.name for entry in ENTRIES)
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_yaml_defines_a_name() -> None:
    """The harness skips a file it cannot make sense of in silence."""
    assert len(ENTRIES) == len(list(tasks_path().glob("**/*.yaml")))


def test_names_shared_with_the_harness_are_meant(stock: TaskManager) -> None:  # case b25
    for entry in ENTRIES:
        replaced = None if entry.kind == "group" else replaced_yaml(facts_from_config(entry.config))
        if entry.name not in stock.task_index:
            assert replaced is None
            continue
        assert replaced is not None, f"{entry.name} hides a task of the harness that it does not replace"
        found = stock.task_index[entry.name].yaml_path
        assert Path(found) == HARNESS_TASKS / replaced
        theirs = load_yaml(found, resolve_func=False).get("metadata", {}).get("version")
        assert entry.config["metadata"]["version"] != theirs, "scores differ, so the version must"


def test_tags_do_not_hide_names_of_the_harness(stock: TaskManager) -> None:
    names = {tag for entry in TASKS for tag in tags(entry)}
    assert all(tag.startswith("healthcare") for tag in names)
    assert not names & set(stock.all_tasks)


@pytest.mark.parametrize("entry", ENTRIES, ids=identity)
def test_names_are_plain(entry: CatalogueEntry) -> None:  # case b26
    filters = [item["name"] for item in entry.config.get("filter_list") or []]
    for name in [entry.name, *filters]:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)


@pytest.mark.parametrize("path", sorted(p for p in tasks_path().rglob("*") if p.is_file()), ids=lambda p: p.name)
def test_no_private_path_and_no_loading_script(path: Path) -> None:  # cases b65, b67
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":  # cards may tell which sets no longer load
        paths = re.findall(r"^ *dataset_path: *(\S+)", text, re.MULTILINE)
        assert not SCRIPT_ONLY & set(paths)
        # Files of a script's set are read from its converted branch, where there is no script.
        assert not [n for n in SCRIPT_ONLY if re.search(rf"{n}(?!@refs%2Fconvert%2Fparquet/)", text)]
        assert "trust_remote_code" not in text
    assert not re.search(r"(?:^|[\s\"'=:])/(?:gpfs|home|root|mnt|data|scratch|work|tmp|Users)/", text)
    assert not re.search(r"[A-Z]:\\", text)


@pytest.mark.parametrize("entry", TASKS, ids=identity)
def test_loads_with_functions_resolved_and_rows_read(entry: CatalogueEntry) -> None:
    manager = task_manager(metadata={"data": "sample"}, include_defaults=False)
    task = manager.load([entry.name])["tasks"][entry.name]
    assert len(task.eval_docs) >= 6
    assert entry.config["metadata"]["version"] == task.VERSION
    text = task.fewshot_context(task.eval_docs[0], 0)
    assert isinstance(text, str)
    assert text.strip()


@pytest.mark.parametrize("entry", TASKS, ids=identity)
def test_facts_are_complete(entry: CatalogueEntry) -> None:
    facts = facts_from_config(entry.config)
    assert facts.licence != "unknown"
    assert facts.columns
    if facts.name not in UNCOUNTED:
        assert facts.row_counts(facts.eval_split)
    assert (entry.file.parent / "README.md").is_file(), "every benchmark has its card"
    if facts.name.endswith("_gen"):
        assert entry.config["description"]
    else:
        assert facts.pack.get("description"), "prompt=pack needs wording of our own"


@pytest.mark.parametrize("entry", GROUPS, ids=identity)
def test_groups_hold_distinct_leaves(entry: CatalogueEntry) -> None:
    names = entry.config["task"]
    assert len(names) == len(set(names))
    assert set(names) <= {other.name for other in ENTRIES}
