"""What one would write without the pack: the baselines of `semantic.py`."""

from __future__ import annotations

import importlib.util
import math
import shutil
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ngram
import numpy as np

Pairs = ngram.Pairs
Rarity = Mapping[int, float]


class PerDocument:
    """BLEU, three ROUGE types, BERTScore and MoverScore by one call a document of the usual packages."""

    def __init__(self, folder: Path) -> None:
        """Load everything once."""
        self._bleu, bleu = ngram.load("bleu")
        self._rouge, rouge = ngram.load("rouge")
        self._mover = Mover(folder)
        self._bert = BertScore(folder)
        self.sources = [bleu, rouge, "bert_score.BERTScorer.score", self._mover.source]

    def scores(self, pairs: Pairs) -> list[list[float]]:
        """Return the scores of all six; shape (6, n)."""
        return [
            *ngram.per_document_bleu(self._bleu, pairs),
            *ngram.per_document_rouge(self._rouge, pairs),
            *self.alone("bert_score", pairs),
            *self.alone("mover_score", pairs),
        ]

    def alone(self, name: str, pairs: Pairs) -> list[list[float]]:
        """Return the scores of one of the two neural metrics; shape (1, n)."""
        return [{"bert_score": self._bert, "mover_score": self._mover}[name].scores(pairs)]


class BertScore:
    """bert-score's own scorer."""

    def __init__(self, folder: Path) -> None:
        """Load the encoder, all of whose layers are used."""
        from bert_score import BERTScorer
        from transformers import AutoConfig

        layers = AutoConfig.from_pretrained(folder).num_hidden_layers
        self._scorer = BERTScorer(model_type=str(folder), num_layers=layers, device="cpu")

    def scores(self, pairs: Pairs) -> list[float]:
        """Return F1 by one call a document."""
        return [self._scorer.score([prediction], [reference])[2].item() for prediction, reference in pairs]


class Mover:
    """The equations of moverscore's `word_mover_score`, with one pair a call.

    As there: both texts go through the encoder anew for each pair, vectors and weights of pieces and punctuation are
    set to zero, distances are computed between all tokens of both texts, and the transport is solved over all of them.
    The distances are in float64, without which the numbers cannot be equal.
    """

    def __init__(self, folder: Path) -> None:
        """Load the encoder."""
        from transformers import AutoModel, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder).eval()
        self._pyemd = importlib.util.find_spec("pyemd") is not None
        self.source = f"equations of moverscore with {'pyemd' if self._pyemd else 'POT'}"

    def scores(self, pairs: Pairs) -> list[float]:
        """Return the score of each pair, words weighed by their rarity among all of the same side."""
        predictions, references = zip(*pairs, strict=True)
        rarity = self._rarity(predictions), self._rarity(references)
        return [self._score(prediction, reference, *rarity) for prediction, reference in pairs]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, truncation=True)["input_ids"]

    def _rarity(self, texts: Sequence[str]) -> Rarity:
        counts = Counter(token for text in texts for token in set(self._ids(text)))
        n = len(texts)
        known = {token: math.log((n + 1) / (count + 1)) for token, count in counts.items()}
        return defaultdict(lambda: math.log(n + 1), known)

    def _side(self, text: str, rarity: Rarity) -> tuple[Any, np.ndarray]:
        import torch

        ids = self._ids(text)
        with torch.no_grad():
            vectors = self._model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]
        weights = np.array([rarity[token] for token in ids])
        pieces = self._tokenizer.convert_ids_to_tokens(ids)
        left_out = [row for row, piece in enumerate(pieces) if "##" in piece or piece in set(string.punctuation)]
        vectors[left_out], weights[left_out] = 0, 0
        return vectors, weights

    def _score(self, prediction: str, reference: str, rarity: Rarity, rarity_of_references: Rarity) -> float:
        import torch

        first, second = self._side(reference, rarity_of_references), self._side(prediction, rarity)
        vectors = torch.cat([first[0], second[0]]).double()
        vectors /= vectors.norm(dim=-1, keepdim=True) + 1e-30
        distances = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist").numpy()
        left = np.concatenate([first[1] / first[1].sum(), np.zeros(len(second[1]))])
        right = np.concatenate([np.zeros(len(first[1])), second[1] / second[1].sum()])
        return 1 - self._transport(left, right, distances)

    def _transport(self, left: np.ndarray, right: np.ndarray, distances: np.ndarray) -> float:
        if self._pyemd:
            from pyemd import emd_with_flow

            _, flow = emd_with_flow(left, right, distances)
            return float(np.sum(np.array(flow) * distances))
        from ot import emd2

        return float(emd2(left, right, distances))


def constraints(n: int, m: int) -> Any:
    """Return the sparse matrix that sums the rows and the columns of a flattened (n, m) matrix."""
    from scipy.sparse import identity, kron, vstack

    return vstack([kron(identity(n), np.ones((1, m))), kron(np.ones((1, n)), identity(m))]).tocsr()


def linear_program(cost: np.ndarray, left: np.ndarray, right: np.ndarray, sums: Any) -> float:
    """Return the least cost of moving one distribution of weight onto another, by scipy's linear program."""
    from scipy.optimize import linprog

    totals = np.concatenate([left / left.sum(), right / right.sum()])
    return float(linprog(cost.ravel(), A_eq=sums, b_eq=totals, bounds=(0, None), method="highs").fun)


class PaddedBleurt:
    """A BERT with a random linear layer as a BLEURT checkpoint, every pair padded to 512 tokens in batches of 16."""

    def __init__(self, encoder: Path, made: Path) -> None:
        """Write the checkpoint and load it."""
        import torch
        from transformers import AutoTokenizer, BertForSequenceClassification

        torch.manual_seed(0)
        self._model = BertForSequenceClassification.from_pretrained(encoder, num_labels=1).eval()
        self._model.save_pretrained(made)
        self._tokenizer = AutoTokenizer.from_pretrained(encoder)
        for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            if (encoder / name).is_file():
                shutil.copyfile(encoder / name, made / name)

    def scores(self, pairs: Pairs) -> list[float]:
        """Return the scores."""
        import torch

        found: list[float] = []
        for start in range(0, len(pairs), 16):
            predictions, references = zip(*pairs[start : start + 16], strict=True)
            inputs = self._tokenizer(
                list(references), list(predictions), padding="max_length", max_length=512, return_tensors="pt"
            )
            with torch.no_grad():
                found += self._model(**inputs).logits[:, 0].tolist()
        return found
