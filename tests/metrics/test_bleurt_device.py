"""BLEURT on a GPU that is full, fills up or has no room for one text, and with all digits of its numbers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare.metrics import bleurt
from lm_eval_healthcare.metrics.encoding import device, release_all
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit
from lm_eval_healthcare.metrics.encoding.device import DeviceUnavailable
from tiny_bleurt import texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

METRIC = bleurt.Bleurt()
PREDICTIONS, REFERENCES = texts(9, seed=51, longest=20), texts(9, seed=52, longest=20)
LENGTHS = sorted(3 + len(p.split()) + len(r.split()) for p, r in zip(PREDICTIONS, REFERENCES, strict=True))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.tiny_bleurt(tmp_path_factory.mktemp("bleurt") / "tiny"))


class Gpu:
    """Stands for a GPU: a model that is there computes on the CPU, as long as a batch has no more rows than `rows`."""

    def __init__(self) -> None:
        self.free, self.rows, self.full_on_arrival = 70 * 2**30, 100, False
        self.moves: list[str] = []
        self.batches: list[tuple[str, int]] = []


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A machine with one."""
    pretended = Gpu()
    compute = bleurt._Scorer.__call__

    def move(self: Any, where: str) -> None:
        pretended.moves.append(where)
        self.device = where
        if where != "cpu" and pretended.full_on_arrival:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def call(self: Any, pairs: Any) -> Any:
        place = self.device
        pretended.batches.append((place, len(pairs)))
        if place != "cpu" and len(pairs) > pretended.rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.device = "cpu"
        try:
            return compute(self, pairs)
        finally:
            self.device = place

    monkeypatch.setattr(bleurt._Scorer, "_move", move)
    monkeypatch.setattr(bleurt._Scorer, "__call__", call)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (pretended.free, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 0)
    monkeypatch.setattr(device, "_told", set())
    release_all()
    yield pretended
    release_all()


def score(model: str, **options: Any) -> np.ndarray:
    return METRIC.score(PREDICTIONS, REFERENCES, bleurt_model=model, **options)


def test_the_model_stays_on_the_gpu_that_it_fills(gpu: Gpu, model: str) -> None:
    expected = score(model, metrics_device="cpu")
    gpu.batches.clear()
    gpu.moves.clear()
    for free in (70, 0, 0):
        gpu.free = free * 2**30
        np.testing.assert_allclose(score(model), expected, atol=1e-6)
    assert gpu.batches == [("cuda:0", 9)] * 3
    assert gpu.moves == ["cuda:0"]


def test_a_full_gpu_is_tried_again_at_the_next_call(gpu: Gpu, model: str) -> None:
    gpu.free = 0
    score(model)
    assert {place for place, _ in gpu.batches} == {"cpu"}
    gpu.free = 70 * 2**30
    gpu.batches.clear()
    score(model)
    assert gpu.batches == [("cuda:0", 9)]


def test_a_text_that_does_not_fit_sends_the_rest_to_the_cpu(gpu: Gpu, model: str, caplog: Any) -> None:
    """The longest pair has a batch of its own by a budget of its length, and does not fit; the GPU did nothing yet."""
    expected = score(model, metrics_device="cpu")
    gpu.batches.clear()
    gpu.rows = 0
    told: list[Any] = []
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = score(model, report=lambda *what: told.append(what), metrics_batch_tokens=max(LENGTHS))
            np.testing.assert_allclose(found, expected, atol=1e-6)
    assert sorted(row for _, row, _, _ in told) == sorted([*range(9)] * 2)
    assert gpu.batches[0] == ("cuda:0", 1)
    assert {place for place, _ in gpu.batches[1:5]} == {"cpu"}
    assert len(caplog.records) == 1
    assert "alone does not fit into memory (CUDA out of memory)" in caplog.text
    assert "going on with the CPU, which takes longer" in caplog.text


def test_what_the_gpu_has_computed_is_kept(gpu: Gpu, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = score(model, metrics_device="cpu")
    gpu.batches.clear()
    calls = []
    compute = bleurt._Scorer.__call__

    def third_fails(self: Any, pairs: Any) -> Any:
        calls.append(self.device)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", third_fails)
    np.testing.assert_allclose(score(model, metrics_batch_tokens=1), expected, atol=1e-6)
    assert calls == ["cuda:0"] * 3 + ["cpu"] * 7


def test_a_gpu_asked_for_by_name_is_not_left(gpu: Gpu, model: str) -> None:
    gpu.rows = 0
    with pytest.raises(DoesNotFit, match=r"bleurt: a text of \d+ tokens alone does not fit .* Use metrics_device=cpu"):
        score(model, metrics_device="cuda:0")


def test_a_gpu_that_fills_up_while_the_weights_arrive(gpu: Gpu, model: str, caplog: Any) -> None:
    gpu.full_on_arrival = True
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert np.isfinite(score(model)).all()
    assert {place for place, _ in gpu.batches} == {"cpu"}
    assert gpu.moves == ["cuda:0", "cpu"] * 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    with pytest.raises(DeviceUnavailable, match="metrics_device=cuda: GPU 0 is out of memory while"):
        score(model, metrics_device="cuda")


def test_a_gpu_that_cannot_be_asked(gpu: Gpu, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(index: int) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "mem_get_info", broken)
    assert np.isfinite(score(model)).all()
    assert {place for place, _ in gpu.batches} == {"cpu"}


def test_products_have_all_their_digits(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: the network runs inside the context that forbids TF32 on the model's device."""
    inside: list[str] = []
    seen: list[list[str]] = []

    @contextlib.contextmanager
    def full_precision(place: str) -> Iterator[None]:
        inside.append(place)
        yield
        inside.pop()

    monkeypatch.setattr(bleurt, "full_precision", full_precision)
    scorer = bleurt._scorer(model, bleurt.Compute(device="cpu"))
    hook = scorer._network.register_forward_pre_hook(lambda *_: seen.append(list(inside)))
    score(model, metrics_device="cpu")
    hook.remove()
    assert len(seen) > 0
    assert all(places == ["cpu"] for places in seen)
    assert inside == []
