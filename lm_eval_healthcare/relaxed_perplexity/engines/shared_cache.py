"""Keys and values that rows of a forward pass share: kept once, and put together layer by layer when they are used.

A cache of transformers holds the keys and values of every row for all layers at once. Rows that begin with the same
question, and with beginnings of the same few samples, need far less: here each layer keeps one pool of slots, one for
each token of the question and of each sample, and a row is a list of slots. A layer's keys and values are gathered for
all rows when the layer runs, so that at any time there is room for one layer's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class SharedStates:
    """The pools of a model's layers, and which of their slots the rows of the next forward pass are made of.

    Every layer keeps all its slots, those of sliding windows too: the model's masks do the rest.

    Attributes:
        slots: Slots of each pool.
        past: Slots of a row before its new tokens, in the next forward pass.
        cache: What the model gets as its cache.
    """

    def __init__(self, slots: int, scratch: Scratch | None = None) -> None:
        """Make empty pools.

        Args:
            slots: Tokens that there must be room for.
            scratch: Memory that the gathered rows may lie in; each layer takes new memory if not given.
        """
        self.slots = slots
        self.past = 0
        self.scratch = scratch or Scratch(reuse=False)
        self._index: torch.Tensor | None = None
        self._placed: dict[torch.device, torch.Tensor] = {}
        self.keeps_at: int | None = 0
        self.passes = 0
        self.cache = _cache_of(self)

    def arrange(self, rows: torch.Tensor | None, new: int, keep_at: int | None = None) -> None:
        """Say what the next forward pass has before its new tokens.

        Args:
            rows: The slots of each row, int64 of shape (rows, past); None if there is nothing before.
            new: New tokens of each row.
            keep_at: The slot from which on the new tokens are kept, row after row; None: they are not kept.
        """
        import torch

        self.past = 0 if rows is None else rows.shape[1]
        self.keeps_at = keep_at
        self.passes += 1
        self._placed.clear()
        self._index = None
        if rows is not None:
            # The new tokens' places in a row are filled afterwards; until then they hold whatever is in slot 0.
            self._index = torch.cat([rows, rows.new_zeros(rows.shape[0], new)], 1).flatten()

    def index_on(self, device: torch.device) -> torch.Tensor:
        """Return the slots of all rows, one after another, with room for the new tokens after each row."""
        assert self._index is not None
        if device not in self._placed:
            self._placed[device] = self._index.to(device)
        return self._placed[device]

    def pools(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each layer's pools of keys and values, (slots, heads, size); layers that keep none are left out."""
        return [layer.pools for layer in self.cache.layers if layer.pools is not None]


class Scratch:
    """Memory that is used again by one layer after another, so that it need not be asked for each time.

    Attributes:
        reuse: Whether it is; not so for models whose later layers look at keys and values of earlier ones.
    """

    def __init__(self, *, reuse: bool = True) -> None:
        """Take nothing yet."""
        self.reuse = reuse
        self._held: dict[tuple[torch.device, torch.dtype, str], torch.Tensor] = {}

    def take(self, like: torch.Tensor, shape: tuple[int, ...], use: str) -> torch.Tensor:
        """Return a tensor of a shape, with the device and dtype of another, whose content is undefined."""
        if not self.reuse:
            return like.new_empty(shape)
        key = (like.device, like.dtype, use)
        size = 1
        for length in shape:
            size *= length
        if key not in self._held or self._held[key].numel() < size:
            self._held.pop(key, None)
            self._held[key] = like.new_empty(size)
        return self._held[key][:size].view(shape)

    def clear(self) -> None:
        """Give the memory back."""
        self._held.clear()


class _PooledLayer:
    """One layer of a cache whose rows are gathered from a pool; the other base class is transformers' own layer."""

    states: SharedStates
    is_sliding = False
    is_initialized = True

    def start(self, states: SharedStates) -> _PooledLayer:
        self.states = states
        self.pools: tuple[torch.Tensor, torch.Tensor] | None = None
        self._pass = 0
        return self

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        seen = self.states.passes == self._pass
        return self.states.past + (self._new if seen else 0)

    def get_mask_sizes(self, new: Any, *_: Any, **__: Any) -> tuple[int, int]:
        # transformers 5 gives the number of new tokens, 4.57 their places in the cache.
        return self.states.past + (new if isinstance(new, int) else new.shape[0]), 0

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        states, self._new, self._pass = self.states, keys.shape[2], self.states.passes
        if self.pools is None:
            self.pools = (
                keys.new_empty(states.slots, keys.shape[1], keys.shape[3]),
                values.new_empty(states.slots, values.shape[1], values.shape[3]),
            )
        for pool, new in zip(self.pools, (keys, values), strict=True):
            if states.keeps_at is not None:
                flat = new.transpose(1, 2).flatten(0, 1)
                pool[states.keeps_at : states.keeps_at + len(flat)] = flat
        if not states.past:
            return keys, values
        return self._gathered(self.pools[0], keys, "keys"), self._gathered(self.pools[1], values, "values")

    def _gathered(self, pool: torch.Tensor, new: torch.Tensor, use: str) -> torch.Tensor:
        import torch

        rows, heads, length, size = new.shape
        slots = self.states.past + length
        found = self.states.scratch.take(pool, (rows * slots, heads, size), use)
        torch.index_select(pool, 0, self.states.index_on(pool.device), out=found)
        found = found.view(rows, slots, heads, size)
        found[:, self.states.past :] = new.transpose(1, 2)
        return found.transpose(1, 2)


class _GrowingLayer:
    """One layer of a cache with room for all tokens to come: a token more costs one slot, and no copy."""

    is_sliding = False
    is_initialized = True

    def start(self, rows: int, room: int) -> _GrowingLayer:
        self.rows, self.room, self.length = rows, room, 0
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        return self

    def fill(self, place: slice, length: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values of a question, shape (1, heads, tokens, size), at the right of the first slots."""
        if self.keys is None or self.values is None:
            self.keys, self.values = (
                part.new_empty(self.rows, part.shape[1], self.room, part.shape[3]) for part in (keys, values)
            )
        self.length = length
        for held, part in ((self.keys, keys), (self.values, values)):
            # Slots before a question are masked, but a number that is not finite would still spoil a sum.
            held[place, :, : length - part.shape[2]] = 0
            held[place, :, length - part.shape[2] : length] = part

    def select(self, rows: torch.Tensor) -> None:
        if self.keys is not None and self.values is not None:
            self.keys, self.values = (part.index_select(0, rows.to(part.device)) for part in (self.keys, self.values))

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return self.length

    def get_mask_sizes(self, new: Any, *_: Any, **__: Any) -> tuple[int, int]:
        return self.length + (new if isinstance(new, int) else new.shape[0]), 0

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.keys is not None
        assert self.values is not None
        start, self.length = self.length, self.length + keys.shape[2]
        self.keys[:, :, start : self.length] = keys
        self.values[:, :, start : self.length] = values
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def growing_cache(states: list[list[tuple[torch.Tensor, torch.Tensor]]], repeats: list[int], room: int) -> Any:
    """Return a cache of several questions' keys and values, each for some rows, aligned at their right.

    Args:
        states: For each question, each layer's keys and values, shape (1, heads, tokens, size); emptied on the way.
        repeats: Rows of each question.
        room: Slots of each row: the longest question and the tokens to come.
    """
    length = max(question[0][0].shape[2] for question in states)
    made = _cache_type()()
    made.layer_class_to_replicate = None
    for _ in range(len(states[0])):
        layer, row = _layer_type(_GrowingLayer)().start(sum(repeats), room), 0
        for question, count in zip(states, repeats, strict=True):
            layer.fill(slice(row, row + count), length, *question.pop(0))
            row += count
        made.layers.append(layer)
    return made


def _cache_of(states: SharedStates) -> Any:
    made = _cache_type()()
    made.layer_class_to_replicate = lambda: _layer_type(_PooledLayer)().start(states)
    return made


@cache
def _cache_type() -> Any:
    from transformers import DynamicCache

    return DynamicCache


@cache
def _layer_type(ours: type) -> Any:
    from transformers.cache_utils import DynamicLayer

    return type(ours.__name__.strip("_"), (ours, DynamicLayer), {})
