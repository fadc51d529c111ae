"""Lengths in tokens of a tokenizer that lies on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.data.describe import CountTexts

_BATCH = 256


def token_counter(path: Path) -> tuple[CountTexts, str]:
    """Return a function that counts the tokens of texts, and the unit's name.

    Special tokens that a tokenizer adds at the start or the end are not counted.

    Args:
        path: A `tokenizer.json`, or a model folder that holds one. Nothing is fetched from a hub.

    Raises:
        DataError: If there is no tokenizer there, or it cannot be read.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if file.is_file() and file.suffix == ".json":
        encode = _fast(file)
    elif path.is_dir():
        encode = _from_folder(path)
    else:
        raise DataError(f"--tokenizer {path}: expected a model folder or a tokenizer.json on this machine")

    def count(texts: Sequence[str]) -> list[int]:
        return [n for start in range(0, len(texts), _BATCH) for n in encode(list(texts[start : start + _BATCH]))]

    name = path.parent.name if path.is_file() else path.name
    return count, f"tokens of {name or path}"


def _fast(file: Path) -> Any:
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises a bare Exception
        raise DataError(f"--tokenizer {file}: not readable as a tokenizer ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: [len(found.ids) for found in tokenizer.encode_batch(texts, add_special_tokens=False)]


def _from_folder(folder: Path) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise DataError(
            f"--tokenizer {folder}: there is no tokenizer.json, and reading other tokenizers needs transformers: "
            "pip install 'lm_eval_healthcare[hf]'"
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a tokenizer's own code raises
        raise DataError(f"--tokenizer {folder}: not readable as a tokenizer ({error})") from error
    return lambda texts: [len(ids) for ids in tokenizer(texts, add_special_tokens=False, truncation=False)["input_ids"]]
