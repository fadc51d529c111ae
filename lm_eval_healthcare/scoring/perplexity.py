r"""Perplexity of a corpus of texts: one ratio of sums over all scored documents, with its error in closed form.

Document i has a log-likelihood $\ell_i$ (natural logarithm) and a length $n_i$ in words or bytes. With
$R = -\sum_i \ell_i / \sum_i n_i$, in nats per unit:

* perplexity per unit is $e^R$ (`word_perplexity`, `byte_perplexity`),
* bits per unit is $R / \ln 2$ (`bits_per_byte`), and nats per unit is $R$ (`nats_per_byte`).

Long documents weigh more than short ones. Numerator and denominator must be of the same text: the log-likelihood of a
cut text over the length of the whole one is too small.

Standard error. R is a ratio of two means over N documents. Expanded to first order around the ratio $\rho$ of the two
expectations (delta method) it is $R \approx \rho + \frac{1}{N\bar n}\sum_i(-\ell_i - \rho\,n_i)$: a mean of independent
terms, whose variance is estimated from the residuals $e_i = -\ell_i - R\,n_i$ (their sum is zero by definition of R):

$$s_R = \frac{1}{\sum_i n_i}\sqrt{\frac{N}{N-1}\sum_i e_i^2},$$

and, again by the delta method, $s = e^R s_R$ for a perplexity and $s_R / \ln 2$ for bits.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Pair = tuple[float, float]
"""The log-likelihood of a text (natural logarithm, at most 0) and its length in words or bytes."""

EXTREME = 1e4
"""A perplexity above this says more about the set-up, such as the prefix token, than about the model."""

_WHITESPACE = re.compile(r"\s+")


def word_count(text: str) -> int:
    r"""Return the number of words as published: the pieces between stretches of whitespace, `re.split(r"\s+", text)`.

    White space at either end counts as one more (empty) word, and an empty text has one.
    """
    return len(_WHITESPACE.split(text))


def byte_count(text: str) -> int:
    """Return the number of bytes of the text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def scored_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs that exist, that is, hold no NaN."""
    return [(float(loglikelihood), float(n)) for loglikelihood, n in pairs if loglikelihood == loglikelihood and n == n]


def nats_per_unit(pairs: Sequence[Pair]) -> float:
    """Return minus the sum of log-likelihoods over the sum of lengths.

    Args:
        pairs: One per document; a pair with NaN means that the document has no score.

    Returns:
        Nats per word or byte, 0 or more, lower is better; NaN if no document was scored. It stays finite where the
        perplexity overflows.
    """
    scored = scored_pairs(pairs)
    length = math.fsum(n for _, n in scored)
    return -math.fsum(loglikelihood for loglikelihood, _ in scored) / length if length > 0 else math.nan


def nats_per_unit_stderr(pairs: Sequence[Pair]) -> float:
    """Return the standard error of `nats_per_unit`, see the module's equation.

    Returns:
        NaN if fewer than two documents were scored, or if the ratio is not finite.
    """
    scored = scored_pairs(pairs)
    count, ratio = len(scored), nats_per_unit(scored)
    if count < 2 or not math.isfinite(ratio):
        return math.nan
    squares = math.fsum((-loglikelihood - ratio * n) ** 2 for loglikelihood, n in scored)
    return math.sqrt(count / (count - 1) * squares) / math.fsum(n for _, n in scored)


def bits_per_unit(pairs: Sequence[Pair]) -> float:
    """Return `nats_per_unit` in bits."""
    return nats_per_unit(pairs) / math.log(2)


def bits_per_unit_stderr(pairs: Sequence[Pair]) -> float:
    """Return the standard error of `bits_per_unit`."""
    return nats_per_unit_stderr(pairs) / math.log(2)


def corpus_perplexity(pairs: Sequence[Pair]) -> float:
    """Return the perplexity per word or byte over all scored documents.

    Args:
        pairs: One per document; a pair with NaN means that the document has no score.

    Returns:
        1 or more, lower is better; infinity where the value does not fit into a float; NaN if no document was scored.
    """
    return exp(nats_per_unit(pairs))


def corpus_perplexity_stderr(pairs: Sequence[Pair]) -> float:
    """Return the standard error of `corpus_perplexity`; infinity where the value does not fit into a float."""
    error = nats_per_unit_stderr(pairs)
    # The product of an infinite perplexity and an error of 0 would be NaN.
    return error if math.isnan(error) or not error else exp(nats_per_unit(pairs) + math.log(error))


def is_extreme(perplexity: float) -> bool:
    """Say whether a perplexity is so high that its set-up must be looked at before it is compared with others."""
    return perplexity > EXTREME


def exp(nats: float) -> float:
    """Return e to the power of `nats`, infinity where that does not fit into a float."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
