"""Names of files and models, as the harness writes them."""

from __future__ import annotations

from datetime import datetime

import pytest

from lm_eval_healthcare.results.names import (
    model_name,
    parse_results_name,
    parse_samples_name,
    sanitized,
    time_stamp,
)

STAMP = "2026-03-01T10-00-00.123456"


@pytest.mark.parametrize(
    ("name", "task", "stamp"),
    [
        (f"samples_careqa_open_{STAMP}.jsonl", "careqa_open", STAMP),
        ("samples_medtext_2024-05-14T17-07-12.477774.json", "medtext", "2024-05-14T17-07-12.477774"),
        ("samples_medtext_2026-03-01T10-00-00.jsonl", "medtext", "2026-03-01T10-00-00"),  # a whole second
        (f"samples_samples_x_{STAMP}_{STAMP}.jsonl", f"samples_x_{STAMP}", STAMP),  # the last time counts
    ],
)
def test_samples(name: str, task: str, stamp: str) -> None:
    assert parse_samples_name(name) == (task, stamp)
    assert parse_results_name(name) is None


@pytest.mark.parametrize(
    ("name", "stamp"),
    [
        (f"results_{STAMP}.json", STAMP),
        (f"res_{STAMP}.json", STAMP),  # --output_path x/res.json
        (f"{STAMP}.json", STAMP),
        ("results.json", None),
        ("notes.json", None),
        (f"results_{STAMP}.json.incomplete", None),
        (f".results_{STAMP}.json.host.1.part", None),
    ],
)
def test_results(name: str, stamp: str | None) -> None:
    assert parse_results_name(name) == stamp
    assert parse_samples_name(name) is None


def test_sanitized_names_are_the_harness_s() -> None:
    utils = pytest.importorskip("lm_eval.utils")
    for name in ("org/model-7b", "/models/a b", 'x:"y"|z?*[1]<2>', "plain", "a//b", "C:\\models\\x"):
        assert sanitized(name) == utils.sanitize_model_name(name)
    assert sanitized("org/a:b") == "org__a__b"


def test_time_always_has_microseconds_and_no_colon() -> None:
    assert time_stamp(datetime(2026, 3, 1, 9, 8, 7)) == "2026-03-01T09-08-07.000000"
    assert parse_results_name(f"results_{time_stamp()}.json") is not None


@pytest.mark.parametrize(
    ("results", "name"),
    [
        ({"model_name": "org/a", "config": {"model_args": {"pretrained": "other"}}}, "org/a"),
        ({"config": {"model_args": {"pretrained": "org/b", "peft": "org/tuned"}}}, "org/tuned"),
        ({"config": {"model_args": "pretrained=org/c,dtype=float"}}, "org/c"),
        ({"config": {"model_args": {}}}, None),
        ({"config": {"model_args": None}}, None),
        ({}, None),
    ],
)
def test_model_names_of_new_and_old_results(results: dict[str, object], name: str | None) -> None:
    assert model_name(results) == name
