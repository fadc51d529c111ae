"""Load the published `moverscore` 1.0.3 with a model of one's own, on libraries of today.

Its two modules cannot be imported as they stand: at import they download a model and put it on the first GPU, one of
them needs a package that is long gone, and both use what transformers and numpy have given up (`tokenizer.max_len`,
models that return tuples, numpy's `float`). Here the names that they find at import are stand-ins for the time of the
import; their functions stay the published ones.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import types
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
import torch


class _OldModel:
    """A model as `moverscore_v2` calls it: it returns (output, hidden states, attentions)."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def eval(self) -> _OldModel:
        return self

    def to(self, device: str) -> _OldModel:
        return self

    def __call__(self, **inputs: Any) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], None]:
        found = self.model(**inputs, output_hidden_states=True)
        return found.last_hidden_state, found.hidden_states, None


class _OldestModel(_OldModel):
    """A model as `moverscore` calls it: it returns (output of each layer, pooled output)."""

    def __call__(self, ids: torch.Tensor, types: torch.Tensor, attention_mask: torch.Tensor, **other: Any) -> Any:
        _, hidden_states, _ = super().__call__(input_ids=ids, token_type_ids=types, attention_mask=attention_mask)
        return hidden_states[1:], None


class _Loader:
    """A class of transformers that hands out one object, whatever model is asked for."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def from_pretrained(self, *arguments: Any, **options: Any) -> Any:
        return self.value


def load(model: str, *, first_version: bool = False) -> types.ModuleType:
    """Return `moverscore_v2` (or `moverscore`, the first version) with a folder's tokenizer and encoder.

    Args:
        model: A model folder with the files of a slow tokenizer, as the package was written for.
        first_version: Whether the module `moverscore` is wanted.
    """
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model, use_fast=False)
    tokenizer.max_len = tokenizer.model_max_length
    encoder = transformers.AutoModel.from_pretrained(model).eval()
    if first_version:
        module = _import("moverscore", _old_bert(tokenizer, _OldestModel(encoder)))
        module.device = "cpu"
    else:
        names = ("DistilBertConfig", "DistilBertTokenizer", "DistilBertModel")
        values = (None, tokenizer, _OldModel(encoder))
        stand_in = _module("transformers", **{name: _Loader(value) for name, value in zip(names, values, strict=True)})
        pyplot = types.ModuleType("matplotlib.pyplot")
        plots = {"matplotlib": _module("matplotlib", pyplot=pyplot), "matplotlib.pyplot": pyplot}
        module = _import("moverscore_v2", {"transformers": stand_in, **plots})
    module.np = _module("numpy", **{**vars(numpy), "float": float})
    module.Pool = ThreadPool
    return module


def exact_distances(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return Euclidean distances by subtraction in float64, in place of `batched_cdist_l2`.

    The published function goes through float32 scalar products, whose rounding the square root enlarges: two equal
    unit vectors end up at a distance of up to about 7e-4 instead of 0.
    """
    return exact_squares(first, second).sqrt()


def exact_squares(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return squared distances by subtraction in float64, in place of `pairwise_distances` of the first version."""
    first, second = first.double(), second.double()
    return torch.stack([(vector.unsqueeze(-2) - second).pow(2).sum(-1) for vector in first.unbind(-2)], dim=-2)


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(members)
    return module


def _import(name: str, stand_ins: dict[str, types.ModuleType]) -> types.ModuleType:
    """Import a module anew, with other modules in place of those that it imports."""
    sys.modules.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        # Where the first version finds this file, it downloads nothing.
        (Path(folder) / "MNLI_BERT.zip").touch()
        with mock.patch.dict(sys.modules, stand_ins), mock.patch.dict(os.environ, MOVERSCORE=folder):
            return importlib.import_module(name)


def _old_bert(tokenizer: Any, model: _OldestModel) -> dict[str, types.ModuleType]:
    """Return modules that stand for pytorch_pretrained_bert and give out this tokenizer and this model."""

    class BertPreTrainedModel:
        @classmethod
        def from_pretrained(cls, *arguments: Any) -> _OldestModel:
            return model

    modeling = _module("pytorch_pretrained_bert.modeling", BertPreTrainedModel=BertPreTrainedModel)
    package = _module("pytorch_pretrained_bert", BertTokenizer=_Loader(tokenizer), BertModel=None, modeling=modeling)
    return {
        "pytorch_pretrained_bert": package,
        "pytorch_pretrained_bert.modeling": modeling,
        "requests": types.ModuleType("requests"),
    }
