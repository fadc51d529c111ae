"""How many rows one forward pass takes: what they need, what there is, and what to do when that was too little."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import SharedStates

logger = logging.getLogger(__name__)

GIB = 2**30
WASTE = 0.1
"""Share of a forward pass that may be padding."""

_PLANNED = 0.9  # of what may be taken; allocators round up, and small tensors are not counted
_SHARE = {"cpu": 0.25, "gpu": 0.5}
_CPU_MOST = GIB  # a core gains nothing from more rows at once than fit into this
_UNKNOWN = 2 * GIB
_CPU_TOKENS, _CPU_MOST_TOKENS, _CPU_RUN = 128, 1024, 192
_GPU_TOKENS = 2**15

Item = TypeVar("Item")


class NotEnoughMemory(MemoryError):
    """Not even the smallest piece of work fits into memory."""


@dataclass(frozen=True)
class Row:
    """One row of a forward pass over a question's continuation.

    Attributes:
        key: What the row is about.
        before: Tokens between the question and the row's own.
        new: The row's own tokens, which the pass computes.
        kept: How many of them need logits.
    """

    key: tuple[int, ...]
    before: int
    new: int
    kept: int


@dataclass(frozen=True)
class Footprint:
    """What rows of a forward pass need, in bytes.

    A pass over R rows of t new tokens, each of which sees S tokens with itself, needs at most

        R (S k (1 + g) + t S m + t a + t V v)

    beside the weights and the pools of keys and values: k bytes are a token's keys and values in one layer, g is 1 if
    the model repeats them for groups of heads, m are masks and, with eager attention, scores; a are activations of
    one layer, and V v the logits. The pools hold q + u tokens at K bytes, K being the sum of k over the layers, for a
    question of q tokens and samples of u tokens in all; sampling needs R (q + n) K for its R rows of n tokens.

    Attributes:
        layer: k, that of the largest layer, with the repeated ones if the model repeats them.
        layers: K.
        mask: m.
        activation: a.
        logits: V v.
        vocabulary: V.
    """

    layer: int
    layers: int
    mask: int
    activation: int
    logits: int
    vocabulary: int

    def row(self, new: int, seen: int, kept: int) -> int:
        """Return the bytes of one row of `new` tokens that see `seen` tokens at most, with logits of `kept` ones."""
        return seen * self.layer + new * (seen * self.mask + self.activation) + kept * self.logits

    def sampled(self, seen: int) -> int:
        """Return the bytes of one sampled row of up to `seen` tokens with its question."""
        # The distribution is held as logits, log-probabilities, probabilities, and sums in float64.
        return seen * (self.layers + self.layer) + self.activation + self.logits + 32 * self.vocabulary

    @classmethod
    def of(cls, config: Any, states: SharedStates, logits: torch.Tensor) -> Footprint:
        """Measure a model by a forward pass over a single token.

        Args:
            config: The model's configuration.
            states: The keys and values of the pass, of one layer at least.
            logits: Its logits.
        """
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        sizes, repeats = [], 1
        for keys, values in states.pools():
            sizes.append((keys.shape[1] * keys.shape[2] + values.shape[1] * values.shape[2]) * keys.element_size())
            repeats = max(repeats, _number(text, "num_attention_heads", keys.shape[1]) // keys.shape[1])
        element = logits.element_size()
        eager = getattr(text, "_attn_implementation", None) == "eager"
        hidden = _number(text, "hidden_size", 4096)
        inner = _number(text, "intermediate_size", 4 * hidden)
        # Soft-capping of logits works on copies of them.
        copies = 3 if getattr(text, "final_logit_softcapping", None) else 1
        return cls(
            layer=max(sizes) * (1 + (repeats if repeats > 1 else 0)),
            layers=sum(sizes),
            mask=5 + (_number(text, "num_attention_heads", 32) * (2 * element + 4) if eager else 0),
            activation=(8 * hidden + 3 * inner) * element,
            logits=logits.shape[-1] * element * copies,
            vocabulary=logits.shape[-1],
        )


class Memory:
    """What forward passes may take on a device, lowered when it was too much.

    Attributes:
        bytes: The most that the rows of a pass may take.
        tokens: The most tokens of a pass; more would not make it faster.
        enough: Tokens of a pass that is about as fast, for each token, as a longer one.
        run_length: Tokens of a text after which a pass had better end, see `SharedScorer`; 0: anywhere is as good.
        forget: Called when memory did not suffice; gives back what is only held to be used again.
    """

    def __init__(self, device: torch.device, gib: float | None = None) -> None:
        """Take what the user gives, or a share of what is free: a half on a GPU; elsewhere a quarter, 1 GiB at most.

        Args:
            device: Where the model runs.
            gib: What the user gives, in GiB.
        """
        import torch

        self.tokens, self.enough, self.run_length = _GPU_TOKENS, _GPU_TOKENS, 0
        if device.type == "cpu":
            threads = torch.get_num_threads()
            self.tokens, self.enough = _CPU_MOST_TOKENS * threads, _CPU_TOKENS * max(1, threads // 4)
            self.run_length = _CPU_RUN
        self.forget: Callable[[], None] = lambda: None
        self._device, self._given, self._lowered = device, gib, 1
        self.bytes = 0
        self.measure()

    def measure(self) -> None:
        """Look again at what is free."""
        if self._given is not None:
            whole = int(self._given * GIB)
        elif self._device.type == "cpu":
            whole = min(int(_SHARE["cpu"] * _free_on_cpu()), _CPU_MOST)
        else:
            whole = int(_SHARE["gpu"] * _free_on_gpu(self._device))
        self.bytes = int(_PLANNED * whole) // self._lowered

    def run(self, step: Callable[[Sequence[Item]], None], items: Sequence[Item], what: str) -> None:
        """Do a step for items at once, or for halves of them as long as memory does not suffice.

        Args:
            step: Does the work for some items; after a failure it is called again for fewer of them.
            items: All of them, in order.
            what: What one item is, for the message.

        Raises:
            NotEnoughMemory: If one item alone does not fit.
        """
        waiting = [items]
        while waiting:
            part = waiting.pop()
            problem = _attempt(step, part)
            if problem is None:
                continue
            self.forget()
            release()
            if len(part) <= 1:
                raise problem if isinstance(problem, NotEnoughMemory) else _too_large(what, problem)
            log = logger.info if self._lowered == 1 else logger.debug
            self._lowered *= 2
            self.bytes //= 2
            half = len(part) // 2
            log("%d rows at once were too many for the memory; going on with %d", len(part), half)
            waiting += [part[half:], part[:half]]


@dataclass(frozen=True)
class Limits:
    """What the rows of one forward pass may be.

    Attributes:
        question: Tokens of the question, which each row sees.
        need: What rows need.
        room: Bytes that they may take.
        most: Tokens that a pass may have.
        enough: Tokens from which on a pass takes no rows with other numbers of tokens before them, which need padding.
        equal: Whether all rows of a pass must agree in the tokens before them and in their own.
    """

    question: int
    need: Footprint
    room: int
    most: int
    enough: int
    equal: bool = False

    def allow(self, chunk: Sequence[Row], row: Row) -> bool:
        """Return whether a row may join a chunk whose rows are not longer than it."""
        last, size = chunk[-1], len(chunk) + 1
        if row.before != last.before and (self.equal or len(chunk) * last.new >= self.enough):
            return False
        if (self.equal and row.new != last.new) or size * row.new > self.most:
            return False
        padding = size * row.new - sum(other.new for other in chunk) - row.new
        seen = self.question + max(row.before, *(other.before for other in chunk)) + row.new
        kept = max(row.kept, *(other.kept for other in chunk))
        return padding <= WASTE * size * row.new and size * self.need.row(row.new, seen, kept) <= self.room


def chunked(rows: Sequence[Row], limits: Limits) -> list[list[Row]]:
    """Return rows in chunks for one forward pass each, at most a tenth of which is padding.

    Args:
        rows: The rows.
        limits: What the rows of a chunk may be; a single row always makes one.
    """
    chunks: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (row.new, row.before)):
        if chunks and limits.allow(chunks[-1], row):
            chunks[-1].append(row)
        else:
            chunks.append([row])
    return chunks


def even_parts(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Return items in the fewest parts of at most so many (one at least), all of about the same size."""
    count = -(-len(items) // max(1, most))
    edges = [len(items) * part // count for part in range(count + 1)] if count else [0]
    return [items[start:end] for start, end in pairwise(edges)]


def release() -> None:
    """Give back memory that nothing uses any more."""
    import torch

    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device has no memory left."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def _attempt(step: Callable[[Sequence[Item]], None], part: Sequence[Item]) -> BaseException | None:
    """Return the error if memory did not suffice, or None; the failed call's tensors are gone by then."""
    try:
        step(part)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        error.__traceback__ = error.__context__ = None
        return error
    return None


def _too_large(what: str, problem: BaseException) -> NotEnoughMemory:
    told = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return NotEnoughMemory(
        f"out of memory with {what} alone ({told}); use a smaller dtype (dtype=bfloat16), shorter completions "
        "(relaxed_length) or a device with more memory, or end other programs"
    )


def _number(config: Any, name: str, default: int) -> int:
    value = getattr(config, name, None)
    return value if isinstance(value, int) and value > 0 else default


def _free_on_gpu(device: torch.device) -> int:
    import torch

    if device.type != "cuda":
        return _UNKNOWN
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _free_on_cpu() -> int:
    found = [_UNKNOWN * 4]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")] or found
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        found.append(max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        pass  # not Linux, or no limit of a container, or one that older kernels keep elsewhere
    return min(found)
