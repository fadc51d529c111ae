"""A real vLLM, on the CPU: Relaxed Perplexity through the harness, in one process and behind a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import child_environment, results_of, samples_of
from vllm_server import vllm_server

pytestmark = pytest.mark.vllm

TASK = "careqa_open_relaxed_perplexity"
SMALL = ["relaxed_samples=3", "relaxed_keep=2", "relaxed_length=8", "relaxed_stride=4"]
ALONE = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def run_command(model: Path, out: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "lm_eval_healthcare.cli.main", "run", "--model", "vllm", "--tasks", TASK,
            "--limit", "3",
            "--model_args", f"pretrained={model},dtype=float32,max_model_len=512,enforce_eager=True,"
            "gpu_memory_utilization=0.3", "--output_path", str(out), "--log_samples", *arguments,
        ],
        capture_output=True, text=True, env=child_environment(**ALONE, **environment), timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def test_a_run_gives_numbers_and_matrices(demo_model: Path, tmp_path: Path) -> None:
    """The command gives vLLM the processor with which branches read their prefix from its cache."""
    said = run_command(demo_model, tmp_path / "a", "--metadata", "data=sample", *SMALL)
    assert "vllm engine" in said
    scores = results_of(tmp_path / "a")["results"][TASK]
    assert scores["relaxed_perplexity_coverage,none"] == 1.0
    assert 0 < scores["log_relaxed_perplexity,none"] < 50
    (path,) = (tmp_path / "a").glob("**/relaxed_*.parquet")
    from lm_eval_healthcare.relaxed_perplexity.estimator import read as read_target
    from lm_eval_healthcare.relaxed_perplexity.matrix_file import read

    values = [read_target(row.matrix, 0, n=8, stride=4)["relaxed_cross_entropy_mean"] for row in read(path)]
    assert np.mean(values) == pytest.approx(scores["relaxed_cross_entropy_mean,none"])
    assert len(samples_of(tmp_path / "a", TASK)) == 3


@pytest.mark.long
def test_the_same_numbers_again(demo_model: Path, tmp_path: Path) -> None:
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        run_command(demo_model, folder, "--metadata", "data=sample", *SMALL)
        found.append(results_of(folder)["results"][TASK]["log_relaxed_perplexity,none"])
    assert found[0] == pytest.approx(found[1], abs=1e-4)


@pytest.fixture(scope="module")
def server(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the demo model at a free port; nothing else can be reached."""
    pytest.importorskip("vllm")
    with vllm_server(demo_model, tmp_path_factory.mktemp("server") / "log") as root:
        yield root


@pytest.mark.long
def test_a_server_gives_what_transformers_gives(server: str, demo_model: Path) -> None:
    """Completions written by the server, scored by it and by transformers: the same log-probabilities."""
    from lm_eval import simple_evaluate
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    from lm_eval_healthcare import task_manager
    from lm_eval_healthcare.harness.relaxed_codec import Codec
    from lm_eval_healthcare.harness.relaxed_engines import engine_for
    from lm_eval_healthcare.relaxed_perplexity import Matrix, Sample
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
    from token_models import load

    remote = LocalCompletionsAPI(
        base_url=f"{server}/v1/completions", model="demo", tokenizer=str(demo_model), num_concurrent=4, max_length=512
    )
    options = {"data": "sample", "answers": "off", **dict(pair.split("=") for pair in SMALL)}
    out: Any = simple_evaluate(
        model=remote,
        tasks=[TASK],
        limit=3,
        task_manager=task_manager(metadata=options, include_defaults=False),
        apply_chat_template=True,
    )
    local = load(demo_model)
    codec = Codec(local)
    engine = engine_for(local, codec, "transformers", None)
    for sample in out["samples"][TASK]:
        matrix = Matrix.from_response(json.loads(sample["resps"][0][0]))
        assert matrix.engine == "generic"
        assert len(set(matrix.texts)) > 1, "every request got the same seed"
        prompt, targets, _ = sample["arguments"][0]
        samples = []
        for text, length in zip(matrix.texts, matrix.lengths, strict=True):
            tokens = tuple(codec.after(text)[:length])
            assert len(tokens) == length
            samples.append(Sample(tokens, np.zeros(length + 1)))
        question = Question(tuple(codec.prompt(prompt)), (tuple(codec.after(" " + targets[0][1])),))
        (expected,) = engine.score([Job(question, samples, matrix.prefixes)])
        # Two engines' float32, and sums of numbers that a server has rounded.
        assert matrix.targets[0].log_p == pytest.approx(expected[0], abs=5e-4)
