"""On which device a metric's model runs, and how many tokens it takes at once."""

from __future__ import annotations

import logging
import os

from lm_eval_healthcare.metrics.settings import Compute

logger = logging.getLogger(__name__)

CPU_BATCH_TOKENS = (512, 4096)
"""Least and most: one core computes at its limit with 256 to 1,024; with more cores each needs a share."""

GPU_BATCH_TOKENS = 16384
_CPU_TOKENS_A_THREAD = 256
_MARGIN = 512 * 2**20  # bytes for the libraries' own work space
_GIB = 2**30
_told: set[str] = set()


class DeviceUnavailable(ValueError):
    """The device that was asked for is not there, or has no room."""


def absent(compute: Compute) -> str | None:
    """Return what is wrong with the device that was asked for, whatever its free memory, or None."""
    if not compute.device.startswith("cuda"):
        return None
    import torch

    if not torch.cuda.is_available():
        return (
            f"metrics_device={compute.device}: PyTorch sees no GPU here; use metrics_device=cpu or auto, or install a "
            "PyTorch for this GPU"
        )
    index = int(compute.device.partition(":")[2] or 0)
    if index >= torch.cuda.device_count():
        return f"metrics_device={compute.device}: there are {torch.cuda.device_count()} GPUs, counted from cuda:0"
    return None


def choose(compute: Compute, bytes_needed: int) -> str:
    """Return the device for a model: `cpu` or `cuda:N`.

    With `auto` it is a GPU with room, this process's own first; if every GPU is too full, as at the end of a run whose
    model still fills it, it is the CPU, and a warning says so once.

    Args:
        compute: What the user asked for.
        bytes_needed: Bytes of weights and of one batch.

    Raises:
        DeviceUnavailable: If a GPU was asked for by name and is absent or too full.
    """
    if compute.device == "cpu":
        return "cpu"
    problem = absent(compute)
    if problem:
        raise DeviceUnavailable(problem)
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    current = _own_gpu()
    if compute.device == "auto":
        candidates = [current, *(index for index in range(torch.cuda.device_count()) if index != current)]
    else:
        candidates = [int(compute.device.partition(":")[2] or current)]
    free: dict[int, int] = {}
    for index in candidates:
        free[index] = _free_bytes(index)
        if free[index] >= bytes_needed + _MARGIN:
            return f"cuda:{index}"
    text = _too_full(free, bytes_needed + _MARGIN)
    if compute.device != "auto":
        raise DeviceUnavailable(
            f"metrics_device={compute.device}: {text}. Use metrics_device=auto or cpu, or leave the neural metrics to "
            "`lm-eval-healthcare score` after the run (metrics_device=later)"
        )
    tell_once(
        f"{text}: the neural metrics run on the CPU, which takes longer. To use the GPU, leave them to "
        "`lm-eval-healthcare score` after the run (metrics_device=later), or let the model take less of it (for vLLM a "
        "smaller gpu_memory_utilization)"
    )
    return "cpu"


def batch_tokens(compute: Compute, device: str) -> int:
    """Return how many tokens, padding included, go through a model at once.

    A CPU computes at its limit with few tokens, where every padding token costs time; a GPU needs many to be busy.
    """
    if compute.batch_tokens is not None:
        return compute.batch_tokens
    if device != "cpu":
        return GPU_BATCH_TOKENS
    import torch

    least, most = CPU_BATCH_TOKENS
    return min(most, max(least, _CPU_TOKENS_A_THREAD * torch.get_num_threads()))


def tell_once(text: str) -> None:
    """Log a warning that this process has not logged yet."""
    if text not in _told:
        _told.add(text)
        logger.warning("%s", text)


def _own_gpu() -> int:
    """The GPU of this process: under several ranks that of its rank, which need not be PyTorch's current one."""
    import torch

    rank = os.environ.get("LOCAL_RANK", "")
    own = int(rank) if rank.isdecimal() else torch.cuda.current_device()
    return own if own < torch.cuda.device_count() else torch.cuda.current_device()


def _free_bytes(index: int) -> int:
    """Memory that the driver has free, and what this process has set aside but does not use."""
    import torch

    free, _ = torch.cuda.mem_get_info(index)
    return free + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)


def _too_full(free: dict[int, int], needed: int) -> str:
    amounts = ", ".join(f"GPU {index} has {amount / _GIB:.1f} GiB free" for index, amount in free.items())
    return f"{amounts}, the metric's model needs about {needed / _GIB:.1f} GiB"
