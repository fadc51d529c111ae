"""Smoothed sentence BLEU by sacrebleu: for short answers, where the published BLEU is 0."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.metrics.base import (
    Metric,
    References,
    Scores,
    as_lists,
    as_scores,
    format_signature,
    package_version,
)
from lm_eval_healthcare.metrics.tokenizer_13a import tokenize

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU


class SentenceSacreBleu(Metric):
    """`sacrebleu.sentence_bleu`, 0 to 100, higher is better.

    BLEU = BP * exp(mean_n log p_n), over the orders n that the prediction is long enough for (effective order), with
    the closest reference length in the brevity penalty BP. The k-th order without a match gets the precision
    100 / (2^k * number of its n-grams): "exp" smoothing. No 1-gram in common gives 0.

    Source: Post 2018 (https://aclanthology.org/W18-6319); smoothing: Chen and Cherry 2014, method 3.
    """

    name = "sacrebleu"
    description = "Sentence BLEU with exponential smoothing and effective order, so that short answers can score."
    maximum = 100.0
    requires = ("sacrebleu",)

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return the sentence BLEU of each document."""
        metric = _sentence_bleu()
        return as_scores(
            metric.sentence_score(_tokenized(prediction), [_tokenized(text) for text in texts]).score
            for prediction, texts in zip(predictions, as_lists(references), strict=True)
        )

    def signature(self, **options: Any) -> str:
        """Return the signature."""
        return format_signature(
            self.name,
            impl=f"sacrebleu-{package_version('sacrebleu')}",
            ref="sacrebleu.sentence_bleu",
            tok="13a",
            case="mixed",
            order="4-effective",
            smooth="exp",
            refs="clip-max,closest",
            scale="0-100",
            blank="0",
        )


def _tokenized(text: str) -> str:
    """Return the text's 13a tokens joined by blanks; sacrebleu strips the right end before it tokenizes."""
    return " ".join(tokenize(text.rstrip()))


@functools.cache
def _sentence_bleu() -> BLEU:
    from sacrebleu.metrics import BLEU

    # Tokenized beforehand, because sacrebleu's own tokenizers keep every text they saw in two caches.
    return BLEU(tokenize="none", force=True, effective_order=True)
