"""BLEURT checkpoints: what a folder holds, loaded strictly into plain classes of transformers.

The published PyTorch weights (`lucadiliello/bleurt-*`, `lucadiliello/BLEURT-20*`) are in the layout of bleurt-pytorch
0.0.1, a package that does not run on transformers 5 and is not needed: its networks are BERT and RemBERT under other
names. `load` renames the tensors in memory (`bleurt_weights`). `convert` writes them once as a plain folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.metrics import bleurt_tokens, bleurt_weights
from lm_eval_healthcare.metrics.bleurt_tokens import Subwords, VocabularyError, read_json
from lm_eval_healthcare.metrics.bleurt_weights import PORT, CheckpointError
from lm_eval_healthcare.metrics.encoding import checkpoints

if TYPE_CHECKING:
    import torch

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

__all__ = ["Checkpoint", "CheckpointError", "convert", "load", "missing"]


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
        _refuse_tensorflow(model)
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
        if kind == PORT:
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

    def check(self) -> None:
        """Refuse what could not be scored with; of the weights only names and shapes are read.

        Raises:
            CheckpointError: See `bleurt_weights.check`.
            VocabularyError: If the folder lacks a usable vocabulary.
        """
        self.subwords()
        bleurt_weights.check(self.folder, self.kind, self.fields)


def missing(model: str) -> str | None:
    """Return why a model cannot be scored with and what to do, or None if it can or is on the hub.

    Nothing is downloaded, and of weights only names and shapes are read.
    """
    try:
        _refuse_tensorflow(model)
        problem = checkpoints.missing(model)
        if problem is None and checkpoints.find(model) is not None:  # else it is on the hub
            Checkpoint.of(model).check()
    except ValueError as error:
        return str(error)
    return problem


def load(checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the network of a checkpoint, in float32 on the CPU, ready to score.

    Raises:
        CheckpointError: See `bleurt_weights.load`.
    """
    return bleurt_weights.load(checkpoint.folder, checkpoint.kind, checkpoint.fields)


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
    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder; choose another target, or empty it")
    checkpoint = Checkpoint.of(os.fspath(source))
    checkpoint.subwords()
    model = load(checkpoint)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _write(checkpoint, model, {"hidden_act": hidden_act} if hidden_act else {}, part)
        if target.exists():
            target.rmdir()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _write(checkpoint: Checkpoint, model: torch.nn.Module, changes: dict[str, str], folder: Path) -> None:
    """Write a checkpoint in the plain layout into a folder."""
    from safetensors.torch import save_file

    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.dumps(_plain_config(checkpoint) | changes, indent=2, sort_keys=True)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")
    _copy_vocabulary(checkpoint, folder)
    folder.chmod(0o755)


def _refuse_tensorflow(model: str) -> None:
    given = Path(os.path.expanduser(model))
    if (given / "saved_model.pb").is_file() and not (given / "config.json").is_file():
        raise CheckpointError(
            f"bleurt_model={model} is in TensorFlow's format, which is not read; give the PyTorch version of the "
            "same weights, such as lucadiliello/bleurt-base-512 or lucadiliello/BLEURT-20"
        )


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
    positions = int(config.get("max_position_embeddings") or 512)
    stated = next((value for value in candidates if isinstance(value, int) and value > 0), positions)
    return min(stated, positions)


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
