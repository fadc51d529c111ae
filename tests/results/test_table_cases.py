"""The odd cases that lie beside the project, through the public command line; each expectation is the case's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from support import SHARED

CASES = SHARED / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")
Read = Callable[..., dict[str, Any]]
FOUR = ["org-a/gen-7b", "org-b/gen-9b", "org-c/med-8b", "org-d/med-13b"]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """The table of one case, and what stderr says under the key `err`."""

    def call(case: str, *options: str) -> dict[str, Any]:
        (folder,) = (CASES / "files").glob(f"{case}-*")
        code = main(["results", str(folder), "--format", "json", "--cache", "off", *options])
        done = capsys.readouterr()
        return {**json.loads(done.out), "err": done.err, "code": code}

    return call


def expected(case: str) -> dict[str, Any]:
    for line in (CASES / "cases.jsonl").read_text(encoding="utf-8").split("\n"):
        if line and json.loads(line)["id"].startswith(case):
            return dict(json.loads(line)["expected_values"])
    raise AssertionError(case)


def values(table: dict[str, Any], part: str = "cells") -> dict[tuple[str, str, str, str], Any]:
    return {(c["model"], c["task"], c["metric"], c["filter"]): c["value"] for c in table[part]}


def models(table: dict[str, Any]) -> list[str]:
    return sorted({cell["model"] for cell in table["cells"]})


def file_names(entries: list[dict[str, Any]]) -> list[str]:
    return sorted(Path(entry["file"]).name for entry in entries)


def test_bare_keys_of_0_3(read: Read) -> None:
    table = read("b01")
    old = [one for one in table["set_aside"] if one["model"] == "org-z/legacy-6b"]
    assert len(old) == expected("b01")["n_metric_columns_from_legacy_file"]
    assert all("not comparable" in one["reason"] and one["format"] == "pre-0.4" for one in old)
    assert not any("stderr" in one["metric"] for one in table["cells"] + table["set_aside"])
    assert models(table) == FOUR[:3]
    allowed = values(read("b01", "--allow-legacy"))
    assert allowed["org-z/legacy-6b", "careqa_en", "acc", "none"] == 0.47


def test_any_depth_and_name(read: Read) -> None:
    table = read("b04")
    assert models(table) == expected("b04")["models"]
    assert file_names(table["skipped"]) == ["list.json", "notes.json"]
    assert not any(one["broken"] or "\n" in one["reason"] for one in table["skipped"])
    assert read("b04", "--strict")["code"] == 0


def test_filters_with_commas(read: Read) -> None:
    found = values(read("b07"))
    assert found["acme/Med-LLM 7B:v1", "hc_filters", "n_seen", "strict-match"] == 1.0
    assert found["acme/Med-LLM 7B:v1", "hc_filters", "n_seen", "k,all"] == 3.0


def test_errors_that_are_no_numbers(read: Read) -> None:
    cells = [cell for cell in read("b08")["cells"] if cell["task"] == "careqa_en"]
    assert len(cells) == expected("b08")["n"]
    assert [cell["stderr"] for cell in cells] == [None, None, None, 0.01, None, None]


def test_cut_and_empty_files(read: Read) -> None:
    table = read("b14")
    assert models(table) == expected("b14")["models"]
    assert [(Path(one["file"]).parent.name, one["broken"]) for one in table["skipped"]] == [
        ("org-e__gen-70b", True)
    ] * 2
    assert "2 files skipped" in table["err"]
    assert table["code"] == 0
    assert read("b14", "--strict")["code"] == 1


def test_two_dates(read: Read) -> None:
    table = read("b19")
    found = values(table)
    assert found["org-c/med-8b", "careqa_en", "acc", "none"] == expected("b19")["org-c/med-8b careqa_en acc"]
    assert found["org-c/med-8b", "medtext", "rougeL", "none"] == expected("b19")["org-c/med-8b medtext rougeL"]
    aside = values(table, "set_aside")
    assert aside["org-c/med-8b", "careqa_en", "acc", "none"] == 0.61
    assert all(one["reason"].startswith("superseded by ") for one in table["set_aside"])


def test_subset_runs(read: Read) -> None:
    table = read("b23")
    assert models(table) == expected("b23")["models"]
    assert values(table)["org-a/gen-7b", "careqa_en", "acc", "none"] == expected("b23")["org-a careqa_en"]
    assert all(one["reason"].startswith("partial: ") for one in table["set_aside"])
    assert values(read("b23", "--allow-partial"))["org-a/gen-7b", "careqa_en", "acc", "none"] == 0.51


def test_a_task_below_two_groups(read: Read) -> None:
    table = read("b28")
    (one,) = table["averages"]
    assert one["value"] == pytest.approx(expected("b28")["weighted_acc"], abs=1e-12)
    assert one["n"] == expected("b28")["n"]
    assert sorted(cell["task"] for cell in table["cells"]) == ["anatomy", "surgery"]
    assert any("0.472727 over 550" in note and "0.575 over 400" in note for note in table["notes"])


def test_only_predicted(read: Read) -> None:
    table = read("b30")
    assert models(table) == FOUR[:2]
    assert not any(cell["metric"] == "bypass" for cell in table["cells"] + table["set_aside"])
    assert "--predict_only" in table["skipped"][0]["reason"]


def test_nan_error_of_a_value(read: Read) -> None:
    table = read("b43")
    found = {(c["task"], c["metric"]): (c["value"], c["stderr"]) for c in table["cells"]}
    assert found["hc_open", "rougeL"] == (pytest.approx(0.6), None)
    assert ("hc_open", "prometheus") not in found
    (nan,) = [one for one in table["set_aside"] if one["metric"] == "prometheus"]
    assert nan["value"] is None


def test_verdicts_that_are_missing(read: Read) -> None:
    table = read("b52")
    assert models(table) == ["org-b/gen-9b"]
    assert "prometheus 4.0 (3/6 parsed)" in table["set_aside"][0]["reason"]
    assert {cell["metric"] for cell in table["cells"] + table["set_aside"]} == {"prometheus"}


def test_gaps(read: Read) -> None:
    found = values(read("b56"))
    scored = sorted(model for model, _, metric, _ in found if metric == "prometheus")
    assert len(scored) == 4
    assert "org-e/gen-70b" not in scored
    assert "org-b/gen-9b" not in scored
