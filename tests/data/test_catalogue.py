"""What a YAML that includes another inherits of the section `healthcare:`, read by us and through the harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts, facts_from_config, read_yaml

BASE = """
task: base
test_split: test
doc_to_text: question
metadata: {version: 1.0}
healthcare:
  name: base
  benchmark: Base
  licence: MIT
  languages: [en]
  columns: {question: str}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task, a variant, and variants of the variant."""
    files = {
        "base": BASE,
        "variant": "include: base.yaml\ntask: variant\nhealthcare_changes: {name: variant, languages: [es]}\n",
        "third": "include: variant.yaml\ntask: third\nhealthcare_changes: {licence: CC0-1.0, languages: [ca]}\n",
        "plain": "include: variant.yaml\ntask: plain\n",
        "anew": "include: variant.yaml\ntask: anew\nhealthcare: {benchmark: Another}\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    return tmp_path


def as_the_harness_merges(path: Path) -> dict[str, Any]:
    """Key by key, so that only the last file's changes are left; with the file's name, as the harness adds it."""
    own = read_yaml(path, merge=False)
    names = {"variant": "base", "third": "variant", "plain": "variant", "anew": "variant"}
    below = as_the_harness_merges(path.with_stem(names[path.stem])) if path.stem in names else {}
    merged = {**below, **own}
    return {**merged, "metadata": {**merged.get("metadata", {}), "config_source": str(path)}}


def told(facts: TaskFacts) -> tuple[str, str | None, str, tuple[str, ...]]:
    return facts.benchmark, facts.rows_name, facts.licence, facts.languages


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("base", ("Base", "base", "MIT", ("en",))),
        ("variant", ("Base", "variant", "MIT", ("es",))),
        ("third", ("Base", "variant", "CC0-1.0", ("ca",))),
        ("plain", ("Base", "variant", "MIT", ("es",))),
        ("anew", ("Another", None, "unknown", ("en",))),
    ],
)
def test_changes_add_up_along_the_includes(folder: Path, name: str, wanted: tuple[Any, ...]) -> None:
    path = folder / f"{name}.yaml"
    assert told(facts_from_config(read_yaml(path))) == wanted
    assert told(facts_from_config(as_the_harness_merges(path))) == wanted


def test_changes_that_are_in_no_file_come_on_top(folder: Path) -> None:
    config = {**as_the_harness_merges(folder / "plain.yaml"), "healthcare_changes": {"licence": "CC-BY-4.0"}}
    assert told(facts_from_config(config)) == ("Base", "variant", "CC-BY-4.0", ("es",))
    inline = {"task": "t", "healthcare": {"benchmark": "B"}, "healthcare_changes": {"licence": "MIT"}}
    assert facts_from_config({**inline, "metadata": {"config_source": "inline"}}).licence == "MIT"


def test_a_users_variant_of_a_variant_of_the_pack(tmp_path: Path) -> None:
    """One key changed, the others stay the pack's, as the task class sees them."""
    from lm_eval_healthcare import task_manager

    file = tasks_path() / "careqa" / "careqa_es.yaml"
    (tmp_path / "mine.yaml").write_text(
        f"include: {file}\ntask: mine\nhealthcare_changes: {{breakdown: [year]}}\n", encoding="utf-8"
    )
    task = task_manager(str(tmp_path), {"data": "sample"}, include_defaults=False).load(["mine"])["tasks"]["mine"]
    assert (task.facts.breakdown, task.facts.languages, task.facts.folder_name) == (("year",), ("es",), "careqa_es")
    assert task.facts.harness == "careqa/careqa_es.yaml"
