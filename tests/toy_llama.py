"""Toy causal language models: one whose probabilities are a table that a test can sum by hand, and random ones.

Both are plain folders that transformers 4.57 and 5 and vLLM load. Weights are made with numpy, whose `RandomState`
never changes its stream, and the files are written directly, so the models are the same whatever is installed.

The tokenizer has one token for each character of `characters`, in that order from 0, then `<s>`, `</s>` and `<unk>`.
White space has no token: "ab", " ab" and "a b" are the same two tokens; tokens decode to "ab".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
NEVER = -100.0
"""log P of a token whose probability the table gives as 0: too small for any sum in this file's tests to see."""

Table = Mapping[str, Mapping[str, float]]

TWO_TOKENS: Table = {"a": {"a": 0.7, "b": 0.3}, "b": {"a": 0.4, "b": 0.6}}
"""P(next | token) over two tokens; no completion ends."""

TABLE: Table = {
    "a": {"a": 0.5, "b": 0.3, END: 0.2},
    "b": {"a": 0.6, "b": 0.3, END: 0.1},
    BEGIN: {"a": 0.25, "b": 0.75},
}
"""P(next | token) over two tokens and the end of the text."""


def token_ids(characters: str = "ab") -> dict[str, int]:
    """The id of each token."""
    return {token: number for number, token in enumerate([*characters, BEGIN, END, UNKNOWN])}


def log_table(table: Table = TABLE, characters: str = "ab") -> np.ndarray:
    """log P(next | token), float64 of shape (tokens, tokens), `NEVER` for 0; rows left out are even over characters."""
    ids = token_ids(characters)
    even = dict.fromkeys(characters, 1 / len(characters))
    found = np.full((len(ids), len(ids)), NEVER)
    for token, row in ids.items():
        chances = table.get(token, even)
        assert abs(sum(chances.values()) - 1) < 1e-12, (token, chances)
        for following, chance in chances.items():
            if chance:
                found[row, ids[following]] = np.log(chance)
    return found


def write_bigram_llama(
    folder: Path,
    table: Table = TABLE,
    *,
    characters: str = "ab",
    max_length: int = 512,
    chat_template: str | None = None,
) -> Path:
    """Write a Llama whose next-token distribution depends on the last token only, and is exactly a table.

    Attention and the feed-forward layer add nothing; every token's embedding is a direction of its own, and the output
    layer holds the table's logarithms.

    Args:
        folder: Where the model goes.
        table: P(next | token); rows left out are even over the characters, entries left out are 0.
        characters: The tokens, one character each.
        max_length: The longest text that the model takes.
        chat_template: The tokenizer's template for chats.
    """
    hidden, ids = 64, token_ids(characters)
    assert len(ids) <= hidden
    config = _config(len(ids), hidden, layers=1, heads=1, kv_heads=1, max_length=max_length, characters=characters)
    weights = {name: np.zeros(shape) for name, shape in _shapes(config).items()}
    size = np.sqrt(hidden * (1 - config["rms_norm_eps"]))  # so that the last normalisation divides by exactly 1
    weights["model.embed_tokens.weight"][np.arange(len(ids)), np.arange(len(ids))] = size
    weights["lm_head.weight"][:, : len(ids)] = log_table(table, characters).T / size
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] += 1
    return _write(folder, config, weights, characters, chat_template)


def write_random_llama(
    folder: Path,
    *,
    characters: str = "abc",
    layers: int = 2,
    heads: int = 2,
    kv_heads: int | None = None,
    head_dim: int = 64,
    seed: int = 0,
    sliding_window: int | None = None,
    max_length: int = 512,
    sharpness: float = 1.5,
    chat_template: str | None = None,
) -> Path:
    """Write a Llama with random weights, in which every earlier token changes what comes next.

    Args:
        folder: Where the model goes.
        characters: The tokens, one character each; the vocabulary has three more.
        layers: Layers.
        heads: Heads of attention.
        kv_heads: Heads of keys and values; as many as `heads` if not given.
        head_dim: Size of a head.
        seed: Seed of the weights.
        sliding_window: Tokens that attention looks back over; the model is then a Mistral.
        max_length: The longest text that the model takes.
        sharpness: Standard deviation of the logits, about.
        chat_template: The tokenizer's template for chats.
    """
    hidden = heads * head_dim
    config = _config(
        len(token_ids(characters)), hidden, layers, heads, kv_heads or heads, max_length, characters, sliding_window
    )
    rng = np.random.RandomState(seed)
    weights = {}
    for name, shape in _shapes(config).items():
        drawn = rng.standard_normal(shape)
        if name.endswith("norm.weight"):
            weights[name] = 1 + 0.1 * drawn
        elif "embed" in name:
            weights[name] = drawn
        else:
            weights[name] = drawn * (sharpness if "lm_head" in name else 1.5) / np.sqrt(shape[1])
    return _write(folder, config, weights, characters, chat_template)


def write_tokenizer(folder: Path, characters: str, max_length: int = 512, chat_template: str | None = None) -> None:
    """Write the tokenizer of one token a character."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(token_ids(characters), unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (BEGIN, END, UNKNOWN)])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN,
        "model_max_length": max_length, "clean_up_tokenization_spaces": False,
        **({"chat_template": chat_template} if chat_template else {}),
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _config(
    vocabulary: int,
    hidden: int,
    layers: int,
    heads: int,
    kv_heads: int,
    max_length: int,
    characters: str,
    sliding_window: int | None = None,
) -> dict[str, Any]:
    kind, name = ("llama", "LlamaForCausalLM") if sliding_window is None else ("mistral", "MistralForCausalLM")
    ids = token_ids(characters)
    return {
        "architectures": [name], "model_type": kind, "dtype": "float32", "vocab_size": vocabulary,
        "hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": hidden // heads,
        "max_position_embeddings": max_length, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0,
        "bos_token_id": ids[BEGIN], "eos_token_id": ids[END],
        **({} if sliding_window is None else {"sliding_window": sliding_window}),
    }  # fmt: skip


def _shapes(config: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    shapes: dict[str, Sequence[int]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        inside = {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (hidden, hidden),
            "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        }  # fmt: skip
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in inside.items()}
    return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (vocabulary, hidden)}


def _write(
    folder: Path, config: dict[str, Any], weights: Mapping[str, np.ndarray], characters: str, chat_template: str | None
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    tensors = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    write_tokenizer(folder, characters, config["max_position_embeddings"], chat_template)
    return folder
