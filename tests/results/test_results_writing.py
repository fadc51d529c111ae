"""Results and samples are written whole, under one new name, never over an existing file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lm_eval_healthcare.results import writing
from lm_eval_healthcare.results.names import parse_results_name, parse_samples_name
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.writing import NotWritten, RunWriter, Written, refuse_unwritable

ROWS = [{"doc_id": n, "doc_hash": "a", "prompt_hash": str(n), "target_hash": "c"} for n in range(3)]


def content(hashes: Any) -> dict[str, Any]:
    return {"results": {}, "task_hashes": dict(hashes), "value": float("nan")}


def write_run(folder: Path, prefix: str, samples: dict[str, Any], results: Any) -> Written:
    """All of a run, as a caller does it that gives up at the first fault."""
    writer = RunWriter(folder, prefix)
    try:
        for task, rows in samples.items():
            writer.add(task, rows)
        return writer.publish(results)
    finally:
        writer.discard()


def test_files_of_one_moment(tmp_path: Path) -> None:
    written = write_run(tmp_path / "new" / "model", "results", {"medtext": ROWS, "olaph": ROWS[:1]}, content)
    stamp = parse_results_name(written.results.name)
    assert [parse_samples_name(path.name) for path in written.samples] == [("medtext", stamp), ("olaph", stamp)]
    assert {path.name for path in written.results.parent.iterdir()} == {
        written.results.name, *(path.name for path in written.samples)
    }  # fmt: skip
    assert [json.loads(line) for line in written.samples[0].read_text().split("\n") if line] == ROWS
    # The harness's hash: of all rows' three hashes, one after the other.
    expected = hashlib.sha256(b"a0ca1ca2c").hexdigest()
    assert json.loads(written.results.read_text())["task_hashes"]["medtext"] == expected


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "resps": "a \ud800 b \u2028 é"}]
    (path,) = write_run(tmp_path, "results", {"t": rows}, content).samples
    assert path.read_bytes().count(b"\n") == 1
    assert json.loads(path.read_text("utf-8").split("\n")[0])["resps"] == rows[0]["resps"]


def test_taken_names_are_never_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock with three moments: the first is taken by a run, the second by somebody's samples alone.
    monkeypatch.setattr(writing, "datetime", mock.Mock(now=lambda: datetime(2026, 1, 1)))
    monkeypatch.setattr(writing, "_TRIES", 3)
    first = write_run(tmp_path, "results", {"t": ROWS}, content)
    before = first.results.read_bytes()
    samples = tmp_path / "samples_t_2026-01-01T00-00-00.000001.jsonl"
    samples.write_text("somebody's")
    second = write_run(tmp_path, "results", {"t": ROWS[:1]}, content)
    assert second.results.name == "results_2026-01-01T00-00-00.000002.json"
    assert not (tmp_path / "results_2026-01-01T00-00-00.000001.json").exists()
    with pytest.raises(ResultsError, match="no free name"):
        write_run(tmp_path, "results", {"t": ROWS}, content)
    assert (first.results.read_bytes(), samples.read_text()) == (before, "somebody's")
    assert len(list(tmp_path.iterdir())) == 5


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "not here")

    monkeypatch.setattr(os, "link", no_links)
    written = write_run(tmp_path, "res", {"t": ROWS}, content)
    assert written.results.name.startswith("res_")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("at", [0, 2])
def test_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    count = iter(range(10))
    sync = os.fsync

    def full(number: int) -> None:
        if next(count) == at:
            raise OSError(28, "No space left on device")
        sync(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritten, match=r"No space left.*--output-dir"):
        write_run(tmp_path, "results", {"t": ROWS, "u": ROWS}, content)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    def rows() -> Any:
        yield ROWS[0]
        raise ResultsError("the file has changed")

    with pytest.raises(ResultsError, match="changed"):
        write_run(tmp_path, "results", {"t": rows()}, content)
    assert list(tmp_path.iterdir()) == []


def test_a_task_whose_rows_fail_is_left_out_of_its_run(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, "results")
    writer.add("t", ROWS)
    with pytest.raises(ZeroDivisionError):
        writer.add("u", ({"doc_id": 1 / 0} for _ in ROWS))
    written = writer.publish(content)
    assert [parse_samples_name(path.name)[0] for path in written.samples] == ["t"]  # type: ignore[index]
    assert list(json.loads(written.results.read_text())["task_hashes"]) == ["t"]
    assert len(list(tmp_path.iterdir())) == 2


def test_two_runs_are_written_into_one_folder_at_once(tmp_path: Path) -> None:
    writers = [RunWriter(tmp_path, "results") for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.add("t", ROWS[: number + 1])
    written = [writer.publish(content) for writer in writers]
    assert [len(one.samples[0].read_text().splitlines()) for one in written] == [1, 2]
    assert len(list(tmp_path.iterdir())) == 4


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = writing._host()
    old, living, foreign = (
        tmp_path / f".samples_t.0.{host}.{dead.pid}.part",
        tmp_path / f".samples_t.0.{host}.{os.getppid()}.part",
        tmp_path / ".samples_t.0.another-machine.1.part",
    )
    for path in (old, living, foreign):
        path.write_text("half")
    write_run(tmp_path, "results", {"t": ROWS}, content)
    assert [path.exists() for path in (old, living, foreign)] == [False, True, True]


def test_a_place_that_is_not_writable_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot write there"):
        refuse_unwritable(tmp_path / "file" / "folder")
