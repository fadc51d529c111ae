"""A small real model through the harness's transformers back end: perplexities against the harness's own tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.scoring.answers import read_run
from side_by_side import _offline
from support import TESTS, child_environment, results_of, samples_of
from token_models import load, tiny_llama

pytestmark = pytest.mark.slow
HARNESS_YAML = {
    "careqa_open_perplexity": "careqa/careqa_open_perplexity.yaml",
    "medtext_perplexity": "medtext/medtext_perplexity.yaml",
}


@pytest.fixture(scope="module")
def model(demo_model: Path) -> Any:
    pytest.importorskip("torch")
    return load(demo_model, batch_size=4)


def run(model: Any, tasks: list[Any], **kwargs: Any) -> Any:
    from lm_eval import simple_evaluate

    return simple_evaluate(model=model, tasks=tasks, bootstrap_iters=100, limit=5, **kwargs)


def ours(name: str) -> Any:
    return task_manager(metadata={"data": "sample", "answers": "off"}, include_defaults=False).load([name])["tasks"][
        name
    ]


@pytest.mark.parametrize("name", ["careqa_open_perplexity", pytest.param("medtext_perplexity", marks=pytest.mark.long)])
def test_values_are_the_harness_own(model: Any, name: str) -> None:
    """This tokenizer adds no token in front, so the published definition and ours are the same number."""
    mine = ours(name)
    path = HARNESS_TASKS / HARNESS_YAML[name]
    config = load_yaml(path, resolve_func=False)
    wanted = {config.get(f"{kind}_split") for kind in ("training", "validation", "test", "fewshot")} - {None}
    rows = datasets.Dataset.from_list([dict(row) for row in mine.eval_docs])
    with _offline(dict.fromkeys(wanted, rows)):
        config = load_yaml(path, resolve_func=True)
        config.pop("tag", None)
        theirs = ConfigurableTask(config=config)
    a, b = run(model, [mine])["results"][name], run(model, [theirs])["results"][name]
    for metric in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
        assert a[f"{metric},none"] == pytest.approx(b[f"{metric},none"], rel=1e-4)
        assert isinstance(a[f"{metric}_stderr,none"], float)
        assert b[f"{metric}_stderr,none"] == "N/A"


@pytest.mark.parametrize("chat", [True, pytest.param(False, marks=pytest.mark.long)])
def test_conditional_values_are_the_harness_loglikelihood(model: Any, chat: bool) -> None:
    name = "medtext_conditional_perplexity"
    out = run(model, [ours(name)], apply_chat_template=chat)
    pairs = [sample["arguments"][0] for sample in out["samples"][name]]
    asked = [Instance("loglikelihood", {}, pair, 0, metadata=("t", i, 1)) for i, pair in enumerate(pairs)]
    for sample, (expected, _) in zip(out["samples"][name], model.loglikelihood(asked, disable_tqdm=True), strict=True):
        assert sample["loglikelihood"] == pytest.approx(expected, abs=2e-3)
        assert sample["context_tokens_cut"] == 0


def test_a_question_helps(model: Any) -> None:
    """References are likelier after their questions than alone; a mistaken context would show here."""
    out = run(model, [ours(name) for name in ("careqa_open_perplexity", "careqa_open_conditional_perplexity")])
    alone, after = (
        out["results"][name]["nats_per_byte,none"]
        for name in ("careqa_open_perplexity", "careqa_open_conditional_perplexity")
    )
    assert after < alone


@pytest.mark.long
def test_the_command(demo_model: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    arguments = [
        "run", "--model", "hf", "--model_args", f"pretrained={demo_model},dtype=float32", "--device", "cpu",
        "--batch_size", "4", "--tasks", "medtext_perplexity,medtext_conditional_perplexity", "--limit", "3",
        "--metadata", "data=sample", "--output_path", str(tmp_path / "out"), "--log_samples",
        "--use_cache", str(tmp_path / "cache"),
    ]  # fmt: skip
    done = cli(*arguments, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    results = results_of(tmp_path / "out")
    section = results["configs"]["medtext_perplexity"]["metadata"]["healthcare"]
    assert section["perplexity"]["prefix_tokens"] == ["<|im_start|>"]
    assert len(samples_of(tmp_path / "out", "medtext_perplexity")) == 3
    (folder,) = (tmp_path / "out" / "answers").iterdir()
    assert {len(requests) for requests in read_run(folder).tasks.values()} == {3}
    done = cli("score", str(folder), "--output_path", str(tmp_path / "again"), timeout=600)
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path / "again")["results"] == results["results"]


@pytest.mark.long
def test_two_ranks_give_what_one_gives(tmp_path: Path) -> None:
    """An odd number of documents over two processes (gloo), some of which need more windows than others."""
    pytest.importorskip("accelerate")
    folder = tiny_llama(tmp_path / "llama", adds_bos=True)
    for ranks in (1, 2):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
        done = subprocess.run(
            [sys.executable, *launch, str(TESTS / "two_ranks_perplexity.py"), str(folder), str(tmp_path)],
            capture_output=True, text=True, env=child_environment(), timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (json.loads((tmp_path / f"results_{ranks}.json").read_text()) for ranks in (1, 2))
    for task, scores in one["results"].items():
        for key, value in scores.items():
            if isinstance(value, float):
                assert two["results"][task][key] == pytest.approx(value, rel=1e-4), key
        assert two["sections"][task] == one["sections"][task]
    assert one["sections"]["medtext_conditional_perplexity"]["reasons"]["context_cut"] == 5
