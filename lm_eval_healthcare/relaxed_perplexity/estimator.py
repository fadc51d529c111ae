"""From a stored matrix to every reading of Relaxed Perplexity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def reduce(
    log_p: Sequence[np.ndarray],
    *,
    positions: Sequence[int],
    target_length: int,
    n: int | None = None,
    stride: int = 1,
    log_p_prefix: Sequence[np.ndarray] | None = None,
    counts: Sequence[np.ndarray] | None = None,
    target_bytes: int | None = None,
) -> dict[str, float]:
    """Reduce."""
    raise NotImplementedError
