"""Whether a model's files can be read at all, told from a few of their bytes, before anything is loaded."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lm_eval_healthcare.metrics.base import package_version
from lm_eval_healthcare.metrics.encoding.checkpoints import weight_files
from lm_eval_healthcare.metrics.encoding.machine import first_line

_LONGEST_HEADER = 100_000_000  # bytes, as the library safetensors has it
_PICKLE = b"\x80"
_TYPE_TABLES = ("configuration_auto.py", "auto_mappings.py")


def unsound(folder: Path) -> str | None:
    """Return why a complete model folder cannot be loaded as an encoder, or None: configuration, type, weights."""
    try:
        configuration = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"config.json cannot be read ({first_line(error)}); fetch it again"
    if not isinstance(configuration, dict):
        return "config.json is not a JSON object; fetch it again"
    weights = (path for path in weight_files(folder) if path.suffix != ".json")
    return unknown_type(configuration) or next(filter(None, map(cut_short, weights)), None)


def cut_short(path: Path) -> str | None:
    """Return why a file of weights cannot be whole, or None."""
    facts = path.stat()
    return _cut_short(path, facts.st_size, facts.st_mtime_ns)


def unknown_type(configuration: Mapping[str, Any]) -> str | None:
    """Return why the installed transformers has no model of this `config.json`, or None.

    Its tables of model types are read as text, since to import them is to import PyTorch; only a type that is not there
    is looked for a second time among those that a program has registered.
    """
    kind = configuration.get("model_type")
    if not isinstance(kind, str) or not kind:
        return 'config.json does not say which type of model it is; add "model_type", such as "bert"'
    if f'("{kind}", ' in _published_types() or kind in _registered_types():
        return None
    installed = package_version("transformers")
    return (
        f"config.json says model_type {kind!r}, which transformers {installed} does not know; give another model, or "
        "install a transformers that knows it"
    )


@lru_cache(maxsize=64)
def _cut_short(path: Path, size: int, changed: int) -> str | None:
    if path.suffix == ".safetensors":
        return _safetensors_fault(path, size)
    if path.suffix == ".bin" and not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            start = stream.read(4)
        if start == b"PK\x03\x04":
            return f"{path.name} was cut short ({size:,} bytes, without the end of the archive); fetch it again"
        if not start.startswith(_PICKLE):  # as PyTorch wrote before 1.6
            return f"{path.name} holds no weights of PyTorch (it begins with {start!r}); fetch it again"
    return None


def _safetensors_fault(path: Path, size: int) -> str | None:
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length) if 2 <= length <= min(size - 8, _LONGEST_HEADER) else b""
    try:
        tensors = json.loads(header.decode("utf-8"))
        ends = [facts["data_offsets"][1] for name, facts in tensors.items() if name != "__metadata__"]
        promised = 8 + length + max(ends, default=0)
    except (ValueError, AttributeError, KeyError, IndexError, TypeError):
        return f"{path.name} is not a whole file of safetensors ({size:,} bytes); fetch it again"
    if promised > size:
        return f"{path.name} was cut short ({size:,} of {promised:,} bytes); fetch it again"
    return None


@lru_cache(maxsize=1)
def _published_types() -> str:
    """The source of the tables, lines of `("model type", "class or name"),`."""
    found = find_spec("transformers")
    if found is None or found.origin is None:
        return ""
    tables = [Path(found.origin).parent / "models" / "auto" / name for name in _TYPE_TABLES]
    return "".join(table.read_text(encoding="utf-8") for table in tables if table.is_file())


def _registered_types() -> Mapping[str, Any]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING
