"""`correlate` and `scripts/correlations.py`: files in, coefficients, matrices and pictures out."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare.cli.main import main
from support import ROOT, child_environment

ACC = [0.41, 0.47, 0.52, 0.58, 0.63, 0.71]
OTHER = [0.38, 0.46, 0.44, 0.55, 0.57, 0.66]
PERPLEXITY = [21.0, 17.5, 16.0, 14.2, 12.9, 10.1]


def write(folder: Path, values: dict[str, list[Any]], n: int = 100) -> Path:
    """One results file a model; a value of None is left out."""
    for place in range(max(map(len, values.values()))):
        model = f"org/model-{place}"
        results: dict[str, dict[str, Any]] = {}
        for name, column in values.items():
            task, metric = name.split("/")
            if column[place] is not None:
                results.setdefault(task, {"alias": task}).update(
                    {f"{metric},none": column[place], f"{metric}_stderr,none": 0.01}
                )
        content = {
            "results": results,
            "configs": {task: {"task": task} for task in results},
            "versions": dict.fromkeys(results, 1.0),
            "n-shot": dict.fromkeys(results, 0),
            "higher_is_better": {
                task: {
                    key.partition(",")[0]: "perplexity" not in key for key in row if "," in key and "_stderr" not in key
                }
                for task, row in results.items()
            },
            "n-samples": {task: {"original": n, "effective": n} for task in results},
            "config": {"model": "hf", "model_args": f"pretrained={model}"},
            "model_name": model,
            "date": 1772359200.0 + place,
        }
        path = folder / f"org__model-{place}" / f"results_2026-03-01T10-00-0{place}.000000.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def correlate(folder: Path, out: Path, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    assert main(["correlate", str(folder), "-o", str(out), "--bootstrap", "200", *options]) == 0
    found = json.loads((out / "correlations.json").read_text(encoding="utf-8"))
    return {(one["x"], one["y"]): one for one in found}


@pytest.mark.parametrize(
    ("method", "function"), [("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)]
)
def test_coefficients_are_scipys(tmp_path: Path, method: str, function: Any) -> None:
    columns = {"careqa_en/acc": ACC, "medqa_4options/acc": OTHER, "medtext_perplexity/word_perplexity": PERPLEXITY}
    write(tmp_path / "runs", columns)
    found = correlate(tmp_path / "runs", tmp_path / "out", "--method", method, "--no-figures")
    assert len(found) == 3
    for (x, y), one in found.items():
        assert one["r"] == pytest.approx(function(columns[x], columns[y]).statistic), (x, y)
        assert (one["n"], one["method"], one["reason"]) == (6, method, None)
    with (tmp_path / "out" / f"all_{method}_r.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0][1:] == [row[0] for row in rows[1:]] == sorted(columns)
    assert float(rows[1][2]) == pytest.approx(found["careqa_en/acc", "medqa_4options/acc"]["r"])


def test_directions_and_logarithms_are_options(tmp_path: Path) -> None:
    write(tmp_path / "runs", {"careqa_en/acc": ACC, "medtext_perplexity/word_perplexity": PERPLEXITY})
    pair = "careqa_en/acc", "medtext_perplexity/word_perplexity"
    plain = correlate(tmp_path / "runs", tmp_path / "a", "--method", "pearson", "--no-figures")[pair]["r"]
    turned = correlate(tmp_path / "runs", tmp_path / "b", "--method", "pearson", "--no-figures", "--align")[pair]["r"]
    log = correlate(tmp_path / "runs", tmp_path / "c", "--method", "pearson", "--no-figures", "--log")[pair]["r"]
    assert plain == pytest.approx(np.corrcoef(ACC, PERPLEXITY)[0, 1])
    assert turned == pytest.approx(-plain)
    assert log == pytest.approx(np.corrcoef(ACC, np.log(PERPLEXITY))[0, 1])


def test_undefined_pairs_have_a_reason_and_hide_no_other(tmp_path: Path) -> None:
    """A constant column, a column with two models, and gaps that cost only their own pairs."""
    columns = {
        "a/acc": ACC, "b/acc": OTHER, "c/rougeL": [0.2] * 6, "d/rougeL": [0.1, None, None, 0.3, None, None],
        "e/prometheus": [2.9, None, 3.1, 3.4, math.nan, 4.0],
    }  # fmt: skip
    write(tmp_path / "runs", columns)
    found = correlate(tmp_path / "runs", tmp_path / "out", "--method", "spearman", "--no-figures")
    assert found["a/acc", "b/acc"]["r"] == pytest.approx(stats.spearmanr(ACC, OTHER).statistic)
    constant = found["a/acc", "c/rougeL"]
    assert (constant["r"], constant["p"], constant["reason"]) == (None, None, "constant")
    few = found["a/acc", "d/rougeL"]
    assert (few["r"], few["n"], few["reason"]) == (None, 2, "too_few_models")
    gaps = found["a/acc", "e/prometheus"]
    assert gaps["n"] == 4
    assert "few_models" in gaps["flags"]


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path / "runs", {"a/acc": ACC, "b/acc": OTHER, "c/rougeL": [0.2] * 6})
    correlate(tmp_path / "runs", tmp_path / "out")
    svg = (tmp_path / "out" / "all_spearman.svg").read_text(encoding="utf-8")
    assert svg.lstrip().startswith("<?xml")
    assert (tmp_path / "out" / "all_spearman.png").read_bytes().startswith(b"\x89PNG")


def test_the_papers_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {
        "careqa_en/acc": ACC, "medqa_4options/acc": OTHER, "medtext/rougeL": OTHER, "medtext/bleu": ACC,
        "careqa_open/bleu": OTHER, "medtext_perplexity/word_perplexity": PERPLEXITY,
    }  # fmt: skip
    write(tmp_path / "runs", columns)
    (tmp_path / "elo.csv").write_text(
        "model,elo\n" + "".join(f"org/model-{k},{1000 + 50 * k}\n" for k in range(6)), encoding="utf-8"
    )
    options = ["--figure", "1", "8", "9", "10", "11", "18", "17", "--join", str(tmp_path / "elo.csv"), "--no-figures"]
    found = correlate(tmp_path / "runs", tmp_path / "out", *options)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"figure_{name}_spearman_r.csv" for name in ("1", "8", "9", "10_medtext", "11_bleu")} <= names
    assert "figure 17: these results do not hold what it is about" in capsys.readouterr().err
    weighted = [(a + b) / 2 for a, b in zip(ACC, OTHER, strict=True)]  # both tasks have 100 documents
    one = found["mcqa_weighted/acc", "medtext/rougeL"]
    assert one["r"] == pytest.approx(stats.spearmanr(weighted, OTHER).statistic)
    with (tmp_path / "out" / "ranks.csv").open(encoding="utf-8", newline="") as stream:
        ranks = {row["model"]: row["rank"] for row in csv.DictReader(stream) if row["column"] == "careqa_en/acc"}
    assert [ranks[f"org/model-{k}"] for k in range(6)] == ["6.0", "5.0", "4.0", "3.0", "2.0", "1.0"]


def test_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two columns that follow each other, two that follow each other and not the first, and a constant one."""
    up, down = ACC, [0.5, 0.1, 0.6, 0.2, 0.4, 0.3]
    columns = {
        "a/acc": up, "b/acc": [value + 0.1 for value in up], "c/rougeL": down, "d/bleu": [1 - value for value in down],
        "e/bleu": [0.2] * 6,
    }  # fmt: skip
    write(tmp_path / "runs", columns)
    pytest.importorskip("matplotlib")
    correlate(tmp_path / "runs", tmp_path / "out", "--clusters")
    found = json.loads((tmp_path / "out" / "clusters.json").read_text(encoding="utf-8"))
    assert found["groups"] == [["a/acc", "b/acc"], ["c/rougeL", "d/bleu"]]
    assert [one["column"] for one in found["left_out"]] == ["e/bleu"]
    assert (tmp_path / "out" / "clusters_spearman.png").is_file()
    assert "2 clusters of 4 columns" in capsys.readouterr().out


def test_the_script(tmp_path: Path) -> None:
    """From a clone, in a process of its own, without PyTorch and the harness."""
    write(tmp_path / "runs", {"a/acc": ACC, "b/acc": OTHER})
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "correlations.py"), str(tmp_path / "runs"), "-o", str(tmp_path / "out"),
         "--method", "spearman", "--min-models", "3", "--allow-partial", "--no-figures"],
        env=child_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (one,) = json.loads((tmp_path / "out" / "correlations.json").read_text(encoding="utf-8"))
    assert one["r"] == pytest.approx(stats.spearmanr(ACC, OTHER).statistic)


def test_a_task_with_several_filters_needs_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two filters point in opposite directions, so that a silent choice would decide what comes out."""
    write(tmp_path / "runs", {"a/acc": ACC, "gsm/exact_match": OTHER})
    for place, path in enumerate(sorted((tmp_path / "runs").rglob("results_*.json"))):
        content = json.loads(path.read_text(encoding="utf-8"))
        content["results"]["gsm"] = {
            "alias": "gsm",
            "exact_match,strict-match": OTHER[place],
            "exact_match,k,all": -place,
        }
        path.write_text(json.dumps(content), encoding="utf-8")
    assert correlate(tmp_path / "runs", tmp_path / "none", "--no-figures") == {}
    assert "--filter 'gsm=k,all'" in capsys.readouterr().err
    one = correlate(tmp_path / "runs", tmp_path / "one", "--no-figures", "--filter", "gsm=k,all")
    assert one["a/acc", "gsm/exact_match[k,all]"]["r"] == pytest.approx(-1)


def test_the_diagonal_is_drawn(tmp_path: Path) -> None:
    """A matrix of 3 x 3 has 9 numbers (b59), one for each column with itself among them."""
    pytest.importorskip("matplotlib")
    write(tmp_path / "runs", {"a/acc": ACC, "b/acc": OTHER, "c/rougeL": PERPLEXITY})
    correlate(tmp_path / "runs", tmp_path / "out", "--method", "pearson")
    with (tmp_path / "out" / "all_pearson_n.csv").open(encoding="utf-8", newline="") as stream:
        assert [row[1:] for row in csv.reader(stream)][1:] == [["6"] * 3] * 3
    svg = (tmp_path / "out" / "all_pearson.svg").read_text(encoding="utf-8")
    assert svg.count(">6<") == 9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,elo\norg/model-0,1\norg/model-0,2\n", "more than once"),
        ("org/model-0,1000\norg/model-1,1100\n", "expected a heading"),
        ("model,elo\norg/model-0\n", "1 cells; the heading has 2"),
        ("model,elo\nnobody,3\n", "none of its models is here"),
        ("model,a/acc\norg/model-0,3\n", "two columns 'a/acc'"),
        ("model,licence\norg/model-0,MIT\n", "no column of numbers"),
    ],
)
def test_outside_columns_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    write(tmp_path / "runs", {"a/acc": ACC})
    (tmp_path / "elo.csv").write_text(content, encoding="utf-8")
    options = ["-o", str(tmp_path / "out"), "--no-figures", "--join", str(tmp_path / "elo.csv")]
    assert main(["correlate", str(tmp_path / "runs"), *options]) == 2
    assert message in capsys.readouterr().err


def test_text_columns_of_outside_tables_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs", {"a/acc": ACC})
    lines = [f"org/model-{k};{1000 + 10 * k};Org {k}" for k in range(6)]
    (tmp_path / "elo.csv").write_text("model;elo;org\n" + "\n".join(lines), encoding="utf-8")
    found = correlate(tmp_path / "runs", tmp_path / "out", "--no-figures", "--join", str(tmp_path / "elo.csv"))
    assert found["a/acc", "elo"]["r"] == pytest.approx(1)
    assert "column 'org' does not hold numbers alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--where", "task=nothing"], "nothing to correlate"),
        (["--filter", "a"], "expected TASK=NAME"),
        (["--where", "colour=red"], "expected model=PATTERN"),
        (["--join", "none.csv"], "cannot be read"),
        (["--filter", "a=strict"], "the filters of a are none"),
    ],
)
def test_what_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    write(tmp_path / "runs", {"a/acc": ACC})
    assert main(["correlate", str(tmp_path / "runs"), "-o", str(tmp_path / "out"), "--no-figures", *options]) == 2
    assert message in capsys.readouterr().err
