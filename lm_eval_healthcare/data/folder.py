"""Finding and reading a task's files below a data folder."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import EXTENSIONS, DataError, read_rows
from lm_eval_healthcare.data.functions import named
from lm_eval_healthcare.data.listing import hub_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts

logger = logging.getLogger(__name__)

LOCAL_FEWSHOT_SPLITS = ("train", "dev", "validation")
_SHARD = re.compile(r"^(?P<split>.+?)(?P<shard>-\d{5}-of-\d{5})?(?:-[0-9a-f]{16})?$")  # as the hub names Parquet files


def read_file(facts: TaskFacts, path: Path) -> list[dict[str, Any]]:
    """Read the rows of one file: a table of rows, or an original file of the benchmark that it has a reader for.

    Raises:
        DataError: If the file cannot be read.
    """
    reader = facts.readers.get(path.suffix.removeprefix(".").lower())
    return named(reader)(path) if reader else read_rows(path)


def has_rows(facts: TaskFacts, folder: Path) -> bool:
    """Say whether a data folder holds anything under the task's name, or the name that it shares with others."""
    return any(_has_rows(name, facts, folder) for name in {facts.name, facts.folder_name})


def readable_splits(facts: TaskFacts) -> tuple[str, ...]:
    """Return the raw splits that a task reads from a folder, the scored ones first."""
    if facts.read:
        return tuple(dict.fromkeys((*facts.read, facts.flat_split, *facts.fewshot_splits)))
    scored = (facts.flat_split, facts.eval_split, "test")
    return tuple(dict.fromkeys((*scored, *facts.fewshot_splits, *LOCAL_FEWSHOT_SPLITS)))


def find_files(facts: TaskFacts, folder: Path) -> dict[str, list[Path]]:
    """Find a task's files below a data folder.

    Returns:
        Files by split, shards of a split in order.

    Raises:
        DataError: If there is no file for the task, or if two could be meant.
    """
    other = facts.rows_name if facts.rows_name != facts.name else None
    if other and not _has_rows(facts.name, facts, folder) and _has_rows(other, facts, folder):
        return find_files(replace(facts, name=other), folder)
    flat = list(_variants(facts.name, facts, folder))
    subfolder = folder / facts.name
    if len(flat) + subfolder.is_dir() > 1:
        names = ", ".join([path.name for path in flat] + ([f"{facts.name}/"] if subfolder.is_dir() else []))
        raise DataError(f"{facts.name}: {folder} holds {names}; keep one of them, it is not clear which is meant")
    if flat:
        return {**_flat_examples(facts, folder), facts.flat_split: flat}
    if not subfolder.is_dir():
        name, others = facts.folder_name, ", ".join(f".{extension}" for extension in _extensions(facts)[1:])
        raise DataError(
            f"{facts.name}: no rows in {folder}. Put {name}.jsonl there (or {others}), or a folder {name}/ "
            f"with one file a split (such as {facts.flat_split}.jsonl), in the columns of "
            f"{hub_source(facts) if facts.dataset_path else 'the benchmark'}: {', '.join(facts.columns)}"
        )
    splits: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(subfolder.iterdir()):
        match = _SHARD.match(path.stem)
        readable = path.is_file() and path.suffix.removeprefix(".").lower() in _extensions(facts)
        if match and readable and not path.name.startswith("."):
            splits[match["split"]].append(path)
    for split, paths in splits.items():
        _refuse_unclear(facts, split, paths)
    return _name_scored_split(dict(splits), facts, subfolder)


def _extensions(facts: TaskFacts) -> tuple[str, ...]:
    return (*EXTENSIONS, *(extension for extension in facts.readers if extension not in EXTENSIONS))


def _variants(stem: str, facts: TaskFacts, folder: Path) -> Iterator[Path]:
    for extension in _extensions(facts):
        path = folder / f"{stem}.{extension}"
        if path.is_file():
            yield path


def _has_rows(name: str, facts: TaskFacts, folder: Path) -> bool:
    return (folder / name).is_dir() or any(_variants(name, facts, folder))


def _flat_examples(facts: TaskFacts, folder: Path) -> dict[str, list[Path]]:
    """Files such as `<task>_train.jsonl` beside a flat file."""
    found = {}
    for split in dict.fromkeys((*facts.read, *facts.fewshot_splits, *LOCAL_FEWSHOT_SPLITS)):
        paths = list(_variants(f"{facts.name}_{split}", facts, folder))
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            raise DataError(f"{facts.name}: {folder} holds {names}; keep one of them, it is not clear which is meant")
        if paths:
            found[split] = paths
    return found


def _refuse_unclear(facts: TaskFacts, split: str, paths: Sequence[Path]) -> None:
    """Several files of one split must be all the shards of one set."""
    total = len(paths)
    wanted = {f"{split}-{number:05d}-of-{total:05d}" for number in range(total)}
    found = {match["split"] + (match["shard"] or "") for path in paths if (match := _SHARD.match(path.stem))}
    whole = total == 1 and found == {split}
    if not whole and (found != wanted or len({path.suffix for path in paths}) > 1):
        names = ", ".join(path.name for path in paths)
        raise DataError(
            f"{facts.name}: it is not clear which rows of split '{split}' are meant: {names}. Keep one file, or every "
            f"shard of one set ({split}-00000-of-0000N...)"
        )


def _name_scored_split(splits: dict[str, list[Path]], facts: TaskFacts, folder: Path) -> dict[str, list[Path]]:
    if {facts.flat_split, "test", *facts.read} & set(splits):
        return splits
    if len(splits) == 1:
        (files,) = splits.values()
        logger.info("%s: taking %s as the scored split '%s'", facts.name, files[0].name, facts.flat_split)
        return {facts.flat_split: files}
    raise DataError(
        f"{facts.name}: {folder} has no file for the scored split; expected {facts.flat_split}.jsonl (or .json, .csv, "
        f".parquet), found {', '.join(sorted(splits)) or 'no data file'}"
    )
