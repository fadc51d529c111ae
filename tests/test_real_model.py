"""The real thing: a small real model through the harness's transformers back end, on the packaged sample."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.scoring.answers import read_run
from side_by_side import both
from support import TESTS, child_environment, results_of, samples_of
from tiny_encoders import minilm, tiny_distilbert

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(demo_model: Path) -> Any:
    """The model, loaded once."""
    pytest.importorskip("torch")
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(demo_model), dtype="float32", device="cpu", batch_size=8)


def evaluate(model: Any, tasks: list[Any], **kwargs: Any) -> Any:
    from lm_eval import simple_evaluate

    return simple_evaluate(model=model, tasks=tasks, bootstrap_iters=100, **kwargs)


@pytest.mark.parametrize(
    "name", ["mmlu_anatomy", *(pytest.param(name, marks=pytest.mark.long) for name in ("medmcqa", "pubmedqa"))]
)
def test_accuracy_is_the_harness_own(model: Any, name: str) -> None:
    """The same rows through the harness's own task give the same log-likelihoods and the same accuracy."""
    ours, theirs = both(name, "sample", answers="off")
    mine, yours = evaluate(model, [ours]), evaluate(model, [theirs])
    assert mine["results"][name]["acc,none"] == yours["results"][name]["acc,none"]
    assert mine["results"][name]["acc_stderr,none"] == pytest.approx(yours["results"][name]["acc_stderr,none"])
    for a, b in zip(mine["samples"][name], yours["samples"][name], strict=True):
        assert a["resps"] == b["resps"]
        assert a["prompt_hash"] == b["prompt_hash"]


@pytest.mark.long
def test_choices_of_one_token_take_one_pass_a_question(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transformers back end shares a context's pass among its choices; the pack's requests leave it so."""
    passes, call = [], model._model_call

    def counted(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        passes.append(inputs.shape[0])
        return call(inputs, *args, **kwargs)

    monkeypatch.setattr(model, "_model_call", counted)
    ours, theirs = both("mmlu_anatomy", "sample", answers="off")
    rows = len(ours.eval_docs)
    for task in (ours, theirs):
        passes.clear()
        out = evaluate(model, [task], num_fewshot=2)
        assert sum(passes) == rows
        if task is ours:
            kinds = {request.request_type for request in task.instances}
            assert kinds == {"choice_loglikelihood"}
            mine = out
    assert [s["resps"] for s in mine["samples"]["mmlu_anatomy"]] == [s["resps"] for s in out["samples"]["mmlu_anatomy"]]


def test_the_main_job(demo_model: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    encoder = str(minilm())
    neural = ["bert_score_layer=6", f"bert_score_model={encoder}", f"mover_score_model={encoder}"]
    done = cli(
        "run", "--model", "hf", "--model_args", f"pretrained={demo_model},dtype=float32", "--device", "cpu",
        "--batch_size", "4", "--tasks", "careqa_open,medtext", "--limit", "4", "--gen_kwargs", "max_gen_toks=24",
        "--apply_chat_template", "--metadata", "data=sample", "metrics=ngram+bert_score+mover_score", *neural,
        "--output_path", str(tmp_path), "--log_samples", timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = results_of(tmp_path)
    for task in ("careqa_open", "medtext"):
        samples = samples_of(tmp_path, task)
        answers = [sample["filtered_resps"][0] for sample in samples]
        assert all(len(answer.split()) > 3 for answer in answers), "a real model writes sentences"
        assert results["results"][task]["rouge1,none"] == pytest.approx(statistics.fmean(s["rouge1"] for s in samples))
        assert results["results"][task]["rouge1,none"] > 0
        assert results["configs"][task]["generation_kwargs"]["until"] == []
        scores = [sample["bert_score"] for sample in samples]
        assert results["results"][task]["bert_score,none"] == pytest.approx(statistics.fmean(scores))
        assert all(0 < score < 1 for score in scores)
    assert "Traceback" not in done.stderr
    again = cli("score", str(tmp_path), "--metrics", "rouge1,bert_score,mover_score", "-o", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    rescored = results_of(tmp_path / "again")["results"]
    for task in ("careqa_open", "medtext"):
        for name in ("rouge1", "bert_score", "mover_score", "bert_score_truncated"):
            assert rescored[task][f"{name},none"] == pytest.approx(results["results"][task][f"{name},none"], abs=1e-6)


@pytest.mark.long
def test_run_twice_gives_the_same_scores(model: Any) -> None:
    def once() -> Any:
        manager = task_manager(
            metadata={"data": "sample", "metrics": "ngram", "answers": "off"}, include_defaults=False
        )
        out = evaluate(model, ["careqa_open"], task_manager=manager, limit=3, gen_kwargs={"max_gen_toks": 16})
        return out["results"], [sample["resps"] for sample in out["samples"]["careqa_open"]]

    assert once() == once()


@pytest.mark.long
def test_two_ranks_give_what_one_gives(demo_model: Path, tmp_path: Path) -> None:
    """Data-parallel ranks over gloo on the CPU: an odd number of documents is split, scored and put together."""
    pytest.importorskip("accelerate")
    script = str(TESTS / "two_ranks.py")
    encoder = str(tiny_distilbert(tmp_path / "encoder"))  # its MoverScore weighs words by the answers of both ranks
    for ranks in (1, 2):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
        done = subprocess.run(
            [sys.executable, *launch, script, str(demo_model), encoder, str(tmp_path)],
            capture_output=True, text=True, env=child_environment(), timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (json.loads((tmp_path / f"results_{ranks}.json").read_text()) for ranks in (1, 2))
    for task in ("careqa_en", "careqa_open"):
        assert two[task]["sample_len"] == 5
        for key, value in one[task].items():
            if isinstance(value, float):
                assert two[task][key] == pytest.approx(value, nan_ok=True), key
    (folder,) = [f for f in (tmp_path / "answers").iterdir() if (f / "careqa_en.rank1.jsonl").is_file()]
    saved = read_run(folder).tasks
    assert [r.doc_id for r in saved["careqa_open"]] == [0, 1, 2, 3, 4]
    assert len(saved["careqa_en"]) == 5 * 4
