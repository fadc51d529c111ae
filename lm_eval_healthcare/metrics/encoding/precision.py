"""Products of float32 numbers with all their digits, whatever the evaluated model has set for the GPU."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

_NEW = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")


@contextlib.contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Multiply float32 as float32 on a GPU, and leave PyTorch's settings as they were afterwards.

    TF32 keeps 10 of the 23 binary digits. PyTorch 2.9 and later have two sets of settings for it, whose mixture they
    refuse to read; a setting that cannot be read or changed is left alone, and nothing is raised.
    """
    undo: list[Callable[[], None]] = []
    try:
        if device != "cpu":
            _forbid_tf32(undo)
        yield
    finally:
        for step in reversed(undo):
            with contextlib.suppress(Exception):
                step()


def _forbid_tf32(undo: list[Callable[[], None]]) -> None:
    """Switch TF32 off, the old settings first: they change the new ones with them, so that both agree."""
    import torch

    for path in _NEW:
        with contextlib.suppress(Exception):
            undo.append(partial(_set, path, "fp32_precision", _get(path, "fp32_precision")))  # undone last
    with contextlib.suppress(Exception):
        precision = torch.get_float32_matmul_precision()
        if precision != "highest":
            torch.set_float32_matmul_precision("highest")
            undo.append(partial(torch.set_float32_matmul_precision, precision))
    with contextlib.suppress(Exception):
        if _get("cudnn", "allow_tf32"):
            _set("cudnn", "allow_tf32", False)
            undo.append(partial(_set, "cudnn", "allow_tf32", True))
    for path in _NEW:
        with contextlib.suppress(Exception):
            if _get(path, "fp32_precision") == "tf32":
                _set(path, "fp32_precision", "ieee")


def _get(path: str, name: str) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the old settings are old
        return getattr(attrgetter(path)(torch.backends), name)


def _set(path: str, name: str, value: Any) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        setattr(attrgetter(path)(torch.backends), name, value)
