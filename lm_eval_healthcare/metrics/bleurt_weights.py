"""The network of a BLEURT checkpoint: its tensors renamed in memory, checked against the architecture and loaded."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.metrics.bleurt_tokens import VocabularyError, read_json
from lm_eval_healthcare.metrics.encoding.machine import first_line
from lm_eval_healthcare.metrics.encoding.soundness import cut_short

if TYPE_CHECKING:
    import torch

PORT = "bleurt"
"""Type of a model in the layout of bleurt-pytorch, and the start of its tensors' names."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_BUFFERS = ("position_ids", "token_type_ids")
_HEAD = "classifier."
_MAX_NAMED = 5


class CheckpointError(ValueError):
    """A folder is not a BLEURT checkpoint; the text says what is wrong and what to do."""


def load(folder: Path, kind: str, fields: Mapping[str, Any]) -> torch.nn.Module:
    """Return the network of a checkpoint, in float32 on the CPU, ready to score.

    It is a `BertForSequenceClassification` or `RemBertForSequenceClassification` with one output.

    Args:
        folder: The checkpoint.
        kind: The architecture, `bert` or `rembert`.
        fields: Arguments of transformers' configuration of that architecture.

    Raises:
        CheckpointError: If a tensor is missing, not expected or of the wrong shape; the text names it.
    """
    import torch

    model = _empty_model(folder, kind, fields)
    given = dict(_renamed(folder, kind))
    _compare(folder, model, given)
    weights = {}
    while given:  # copied, since arithmetic differs in the last digit with where a file's tensors happen to begin
        name, (_, tensor) = given.popitem()
        weights[name] = tensor.to(torch.float32, copy=True)
    model.load_state_dict(weights, strict=True, assign=True)
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                fresh = torch.arange(buffer.shape[-1]) if name == "position_ids" else torch.zeros(1, dtype=torch.long)
                module._buffers[name] = fresh.expand(buffer.shape).clone()
    return model.eval()


def check(folder: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Refuse weights that `load` would refuse, without reading more than names and shapes.

    Args:
        folder: As for `load`.
        kind: As for `load`.
        fields: As for `load`.

    Raises:
        CheckpointError: If a file is cut short, or a tensor is missing, not expected or of the wrong shape.
    """
    _compare(folder, _empty_model(folder, kind, fields), dict(_renamed(folder, kind, names_only=True)))


def _empty_model(folder: Path, kind: str, fields: Mapping[str, Any]) -> torch.nn.Module:
    """Return the network without memory for its weights."""
    import torch
    import transformers

    config_class, model_class = {
        "bert": (transformers.BertConfig, transformers.BertForSequenceClassification),
        "rembert": (transformers.RemBertConfig, transformers.RemBertForSequenceClassification),
    }[kind]
    try:
        with torch.device("meta"):
            return model_class(config_class(**fields, num_labels=1))
    except Exception as error:  # of transformers or torch, about any of the fields
        raise CheckpointError(
            f"bleurt_model={folder}: its config.json describes no {kind} network ({type(error).__name__}: {error}); "
            "fetch it again"
        ) from error


def _renamed(folder: Path, kind: str, names_only: bool = False) -> Iterator[tuple[str, tuple[str, torch.Tensor]]]:
    """Yield the tensors of a checkpoint by the name that transformers gives them, with the name they had."""
    for path in _files(folder):
        for name, tensor in _tensors(path, names_only):
            if name.rpartition(".")[2] in _BUFFERS:
                continue
            plain = re.sub(rf"^{PORT}\.", f"{kind}.", name)
            plain = plain.replace(".encoder.embedding_projection.", ".encoder.embedding_hidden_mapping_in.")
            yield plain, (name, tensor)


def _files(folder: Path) -> list[Path]:
    """Return the files that hold a folder's weights, one or several."""
    for name in _WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            shards = _shards(index)
            absent = [shard for shard in shards if not (folder / shard).is_file()]
            if absent:
                raise CheckpointError(f"{folder} lacks {_some(absent)}, which {index.name} names; fetch it again")
            return [folder / shard for shard in shards]
    raise CheckpointError(f"{folder} holds no weights ({' or '.join(_WEIGHTS)}); fetch the checkpoint again")


def _shards(index: Path) -> list[str]:
    try:
        named = read_json(index).get("weight_map", {}).values()
    except (VocabularyError, AttributeError) as error:
        raise CheckpointError(f"{index} does not say where the weights are ({error}); fetch it again") from None
    return sorted({PurePosixPath(str(shard)).name for shard in named})


def _tensors(path: Path, names_only: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a file's tensors; with `names_only` without numbers, none of which is read then."""
    import torch
    from safetensors import SafetensorError, safe_open

    if (problem := cut_short(path)) is not None:
        raise CheckpointError(f"bleurt_model={path.parent}: {problem}")
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 -- it is no dictionary
                    shape = file.get_slice(name).get_shape()
                    yield name, torch.empty(shape, device="meta") if names_only else file.get_tensor(name)
        else:
            place = "meta" if names_only else "cpu"
            yield from torch.load(path, map_location=place, weights_only=True).items()
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, AttributeError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as weights ({type(error).__name__}: {first_line(error)}); it is damaged. Fetch it "
            "again, or save it as safetensors"
        ) from None


def _compare(folder: Path, model: torch.nn.Module, given: Mapping[str, tuple[str, torch.Tensor]]) -> None:
    """Refuse weights that are not exactly those of the network."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, (_, tensor) in given.items()}
    lacking = sorted(expected.keys() - given.keys(), key=lambda name: (not name.startswith(_HEAD), name))
    extra = sorted(given[name][0] for name in given.keys() - expected.keys())
    problems = [f"lacks {_some(lacking)}"] if lacking else []
    problems += [f"has {_some(extra)} too many"] if extra else []
    problems += [
        f"has {given[name][0]} of shape {shapes[name]} where {shape} is expected"
        for name, shape in expected.items()
        if name in shapes and shapes[name] != shape
    ][:_MAX_NAMED]
    if problems:
        headless = "which is not here. Give one, such as lucadiliello/bleurt-base-512"
        raise CheckpointError(
            f"bleurt_model={folder} does not fit its config.json: it {'; it '.join(problems)}. A BLEURT checkpoint is "
            "a BERT or RemBERT encoder with a pooler and a linear layer with one output"
            + (f", {headless}" if f"{_HEAD}weight" in lacking else "; fetch it again")
        )


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
