"""Scoring all documents of a task in one batch, with a reason for every document that has no score.

In-run scoring and scoring of saved answers are this one function.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

EMPTY_PREDICTION = "empty_prediction"
BLANK_REFERENCE = "blank_reference"
METRIC_ERROR = "metric_error"
NAN_LOGLIKELIHOOD = "nan_loglikelihood"


@dataclass
class DocumentScores:
    """Scores of the documents of one task.

    Attributes:
        scores: For each metric a float64 array, one value per document in document order; NaN where there is none.
        empty: Bool array: the prediction is blank or missing (it is scored with each metric's worst value).
        very_short: Bool array: the prediction is one word.
        reasons: Documents by reason: `empty_prediction`, `blank_reference`, `metric_error:<metric>`.
        errors: The exception's text for each metric that failed.
    """

    scores: dict[str, np.ndarray]
    empty: np.ndarray
    very_short: np.ndarray
    reasons: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)


def score_documents(
    predictions: Sequence[str | None], references: Sequence[str | Sequence[str]], names: Sequence[str], **options: Any
) -> DocumentScores:
    """Score every document with every metric.

    A metric that raises costs its own scores and nothing else: they are NaN, counted, and the error is kept.

    Args:
        predictions: One text per document, None where the model gave none.
        references: One text, or several equally good ones, per document.
        names: Metrics by name.
        **options: Options of the metrics.

    Returns:
        Scores and counts, documents in the order given.
    """
    empty = np.array([metrics.is_blank(text) for text in predictions], dtype=bool)
    blank = np.array([_all_blank(reference) for reference in references], dtype=bool)
    very_short = (
        np.array([isinstance(text, str) and len(text.split()) == 1 for text in predictions], dtype=bool) & ~empty
    )
    result = DocumentScores({}, empty, very_short)
    if empty.any():
        result.reasons[EMPTY_PREDICTION] = int(empty.sum())
    if blank.any():
        result.reasons[BLANK_REFERENCE] = int(blank.sum())
    try:
        result.scores = metrics.score(predictions, references, metrics=list(names), **options)
    except Exception:
        logger.exception("scoring with %s failed; trying one metric at a time", ", ".join(names))
        for name in names:
            result.scores[name] = _score_one(name, predictions, references, options, result)
    return result


def _score_one(
    name: str,
    predictions: Sequence[str | None],
    references: Sequence[Any],
    options: dict[str, Any],
    result: DocumentScores,
) -> np.ndarray:
    try:
        return metrics.score(predictions, references, metrics=[name], **options)[name]
    except Exception as error:
        result.errors[name] = f"{type(error).__name__}: {error}"
        result.reasons[f"{METRIC_ERROR}:{name}"] = len(predictions)
        logger.error(
            "metric %s failed (%s); its scores are NaN, the other metrics and all answers are safe", name, error
        )
        return np.full(len(predictions), np.nan)


def _all_blank(reference: str | Sequence[str]) -> bool:
    texts = [reference] if isinstance(reference, str) or reference is None else list(reference)
    return all(metrics.is_blank(text) for text in texts)
