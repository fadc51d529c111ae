"""Reading many results files: what the cache knows is not read again, the rest by several processes where that pays."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.dialects import Record, read_record
from lm_eval_healthcare.results.table_cache import Identity, TableCache

logger = logging.getLogger(__name__)

MANY = 200
"""Files from which on several processes pay."""
_FILES_A_TASK = 32
_MOST_JOBS = 16


def read_records(
    files: Mapping[Path, Identity | None], cache: TableCache, *, jobs: int | None = None
) -> Iterator[tuple[Path, Record]]:
    """Yield what each file says, in the order given.

    Args:
        files: The files, each with its identity; None where it could not be looked at.
        cache: What is known.
        jobs: Processes; None for as many as pay.
    """
    keys = {path: os.path.abspath(path) for path in files}
    remembered = cache.get({keys[path]: one for path, one in files.items() if one is not None})
    missing = [path for path in files if keys[path] not in remembered]
    found: dict[Path, Record] = {}
    fresh: list[tuple[str, Identity, bytes]] = []
    for path, raw in zip(missing, _read(missing, jobs), strict=True):
        found[path] = json.loads(raw)
        one = files[path]
        if one is not None and not found[path].get("again"):
            fresh.append((keys[path], one, raw))
    cache.put(fresh)
    for path in files:
        yield path, found[path] if path in found else _loaded(remembered[keys[path]], path)


def _loaded(raw: bytes, path: Path) -> Record:
    try:
        found: Any = json.loads(raw)
    except ValueError:  # the cache is damaged
        return read_record(path)
    return found if isinstance(found, dict) else read_record(path)


def _read(files: Sequence[Path], jobs: int | None) -> Iterator[bytes]:
    """Yield the record of each file as bytes, which cost little between processes."""
    wanted = min(jobs or _cores(), _MOST_JOBS, 1 + len(files) // _FILES_A_TASK)
    done = 0
    if wanted > 1 and (jobs or len(files) > MANY):
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        try:
            with ProcessPoolExecutor(wanted) as pool:
                for raw in pool.map(_record_as_bytes, files, chunksize=_FILES_A_TASK):
                    done += 1
                    yield raw
                return
        except (BrokenProcessPool, OSError) as error:
            logger.warning("files are read by one process, since several do not work here (%s)", error)
    for path in files[done:]:
        yield _record_as_bytes(path)


def _record_as_bytes(path: Path) -> bytes:
    return json.dumps(read_record(path), separators=(",", ":")).encode()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
