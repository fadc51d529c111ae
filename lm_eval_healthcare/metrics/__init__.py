"""Text metrics: predictions and references in, one float64 per document out, each with a signature.

Example:
    >>> from lm_eval_healthcare import metrics
    >>> metrics.score(["mild fever", None], ["mild fever", "renal colic"], metrics="rouge1")["rouge1"].tolist()
    [1.0, 0.0]
"""

from __future__ import annotations

from lm_eval_healthcare.metrics.base import Measured, Metric
from lm_eval_healthcare.metrics.pairs import Pairs, is_blank
from lm_eval_healthcare.metrics.suite import (
    AVAILABLE,
    blank_score,
    check_options,
    measure,
    missing,
    option_names,
    parts,
    prepare,
    register,
    remarks,
    resolve,
    score,
    signature,
)

__all__ = [
    "AVAILABLE",
    "Measured",
    "Metric",
    "Pairs",
    "blank_score",
    "check_options",
    "is_blank",
    "measure",
    "missing",
    "option_names",
    "parts",
    "prepare",
    "register",
    "remarks",
    "resolve",
    "score",
    "signature",
]
