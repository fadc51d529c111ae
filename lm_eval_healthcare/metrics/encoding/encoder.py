"""A text encoder: a transformers model and its tokenizer, loaded once, pruned to the layers that are asked for."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.metrics.encoding import device as devices
from lm_eval_healthcare.metrics.encoding.precision import full_precision
from lm_eval_healthcare.metrics.encoding.tokens import TextTokenizer, Tokens
from lm_eval_healthcare.metrics.encoding.warm import Warm
from lm_eval_healthcare.metrics.settings import Compute

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

# Nothing follows the last layer in these, so that one pass gives what a model cut after any of its layers gives.
_ENDS_WITH_ITS_LAYERS = frozenset(
    {
        *("albert", "bart", "bert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra"),
        *("ernie", "longformer", "mpnet", "rembert", "roberta", "squeezebert", "xlm-roberta"),
    }
)
_UNKNOWN_LIMIT = 512
MOST_WINDOWS = 64
"""Parts of a long text that are looked at: some 32,000 tokens of most encoders, whose vectors still fit anywhere."""

_LAYER_COUNTS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
_OPTIONAL_WEIGHTS = ("pooler", "position_ids")
_MOST_TOKENS_KEPT = 2**21
_warm: Warm[Encoder] = Warm(capacity=2)


class Encoder:
    """A model in evaluation mode.

    Attributes:
        folder: Where it was read from.
        n_layers: Layers of the whole model.
        width: Numbers of a vector.
        limit: Tokens of the longest text, special ones included.
        device: Where it is.
        tokenizer: Makes tokens of texts.
        seconds: Time spent in forward passes so far.
        texts: Texts (or windows of long ones) encoded so far.
        kept: Vectors of texts that may be met again, by text, layers and what is done with long texts; see `embed`.
    """

    def __init__(self, folder: Path, compute: Compute, depth: int | None = None, held: int = 0) -> None:
        """Read a model.

        Args:
            folder: A complete model folder, see `checkpoints.locate`.
            compute: Device and type of numbers.
            depth: The deepest layer that will be asked for; layers above are let go. None: all are kept.
            held: See `settle`.

        Raises:
            ValueError: If the folder's weights do not fit its configuration, or its layers cannot be found.
            DeviceUnavailable: See `device.choose`.
        """
        import torch

        self.folder, self.compute = folder, compute
        self.tokenizer = TextTokenizer(folder)
        self._model, self._dtype = _load(folder), getattr(torch, compute.dtype)
        self._layers = _Layers(self._model, folder)
        self.n_layers = len(self._layers)
        self.depth = self.n_layers if depth is None else min(depth, self.n_layers)
        self._layers.keep(self.depth)
        self._model.to(self._dtype)
        self._one_pass = self._model.config.model_type in _ENDS_WITH_ITS_LAYERS
        config = self._model.config
        self.width = int(getattr(config, "hidden_size", None) or config.d_model)
        self.limit = _limit(self.tokenizer, self._model)
        self.device = "cpu"
        self.kept: dict[Any, Any] = {}
        self._tokenized: dict[str, Tokens] = {}
        self._tokenized_to = 0
        self.seconds, self.texts = 0.0, 0
        self.settle(held)

    @property
    def operations(self) -> float:
        """Floating-point operations for a token of a short text: two for each weight of the layers."""
        import torch

        tables = {id(module.weight) for module in self._model.modules() if isinstance(module, torch.nn.Embedding)}
        weights = sum(weight.numel() for weight in self._model.parameters() if id(weight) not in tables)
        return 2.0 * max(1, weights) * (self.depth if self._layers.shared else 1)

    def settle(self, held: int = 0) -> None:
        """Go to the device that the settings and the free memory of GPUs speak for.

        Args:
            held: Bytes of vectors that will be held there at a time.
        """
        if self.device != "cpu":
            return
        size = sum(parameter.numel() * parameter.element_size() for parameter in self._model.parameters())
        devices.place(self.compute, size + self._bytes_of_batch() + held, self.move)

    def move(self, device: str) -> None:
        """Go to a device, also with what an earlier move that failed has left elsewhere."""
        if device != self.device:
            self.kept.clear()
        self._model.to(device)
        self.device = device

    def tokenize(self, texts: Sequence[str], long: str = "truncate") -> list[Tokens]:
        """Return the tokens of each text: cut to `limit`, or with `long="windows"` to that of `MOST_WINDOWS` parts."""
        frame = len(self.tokenizer.prefix) + len(self.tokenizer.suffix)
        limit = self.limit if long == "truncate" else MOST_WINDOWS * (self.limit - frame) + frame
        # A metric that counts the words of the evaluated set asks for the texts that are encoded next.
        known = self._tokenized if self._tokenized_to == limit else {}
        new = list(dict.fromkeys(text for text in texts if text not in known))
        tokens = {**known, **dict(zip(new, self.tokenizer.encode(new, limit), strict=True))} if new else known
        few = sum(map(len, tokens.values())) <= _MOST_TOKENS_KEPT
        self._tokenized, self._tokenized_to = (tokens if few else {}), limit
        return [tokens[text] for text in texts]

    def windows(self, tokens: Tokens) -> list[NDArray[np.int64]]:
        """Return the ids of a text in parts that the model takes, each with the special ids around it."""
        if len(tokens) <= self.limit:
            return [tokens.ids]
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        inner = tokens.ids[len(prefix) : len(tokens) - len(suffix)]
        room = self.limit - len(prefix) - len(suffix)
        parts = [inner[start : start + room] for start in range(0, len(inner), room)]
        return [np.concatenate([prefix, part, suffix]).astype(np.int64) for part in parts]

    def join(self, windows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join the vectors of a text's windows: the first special ones of the first, the last ones of the last."""
        import torch

        if len(windows) == 1:
            return windows[0]
        front, back = len(self.tokenizer.prefix), len(self.tokenizer.suffix)
        last = len(windows) - 1
        return torch.cat(
            [
                window[0 if number == 0 else front : len(window) if number == last else len(window) - back]
                for number, window in enumerate(windows)
            ]
        )

    def encode(self, batch: Sequence[NDArray[np.int64]], layers: Sequence[int]) -> list[dict[int, torch.Tensor]]:
        """Run one forward pass.

        Args:
            batch: Token ids of each text, special ones included, at most `limit`.
            layers: Which layers' vectors to give: 0 the embeddings, 1 to `depth` the output of that layer, as the last
                layer of a model that ends there.

        Returns:
            For each text and layer a float32 tensor of shape `(t, d)` on the model's device, without padding.
        """
        import torch

        lengths = [len(ids) for ids in batch]
        shape = (len(batch), max(lengths))
        ids = np.full(shape, self.tokenizer.pad, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        with torch.inference_mode(), full_precision(self.device):
            on_device = torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)
            start = time.perf_counter()
            hidden = self._forward(*on_device, layers)
            if self.device != "cpu":
                torch.cuda.synchronize(self.device)
            self.seconds += time.perf_counter() - start
            out = [
                {layer: hidden[layer][row, :length].to(torch.float32, copy=True) for layer in layers}
                for row, length in enumerate(lengths)
            ]
        self.texts += len(batch)
        return out

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, layers: Sequence[int]) -> dict[int, torch.Tensor]:
        if len(set(layers)) > 1 and self._one_pass:
            self._layers.use(max(layers))
            states = self._model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
            return {layer: states[layer] for layer in layers}
        out = {}
        for layer in set(layers):
            self._layers.use(layer)
            out[layer] = self._model(ids, attention_mask=mask).last_hidden_state
        return out

    def _bytes_of_batch(self) -> int:
        """A generous estimate of what a batch on a GPU takes beside the weights."""
        return devices.batch_tokens(self.compute, "cuda") * self.width * self._dtype.itemsize * 12


class _Layers:
    """The layers of a model, of which only the first few are run."""

    def __init__(self, model: Any, folder: Path) -> None:
        import torch

        self._model = model
        albert = [module for module in model.modules() if hasattr(module, "albert_layer_groups")]
        self._counter = (albert[0].config, "num_hidden_layers") if albert else None
        self.shared = bool(albert)  # one layer's weights, run several times
        if hasattr(model, "n_layers") and not albert:  # XLM
            self._counter = (model, "n_layers")
        if self._counter:
            self._size = int(getattr(*self._counter))
            return
        size = next((n for n in (getattr(model.config, name, None) for name in _LAYER_COUNTS) if n), None)
        found = [
            (parent, name, child)
            for parent in model.modules()
            for name, child in parent.named_children()
            if isinstance(child, torch.nn.ModuleList) and len(child) == size
        ]
        if not found:
            raise ValueError(
                f"model folder {folder}: the layers of a {model.config.model_type} model cannot be found, so it cannot "
                "be used here. Give another encoder, such as a BERT, RoBERTa, DeBERTa, ELECTRA or T5"
            )
        self._parent, self._name, self._all = found[0]
        self._size = len(self._all)

    def __len__(self) -> int:
        return self._size

    def keep(self, depth: int) -> None:
        """Let the layers above go for good."""
        self.use(depth)
        if self._counter is None:
            self._all = self._all[:depth]

    def use(self, depth: int) -> None:
        """Run only the first layers."""
        if self._counter is not None:
            setattr(*self._counter, depth)
        elif len(getattr(self._parent, self._name)) != depth:
            setattr(self._parent, self._name, self._all[:depth])


def load(folder: Path, compute: Compute, depth: int | None = None, held: int = 0) -> Encoder:
    """Return an encoder, warm if it was used before.

    Args:
        folder: A complete model folder, see `checkpoints.locate`.
        compute: Device and type of numbers.
        depth: The deepest layer that will be asked for.
        held: See `Encoder.settle`.

    Raises:
        ValueError: See `Encoder`.
    """

    def deep_enough(encoder: Encoder) -> bool:
        return encoder.depth >= (encoder.n_layers if depth is None else min(depth, encoder.n_layers))

    key = (folder.resolve(), compute.device, compute.dtype)
    encoder = _warm.get(key, lambda: Encoder(folder, compute, depth, held), deep_enough)
    try:
        encoder.settle(held)
    except BaseException:
        _warm.forget(key)  # who knows where its weights are
        raise
    return encoder


def count_layers(configuration: Mapping[str, Any]) -> int | None:
    """Return how many layers the encoder of a `config.json` has, None if it does not say."""
    names = ("encoder_layers", *_LAYER_COUNTS) if configuration.get("is_encoder_decoder") else _LAYER_COUNTS
    counts = [configuration.get(name) for name in names]
    return next((count for count in counts if type(count) is int), None)


def _load(folder: Path) -> Any:
    """Read the weights as float32 onto the CPU, and only the encoder of an encoder-decoder."""
    from transformers import AutoModel

    kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    try:
        with _quiet_transformers():
            model, report = AutoModel.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
            )
    except Exception as error:  # of transformers, torch or safetensors, in many forms
        raise ValueError(
            f"model folder {folder}: a {kind!r} model cannot be loaded ({type(error).__name__}: {error}). Check "
            "that the folder is complete and that the installed transformers knows this type"
        ) from error
    absent = [name for name in report["missing_keys"] if not any(part in name for part in _OPTIONAL_WEIGHTS)]
    if absent:
        raise ValueError(
            f"model folder {folder}: {len(absent)} weights of a {kind!r} model are missing, such as {min(absent)!r}; "
            "they would be random. Check that weights and config.json belong together"
        )
    if getattr(model, "encoder", None) is not None and getattr(model, "decoder", None) is not None:
        model = model.encoder
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.float().eval().requires_grad_(False)


def _limit(tokenizer: TextTokenizer, model: Any) -> int:
    """The longest text in tokens: what the tokenizer says, but no more than the model has positions for."""
    import torch

    positions: list[int] = []
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and its relatives count positions from the one behind padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            positions.append(module.num_embeddings - first)
    if not positions:
        stated = getattr(model.config, "max_position_embeddings", None)
        positions = [stated] if isinstance(stated, int) and stated > 0 else []
    limits = [*positions, *([tokenizer.max_length] if tokenizer.max_length else [])]
    return min(limits, default=_UNKNOWN_LIMIT)


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep loading from reporting on heads that are not used."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
