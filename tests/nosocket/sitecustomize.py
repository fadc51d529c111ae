"""Close the sockets of every interpreter that starts with this folder on PYTHONPATH.

Then run the `sitecustomize` that this one hides (Debian has one, so do coverage tools), if there is any.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.realpath(__file__))


def _close_sockets() -> None:
    # By its path, so that no other module of the same name can take its place.
    spec = importlib.util.spec_from_file_location("closed_sockets", os.path.join(_FOLDER, "closed_sockets.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["closed_sockets"] = module
    spec.loader.exec_module(module)
    module.install()


def _run_hidden() -> None:
    own = [index for index, path in enumerate(sys.path) if os.path.realpath(path or os.curdir) == _FOLDER]
    # Only what comes after this folder: a second copy of this file further on would otherwise find this one again.
    rest = [path for index, path in enumerate(sys.path) if index > (own[0] if own else -1) and index not in own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_close_sockets()
_run_hidden()
