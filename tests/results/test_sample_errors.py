"""Standard errors that a bootstrap of `nanmean` lost come from the logged samples, if their mean is the value (b43)."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.cell import Rules, read_table
from support import write_jsonl

SCORES = [0.2, 0.9, 0.4, 0.7, 0.8]
STAMP = "2026-03-01T10-00-00.000000"


def write(folder: Path, error: Any, scores: list[float], samples: bool = True) -> Path:
    content = {
        "results": {
            "medtext": {"alias": "medtext", "rougeL,none": statistics.fmean(SCORES), "rougeL_stderr,none": error}
        },
        "configs": {"medtext": {"task": "medtext"}},
        "n-samples": {"medtext": {"original": 6, "effective": 6}},
        "model_name": "org/model",
        "date": 1772359200.0,
    }
    folder.mkdir(parents=True)
    (folder / f"results_{STAMP}.json").write_text(json.dumps(content), encoding="utf-8")
    if samples:
        rows = [{"doc_id": n, "filtered_resps": ["x"], "filter": "none", "rougeL": s} for n, s in enumerate(scores)]
        write_jsonl(folder / f"samples_medtext_{STAMP}.jsonl", rows)
    return folder


def stderr(folder: Path) -> float:
    (cell,) = read_table([folder], Rules(min_coverage=0), cache=folder / "cache.sqlite3").cells
    assert cell.value == pytest.approx(0.6)
    return cell.stderr


def test_a_lost_error_is_that_of_the_documents_with_a_score(tmp_path: Path) -> None:
    """By hand: the mean is 0.6, the squares sum to 0.34, so sd = sqrt(0.34 / 4) and the error sqrt(0.34 / 20)."""
    found = stderr(write(tmp_path / "run", math.nan, [*SCORES, math.nan]))
    assert found == pytest.approx(math.sqrt(0.34 / 20))


@pytest.mark.parametrize(
    ("error", "scores", "samples"),
    [
        ("N/A", [*SCORES, math.nan], True),  # there was no estimator, so the mean of the documents may not be the value
        (math.nan, [0.1, 0.2, 0.3, 0.4, 0.5, math.nan], True),  # other documents
        (math.nan, SCORES, False),
    ],
)
def test_no_error_is_invented(tmp_path: Path, error: Any, scores: list[float], samples: bool) -> None:
    assert math.isnan(stderr(write(tmp_path / "run", error, scores, samples)))


def test_an_error_that_is_there_stays(tmp_path: Path) -> None:
    assert stderr(write(tmp_path / "run", 0.07, [*SCORES, math.nan])) == 0.07
