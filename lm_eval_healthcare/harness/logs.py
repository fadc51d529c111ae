"""The pack's log lines appear where the harness's do, in any command that runs the harness."""

from __future__ import annotations

import logging


def join_harness_log() -> None:
    """Send the pack's log records to the harness's handlers, if it has set up any and the pack has none."""
    harness, pack = logging.getLogger("lm_eval"), logging.getLogger("lm_eval_healthcare")
    if not harness.handlers or pack.handlers:
        return
    for handler in harness.handlers:
        pack.addHandler(handler)
    pack.setLevel(harness.level)
    pack.propagate = False
