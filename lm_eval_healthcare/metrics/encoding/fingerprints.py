"""Short names for the contents of files, remembered so that large files are read once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lm_eval_healthcare.metrics.encoding.machine import cache_folder

_DIGITS = 12
_known: dict[str, str] = {}


def fingerprint_of(parts: Iterable[tuple[str, Path]]) -> str:
    """Return 12 hexadecimal digits of a SHA-256 over names and contents, whatever the order and the folder."""
    listed = sorted((name, sha256_of(path)) for name, path in parts)
    return hashlib.sha256("".join(f"{name}\0{digest}\n" for name, digest in listed).encode()).hexdigest()[:_DIGITS]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, from memory where path, size and time of change are the same."""
    real = path.resolve()
    facts = real.stat()
    key = f"{real}|{facts.st_size}|{facts.st_mtime_ns}"
    if key not in _known:
        _known.update({k: v for k, v in _remembered().items() if k not in _known})
    if key not in _known:
        digest = hashlib.sha256()
        with real.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
        _known[key] = digest.hexdigest()
        if facts.st_size > 1 << 20:
            _remember(key)
    return _known[key]


def _file() -> Path:
    return cache_folder() / "model_hashes.json"


def _remembered() -> dict[str, str]:
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in content.items()} if isinstance(content, dict) else {}


def _remember(key: str) -> None:
    """Write one digest down; where that is impossible the file is only read again next time."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        content = {**_remembered(), key: _known[key]}
        with tempfile.NamedTemporaryFile("w", dir=_file().parent, delete=False, encoding="utf-8") as stream:
            json.dump(content, stream, indent=0)
        os.replace(stream.name, _file())
    except OSError:
        return
