"""Many chat completions at once: workers in the event loop's thread, and their replies for who asked."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from lm_eval_healthcare.judge.backends import chat_reply
from lm_eval_healthcare.judge.backends.base import Ask, Reply
from lm_eval_healthcare.judge.backends.chat_reply import Again, Declined
from lm_eval_healthcare.judge.backends.chat_request import Dialect, Understanding
from lm_eval_healthcare.judge.backends.http_loop import Gone, HttpLoop, Unanswered
from lm_eval_healthcare.judge.backends.retries import Pace
from lm_eval_healthcare.judge.backends.server_address import ServerAddress
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import Sampling

BODY = 10_000_000
logger = logging.getLogger(__name__)

_BODY_PER_TOKEN = 4_000
"""Bytes that are read of a reply; each token may come with its log-probabilities."""
_PATIENCE = 900.0
"""Seconds for which one request waits for a rate limit to end."""
_LONG_WAIT = 20.0
"""Seconds of waiting of which a user wants to know."""
_FEWEST_FAILURES = 8
"""So many requests in a row must have failed, or one for each that is made at once, before the server has gone."""


@dataclass(frozen=True)
class Effort:
    """How hard a server is asked.

    Attributes:
        concurrency: Requests at once.
        timeout: Seconds for one request.
        retries: Repeats of one request.
        first_wait: Seconds before the first repeat.
    """

    concurrency: int
    timeout: float
    retries: int
    first_wait: float

    def __post_init__(self) -> None:
        """Refuse values that make no sense.

        Raises:
            JudgeError: If there is one.
        """
        for name, allowed, right in (
            ("concurrency", "a whole number from 1 to 1000", 1 <= self.concurrency <= 1000),
            ("timeout", "seconds above 0, at most a day", 0 < self.timeout <= 86400),
            ("retries", "a whole number from 0 to 100", 0 <= self.retries <= 100),
            ("first_wait", "seconds above 0, at most 60", 0 < self.first_wait <= 60),
        ):
            if not right:
                raise JudgeError(f"the judge's {name} is {getattr(self, name)}; expected {allowed}")


class Flow:
    """The requests of one run: give some, take replies, stop."""

    def __init__(
        self,
        http: HttpLoop,
        address: ServerAddress,
        model: str,
        understanding: Understanding,
        effort: Effort,
        sampling: Sampling,
    ) -> None:
        """Start the workers."""
        self._http, self._address, self._model = http, address, model
        self._understanding, self._effort, self._sampling = understanding, effort, sampling
        self._url = address.url("chat/completions")
        self._most_bytes = BODY + _BODY_PER_TOKEN * sampling.max_tokens
        self._pace = Pace(effort.concurrency, effort.first_wait, random.Random())
        self._mark, self._names = f"judge-{secrets.token_hex(8)}-", itertools.count()
        self._failures = 0
        self._told_until = 0.0
        self._done: list[Reply | BaseException] = []
        self._handed: queue.SimpleQueue[list[Reply | BaseException]] = queue.SimpleQueue()
        self._taken: Iterator[Reply | BaseException] = iter(())
        self._workers: list[asyncio.Task[None]] = []
        http.call(self._begin())

    async def _begin(self) -> None:
        self._asks: asyncio.Queue[Ask] = asyncio.Queue()
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._effort.concurrency)]

    def give(self, asks: list[Ask]) -> None:
        """Hand requests over."""
        if asks and self._http.alive:
            self._http.loop.call_soon_threadsafe(self._put, asks)

    def _put(self, asks: list[Ask]) -> None:
        for ask in asks:
            self._asks.put_nowait(ask)

    def take(self) -> Reply:
        """Wait for a reply.

        Raises:
            JudgeError: If the server has gone.
        """
        while (done := next(self._taken, None)) is None:
            try:
                # With a limit, so that Ctrl-C is heard on every system.
                self._taken = iter(self._handed.get(timeout=1))
            except queue.Empty:
                if not self._http.alive:
                    raise JudgeError("the judge's back end was closed while it was asked") from None
        if isinstance(done, BaseException):
            raise done
        return done

    def _hand_over(self, done: Reply | BaseException) -> None:
        """Give a reply to the other thread, together with those that come at the same moment.

        Every hand-over wakes that thread, which then holds up this one.
        """
        self._done.append(done)
        if len(self._done) == 1:
            self._http.loop.call_soon(self._hand_over_all)

    def _hand_over_all(self) -> None:
        done, self._done = self._done, []
        self._handed.put(done)

    def stop(self) -> None:
        """Cancel what is under way, and wait until nothing is."""
        if self._http.alive:
            self._http.call(self._end())

    async def _end(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            ask = await self._asks.get()
            try:
                reply = await self._answered(ask)
                self._hand_over(reply)
                self._notice(reply)
            except asyncio.CancelledError:
                raise
            except Gone as error:
                said = self._address.hide(str(error))
                self._hand_over(JudgeError(f"the judge's server at {self._address.shown} cannot go on: {said}"))
                return
            except BaseException as error:
                self._hand_over(error)
                return

    def _notice(self, reply: Reply) -> None:
        """Raise if so many requests failed that the server must have gone."""
        self._failures = self._failures + 1 if reply.reason is Reason.NO_REPLY else 0
        if self._failures >= max(_FEWEST_FAILURES, self._effort.concurrency):
            raise Gone(
                f"the last {self._failures} requests were not answered ({reply.detail}); start it again, then repeat "
                "the command, which asks only for what is missing"
            )

    async def _answered(self, ask: Ask) -> Reply:
        """Ask until there is a reply, or none to be had."""
        pace, clock = self._pace, self._http.loop.time
        repeats, begun = 0, clock()
        while True:
            started = await pace.turn()
            spoken = self._understanding.dialect
            try:
                reply = await self._asked(ask, spoken)
                self._understanding.proven |= self._understanding.dialect == spoken
                pace.faster()
                return reply
            except Declined as declined:
                if declined.form and self._understanding.learn(spoken, str(declined), declined.parameter):
                    continue
                return self._without(ask, declined.reason, str(declined))
            except Again as error:
                again = error
            finally:
                pace.done()
            now = clock()
            said = self._address.hide(str(again))
            if again.limited:
                pace.slower(started, now)
            if again.wait is not None:
                pace.pause(again.wait, now)
                if again.wait >= _LONG_WAIT and now >= self._told_until:
                    self._told_until = now + again.wait
                    logger.warning("the judge's server asks to wait %.0f s (%s)", again.wait, said)
            if again.limited and now - begun >= _LONG_WAIT and now >= self._told_until:
                self._told_until = now + 3 * _LONG_WAIT
                logger.warning(
                    "the server has put requests off for %.0f s (%s); they are given up after %.0f s",
                    now - begun, said, _PATIENCE,
                )  # fmt: skip
            repeats += not again.limited
            if repeats > self._effort.retries or (again.limited and now - begun > _PATIENCE):
                return self._without(ask, Reason.NO_REPLY, f"{again} (asked {_times(repeats)}, {now - begun:.0f} s)")
            await asyncio.sleep(pace.wait_before(max(1, repeats)))

    def _without(self, ask: Ask, reason: Reason, detail: str) -> Reply:
        return Reply(ask.number, None, reason, self._address.hide(detail))

    async def _asked(self, ask: Ask, spoken: Dialect) -> Reply:
        body = spoken.body(self._model, ask, self._sampling)
        name = f"{self._mark}{next(self._names)}."
        try:
            answer = await self._http.send("POST", self._url, body, self._effort.timeout, self._most_bytes, name)
        except Unanswered as error:
            if not error.again:
                raise Declined(Reason.NO_REPLY, str(error)) from None
            raise Again(str(error)) from None
        wait = chat_reply.demanded_wait(answer.headers, refused=False)
        if wait is not None:
            self._pace.pause(wait, self._http.loop.time())
        # vLLM puts a request's name into the reply's; a reply with another one of our names is another request's.
        if self._mark.encode() in answer.data and name.encode() not in answer.data:
            raise Again("the reply to another request")
        return chat_reply.read(answer, ask.number)


def _times(repeats: int) -> str:
    return "once" if repeats == 1 else f"{repeats} times"
