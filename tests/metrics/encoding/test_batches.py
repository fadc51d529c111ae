from __future__ import annotations

import logging
import random

import pytest

from lm_eval_healthcare.metrics.encoding import batches


def test_batches_are_sorted_and_within_the_budget() -> None:
    # Longest first: 9 alone (two would be 18), 5+4 as 2 x 5 = 10, 3+3+2 as 3 x 3 = 9, 1.
    assert batches.plan([3, 9, 1, 5, 3, 4, 2], 10) == [[1], [3, 5], [0, 4, 6], [2]]


def test_a_text_longer_than_the_budget_is_alone() -> None:
    assert batches.plan([100, 2, 300], 4) == [[2], [0], [1]]
    assert batches.plan([], 4) == []
    assert batches.plan([0, 0], 1) == [[0], [1]]


@pytest.mark.parametrize("budget", [1, 7, 64, 512, 10_000])
def test_every_text_is_in_one_batch_whatever_the_budget(budget: int) -> None:
    rng = random.Random(budget)
    lengths = [rng.randint(1, 600) for _ in range(300)]
    planned = batches.plan(lengths, budget)
    assert sorted(index for batch in planned for index in batch) == list(range(300))
    for batch in planned:
        assert len(batch) == 1 or max(lengths[index] for index in batch) * len(batch) <= budget


def out_of_memory() -> Exception:
    torch = pytest.importorskip("torch")
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize(
    "error",
    [
        out_of_memory,
        lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        MemoryError,
    ],
)
def test_out_of_memory_halves_the_budget_and_goes_on(error: type, caplog: pytest.LogCaptureFixture) -> None:
    lengths = [8, 8, 8, 8, 4, 4, 2, 1]
    done: list[list[int]] = []

    def step(batch: list[int]) -> None:
        if max(lengths[item] for item in batch) * len(batch) > 16:
            raise error()
        done.append(batch)

    with caplog.at_level(logging.WARNING):
        budget = batches.run(range(8), lengths, 64, step, "test")
    # 64 fails with 4 x 8 + ... = all eight at 8 x 8 = 64, halved to 32, which fails with four of 8, halved to 16.
    assert budget == 16
    assert [len(batch) for batch in done] == [2, 2, 4]
    assert sorted(item for batch in done for item in batch) == list(range(8))
    assert "batches of 32 tokens" in caplog.text
    assert "batches of 16 tokens" in caplog.text


def test_only_what_was_asked_for_is_done() -> None:
    done: list[int] = []
    batches.run([5, 1, 3], [1, 2, 3, 4, 5, 6], 6, done.extend, "test")
    assert done == [5, 3, 1]


def test_one_text_that_does_not_fit_is_told() -> None:
    def step(batch: list[int]) -> None:
        raise out_of_memory()

    with pytest.raises(batches.DoesNotFit, match=r"bert_score: a text of 700 tokens alone .* metrics_device=cpu"):
        batches.run(range(3), [700, 3, 3], 1024, step, "bert_score")


def test_other_errors_are_not_hidden() -> None:
    def step(batch: list[int]) -> None:
        raise RuntimeError("The size of tensor a (3) must match the size of tensor b (4)")

    with pytest.raises(RuntimeError, match="must match"):
        batches.run(range(3), [1, 1, 1], 2, step, "test")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(("device", "told"), [("cpu", True), ("cuda:0", False)])
def test_a_long_job_on_the_cpu_is_estimated_once(
    device: str, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(batches, "time", clock)
    with caplog.at_level(logging.WARNING), batches.Progress(10_000, "bert_score", device) as progress:
        for _ in range(4):
            clock.now += 5
            progress.add(100)
    # 100 tokens in 5 seconds: 9,900 take 495 seconds, 8 minutes.
    assert ("bert_score on the CPU: about 8 minutes for 10,000 tokens" in caplog.text) is told
    assert len(caplog.records) == int(told)


def test_a_short_job_is_quiet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(batches, "time", clock)
    with batches.Progress(1000, "bert_score") as progress:
        clock.now += 1.5
        progress.add(900)
        clock.now += 0.2
        progress.add(100)
    assert caplog.text == ""
    assert capsys.readouterr().err == ""


def test_a_longer_job_has_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    monkeypatch.setattr(batches, "time", clock)
    with batches.Progress(1000, "bert_score") as progress:
        clock.now += 3
        progress.add(400)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "bert_score:  40%" in captured.err
