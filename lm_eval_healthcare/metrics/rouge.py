"""ROUGE-1, ROUGE-2 and ROUGE-L as `rouge_score` defines them, computed together by rouge-score-rs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lm_eval_healthcare.metrics.base import Metric, References, Scores, as_lists, format_signature, package_version

_DESCRIPTIONS = {
    "rouge1": "F-measure of shared words",
    "rouge2": "F-measure of shared pairs of neighbouring words",
    "rougeL": "F-measure of the longest common subsequence of words",
}
_ORDERS = {"rouge1": "1", "rouge2": "2", "rougeL": "lcs"}


class Rouge(Metric):
    """One ROUGE type, F-measure without stemming, 0 to 1, higher is better.

    With m the number of n-grams in common (each counted at most as often as on either side), or for ROUGE-L the length
    of the longest common subsequence, P = m / n-grams of the prediction and R = m / n-grams of the reference:

        F = 2 * P * R / (P + R), and 0 where P + R = 0

    Tokens are the runs of a-z and 0-9 in the lower-cased text; everything else is deleted. With several references the
    best one counts, for each type on its own.

    Source: Lin 2004 (https://aclanthology.org/W04-1013) in the implementation of rouge_score 0.1.2, to the last bit.
    """

    family: str | None = "rouge"
    requires = ("rouge_score_rs",)
    suffix: ClassVar[str] = ""
    words: ClassVar[str] = "runs of a-z and 0-9, lower-cased"

    def __init__(self, rouge_type: str) -> None:
        """Describe one of `rouge1`, `rouge2` and `rougeL`."""
        self.rouge_type = rouge_type
        self.name = rouge_type + self.suffix
        self.description = f"{_DESCRIPTIONS[rouge_type]} ({self.words})."

    def tokenizer(self) -> Any:
        """Return an object with a method `tokenize`, or `None` for rouge_score's own."""
        return None

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return the F-measure of each document."""
        return self.score_family([self.name], predictions, references)[self.name]

    def score_family(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> dict[str, Scores]:
        """Return the F-measures of several ROUGE types by name; each text is tokenized once for all of them."""
        from rouge_score_rs.rouge_scorer import RougeScorer

        if len(predictions) == 0:
            return {name: np.empty(0) for name in names}
        lists = as_lists(references)
        types = [name.removesuffix(self.suffix) for name in names]
        scores = RougeScorer(types, tokenizer=self.tokenizer()).score_batch(
            [text for texts in lists for text in texts],
            [prediction for prediction, texts in zip(predictions, lists, strict=True) for _ in texts],
        )
        first_of_document = np.cumsum([0, *(len(texts) for texts in lists[:-1])])
        return {
            name: np.maximum.reduceat([score[rouge_type].fmeasure for score in scores], first_of_document)
            for name, rouge_type in zip(names, types, strict=True)
        }

    def signature(self, **options: Any) -> str:
        """Return the signature."""
        return format_signature(self.name, **self.signature_fields())

    def signature_fields(self) -> dict[str, str]:
        """Return the fields of the signature, in order."""
        return {
            "impl": f"rouge-score-rs-{package_version('rouge-score-rs')}",
            "ref": "rouge_score-0.1.2",
            "tok": "a-z0-9",
            "case": "lower",
            "stem": "no",
            "order": _ORDERS[self.rouge_type],
            "measure": "f1",
            "refs": "best",
            "scale": "0-1",
            "blank": "0",
        }


ROUGE = tuple(Rouge(rouge_type) for rouge_type in _ORDERS)
