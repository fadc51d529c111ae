"""The wording on which Prometheus was trained, read from the user's installed `prometheus-eval`.

The package is found without importing it, since its dependencies are many, and its constants are taken from the syntax
tree of one file. Nothing of its text is part of this package.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from lm_eval_healthcare.judge.errors import JudgeError

DISTRIBUTION, _PACKAGE, _FILE = "prometheus-eval", "prometheus_eval", "prompts.py"
_MOST_BYTES = 1_000_000
_NEEDED = ("ABS_SYSTEM_PROMPT", "ABSOLUTE_PROMPT", "REL_SYSTEM_PROMPT", "RELATIVE_PROMPT")
_OPTIONAL = ("RELATIVE_PROMPT_WO_REF",)
_REMEDY = (
    f"Install the version that is known to work, without its dependencies (pip install --no-deps "
    f"{DISTRIBUTION}==0.1.20), or use wording=pack or a template file."
)


@dataclass(frozen=True)
class Trained:
    """The constants.

    Attributes:
        version: Of the installed package; `unknown` if it says none.
        texts: The constants by their names.
    """

    version: str
    texts: dict[str, str]


def trained() -> Trained:
    """Read the constants.

    Raises:
        JudgeError: If the package is not installed, or its file does not have them as texts.
    """
    path = _path()
    found = _texts(path)
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise JudgeError(f"{path}: has no text {', '.join(missing)}, with which Prometheus was trained. {_REMEDY}")
    try:
        version = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return Trained(version, {name: found[name] for name in (*_NEEDED, *_OPTIONAL) if name in found})


def _path() -> Path:
    try:
        spec = importlib.util.find_spec(_PACKAGE)  # of a package at the top: nothing of it runs
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    if spec is None:
        raise JudgeError(f"wording 'prometheus': the package {DISTRIBUTION} is not installed here. {_REMEDY}")
    raise JudgeError(f"wording 'prometheus': the installed {_PACKAGE} has no file {_FILE}. {_REMEDY}")


def _texts(path: Path) -> dict[str, str]:
    """Return the texts that a file of Python assigns to names at its top; the last one counts."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"{path.stat().st_size:,} bytes")
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise JudgeError(f"{path}: cannot be read as Python ({error}). {_REMEDY}") from error
    texts: dict[str, str] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = _constant(getattr(node, "value", None)) if targets else None
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                texts[target.id] = value
    return texts


def _constant(node: ast.expr | None) -> str | None:
    """Return the text that an expression is: a literal, literals added up, or `.strip()` of one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _constant(node.left), _constant(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        inner = _constant(node.func.value)
        return inner.strip() if inner is not None and node.func.attr == "strip" else None
    return None
