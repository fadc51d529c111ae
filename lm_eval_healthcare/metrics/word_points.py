"""From the token vectors of a text to its words as weighted points, as MoverScore compares them."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.metrics.word_rarity import WordRarity

if TYPE_CHECKING:
    from lm_eval_healthcare.metrics.encoding.tokens import Vocabulary

Vectors = NDArray[np.float64]

_PUNCTUATION = frozenset(string.punctuation)
_WORD_MARKERS = "Ġ▁"


@dataclass(frozen=True)
class Points:
    """Weighted points on the unit sphere.

    Attributes:
        vectors: Shape `(n, d)`.
        weights: Above 0, shape `(n,)`. They need not sum to 1.
    """

    vectors: Vectors
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Weighted:
    """The tokens of a text that take part, and how much.

    Attributes:
        kept: Their positions, in order, shape `(n,)`.
        weights: At least 0, and above 0 somewhere, shape `(n,)`.
    """

    kept: NDArray[np.intp]
    weights: NDArray[np.float64]

    def first(self, n: int) -> Weighted:
        """Return those of the first `n` tokens that take part."""
        return self if n >= len(self.kept) else Weighted(self.kept[:n], self.weights[:n])


class WordFinder:
    """Tells which tokens of a text are words, and what they weigh."""

    def __init__(self, vocabulary: Vocabulary, rarity: WordRarity | None, keep_pieces: bool) -> None:
        """Take what token ids stand for, and how words weigh.

        Args:
            vocabulary: What token ids stand for.
            rarity: Of the evaluated set; None: all words weigh the same.
            keep_pieces: Whether the later pieces of a word count as words.
        """
        self._bare, self._wordless = _kinds(vocabulary)
        self._continues = np.zeros_like(self._bare) if keep_pieces else vocabulary.continues
        self._marks = vocabulary.special
        self._rarity = rarity

    def __call__(self, ids: NDArray[np.int64]) -> Weighted | None:
        """Return the words of a text and the marks around it with their weights, or None if the text has no word.

        Words are the tokens that are neither ASCII punctuation, nor the rest of a word that was cut into pieces, nor
        the marks that the tokenizer puts around a text (also where a text spells them out). They weigh by rarity, and
        the marks, which are in every text, weigh nothing. A text whose words are in every text too would have no
        weight at all; its words weigh the same. Without rarity words and marks weigh 1.
        """
        continues = self._continues[ids]
        continues[1:] &= ~self._bare[ids[:-1]]  # after a sign of its own that a word begins, the word begins
        words = ~self._wordless[ids] & ~continues
        if not words.any():
            return None
        kept = np.flatnonzero(words | self._marks[ids])
        weights = np.ones(len(kept)) if self._rarity is None else self._rarity(ids[kept])
        if not weights[words[kept]].any():
            weights = words[kept].astype(np.float64)
        return Weighted(kept, weights)


@lru_cache(maxsize=4)
def _kinds(vocabulary: Vocabulary) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pieces only say that a word begins, and which (those too) are no words."""
    contents = [piece.lstrip(_WORD_MARKERS) for piece in vocabulary.pieces]
    bare = np.array([not content for content in contents], dtype=bool)
    wordless = np.array([_PUNCTUATION.issuperset(content) for content in contents], dtype=bool)
    return bare, wordless | vocabulary.special


def points_of(layers: Sequence[NDArray[np.floating]], words: Weighted, ngram: int) -> Points:
    r"""Return the words of a text, or its runs of `ngram` words, as points; those that weigh nothing are left out.

    The vector of a word is its unit vector in the one layer. From several layers it is the unit vectors' smallest,
    average and largest value in each dimension, joined. A run of words has the average of its words' vectors, weighted
    by theirs, and the sum of their weights: $v = \sum_k w_k v_k / \sum_k w_k$. All are brought to length 1 again.

    Args:
        layers: The tokens' vectors in each layer, shape `(t, d)`.
        words: The tokens that take part, and their weights.
        ngram: Words in a run. A shorter text is one run.
    """
    kept, weights = words.kept, words.weights
    size = min(ngram, len(kept))
    if size == 1:
        kept, weights = kept[weights > 0], weights[weights > 0]
    units = [_unit(np.asarray(layer[kept], dtype=np.float64)) for layer in layers]
    vectors = units[0]
    if len(units) > 1:
        stack = np.stack(units)
        vectors = np.concatenate([stack.min(axis=0), stack.mean(axis=0), stack.max(axis=0)], axis=-1)
    if size > 1:
        runs = np.arange(len(kept) - size + 1)[:, None] + np.arange(size)
        vectors = np.einsum("rk,rkd->rd", weights[runs], vectors[runs])
        weights = weights[runs].sum(axis=1)
        vectors, weights = vectors[weights > 0], weights[weights > 0]
    return Points(_unit(vectors) if len(units) > 1 or size > 1 else vectors, weights)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths == 0, 1.0, lengths)
