"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which becomes `path` once everything is written; after an error nothing is left.

    The path's ending is that of `path`, for writers that go by it. Its folder is made if needed.

    Args:
        path: The file; one of that name is replaced.

    Raises:
        OSError: If the folder cannot be written.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
