"""Classification: multiple choice whose options are the same in every question, scored by F1 over classes too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.harness.aggregation import F1_MACRO, F1_MICRO
from lm_eval_healthcare.harness.multiple_choice import MultipleChoiceTask

if TYPE_CHECKING:
    from collections.abc import Sequence

_OVER_CLASSES = {
    F1_MACRO: "mean over the classes that occur among the gold ones",
    F1_MICRO: "pooled over all classes, which equals acc",
}


class ClassificationTask(MultipleChoiceTask):
    """Adds the metrics `f1_macro` and `f1_micro` to those of multiple choice.

    Neither is a mean over documents: a document's value is the pair of its gold and its predicted class, and the F1 is
    taken of all pairs. A document without a usable log-likelihood has NaN for its prediction and is not scored.
    """

    METRICS = (*MultipleChoiceTask.METRICS, F1_MACRO, F1_MICRO)

    def _metric_list(self) -> list[dict[str, Any]]:
        return [
            {**entry, "aggregation": entry["metric"]} if entry["metric"] in _OVER_CLASSES else entry
            for entry in super()._metric_list()
        ]

    def _signatures(self) -> dict[str, str]:
        signatures = super()._signatures()
        for name in self.metric_names:
            if name in _OVER_CLASSES:
                signatures[name] = (
                    f"{name}|impl:lm_eval_healthcare|answer:argmax log-likelihood|length-normalisation:none"
                    f"|classes:{_OVER_CLASSES[name]}|error:delete-one jackknife"
                )
        return signatures

    def _values(self, doc: dict[str, Any], result: Sequence[Any]) -> dict[str, Any]:
        found = self._harness_scores(doc, result)
        pair = (self._gold(doc), float(np.argmax([likelihood for likelihood, _ in result])))
        return {name: pair if name in _OVER_CLASSES else float(found[name]) for name in self.metric_names}

    def _no_values(self, doc: dict[str, Any]) -> dict[str, Any]:
        missing = (self._gold(doc), math.nan)
        return {name: missing if name in _OVER_CLASSES else math.nan for name in self.metric_names}

    def _gold(self, doc: dict[str, Any]) -> float:
        target = self.doc_to_target(doc)
        return float(target if isinstance(target, int) else self.doc_to_choice(doc).index(target))
