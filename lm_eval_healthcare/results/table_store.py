"""A whole table as bytes: what was chosen, and apart from it what was set aside, which few readers look at."""

from __future__ import annotations

import contextlib
import gc
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from lm_eval_healthcare.results.cell import Cell, SetAside, Skipped, Table

_OF_A_TASK = (
    "model", "task", "n_shot", "template", "version", "prompt", "revision", "kind", "dialect", "file", "date",
)  # fmt: skip
_OF_A_VALUE = (
    "metric", "filter", "value", "stderr", "n", "n_total", "coverage", "higher_is_better", "signature", "unusable",
)  # fmt: skip


class Later(Sequence[SetAside]):
    """What was set aside, which is made from bytes only when somebody looks at it."""

    def __init__(self, raw: bytes, size: int) -> None:
        """Take what `dumped` made of `size` values."""
        self._raw, self._size = raw, size
        self._made: list[SetAside] | None = None

    def __len__(self) -> int:
        """Return the number of values."""
        return self._size

    @overload
    def __getitem__(self, place: int) -> SetAside: ...
    @overload
    def __getitem__(self, place: slice) -> list[SetAside]: ...
    def __getitem__(self, place: int | slice) -> SetAside | list[SetAside]:
        """Return one value, or some."""
        return self._all()[place]

    def __iter__(self) -> Iterator[SetAside]:
        """Yield the values in order."""
        return iter(self._all())

    def _all(self) -> list[SetAside]:
        if self._made is None:
            with _without_collector():
                content = json.loads(self._raw)
                cells = _loaded_cells(content)
                self._made = [SetAside(cell, why) for cell, why in zip(cells, content["reasons"], strict=True)]
        return self._made


def dumped(table: Table) -> tuple[bytes, bytes]:
    """Return a table as bytes: the chosen values with everything else, and what was set aside."""
    head = {
        **_dumped_cells(table.cells),
        "skipped": [[str(one.file), one.reason, one.broken] for one in table.skipped],
        "notes": table.notes,
        "files": table.files,
        "n_set_aside": len(table.set_aside),
    }
    aside = _dumped_cells(one.cell for one in table.set_aside)
    return _bytes(head), _bytes({**aside, "reasons": [one.reason for one in table.set_aside]})


def loaded(head: bytes, aside: bytes) -> Table:
    """Return the table that `dumped` was given.

    Raises:
        ValueError: If the bytes are damaged.
    """
    try:
        with _without_collector():
            content = json.loads(head)
            return Table(
                list(_loaded_cells(content)),
                Later(aside, content["n_set_aside"]),
                [Skipped(Path(file), reason, broken) for file, reason, broken in content["skipped"]],
                content["notes"],
                content["files"],
            )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"no table: {error!r}") from error


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the collector of cycles from looking again and again at many new objects, in which there are none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _dumped_cells(cells: Iterable[Cell]) -> dict[str, Any]:
    """Return cells with what the values of a task share written once."""
    places: dict[Any, int] = {}
    tasks: list[Any] = []
    values = []
    for cell in cells:
        shared = [getattr(cell, name) for name in _OF_A_TASK]
        key = (cell.model, cell.task, cell.file, id(cell.extra))
        if key not in places:
            places[key] = len(tasks)
            tasks.append([*(str(v) if isinstance(v, Path) else _plain(v) for v in shared), cell.extra])
        values.append([places[key], *(_plain(getattr(cell, name)) for name in _OF_A_VALUE)])
    return {"tasks": tasks, "values": values}


def _loaded_cells(content: dict[str, Any]) -> Iterator[Cell]:
    tasks = []
    files: dict[str, Path] = {}
    for model, task, shot, template, version, prompt, revision, kind, dialect, file, date, extra in content["tasks"]:
        path = files.setdefault(file, Path(file))
        stamp = math.nan if date is None else date
        tasks.append((model, task, shot, template, version, prompt, revision, kind, dialect, path, stamp, extra))
    nan = math.nan
    for place, metric, name, value, stderr, n, total, coverage, up, signature, unusable in content["values"]:
        model, task, shot, template, version, prompt, revision, kind, dialect, path, stamp, extra = tasks[place]
        yield Cell(
            model, task, metric, name, nan if value is None else value, nan if stderr is None else stderr, n, total,
            nan if coverage is None else coverage, up, shot, template, version, signature, prompt, revision, unusable,
            kind, dialect, path, stamp, extra,
        )  # fmt: skip


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _bytes(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
