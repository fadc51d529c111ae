"""Questions whose options cannot be told apart are scored as they are, counted and told."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from lm_eval_healthcare.sample import rows_path
from lm_eval_healthcare.scoring.faulty_options import faults_of_options
from scripted import ScriptedModel, evaluate
from support import write_jsonl


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        (["Gout", "Sepsis", "Lupus", "Asthma"], []),
        (["Gout", " Gout ", "Lupus", "Asthma"], ["identical_options"]),
        (["AA", "Aa", "aA", "aa"], []),
        (["Gout", "NA", "Lupus", "Asthma"], ["placeholder_option"]),
        (["Gout", "", "n/a", "Asthma"], ["placeholder_option"]),
        (["Gout", "Gout", "-", "Asthma"], ["identical_options", "placeholder_option"]),
        (["Na+", "K+", "Ca2+", "Mg2+"], []),
        ([], []),
    ],
)
def test_faults(options: list[str], faults: list[str]) -> None:
    assert faults_of_options(dict(zip("ABCD", options, strict=False))) == faults


@pytest.mark.parametrize("task", ["careqa_en", "careqa_en_gen"])
def test_they_are_counted_and_told(task: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = (rows_path() / "careqa_en" / "test.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    rows[0]["op2"] = rows[0]["op3"]
    rows[1]["op1"] = "NA"
    rows[2]["op4"] = f" {rows[2]['op1']} "
    write_jsonl(tmp_path / "careqa_en.jsonl", rows)
    with caplog.at_level(logging.WARNING):
        out = evaluate(task, ScriptedModel(["B"], likelihood=lambda _, choice: -float(ord(choice.strip()))), tmp_path)
    reasons = out["configs"][task]["metadata"]["healthcare"]["reasons"]
    assert (reasons["identical_options"], reasons["placeholder_option"]) == (2, 1)
    assert f"{task}: 2 of 12 questions have identical options" in caplog.text
    assert out["results"][task]["acc_coverage,none"] == 1.0
