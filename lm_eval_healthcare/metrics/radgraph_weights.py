"""Where RadGraph's weights are: a folder, an archive, the caches of this machine, or the hub.

A model is `config.json`, `weights.th` and the folder `vocabulary`, published as an archive. `config.json` names an
encoder of the hub, of which only the configuration and the tokenizer are used: `weights.th` holds its weights.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.encoding.fingerprints import fingerprint_of, sha256_of
from lm_eval_healthcare.metrics.encoding.machine import cache_folder, first_line, hub_cache, is_lfs_pointer, offline

logger = logging.getLogger(__name__)

MODELS = ("radgraph-xl", "modern-radgraph-xl", "radgraph")
"""Published models, the default first. `echograph` is not for radiology, and the package prepares its texts wrongly."""

REPOSITORY = "StanfordAIMI/RRG_scorers"
_PACKAGE_CACHE = Path("radgraph") / "0.1.18"
_NER_LABELS = "__ner_labels.txt"
_ENCODER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)
_PATIENCE = 5.0  # seconds that the hub has for an answer


@dataclass(frozen=True)
class Weights:
    """A model on this machine, ready to be loaded.

    Attributes:
        folder: Holds `config.json`, `weights.th` and `vocabulary`.
        kind: One of `MODELS`: how texts are cut into words, and which labels the model gives.
        encoder: Folder with the encoder's `config.json` and tokenizer.
    """

    folder: Path
    kind: str
    encoder: Path


def locate(model: str, download: bool = True) -> Weights:
    """Return a model's files, unpacking an archive and downloading what is missing if need be.

    Args:
        model: One of `MODELS`, a folder with the unpacked files, or an archive (`.tar.gz`).
        download: Whether the hub may be asked. Where `HF_HUB_OFFLINE` is set by now it never is.

    Raises:
        ModelMissing: If something cannot be had; the text names it and says where to put it.
    """
    folder, beside = _folder_of(model, download)
    lacking = _lacking(folder)
    if lacking:
        raise ModelMissing(f"radgraph_model={model}: {lacking} in {folder}. {_remedy(model)}")
    return Weights(folder, _kind(folder, model), _encoder_of(folder, beside, model, download))


def missing(model: str) -> str | None:
    """Return why a model cannot be had and what to do, or None if it is here or on the hub; nothing is downloaded."""
    try:
        locate(model, download=False)
    except _NotHere as error:
        return str(error) if offline() else _not_on_hub(error)
    except ModelMissing as error:
        return str(error)
    return None


def label(model: str) -> str:
    """Return the model's short name and fingerprint for signatures, `name@absent` if it is not on this machine."""
    name = Path(model).name.removesuffix(".gz").removesuffix(".tar")
    try:
        weights = locate(model, download=False)
    except (ModelMissing, OSError):
        return f"{name}@absent"
    return f"{name}@{fingerprint(weights)}"


def fingerprint(weights: Weights) -> str:
    """Return 12 hexadecimal digits that stand for the contents of all files that decide what a model gives."""
    return fingerprint_of(_parts(weights))


class _NotHere(ModelMissing):
    """Not on this machine, but the hub may have it."""

    def __init__(self, text: str, repository: str, file: str) -> None:
        super().__init__(text)
        self.repository, self.file = repository, file


def _not_on_hub(sought: _NotHere) -> str | None:
    """Return why the hub cannot give what is not here, or None if it can."""
    try:
        from huggingface_hub import HfApi

        siblings = HfApi().model_info(sought.repository, timeout=_PATIENCE).siblings or []
    except Exception as error:  # of the network or the hub
        return f"{sought} The hub could not be asked ({type(error).__name__}: {first_line(error)})."
    if sought.file in {file.rfilename for file in siblings}:
        return None
    return f"{sought} {sought.repository} on the hub has no {sought.file}."


def _folder_of(model: str, download: bool) -> tuple[Path, Path | None]:
    """Return the folder with a model's files, and the folder in which the user keeps it, if that is known."""
    path = Path(os.path.expanduser(model))
    if path.is_dir():
        return path, path
    if path.is_file():
        return _unpacked(path), path.parent
    if model not in MODELS:
        raise ModelMissing(
            f"radgraph_model={model}: there is no such folder or archive; published models are {', '.join(MODELS)}. "
            "Give one of them, a folder that holds config.json, weights.th and vocabulary, or the archive with them"
        )
    for base in _package_caches():
        if not _lacking(base / model):
            return base / model, base / model
    return _unpacked(_archive_of(model, download)), None


def _package_caches() -> list[Path]:
    """Folders in which the package radgraph itself keeps models that it has unpacked."""
    home = Path.home()
    linux = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return [linux / _PACKAGE_CACHE, home / "Library" / "Caches" / _PACKAGE_CACHE]


def _archive_of(model: str, download: bool) -> Path:
    """Return the published archive of a model, from a cache of the hub or downloaded."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    name = f"{model}.tar.gz"
    for cache in (hub_cache(), *_package_caches()):
        cached = try_to_load_from_cache(REPOSITORY, name, cache_dir=cache)
        if isinstance(cached, str):
            return Path(cached)
    where = f"looked for it in {_package_caches()[0] / model} and in the hub's cache {hub_cache()}"
    problem = f"radgraph_model={model}: {REPOSITORY}/{name} is not on this machine ({where}). {_remedy(model)}"
    if not download or offline():
        raise _NotHere(problem, REPOSITORY, name)
    logger.info("downloading %s of %s from the hub", name, REPOSITORY)
    try:
        return Path(hf_hub_download(REPOSITORY, name, cache_dir=hub_cache(), etag_timeout=_PATIENCE))
    except Exception as error:  # of the network, the hub, the disk
        text = f"{problem} Downloading it failed ({type(error).__name__}: {first_line(error)})."
        raise ModelMissing(text) from error


def _unpacked(archive: Path) -> Path:
    """Return the folder with an archive's files, unpacking it once into the cache of this package.

    Only files of a model are written, under their own names, so no archive can write anywhere else.
    """
    try:
        target = cache_folder() / "radgraph" / sha256_of(archive)[:12]
        if not _lacking(target):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            fresh = Path(work) / "model"
            _unpack(archive, fresh)
            lacking = _lacking(fresh)
            if lacking:
                raise ModelMissing(f"radgraph_model={archive}: {lacking} in this archive. {_remedy(archive.name)}")
            try:
                fresh.rename(target)
            except OSError:  # it is there: another process was faster, or somebody has removed a part of it
                if _lacking(target):
                    shutil.rmtree(target, ignore_errors=True)
                    fresh.rename(target)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ModelMissing(
            f"radgraph_model={archive} cannot be unpacked into {cache_folder()} ({type(error).__name__}: "
            f"{first_line(error)}). Fetch the archive again, or unpack it yourself and give the folder"
        ) from error
    return target


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise ModelMissing(
                    f"radgraph_model={archive}: the archive holds the path {member.name!r}, outside itself; it is "
                    f"damaged or malicious. Fetch {REPOSITORY} again"
                )
            wanted = str(path) in ("config.json", "weights.th") or (
                len(path.parts) == 2 and path.parts[0] == "vocabulary"
            )
            stream = tar.extractfile(member) if wanted and member.isfile() else None
            if stream is not None:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                with stream, (target / path).open("wb") as out:
                    shutil.copyfileobj(stream, out, 1 << 22)


def _lacking(folder: Path) -> str:
    """Return what a folder lacks to be a model, or an empty string."""
    absent = [name for name in ("config.json", "weights.th") if not (folder / name).is_file()]
    absent += [] if any(folder.glob("vocabulary/*.txt")) else ["vocabulary"]
    if absent:
        return f"there is no {' and no '.join(absent)}"
    if is_lfs_pointer(folder / "weights.th"):
        return "weights.th is only a pointer of Git LFS (fetch the file itself)"
    return ""


def _kind(folder: Path, model: str) -> str:
    """Return which published model a folder is like: the one that it is named after, or whose labels it gives."""
    given = {path.name.removesuffix(_NER_LABELS) for path in folder.glob(f"vocabulary/*{_NER_LABELS}")}
    possible = given.intersection(MODELS)
    for name in (model, folder.name):
        if name in possible:
            return name
    if len(possible) == 1:
        return possible.pop()
    raise ModelMissing(
        f"radgraph_model={model}: its vocabulary is for {', '.join(sorted(given)) or 'no labels at all'}; it must be "
        f"for one of {', '.join(MODELS)}. Name the folder like the one that is meant, or give another model"
    )


def configuration(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the content of a model's `config.json` and the encoder that it names.

    Raises:
        ModelMissing: If it is not a model's configuration.
    """
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        name = content["model"]["embedder"]["token_embedders"]["bert"]["model_name"]
        other = content["dataset_reader"]["token_indexers"]["bert"]["model_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelMissing(
            f"{folder / 'config.json'} is not the configuration of a RadGraph model ({type(error).__name__}: "
            f"{first_line(error)}). Fetch {REPOSITORY} again"
        ) from error
    if name != other:
        raise ModelMissing(f"{folder / 'config.json'} names two encoders, {name} and {other}; it must name one")
    return content, str(name)


def _encoder_of(folder: Path, beside: Path | None, model: str, download: bool) -> Path:
    """Return the folder with the configuration and the tokenizer of a model's encoder."""
    _, name = configuration(folder)
    for candidate in [folder / "encoder", *([beside / "encoder"] if beside else []), folder / name, Path(name)]:
        if _is_encoder(candidate):
            return candidate.resolve()
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json", cache_dir=hub_cache())
    if isinstance(cached, str) and _is_encoder(Path(cached).parent):
        return Path(cached).parent
    problem = (
        f"radgraph_model={model}: the configuration and the tokenizer of its encoder {name} are not on this machine "
        f"(looked in {(beside or folder) / 'encoder'} and in the hub's cache {hub_cache()}). On a machine "
        f"with internet run `hf download {name} --include '*.json' '*.txt' '*.model' --local-dir encoder`, and put the "
        f"folder encoder into {beside or folder}."
    )
    if not download or offline():
        raise _NotHere(problem, name, "config.json")
    try:
        fetched = Path(
            snapshot_download(name, allow_patterns=list(_ENCODER_FILES), cache_dir=hub_cache(), etag_timeout=_PATIENCE)
        )
    except Exception as error:  # of the network, the hub, the disk
        text = f"{problem} Downloading them failed ({type(error).__name__}: {first_line(error)})."
        raise ModelMissing(text) from error
    if not _is_encoder(fetched):
        raise ModelMissing(f"{problem} {name} on the hub has no config.json or no tokenizer.")
    return fetched


def _is_encoder(folder: Path) -> bool:
    return (folder / "config.json").is_file() and bool(_tokenizer_files(folder))


def _tokenizer_files(folder: Path) -> list[Path]:
    """Return the files that decide how an encoder's tokenizer cuts words; the most complete form of them."""
    for names in (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt")):
        if all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    return sorted(folder.glob("*.model"))


def _parts(weights: Weights) -> Iterator[tuple[str, Path]]:
    """Every file that decides what a model gives, by name."""
    for path in [
        weights.folder / "config.json",
        weights.folder / "weights.th",
        *weights.folder.glob("vocabulary/*.txt"),
    ]:
        yield path.relative_to(weights.folder).as_posix(), path
    for path in [weights.encoder / "config.json", *_tokenizer_files(weights.encoder)]:
        yield f"encoder/{path.name}", path


def _remedy(model: str) -> str:
    name = model if model in MODELS else MODELS[0]
    return (
        f"On a machine with internet run `hf download {REPOSITORY} {name}.tar.gz --local-dir FOLDER`, copy the file "
        f"here and give its path: radgraph_model=FOLDER/{name}.tar.gz (or the folder into which it is unpacked)."
    )
