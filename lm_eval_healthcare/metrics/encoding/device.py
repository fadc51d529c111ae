"""On which device a metric's model runs, and how many tokens it takes at once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from lm_eval_healthcare.metrics.encoding.batches import free_memory, is_out_of_memory
from lm_eval_healthcare.metrics.encoding.machine import first_line
from lm_eval_healthcare.metrics.settings import Compute

logger = logging.getLogger(__name__)

CPU_BATCH_TOKENS = (512, 4096)
"""Least and most: one core computes at its limit with 256 to 1,024; with more cores each needs a share."""

GPU_BATCH_TOKENS = 16384
_CPU_TOKENS_A_THREAD = 256
_CPU_SPEED = 40e9  # floating-point operations a second and thread; 30e9 with small models, 70e9 with large ones
_MARGIN = 512 * 2**20  # bytes for the libraries' own work space
_GIB = 2**30
_ELSEWHERE = (
    "Use metrics_device=auto or cpu, or leave the neural metrics to `lm-eval-healthcare score` after the run "
    "(metrics_device=later)"
)
_told: set[str] = set()
Moved = TypeVar("Moved")


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
    model still fills it, or cannot be used at all, it is the CPU, and a warning says so once.

    Args:
        compute: What the user asked for.
        bytes_needed: Bytes of weights and of one batch.

    Raises:
        DeviceUnavailable: If a GPU was asked for by name and is absent, too full or broken.
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
    states = []
    for index in candidates:
        free, state = _free_bytes(index)
        if free >= bytes_needed + _MARGIN:
            return f"cuda:{index}"
        states.append(state)
    text = f"{', '.join(states)}, the metric's model needs about {(bytes_needed + _MARGIN) / _GIB:.1f} GiB"
    if compute.device != "auto":
        raise DeviceUnavailable(f"metrics_device={compute.device}: {text}. {_ELSEWHERE}")
    _tell_of_cpu(text)
    return "cpu"


def place(compute: Compute, bytes_needed: int, move: Callable[[str], Moved]) -> tuple[str, Moved]:
    """Put a model on the device for it, and return that device and what `move` returned.

    Free memory is only known until somebody else takes it. If a GPU that had room has none while the weights arrive,
    or fails, everything goes to the CPU with one warning, or, if it was asked for by name, back there before an error.

    Args:
        compute: What the user asked for.
        bytes_needed: Bytes of weights and of one batch.
        move: Brings all of the model to a device, wherever its parts are; called again with `cpu` if it fails.

    Raises:
        DeviceUnavailable: If a GPU was asked for by name and is absent, too full or broken.
    """
    device = choose(compute, bytes_needed)
    if device == "cpu":
        return device, move(device)
    try:
        return device, move(device)
    except (RuntimeError, MemoryError) as error:
        why = "is out of memory" if is_out_of_memory(error) else f"failed ({first_line(error)})"
    moved = move("cpu")
    free_memory()
    text = f"GPU {device.partition(':')[2]} {why} while the metric's model was moved there"
    if compute.device != "auto":
        raise DeviceUnavailable(f"metrics_device={compute.device}: {text}. {_ELSEWHERE}")
    _tell_of_cpu(text)
    return "cpu", moved


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


def cpu_speed() -> float:
    """Return about how many floating-point operations a second the CPU does in a model."""
    import torch

    return _CPU_SPEED * torch.get_num_threads()


def tell_once(text: str, subject: str | None = None) -> None:
    """Log a warning that this process has not logged yet, or none yet on the same subject."""
    if (subject or text) not in _told:
        _told.add(subject or text)
        logger.warning("%s", text)


def _tell_of_cpu(why: str) -> None:
    tell_once(
        f"{why}: the neural metrics run on the CPU, which takes longer. To use the GPU, leave them to "
        "`lm-eval-healthcare score` after the run (metrics_device=later), or let the model take less of it (for vLLM a "
        "smaller gpu_memory_utilization)",
        subject="CPU in place of a GPU",
    )


def _own_gpu() -> int:
    """The GPU of this process: under several ranks that of its rank, which need not be PyTorch's current one."""
    import torch

    try:
        current = torch.cuda.current_device()
    except RuntimeError:  # CUDA cannot start here, which `_free_bytes` will find as well
        current = 0
    rank = os.environ.get("LOCAL_RANK", "")
    own = int(rank) if rank.isdecimal() else current
    return own if own < torch.cuda.device_count() else current


def _free_bytes(index: int) -> tuple[int, str]:
    """Memory that the driver has free, and what this process has set aside but does not use; and that in words.

    To ask is to start CUDA on that GPU, which fails where it has no memory left or belongs to another process alone.
    """
    import torch

    try:
        free, _ = torch.cuda.mem_get_info(index)
        free += torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    except Exception as error:  # of the driver, in many forms
        return 0, f"GPU {index} cannot be asked for its free memory ({first_line(error)})"
    return free, f"GPU {index} has {free / _GIB:.1f} GiB free"
