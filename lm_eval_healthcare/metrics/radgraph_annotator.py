"""Entities and relations of radiology reports, by the package radgraph 0.1.18, which this module makes run.

The package was written for transformers 4: its tokenizers lack two methods on transformers 5, which `_repair` adds;
what it computes is untouched. It takes one report at a time, so neither order nor batch can change a number. A report
longer than the encoder goes through it in pieces, nothing is cut off. But the memory for relations grows with the
square of a report's length: for long reports they are computed in blocks (`_bound_memory`), and what is beyond
`MAX_WORDS` is not seen.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.metrics.encoding import device
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit, free_memory, is_out_of_memory
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.encoding.machine import first_line
from lm_eval_healthcare.metrics.encoding.precision import full_precision
from lm_eval_healthcare.metrics.encoding.warm import Warm
from lm_eval_healthcare.metrics.radgraph_weights import REPOSITORY, Weights, configuration, fingerprint
from lm_eval_healthcare.metrics.settings import Compute

if TYPE_CHECKING:
    import torch

MAX_WORDS = 1024
"""Words of a report that are seen, punctuation counted; the package itself needs 10 GB of memory for as many."""

MAX_CHARACTERS = 200
"""Characters of a word that are seen. WordPiece takes a word of more than 100 as unknown anyway."""

WORK_BYTES = 2**30
"""What a report takes at most beside the weights, roughly."""

_PAIRS = 128**2


@dataclass(frozen=True)
class Annotated:
    """What the model found in a report.

    Attributes:
        entities: By number, each with `tokens`, `label` and `relations` (name and number of the other entity).
        truncated: Whether the report has an end, or a word an end, that the model did not see.
    """

    entities: dict[str, dict[str, Any]]
    truncated: bool


class Annotator:
    """A RadGraph model, loaded.

    Args:
        weights: Where its files are.
        compute: On which device it shall run.

    Attributes:
        device: Where it is: on the CPU until `settle` is called.
    """

    def __init__(self, weights: Weights, compute: Compute) -> None:
        """Load the model."""
        self.compute, self.device = compute, "cpu"
        self._kind = weights.kind
        self._radgraph = _load(weights)
        _bound_memory(self._radgraph.model._relation)

    def settle(self) -> None:
        """Go to a GPU that has room by now, unless it is on one: there it stays, since its own weights fill it.

        Raises:
            DeviceUnavailable: See `device.place`.
        """
        if self.device == "cpu":
            size = sum(tensor.numel() * tensor.element_size() for tensor in self._radgraph.model.parameters())
            device.place(self.compute, size + WORK_BYTES, self._move)

    def annotate(self, report: str) -> Annotated:
        """Return the entities of a report, whose words keep their case.

        Raises:
            DoesNotFit: If it does not fit into the memory of a GPU that was asked for by name.
        """
        report = _without_lone_surrogates(report)
        words = self._words(report)
        seen = [word[:MAX_CHARACTERS] for word in words[:MAX_WORDS]]
        truncated = seen != words
        if not self._has_pieces(seen):
            return Annotated({}, truncated)
        text = " ".join(seen) if truncated else report
        try:
            return Annotated(self._entities(text), truncated)
        except (RuntimeError, MemoryError) as error:
            if self.device == "cpu" or not is_out_of_memory(error):
                raise
            problem = f"f1_radgraph: a report of {len(seen)} words does not fit into the GPU ({first_line(error)})"
        self._leave_gpu(problem)
        return Annotated(self._entities(text), truncated)

    def _leave_gpu(self, problem: str) -> None:
        """Go to the CPU, if the device was this project's to choose."""
        if self.compute.device != "auto":
            raise DoesNotFit(f"{problem}. Use metrics_device=auto or cpu, or free memory and score again")
        device.tell_once(f"{problem}: going on with the CPU, which takes longer", subject="RadGraph leaves a GPU")
        self._move("cpu")
        free_memory()

    def _words(self, report: str) -> list[str]:
        """Return the words into which the package cuts a report."""
        from radgraph.utils import preprocess_reports

        (prepared,) = preprocess_reports([report], self._kind)
        (words,) = prepared["sentences"]
        return list(words)

    def _has_pieces(self, words: list[str]) -> bool:
        """Return whether the encoder's tokenizer finds anything in the words: the package cannot take nothing."""
        tokenizer = self._radgraph.reader._token_indexers["bert"]._tokenizer
        return any(tokenizer(word, add_special_tokens=False)["input_ids"] for word in words)

    def _entities(self, text: str) -> dict[str, dict[str, Any]]:
        import torch

        with torch.inference_mode(), full_precision(self.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a report of one word may break it; it does not
            found = self._radgraph([text])
        if "0" not in found:
            raise RuntimeError(f"the package radgraph could not annotate a report of {len(text)} characters; see above")
        return dict(found["0"]["entities"])

    def _move(self, where: str) -> None:
        import torch

        self.device = where
        self._radgraph.device = torch.device(where)
        self._radgraph.model.to(self._radgraph.device)


_WARM: Warm[Annotator] = Warm(capacity=1)


def annotator(weights: Weights, compute: Compute) -> Annotator:
    """Return a model on the device for it, loaded unless it was the last one used.

    Raises:
        ModelMissing: If it cannot be loaded.
        DeviceUnavailable: See `device.place`.
    """
    key = (weights, fingerprint(weights), compute.device)
    model = _WARM.get(key, lambda: Annotator(weights, compute))
    try:
        model.settle()
    except BaseException:
        _WARM.forget(key)  # who knows where its weights are
        raise
    return model


def _load(weights: Weights) -> Any:
    """Return the package's own model, on the CPU.

    It wants a folder named after the model, and a configuration that names the encoder: it gets one for the moment,
    with links to the files.
    """
    content, _ = configuration(weights.folder)
    encoder = str(weights.encoder)
    content["model"]["embedder"]["token_embedders"]["bert"]["model_name"] = encoder
    content["dataset_reader"]["token_indexers"]["bert"]["model_name"] = encoder
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as stage:
        from radgraph import RadGraph
        from radgraph.allennlp.common import cached_transformers

        _repair(cached_transformers)
        folder = Path(stage) / weights.kind
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
        for name in ("vocabulary", "weights.th"):
            os.symlink((weights.folder / name).resolve(), folder / name)
        try:
            loaded = RadGraph(model_type=weights.kind, model_cache_dir=stage, cuda=-1)
        except Exception as error:  # of torch, transformers or the package, about any of the files
            raise ModelMissing(
                f"radgraph_model: the model in {weights.folder}, with the encoder in {weights.encoder}, cannot be "
                f"loaded ({type(error).__name__}: {error}). Fetch {REPOSITORY} again"
            ) from error
        cached_transformers._model_cache.clear()  # a second copy of the encoder, with random weights
    return loaded


def _repair(cached_transformers: Any) -> None:
    """Let the package's only source of tokenizers give those that it can work with."""
    original: Callable[..., Any] = cached_transformers.get_tokenizer
    if getattr(original, "repaired", False):
        return

    def get_tokenizer(model_name: str, **settings: Any) -> Any:
        settings.pop("add_special_tokens", None)  # a method of tokenizers since transformers 4.44, no longer a setting
        tokenizer = original(model_name, **settings)
        if not hasattr(tokenizer, "encode_plus"):
            tokenizer.encode_plus = tokenizer.__call__
        if not hasattr(tokenizer, "build_inputs_with_special_tokens"):
            start, end = _special_tokens(tokenizer)
            tokenizer.build_inputs_with_special_tokens = lambda ids: [*start, *ids, *end]
        return tokenizer

    get_tokenizer.repaired = True  # type: ignore[attr-defined]
    cached_transformers.get_tokenizer = get_tokenizer


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the numbers of the tokens that a tokenizer puts before and after a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    return ids[: special.index(0)], ids[len(special) - special[::-1].index(0) :]


def _bound_memory(relation: Any) -> None:
    """Let the network for relations take the candidates of long reports in blocks.

    The package lays out a vector for each pair of candidates, six times over: 2.4 GB for a report of 512 words with a
    base encoder, 10 GB for one of 1,024. Up to 128 candidates, about 256 words, it runs as it is.
    """
    lay_out, score = relation._compute_span_pair_embeddings, relation._compute_relation_scores

    def pairs(candidates: torch.Tensor) -> torch.Tensor:
        return candidates if candidates.size(1) ** 2 > _PAIRS else lay_out(candidates)

    def scores(given: torch.Tensor, mentions: torch.Tensor) -> torch.Tensor:
        if given.dim() == 4:  # laid out already
            return score(given, mentions)
        return _scores_in_blocks(relation, given, mentions)

    relation._compute_span_pair_embeddings = pairs
    relation._compute_relation_scores = scores


def _scores_in_blocks(relation: Any, candidates: torch.Tensor, mentions: torch.Tensor) -> torch.Tensor:
    """Return the scores of all pairs of candidates, the one for "no relation" first; shape (1, n, n, labels + 1)."""
    import torch

    network = relation._relation_feedforwards[relation._active_namespace]
    head = relation._relation_scorers[relation._active_namespace]
    n = candidates.size(1)
    rows = []
    for first in candidates[0].split(max(1, _PAIRS // n)):
        one, other = first.unsqueeze(1).expand(-1, n, -1), candidates.expand(first.size(0), -1, -1)
        rows.append(head(network(torch.cat([one, other, one * other], dim=-1))))
    found = torch.cat(rows).unsqueeze(0) + mentions.unsqueeze(-1) + mentions.transpose(1, 2).unsqueeze(-1)
    return torch.cat([found.new_zeros(1, n, n, 1), found], dim=-1)


def _without_lone_surrogates(text: str) -> str:
    """Return the text with what is no character replaced, since no tokenizer takes it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
