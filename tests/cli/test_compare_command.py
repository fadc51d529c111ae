"""`compare`: two runs, two languages, exam years, from sample files through the command line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.results.samples_file import HIDDEN_ROW
from lm_eval_healthcare.scoring.saved_facts import KnownTasks
from support import SHARED, child_environment, write_jsonl

STAMP = "2026-03-01T10-00-00.000000"
SECRET = "Patient Zebulon, aged 47"


def write(
    folder: Path, task: str, columns: dict[str, list[float]], docs: list[dict[str, Any]], model: str = "org/a"
) -> Path:
    """A run of one task as the harness writes it."""
    rows = [
        {"doc_id": n, "doc": doc, "target": SECRET, "arguments": {"gen_args_0": {"arg_0": SECRET, "arg_1": " A"}},
         "resps": [[["-1.0", "True"]]], "filtered_resps": [["-1.0", "True"]], "filter": "none",
         "metrics": list(columns), "doc_hash": f"{sorted(doc.items())}", "prompt_hash": "p", "target_hash": "t",
         **{name: values[n] for name, values in columns.items()}}
        for n, doc in enumerate(docs)
    ]  # fmt: skip
    place = folder / model.replace("/", "__")
    write_jsonl(place / f"samples_{task}_{STAMP}.jsonl", rows)
    file = place / f"results_{STAMP}.json"
    content = json.loads(file.read_text()) if file.exists() else {"results": {}, "model_name": model}
    content["results"][task] = {"alias": task}
    content.setdefault("higher_is_better", {})[task] = {name: name != "ppl" for name in columns}
    file.write_text(json.dumps(content), encoding="utf-8")
    return folder


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *map(str, arguments), "--format", "json"]) == 0
    out = capsys.readouterr().out
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["compare", *map(str, arguments)]) == 2
    return capsys.readouterr().err


N = 60
RNG = np.random.default_rng(0)
ACC_A = (RNG.random(N) < 0.7).astype(float).tolist()
ACC_B = (RNG.random(N) < 0.4).astype(float).tolist()
F1_A, F1_B = RNG.random((2, N)).tolist()
DOCS = [{"question": f"{SECRET} {n}", "case": n // 3, "year": 2014 + n % 4, "category": "ab"[n % 2]} for n in range(N)]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    a = write(tmp_path / "a", "medqa", {"acc": ACC_A, "f1": F1_A, "acc_coverage": [1.0] * N}, DOCS)
    b = write(tmp_path / "b", "medqa", {"acc": ACC_B, "f1": [*F1_B[:-1], math.nan]}, DOCS, "org/b")
    return a, b


def test_two_models_on_one_task(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *runs, "--task", "medqa")
    assert (found["a"]["model"], found["b"]["model"], found["paired_by"]) == ("org/a", "org/b", "doc_hash")
    assert (found["n_common"], found["n_only_a"], found["n_only_b"]) == (N, 0, 0)
    acc, f1 = found["metrics"]
    only_a = sum(x > y for x, y in zip(ACC_A, ACC_B, strict=True))
    only_b = sum(x < y for x, y in zip(ACC_A, ACC_B, strict=True))
    exact = stats.binomtest(only_a, only_a + only_b).pvalue
    assert (acc["metric"], acc["n"], acc["only_a"], acc["only_b"]) == ("acc", N, only_a, only_b)
    assert acc["p"] == acc["p_mcnemar"] == pytest.approx(exact)
    assert acc["difference"] == pytest.approx((only_a - only_b) / N)
    assert acc["low"] < acc["difference"] < acc["high"]
    wilson = stats.binomtest(int(sum(ACC_A)), N).proportion_ci(method="wilson")
    assert (acc["low_a"], acc["high_a"]) == pytest.approx((wilson.low, wilson.high))
    t = stats.ttest_rel(F1_A[:-1], F1_B[:-1])
    assert (f1["n"], f1["unscored_a"], f1["unscored_b"], f1["test"]) == (N - 1, 0, 1, "paired_t")
    assert (f1["p"], f1["difference"]) == pytest.approx((t.pvalue, np.mean(F1_A[:-1]) - np.mean(F1_B[:-1])))
    assert f1["p_wilcoxon"] == pytest.approx(stats.wilcoxon(F1_A[:-1], F1_B[:-1]).pvalue)
    # Holm with two: the smaller one twice, the larger one at least that.
    small, large = sorted([acc["p"], f1["p"]])
    assert sorted([acc["p_holm"], f1["p_holm"]]) == pytest.approx([2 * small, max(2 * small, large)])
    assert acc["better"] == ("A" if acc["p_holm"] < 0.05 else None)
    swapped = as_json(capsys, *reversed(runs), "--task", "medqa")["metrics"][0]
    assert swapped["difference"] == pytest.approx(-acc["difference"])
    assert swapped["p"] == pytest.approx(acc["p"])


def test_documents_that_share_a_source(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    acc, _ = as_json(capsys, *runs, "--cluster", "case")["metrics"]
    d = np.array(ACC_A) - np.array(ACC_B)
    sums = (d - d.mean()).reshape(-1, 3).sum(axis=1)  # 20 cases of three questions
    stderr = math.sqrt(20 / 19 * (sums**2).sum()) / N
    assert (acc["clusters"], acc["test"], acc["stderr"]) == (20, "cluster_t", pytest.approx(stderr))
    assert acc["p"] == pytest.approx(2 * stats.t.sf(abs(d.mean() / stderr), 19))


def test_seed_metric_and_filter(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    first = as_json(capsys, *runs, "--metric", "f*", "--seed", 1)
    assert [one["metric"] for one in first["metrics"]] == ["f1"]
    assert first == as_json(capsys, *runs, "--metric", "f*", "--seed", 1)
    assert first["metrics"] != as_json(capsys, *runs, "--metric", "f*", "--seed", 2)["metrics"]
    assert "the filters of medqa are: none" in refused(capsys, *runs, "--filter", "strict")
    assert "there: acc, f1, acc_coverage" in refused(capsys, *runs, "--metric", "bleu")


def test_language_gap_by_unique_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Spanish file is in another order and lacks the last question."""
    english = [{"unique_id": f"u{n}", "question": f"{SECRET} {n}"} for n in range(N)]
    spanish = [{"unique_id": f"u{n}", "question": f"Paciente {n}"} for n in reversed(range(N - 1))]
    place = write(tmp_path, "careqa_en", {"acc": ACC_A}, english)
    write(tmp_path, "careqa_es", {"acc": ACC_B[: N - 1][::-1]}, spanish)
    arguments = ("--task", "careqa_en", "--against-task", "careqa_es")
    found = as_json(capsys, place, place, *arguments, "--pair-by", "unique_id")
    (gap,) = found["metrics"]
    assert (found["n_common"], found["n_only_a"], found["n_only_b"]) == (N - 1, 1, 0)
    assert (found["a"]["task"], found["b"]["task"], found["paired_by"]) == ("careqa_en", "careqa_es", "unique_id")
    pairs = list(zip(ACC_A[:-1], ACC_B[:-1], strict=True))
    assert (gap["mean_a"], gap["mean_b"]) == pytest.approx((sum(ACC_A[:-1]) / 59, sum(ACC_B[:-1]) / 59))
    assert (gap["only_a"], gap["only_b"]) == (pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0)))
    assert as_json(capsys, place, *arguments, "--pair-by", "unique_id") == found  # B is A unless it is given
    told = refused(capsys, place, *arguments)
    assert "have no document in common" in told
    assert "--pair-by unique_id pairs by it" in told


def test_accuracy_by_exam_year(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """One run needs no other one; 15 questions of each year, 2014 to 2017."""
    found = as_json(capsys, runs[0], "--by", "year")["by"]
    acc = found["metrics"][0]
    assert (found["column"], acc["metric"]) == ("year", "acc")
    for place, group in enumerate(acc["groups"]):
        part = ACC_A[place::4]
        wilson = stats.binomtest(int(sum(part)), 15).proportion_ci(method="wilson")
        assert (group["value"], group["n"], group["a"]["mean"]) == (str(2014 + place), 15, sum(part) / 15)
        assert (group["a"]["low"], group["a"]["high"]) == pytest.approx((wilson.low, wilson.high))
    # Cochran-Armitage's z is the root of n times the correlation of year and right answer.
    z = math.sqrt(N) * np.corrcoef([doc["year"] for doc in DOCS], ACC_A)[0, 1]
    assert acc["trends"]["a"]["statistic"] == pytest.approx(z)
    assert acc["trends"]["a"]["p"] == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))
    assert "a hint of contamination" in found["note"]
    assert "not a proof" in found["note"]


def test_both_runs_by_a_column(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    by = as_json(capsys, *runs, "--by", "category")["by"]
    f1 = by["metrics"][1]
    assert [(group["value"], group["n"]) for group in f1["groups"]] == [("a", 30), ("b", 29)]  # one has no score in B
    assert f1["groups"][1]["a"]["mean"] == pytest.approx(np.mean(F1_A[1:-1:2]))
    assert f1["trends"]["b"]["reason"] == "column_is_not_numeric"
    assert "note" not in by


def test_what_people_are_shown_holds_no_text(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for style in ("table", "markdown"):
        assert main(["compare", *map(str, runs), "--by", "year", "--cluster", "case", "--format", style]) == 0
        out = capsys.readouterr().out
        assert "paired by doc_hash: 60 documents in both, 0 only in A, 0 only in B" in out
        assert "a hint of contamination" in out
        assert "only A has" not in out  # `acc_coverage` only checks the scoring
        assert SECRET not in out
        assert "nan" not in out
    assert "| metric | n | unscored B | A | B | A - B | 95% interval |" in out
    told = refused(capsys, *runs, "--by", "question")
    assert "--by question: 60 values, which are no groups" in told
    assert SECRET not in told


def test_credentialed_texts_are_no_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`keep_text=yes` left the texts in the log of this task of the pack; they are still not shown."""
    docs = [{"text": SECRET if n % 2 else "x", "year": 2001 + n % 2} for n in range(8)]
    place = write(tmp_path / "kept", "mimic_repsum", {"acc": [1.0, 0.0] * 4}, docs)
    hidden = [{HIDDEN_ROW: n, "text": "hidden"} for n in range(8)]
    other = write(tmp_path / "hidden", "mimic_repsum", {"acc": [1.0, 0.0] * 4}, hidden, "org/b")
    facts = KnownTasks([tasks_path()]).facts("mimic_repsum", {})
    assert facts is not None
    assert facts.credentialed
    told = refused(capsys, place, "--by", "text")
    assert "texts of credentialed data, which are not shown" in told
    assert SECRET not in told
    assert [one["n"] for one in as_json(capsys, place, "--by", "year")["by"]["metrics"][0]["groups"]] == [4, 4]
    assert "keep_text=yes" in refused(capsys, other, "--by", "year")


def test_undefined_numbers_are_null_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write(tmp_path / name, "medqa", {"f1": F1_A}, DOCS, name) for name in "ab"]
    (found,) = as_json(capsys, *runs)["metrics"]
    assert (found["difference"], found["reason"]) == (0.0, "no_document_differs")
    assert {found[key] for key in ("low", "high", "p", "p_holm", "effect", "detectable")} == {None}


def test_what_cannot_be_compared_is_said(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give a second run B" in refused(capsys, runs[0])
    assert "A and B are the same file" in refused(capsys, runs[0], runs[0])
    assert "no samples of careqa_en; there are medqa" in refused(capsys, *runs, "--task", "careqa_en")
    assert "no such file or folder" in refused(capsys, runs[0], tmp_path / "c")
    other = write(tmp_path / "d", "olaph", {"acc": ACC_A}, DOCS)
    assert "different tasks, medqa and olaph" in refused(capsys, runs[0], other)
    file = next(runs[1].rglob("samples_*"))
    file.write_text("x\n" + file.read_text())
    assert "line 1: not a row of JSON" in refused(capsys, *runs)
    for wrong in (["--seed", "-1"], ["--resamples", "10"], ["--seed", "x"]):
        with pytest.raises(SystemExit):
            main(["compare", *map(str, runs), *wrong])


def test_help_is_light() -> None:
    code = (
        "from lm_eval_healthcare.cli.main import main\ntry: main(['compare', '--help'])\nexcept SystemExit: pass\n"
        "import sys; print([m for m in ('torch', 'lm_eval', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=child_environment(), check=True, timeout=60
    )
    assert "--against-task" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the shared cases are not here")
def test_recorded_run_with_wrong_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    case = SHARED / "cases" / "files" / "b21-unsorted-samples-docids"
    found = as_json(capsys, case / "out", case / "out_samples", "--task", "hc_open")
    assert (found["n_common"], found["n_only_a"], found["n_only_b"]) == (3, 3, 0)
    assert any("doc_id stand for different documents" in note for note in found["notes"])
