"""When to ask a server again: waits that grow, waits that it demands, and fewer requests at once if it says so."""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import re
import time
from collections.abc import Mapping
from datetime import datetime

LONGEST_WAIT = 120.0
"""Seconds; no server makes us wait longer before the next try."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_EPOCH = 1e9
"""A number of seconds above this, 32 years, is a time of day and no duration."""


class Pace:
    """How many requests are in work, and when the next may begin; for one event loop.

    A rate limit halves the number of requests at once, and every success lets it grow again, so that a server is not
    asked by all at the end of a pause. A pause that the server demands holds for everyone,
    a growing wait for one request.
    """

    def __init__(self, most: int, first_wait: float, rng: random.Random) -> None:
        """Begin at full speed.

        Args:
            most: Requests at once.
            first_wait: Seconds before the first repeat of a request; the double before the next, and so on.
            rng: For the jitter.
        """
        self.most, self.first_wait, self._rng = most, first_wait, rng
        self._limit = float(most)
        self._in_work = 0
        self._paused_until = self._slowed_at = 0.0

    async def turn(self) -> float:
        """Wait until another request may begin; return the time at which it does."""
        clock = asyncio.get_running_loop().time
        while (now := clock()) < self._paused_until or self._in_work >= max(1, int(self._limit)):
            await asyncio.sleep(max(0.01, self._paused_until - now) * self._rng.uniform(1, 1.2))
        self._in_work += 1
        return now

    def done(self) -> None:
        """Let another request begin."""
        self._in_work -= 1

    def faster(self) -> None:
        """Learn of a success."""
        if self._limit < self.most:
            self._limit = min(float(self.most), self._limit + 4 / self._limit)

    def slower(self, started: float, now: float) -> None:
        """Learn of a rate limit; those that began before the last one was known say nothing new."""
        if started >= self._slowed_at:
            self._limit, self._slowed_at = max(1.0, self._limit / 2), now

    def pause(self, seconds: float, now: float) -> None:
        """Let nobody begin for some time."""
        self._paused_until = max(self._paused_until, now + min(seconds, LONGEST_WAIT))

    def wait_before(self, repeat: int) -> float:
        """Return the seconds to wait before the n-th repeat of one request, the first being 1."""
        return min(LONGEST_WAIT / 2, self.first_wait * 2.0 ** (repeat - 1)) * self._rng.uniform(0.5, 1)


def demanded_wait(headers: Mapping[str, str], refused: bool) -> float | None:
    """Return the seconds that a reply's headers ask everyone to wait; None if they do not.

    Args:
        headers: With names in any case, as HTTP libraries give them.
        refused: Whether the reply is an error. `Retry-After` counts only then; `x-ratelimit-reset-…` counts, for
            requests and for tokens, where the same limit's `x-ratelimit-remaining-…` is 0.
    """
    waits = []
    if refused:
        milliseconds = as_seconds(headers.get("retry-after-ms", ""))
        waits += [as_seconds(headers.get("Retry-After", "")), milliseconds and milliseconds / 1000]
    for kind in ("-requests", "-tokens", ""):
        remaining = headers.get(f"x-ratelimit-remaining{kind}")
        if remaining is not None and remaining.strip() in ("0", "0.0"):
            waits.append(as_seconds(headers.get(f"x-ratelimit-reset{kind}", "")))
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def as_seconds(text: str, now: float | None = None) -> float | None:
    """Read a wait: seconds, a duration such as `6m0s` or `20ms`, or a time: seconds since 1970, HTTP's or ISO 8601.

    Args:
        text: What a header holds.
        now: Seconds since 1970; the clock's if None.

    Returns:
        Seconds from now, 0 if the time is past; None if the text is none of these.
    """
    text = text.strip()
    now = time.time() if now is None else now
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(number):
            return None
        return max(0.0, number - now if number > _EPOCH else number)
    found = _DURATION.findall(text)
    if found and "".join(number + unit for number, unit in found) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in found)
    when = _time_of_day(text)
    return None if when is None else max(0.0, when - now)


def _time_of_day(text: str) -> float | None:
    for read in (email.utils.parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text.replace("Z", "+00:00") if read is datetime.fromisoformat else text)
        except (ValueError, TypeError):
            continue
        return when.timestamp() if when.tzinfo else None
    return None
