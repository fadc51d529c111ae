"""BLEURT checkpoints: what a folder holds, loaded strictly into plain classes of transformers.

The published PyTorch weights (`lucadiliello/bleurt-*`, `lucadiliello/BLEURT-20*`) are in the layout of bleurt-pytorch
0.0.1, a package that does not run on transformers 5 and is not needed: its networks are BERT and RemBERT under other
names. `load` renames the tensors in memory. `convert` writes them once as a plain folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.metrics import bleurt_tokens
from lm_eval_healthcare.metrics.bleurt_tokens import Subwords, VocabularyError, read_json
from lm_eval_healthcare.metrics.encoding import checkpoints

if TYPE_CHECKING:
    import torch

_PORT = "bleurt"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_BUFFERS = ("position_ids", "token_type_ids")
_PUBLISHED_LENGTH = re.compile(r"bleurt-(?:tiny|base|large)-(\d+)")
_SPECIAL_TOKENS = 3
_SHARED_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
)
_MAX_NAMED = 5


class CheckpointError(ValueError):
    """A folder is not a BLEURT checkpoint; the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """What the small files of a checkpoint say.

    Attributes:
        folder: Where it lies.
        kind: The architecture, `bert` or `rembert`.
        fields: Arguments of transformers' configuration of that architecture.
        max_length: Tokens of a pair that the model takes, the three special ones included.
    """

    folder: Path
    kind: str
    fields: dict[str, Any]
    max_length: int

    @property
    def room(self) -> int:
        """Tokens of the two texts that the model takes."""
        return self.max_length - _SPECIAL_TOKENS

    @classmethod
    def of(cls, model: str) -> Checkpoint:
        """Find a model, downloading it if need be, and read its configuration.

        Args:
            model: A folder, or a name of the hub, with `@revision` or without.

        Raises:
            ModelMissing: If it cannot be had.
            CheckpointError: If it is not a BLEURT checkpoint.
        """
        given = Path(os.path.expanduser(model))
        if (given / "saved_model.pb").is_file() and not (given / "config.json").is_file():
            raise CheckpointError(
                f"bleurt_model={model} is in TensorFlow's format, which is not read; give the PyTorch version of the "
                "same weights, such as lucadiliello/bleurt-base-512 or lucadiliello/BLEURT-20"
            )
        return cls.read(checkpoints.locate(model), checkpoints.short_name(model))

    @classmethod
    def read(cls, folder: Path, name: str = "") -> Checkpoint:
        """Read the configuration of a checkpoint; neither torch nor the weights are loaded.

        Args:
            folder: The checkpoint.
            name: Its published name, where it says more than the folder: `bleurt-base-128` takes 128 tokens although
                it has 512 positions.

        Raises:
            CheckpointError: If the folder is not a BLEURT checkpoint in one of the two layouts.
        """
        config = _json(folder / "config.json")
        kind = config.get("model_type")
        if kind == _PORT:
            kind = "bert" if config.get("embedding_size") is None else "rembert"
        if kind not in ("bert", "rembert"):
            raise CheckpointError(
                f"bleurt_model={folder} is a model of type {kind!r}; a BLEURT checkpoint is of type bleurt, bert or "
                "rembert. Give one, such as lucadiliello/bleurt-base-512"
            )
        fields = {key: config[key] for key in _SHARED_FIELDS if config.get(key) is not None}
        if kind == "rembert":
            width = config.get("input_embedding_size", config.get("embedding_size"))
            fields |= {} if width is None else {"input_embedding_size": width}
            fields |= {"bos_token_id": None, "eos_token_id": None}  # of no use, and beyond a small vocabulary
        max_length = _max_length(folder, name or folder.name, config)
        if fields.get("type_vocab_size", 2) < 2:
            raise CheckpointError(f"bleurt_model={folder} knows one kind of text only; it is not a BLEURT checkpoint")
        if max_length < _SPECIAL_TOKENS + 2:
            raise CheckpointError(f"bleurt_model={folder} takes {max_length} tokens; a pair of texts needs at least 5")
        return cls(folder, kind, fields, max_length)

    def subwords(self) -> Subwords:
        """Return what cuts texts into this checkpoint's subwords.

        Raises:
            VocabularyError: If the folder lacks a usable vocabulary.
        """
        if self.kind == "bert":
            subwords: Subwords = bleurt_tokens.wordpiece_of(self.folder)
        else:
            subwords = bleurt_tokens.SentencePiece(bleurt_tokens.sentencepiece_file(self.folder))
        if subwords.size > self.fields.get("vocab_size", subwords.size):
            raise VocabularyError(
                f"bleurt_model={self.folder} has weights for {self.fields['vocab_size']} subwords and a vocabulary of "
                f"{subwords.size}; one of them is of another model. Fetch it again"
            )
        return subwords


def load(checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the network of a checkpoint, in float32 on the CPU, ready to score.

    It is a `BertForSequenceClassification` or `RemBertForSequenceClassification` with one output.

    Raises:
        CheckpointError: If a tensor is missing, not expected or of the wrong shape; the text names it.
    """
    import torch

    model = _empty_model(checkpoint)
    expected = model.state_dict()
    given = dict(_renamed(checkpoint))
    _check(checkpoint.folder, {name: tuple(tensor.shape) for name, tensor in expected.items()}, given)
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


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str], hidden_act: str | None = None) -> Path:
    """Write a checkpoint as a plain transformers folder: one safetensors file, config.json and the vocabulary.

    The folder can be given as `bleurt_model` and gives the same scores, under a signature of its own: signatures name
    the files that were used.

    Args:
        source: A checkpoint in either layout: a folder, or a name of the hub.
        target: The folder to make; it must not exist, or be empty.
        hidden_act: Another activation for the configuration. The published TensorFlow checkpoints compute GELU by its
            tanh approximation, transformers' `gelu_pytorch_tanh`, where the PyTorch version of the same weights, and
            so this project by default, takes the exact one; scores are reported to differ by up to 0.14%
            (https://github.com/lucadiliello/bleurt-pytorch/issues/1).

    Returns:
        The target.

    Raises:
        ModelMissing: If the source cannot be had.
        CheckpointError: If it is not a BLEURT checkpoint, or the target holds something.
        VocabularyError: If the source lacks a usable vocabulary.
    """
    from safetensors.torch import save_file

    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder; choose another target, or empty it")
    checkpoint = Checkpoint.of(os.fspath(source))
    checkpoint.subwords()
    model = load(checkpoint)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        save_file(weights, part / "model.safetensors", metadata={"format": "pt"})
        config = _plain_config(checkpoint) | ({"hidden_act": hidden_act} if hidden_act else {})
        (part / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        _copy_vocabulary(checkpoint, part)
        part.chmod(0o755)
        if target.exists():
            target.rmdir()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except VocabularyError as error:
        raise CheckpointError(str(error)) from None


def _max_length(folder: Path, name: str, config: dict[str, Any]) -> int:
    """Return how many tokens the model was trained to take: what the files say, else what the name says."""
    candidates = [config.get("max_seq_length")]
    if (published := _PUBLISHED_LENGTH.fullmatch(name.rpartition("/")[2])) is not None:
        candidates.append(int(published[1]))
    if (folder / "tokenizer_config.json").is_file():
        candidates.append(_json(folder / "tokenizer_config.json").get("model_max_length"))
    positions = int(config.get("max_position_embeddings", 512))
    stated = next((value for value in candidates if isinstance(value, int) and value > 0), positions)
    return min(stated, positions)


def _empty_model(checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the network without memory for its weights."""
    import torch
    import transformers

    config_class, model_class = {
        "bert": (transformers.BertConfig, transformers.BertForSequenceClassification),
        "rembert": (transformers.RemBertConfig, transformers.RemBertForSequenceClassification),
    }[checkpoint.kind]
    with torch.device("meta"):
        return model_class(config_class(**checkpoint.fields, num_labels=1))


def _renamed(checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[str, torch.Tensor]]]:
    """Yield the tensors of a checkpoint by the name that transformers gives them, with the name they had."""
    for name, tensor in _tensors(checkpoint.folder):
        if name.rpartition(".")[2] in _BUFFERS:
            continue
        plain = re.sub(rf"^{_PORT}\.", f"{checkpoint.kind}.", name)
        plain = plain.replace(".encoder.embedding_projection.", ".encoder.embedding_hidden_mapping_in.")
        yield plain, (name, tensor)


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a folder's weights, in one file or in several."""
    for name in _WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            yield from _read_weights(folder / name)
            return
        if index.is_file():
            shards = _json(index).get("weight_map", {}).values()
            for shard in sorted({PurePosixPath(str(shard)).name for shard in shards}):
                if not (folder / shard).is_file():
                    raise CheckpointError(f"{folder} lacks {shard}, which {index.name} names; fetch it again")
                yield from _read_weights(folder / shard)
            return
    raise CheckpointError(f"{folder} holds no weights ({' or '.join(_WEIGHTS)}); fetch the checkpoint again")


def _read_weights(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    import pickle

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            yield from load_file(path).items()
        else:
            yield from torch.load(path, map_location="cpu", weights_only=True).items()
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, AttributeError, OSError) as error:
        first = str(error).strip().splitlines()
        raise CheckpointError(
            f"{path} cannot be read as weights ({type(error).__name__}: {first[0] if first else 'no detail'}); "
            "fetch it again, or save it as safetensors"
        ) from None


def _check(folder: Path, expected: dict[str, tuple[int, ...]], given: dict[str, tuple[str, torch.Tensor]]) -> None:
    """Refuse weights that are not exactly those of the network."""
    shapes = {name: tuple(tensor.shape) for name, (_, tensor) in given.items()}
    problems = [f"lacks {_some(sorted(expected.keys() - given.keys()))}"] if expected.keys() - given.keys() else []
    if given.keys() - expected.keys():
        problems.append(f"has {_some(sorted(given[name][0] for name in given.keys() - expected.keys()))} too many")
    problems += [
        f"has {given[name][0]} of shape {shapes[name]} where {shape} is expected"
        for name, shape in expected.items()
        if name in shapes and shapes[name] != shape
    ][:_MAX_NAMED]
    if problems:
        raise CheckpointError(
            f"bleurt_model={folder} does not fit its config.json: it {'; it '.join(problems)}. A BLEURT checkpoint is "
            "a BERT or RemBERT encoder with a pooler and a linear layer with one output; fetch it again"
        )


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _plain_config(checkpoint: Checkpoint) -> dict[str, Any]:
    architecture = {"bert": "BertForSequenceClassification", "rembert": "RemBertForSequenceClassification"}
    return {
        **{name: value for name, value in checkpoint.fields.items() if value is not None},
        "architectures": [architecture[checkpoint.kind]],
        "model_type": checkpoint.kind,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "problem_type": "regression",
        "max_seq_length": checkpoint.max_length,
    }


def _copy_vocabulary(checkpoint: Checkpoint, target: Path) -> None:
    """Copy the vocabulary under the name that transformers' tokenizer of the architecture looks for."""
    if checkpoint.kind == "rembert":
        shutil.copyfile(bleurt_tokens.sentencepiece_file(checkpoint.folder), target / "sentencepiece.model")
        return
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        if (checkpoint.folder / name).is_file():
            shutil.copyfile(checkpoint.folder / name, target / name)
