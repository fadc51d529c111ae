"""Asking a model of the harness from inside a request type of the pack: without its cache and bar, with a seed."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook

TAKE_SEEDS = {"TemplateAPI", "VLLM", "SGLangLM"}
"""Back ends that hand `seed` in the generation arguments on to what samples; without it they sample one text again."""


def instance(request_type: Any, arguments: tuple[Any, ...]) -> Instance:
    """Return a request of the harness that belongs to no task."""
    return Instance(request_type=request_type, doc={}, arguments=arguments, idx=0, metadata=(None, 0, 1))


def ask(method: Callable[..., list[Any]], asked: list[Instance]) -> list[Any]:
    """Ask without a progress bar of the model's own, where it has a switch for it."""
    quiet = "disable_tqdm" in inspect.signature(method).parameters
    return method(asked, disable_tqdm=True) if quiet else method(asked)


@contextlib.contextmanager
def uncached(lm: Any) -> Iterator[None]:
    """Keep answers out of the harness's cache, whose key does not tell one sample from another."""
    hook = lm.cache_hook
    lm.cache_hook = CacheHook(None)
    try:
        yield
    finally:
        lm.cache_hook = hook


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make a model that samples with PyTorch sample the same texts again, and leave the caller's stream as it was."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
