"""Forward passes of any causal language model of transformers, whatever the names of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.relaxed_perplexity.engines.chunks import is_out_of_memory

if TYPE_CHECKING:
    import torch

_BLOCK = {"cpu": 2**20, "gpu": 2**26}
"""Numbers of a log-softmax computed at once: what fits into a core's cache, and what fills a GPU."""

_ODD = (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What models may raise whose cache is of another kind than the one that they get."""


class UnsuitedModel(RuntimeError):
    """A model does not get along with the cache that it was given."""


class Forward:
    """Calls a model's own `forward`, so that whatever it does to its logits is done.

    Attributes:
        model: The model, in evaluation mode.
        name: Its class, for messages.
        cache_name: The argument that takes keys and values; None if the model has none.
        stateful: Whether the model says that it keeps more than keys and values of past tokens.
    """

    def __init__(self, model: Any, *, autocast: torch.dtype | None = None) -> None:
        """Look at the arguments of the model's `forward`.

        Args:
            model: A causal language model of transformers, or a PEFT model around one.
            autocast: The dtype of mixed precision, if it is used.
        """
        self.model = model.eval()
        self._autocast = autocast
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.name = type(inner).__name__
        self.config = getattr(inner, "config", None)
        names = inspect.signature(inner.forward).parameters
        self.cache_name = next((name for name in ("cache", "past_key_values") if name in names), None)
        self.stateful = bool(getattr(inner, "_is_stateful", False))
        self.arguments = frozenset(names)

    @property
    def device(self) -> torch.device:
        """Where the model expects its tokens."""
        import torch

        device = self.model.get_input_embeddings().weight.device
        return torch.device("cpu") if device.type == "meta" else device

    def __call__(
        self,
        tokens: torch.Tensor,
        *,
        cache: Any = None,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        keep: int | Sequence[int] = 0,
    ) -> torch.Tensor:
        """Return logits in the model's dtype, shape (rows, kept tokens, vocabulary).

        Args:
            tokens: Token ids, shape (rows, tokens).
            cache: Keys and values of the tokens before, which this call may extend.
            positions: Place of each token in its text, shape as `tokens`; the model counts by itself if not given.
            mask: 1 for the tokens that count and 0 for padding, shape (rows, past and present tokens).
            keep: Tokens whose logits are wanted: so many last ones, or those at these indices; 0 stands for all.
        """
        output = self.call(tokens, cache=cache, positions=positions, mask=mask, keep=keep)
        return self._kept(output.logits, keep)

    def call(
        self,
        tokens: torch.Tensor,
        *,
        cache: Any = None,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        keep: int | Sequence[int] = 0,
        **extra: Any,
    ) -> Any:
        """Return the model's output as it is; `extra` are arguments of its `forward`, the rest is as above.

        Raises:
            UnsuitedModel: If the model fails with the cache.
        """
        import torch

        device = self.device
        given: dict[str, Any] = {"input_ids": tokens.to(device), "use_cache": cache is not None, **extra}
        if cache is not None and self.cache_name:
            given[self.cache_name] = cache
        if mask is not None:
            given["attention_mask"] = mask.to(device)
        if positions is not None and "position_ids" in self.arguments:
            given["position_ids"] = positions.to(device)
        if "logits_to_keep" in self.arguments:
            given["logits_to_keep"] = keep if isinstance(keep, int) else torch.tensor(keep, device=device)
        mixed = torch.autocast(device.type, dtype=self._autocast) if self._autocast else nullcontext()
        with torch.inference_mode(), mixed:
            if cache is None and not extra:
                return self.model(**given)
            try:
                return self.model(**given)
            except _ODD as error:
                if is_out_of_memory(error):
                    raise
                raise UnsuitedModel(f"{type(error).__name__}: {error}") from error

    def _kept(self, logits: torch.Tensor, keep: int | Sequence[int]) -> torch.Tensor:
        if "logits_to_keep" in self.arguments or keep == 0:
            return logits
        return logits[:, -keep:] if isinstance(keep, int) else logits[:, list(keep)]


def log_p_of(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return log P of one token a place, float64 of the shape of `tokens`, on the CPU.

    The log-softmax is taken in float32, a few rows at a time, so that it needs little memory beside the logits.

    Args:
        logits: Shape (..., vocabulary).
        tokens: The token at each place, shape (...).
    """
    import torch

    wanted = tokens.to(logits.device).reshape(-1, 1)
    parts = [
        torch.log_softmax(block.float(), -1).gather(-1, ids)
        for block, ids in zip(*(blocks(part, logits) for part in (logits.flatten(0, -2), wanted)), strict=True)
    ]
    return torch.cat(parts).cpu().double().reshape(tokens.shape)


def log_p_among(logits: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """Return log P of a few tokens at every place, float64 of shape (..., ids), on the CPU.

    Args:
        logits: Shape (..., vocabulary).
        ids: The tokens.
    """
    import torch

    wanted = torch.tensor(ids, device=logits.device)
    parts = [
        torch.log_softmax(block.float(), -1).index_select(-1, wanted) for block in blocks(logits.flatten(0, -2), logits)
    ]
    return torch.cat(parts).cpu().double().reshape(*logits.shape[:-1], len(ids))


def blocks(rows: torch.Tensor, logits: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return rows in blocks, as many at once as a log-softmax of such logits does well with."""
    size = _BLOCK["cpu" if logits.device.type == "cpu" else "gpu"]
    return rows.split(max(1, size // logits.shape[-1]))
