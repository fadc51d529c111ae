"""What is logged of one document."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from lm_eval_healthcare.scoring.document_values import document_values
from lm_eval_healthcare.scoring.documents import DocumentScores


def scores(values: list[float], reasons: dict[str, int] | None = None) -> DocumentScores:
    n = len(values)
    return DocumentScores(
        {"warmth": np.array(values), "length": np.arange(n, dtype=float)},
        np.arange(n) == 0,
        np.arange(n) == 1,
        {"warmth": np.arange(n) == 1},
        reasons=Counter(reasons or {}),
    )


def test_everything_that_is_known_of_a_document() -> None:
    assert document_values(scores([0.25, 0.75]), 1, None) == {
        "warmth": 0.75, "warmth_coverage": 1.0, "warmth_truncated": 1.0, "length": 1.0, "length_coverage": 1.0,
        "empty_prediction": 0.0, "very_short_prediction": 1.0,
    }  # fmt: skip
    assert document_values(scores([0.25, 0.75]), 0, True)["cut_reasoning"] == 1.0


def test_a_document_without_a_score_may_have_been_seen_whole() -> None:
    found = document_values(scores([math.nan, 0.5], {"blank_reference": 1}), 0, 0.0)
    assert math.isnan(found["warmth"])
    assert (found["warmth_coverage"], found["warmth_truncated"], found["cut_reasoning"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("why", ["metric_missing", "metric_error", "scored_later", None])
def test_nobody_knows_what_a_metric_would_have_seen_that_has_no_score(why: str | None) -> None:
    found = document_values(scores([math.nan, math.nan], {f"{why}:warmth": 2} if why else {}), 1, None)
    assert math.isnan(found["warmth_truncated"])
    assert found["length_coverage"] == 1.0


def test_documents_without_references_have_nothing_that_is_cut() -> None:
    found = document_values(scores([math.nan, math.nan], {"blank_reference": 2}), 0, None)
    assert found["warmth_truncated"] == 0.0
