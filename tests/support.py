"""What tests share that is not a fixture."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"


def child_environment(**extra: str) -> dict[str, str]:
    """The environment of a process that a test starts: sockets closed, of the options of the pack only ours."""
    kept = {"LM_EVAL_HEALTHCARE_METRICS": "ngram", "LM_EVAL_HEALTHCARE_SCORE_CACHE": "off"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LM_EVAL_HEALTHCARE_")} | kept
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS / "nosocket"), str(ROOT)])
    return {**environment, **extra}


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def results_of(folder: Path) -> dict[str, Any]:
    """The one results file below a folder."""
    (path,) = folder.glob("**/results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def samples_of(folder: Path, task: str) -> list[dict[str, Any]]:
    """The logged samples of a task below a folder."""
    (path,) = folder.glob(f"**/samples_{task}_2*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


STRING_METRICS = "ngram+rouge1_unicode+rouge2_unicode+rougeL_unicode"
"""Every metric that needs no model."""
