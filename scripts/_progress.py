"""Telling the user what a script is doing and for how long. Shared by the scripts here; standard library only."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence


class Progress:
    """Numbered steps with their times, on standard output."""

    def __init__(self, total: int) -> None:
        """Start with the number of steps that will come."""
        self.total = total
        self.number = 0
        self._note = ""

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print the title of a step, and how long it took once it is done."""
        self.number += 1
        self._note = ""
        say(f"[{self.number}/{self.total}] {title}")
        started = time.monotonic()
        yield
        say(f"      {self._note or 'done'} ({duration(time.monotonic() - started)})")

    def note(self, text: str) -> None:
        """Say something else than "done" at the end of the current step."""
        self._note = text


def say(text: str) -> None:
    """Print a line at once, so that it stands before whatever a child process prints next."""
    print(text, flush=True)


def show(command: Sequence[str]) -> str:
    """Return a command as the user would type it in a shell of this machine."""
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


def duration(seconds: float) -> str:
    """Return a duration for people: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Ticker:
    """Shows what is going on and for how long: in one line on a terminal, else every half minute."""

    def __init__(self) -> None:
        self._text = ""
        self._started = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._clear()

    def tell(self, text: str, lasting: bool) -> None:
        if not text:
            return
        with self._lock:
            self._text = text
            if lasting:
                self._clear()
                say(f"      {text}")

    def _clear(self) -> None:
        if self._terminal:
            print("\r\033[K", end="", flush=True)

    def _tick(self) -> None:
        while not self._stop.wait(1.0 if self._terminal else 30.0):
            passed = duration(time.monotonic() - self._started)
            with self._lock:
                if self._terminal:
                    width = max(20, shutil.get_terminal_size().columns - 20)
                    print(f"\r\033[K      {passed}  {self._text[:width]}", end="", flush=True)
                else:
                    say(f"      … {passed}, {self._text}")
