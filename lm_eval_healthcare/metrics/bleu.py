"""BLEU as the harness's medical tasks publish it: the definition of `evaluate`'s `bleu`, one document at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from lm_eval_healthcare.metrics.base import Metric, References, Scores, as_lists, as_scores, format_signature
from lm_eval_healthcare.metrics.tokenizer_13a import tokenize

MAX_ORDER = 4


class Bleu(Metric):
    """Document BLEU without smoothing, 0 to 1, higher is better; see `document_bleu`."""

    name = "bleu"
    description = "Geometric mean of 1- to 4-gram precision with a brevity penalty; 0 if no 4-gram is shared."

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return the BLEU of each document."""
        return as_scores(
            document_bleu(tokenize(prediction), [tokenize(text) for text in texts])
            for prediction, texts in zip(predictions, as_lists(references), strict=True)
        )

    def signature(self, **options: Any) -> str:
        """Return the signature; `impl` is this file's revision, counted up whenever a score would change."""
        return format_signature(
            self.name,
            impl="lm_eval_healthcare-1",
            ref="evaluate-0.4.6/bleu",
            tok="13a",
            case="mixed",
            order=str(MAX_ORDER),
            smooth="none",
            refs="clip-max,shortest",
            scale="0-1",
            blank="0",
        )


def document_bleu(prediction: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the BLEU of one tokenized document.

    With the clipped n-gram precisions p_n, the number of predicted tokens c and that of the shortest reference r:

        BLEU = min(1, exp(1 - r / c)) * exp(sum_{n=1..4} log(p_n) / 4)

    An n-gram counts at most as often as in the reference that has most of it. Any p_n of 0 gives 0, so a prediction of
    fewer than four tokens scores 0 even where it equals the reference. Where the published implementation divides by
    zero (a text without tokens) the score is 0, and references without tokens are left out.

    Source: Papineni et al. 2002 (https://aclanthology.org/P02-1040) in the variant of tensorflow/nmt's `compute_bleu`,
    which `evaluate` calls. Equal to it to the last bit in one interpreter: both add up the logarithms with `sum`,
    which rounds differently from Python 3.12 on.

    Args:
        prediction: Tokens.
        references: Tokens of each reference.
    """
    references = [tokens for tokens in references if tokens]
    if not prediction or not references:
        return 0.0
    precisions = []
    for order in range(1, MAX_ORDER + 1):
        matches = _clipped_matches(prediction, references, order)
        if matches == 0:
            return 0.0
        precisions.append(matches / (len(prediction) - order + 1))
    geometric_mean = math.exp(sum((1.0 / MAX_ORDER) * math.log(precision) for precision in precisions))
    ratio = len(prediction) / min(len(tokens) for tokens in references)
    brevity_penalty = 1.0 if ratio > 1.0 else math.exp(1 - 1.0 / ratio)
    return geometric_mean * brevity_penalty


def _clipped_matches(prediction: Sequence[str], references: Sequence[Sequence[str]], order: int) -> int:
    """Return how many n-grams of the prediction find a partner when each reference n-gram may be used once."""
    unused = Counter(_ngrams(references[0], order))
    for tokens in references[1:]:
        unused |= Counter(_ngrams(tokens, order))
    matches = 0
    count = unused.get
    for ngram in _ngrams(prediction, order):
        left = count(ngram)
        if left:
            unused[ngram] = left - 1
            matches += 1
    return matches


def _ngrams(tokens: Sequence[str], order: int) -> Iterable[Hashable]:
    return tokens if order == 1 else zip(*[tokens[start:] for start in range(order)], strict=False)
