"""How rare words are in the texts of an evaluated set: inverse document frequencies."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.metrics.pairs import Pairs


@dataclass(frozen=True)
class WordRarity:
    r"""Inverse document frequencies: $\log\frac{N + 1}{df + 1}$ for a word that df of N texts have.

    A word of every text has 0, and one that no text has $\log(N + 1)$.

    Attributes:
        texts: Number of texts, N.
        table: The value of each token id that the texts have, shape `(largest id + 1,)`.
    """

    texts: int
    table: NDArray[np.float64]

    @classmethod
    def of(cls, texts: Iterable[tuple[Sequence[int] | NDArray[np.integer], int]]) -> WordRarity:
        """Count in how many texts each token is.

        Args:
            texts: Token ids of each distinct text, and how often that text is there.
        """
        n = 0
        frequencies = np.zeros(0, dtype=np.int64)
        for ids, times in texts:
            n += times
            present = np.unique(np.asarray(ids, dtype=np.int64))
            if len(present) and present[-1] >= len(frequencies):
                frequencies = np.pad(frequencies, (0, int(present[-1]) + 1 - len(frequencies)))
            frequencies[present] += times
        return cls(n, np.log((n + 1) / (frequencies + 1)))

    def __call__(self, ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the values of token ids, shape `(t,)`."""
        found = np.full(len(ids), math.log(self.texts + 1))
        known = ids < len(self.table)
        found[known] = self.table[ids[known]]
        return found


def all_references(corpus: Pairs) -> list[str]:
    """Return the references of an evaluated set, also those of the documents whose prediction is blank."""
    return [text for texts in (*corpus.references, *corpus.unanswered_references) for text in texts]


def fingerprint(corpus: Pairs) -> str:
    """Return 12 hexadecimal digits that say which texts an evaluated set has on each side, in whatever order.

    Texts that are there several times count as often. No tokenizer is asked, so that signatures are cheap.
    """
    sides = (corpus.predictions, all_references(corpus))
    return hashlib.sha256("".join(_digest(side) for side in sides).encode()).hexdigest()[:12]


def _digest(texts: Iterable[str]) -> str:
    digests = sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
    return hashlib.sha256(b"".join(digests)).hexdigest()
