"""The mean over scored documents as a harness aggregation, with its closed-form standard error.

The harness gives a standard error to its own `mean` only, and its `mean` turns one NaN into NaN; `nanmean` resamples
100,000 times for a number with a closed form. `evaluator_utils` looks the error's function up by the aggregation in
`stderr_for_metric`; `install` adds ours to that look-up. This is the only place where harness code is replaced.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from lm_eval import evaluator_utils
from lm_eval.api.registry import AGGREGATION_REGISTRY, register_aggregation

from lm_eval_healthcare.scoring.aggregate import scored_mean, scored_mean_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCORED_MEAN = "scored_mean"


def install() -> None:
    """Register `scored_mean` and its standard error with the harness; calling it again changes nothing."""
    if SCORED_MEAN not in AGGREGATION_REGISTRY:
        register_aggregation(SCORED_MEAN)(scored_mean)
    original = evaluator_utils.stderr_for_metric
    if getattr(original, "knows_scored_mean", False):
        return

    @functools.wraps(original)
    def stderr_for_metric(metric: Callable, bootstrap_iters: int) -> Callable[[Sequence[float]], float] | None:
        if metric is scored_mean and bootstrap_iters > 0:
            return scored_mean_stderr
        return original(metric=metric, bootstrap_iters=bootstrap_iters)

    stderr_for_metric.knows_scored_mean = True  # type: ignore[attr-defined]
    evaluator_utils.stderr_for_metric = stderr_for_metric
