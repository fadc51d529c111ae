"""`export` from result files on disk to files of each format, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval_healthcare.cli.main import main
from support import write_jsonl

NINE = [
    "medmcqa", "medqa_4options", "mmlu_anatomy", "mmlu_clinical_knowledge", "mmlu_college_biology",
    "mmlu_college_medicine", "mmlu_medical_genetics", "mmlu_professional_medicine", "pubmedqa",
]  # fmt: skip
TEXT = "Mrs Doe was admitted with chest pain"


def write_run(folder: Path, model: str, scores: dict[str, dict[str, float]], **changes: Any) -> Path:
    """Write a results file as the harness 0.4.13 does, and samples with a patient's text beside it."""
    n, total, shots = (changes.get(key, value) for key, value in (("n", 100), ("total", 100), ("shots", 0)))
    results = {
        task: {
            "alias": task, "sample_len": n,
            **{f"{metric},none": value for metric, value in found.items()},
            **{f"{metric}_stderr,none": 0.0125 for metric in found},
        }
        for task, found in scores.items()
    }  # fmt: skip
    content = {
        "results": results,
        "group_subtasks": {task: [] for task in scores},
        "configs": {
            task: {"task": task, "doc_to_text": f"def ask(doc): return '{TEXT}'", "metadata": changes.get("metadata")}
            for task in scores
        },
        "versions": dict.fromkeys(scores, 1.0),
        "n-shot": dict.fromkeys(scores, shots),
        "higher_is_better": {task: dict.fromkeys(found, True) for task, found in scores.items()},
        "n-samples": {task: {"original": total, "effective": n} for task in scores},
        "config": {"model": "hf", "model_args": {"pretrained": model, "dtype": "bfloat16"}, "gen_kwargs": {}},
        "date": 1772359200.5, "lm_eval_version": "0.4.13", "model_name": model, "chat_template": None,
    }  # fmt: skip
    stamp = "2026-03-01T10-00-00.000000"
    folder.mkdir(parents=True)
    (folder / f"results_{stamp}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    for task in scores:
        write_jsonl(folder / f"samples_{task}_{stamp}.jsonl", [{"doc_id": 0, "doc": {"text": TEXT}, "target": TEXT}])
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two models on the nine tasks, one more task, and one of credentialed data."""
    for name, base in (("good", 0.5739130434782609), ("better", 0.6)):
        scores = {task: {"acc": base + n / 100} for n, task in enumerate(NINE)}
        more = {"medtext": {"rougeL": base / 3}, "mimic_repsum": {"rougeL": base / 4}}
        write_run(tmp_path / "runs" / name, f"org/{name}", {**scores, **more})
    return tmp_path / "runs"


def export(*arguments: object) -> int:
    return main(["export", *map(str, arguments), "--cache", "off"])


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["hf-eval-results", "open-medical-llm", "every-eval-ever", "latex", "markdown"])
def test_every_format_is_written_without_any_text_and_never_over_another(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / "out"
    assert export(runs, "--to", name, "-o", out) == 0
    written = files(out)
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(path.relative_to(out).as_posix() for path in printed) == sorted(written)
    assert "Doe" not in "".join([*written, *written.values()])
    assert export(runs, "--to", name, "-o", out) == 2
    assert "--force" in capsys.readouterr().err
    assert files(out) == written
    assert export(runs, "--to", name, "-o", out, "--force") == 0
    assert set(files(out)) == set(written)


def test_values_arrive_unrounded(runs: Path, tmp_path: Path) -> None:
    assert export(runs, "--to", "hf-eval-results", "-o", tmp_path / "hub") == 0
    hub = files(tmp_path / "hub")
    assert len(hub) == 18  # nine tasks with accuracies of two models
    (entry,) = yaml.safe_load(hub["org__good/.eval_results/medmcqa.yaml"])
    assert entry["value"] == 0.5739130434782609
    assert export(runs, "--to", "open-medical-llm", "-o", tmp_path / "board") == 0
    board = files(tmp_path / "board")
    content = json.loads(board["org__good/results_2026-03-01T10-00-00.000000.json"])
    assert list(content["results"]) == NINE
    assert content["results"]["medmcqa"]["acc,none"] == 0.5739130434782609
    assert content["config"] == {"model_dtype": "bfloat16", "model_name": "org/good", "model_sha": ""}
    assert export(runs, "--to", "every-eval-ever", "-o", tmp_path / "records") == 0
    records = [json.loads(text) for path, text in files(tmp_path / "records").items() if "/good/" in path]
    (record,) = records
    scores = {one["evaluation_name"]: one["score_details"]["score"] for one in record["evaluation_results"]}
    assert scores["medmcqa"] == 0.5739130434782609
    assert set(scores) == {*NINE, "medtext", "mimic_repsum"}


def test_a_table_in_percent_of_some_tasks_into_a_named_file(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "paper" / "scores.md"
    arguments = ("--where", "task=medmcqa", "metric=acc", "--percent", "--stderr")
    assert export(runs, "--to", "markdown", "-o", out, *arguments) == 0
    assert out.read_text(encoding="utf-8").splitlines()[:4] == [
        "| Model | medmcqa/acc ↑ |",
        "| --- | ---: |",
        "| org/better | **60.0** ± 1.2 |",  # 1.25 has an exact binary form and is rounded to even
        "| org/good | <ins>57.4</ins> ± 1.2 |",
    ]


def test_a_partial_run_is_left_out_by_name_unless_allowed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "part", "org/part", {"medmcqa": {"acc": 0.99}}, n=20)
    where = ("--where", "task=medmcqa")
    assert export(runs, "--to", "markdown", "-o", tmp_path / "a.md", *where) == 0
    assert "left out: org/part medmcqa acc: only 20 of 100 documents (--allow-partial)" in capsys.readouterr().err
    assert "org/part" not in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert export(runs, "--to", "markdown", "-o", tmp_path / "b.md", *where, "--all-or-nothing") == 2
    assert not (tmp_path / "b.md").exists()
    assert export(runs / "part", "--to", "hf-eval-results", "-o", tmp_path / "hub") == 2
    assert "org/part medmcqa" in capsys.readouterr().err
    assert not (tmp_path / "hub").exists()
    assert export(runs, "--to", "markdown", "-o", tmp_path / "b.md", *where, "--allow-partial") == 0
    text = (tmp_path / "b.md").read_text(encoding="utf-8")
    assert "| org/part | **0.990** † |" in text
    assert "20 of 100" in text


def test_sample_questions_are_shown_but_not_handed_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = {"healthcare": {"data": {"source": "sample"}}}
    runs = write_run(tmp_path / "runs" / "a", "org/a", {task: {"acc": 0.5} for task in NINE}, metadata=sample).parent
    for name in ("hf-eval-results", "open-medical-llm", "every-eval-ever"):
        assert export(runs, "--to", name, "-o", tmp_path / "out") == 2
        assert "sample questions" in capsys.readouterr().err
    assert export(runs, "--to", "markdown", "-o", tmp_path / "t.md") == 0
    assert "†" in (tmp_path / "t.md").read_text(encoding="utf-8")
    assert export(runs, "--to", "open-medical-llm", "-o", tmp_path / "out", "--allow-sample-data") == 0
    assert len(files(tmp_path / "out")) == 1


def test_models_that_the_leaderboard_cannot_take_are_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "few", "org/few", {task: {"acc": 0.5} for task in NINE[:8]})
    write_run(runs / "shots", "org/shots", {task: {"acc": 0.5} for task in NINE}, shots=5)
    assert export(runs, "--to", "open-medical-llm", "-o", tmp_path / "board") == 0
    assert sorted({path.partition("/")[0] for path in files(tmp_path / "board")}) == ["org__better", "org__good"]
    told = capsys.readouterr().err
    assert "org/few: no usable acc of pubmedqa" in told
    assert "org/shots: few-shot" in told
    arguments = ("--where", "model=org/shots", "--allow-mixed-protocols")
    assert export(runs, "--to", "open-medical-llm", "-o", tmp_path / "shots", *arguments) == 0


def test_values_of_different_protocols_do_not_stand_side_by_side(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(runs / "shots", "org/shots", {"medmcqa": {"acc": 0.7}}, shots=5)
    assert export(runs, "--to", "latex", "-o", tmp_path / "t.tex") == 2
    told = capsys.readouterr().err
    assert "medmcqa/acc: n_shot 0 (org/better, org/good), 5 (org/shots)" in told
    assert not (tmp_path / "t.tex").exists()
    assert export(runs, "--to", "latex", "-o", tmp_path / "t.tex", "--allow-mixed-protocols") == 0
    assert r"$^{\dagger}$" in (tmp_path / "t.tex").read_text(encoding="utf-8")


def test_a_hostile_model_name_stays_in_its_folder(tmp_path: Path) -> None:
    hostile = "../../../escaped/\u202e<b>|`x`"
    write_run(tmp_path / "runs" / "x", hostile, {"medmcqa": {"acc": 0.5}})
    before = {path.name for path in tmp_path.iterdir()}
    for name in ("hf-eval-results", "every-eval-ever", "latex", "markdown"):
        assert export(tmp_path / "runs", "--to", name, "-o", tmp_path / "out" / name) == 0
    assert {path.name for path in tmp_path.iterdir()} == before | {"out"}
    assert len(files(tmp_path / "out")) == 4
    renamed = ("--rename", f"{hostile}=org/x")
    assert export(tmp_path / "runs", "--to", "markdown", "-o", tmp_path / "out" / "t.md", *renamed) == 0
    assert "| org/x | 0.500 |" in (tmp_path / "out" / "t.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "latex", "--where", "task=nothing*"), "fits --where"),
        (("--to", "latex", "--where", "year=2020"), "expected model=PATTERN"),
        (("--to", "open-medical-llm", "--percent"), "own unit"),
        (("--to", "markdown", "--rename", "org/none=x"), "no such model"),
        (("--to", "markdown", "--rename", "x"), "NAME=OTHER"),
        (("--to", "hf-eval-results", "--source-name", "x"), "--source-url"),
        (("--to", "hf-eval-results", "--where", "task=mimic*", "metric=rougeL"), "nothing is left"),
    ],
)
def test_errors_say_what_to_do(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert export(runs, "-o", tmp_path / "out", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
