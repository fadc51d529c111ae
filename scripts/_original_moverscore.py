"""Load the published `moverscore` 1.0.3 with a model of one's own, on libraries of today.

Its module `moverscore_v2` cannot be imported as it stands: at import it downloads a model and puts it on the first GPU,
and it uses what transformers and numpy have given up (`tokenizer.max_len`, models that return tuples, `np.float`). Here
the names that it finds at import are stand-ins for the time of the import; its functions stay the published ones.
"""

from __future__ import annotations

import importlib
import sys
import types
from multiprocessing.pool import ThreadPool
from typing import Any
from unittest import mock

import numpy
import torch


class _OldModel:
    """A model as the functions of moverscore call it: it returns (output, hidden states, attentions)."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def eval(self) -> _OldModel:
        return self

    def to(self, device: str) -> _OldModel:
        return self

    def __call__(self, **inputs: Any) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], None]:
        found = self.model(**inputs, output_hidden_states=True)
        return found.last_hidden_state, found.hidden_states, None


class _Loader:
    """A class of transformers that hands out one object, whatever model is asked for."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def from_pretrained(self, *arguments: Any, **options: Any) -> Any:
        return self.value


def load(model: str) -> types.ModuleType:
    """Return the module `moverscore_v2` with the tokenizer and the encoder of a folder in place of its own.

    Args:
        model: A model folder with the files of a slow tokenizer, as the package was written for.
    """
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model, use_fast=False)
    tokenizer.max_len = tokenizer.model_max_length
    encoder = _OldModel(transformers.AutoModel.from_pretrained(model).eval())

    stand_in = types.ModuleType("transformers")
    stand_in.DistilBertConfig = _Loader(None)
    stand_in.DistilBertTokenizer = _Loader(tokenizer)
    stand_in.DistilBertModel = _Loader(encoder)
    plots = {name: types.ModuleType(name) for name in ("matplotlib", "matplotlib.pyplot")}
    plots["matplotlib"].pyplot = plots["matplotlib.pyplot"]
    sys.modules.pop("moverscore_v2", None)
    with mock.patch.dict(sys.modules, {"transformers": stand_in, **plots}):
        module = importlib.import_module("moverscore_v2")

    module.np = types.ModuleType("numpy")
    vars(module.np).update(vars(numpy), float=float)
    module.Pool = ThreadPool
    return module


def exact_distances(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return Euclidean distances by subtraction in float64, in place of `batched_cdist_l2`.

    The published function goes through float32 scalar products, whose rounding the square root enlarges: two equal
    unit vectors end up at a distance of up to about 7e-4 instead of 0.
    """
    first, second = first.double(), second.double()
    return torch.stack([(vector.unsqueeze(-2) - second).pow(2).sum(-1).sqrt() for vector in first.unbind(-2)], dim=-2)
