"""Rescaling of BERTScore by a baseline: the average score of random pairs, which raw scores lie close to."""

from __future__ import annotations

import csv
import hashlib
from importlib.util import find_spec
from pathlib import Path

from lm_eval_healthcare.metrics.bert_score_layers import plain_name

COLUMNS = ("P", "R", "F")


def baseline_file(rescale: str, language: str | None, model_name: str) -> Path:
    """Return the file of baselines that the option `bert_score_rescale` speaks of.

    Args:
        rescale: `package` for the file that an installed bert-score has, or the path of one.
        language: Language of the texts, which chooses the package's file.
        model_name: Last part of the encoder's name, which does so too.

    Raises:
        ValueError: If there is none.
    """
    if rescale != "package":
        path = Path(rescale).expanduser()
        if not path.is_file():
            raise ValueError(
                f"bert_score_rescale={rescale}: expected no, package, or a file of baselines (columns "
                f"LAYER,{','.join(COLUMNS)}); there is no such file"
            )
        return path
    found = find_spec("bert_score")
    if found is None or not found.submodule_search_locations:
        raise ValueError(
            "bert_score_rescale=package: the baselines are files of the package bert-score, which is not installed. "
            "pip install --no-deps bert-score==0.3.13, or give the path of a file of baselines"
        )
    folder = Path(next(iter(found.submodule_search_locations))) / "rescale_baseline" / (language or "-")
    tables = sorted(folder.rglob("*.tsv")) if folder.is_dir() else []
    files = [path for path in tables if plain_name(path.stem) == plain_name(model_name)]
    if not files:
        known = ", ".join(sorted({path.stem for path in tables})) or "none"
        raise ValueError(
            f"bert_score_rescale=package: bert-score has no baselines of {model_name} for the language "
            f"{language or '(several)'} (it has: {known}). Use one of these, a file of your own, or no"
        )
    return files[0]


def read_baseline(path: Path, layer: int) -> tuple[float, float, float]:
    """Return the baselines of precision, recall and F for a layer.

    Raises:
        ValueError: If the file is not of bert-score's form, or lacks the layer.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = {int(row["LAYER"]): tuple(float(row[name]) for name in COLUMNS) for row in csv.DictReader(stream)}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not a file of baselines ({error!r}); expected lines LAYER,{','.join(COLUMNS)} with numbers"
        ) from error
    if layer not in rows:
        raise ValueError(f"{path}: no baseline for layer {layer}; the layers are {', '.join(map(str, sorted(rows)))}")
    precision, recall, f1 = rows[layer]
    if max(precision, recall, f1) >= 1:
        raise ValueError(f"{path}: the baseline of layer {layer} is not below 1")
    return precision, recall, f1


def file_digest(path: Path) -> str:
    """Return 12 hexadecimal digits that stand for a file's contents."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
