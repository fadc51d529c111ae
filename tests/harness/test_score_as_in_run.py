"""Scores of logged samples are those that the run itself computed, to the last bit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.cli.main import main
from scripted import ScriptedModel
from support import samples_of

pytest.importorskip("torch")
pytest.importorskip("transformers")
from tiny_encoders import tiny_bert

TASKS = ["careqa_open", "mediqa_qa2019", "mts_dialog", "olaph"]
TEXTS = [
    "The patient has fever.", "", "None", "<think>is it so?</think>Yes, take one tablet daily.", "['a', 'list']",
    "<think>endless", "pain\u2028in the chest", "cough " * 200, "\u00a0", "Sí, con dos días de fiebre",
]  # fmt: skip


def run(folder: Path, **metadata: Any) -> Any:
    """Run tasks with a model that gives odd answers, and save results and samples as the harness does."""
    manager = task_manager(metadata={"data": "sample", "answers": "off", **metadata}, include_defaults=False)
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.log_experiment_args("scripted", {"pretrained": "org/scripted"}, None, None, False)
    results = simple_evaluate(ScriptedModel(TEXTS), tasks=TASKS, task_manager=manager, log_samples=True)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task, rows)
    return results


def close(one: Any, other: Any) -> bool:
    """Whether two contents are the same, numbers to 1e-6 (batches of the encoder differ) and NaN with NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("where", ["metadata", "environment"])
def test_same_numbers_as_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    options = {"bert_score_model": str(tiny_bert(tmp_path / "m")), "bert_score_layer": "2", "metrics_long": "windows"}
    with monkeypatch.context() as environment:
        for name, value in options.items() if where == "environment" else ():
            environment.setenv(f"LM_EVAL_HEALTHCARE_{name.upper()}", value)
        run(tmp_path / "run", metrics="ngram+bert_score", **(options if where == "metadata" else {}))
    monkeypatch.delenv("LM_EVAL_HEALTHCARE_METRICS", raising=False)  # would be what is asked for
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_BERT_SCORE_LAYER", "1")  # the run's options win
    assert main(["score", str(tmp_path / "run"), "-o", str(tmp_path / "again")]) == 0
    first, second = (
        json.loads(next((tmp_path / name).glob("**/results_*.json")).read_text("utf-8")) for name in ("run", "again")
    )
    for task in TASKS:
        rows = samples_of(tmp_path / "run", task)
        assert [list(row) for row in rows] == [list(row) for row in samples_of(tmp_path / "again", task)]
        assert close(rows, samples_of(tmp_path / "again", task))
        assert close(first["results"][task], second["results"][task])
        configs = [dict(content["configs"][task]) for content in (first, second)]
        sections = [config.pop("metadata")["healthcare"] for config in configs]
        assert close(*sections)
        assert configs[0] == configs[1]
    for key in ("versions", "n-shot", "n-samples", "higher_is_better", "task_hashes", "model_name"):
        assert first[key] == second[key]
    assert set(second) <= set(first)
