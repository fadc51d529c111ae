"""The one place that decides where the rows of a task come from.

`data=hub` (the default) loads the YAML's `dataset_path`; `data=sample` the rows packaged with this project; anything
else is a folder on this machine that holds `<task>.jsonl` (or .json, .csv, .parquet), or `<task>/` with one file a
split, in the hub's columns. A local source never touches the network.
"""

from __future__ import annotations

import logging
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import EXTENSIONS, DataError, read_rows, sha256
from lm_eval_healthcare.data.pubmedqa import official_split
from lm_eval_healthcare.data.schema import check_row, without_lone_surrogates
from lm_eval_healthcare.sample import rows_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

logger = logging.getLogger(__name__)

SPLIT_FUNCTIONS: dict[str, Callable[[Mapping[str, Sequence[dict[str, Any]]]], dict[str, Sequence[dict[str, Any]]]]] = {
    "pubmedqa.official_split": official_split,
}
_LOCAL_FEWSHOT_SPLITS = ("train", "dev", "validation")
_SHARD = re.compile(r"^(?P<split>.+?)(?:-\d{5}-of-\d{5})?$")
_MAX_REPORTED = 20
_TOLERATED = 0.01


@dataclass(frozen=True)
class Source:
    """Where rows come from: `kind` is hub, folder or sample; `folder` is set for the latter two."""

    kind: str
    folder: Path | None = None


@dataclass
class TaskData:
    """The rows of one task.

    Attributes:
        splits: Rows by split name, checked and coerced; lists of dicts, or `datasets.Dataset` from the hub.
        eval_split: The split whose rows are scored.
        fewshot_split: The split from which examples may be drawn, never the one that is scored; None if there is none.
        provenance: What was read, for the results file: kind, names, row counts, hashes.
        warnings: What a user should know but need not stop for.
    """

    splits: dict[str, Any]
    eval_split: str
    fewshot_split: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parse_source(value: str | None) -> Source:
    """Turn the option `data` into a source.

    Raises:
        DataError: If the value is neither `hub`, `sample` nor an existing folder.
    """
    text = str("hub" if value is None else value).strip()
    if text == "hub":
        return Source("hub")
    if text == "sample":
        return Source("sample", rows_path())
    folder = Path(os.path.expanduser(text))
    if not folder.is_dir():
        what = "a file" if folder.is_file() else "nothing"
        raise DataError(
            f"data={text}: expected 'hub', 'sample' or an existing folder, found {what} there. Name the folder that "
            "holds <task>.jsonl (or .json, .csv, .parquet) or <task>/ with one file a split."
        )
    return Source("folder", folder)


def load(facts: TaskFacts, source: Source, hub_kwargs: Mapping[str, Any] | None = None) -> TaskData:
    """Load, check and coerce the rows of a task.

    Args:
        facts: What the task's YAML says about its data.
        source: Where to look.
        hub_kwargs: Further arguments for `datasets.load_dataset` (such as `revision`); unused for local sources.

    Raises:
        DataError: If files or columns are missing, a value has the wrong type, or the scored split is empty. All
            problems are listed, with file, row and column.
    """
    data = _load_hub(facts, dict(hub_kwargs or {})) if source.kind == "hub" else _load_local(facts, source)
    expected, found = facts.rows.get(data.eval_split), len(data.splits[data.eval_split])
    if expected is not None and found != expected and source.kind != "sample":
        place = data.provenance.get("files", [{"name": facts.dataset_path}])[0]["name"]
        data.warnings.append(
            f"{facts.name}: {place} gives {found} rows in split '{data.eval_split}' where the published benchmark has "
            f"{expected}; scores are not comparable with published ones"
        )
    return data


def find_files(facts: TaskFacts, folder: Path) -> dict[str, list[Path]]:
    """Find a task's files below a data folder.

    Returns:
        Files by split, shards of a split in order.

    Raises:
        DataError: If there is no file for the task, or if two could be meant.
    """
    raw_split = "train" if facts.splits_from else facts.eval_split
    other = facts.rows_name if facts.rows_name != facts.name else None
    if other and not _has_rows(facts.name, folder) and _has_rows(other, folder):
        return find_files(replace(facts, name=other), folder)
    flat = [path for ext in EXTENSIONS if (path := folder / f"{facts.name}.{ext}").is_file()]
    subfolder = folder / facts.name
    if len(flat) + subfolder.is_dir() > 1:
        names = ", ".join([path.name for path in flat] + ([f"{facts.name}/"] if subfolder.is_dir() else []))
        raise DataError(f"{facts.name}: {folder} holds {names}; keep one of them, it is not clear which is meant")
    if flat:
        extra = {}
        for split in (*facts.fewshot_splits, *_LOCAL_FEWSHOT_SPLITS):
            paths = [path for ext in EXTENSIONS if (path := folder / f"{facts.name}_{split}.{ext}").is_file()]
            if len(paths) > 1:
                names = ", ".join(path.name for path in paths)
                raise DataError(
                    f"{facts.name}: {folder} holds {names}; keep one of them, it is not clear which is meant"
                )
            if paths:
                extra[split] = paths
        return {**extra, raw_split: flat}
    if not subfolder.is_dir():
        raise DataError(
            f"{facts.name}: no rows in {folder}. Put {facts.name}.jsonl there (or .json, .csv, .parquet), or a folder "
            f"{facts.name}/ with one file a split (such as {raw_split}.jsonl), in the columns of "
            f"{facts.dataset_path or 'the benchmark'}: {', '.join(facts.columns)}"
        )
    splits: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(subfolder.iterdir()):
        match = _SHARD.match(path.stem)
        readable = path.is_file() and path.suffix.removeprefix(".").lower() in EXTENSIONS
        if match and readable and not path.name.startswith("."):
            splits[match["split"]].append(path)
    for split, paths in splits.items():
        _refuse_unclear(facts, split, paths)
    return _name_scored_split(dict(splits), facts, raw_split, subfolder)


def _has_rows(name: str, folder: Path) -> bool:
    return (folder / name).is_dir() or any((folder / f"{name}.{ext}").is_file() for ext in EXTENSIONS)


def _refuse_unclear(facts: TaskFacts, split: str, paths: Sequence[Path]) -> None:
    """Several files of one split must be all the shards of one set."""
    total = len(paths)
    wanted = {f"{split}-{number:05d}-of-{total:05d}" for number in range(total)}
    whole = total == 1 and paths[0].stem == split
    if not whole and ({path.stem for path in paths} != wanted or len({path.suffix for path in paths}) > 1):
        names = ", ".join(path.name for path in paths)
        raise DataError(
            f"{facts.name}: it is not clear which rows of split '{split}' are meant: {names}. Keep one file, or every "
            f"shard of one set ({split}-00000-of-0000N...)"
        )


def _name_scored_split(
    splits: dict[str, list[Path]], facts: TaskFacts, raw_split: str, folder: Path
) -> dict[str, list[Path]]:
    if raw_split in splits or "test" in splits:
        return splits
    if len(splits) == 1:
        (files,) = splits.values()
        logger.info("%s: taking %s as the scored split '%s'", facts.name, files[0].name, raw_split)
        return {raw_split: files}
    raise DataError(
        f"{facts.name}: {folder} has no file for the scored split; expected {raw_split}.jsonl (or .json, .csv, "
        f".parquet), found {', '.join(sorted(splits)) or 'no data file'}"
    )


def _load_local(facts: TaskFacts, source: Source) -> TaskData:
    assert source.folder is not None
    found = find_files(facts, source.folder)
    scored = _scored_split(found, facts)
    examples = _fewshot_split(found, scored, facts)
    # Other splits are not read: MedMCQA's test rows, for one, come without labels.
    files = {split: paths for split, paths in found.items() if split in (scored, examples)}
    raw: dict[str, Sequence[dict[str, Any]]] = {}
    faults: dict[str, list[str]] = {scored: [], str(examples): []}
    for split, paths in files.items():
        raw[split] = [row for path in paths for row in _check(read_rows(path), str(path), facts, faults[split])]
    if not raw[scored] and not faults[scored]:
        faults[scored].append(f"{found[scored][0]}: no rows; the scored split '{scored}' of {facts.name} is empty")
    _raise_if(facts.name, faults[scored])
    warnings = _duplicates(raw[scored], facts, str(found[scored][0])) + _left_out(facts, faults[str(examples)])
    if facts.splits_from:
        raw = SPLIT_FUNCTIONS[facts.splits_from](raw)
    splits: dict[str, Any] = {name: rows for name, rows in raw.items() if rows}
    data = TaskData(splits, scored if scored in splits else facts.eval_split, warnings=warnings)
    data.fewshot_split = _fewshot_split(data.splits, data.eval_split, facts)
    data.provenance = {
        "source": source.kind,
        "files": [
            {"name": path.relative_to(source.folder).as_posix(), "split": split, "sha256": sha256(path)}
            for split, paths in files.items()
            for path in paths
        ],
        "rows": {name: len(rows) for name, rows in splits.items()},
    }
    return data


def _scored_split(splits: Mapping[str, Any], facts: TaskFacts) -> str:
    """The hub's scored split; but where the hub scores `train`, a local `test` file is what the user means."""
    if facts.splits_from and "test" not in splits:
        return "train"
    if "test" in splits and (facts.eval_split == "train" or facts.eval_split not in splits):
        return "test"
    return facts.eval_split


def _fewshot_split(splits: Mapping[str, Any], scored: str, facts: TaskFacts) -> str | None:
    candidates = (*facts.fewshot_splits, *_LOCAL_FEWSHOT_SPLITS)
    return next((name for name in candidates if name in splits and name != scored), None)


def _load_hub(facts: TaskFacts, kwargs: dict[str, Any]) -> TaskData:
    splits, revision = _fetch(facts, kwargs)
    faults: list[str] = []
    place = f"{facts.dataset_path} ({facts.dataset_name or 'default'}), split {facts.eval_split}"
    rows = list(splits[facts.eval_split])
    usable = _check(rows, place, facts, faults)
    if not rows:
        faults.append(f"{place}: no rows")
    # A few faulty rows of a set that nobody here can mend are told and counted; more mean another set.
    if len(rows) - len(usable) > _TOLERATED * len(rows) or not usable:
        _raise_if(facts.name, faults)
    data = TaskData({**splits, facts.eval_split: usable}, facts.eval_split, warnings=_left_out(facts, faults))
    data.fewshot_split = _fewshot_split(splits, facts.eval_split, facts)
    data.warnings += _duplicates(usable, facts, place)
    data.provenance = {
        "source": "hub",
        "dataset_path": facts.dataset_path,
        "dataset_name": facts.dataset_name,
        "revision": revision,
        "fingerprint": getattr(splits[facts.eval_split], "_fingerprint", None),
        "rows": {name: len(rows) for name, rows in data.splits.items()},
        "unusable_rows": len(rows) - len(usable),
    }
    return data


def _fetch(facts: TaskFacts, kwargs: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Load all splits from the hub; also return the commit that was really loaded, if it is known."""
    import datasets

    kwargs.pop("trust_remote_code", None)
    try:
        loaded = datasets.load_dataset(facts.dataset_path, facts.dataset_name, **kwargs)
    except Exception as error:
        raise DataError(
            f"{facts.name}: {facts.dataset_path} could not be loaded from the hub ({type(error).__name__}: {error}). "
            "Without internet, give a local folder (--metadata data=FOLDER) or try the packaged sample (data=sample)."
        ) from error
    splits: dict[str, Any] = dict(loaded)
    if facts.splits_from:
        made = SPLIT_FUNCTIONS[facts.splits_from]({name: list(rows) for name, rows in splits.items()})
        splits = {name: datasets.Dataset.from_list(list(rows)) for name, rows in made.items() if rows}
    if facts.eval_split not in splits:
        raise DataError(
            f"{facts.name}: {facts.dataset_path} has no split '{facts.eval_split}' (found: {', '.join(splits)})"
        )
    checksums = next(iter(loaded.values())).info.download_checksums or {}
    commit = re.search(r"@([0-9a-f]{40})/", " ".join(map(str, checksums)))
    return splits, commit[1] if commit else kwargs.get("revision")


def _check(rows: Sequence[Mapping[str, Any]], place: str, facts: TaskFacts, faults: list[str]) -> list[dict[str, Any]]:
    """Return the rows that can be used, coerced; add what is wrong with the others to `faults`."""
    usable = []
    for number, row in enumerate(rows, start=1):
        coerced, found = check_row(without_lone_surrogates(row), facts.columns)
        faults += [f"{place}, row {number}: {fault}" for fault in found]
        if not found:
            usable.append(coerced)
    return usable


def _left_out(facts: TaskFacts, faults: Sequence[str]) -> list[str]:
    if not faults:
        return []
    more = f"\n  ... and {len(faults) - 3} more" if len(faults) > 3 else ""
    return [f"{facts.name}: rows that cannot be used are left out:\n  " + "\n  ".join(faults[:3]) + more]


def _duplicates(rows: Sequence[Mapping[str, Any]], facts: TaskFacts, place: str) -> list[str]:
    if facts.id_column is None or not rows or facts.id_column not in rows[0]:
        return []
    seen: dict[Any, int] = {}
    found = []
    for number, row in enumerate(rows, start=1):
        key = repr(row.get(facts.id_column))
        if key in seen:
            found.append(f"rows {seen[key]} and {number} share {facts.id_column} {key}")
        seen.setdefault(key, number)
    if not found:
        return []
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return [f"{place}: duplicated id in column '{facts.id_column}': {'; '.join(found[:3])}{more}; each is scored"]


def _raise_if(task: str, problems: list[str]) -> None:
    if problems:
        more = f"\n  ... and {len(problems) - _MAX_REPORTED} more" if len(problems) > _MAX_REPORTED else ""
        raise DataError(f"{task}: the rows cannot be used:\n  " + "\n  ".join(problems[:_MAX_REPORTED]) + more)
