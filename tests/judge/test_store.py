"""The store of verdicts: what is put in is there at once, for others and after kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.store import Stored, VerdictStore
from support import child_environment

KEY = bytes(range(32))


def stored(attempt: int = 0, sample: int = 0, score: int | None = 4, text: str | None = "Good. [RESULT] 4") -> Stored:
    return Stored(KEY, sample, attempt, score, None if score else Reason.NO_VERDICT, text=text)


def test_what_is_put_in_comes_out(tmp_path: Path) -> None:
    text = "Feedback: \U0001f642 \ud800 \x00 \u202e end [RESULT] 3"
    whole = Stored(KEY, 1, 2, 3, None, True, 3.25, "stop", text, 700, 31)
    with VerdictStore.open(tmp_path / "cache") as store:
        store.put("judge a", whole)
        (found,) = store.texts("judge a", [KEY])
        (without,) = store.verdicts("judge a", [KEY])
    assert found == Stored(KEY, 1, 2, 3, None, True, 3.25, "stop", text, 700, 31, written=found.written)
    assert found.written > 1.7e9
    assert without.text is None
    assert without.score == 3


def test_judges_are_kept_apart_and_the_first_verdict_stays() -> None:
    with VerdictStore.open("off") as store:
        store.put("a", stored(score=4))
        store.put("a", stored(score=1))  # as two commands that asked at the same moment
        store.put("b", stored(score=2))
        assert [one.score for one in store.verdicts("a", [KEY])] == [4]
        assert [one.score for one in store.verdicts("b", [KEY])] == [2]
        assert list(store.verdicts("c", [KEY])) == []
        assert list(store.verdicts("a", [b"other" * 6])) == []


def test_attempts_come_in_order_and_many_keys_are_found() -> None:
    keys = [number.to_bytes(32, "big") for number in range(1500)]
    with VerdictStore.open("off") as store:
        for attempt in (2, 0, 1):
            store.put("a", stored(attempt))
        for key in keys:
            store.put("a", Stored(key, 0, 0, 5, None))
        assert [one.attempt for one in store.verdicts("a", [KEY])] == [0, 1, 2]
        assert len(list(store.verdicts("a", [*keys, *keys]))) == 1500


def test_texts_are_left_out_where_they_must_not_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite3"
    with VerdictStore.open(path) as store:
        store.put("a", stored(text="Mrs Example has gout. [RESULT] 4"), keep_text=False)
        (found,) = store.texts("a", [KEY])
    assert (found.score, found.text) == (4, None)
    assert all(b"Example" not in file.read_bytes() for file in tmp_path.iterdir())


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    with VerdictStore.open(tmp_path / "new") as store:
        store.put("a", stored())
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert (tmp_path / "new" / "verdicts.sqlite3").stat().st_mode & 0o077 == 0


KILLED = """
import os, signal, sys
from lm_eval_healthcare.judge.store import Stored, VerdictStore
store = VerdictStore.open(sys.argv[1])
for number in range(50):
    store.put("a", Stored(number.to_bytes(32, "big"), 0, 0, 5, None, text="x"))
store.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_has_lost_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "v.db")], env=child_environment(), check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    with VerdictStore.open(tmp_path / "v.db") as store:
        assert len(list(store.verdicts("a", (number.to_bytes(32, "big") for number in range(50))))) == 50


def test_two_stores_share_a_file(tmp_path: Path) -> None:
    with VerdictStore.open(tmp_path / "v.db") as one, VerdictStore.open(tmp_path / "v.db") as two:
        one.put("a", stored(0))
        two.put("a", stored(1))
        two.put("b", stored(0))
        two.flush()
        assert [found.attempt for found in one.verdicts("a", [KEY])] == [0, 1]
        assert [found.attempt for found in one.verdicts("b", [KEY])] == [0]


@pytest.mark.parametrize("content", [b"this is no database" * 100, None])
def test_a_file_that_cannot_be_used_costs_a_warning(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "v.db"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with VerdictStore.open(path) as store:
        store.put("a", stored())
        assert [one.text for one in store.texts("a", [KEY])] == ["Good. [RESULT] 4"]
    assert "cannot be kept" in caplog.text
    assert path.read_bytes() == before


def test_a_damaged_verdict_is_as_if_it_were_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with VerdictStore.open(tmp_path / "v.db") as store:
        store.put("a", stored(0))
        store.put("a", stored(1))
    connection = sqlite3.connect(tmp_path / "v.db")
    connection.execute("UPDATE verdicts SET text = x'00ff' WHERE attempt = 0")
    connection.commit()
    connection.close()
    with VerdictStore.open(tmp_path / "v.db") as store:
        assert [one.attempt for one in store.texts("a", [KEY])] == [1]
    assert "is damaged" in caplog.text


def test_what_cannot_be_written_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    with VerdictStore.open("off") as store:
        store.put("a", stored(0))
        store.put("a", Stored(KEY, 0, 1, 2**70, None))  # SQLite's integers end at 2**63
        store.put("a", stored(2))
        assert [one.attempt for one in store.verdicts("a", [KEY])] == [0, 2]
    assert "cannot be kept" in caplog.text


def test_a_full_disk_loses_nothing_that_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with VerdictStore.open(tmp_path / "v.db") as store:
        store.put("a", stored(0))
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")  # as SQLite sees a disk without room
        noise = os.urandom(40_000).hex()
        store.put("a", stored(1, text=noise))
        store.put("a", stored(2))
        assert [one.text for one in store.texts("a", [KEY])] == ["Good. [RESULT] 4", noise, "Good. [RESULT] 4"]
    assert "full" in caplog.text
    assert caplog.text.count("cannot be kept") == 1
