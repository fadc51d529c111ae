"""Aggregations of the pack, each with its closed-form standard error, as the harness knows them.

The harness gives a standard error to its own `mean` only, and its `mean` turns one NaN into NaN; `nanmean` resamples
100,000 times for a number with a closed form. `evaluator_utils` looks the error's function up by the aggregation in
`stderr_for_metric`; `install` adds ours to that look-up. One more method of the harness is
wrapped, in `matrix_files`.

Values of `scored_mean` and `scored_median` are numbers. Values of the perplexities are pairs of log-likelihood and
length, as in the harness's own `weighted_perplexity` and `bits_per_byte`, which have no error and overflow. Values of
the F1s are pairs of gold and predicted class, as in the harness's own `f1`, which is resampled for an error.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lm_eval import evaluator_utils
from lm_eval.api.registry import AGGREGATION_REGISTRY, register_aggregation

from lm_eval_healthcare.analysis.aggregate import scored_mean, scored_mean_stderr, scored_median, scored_median_stderr
from lm_eval_healthcare.scoring import f1, perplexity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCORED_MEAN, SCORED_MEDIAN = "scored_mean", "scored_median"
F1_MACRO, F1_MICRO = "f1_macro", "f1_micro"
CORPUS_PERPLEXITY, CORPUS_BITS, CORPUS_NATS = "corpus_perplexity", "corpus_bits", "corpus_nats"

_AGGREGATIONS: dict[str, tuple[Callable[[Sequence[Any]], float], Callable[[Sequence[Any]], float]]] = {
    SCORED_MEAN: (scored_mean, scored_mean_stderr),
    SCORED_MEDIAN: (scored_median, scored_median_stderr),
    CORPUS_PERPLEXITY: (perplexity.corpus_perplexity, perplexity.corpus_perplexity_stderr),
    CORPUS_BITS: (perplexity.bits_per_unit, perplexity.bits_per_unit_stderr),
    F1_MACRO: (f1.scored_f1_macro, f1.scored_f1_macro_stderr),
    F1_MICRO: (f1.scored_f1_micro, f1.scored_f1_micro_stderr),
    CORPUS_NATS: (perplexity.nats_per_unit, perplexity.nats_per_unit_stderr),
}


def install() -> None:
    """Register the aggregations and their standard errors with the harness; calling it again changes nothing."""
    for name, (aggregation, _) in _AGGREGATIONS.items():
        if name not in AGGREGATION_REGISTRY:
            register_aggregation(name)(aggregation)
    original = evaluator_utils.stderr_for_metric
    if getattr(original, "knows_scored_mean", False):
        return
    errors = dict(_AGGREGATIONS.values())

    @functools.wraps(original)
    def stderr_for_metric(metric: Callable, bootstrap_iters: int) -> Callable[[Sequence[Any]], float] | None:
        if metric in errors and bootstrap_iters > 0:
            return errors[metric]
        return original(metric=metric, bootstrap_iters=bootstrap_iters)

    stderr_for_metric.knows_scored_mean = True  # type: ignore[attr-defined]
    evaluator_utils.stderr_for_metric = stderr_for_metric
