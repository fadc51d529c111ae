"""The design's arrows: imports run downwards on six floors, and what is heavy is loaded only when it is used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT, child_environment

PACKAGE = ROOT / "lm_eval_healthcare"
FLOORS = {
    "cli": 6,
    "harness": 5,
    "studies": 4,
    "scoring": 3, "judge": 3, "report": 3,
    "results": 2,
    "metrics": 1, "relaxed_perplexity": 1, "data": 1, "analysis": 1,
    "sample": 0,
}  # fmt: skip
HEAVY = {"torch", "transformers", "vllm", "matplotlib", "datasets", "accelerate"}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether it does so at the top of the file, type checking aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checking = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield module, id(node) not in inside
            yield from ((f"{module}.{alias.name}", id(node) not in inside) for alias in node.names)


FILES = sorted(PACKAGE.rglob("*.py"))


def folder_of(path: Path) -> str | None:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_arrows_run_downwards(path: Path) -> None:
    folder = folder_of(path)
    if folder is None:
        return
    assert folder in FLOORS, f"{folder} has no floor in the design"
    for module, _ in imports(path):
        match = re.match(r"lm_eval_healthcare\.(\w+)", module)
        target = match[1] if match else None
        if target not in FLOORS or target == folder:
            continue
        assert FLOORS[target] < FLOORS[folder], f"{path} imports {module}: not downwards"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_harness_knows_the_harness(path: Path) -> None:
    names = {module for module, _ in imports(path) if module.split(".")[0] == "lm_eval"}
    assert folder_of(path) == "harness" or not names, f"{path} imports {names}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_heavy_modules_are_imported_inside_functions(path: Path) -> None:
    folder = folder_of(path)
    for module, at_top in imports(path):
        name = module.split(".")[0]
        if folder in ("results", "analysis"):
            assert name != "torch", f"{path} imports torch"
        # The harness imports `datasets` itself, so its folder may.
        if at_top and not (folder == "harness" and name == "datasets"):
            assert name not in HEAVY, f"{path} imports {module} at the top"


@pytest.mark.parametrize(
    "code",
    [
        "import lm_eval_healthcare; lm_eval_healthcare.tasks_path()",
        "from lm_eval_healthcare.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from lm_eval_healthcare.cli.main import main\ntry: main(['check', '--help'])\nexcept SystemExit: pass",
        "from lm_eval_healthcare.cli.main import main; main(['list', '--format', 'json'])",
        "from lm_eval_healthcare.cli.main import main; main(['path'])",
    ],
)
def test_light_commands_load_nothing_heavy(code: str) -> None:
    code += "\nimport sys, json; print('\\n' + json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=child_environment(), check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout.strip().split("\n")[-1]))
    assert not loaded & (HEAVY | {"lm_eval", "pandas", "scipy", "evaluate"})
