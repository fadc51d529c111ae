"""What processes of one data-parallel run tell each other; a single process talks to nobody."""

from __future__ import annotations

from typing import Any


def gather(value: Any, world_size: int) -> list[Any]:
    """Return every rank's value, in rank order; every rank must call this at the same place.

    Args:
        value: This rank's value; it must be picklable.
        world_size: The number of ranks.
    """
    if world_size <= 1 or not _connected():
        return [value]
    import torch.distributed

    values: list[Any] = [None] * world_size
    torch.distributed.all_gather_object(values, value)
    return values


def from_first(value: Any, world_size: int) -> Any:
    """Return rank 0's value on every rank."""
    return gather(value, world_size)[0]


def _connected() -> bool:
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_initialized()
