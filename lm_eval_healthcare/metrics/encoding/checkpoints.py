"""Where a metric's model is: in a folder, in the hub's cache, or on the hub; asked before it is needed."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lm_eval_healthcare.metrics.encoding.fingerprints import fingerprint_of
from lm_eval_healthcare.metrics.encoding.machine import PATIENCE, first_line, hub_cache, is_lfs_pointer, offline

logger = logging.getLogger(__name__)

_HUB_NAME = re.compile(r"^[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?$")
_ORGANISATIONS = ("FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5")  # owners of old bare names
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json")
_TOKENIZER_FILES = (
    *_VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
_SECONDS_OF_A_REFUSAL = 60.0
_hub_said: dict[tuple[str, tuple[str, ...], Path], tuple[float, str]] = {}
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer", "encoder_layers")
_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd", "emb_dim")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


class ModelMissing(ValueError):
    """A metric's model cannot be had; the message says what was looked for, where, and what to do."""


def parse(model: str) -> tuple[str, str | None]:
    """Split what a user gave into a folder or the hub's name of a model, and a revision.

    Args:
        model: A folder, `name`, `organisation/name` or `organisation/name@revision`.
    """
    if _folder(model) is not None or "@" not in model:
        return model, None
    name, _, revision = model.partition("@")
    return name, revision or None


def locate(model: str, needs: Sequence[str] = ("config.json",)) -> Path:
    """Return the folder that holds a model, downloading it if need be.

    Args:
        model: As for `parse`. A folder wins over a name of the hub; what is in the hub's cache is used as it is.
        needs: Files that must be there beside weights and a tokenizer.

    Raises:
        ModelMissing: If it cannot be had, or a file is missing.
    """
    found, problem = _find(model, needs)
    if found is not None:
        return found
    name, revision = parse(model)
    if _folder(model) is not None or not _is_hub_name(name) or offline():
        raise ModelMissing(problem)
    try:
        return _download(name, revision, needs)
    except ModelMissing:
        raise
    except Exception as error:  # of the network, the hub, the disk
        raise ModelMissing(f"{problem} Downloading it failed ({type(error).__name__}: {first_line(error)}).") from error


def missing(model: str, needs: Sequence[str] = ("config.json",)) -> str | None:
    """Return why a model cannot be had and what to do, or None if it is here or on the hub; nothing is downloaded.

    The hub is asked once for each model, or again after a minute if it had no good answer.
    """
    found, problem = _find(model, needs)
    name, revision = parse(model)
    if found is not None:
        return None
    if _folder(model) is not None or not _is_hub_name(name) or offline():
        return problem
    key = (model, tuple(needs), hub_cache())
    when, told = _hub_said.get(key, (float("-inf"), "not asked"))
    if told and time.monotonic() - when > _SECONDS_OF_A_REFUSAL:
        told = _ask_hub(name, revision, needs, problem)
        _hub_said[key] = time.monotonic(), told
    return told or None


def _ask_hub(name: str, revision: str | None, needs: Sequence[str], problem: str) -> str:
    """Return what is wrong with a model on the hub, or an empty string."""
    try:
        _wanted(_files_on_hub(name, revision), needs, name)
    except ModelMissing as error:
        return str(error)
    except Exception as error:  # of the network or the hub
        return f"{problem} The hub could not be asked ({type(error).__name__}: {first_line(error)})."
    return ""


def fingerprint(folder: Path) -> str:
    """Return 12 hexadecimal digits that stand for the contents of a model's folder, wherever it lies.

    They are made of the names and bytes of the configuration, the weights and the tokenizer's files.
    """
    return fingerprint_of(_parts(folder))


def label(model: str) -> str:
    """Return what stands for a model in signatures: its kind, layers, width and fingerprint, such as `bert-6x384@...`.

    It says nothing of the model's name or place, so that the same weights have the same signature wherever they lie. A
    model that is not on this machine is `name@absent`.
    """
    found = find(model)
    if found is None:
        return _word(short_name(model)) + "@absent"
    config = configuration(model) or {}
    layers, width = (next((config[name] for name in names if config.get(name)), "?") for names in (_LAYERS, _WIDTHS))
    return f"{_word(str(config.get('model_type') or 'model'))}-{layers}x{width}@{fingerprint(found)}"


def _word(text: str) -> str:
    return re.sub(r"[^\w.+-]", "_", text)


def short_name(model: str) -> str:
    """Return the last part of a model's name or folder; for a folder of the hub's cache, the model's own name."""
    folder = _folder(model)
    if folder is None:
        return parse(model)[0].rstrip("/").rpartition("/")[2]
    parts = folder.absolute().parts
    if len(parts) > 2 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].rpartition("--")[2]
    return folder.name or folder.resolve().name


def find(model: str) -> Path | None:
    """Return the folder of a model on this machine, or None if it is not here or incomplete."""
    return _find(model, ("config.json",))[0]


def configuration(model: str) -> dict[str, Any] | None:
    """Return the `config.json` of a model on this machine, or None if it is not here or cannot be read."""
    found = find(model)
    if found is None:
        return None
    try:
        content = json.loads((found / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights: safetensors where there are any; none if a part is missing."""
    for name in _WEIGHTS:
        path = folder / name
        if not path.is_file():
            continue
        if not name.endswith(".index.json"):
            return [path]
        shards = [folder / shard for shard in _shards(path)]
        return [path, *shards] if shards and all(shard.is_file() for shard in shards) else []
    return []


def _find(model: str, needs: Sequence[str]) -> tuple[Path | None, str]:
    """Return the model's folder on this machine, or None and what is wrong."""
    folder = _folder(model)
    if folder is not None:
        lacking = _lacking(folder, needs)
        told = f"model folder {model}: {lacking}. Give the folder that holds config.json, weights and tokenizer"
        return (None, told) if lacking else (folder, "")
    name, revision = parse(model)
    if not _is_hub_name(name):
        return None, (
            f"model {model!r}: there is no such folder, and it is not a name of the hub (organisation/name, or "
            f"organisation/name@revision). Give the folder that holds config.json, weights and tokenizer"
        )
    lacking = ""
    for candidate in [name] if "/" in name else [name, *(f"{owner}/{name}" for owner in _ORGANISATIONS)]:
        cached = _cached(candidate, revision)
        if cached is not None:
            problem = _lacking(cached, needs)
            if not problem:
                return cached, ""
            lacking = f", incomplete in {cached}: {problem}"
    forbidden = " This process must not use the network (HF_HUB_OFFLINE)." if offline() else ""
    where = f"looked for a folder of that name and in the hub's cache {hub_cache()}"
    return None, f"model {model!r} is not on this machine ({where}{lacking}).{forbidden} {_remedy(name)}"


def _is_hub_name(name: str) -> bool:
    return bool(_HUB_NAME.match(name)) and len(name) <= 96 and "--" not in name and ".." not in name


def _remedy(name: str) -> str:
    return (
        f"On a machine with internet run `hf download {name} --local-dir FOLDER`, copy the folder here, and give its "
        "path in place of the name."
    )


def _folder(model: str) -> Path | None:
    try:
        path = Path(os.path.expanduser(model))
        return path if path.is_dir() else None
    except (OSError, ValueError):  # a name too long or with a NUL
        return None


def _lacking(folder: Path, needs: Sequence[str]) -> str:
    """Return what a folder lacks to be a model, or an empty string."""
    absent = [name for name in needs if not (folder / name).is_file()]
    if absent:
        return f"there is no {' and no '.join(absent)}"
    if not weight_files(folder):
        return f"there are no complete weights ({', '.join(_WEIGHTS[::2])}, or the parts that an index.json names)"
    if not any(_is_vocabulary(path.name) for path in folder.iterdir()):
        return f"there is no tokenizer ({', '.join(_VOCABULARIES)} or *.model)"
    for path in weight_files(folder):
        if is_lfs_pointer(path):
            return f"{path.name} is only a pointer of Git LFS; fetch the file itself (git lfs pull)"
    return ""


def _is_vocabulary(name: str) -> bool:
    return name in _VOCABULARIES or name.endswith(".model")


def _parts(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file that decides what a model gives, by name."""
    yield from ((path.name, path) for path in [folder / "config.json", *weight_files(folder)] if path.is_file())
    for path in sorted(folder.iterdir()):
        if path.is_file() and (path.name in _TOKENIZER_FILES or path.name.endswith(".model")):
            yield path.name, path


def _shards(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError):
        return []


def _cached(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json", cache_dir=hub_cache(), revision=revision)
    return Path(found).parent if isinstance(found, str) else None


def _files_on_hub(name: str, revision: str | None) -> list[str]:
    from huggingface_hub import HfApi

    information = HfApi().model_info(name, revision=revision, timeout=PATIENCE)
    return [file.rfilename for file in information.siblings or []]


def _wanted(files: Iterable[str], needs: Sequence[str], name: str) -> list[str]:
    """Choose the files of a model on the hub: one form of weights, the tokenizer, the configuration.

    Raises:
        ModelMissing: If it has none.
    """
    available = {file for file in files if "/" not in file}
    absent = [file for file in needs if file not in available]
    kinds = [{file for file in available if re.fullmatch(pattern, file)} for pattern in _WEIGHT_PATTERNS]
    weights: set[str] = next((kind for kind in kinds if kind), set())
    if absent or not weights:
        raise ModelMissing(
            f"model {name!r} on the hub has no {' and no '.join(absent or ['weights for PyTorch'])}. Give another model"
        )
    tokenizer = {file for file in available if file in _TOKENIZER_FILES or file.endswith(".model")}
    return sorted({*needs, *weights, *tokenizer})


_WEIGHT_PATTERNS = (
    r"model\.safetensors",
    r"model-\d+-of-\d+\.safetensors|model\.safetensors\.index\.json",
    r"pytorch_model\.bin",
    r"pytorch_model-\d+-of-\d+\.bin|pytorch_model\.bin\.index\.json",
)


def _download(name: str, revision: str | None, needs: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download

    wanted = _wanted(_files_on_hub(name, revision), needs, name)
    logger.info("downloading model %s from the hub: %s", name, ", ".join(wanted))
    folder = Path(
        snapshot_download(name, revision=revision, allow_patterns=wanted, cache_dir=hub_cache(), etag_timeout=PATIENCE)
    )
    lacking = _lacking(folder, needs)
    if lacking:
        raise ModelMissing(f"model {name!r}: downloaded to {folder}, but {lacking}. {_remedy(name)}")
    return folder
