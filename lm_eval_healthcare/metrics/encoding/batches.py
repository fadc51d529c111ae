"""Batches by token budget: sorted by length, smaller after an out-of-memory error, with progress by tokens."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

logger = logging.getLogger(__name__)

_WORTH_TELLING = 30.0  # seconds
_QUIET = 2.0  # seconds without a progress bar


class DoesNotFit(RuntimeError):
    """A single text does not fit into the memory of the device."""


class Progress:
    """Tokens done of a total: a bar on stderr if it takes longer than about two seconds, and on a CPU an estimate.

    Use it as a context manager.
    """

    def __init__(self, total: int, description: str, device: str = "cpu") -> None:
        """Start counting; `device` is named in the estimate, which is logged once for a CPU."""
        self.total, self.description, self.device = total, description, device
        self._done, self._told = 0, device != "cpu"
        self._bar: Any = None
        self._start = time.perf_counter()

    def __enter__(self) -> Progress:
        """Start the clock."""
        self._start = time.perf_counter()
        return self

    def __exit__(self, *details: object) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def add(self, tokens: int) -> None:
        """Count tokens as done."""
        self._done += tokens
        elapsed = time.perf_counter() - self._start
        if self._bar is None and elapsed > _QUIET and self._done < self.total:
            self._open()
        if self._bar is not None:
            self._bar.update(self._done - self._bar.n)
        if not self._told and elapsed > 1 and self._done:
            rest = elapsed / self._done * (self.total - self._done)
            self._told = True
            if rest > _WORTH_TELLING:
                logger.warning(
                    "%s on the CPU: about %s for %s tokens", self.description, _duration(rest), f"{self.total:,}"
                )

    def _open(self) -> None:
        from tqdm import tqdm

        interval = 0.5 if sys.stderr.isatty() else 30.0
        self._bar = tqdm(
            total=self.total,
            initial=self._done,
            desc=self.description,
            unit="tok",
            unit_scale=True,
            mininterval=interval,
            leave=False,
        )


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return batches of indices of similar length, the longest first.

    Args:
        lengths: Tokens of each text.
        budget: Tokens of a batch, padding included. A longer text has a batch of its own.

    Returns:
        Every index once; texts of equal length in the order given.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if room == 0:
            batches.append([])
            room = max(1, budget // max(1, lengths[index]))  # the first of a batch is its longest
        batches[-1].append(index)
        room -= 1
    return batches


def run(
    items: Iterable[int],
    lengths: Sequence[int],
    budget: int,
    step: Callable[[list[int]], None],
    description: str,
    progress: Progress | None = None,
    relieve: Callable[[], bool] | None = None,
) -> int:
    """Call `step` with batches until every item is done.

    When memory runs out, the failed batch is repeated if `relieve` has found some; else the budget is halved and what
    is left is planned again.

    Args:
        items: Which texts to do, as indices into `lengths`.
        lengths: Tokens of each text.
        budget: Tokens of a batch, padding included.
        step: Processes the texts of a batch, given as indices into `lengths`; may be called again for the same ones if
            it raised.
        description: What is done, for people.
        progress: Counts the tokens; without one, a new one is made.
        relieve: Gives back memory that is used and not needed; returns whether there was any.

    Returns:
        The budget at the end, for callers that go on.

    Raises:
        DoesNotFit: If memory runs out for one text alone.
    """
    left = list(items)
    if progress is None:
        with Progress(sum(lengths[item] for item in left), description) as progress:
            return run(left, lengths, budget, step, description, progress, relieve)
    queue = _queue(left, lengths, budget)
    while queue:
        batch = queue.popleft()
        problem = _attempt(step, batch)
        if not problem:
            progress.add(sum(lengths[item] for item in batch))
            continue
        relieved = relieve is not None and relieve()
        free_memory()
        if relieved:
            logger.warning("%s: out of memory, going on without vectors that were kept for later", description)
            queue.appendleft(batch)
            continue
        longest = max(lengths[item] for item in batch)
        if len(batch) == 1:
            raise DoesNotFit(
                f"{description}: a text of {longest} tokens alone does not fit into memory ({problem}). Use "
                "metrics_device=cpu, metrics_dtype=bfloat16 or a smaller model, or free memory and score again"
            )
        budget = max(1, min(budget, longest * len(batch)) // 2)
        logger.warning("%s: out of memory, going on with batches of %d tokens", description, budget)
        queue = _queue([*batch, *(item for later in queue for item in later)], lengths, budget)
    return budget


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device has no memory left."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text.lower() or "DefaultCPUAllocator" in text)


def free_memory() -> None:
    """Give back memory that nothing uses any more."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _queue(items: Sequence[int], lengths: Sequence[int], budget: int) -> deque[list[int]]:
    batches = plan([lengths[item] for item in items], budget)
    return deque([items[index] for index in batch] for batch in batches)


def _attempt(step: Callable[[list[int]], None], batch: list[int]) -> str:
    """Return what went wrong with the memory, or an empty string; the failed call's tensors are gone by then."""
    try:
        step(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
