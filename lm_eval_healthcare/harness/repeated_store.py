"""Answers to repeated questions that a model has given already, so that a run that was stopped goes on where it was.

An SQLite file in the user's cache, which the user alone can read. An answer's key covers the model, the prompt and
everything that was said about sampling, so what is found under it is what the model would be asked for. A model that
cannot be told from others has no key, and its answers are not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval_healthcare.data.schema import without_lone_surrogates
from lm_eval_healthcare.harness.relaxed_codec import is_a
from lm_eval_healthcare.metrics.encoding.machine import cache_folder
from lm_eval_healthcare.private_database import open_database

logger = logging.getLogger(__name__)

OFF = "off"
FILE_NAME = "repeated_answers.sqlite3"
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT NOT NULL, number INTEGER NOT NULL, text TEXT, PRIMARY KEY (key, number)
) WITHOUT ROWID;
"""
_OF_SAMPLING = ("max_length", "max_gen_toks", "think_end_token", "truncation", "truncation_side", "add_bos_token")


class AnswerStore:
    """Answers by key and number; whatever is wrong with the file costs a warning and the store, not an answer."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Open the file in a folder, or in the user's cache; `off` keeps nothing."""
        self.path: Path | None = None
        self._connection: sqlite3.Connection | None = None
        if folder is not None and str(folder) == OFF:
            return
        self.path = (cache_folder() if folder is None else Path(os.path.expanduser(folder))) / FILE_NAME
        try:
            self._connection = open_database(self.path, _TABLES, _VERSION)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def get(self, key: str | None) -> dict[int, Any]:
        """Return the answers that are known under a key, by their numbers."""
        if self._connection is None or key is None:
            return {}
        try:
            return dict(self._connection.execute("SELECT number, text FROM answers WHERE key = ?", (key,)))
        except sqlite3.Error as error:
            self._give_up(error)
            return {}

    def put(self, answers: Mapping[str, Mapping[int, Any]]) -> None:
        """Keep answers by key and number; all of them are on disk when this returns, or none."""
        if self._connection is None:
            return
        rows = [
            (key, number, without_lone_surrogates(text))
            for key, some in answers.items()
            for number, text in some.items()
        ]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        logger.warning("answers are not kept in %s (%s); a run that is stopped asks again", self.path, error)
        with contextlib.suppress(sqlite3.Error):
            self.close()
        self._connection = None


def key_of(*parts: Any) -> str:
    """Return a key of everything that may change a text."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()


def model_key(lm: Any) -> str | None:
    """Return what tells a model from every other, or None if it cannot be told.

    Of a local folder that is its path with the sizes and dates of its files, of a server its address and the model's
    name there.
    """
    known = _of_transformers(lm) or _of_vllm(lm) or _of_server(lm)
    if known is None:
        return None
    settings = {name: getattr(lm, name, None) for name in _OF_SAMPLING}
    classes = [kind.__qualname__ for kind in type(lm).__mro__]
    return key_of(classes, known, settings)


def _of_transformers(lm: Any) -> dict[str, Any] | None:
    source = getattr(lm, "pretrained", None)
    if not is_a(lm, "HFLM") or not isinstance(source, str):
        return None
    model = getattr(lm, "model", None)
    parts = {name: getattr(lm, name, None) for name in ("revision", "peft", "delta")}
    described = [_as_json(getattr(model, name, None)) for name in ("config", "generation_config")]
    return {
        "source": source,
        **parts,
        "dtype": str(getattr(model, "dtype", None)),
        "config": described,
        "commit": getattr(getattr(model, "config", None), "_commit_hash", None),
        "tokenizer": getattr(getattr(lm, "tokenizer", None), "name_or_path", None),
        "files": [_files(name) for name in (source, parts["peft"], parts["delta"])],
    }


def _of_vllm(lm: Any) -> dict[str, Any] | None:
    arguments = getattr(lm, "model_args", None)
    if not is_a(lm, "VLLM") or not isinstance(arguments, dict):
        return None
    adapter = getattr(getattr(lm, "lora_request", None), "lora_path", None)
    return {"arguments": arguments, "adapter": adapter, "files": [_files(arguments.get("model")), _files(adapter)]}


def _of_server(lm: Any) -> dict[str, Any] | None:
    name, address = getattr(lm, "model", None), getattr(lm, "base_url", None)
    if not is_a(lm, "TemplateAPI") or not isinstance(name, str) or not address:
        return None
    return {"model": name, "server": address}


def _as_json(config: Any) -> str | None:
    return config.to_json_string() if hasattr(config, "to_json_string") else None


def _files(folder: Any) -> list[tuple[str, int, int]] | None:
    """The sizes and dates of a folder's files: weights that are written anew are another model."""
    if not isinstance(folder, str) or not os.path.isdir(folder):
        return None
    found = [(entry.name, entry.stat()) for entry in os.scandir(folder) if entry.is_file()]
    return sorted((name, facts.st_size, facts.st_mtime_ns) for name, facts in found)
