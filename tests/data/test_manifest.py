"""A data folder holds whole files or none, whatever happens to the writer."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from lm_eval_healthcare.data import manifest
from lm_eval_healthcare.data.files import DataError, read_rows
from lm_eval_healthcare.data.manifest import Entry, all_from_hub, changed, is_whole, read_manifest, writing
from lm_eval_healthcare.data.row_files import json_ready
from support import child_environment

ABOUT: dict[str, Any] = {"tasks": ("quiz",), "split": "test", "licence": "MIT", "origin": {"hub": "x/y"}}
ROWS = [{"question": "Why?", "answer": "Because."}, {"question": "Où ?", "answer": None}]


def write(folder: Path, path: str = "quiz/test.jsonl", rows: Any = ROWS, **about: Any) -> Entry:
    with writing(folder) as writer:
        return writer.write(path, rows, **{**ABOUT, **about})


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {".lock"}


def test_the_entry_says_what_is_in_the_file(tmp_path: Path) -> None:
    entry = write(tmp_path)
    content = (tmp_path / "quiz" / "test.jsonl").read_bytes()
    assert content.decode() == '{"question": "Why?", "answer": "Because."}\n{"question": "Où ?", "answer": null}\n'
    assert (entry.rows, entry.bytes, entry.sha256) == (2, len(content), hashlib.sha256(content).hexdigest())
    found = read_manifest(tmp_path)
    assert found is not None
    assert found.entries == {"quiz/test.jsonl": entry}
    assert is_whole(tmp_path, entry)
    assert datetime.datetime.strptime(entry.date, "%Y-%m-%dT%H:%M:%SZ")
    assert files(tmp_path) == {"quiz/test.jsonl", "manifest.json"}


def test_parquet_holds_the_same_rows(tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": None, "b": ["x"]}]
    entry = write(tmp_path, "quiz/test.parquet", rows)
    assert pyarrow.parquet.read_table(tmp_path / entry.path).to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": ["x"]},
    ]
    assert is_whole(tmp_path, entry)
    with pytest.raises(DataError, match="use jsonl"):
        write(tmp_path, "quiz/train.parquet", [{"a": 1}, {"a": "one"}])
    assert files(tmp_path) == {"quiz/test.parquet", "manifest.json"}


def test_cells_that_json_does_not_know() -> None:
    when = datetime.datetime(2024, 5, 1, 12, 30)
    row = {"nan": float("nan"), "inf": -float("inf"), "when": when, "raw": b"\x00\xff", "deep": [(1, {2: "\ud800"})]}
    assert json_ready(row) == {
        "nan": None,
        "inf": None,
        "when": "2024-05-01T12:30:00",
        "raw": "AP8=",
        "deep": [[1, {"2": "\ufffd"}]],
    }


def broken_rows() -> Iterator[dict[str, Any]]:
    yield ROWS[0]
    raise RuntimeError("the connection broke")


def test_a_row_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="connection"):
        write(tmp_path, rows=broken_rows())
    assert files(tmp_path) == set()
    assert read_manifest(tmp_path) is None


def test_a_failing_rewrite_keeps_the_old_file(tmp_path: Path) -> None:
    old = write(tmp_path)
    with pytest.raises(RuntimeError, match="connection"):
        write(tmp_path, rows=broken_rows())
    assert is_whole(tmp_path, old)


SLOW_WRITER = """
import sys, time
from pathlib import Path
from lm_eval_healthcare.data.manifest import writing
def rows():
    for number in range(1000):
        yield {"question": "x" * 100_000, "answer": str(number)}
        if number == 20:
            print("half way", flush=True)
            time.sleep(60)
with writing(Path(sys.argv[1])) as writer:
    writer.write("quiz/test.jsonl", rows(), tasks=("quiz",), split="test", licence="MIT", origin={"hub": "x/y"})
"""


def start_slow_writer(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, str(folder)], stdout=subprocess.PIPE, text=True, env=child_environment()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "half way\n"
    return child


def test_kill_in_the_middle_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    child = start_slow_writer(tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    (leftover,) = files(tmp_path)
    assert leftover == f"quiz/test.jsonl.{child.pid}.part"
    assert (tmp_path / leftover).stat().st_size > 0
    assert read_manifest(tmp_path) is None
    write(tmp_path)  # is not kept waiting by the dead, and clears up after it
    assert files(tmp_path) == {"quiz/test.jsonl", "manifest.json"}


def test_two_writers_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    child = start_slow_writer(tmp_path)
    second = threading.Thread(target=write, args=(tmp_path, "quiz/train.jsonl"))
    second.start()
    second.join(timeout=1)
    assert second.is_alive(), "the second writer must wait"
    assert "waiting until it has ended" in caplog.text
    child.kill()
    child.communicate()
    second.join(timeout=60)
    assert not second.is_alive()
    found = read_manifest(tmp_path)
    assert found is not None
    assert list(found.entries) == ["quiz/train.jsonl"]


def test_two_writers_in_turn_keep_each_others_entries(tmp_path: Path) -> None:
    threads = [threading.Thread(target=write, args=(tmp_path, f"quiz/split{n}.jsonl")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_manifest(tmp_path)
    assert found is not None
    assert len(found.entries) == 8
    assert all(is_whole(tmp_path, entry) for entry in found.entries.values())


def test_full_disk(tmp_path: Path) -> None:
    """A real limit on the size of files, which the system reports as it does a full disk."""
    old = write(tmp_path, "quiz/train.jsonl")
    code = SLOW_WRITER.replace("time.sleep(60)", "pass")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=child_environment(),
        preexec_fn=limit, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "FolderError" in done.stderr
    assert "the disk is full or a limit is reached" in done.stderr
    assert "give the same command again" in done.stderr
    assert files(tmp_path) == {"quiz/train.jsonl", "manifest.json"}
    assert is_whole(tmp_path, old)


def test_no_room_for_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = write(tmp_path, "quiz/train.jsonl")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest.json, "dump", full)
    with pytest.raises(DataError, match="disk is full"):
        write(tmp_path)
    monkeypatch.undo()
    found = read_manifest(tmp_path)
    assert found is not None
    assert found.entries == {"quiz/train.jsonl": old}
    # The file has its name but no entry; the same rows may take its place, others may not.
    with pytest.raises(DataError, match="in the way"):
        write(tmp_path, rows=ROWS[:1])
    write(tmp_path)
    assert len((read_manifest(tmp_path) or found).entries) == 2


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "quiz").mkdir()
    (tmp_path / "quiz" / "test.jsonl").write_text('{"mine": 1}\n')
    with pytest.raises(DataError, match=r"is in the way.*not in manifest\.json"):
        write(tmp_path)
    assert (tmp_path / "quiz" / "test.jsonl").read_text() == '{"mine": 1}\n'


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="a file is where a folder is needed"):
        write(tmp_path / "file")
    with pytest.raises(DataError, match="a file is where a folder is needed"):
        write(tmp_path / "file" / "below")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="no permission to write there"):
        write(tmp_path / "theirs")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "something else", "files": {}}',
        '{"format": "lm_eval_healthcare data 1"}',
        '{"format": "lm_eval_healthcare data 1", "files": []}',
        '{"format": "lm_eval_healthcare data 1", "files": {"a": 3}}',
        '{"format": "lm_eval_healthcare data 1", "files": {"a": {"rows": 1}}}',
        "[" * 100_000,
    ],
)
def test_a_broken_manifest_is_told_and_kept(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match="not a manifest that can be read"):
        read_manifest(tmp_path)
    with pytest.raises(DataError, match="move it away"):
        write(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == content


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../b", "a//b", "a\\b", "./a"])
def test_a_manifest_that_leads_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    write(tmp_path)
    content = json.loads((tmp_path / "manifest.json").read_text())
    content["files"][path] = content["files"]["quiz/test.jsonl"]
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="inside the folder"):
        read_manifest(tmp_path)


def test_a_later_version_may_say_more(tmp_path: Path) -> None:
    entry = write(tmp_path)
    content = json.loads((tmp_path / "manifest.json").read_text())
    content["files"][entry.path]["colour"] = "green"
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    found = read_manifest(tmp_path)
    assert found is not None
    assert found.entries == {entry.path: entry}


def read(folder: Path, *names: str) -> list[dict[str, str]]:
    """What a loader knows of the files that it has read."""
    return [{"name": name, "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()} for name in names]


def test_copies_of_the_hub_are_told_apart(tmp_path: Path) -> None:
    fetched = write(tmp_path).path
    own = write(tmp_path, "quiz/own.jsonl", origin={"files": []}).path
    (tmp_path / "quiz" / "strange.jsonl").write_text("{}\n")
    assert all_from_hub(tmp_path, read(tmp_path, fetched))
    assert not all_from_hub(tmp_path, [])
    assert not all_from_hub(tmp_path, read(tmp_path, fetched, own))
    assert not all_from_hub(tmp_path, read(tmp_path, fetched, "quiz/strange.jsonl"))
    assert changed(tmp_path, read(tmp_path, fetched, own, "quiz/strange.jsonl")) == []
    (tmp_path / fetched).write_text((tmp_path / fetched).read_text() + "\n")
    assert len(read_rows(tmp_path / fetched)) == 2
    assert not all_from_hub(tmp_path, read(tmp_path, fetched))
    assert changed(tmp_path, read(tmp_path, fetched, own)) == [fetched]
    assert not all_from_hub(tmp_path / "quiz", [])
    (tmp_path / "manifest.json").write_text("{")
    assert not all_from_hub(tmp_path, read(tmp_path, own))
    assert changed(tmp_path, read(tmp_path, fetched)) == []
