"""The one place that decides where the rows of a task come from, and makes its documents of them.

`data=hub` (the default) loads the YAML's `dataset_path`; `data=sample` the rows packaged with this project; anything
else is a folder on this machine that holds `<task>.jsonl` (or .json, .csv, .parquet), or `<task>/` with one file a
split, in the hub's columns. A local source never touches the network.

Rows go through four steps, named in the task's YAML: read, `shape` (one raw row of any accepted layout to the declared
columns), check (`columns`), `prepare` (rows of all splits to documents).
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data import hub
from lm_eval_healthcare.data.files import DataError, sha256
from lm_eval_healthcare.data.folder import LOCAL_FEWSHOT_SPLITS, find_files, read_file
from lm_eval_healthcare.data.functions import named
from lm_eval_healthcare.data.holdout import HOLDOUT, hold_out, question_key
from lm_eval_healthcare.data.listing import hub_source
from lm_eval_healthcare.data.manifest import all_from_hub, changed
from lm_eval_healthcare.data.schema import check_row, without_lone_surrogates
from lm_eval_healthcare.sample import rows_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

_MAX_REPORTED = 20
_TOLERATED = 0.01
UNUSABLE_ROW = "unusable_row"


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
        left_out: Rows of the scored split that are not scored, by reason.
        warnings: What a user should know but need not stop for.
    """

    splits: dict[str, Any]
    eval_split: str
    fewshot_split: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


@dataclass
class _Raw:
    """Raw rows by split, each part with the place it was read from; `fetched` if they are unchanged from the hub."""

    parts: dict[str, list[tuple[str, Any]]]
    scored: str
    provenance: dict[str, Any]
    fetched: bool = False


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


def load(
    facts: TaskFacts,
    source: Source,
    hub_kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    holdout: int = 0,
) -> TaskData:
    """Load, check and prepare the rows of a task.

    Args:
        facts: What the task's YAML says about its data.
        source: Where to look.
        hub_kwargs: Further arguments for `datasets.load_dataset` (such as `revision`); unused for local sources.
        options: The task's own options that were given; others have their defaults.
        holdout: Number of distinct questions that become few-shot examples instead of being scored.

    Raises:
        DataError: If an option has a value that is not allowed, files or columns are missing, a value has the wrong
            type, or the scored split is empty. All problems are listed, with file, row and column.
    """
    try:
        chosen = {name: option.choose((options or {}).get(name)) for name, option in facts.options.items()}
    except ValueError as error:
        raise DataError(f"{facts.name}: {error}") from error
    raw = _read_hub(facts, dict(hub_kwargs or {})) if source.kind == "hub" else _read_folder(facts, source)
    data = _prepare(facts, raw, chosen, tolerant=source.kind == "hub" or raw.fetched)
    for name in changed(source.folder, raw.provenance["files"]) if source.folder else ():
        data.warnings.append(
            f"{facts.name}: {name} is not what manifest.json says it was; `lm-eval-healthcare data verify` tells more"
        )
    if holdout:
        _hold_out(data, holdout, facts)
    data.provenance = {**raw.provenance, "rows": {name: len(rows) for name, rows in data.splits.items()}}
    if chosen:
        data.provenance["options"] = chosen
    if data.left_out:
        data.provenance["left_out"] = dict(data.left_out)
    if source.kind != "sample" and chosen == {name: option.default for name, option in facts.options.items()}:
        _compare_count(facts, data)
    return data


def _read_folder(facts: TaskFacts, source: Source) -> _Raw:
    assert source.folder is not None
    found = find_files(facts, source.folder)
    scored = _scored_split(found, facts)
    examples = _fewshot_split(found, scored, facts)
    # Other splits are not read: MedMCQA's test rows, for one, come without labels.
    wanted = [name for name in facts.read if name in found] if facts.read else []
    files = {name: found[name] for name in dict.fromkeys((*wanted, scored, examples)) if name is not None}
    parts = {split: [(str(path), read_file(facts, path)) for path in paths] for split, paths in files.items()}
    read = [
        {"name": path.relative_to(source.folder).as_posix(), "split": split, "sha256": sha256(path)}
        for split, paths in files.items()
        for path in paths
    ]
    fetched = source.kind == "folder" and all_from_hub(source.folder, read)
    return _Raw(parts, scored, {"source": source.kind, "files": read}, fetched)


def _read_hub(facts: TaskFacts, kwargs: dict[str, Any]) -> _Raw:
    splits, revision = hub.fetch(facts, kwargs)
    arguments = hub.load_arguments(facts, kwargs)
    if facts.read:
        splits = {name: splits[name] for name in facts.read if name in splits} or splits
    scored = facts.eval_split if facts.eval_split in splits else facts.flat_split
    if scored not in splits and not (facts.prepare and facts.read):
        raise DataError(f"{facts.name}: {facts.dataset_path} has no split '{scored}' (found: {', '.join(splits)})")
    scored = scored if scored in splits else next(iter(splits))
    if not facts.read:  # other splits are not looked at: MedMCQA's test rows, for one, come without labels
        splits = {name: splits[name] for name in (scored, _fewshot_split(splits, scored, facts)) if name is not None}
    label = f"{facts.dataset_path} ({facts.dataset_name or 'default'})"
    provenance = {
        "source": "hub",
        "dataset_path": facts.dataset_path,
        "dataset_name": facts.dataset_name,
        "revision": revision,
        "asked_revision": kwargs.get("revision"),
        **({"data_files": arguments["data_files"]} if "data_files" in arguments else {}),
        "fingerprint": getattr(splits[scored], "_fingerprint", None),
    }
    parts = {name: [(f"{label}, split {name}", rows)] for name, rows in splits.items()}
    return _Raw(parts, scored, provenance)


def _prepare(facts: TaskFacts, raw: _Raw, options: Mapping[str, str], tolerant: bool) -> TaskData:
    """Shape, check and prepare; `tolerant` of a few faulty rows in a set that nobody here can mend."""
    checked: dict[str, Any] = {}
    faults: list[str] = []
    lost = 0
    examples = {*facts.fewshot_splits, *LOCAL_FEWSHOT_SPLITS} - {raw.scored}
    for split, parts in raw.parts.items():
        # A benchmark may have its examples in parts, such as `aci_train`.
        scored = split == raw.scored or not examples & {split, split.rpartition("_")[2]}
        if not scored and not facts.prepare and tolerant:
            checked[split] = parts[0][1]  # may be large: checked when examples are asked for
            continue
        found: list[str] = []
        good = [_check(rows, place, facts, found) for place, rows in parts]
        checked[split] = [row for usable, _ in good for row in usable]
        faulty, total = sum(count for _, count in good), sum(len(rows) for _, rows in parts)
        if scored and split == raw.scored and not total:
            found.append(f"{parts[0][0]}: no rows; the scored split '{split}' of {facts.name} is empty")
        # An example that cannot be used is left out; scored rows must be sound.
        if scored and found and (not tolerant or faulty == total or faulty > _TOLERATED * total):
            _raise_if(facts.name, found)
        faults += found
        lost += faulty if scored else 0
    data = TaskData(checked, raw.scored)
    data.warnings = _duplicates(checked[raw.scored], facts, raw.parts[raw.scored][0][0])
    data.warnings += _left_out(facts, faults)
    if facts.prepare:
        prepared = named(facts.prepare)(checked, options)
        data.splits = {name: rows for name, rows in prepared.splits.items() if rows}
        data.left_out += prepared.left_out
        data.warnings += [
            text if text.startswith((facts.name, facts.folder_name)) else f"{facts.name}: {text}"
            for text in prepared.warnings
        ]
        local_test = raw.scored == "test" and facts.eval_split == "train" and "test" in data.splits
        data.eval_split = facts.eval_split if facts.eval_split in data.splits and not local_test else raw.scored
        if data.eval_split not in data.splits:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in prepared.left_out.items())
            raise DataError(
                f"{facts.name}: none of the rows of {raw.parts[raw.scored][0][0]} gives a question to score"
                + (f" ({reasons})" if reasons else "")
                + "".join(f"\n  {warning}" for warning in prepared.warnings[:3])
            )
    if lost:
        data.left_out[UNUSABLE_ROW] += lost
    data.splits = {name: rows for name, rows in data.splits.items() if len(rows)}
    data.fewshot_split = _fewshot_split(data.splits, data.eval_split, facts)
    return data


def _hold_out(data: TaskData, n: int, facts: TaskFacts) -> None:
    try:
        stay, held = hold_out(list(data.splits[data.eval_split]), n, lambda row: question_key(row, facts))
    except ValueError as error:
        raise DataError(f"{facts.name}: {error}") from error
    data.splits = {**data.splits, data.eval_split: stay, HOLDOUT: held}
    data.fewshot_split = HOLDOUT
    data.left_out["held_out_for_fewshot"] += len(held)


def _scored_split(splits: Mapping[str, Any], facts: TaskFacts) -> str:
    """The hub's scored split; but where the hub scores `train`, a local `test` file is what the user means."""
    if "test" in splits and (facts.eval_split == "train" or facts.eval_split not in splits):
        return "test"
    if facts.eval_split in splits:
        return facts.eval_split
    return next((name for name in (facts.flat_split, *facts.read) if name in splits), facts.eval_split)


def _fewshot_split(splits: Mapping[str, Any], scored: str, facts: TaskFacts) -> str | None:
    candidates = (*facts.fewshot_splits, *LOCAL_FEWSHOT_SPLITS)
    return next((name for name in candidates if name in splits and name != scored), None)


def _compare_count(facts: TaskFacts, data: TaskData) -> None:
    expected, found = facts.row_counts(data.eval_split), len(data.splits[data.eval_split])
    if expected and found not in expected:
        files = [file["name"] for file in data.provenance.get("files", [])]
        place = files[0] if len(files) == 1 else f"{facts.folder_name}/" if files else hub_source(facts)
        reasons = ", ".join(f"{reason}: {count}" for reason, count in data.left_out.items())
        told = f"{' or '.join(map(str, expected))}{f' (left out: {reasons})' if reasons else ''}"
        data.warnings.append(
            f"{facts.name}: {place} gives {found} rows in split '{data.eval_split}' where the published benchmark has "
            f"{told}; scores are not comparable with published ones"
        )


def _check(
    rows: Sequence[Mapping[str, Any]], place: str, facts: TaskFacts, faults: list[str]
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows that can be used, shaped and coerced, and how many cannot; add what is wrong to `faults`."""
    shape = named(facts.shape) if facts.shape else None
    usable: list[dict[str, Any]] = []
    faulty = 0
    for number, row in enumerate(rows, start=1):
        clean = without_lone_surrogates(row)
        try:
            shaped = shape(clean) if shape else [clean]
        except ValueError as error:
            faults.append(f"{place}, row {number}: {error}")
            faulty += 1
            continue
        checked = [check_row(part, facts.columns, quote=not facts.credentialed) for part in shaped]
        found = [fault for _, problems in checked for fault in problems]
        faults += [f"{place}, row {number}: {fault}" for fault in found]
        faulty += bool(found)
        if not found:
            usable += [coerced for coerced, _ in checked]
    return usable, faulty


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
