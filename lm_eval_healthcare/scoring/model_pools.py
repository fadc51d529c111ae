"""In which order tasks of many runs are read and scored, so that texts of few are in memory and work is shared.

Models that answered the same questions are scored together, since each reference is then encoded once for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.scoring.saved_samples import SavedTask

BYTES_OF_A_WAVE = 1 << 28
"""Size of the sample files of one task that may be scored together; what is in memory of them is less."""
_REFERENCES_OF_A_BLOCK = 64


def waves(tasks: Sequence[SavedTask], most_bytes: int | None = None) -> list[list[SavedTask]]:
    """Return the tasks of runs in groups of whole runs that are scored and written before the next group is read.

    Args:
        tasks: Tasks; those of one run come after each other.
        most_bytes: Size of the files that models may have together for a task with neural metrics (default: 256 MiB).
    """
    most_bytes = BYTES_OF_A_WAVE if most_bytes is None else most_bytes
    runs: dict[int, list[SavedTask]] = defaultdict(list)
    for task in tasks:
        runs[id(task.run)].append(task)
    out: list[list[SavedTask]] = []
    sizes: dict[Any, int] = {}
    for own in runs.values():
        new = {_pool(task): task.size for task in own if task.heavy}
        if not out or any(sizes.get(pool, 0) + size > most_bytes for pool, size in new.items() if pool in sizes):
            out.append([])
            sizes = {}
        out[-1] += own
        for pool, size in new.items():
            sizes[pool] = sizes.get(pool, 0) + size
    return out


def units(wave: Sequence[SavedTask]) -> list[list[SavedTask]]:
    """Return the tasks of a wave in groups that are read together: one task of all models that can share work."""
    pools: dict[Any, list[SavedTask]] = defaultdict(list)
    for place, task in enumerate(wave):
        pools[_pool(task) if task.heavy else place].append(task)
    return sorted(pools.values(), key=lambda unit: not unit[0].heavy)


def blocks(references: Sequence[Sequence[str | list[str]]]) -> list[list[list[int]]]:
    """Return for each block of distinct references the rows of every model that are compared with them.

    Args:
        references: For each model those of its rows.
    """
    keys = [[tuple(texts) if isinstance(texts, list) else (texts,) for texts in own] for own in references]
    distinct = sorted({key for own in keys for key in own}, key=lambda key: (-sum(map(len, key)), key))
    numbers = {key: place // _REFERENCES_OF_A_BLOCK for place, key in enumerate(distinct)}
    n_blocks = max(numbers.values(), default=-1) + 1
    out: list[list[list[int]]] = [[[] for _ in references] for _ in range(n_blocks)]
    for model, own in enumerate(keys):
        for row, key in enumerate(own):
            out[numbers[key]][model].append(row)
    return out


def _pool(task: SavedTask) -> tuple[str, ...]:
    """Return what tasks have in common whose neural metrics mean the same."""
    return task.task, "+".join(task.heavy), task.setting
