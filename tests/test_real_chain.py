"""From real runs of a real model to findings: several models' results, correlations, a comparison, the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.long]

TASKS = "careqa_en,medqa_4options,careqa_open,medtext"
MODELS = {  # one real model under different precisions, temperatures and wordings counts as several
    "plain": ("float32", [], []),
    "half": ("bfloat16", [], []),
    "warm": ("float32", ["--gen_kwargs", "temperature=1.0,do_sample=True,max_gen_toks=24"], []),
    "worded": ("float32", [], ["prompt=pack"]),
}


@pytest.fixture(scope="module")
def results(demo_model: Path, cli: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    for name, (dtype, arguments, metadata) in MODELS.items():
        model = folder / "models" / name
        model.parent.mkdir(exist_ok=True)
        model.symlink_to(demo_model, target_is_directory=True)
        generation = arguments or ["--gen_kwargs", "max_gen_toks=24"]
        done = cli(
            "run", "--model", "hf", "--model_args", f"pretrained={model},dtype={dtype}", "--tasks", TASKS,
            "--limit", "6", "--apply_chat_template", "--output_path", str(folder / "results"), "--log_samples",
            *generation, "--metadata", "data=sample", "metrics=ngram", *metadata,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    return folder / "results"


def test_one_table(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(results), "--allow-partial", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    models = {cell["model"].rsplit("/", 1)[-1] for cell in content["cells"]}
    assert models == set(MODELS)
    assert {cell["task"] for cell in content["cells"]} == set(TASKS.split(","))
    assert not content["skipped"] or all("answers" in one["file"] for one in content["skipped"])


def test_correlations_and_report(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["correlate", str(results), "-o", str(out), "--allow-partial", "--claims", "--clusters"]) == 0
    assert "cannot tell" in capsys.readouterr().out
    found = json.loads((out / "correlations.json").read_text(encoding="utf-8"))
    assert any(one["r"] is not None and one["n"] == len(MODELS) for one in found)
    assert all(one["reason"] for one in found if one["r"] is None)
    page = tmp_path / "report.html"
    assert main(["report", str(results), "-o", str(page), "--allow-partial"]) == 0
    text = page.read_text(encoding="utf-8")
    assert all(f"{name}" in text for name in MODELS)
    assert "careqa_open" in text


def test_two_of_them_compared(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {path.parent.name.rsplit("__", 1)[-1]: path.parent for path in results.glob("*/results_*.json")}
    arguments = [str(runs["plain"]), str(runs["half"]), "--task", "careqa_en", "--format", "json"]
    assert main(["compare", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)
