"""Neural encoders for metrics: where their weights are, on which device they run, and how texts are batched."""

from lm_eval_healthcare.metrics.encoding.warm import release_all

__all__ = ["release_all"]
