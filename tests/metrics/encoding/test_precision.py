from __future__ import annotations

import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest

from lm_eval_healthcare.metrics.encoding.precision import full_precision
from support import child_environment

torch = pytest.importorskip("torch")

# What a program in the same process may have set: the old way, the new one, or both.
SETUPS = [
    "pass",
    "torch.backends.cuda.matmul.allow_tf32 = True",
    "torch.set_float32_matmul_precision('medium')",
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "torch.backends.fp32_precision = 'tf32'",
    "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
    "torch.set_float32_matmul_precision('high'); torch.backends.cuda.matmul.fp32_precision = 'ieee'",
]
SCRIPT = """
import os, sys, warnings
import torch
from lm_eval_healthcare.metrics.encoding.precision import full_precision

NEW = ("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision", "fp32_precision")
OLD = ("cuda.matmul.allow_tf32", "cudnn.allow_tf32")

def read(path):
    try:
        return str(eval(path))
    except Exception as error:
        return type(error).__name__

def settings():
    paths = [*(f"torch.backends.{path}" for path in (*NEW, *OLD)), "torch.get_float32_matmul_precision()"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [read(path) for path in paths]

for setup in sys.stdin.read().splitlines():
    if os.fork() == 0:  # settings are of the process
        exec(setup)
        before = settings()
        warnings.simplefilter("error")
        with full_precision("cuda:0"):
            inside = settings()
        print("tf32" in inside[:3] or "True" in inside[4:6], settings() == before, inside, before, flush=True)
        os._exit(0)
    os.wait()
"""


def test_no_product_is_shortened_and_all_settings_return() -> None:
    setups = [line for line in SETUPS if "fp32_precision" not in line or hasattr(torch.backends, "fp32_precision")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input="\n".join(setups),
        capture_output=True, text=True, env=child_environment(), check=False,
    )  # fmt: skip
    found = [line.split()[:2] for line in done.stdout.splitlines()]
    assert found == [["False", "True"]] * len(setups), done.stdout + done.stderr


def test_a_pytorch_with_the_old_settings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["high"]
    cudnn = SimpleNamespace(allow_tf32=True)
    backends = SimpleNamespace(cudnn=cudnn, cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)))
    monkeypatch.setattr(torch, "backends", backends)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: words[-1])
    monkeypatch.setattr(torch, "set_float32_matmul_precision", words.append)
    with full_precision("cuda:1"):
        assert (words[-1], cudnn.allow_tf32) == ("highest", False)
    assert (words[-1], cudnn.allow_tf32) == ("high", True)


def test_settings_that_cannot_be_read_or_written_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> str:
        raise RuntimeError("mixed settings")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    monkeypatch.setattr(torch, "backends", SimpleNamespace())
    with full_precision("cuda:0"):
        pass


def test_an_error_inside_comes_out_and_settings_return(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["medium"]
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: words[-1])
    monkeypatch.setattr(torch, "set_float32_matmul_precision", words.append)
    with warnings.catch_warnings(), pytest.raises(KeyError), full_precision("cuda:0"):
        raise KeyError("x")
    assert words == ["medium", "highest", "medium"]


def test_nothing_is_touched_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: pytest.fail("read"))
    with full_precision("cpu"):
        pass
