"""What is logged as the values of one document, in a run and when its samples are scored again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.results.reasoning import CUT_REASONING
from lm_eval_healthcare.results.repeated_answers import PER_ANSWER
from lm_eval_healthcare.scoring.documents import BLANK_REFERENCE, METRIC_ERROR, METRIC_MISSING, SCORED_LATER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lm_eval_healthcare.scoring.documents import DocumentScores

EMPTY, VERY_SHORT = "empty_prediction", "very_short_prediction"
_OF_ALL_DOCUMENTS = (METRIC_ERROR, METRIC_MISSING, SCORED_LATER)


def document_values(scored: DocumentScores, place: int, cut: float | None) -> dict[str, float]:
    """Return everything that is logged as a metric of one document.

    For each metric that is its score, `<metric>_coverage` (1: it has one, 0: it has none) and, where the metric sees
    only so much of a text, `<metric>_truncated` (1: it did not see the end of one, 0: it saw all; NaN where the metric
    was left out or failed and so saw nothing).

    Args:
        scored: Scores of a batch of documents.
        place: The document's place in it.
        cut: Whether the model was still reasoning when its reply ended, if that is known.
    """
    values: dict[str, float] = {}
    for name, scores in scored.scores.items():
        value = float(scores[place])
        values[name] = value
        values[f"{name}_coverage"] = float(not math.isnan(value))
        if name in scored.truncated:
            unseen = math.isnan(value) and _saw_nothing(scored, name)
            values[f"{name}_truncated"] = math.nan if unseen else float(scored.truncated[name][place])
    values[EMPTY] = float(scored.empty[place])
    values[VERY_SHORT] = float(scored.very_short[place])
    return values if cut is None else {**values, CUT_REASONING: float(cut)}


def of_several(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the values of a question with several answers: the means over those that have a value, else NaN.

    Args:
        values: What `document_values` says of each answer.
    """
    out = {}
    for name in values[0]:
        found = [one[name] for one in values if not math.isnan(one[name])]
        out[name] = math.fsum(found) / len(found) if found else math.nan
    return out


def per_answer(values: Sequence[Mapping[str, float]], metrics: Iterable[str]) -> dict[str, list[float]]:
    """Return the scores of a question's answers one by one, for the log; NaN where an answer has none.

    Args:
        values: What `document_values` says of each answer.
        metrics: The metrics that are listed.
    """
    return {f"{name}{PER_ANSWER}": [float(one[name]) for one in values] for name in metrics}


def _saw_nothing(scored: DocumentScores, name: str) -> bool:
    """Say whether a metric has no score at all, though there was something to score."""
    if any(f"{why}:{name}" in scored.reasons for why in _OF_ALL_DOCUMENTS):
        return True
    return scored.reasons[BLANK_REFERENCE] < scored.empty.size and bool(np.isnan(scored.scores[name]).all())
