"""In which order many runs are read, scored and written: few texts in memory, shared work, failures only once."""

from __future__ import annotations

import gc
import json
import math
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics, tasks_path
from lm_eval_healthcare.metrics.base import Measured, Metric
from lm_eval_healthcare.results.discovery import RunFiles, find
from lm_eval_healthcare.scoring import model_pools
from lm_eval_healthcare.scoring.model_pools import blocks, units, waves
from lm_eval_healthcare.scoring.rescoring import Rescoring
from lm_eval_healthcare.scoring.saved_facts import KnownTasks
from lm_eval_healthcare.scoring.saved_samples import SavedTask, TaskTexts, Wishes, plan
from lm_eval_healthcare.scoring.score_cache import ScoreCache
from support import write_jsonl

STAMP = "2026-03-01T10-00-00.000001"


class Letters(Metric):
    """A stand-in for a neural metric; the batches that it was asked about are kept."""

    name, description, maximum, heavy, family, options = "letters", "letters", math.inf, True, None, ("report",)

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def measure(self, names: Sequence[str], predictions: Any, references: Any, **options: Any) -> Measured:
        self.asked.append(list(predictions))
        if self.name == "broken":
            raise RuntimeError("no memory left")
        for place, text in enumerate(predictions):
            options["report"](self.name, place, float(len(text)), False)
        return Measured({self.name: np.array([float(len(text)) for text in predictions])})

    def signature(self, **options: Any) -> str:
        return f"{self.name}|impl:test"


class Broken(Letters):
    name = "broken"


@pytest.fixture
def stand_ins() -> Iterator[tuple[Letters, Broken]]:
    both = Letters(), Broken()
    for metric in both:
        metrics.register(metric)
    yield both
    for metric in both:
        del metrics.AVAILABLE[metric.name]


def row(number: int, answer: str) -> dict[str, Any]:
    return {
        "doc_id": number, "doc": {"question": f"Question {number}?"}, "target": f"reference {number}",
        "arguments": {"gen_args_0": {"arg_0": f"Question {number}?", "arg_1": {"until": []}}},
        "resps": [[answer]], "filtered_resps": [answer], "filter": "none",
    }  # fmt: skip


def put(folder: Path, **tasks: list[str]) -> None:
    for task, answers in tasks.items():
        write_jsonl(folder / f"samples_{task}_{STAMP}.jsonl", [row(n, answer) for n, answer in enumerate(answers)])
    content = {"results": {task: {"alias": task} for task in tasks}, "model_name": f"org/{folder.name}"}
    (folder / f"results_{STAMP}.json").write_text(json.dumps(content))


def prepared(folder: Path, spec: str) -> Rescoring:
    tasks = plan(find([folder]).runs, Wishes(metrics=spec), KnownTasks([tasks_path()])).tasks
    return Rescoring(tasks, ScoreCache.in_memory(), folder.parent / "out")


def tasks_of(tmp_path: Path, *runs: dict[str, int]) -> list[SavedTask]:
    """Tasks of runs, each with a neural metric and a file of so many bytes."""
    out = []
    for number, sizes in enumerate(runs):
        run = RunFiles(tmp_path / str(number), STAMP)
        for task, size in sizes.items():
            path = tmp_path / f"{number}_{task}"
            path.write_bytes(b"x" * size)
            out.append(SavedTask(run, task, path, ["bert_score"], {}))
    return out


def test_runs_are_scored_in_groups_whose_files_are_small_enough(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path, {"a": 60, "b": 10}, {"a": 40}, {"a": 1}, {"b": 100}, {"c": 500}, {"c": 1})
    # a: 60 + 40 fit into 100, 1 more does not; b: 100 with nothing else of it; c: 500 alone is always taken.
    shown = [[task.path.name for task in wave] for wave in waves(tasks, 100)]
    assert shown == [["0_a", "0_b", "1_a"], ["2_a", "3_b", "4_c"], ["5_c"]]


def test_one_task_of_all_models_is_read_at_once_only_if_work_is_shared(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path, {"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1})
    tasks[-1].names = ["bleu"]
    assert [[task.path.name for task in unit] for unit in units(tasks)] == [["0_a", "1_a"], ["0_b", "1_b"], ["2_a"]]
    for task in tasks:
        task.names = ["bleu"]
    assert [[task.path.name for task in unit] for unit in units(tasks)] == [[task.path.name] for task in tasks]
    tasks[0].names = tasks[2].names = ["bert_score"]
    tasks[2].options = {"bert_score_layer": 1}  # other scores, so nothing is shared
    assert [[task.path.name for task in unit] for unit in units(tasks)][:2] == [["0_a"], ["1_a"]]


def test_blocks_hold_a_references_rows_of_all_models() -> None:
    first = [f"{n:03}" for n in range(100)]
    second = [["000", "more"], "001", "001"]
    found = blocks([first, second])
    # The longest come first: the list of two texts, then 000 to 062 in the first block of 64.
    assert found == [[list(range(63)), [0, 1, 2]], [list(range(63, 100)), []]]


def test_texts_are_in_memory_only_while_their_group_is_scored(
    tmp_path: Path, stand_ins: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SavedTask.read
    alive: list[weakref.ref[TaskTexts]] = []
    together = []

    def counted(self: SavedTask, known: dict[str, str]) -> TaskTexts:
        gc.collect()
        together.append((self.task, [one.saved.task for ref in alive if (one := ref()) is not None]))
        texts = read(self, known)
        alive.append(weakref.ref(texts))
        return texts

    monkeypatch.setattr(SavedTask, "read", counted)
    for model in "ab":
        put(tmp_path / "runs" / model, t1=["x", "yy"], t2=["z", "zz"])
    list(prepared(tmp_path / "runs", "letters").run(lambda *_: None))
    assert together == [("t1", []), ("t1", ["t1"]), ("t2", []), ("t2", ["t2"])]
    together.clear()
    list(prepared(tmp_path / "runs", "bleu").run(lambda *_: None))
    assert together == [("t1", []), ("t2", []), ("t1", []), ("t2", [])]


def test_equal_references_of_models_are_in_memory_once(tmp_path: Path) -> None:
    for model in "ab":
        put(tmp_path / model, t=["x", "y"])
    known: dict[str, str] = {}
    tasks = plan(find([tmp_path]).runs, Wishes(metrics="bleu"), KnownTasks([])).tasks
    first, second = ([one.references for one in task.read(known).texts.rows] for task in tasks)
    assert first == ["reference 0", "reference 1"]
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_runs_are_written_before_others_are_read(
    tmp_path: Path, stand_ins: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in "abc":
        put(tmp_path / "runs" / model, t1=["x", "yy"], t2=["z", "zz"])
    for spec, most in (("bleu", model_pools.BYTES_OF_A_WAVE), ("letters", 1)):
        monkeypatch.setattr(model_pools, "BYTES_OF_A_WAVE", most)
        written = []
        for results, files in prepared(tmp_path / "runs", spec).run(lambda *_: None):
            assert [result.task.task for result in results] == ["t1", "t2"]
            assert files.results.is_file()
            written.append(results[0].task.run.model)
            later = tmp_path / "runs" / "c" / f"samples_t2_{STAMP}.jsonl"
            later.write_text(json.dumps(row(0, f"after {len(written)}")) + "\n")
        assert written == ["org/a", "org/b", "org/c"]
        (file,) = (tmp_path / "out" / "org__c").glob("samples_t2*")
        assert "after 2" in file.read_text()
        file.unlink()


def test_progress_adds_up(tmp_path: Path, stand_ins: Any) -> None:
    for model in "ab":
        put(tmp_path / "runs" / model, t1=["x", "yy"], t2=["z", "zz"])
    (tmp_path / "runs" / "b" / f"samples_t2_{STAMP}.jsonl").write_text(json.dumps(row(0, "x")) + "\n{\n" * 2)
    rescoring = prepared(tmp_path / "runs", "letters+broken")
    told: list[float] = []
    list(rescoring.run(lambda _, amount: told.append(amount)))
    assert len(rescoring.faults) == 1
    assert math.fsum(told) == pytest.approx(rescoring.total)
    assert min(told) >= 0


def test_a_failing_metric_is_not_tried_again(tmp_path: Path, stand_ins: tuple[Letters, Broken]) -> None:
    letters, broken = stand_ins
    for model in "abc":
        put(tmp_path / "runs" / model, t1=[f"{model}{n}" for n in range(200)], t2=["x"])
    rescoring = prepared(tmp_path / "runs", "letters+broken")
    results = [result for tasks, _ in rescoring.run(lambda *_: None) for result in tasks]
    assert len({tuple(batch) for batch in broken.asked}) == 1  # one batch, however often it is tried
    alone = [batch for batch in letters.asked if batch not in broken.asked]
    for result in results:
        assert result.errors == {"broken": "RuntimeError: no memory left"}
        assert result.unscored == ["broken"]
        assert result.config["metadata"]["healthcare"]["metric_errors"] == result.errors
        assert result.config["metadata"]["healthcare"]["reasons"]["metric_error:broken"] == result.documents["none"]
        assert math.isnan(result.summary["broken,none"])
        assert result.summary["letters_coverage,none"] == 1.0
    # 3 models with 200 answers each, and one answer that all three gave; the block that failed is asked again at once.
    assert rescoring.tally.computed == 601
    assert sum(map(len, alone)) == 601 - len(broken.asked[0])


def test_failures_are_not_counted_as_computed(tmp_path: Path, stand_ins: Any) -> None:
    for model in "ab":
        put(tmp_path / "runs" / model, t1=["x", "yy"])
    rescoring = prepared(tmp_path / "runs", "broken")
    list(rescoring.run(lambda *_: None))
    assert rescoring.tally.computed == 0


def test_a_metric_that_is_left_out_on_request_is_no_failure(tmp_path: Path, stand_ins: Any) -> None:
    put(tmp_path / "runs" / "a", t1=["x", "yy"])
    rescoring = prepared(tmp_path / "runs", "letters+bleu")
    rescoring._tasks[0].left_out["letters"] = "metric_missing"
    (((result,), _),) = rescoring.run(lambda *_: None)
    assert result.unscored == []
