"""Tiny BLEURT checkpoints with random weights, in the layout of the published PyTorch weights and in transformers' own.

They are `tiny_bert` and `tiny_rembert` with a linear layer on top. `python tests/tiny_bleurt.py FOLDER` writes one of
each, in both layouts.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tiny_encoders import tiny_bert, tiny_rembert, weights

HIDDEN = 32
SENTENCE = "the patient has mild fever and a dry cough no pain in chest blood pressure is high zzz hyperkalaemia"
WORDS = SENTENCE.split()
Arrays = dict[str, np.ndarray]


def tiny_bleurt(folder: Path, kind: str = "bert", *, plain: bool = False, store: str = "bin", **config: Any) -> Path:
    """Write a checkpoint.

    Args:
        folder: Where.
        kind: `bert` (as bleurt-base-512) or `rembert` (as BLEURT-20).
        plain: In transformers' layout; else in that of the published weights.
        store: `bin`, `safetensors` or `shards`, of which the last is two files in the format of the first.
        **config: For the encoder: `layers`, `positions`.
    """
    {"bert": tiny_bert, "rembert": tiny_rembert}[kind](folder, hidden=HIDDEN, **config)
    encoder = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    head = weights({"classifier.weight": (1, HIDDEN), "classifier.bias": (1,)})
    prefix = kind if plain else "bleurt"
    arrays = {f"{prefix}.{name}": array for name, array in encoder.items()} | {k: 4 * v for k, v in head.items()}
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if plain:
        settings["architectures"] = [{"bert": "Bert", "rembert": "RemBert"}[kind] + "ForSequenceClassification"]
        settings |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    else:
        settings, arrays = _port_settings(settings), _port_arrays(arrays, settings["max_position_embeddings"])
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    for name in ("tokenizer.json", "sentencepiece.model"):  # the published folders have spm.model alone
        (folder / name).unlink(missing_ok=True)
    save(folder, arrays, store)
    return folder


def save(folder: Path, arrays: Arrays, store: str) -> None:
    """Write weights in one of the three ways."""
    if store == "safetensors":
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / "model.safetensors")
        return
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    if store == "bin":
        torch.save(tensors, folder / "pytorch_model.bin")
        return
    names = list(tensors)
    halves = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, half in halves.items():
        torch.save({name: tensors[name] for name in half}, folder / file)
    index = {"metadata": {}, "weight_map": {name: file for file, half in halves.items() for name in half}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")


def load(folder: Path) -> Arrays:
    """Read the weights of a checkpoint that was stored as one `bin`."""
    import torch

    return {k: v.numpy() for k, v in torch.load(folder / "pytorch_model.bin", weights_only=True).items()}


def texts(n: int, seed: int, longest: int = 40) -> list[str]:
    """Return texts of a few words that the vocabulary knows, and two that it does not."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(n)]


def one_at_a_time(reference: int, candidate: int, room: int) -> tuple[int, int]:
    """Truncate a pair step by step: the longer text loses its last token, the candidate where both are equal."""
    while reference + candidate > room:
        if reference > candidate:
            reference -= 1
        else:
            candidate -= 1
    return reference, candidate


def network(arrays: Arrays, ids: np.ndarray, types: np.ndarray, heads: int = 4) -> float:
    """BLEURT's network in numpy, in float64, for tensors named as in the published weights."""
    w = {name.removeprefix("bleurt."): array.astype(np.float64) for name, array in arrays.items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    x = norm("embeddings.LayerNorm", x + w["embeddings.position_embeddings.weight"][: len(ids)])
    if "encoder.embedding_projection.weight" in w:
        x = linear("encoder.embedding_projection", x)
    number = 0
    while f"encoder.layer.{number}.output.dense.weight" in w:
        layer = f"encoder.layer.{number}"
        q, k, v = (
            linear(f"{layer}.attention.self.{name}", x).reshape(len(ids), heads, -1).swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        logits = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        attention = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = (attention / attention.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), -1)
        x = norm(f"{layer}.attention.output.LayerNorm", x + linear(f"{layer}.attention.output.dense", mixed))
        inner = gelu(linear(f"{layer}.intermediate.dense", x))
        x = norm(f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", inner))
        number += 1
    return float(linear("classifier", np.tanh(linear("pooler.dense", x[0])))[0])


def _port_settings(settings: dict[str, Any]) -> dict[str, Any]:
    settings = {**settings, "architectures": ["BleurtForSequenceClassification"], "model_type": "bleurt"}
    settings["embedding_size"] = settings.pop("input_embedding_size", None)
    settings.pop("output_embedding_size", None)
    settings |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "position_embedding_type": "absolute"}
    return settings


def _port_arrays(arrays: Arrays, positions: int) -> Arrays:
    arrays = {k.replace("embedding_hidden_mapping_in", "embedding_projection"): v for k, v in arrays.items()}
    return arrays | {"bleurt.embeddings.position_ids": np.arange(positions)[None]}


if __name__ == "__main__":
    import sys

    for kind in ("bert", "rembert"):
        print(tiny_bleurt(Path(sys.argv[1]) / f"tiny-bleurt-{kind}", kind))
        print(tiny_bleurt(Path(sys.argv[1]) / f"tiny-bleurt-{kind}-plain", kind, plain=True, store="safetensors"))
