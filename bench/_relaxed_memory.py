"""The memory that the transformers engine takes for a long question, each budget in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from _relaxed_jobs import STANDARD, Setting, job_of, real_model, timed

LONG = Setting(2000, (60,), replace(STANDARD, length=256))
MIB = 2**20


def show(folder: Path, budgets: list[float]) -> bool:
    """Print the peak increase of a process's resident memory beside its budget; return whether all kept to it."""
    print(f"\nMemory: a question of 2,000 tokens, n=256, s=10, l=5, a target of 60 tokens, {folder.name}, float32, CPU")
    print(
        f"{'memory=':>10} {'peak of sampling':>17} {'peak of scoring':>16} {'in cache':>9} {'CPU time: sampling':>19} "
        f"{'scoring':>9} {'weights':>9}",
        flush=True,
    )
    good = True
    for budget in budgets:
        done = subprocess.run(
            [sys.executable, __file__, str(folder), str(budget)],
            stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "TQDM_DISABLE": "1"},
        )  # fmt: skip
        if done.returncode:
            print(f"{budget:6.2f} GiB  failed (exit status {done.returncode})")
            good = False
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        kept = max(found["sampling"], found["scoring"]) <= budget * 1024
        good &= kept
        print(
            f"{budget:6.2f} GiB {found['sampling']:13.0f} MiB {found['scoring']:12.0f} MiB {found['pools']:5.0f} MiB "
            f"{found['sampling_seconds']:17.0f} s {found['scoring_seconds']:7.0f} s {found['weights']:5.0f} MiB"
            f"{'' if kept else '   MORE THAN THE BUDGET'}",
            flush=True,
        )
    return good


def measured(folder: Path, budget: float) -> dict[str, float]:
    """Return what sampling and scoring take at their peak beyond what is there before, in MiB and seconds."""
    import torch

    torch.set_num_threads(1)
    subject = real_model(folder)
    with torch.inference_mode():
        subject.model(torch.tensor([[5] * 8]))  # weights that are mapped from a file are there only when they are read
    engine = subject.engine(memory=budget)
    question = subject.question(LONG)
    before = _reset()
    sampled = timed(lambda: job_of(engine, question, LONG.settings))
    peaks = [_peak() - before]
    before = _reset()
    scored = timed(lambda: engine.score([sampled.result]))
    peaks.append(_peak() - before)
    job = sampled.result
    used: dict[int, int] = {}
    for prefix in job.prefixes:
        used[prefix.sample] = max(used.get(prefix.sample, 0), prefix.position)
    config = subject.model.config
    size = config.head_dim * config.num_key_value_heads * 2 * 4 * config.num_hidden_layers
    return {
        "sampling": peaks[0] / MIB,
        "scoring": peaks[1] / MIB,
        "pools": (len(question.tokens) + sum(used.values())) * size / MIB,
        "sampling_seconds": sampled.cpu,
        "scoring_seconds": scored.cpu,
        "weights": sum(part.numel() * part.element_size() for part in subject.model.parameters()) / MIB,
    }


def _reset() -> int:
    """Forget the peak, where the system can, and return the resident memory in bytes."""
    import gc

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines: Any = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), float(sys.argv[2]))))
