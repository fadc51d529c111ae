"""The thread that talks with a server, and its end."""

from __future__ import annotations

import asyncio
import contextlib

from lm_eval_healthcare.judge.backends.http_loop import HttpLoop
from lm_eval_healthcare.judge.backends.server_address import ServerAddress


def test_work_that_overhears_a_cancellation_does_not_hold_up_the_end() -> None:
    """What is cancelled at the moment its reply is there takes the reply and goes on."""
    http, overheard = HttpLoop(ServerAddress("http://127.0.0.1:9/v1", api_key="none")), []

    async def goes_on() -> None:
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            overheard.append("cancelled")
        await asyncio.sleep(3600)

    async def start() -> asyncio.Task[None]:
        task = asyncio.ensure_future(goes_on())
        await asyncio.sleep(0)
        return task

    task = http.call(start())
    http.close()
    assert overheard == ["cancelled", "cancelled"]
    assert task.cancelled()
    assert not http.alive
