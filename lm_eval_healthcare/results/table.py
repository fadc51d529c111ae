"""The tidy table: every results file below some paths, read once, and one chosen value of each key."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.cell import GROUP, PRE_04, Cell, Rules, Skipped, Table
from lm_eval_healthcare.results.choosing import Candidate, Origin, choose
from lm_eval_healthcare.results.dialects import LOST_ERROR, Record, stamp_of
from lm_eval_healthcare.results.discovery import files_below
from lm_eval_healthcare.results.leaves import group_notes, leaves_of
from lm_eval_healthcare.results.names import folder_name, printable
from lm_eval_healthcare.results.protocol import mixed, without_minorities
from lm_eval_healthcare.results.reading import read_records
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.sample_errors import LOST, with_sample_errors
from lm_eval_healthcare.results.table_cache import Identity, TableCache, identity
from lm_eval_healthcare.results.table_store import dumped, loaded

_NEVER_RESULTS = (
    ".jsonl", ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz", ".npy", ".parquet", ".arrow", ".csv", ".tsv",
    ".html", ".png", ".svg", ".jpg", ".pdf", ".py", ".pyc", ".yaml", ".yml", ".toml", ".md", ".log", ".gz", ".zip",
    ".zst", ".tar", ".xz", ".sqlite3", ".db", ".lock", ".part",
)  # fmt: skip
_BEGINNING = 256
MANY = 50
"""Files from which on the whole table is remembered, not only what each file says."""


@dataclass
class _Run:
    """A results file that was read."""

    path: Path
    record: Record
    model: str = ""

    @property
    def own(self) -> float:
        return next((v for v in (self.record["date"], self.record["stamp"]) if v is not None), -math.inf)


def read_table(paths: Sequence[Path], rules: Rules, *, jobs: int | None = None, cache: Path | None = None) -> Table:
    """Read every results file below some paths; see `lm_eval_healthcare.results.cell.read_table`.

    Raises:
        ResultsError: If a path does not exist.
    """
    table = _read(paths, rules, jobs, cache)
    table.cells = with_sample_errors(table.cells)
    return table


def _read(paths: Sequence[Path], rules: Rules, jobs: int | None, cache: Path | None) -> Table:
    table = Table()
    files = _files(paths, table)
    with TableCache(cache) as known:
        key = _key(files, table, rules) if len(files) >= MANY else ""
        if key and (found := known.get_table(key)) is not None:
            with contextlib.suppress(ValueError):  # damaged: it is made again
                return loaded(*found)
        again = _fill(table, read_records(files, known, jobs=jobs), rules)
        if key and not again:
            known.put_table(key, *dumped(table))
    return table


def _key(files: Mapping[Path, Identity | None], table: Table, rules: Rules) -> str:
    """Return what the table depends on, as a hash."""
    parts = [repr(rules), *(f"{os.path.abspath(path)}\0{path}\0{one}" for path, one in files.items())]
    parts += [f"{one.file}\0{one.reason}" for one in table.skipped]
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _fill(table: Table, records: Iterable[tuple[Path, Record]], rules: Rules) -> bool:
    """Fill a table, and say whether a file could not be read, which may be different the next time."""
    runs: list[_Run] = []
    digests: dict[tuple[str, str], Path] = {}
    again = False
    for path, record in records:
        if "skip" in record:
            again |= bool(record.get("again"))
            table.skipped.append(Skipped(path, record["skip"], bool(record["broken"])))
            continue
        # A file that names no model belongs to that of its folder, so that an equal one elsewhere is another's.
        content = record["digest"], record["model"] or record["folder"]
        first = digests.setdefault(content, path)
        if first == path:
            runs.append(_Run(path, record))
        else:
            table.skipped.append(Skipped(path, f"a copy of {printable(first)}, which is read"))
    table.files = len(runs)
    _name_models(runs, rules, table)
    by_name = _runs_by_name(runs)
    candidates = [one for run in runs for one in _candidates(run, _origin(run, by_name), table)]
    table.cells, table.set_aside = choose(candidates, rules)
    if rules.strict_protocol:
        table.cells, refused = without_minorities(table.cells)
        table.set_aside = sorted([*table.set_aside, *refused], key=lambda one: (one.cell.key, str(one.cell.file)))
    table.notes += mixed(table.cells)
    table.skipped.sort(key=lambda one: str(one.file))
    return again


def _files(paths: Sequence[Path], table: Table) -> dict[Path, Identity | None]:
    """Return the files that may be results with their identities, each once, whatever links lead to it."""
    faults: list[str] = []
    found: dict[Path, Identity | None] = {}
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path.is_dir():
            files: Iterator[Path] = (file for file in files_below(path, ("",), faults) if _may_be_results(file))
        elif path.is_file():
            files = iter([path])
        else:
            raise ResultsError(
                f"{printable(path)}: no such file or folder. Give folders that hold results of the harness at any "
                "depth, or such files"
            )
        for file in files:
            try:
                stat = os.stat(file)
            except OSError:  # reading it says what is wrong
                found[file] = None
                continue
            # Some file systems have no inodes.
            place = (stat.st_dev, stat.st_ino) if stat.st_ino else (0, hash(os.path.realpath(file)))
            if place not in seen:
                seen.add(place)
                found[file] = identity(stat)
    for fault in faults:
        folder, _, reason = fault.partition(": ")
        table.skipped.append(Skipped(Path(folder), reason, broken=True))
    return found


def _may_be_results(path: Path) -> bool:
    """Say whether a file is JSON by its name, or else begins as all results of the harness do."""
    name = path.name.lower()
    if name.endswith(".json"):
        return True
    if name.endswith(_NEVER_RESULTS):
        return False
    try:
        with path.open("rb") as stream:
            beginning = stream.read(_BEGINNING)
    except OSError:
        return False
    return b"".join(beginning.split()).startswith(b'{"results":')


def _name_models(runs: Sequence[_Run], rules: Rules, table: Table) -> None:
    """Give each run its model's name; where a file does not say it, that of its folder, or the one that made it."""
    known: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.record["model"]:
            known[folder_name(run.record["model"])].add(run.record["model"])
    for run in runs:
        record = run.record
        folder = record["folder"]
        fitting = known.get(folder, set())
        run.model = record["model"] or (next(iter(fitting)) if len(fitting) == 1 else folder)
        if not record["model"]:
            table.notes.append(f"{printable(run.path)} names no model; it is taken for {run.model}, after its folder")
        if rules.by_revision and record["revision"]:
            run.model = f"{run.model}@{record['revision']}"
    for folder, names in sorted(known.items()):
        if len(names) > 1:
            table.notes.append(
                f"the models {', '.join(sorted(names))} share the folder name {folder}; they are kept apart by what "
                "the files say"
            )


def _runs_by_name(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """Return runs by the names by which later files say what they were made from."""
    found: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        found[run.path.name].append(run)
    return found


def _origin(run: _Run, by_name: dict[str, list[_Run]]) -> Origin:
    stamp = run.record["stamp"]
    return Origin(_began(run, by_name, {run.path}), run.own, -math.inf if stamp is None else stamp)


def _began(run: _Run, by_name: dict[str, list[_Run]], seen: set[Path]) -> float:
    """Return when the run began from whose answers these values were made."""
    source = run.record["source"]
    if not source:
        return run.own
    sources = [one for one in by_name.get(source, ()) if one.model == run.model and one.path not in seen]
    beside = [one for one in sources if one.path.parent == run.path.parent] or sources
    if beside:
        newest = max(beside, key=lambda one: one.own)
        return _began(newest, by_name, seen | {newest.path})
    named = stamp_of(source)
    if named is None:
        return run.own
    # The source may be a samples file of the run, whose results file carries the same time.
    runs = [one for ones in by_name.values() for one in ones if one.record["stamp"] == named]
    return max((one.own for one in runs if not one.record["source"] and one.model == run.model), default=named)


def _candidates(run: _Run, origin: Origin, table: Table) -> list[Candidate]:
    record, out = run.record, []
    counted: dict[str, int] = {}
    sizes = {entry["task"]: (entry["n"], entry["n_total"]) for entry in record["tasks"] if entry["kind"] != GROUP}
    for entry in record["tasks"]:
        if entry["kind"] == GROUP:
            if entry["n"] is not None:
                counted[entry["task"]] = entry["n"]
            entry = {**entry, **_group_sizes(entry["task"], record["groups"], sizes)}
        for metric in entry["alone"]:
            note = f"{entry['task']}: {metric} is taken for a statement about another metric, not for a score"
            if note not in table.notes:
                table.notes.append(note)
        out += [Candidate(cell, problem, origin) for cell, problem in _cells(run, entry)]
    if counted or record["groups"]:
        table.notes += group_notes([one.cell for one in out if one.problem is None], record["groups"], counted)
    return out


def _group_sizes(group: str, groups: dict[str, Any], sizes: dict[str, Any]) -> dict[str, int | None]:
    """Return a group's documents: those of its distinct tasks together, or None if one of them is not known."""
    found = [sizes.get(task, (None, None)) for task in leaves_of(group, groups)]
    n, total = ([one[place] for one in found] for place in (0, 1))
    return {
        "n": sum(n) if n and None not in n else None,
        "n_total": sum(total) if total and None not in total else None,
    }


def _cells(run: _Run, entry: dict[str, Any]) -> Iterator[tuple[Cell, str | None]]:
    record = run.record
    n, n_total = entry["n"], entry["n_total"]
    limited = record["run"].get("limit") is not None and (n_total is None or n is None)
    partial = limited or (n is not None and n_total is not None and n < n_total)
    extra = {**record["run"], **entry["extra"], **({"partial": True} if partial else {})}
    date = math.nan if record["date"] is None and record["stamp"] is None else run.own
    common = (entry["n_shot"], record["template"], entry["version"])
    legacy = record["dialect"] == PRE_04
    for metric, name, value, stderr, coverage, up, signature, unusable, problem, whole, size in entry["values"]:
        if whole is None:
            own, own_total, more = n, n_total, extra
        else:
            own, own_total = size, None if partial else size
            more = {**extra, "part_of": whole}
        if stderr == LOST_ERROR:
            stderr, more = None, {**more, LOST: True}
        yield Cell(
            run.model, entry["task"], metric, name, math.nan if value is None else value,
            math.nan if stderr is None else stderr, None if legacy else own, None if legacy else own_total,
            math.nan if coverage is None else coverage, up, *common, signature, entry["prompt"], record["revision"],
            unusable, entry["kind"], record["dialect"], run.path, date, more,
        ), problem  # fmt: skip
