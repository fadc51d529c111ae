"""What holds for the package as a whole: imports, names of numpy 2, documentation, the bench."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lm_eval_healthcare
from lm_eval_healthcare import metrics
from support import child_environment

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(lm_eval_healthcare.__file__).parent


def test_import_and_names_load_nothing_heavy() -> None:
    code = (
        "import sys; from lm_eval_healthcare import metrics; metrics.resolve('all'); "
        "[metrics.signature(name) for name in metrics.AVAILABLE]; "
        "print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=child_environment()
    )
    loaded = set(re.findall(r"'(\w+)'", done.stdout))
    assert "lm_eval_healthcare" in loaded
    heavy = {"torch", "transformers", "datasets", "evaluate", "lm_eval", "pandas", "scipy", "sacrebleu", "nltk"}
    assert not heavy & loaded


def test_no_numpy_names_that_numpy_2_removed() -> None:
    """Case b70: np.NAN and np.float raise only in the branch that needs them, late in a long run."""
    removed = re.compile(
        r"\bnp\.(NAN|NaN|Inf|infty|PINF|NINF|float|float_|int|bool|object|str|product|cumproduct)\b(?!_)"
    )
    assert removed.search("x = np.NAN")
    assert removed.search("np.float(3)")
    assert not removed.search("np.nan, np.float64, np.bool_, np.int64")
    files = [path for folder in (PACKAGE, ROOT / "scripts", ROOT / "bench") for path in sorted(folder.rglob("*.py"))]
    assert PACKAGE / "metrics" / "suite.py" in files
    found = [
        f"{file.name}: {line}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if removed.search(line)
    ]
    assert found == []


def test_the_documentation_names_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    for name, metric in metrics.AVAILABLE.items():
        assert f"`{name}`" in page
        assert metric.description.endswith(".")


@pytest.mark.long
def test_the_bench_runs_and_finds_equal_numbers() -> None:
    command = [sys.executable, str(ROOT / "bench" / "ngram.py"), "--pairs", "3", "--repeats", "1"]
    offline = child_environment(HF_EVALUATE_OFFLINE="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=offline)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal numbers: yes") == 2
