"""How long it takes until something happens: our commands against plain `lm_eval`, in one run.

Prints medians of several fresh processes, interleaved, and their ratios. "First request" is the moment the model is
asked for the first time, for one task of the pack: with the harness's own command (`--include_path`, all its YAMLs
indexed) and with `lm-eval-healthcare run`. "Imports of a run" are the modules that the harness itself loads until then.

Example:
    python bench/startup.py --repeats 5
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

FIRST_REQUEST = """
import sys, time
import lm_eval.models.dummy as dummy
def first(self, requests, disable_tqdm=False):
    print("FIRST REQUEST", time.time(), flush=True)
    raise SystemExit(0)
dummy.DummyLM.generate_until = first
{call}
"""
OURS = "from lm_eval_healthcare.cli.main import main; main(sys.argv[1:])"
THEIRS = "from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
ARGUMENTS = ["run", "--model", "dummy", "--tasks", "careqa_open", "--metadata", "data=sample"]


def seconds(command: list[str], marker: str | None = None) -> float:
    """Wall time of a process, or until it prints `marker` with the time."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    end = time.time()
    if marker is None:
        if done.returncode:
            raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
        return end - start
    lines = [line for line in done.stdout.splitlines() if line.startswith(marker)]
    if not lines:
        raise SystemExit(f"{command} asked no model:\n{done.stderr[-2000:]}")
    return float(lines[0].removeprefix(marker)) - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes for each measurement (default: 5)")
    repeats = parser.parse_args().repeats
    from lm_eval_healthcare import tasks_path

    python = sys.executable
    include = ["--include_path", str(tasks_path())]
    cases = {
        "python itself": ([python, "-c", "pass"], None),
        "import lm_eval": ([python, "-c", "import lm_eval"], None),
        "import lm_eval_healthcare": ([python, "-c", "import lm_eval_healthcare"], None),
        "lm_eval --help": ([python, "-m", "lm_eval", "--help"], None),
        "lm-eval-healthcare --help": ([python, "-m", "lm_eval_healthcare.cli.main", "--help"], None),
        "imports of a run": (
            [python, "-c", "import torch, lm_eval.evaluator, lm_eval.tasks"],
            None,
        ),
        "first request, lm_eval": (
            [python, "-c", FIRST_REQUEST.format(call=THEIRS), *ARGUMENTS, *include],
            "FIRST REQUEST",
        ),
        "first request, lm-eval-healthcare": (
            [python, "-c", FIRST_REQUEST.format(call=OURS), *ARGUMENTS],
            "FIRST REQUEST",
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(repeats + 1):
        for name, (command, marker) in cases.items():
            taken = seconds(command, marker)
            if round_number:  # the first round warms the file cache
                times[name].append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:36s} {median:7.3f} s   (min {min(times[name]):.3f}, max {max(times[name]):.3f})")

    def ratio(slow: str, fast: str) -> None:
        print(f"{slow} / {fast}: {medians[slow] / medians[fast]:.1f}x")

    print()
    ratio("first request, lm_eval", "first request, lm-eval-healthcare")
    ratio("first request, lm-eval-healthcare", "imports of a run")
    ratio("lm_eval --help", "lm-eval-healthcare --help")


if __name__ == "__main__":
    main()
