"""The score cache: exact values back, safe with several processes and kills, and never in the way of a score."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lm_eval_healthcare.scoring.score_cache import FILE_NAME, ScoreCache, key
from support import child_environment

SIGNATURE = "warmth|impl:test"


def test_key_is_the_hash_of_lengths_and_bytes() -> None:
    # Written out by hand: 8 bytes of length, then the text in UTF-8; prediction first, references in sorted order.
    content = bytes([0] * 7 + [3]) + b"abc" + bytes([0] * 7 + [1]) + b"x" + bytes([0] * 7 + [2]) + "é".encode()
    assert key("abc", ["é", "x"]) == hashlib.sha256(content).digest()


def test_keys_tell_texts_apart_and_not_their_order() -> None:
    assert key("a", ["b", "c"]) == key("a", ["c", "b"]) == key("a", ("b", "c"))
    others = [key("ab", ["c"]), key("a", ["bc"]), key("a", ["b", "c"]), key("b", ["a"]), key("a", ["b"]), key("", [""])]
    assert len(set(others)) == len(others)
    assert key("\ud800", ["\udfff"]) != key("\ud801", ["\udfff"])


def test_values_come_back_to_the_last_bit(tmp_path: Path) -> None:
    values = [0.1 + 0.2, 1 / 3, -1.2345678901234567, 5e-324, 1.0, 0.0, math.inf]
    keys = [key(str(n), ["r"]) for n in range(len(values))]
    with ScoreCache.open(tmp_path) as cache:
        for one, value in zip(keys, values, strict=True):
            cache.put(SIGNATURE, one, value, truncated=value > 0.5)
        assert cache.get(SIGNATURE, keys)[keys[0]] == (0.1 + 0.2, False)  # before it is written, too
    with ScoreCache.open(tmp_path) as cache:
        found = cache.get(SIGNATURE, keys)
        assert [found[one] for one in keys] == [(value, value > 0.5) for value in values]
        assert cache.get("warmth|impl:other", keys) == {}


def test_many_keys_are_found_in_one_question(tmp_path: Path) -> None:
    keys = [key(str(n), ["r"]) for n in range(2345)]
    with ScoreCache.open(tmp_path) as cache:
        for n, one in enumerate(keys):
            cache.put(SIGNATURE, one, float(n))
        cache.flush()
        assert {one: entry[0] for one, entry in cache.get(SIGNATURE, [*keys, key("new", [])]).items()} == {
            one: float(n) for n, one in enumerate(keys)
        }


def test_nan_is_not_kept_and_the_first_value_stays(tmp_path: Path) -> None:
    with ScoreCache.open(tmp_path) as first, ScoreCache.open(tmp_path) as second:
        first.put(SIGNATURE, key("a", ["b"]), math.nan)
        first.put(SIGNATURE, key("c", ["d"]), 0.25)
        first.flush()
        second.put(SIGNATURE, key("c", ["d"]), 0.75)
        second.flush()
    with ScoreCache.open(tmp_path) as cache:
        assert cache.get(SIGNATURE, [key("a", ["b"]), key("c", ["d"])]) == {key("c", ["d"]): (0.25, False)}


def test_texts_are_not_in_the_file(tmp_path: Path) -> None:
    with ScoreCache.open(tmp_path) as cache:
        cache.put(SIGNATURE, key("the patient's own words", ["a reference"]), 0.5)
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"own words" not in content
    assert b"a reference" not in content


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("folder", f"folder/{FILE_NAME}"), ("deep/folder", f"deep/folder/{FILE_NAME}"), ("mine.db", "mine.db"),
        ("new/Mine.SQLite3", "new/Mine.SQLite3"), ("v1.2", f"v1.2/{FILE_NAME}"), ("there.already", "there.already"),
        ("folder.db", f"folder.db/{FILE_NAME}"),
    ],
)  # fmt: skip
def test_where_the_file_lies(tmp_path: Path, given: str, file: str) -> None:
    (tmp_path / "there.already").touch()
    (tmp_path / "folder.db").mkdir()
    with ScoreCache.open(tmp_path / given) as cache:
        cache.put(SIGNATURE, b"k", 1.0)
    assert (tmp_path / file).is_file()


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_new_file_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with ScoreCache.open(tmp_path / "new" / "cache") as cache:
            cache.put(SIGNATURE, b"k", 1.0)
            cache.flush()
            files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new" / "cache").iterdir()}
    finally:
        os.umask(before)
    assert files == {FILE_NAME: 0o600, f"{FILE_NAME}-wal": 0o600, f"{FILE_NAME}-shm": 0o600}
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ScoreCache.open(tmp_path).close()
    (tmp_path / FILE_NAME).chmod(0o640)  # shared with a group
    ScoreCache.open(tmp_path).close()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / FILE_NAME)] == [0o755, 0o640]


def test_default_place_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ScoreCache.open() as cache:
        assert cache.path == tmp_path / "lm_eval_healthcare" / FILE_NAME


def test_off_holds_nothing() -> None:
    with ScoreCache.open("off") as cache:
        cache.put(SIGNATURE, b"k", 1.0)
        cache.flush()
        assert not cache.is_open
        assert cache.get(SIGNATURE, [b"k"]) == {}


def _unusable(tmp_path: Path, how: str) -> Path:
    if how == "no database":
        (tmp_path / FILE_NAME).write_bytes(b"this is not a database, and long enough to be none" * 40)
    elif how == "newer":
        connection = sqlite3.connect(tmp_path / FILE_NAME)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    elif how == "a file in the way":
        (tmp_path / "taken").write_text("")
        return tmp_path / "taken" / "folder"
    return tmp_path


@pytest.mark.parametrize("how", ["no database", "newer", "a file in the way"])
def test_unusable_file_costs_a_warning(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), ScoreCache.open(_unusable(tmp_path, how)) as cache:
        cache.put(SIGNATURE, b"k", 1.0)
        cache.flush()
        assert cache.get(SIGNATURE, [b"k"]) == {}
    assert len(caplog.records) == 1
    assert "delete the file, or choose another folder" in caplog.text


def test_full_disk_costs_a_warning_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), ScoreCache.open(tmp_path) as cache:
        assert cache._connection is not None
        pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
        cache._connection.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite says then is what a full disk says
        for n in range(20000):
            cache.put(SIGNATURE, key(str(n), ["r"]), 0.5)
        cache.flush()
        cache.put(SIGNATURE, b"k", 0.5)
        cache.flush()
        assert not cache.is_open
    assert len(caplog.records) == 1
    assert "full" in caplog.text


def test_damaged_page_is_found_while_reading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = [key(str(n), ["r"]) for n in range(3000)]
    with ScoreCache.open(tmp_path) as cache:
        for one in keys:
            cache.put(SIGNATURE, one, 0.5)
    file = tmp_path / FILE_NAME
    content = bytearray(file.read_bytes())
    content[4096 * 3 :] = bytes(len(content) - 4096 * 3)
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING), ScoreCache.open(tmp_path) as cache:
        cache.get(SIGNATURE, keys)
    assert len(caplog.records) == 1


def test_what_is_put_is_written_without_a_further_call(tmp_path: Path) -> None:
    with ScoreCache.open(tmp_path) as cache, ScoreCache.open(tmp_path) as other:
        cache.put(SIGNATURE, b"k", 0.5)
        deadline = time.monotonic() + 20
        while not other.get(SIGNATURE, [b"k"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert other.get(SIGNATURE, [b"k"]) == {b"k": (0.5, False)}


WRITER = """
import sys
from lm_eval_healthcare.scoring.score_cache import ScoreCache, key
cache = ScoreCache.open(sys.argv[1])
start, end = int(sys.argv[2]), int(sys.argv[3])
print("open", flush=True)
for n in range(start, end):
    cache.put(f"m{n % 3}", key(str(n), ["r"]), n / 7)
    if n % 50 == 0:
        cache.flush()
        print(n, flush=True)
if len(sys.argv) > 4:
    cache.flush()
    print("written", flush=True)
    input()
"""


def _writer(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment(),
    )  # fmt: skip


def test_four_processes_write_at_once(tmp_path: Path) -> None:
    writers = [_writer(tmp_path, 500 * n, 500 * n + 1000) for n in range(4)]  # each pair overlaps with its neighbour
    assert [writer.wait(60) for writer in writers] == [0] * 4
    for writer in writers:
        writer.communicate()
    with ScoreCache.open(tmp_path) as cache:
        for n in range(2500):
            assert cache.get(f"m{n % 3}", [key(str(n), ["r"])]) == {key(str(n), ["r"]): (n / 7, False)}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_killed_process_has_left_what_it_flushed(tmp_path: Path) -> None:
    writer = _writer(tmp_path, 0, 300, "wait")
    assert writer.stdout is not None
    while writer.stdout.readline().strip() != "written":
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    with ScoreCache.open(tmp_path) as cache:
        found = [cache.get(f"m{n % 3}", [key(str(n), ["r"])]) for n in range(300)]
    assert all(found)
