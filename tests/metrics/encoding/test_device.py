from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from lm_eval_healthcare.metrics.encoding import device
from lm_eval_healthcare.metrics.settings import Compute

torch = pytest.importorskip("torch")
GIB = 2**30


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that there are GPUs with so many GiB free."""

    def pretend(*free: float, current: int = 0, unused: float = 0) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(free))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (int(free[index] * GIB), 80 * GIB))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: int(unused * GIB))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 0)

    return pretend


def test_the_cpu_is_taken_when_asked_for_or_alone(gpus: Callable[..., None]) -> None:
    gpus()
    assert device.choose(Compute(device="auto"), GIB) == "cpu"
    gpus(70)
    assert device.choose(Compute(device="cpu"), GIB) == "cpu"


def test_a_gpu_with_room_is_taken(gpus: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    gpus(70)
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:0"
    assert device.choose(Compute(device="cuda"), 2 * GIB) == "cuda:0"
    gpus(70, 70, current=1)
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:1"
    assert device.choose(Compute(device="cuda:0"), 2 * GIB) == "cuda:0"
    gpus(1, 70)
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:1"
    assert caplog.text == ""


def test_each_rank_has_its_own_gpu(gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(70, 70, 70)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:2"
    assert device.choose(Compute(device="cuda"), 2 * GIB) == "cuda:2"
    monkeypatch.setenv("LOCAL_RANK", "7")  # each rank sees GPUs of its own
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:0"


def test_memory_that_this_process_holds_unused_counts_as_free(gpus: Callable[..., None]) -> None:
    gpus(1, unused=4)
    assert device.choose(Compute(device="auto"), 2 * GIB) == "cuda:0"


def test_a_gpu_that_the_model_still_fills_leaves_the_cpu_with_one_warning(
    gpus: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    gpus(1.5)
    with caplog.at_level(logging.WARNING):
        assert [device.choose(Compute(device="auto"), 2 * GIB) for _ in range(3)] == ["cpu"] * 3
    assert len(caplog.records) == 1
    # 2 GiB and the margin of half a GiB.
    assert "GPU 0 has 1.5 GiB free, the metric's model needs about 2.5 GiB" in caplog.text
    assert "metrics_device=later" in caplog.text


def test_a_gpu_asked_for_by_name_must_be_there_and_have_room(gpus: Callable[..., None]) -> None:
    gpus()
    with pytest.raises(device.DeviceUnavailable, match="metrics_device=cuda: PyTorch sees no GPU here; use"):
        device.choose(Compute(device="cuda"), GIB)
    gpus(1, 70)
    with pytest.raises(device.DeviceUnavailable, match=r"metrics_device=cuda:2: there are 2 GPUs, counted from cuda:0"):
        device.choose(Compute(device="cuda:2"), GIB)
    with pytest.raises(device.DeviceUnavailable, match=r"metrics_device=cuda:0: GPU 0 has 1.0 GiB free, .*auto or cpu"):
        device.choose(Compute(device="cuda:0"), 2 * GIB)


def refuse(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any) -> Any:
        raise error

    return fail


def test_a_gpu_that_cannot_be_asked_has_no_room(
    gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gpus(0, 70)
    monkeypatch.setattr(torch.cuda, "current_device", refuse(RuntimeError("CUDA error: busy\nmore lines")))
    free = torch.cuda.mem_get_info

    def ask(index: int) -> Any:
        return refuse(torch.OutOfMemoryError("CUDA out of memory"))() if index == 0 else free(index)

    monkeypatch.setattr(torch.cuda, "mem_get_info", ask)
    assert device.choose(Compute(device="auto"), GIB) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "mem_get_info", refuse(RuntimeError("CUDA error: busy\nmore lines")))
    with caplog.at_level(logging.WARNING):
        assert [device.choose(Compute(device="auto"), n * GIB) for n in (1, 2)] == ["cpu"] * 2
    [record] = caplog.records
    assert "GPU 0 cannot be asked for its free memory (CUDA error: busy), GPU 1 cannot" in record.getMessage()
    with pytest.raises(device.DeviceUnavailable, match=r"metrics_device=cuda:1: GPU 1 cannot be asked .*busy\), the"):
        device.choose(Compute(device="cuda:1"), GIB)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "GPU 0 is out of memory while the metric's model was"),
        (RuntimeError("CUDA error: launch failure\nx"), r"GPU 0 failed \(CUDA error: launch failure\) while the"),
    ],
)
def test_a_gpu_that_fails_while_the_weights_arrive(
    error: Exception, told: str, gpus: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    gpus(70)
    moves: list[str] = []

    def move(where: str) -> str:
        moves.append(where)
        if where != "cpu":
            raise error
        return f"model on {where}"

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert device.place(Compute(device="auto"), GIB, move) == ("cpu", "model on cpu")
    assert moves == ["cuda:0", "cpu"] * 2
    assert len(caplog.records) == 1
    assert re.match(told, caplog.records[0].getMessage())
    with pytest.raises(device.DeviceUnavailable, match=rf"^metrics_device=cuda: {told}.*Use metrics_device=auto or"):
        device.place(Compute(device="cuda"), GIB, move)
    assert moves[-1] == "cpu"


def test_a_model_is_put_where_there_is_room(gpus: Callable[..., None]) -> None:
    gpus(70)
    assert device.place(Compute(), GIB, lambda where: [where]) == ("cuda:0", ["cuda:0"])
    with pytest.raises(RuntimeError, match="size mismatch"):
        device.place(Compute(device="cpu"), GIB, refuse(RuntimeError("size mismatch")))


def test_batches_fit_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.batch_tokens(Compute(batch_tokens=77), "cpu") == 77
    assert device.batch_tokens(Compute(), "cuda:0") == 16384
    sizes = {}
    for threads in (1, 2, 8, 64):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        sizes[threads] = device.batch_tokens(Compute(), "cpu")
    assert sizes == {1: 512, 2: 512, 8: 2048, 64: 4096}
