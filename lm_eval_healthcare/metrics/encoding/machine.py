"""What this machine keeps and may do: cache folders, the network, files that are only pointers."""

from __future__ import annotations

import os
from pathlib import Path

PATIENCE = 5.0
"""Seconds that the hub has for an answer."""

_LFS = b"version https://git-lfs"
_YES = ("1", "ON", "YES", "TRUE")


def cache_folder() -> Path:
    """Return the folder below which this package may keep what it can make again."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lm_eval_healthcare"


def hub_cache() -> Path:
    """Return the folder in which the hub's library keeps what it has downloaded."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def offline() -> bool:
    """Return whether the user has forbidden to ask the hub."""
    return any(os.environ.get(name, "").strip().upper() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is only the pointer that Git LFS leaves in place of a large one."""
    if path.stat().st_size >= 1024:
        return False
    return path.read_bytes().startswith(_LFS)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, for a message that quotes it."""
    return (str(error).strip() or "no message").splitlines()[0]
