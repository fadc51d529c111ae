"""The table of tasks for exports against the task YAMLs, which are its source."""

from __future__ import annotations

import json

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts, catalogue, facts_from_config
from lm_eval_healthcare.report.export_tasks import (
    BENCHMARKS,
    OLD_NAMES,
    OPEN_MEDICAL,
    benchmark_of,
    bounds,
    generates,
    higher_is_better,
    is_credentialed,
)
from lm_eval_healthcare.results.cell import Cell


@pytest.fixture(scope="module")
def facts() -> dict[str, TaskFacts]:
    entries = [entry for entry in catalogue(tasks_path()) if entry.kind == "task"]
    return {entry.name: facts_from_config(entry.config) for entry in entries}


def test_every_name_of_the_table_is_a_task_and_every_task_is_in_the_table(facts: dict[str, TaskFacts]) -> None:
    only_perplexity = {"meddialog_raw"}  # the task of this name asks for the perplexity alone
    assert set(BENCHMARKS) - only_perplexity <= set(facts)
    assert "meddialog_raw_perplexity" in facts
    assert [name for name in facts if benchmark_of(name) is None] == []


def test_the_table_says_what_the_tasks_say(facts: dict[str, TaskFacts]) -> None:
    for name, fact in facts.items():
        known = benchmark_of(name)
        assert known is not None
        assert known.shown == fact.benchmark, name
        assert is_credentialed(name) == fact.credentialed, name
        assert generates(name) == (fact.output_type == "generate_until"), name
        if fact.dataset_path in ("parquet", "json"):  # files of one set of the hub, by address
            assert f"hf://datasets/{known.dataset}" in json.dumps(fact.hub_kwargs), name
        else:
            assert known.dataset == fact.dataset_path, name
            assert known.config == fact.dataset_name, name


def test_credentialed_data_have_no_dataset_of_the_hub() -> None:
    closed = [name for name, known in BENCHMARKS.items() if known.credentialed]
    assert closed == ["mimic_repsum", "mimic_hospital_course"]
    assert all(BENCHMARKS[name].dataset is None for name in closed)
    assert is_credentialed("mimic_own_task")


def test_the_nine_keys_of_the_leaderboard_are_tasks(facts: dict[str, TaskFacts]) -> None:
    assert set(OPEN_MEDICAL) <= set(facts)
    assert OLD_NAMES["hendrycksTest-college_medicine"] == "mmlu_college_medicine"
    assert len(OLD_NAMES) == 6


@pytest.mark.parametrize(
    ("metric", "up", "limits"),
    [
        ("acc", True, (0.0, 1.0)),
        ("rougeL", True, (0.0, 1.0)),
        ("sacrebleu", True, (0.0, 100.0)),
        ("prometheus", True, (1.0, 5.0)),
        ("bleurt", None, None),  # no bounds: only the file tells the direction
        ("word_perplexity", False, None),
        ("relaxed_perplexity", False, None),
        ("bits_per_byte", False, None),
        ("of_someone_else", None, None),
    ],
)
def test_direction_and_bounds(metric: str, up: bool | None, limits: tuple[float, float] | None) -> None:
    assert bounds(metric) == limits
    assert higher_is_better(Cell("m", "t", metric, "none", 0.5)) is up
    assert higher_is_better(Cell("m", "t", metric, "none", 0.5, higher_is_better=False)) is False
