"""A real browser for tests of pages: Chromium, driven through a pipe, so that no socket is needed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_KEYS = {"ArrowDown": 40, "ArrowRight": 39, "End": 35, "Home": 36, "Tab": 9}


def program() -> str | None:
    """The browser on this machine, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


# The browser reads from descriptor 3 and writes to 4.
_LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of a browser without a window."""

    def __init__(self, profile: Path) -> None:
        to_child, ours_out = os.pipe()
        ours_in, from_child = os.pipe()
        command = [
            str(program()), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(to_child), str(from_child), *command],
            pass_fds=(to_child, from_child), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._out, self._in, self._rest, self._number = ours_out, ours_in, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        os.write(
            self._out,
            json.dumps({**message, **({"sessionId": self._session} if self._session else {})}).encode() + b"\0",
        )
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise EOFError("the browser has ended")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._next())

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a condition holds in the page."""
        self.js(f"(async () => {{ while (!({condition})) await new Promise((go) => setTimeout(go, 5)); }})()")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=_KEYS[name])

    def faults(self) -> list[Any]:
        """What the page logged as errors: exceptions, and what its policy stopped."""
        bad = ("Log.entryAdded", "Runtime.exceptionThrown")
        return [one["params"] for one in self.events if one.get("method") in bad]

    def asked_for(self) -> list[str]:
        """The addresses of everything that the page loaded."""
        return [
            one["params"]["request"]["url"] for one in self.events if one.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self.call("Browser.close")
        self._process.wait(30)
        os.close(self._out)
        os.close(self._in)
