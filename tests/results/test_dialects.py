"""What one results file says, in every shape that the harness has given it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.cell import CURRENT, EARLY_04, GROUP, LEAF, PRE_04
from lm_eval_healthcare.results.dialects import LOST_ERROR, read_record, record_of, stamp_of
from result_files import legacy, results, write


def values_of(row: dict[str, Any], **more: Any) -> dict[tuple[str, str], list[Any]]:
    """The values of one task, by metric and filter."""
    record = record_of(results(tasks={"qa": row}, **more), Path("results.json"))
    if "skip" in record:
        return {}
    return {(value[0], value[1]): value[2:] for value in record["tasks"][0]["values"]}


def kinds_of(content: dict[str, Any]) -> dict[str, str]:
    record = record_of(content, Path("results.json"))
    return {entry["task"]: entry["kind"] for entry in record["tasks"]}


@pytest.mark.parametrize("given", ["N/A", [], None, math.inf, -0.1, True, {}, "about 0.1"])
def test_an_unknown_error_is_missing_and_never_zero(given: Any) -> None:
    (value,) = values_of({"acc,none": 0.5, "acc_stderr,none": given}).values()
    assert value[:2] == [0.5, None]


@pytest.mark.parametrize("given", ["NaN", math.nan])
def test_an_error_that_an_estimator_lost_is_told_from_one_that_was_never_there(given: Any) -> None:
    (value,) = values_of({"acc,none": 0.5, "acc_stderr,none": given}).values()
    assert value[:2] == [0.5, LOST_ERROR]


def test_an_error_that_is_known_is_kept_also_as_text() -> None:
    assert values_of({"acc,none": 0.5, "acc_stderr,none": "0.05"})["acc", "none"][1] == 0.05
    assert values_of({"acc,none": 0.5, "acc_stderr,none": 0})["acc", "none"][1] == 0.0


def test_a_filter_may_hold_commas() -> None:
    found = values_of({"n_seen,strict-match": 1.0, "n_seen,k,all": 3.0, "n_seen_stderr,k,all": 0.25})
    assert {key: value[:2] for key, value in found.items()} == {
        ("n_seen", "strict-match"): [1.0, None],
        ("n_seen", "k,all"): [3.0, 0.25],
    }


@pytest.mark.parametrize(
    ("given", "value", "told"),
    [
        ("0.25", 0.25, None),
        ("error", None, 'the text "error"'),
        (None, None, "null"),
        (True, None, "true"),
        ([0.5], None, "a list"),
        ({"mean": 0.5}, None, "an object"),
        (10**400, None, "too large"),
    ],
)
def test_a_value_that_is_no_number_says_what_it_is(given: Any, value: float | None, told: str | None) -> None:
    found = values_of({"acc,none": given})["acc", "none"]
    assert found[0] == value
    assert (found[6] is None) if told is None else (told in found[6])


def test_helpers_of_a_metric_are_no_metrics() -> None:
    row = {
        "bleu,none": 0.1, "bleu_stderr,none": 0.01, "bleu_coverage,none": 1.0, "bleu_coverage_stderr,none": 0.0,
        "bleu_truncated,none": 0.2, "judge,none": 4.0, "judge_unparsed,none": 0.5, "judge_conflicting,none": 0.1,
        "judge_failed,none": 0.1, "judge_variance,none": 0.3, "empty_prediction,none": 0.0, "cut_reasoning,none": 0.0,
        "wrong_language,none": 0.0, "very_short_prediction,none": 0.0, "unparsed,none": 0.1, "bypass,none": 999,
        "acc,none": 0.4, "acc_parsed,none": 0.5, "acc_parsed_coverage,none": 0.8, "acc_norm,none": 0.3,
        "f1_error_rate,none": 0.2,
    }  # fmt: skip
    found = {metric for metric, _ in values_of(row)}
    # acc_parsed has a coverage of its own, and f1_error_rate has no f1 beside it: both are scores
    assert found == {"bleu", "judge", "acc", "acc_parsed", "acc_norm", "f1_error_rate"}


def test_coverage_comes_from_what_stands_beside_a_metric_under_its_filter() -> None:
    row = {
        "bleu,none": 0.1, "bleu_coverage,none": 0.9, "judge,a": 4.0, "judge_unparsed,a": 0.25, "judge,b": 3.0,
        "judge_expected,a": 3.5, "rouge1,none": 0.2, "rouge1_coverage,none": "N/A",
    }  # fmt: skip
    coverage = {key: value[2] for key, value in values_of(row).items()}
    assert coverage == {
        ("bleu", "none"): 0.9,
        ("judge", "a"): 0.75,
        ("judge", "b"): None,
        ("judge_expected", "a"): 0.75,  # from the same verdicts
        ("rouge1", "none"): None,
    }


@pytest.mark.parametrize("key", ["judge,none", "judge"])
def test_what_the_run_calls_unusable_is_with_all_that_is_made_of_it(key: str) -> None:
    section = {"healthcare": {"unusable": {key: "4 of 4 verdicts are missing"}}}
    row = {"judge,none": 1.0, "judge_expected,none": 1.5, "bleu,none": 0.1}
    found = values_of(row, configs={"qa": {"metadata": section}})
    assert {metric for (metric, _), value in found.items() if value[5]} == {"judge", "judge_expected"}


def test_scores_by_category_know_their_metric_and_their_documents() -> None:
    section = {"healthcare": {"breakdown": {"year": {"2020": {"n": 40, "acc": 0.5}, "2021": {"n": 60, "acc": 0.7}}}}}
    found = values_of({"acc,none": 0.62, "acc_year_2020,none": 0.5}, configs={"qa": {"metadata": section}})
    assert found["acc_year_2020", "none"][7:] == ["acc", 40]
    assert found["acc", "none"][7:] == [None, None]


def test_files_before_0_4_have_bare_keys_and_their_errors_are_no_metrics() -> None:
    record = record_of(legacy("org/old", {"qa": {"acc": 0.47, "acc_stderr": 0.0067, "acc_norm": 0.45}}), Path("x.json"))
    assert (record["dialect"], record["model"]) == (PRE_04, "org/old")
    assert [value[:4] for value in record["tasks"][0]["values"]] == [
        ["acc", "none", 0.47, 0.0067],
        ["acc_norm", "none", 0.45, None],
    ]


def test_early_files_of_0_4_have_filters_and_no_counts() -> None:
    content = results(**{"n-samples": None, "lm_eval_version": None, "model_name": None, "date": None})
    content["config"]["model_args"] = "pretrained=org/early,dtype=float16"
    for row in content["results"].values():
        del row["sample_len"]
    record = record_of(content, Path("results.json"))
    assert (record["dialect"], record["model"], record["date"]) == (EARLY_04, "org/early", None)
    assert (record["tasks"][0]["n"], record["tasks"][0]["n_total"]) == (None, None)
    assert record_of(results(), Path("results.json"))["dialect"] == CURRENT


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ({"pretrained": "a/base", "peft": "a/adapter"}, "a/adapter"),
        ({"pretrained": "a/base", "delta": "a/delta"}, "a/delta"),
        ("pretrained=a/base,peft=a/adapter,dtype=bfloat16", "a/adapter"),
        ({"model": "gpt", "base_url": "http://localhost"}, "gpt"),
        ("engine=davinci", "davinci"),
        ("path=/models/x.gguf", "/models/x.gguf"),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_model_is_in_its_arguments_where_no_name_is_told(arguments: Any, model: str) -> None:
    content = results(model_name=None, config={"model_args": arguments})
    assert record_of(content, Path("results.json"))["model"] == model


def test_groups_are_known_in_every_version() -> None:
    row = {"acc,none": 0.5}
    today = results(tasks={"a": row, "g": row}, groups={"g": row}, group_subtasks={"g": ["a"]})
    assert kinds_of(today) == {"a": LEAF, "g": GROUP}
    # 0.4.3 to 0.4.8 list single tasks too, with nothing below them
    assert kinds_of(results(tasks={"a": row, "g": row}, group_subtasks={"g": ["a"], "a": []})) == {
        "a": LEAF,
        "g": GROUP,
    }
    # 0.4.0 to 0.4.2: only the version and the missing configuration tell it; subtasks have indented aliases
    early = results(tasks={"a": {**row, "alias": " - a"}, "g": row}, **{"n-samples": None, "group_subtasks": None})
    early["versions"] = {"a": 1.0, "g": "N/A"}
    del early["configs"]["g"]
    assert kinds_of(early) == {"a": LEAF, "g": GROUP}
    # 0.4.3 and 0.4.4: a group without a value of its own
    empty = results(tasks={"a": row})
    empty["results"]["g"] = {" ": " ", "alias": "g"}
    assert kinds_of(empty) == {"a": LEAF, "g": GROUP}
    # scored again from samples alone: the version is not known, and yet it is a task
    again = results(tasks={"a": row}, versions={"a": "N/A"}, config={"scored_from": "samples_a.jsonl"})
    assert kinds_of(again) == {"a": LEAF}


def test_directions_come_from_the_file_or_from_well_known_names() -> None:
    row = {"odd,none": 1.0, "word_perplexity,none": 9.0, "acc,none": 0.5, "mine,none": 1.0, "split,none": 1.0}
    told = {"qa": {"odd": False, "split": None}}
    found = {metric: value[3] for (metric, _), value in values_of(row, higher_is_better=told).items()}
    assert found == {"odd": False, "word_perplexity": False, "acc": True, "mine": None, "split": None}


def test_a_run_that_only_predicted_gives_no_values() -> None:
    content = results(tasks={"open": {"bypass,none": 999, "bypass_stderr,none": "N/A"}, "mcq": {}})
    record = record_of(content, Path("results.json"))
    assert record == {"skip": "no scores: the run was made with --predict_only", "broken": False}


@pytest.mark.parametrize(
    ("text", "reason", "broken"),
    [
        ("", "empty", True),
        (" \n", "empty", True),
        ('{"results": {"qa": {"acc,no', "cut or no JSON", True),
        ("\x00\x00\x00\x00", "cut or no JSON", True),
        ("[" * 100_000, "nested too deeply", True),
        ("[1, 2]", "the file holds a list", False),
        ("3", "the file holds a number", False),
        ('{"results": "see the wiki"}', "'results' is a text", False),
        ('{"results": {"qa": 0.5}}', "'qa' in 'results' is a number", False),
        ('{"results": {}}', "'results' is empty", False),
        ('{"model": "x"}', "no key 'results'", False),
        ('{"a": 1}\n{"a": 2}\n', "several JSON values", False),
        ('{"results": {"qa": {"acc,none": 0.5}}}{"results', "after the results there is more", True),
    ],
)
def test_other_files_say_why_they_give_no_values(tmp_path: Path, text: str, reason: str, broken: bool) -> None:
    record = read_record(write(tmp_path / "x.json", text))
    assert reason in record["skip"]
    assert record["broken"] is broken


def test_a_file_that_is_gone_is_broken(tmp_path: Path) -> None:
    assert read_record(tmp_path / "gone.json")["broken"] is True


def test_a_byte_order_mark_and_bare_nan_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(results(tasks={"qa": {"acc,none": math.nan}})).encode())
    assert math.isnan(read_record(path)["tasks"][0]["values"][0][2])


def test_times_in_names() -> None:
    # 2026-03-01T10:00:00 UTC, from `date -u -d ... +%s`
    assert stamp_of("results_2026-03-01T10-00-00.250000.json") == 1_772_359_200.25
    assert stamp_of("samples_a_b_2026-03-01T10-00-00.000000.jsonl") == 1_772_359_200.0
    assert stamp_of("2026-03-01T10:00:00") == 1_772_359_200.0
    assert stamp_of("results.json") is None
    assert stamp_of("results_2026-13-41T10-00-00.json") is None
