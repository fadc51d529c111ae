"""How far a long command is: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

LINE_SECONDS = 30.0
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, about {remaining} left"


class Progress:
    """Shows on stderr how much of something is done, and about how long the rest will take."""

    def __init__(self, total: float) -> None:
        """Take what there is to do, in any unit."""
        self._total, self._done = total, 0.0
        self._started = self._told = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        """Open the bar, which appears after two seconds."""
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, file=sys.stderr, delay=2, bar_format=_BAR, leave=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def advance(self, subject: str, amount: float) -> None:
        """Count an amount as done.

        Args:
            subject: What is being worked on.
            amount: How much of it is done, in the unit of the total.
        """
        self._done += amount
        if self._bar is not None:
            self._bar.set_description(subject, refresh=False)
            self._bar.update(amount)
            return
        now = time.monotonic()
        if now - self._told >= LINE_SECONDS and 0 < self._done < self._total:
            self._told = now
            rest = (now - self._started) / self._done * (self._total - self._done)
            print(f"{self._done / self._total:.0%} done ({subject}), about {_duration(rest)} left", file=sys.stderr)


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
