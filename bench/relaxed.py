"""Time the scoring of Relaxed Perplexity against one forward pass a branch, and count the tokens of both.

The paper's numbers: completions of n=128 tokens, s=10 of them, l=5 prefixes every 8 tokens; one thread, float32. Both
sides score the same targets after the same prefixes of the same completions, by turns. Printed are medians of CPU time,
which other load on the machine moves least, wall time in brackets, and

* the forward tokens of the transformers engine, beside those of one pass a branch, and beside the least there can be:
  question and used completions once, and of each branch what follows its target's first token
* the time of scoring, and the time with sampling, which is the same for both sides and shown apart
* the largest difference of a log-probability; exits with 1 if it is above 1e-4 nats, or the tokens above 1.3 times the
  least
* how cost grows with n, s, stride and the number of targets (`--figure FILE` draws it)
* the memory that a question of 2,000 tokens takes, beside its budget
* with `--vllm MODEL`, in an environment with vLLM, nothing of the above, but the vLLM engine against the harness's own
  log-likelihoods of the same branches

Example:
    python bench/relaxed.py --figure growth.png
    python bench/relaxed.py --quick
    python bench/relaxed.py --vllm /models/my-model --dtype bfloat16
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import _relaxed_growth as growth
import _relaxed_memory as memory
import _relaxed_vllm as vllm
from _relaxed_jobs import (
    SETTINGS,
    TOLERANCE,
    Setting,
    Subject,
    Timed,
    floor_tokens,
    job_of,
    model_folder,
    naive_tokens,
    random_llama,
    real_model,
    some_branches,
    timed,
)

MOST_TOKENS = 1.3
"""Times the least tokens."""
PARTS = ("scoring", "growth", "memory")
HEAD = (
    f"{'':26} {'forward tokens':^41}  {'scoring, s of CPU time (wall)':^47} {'with sampling':^18}\n"
    f"{'':26} {'a branch':>9} {'here':>7} {'least':>7} {'here/least':>10}     {'a pass a branch':>17} {'here':>15} "
    f"{'ratio':>6} {'aim':>5}  {'sampling':>8} {'ratio':>6}   largest difference"
)


def compare(subject: Subject, setting: Setting, repeats: int, step: int) -> bool:
    """Print a row; return whether the numbers are equal and the tokens few enough.

    Args:
        subject: The model.
        setting: The lengths.
        repeats: Questions, each scored by both sides.
        step: One pass a branch is timed on every so many-th branch, and scaled by the tokens of all of them.
    """
    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward
    from lm_eval_healthcare.relaxed_perplexity.engines.plain import PlainScorer

    engine, plain = subject.engine(), PlainScorer(Forward(subject.model))
    # Before its first scores an engine compares a few branches with plain passes: not a part of any question's cost.
    engine.score([job_of(engine, subject.question(setting, seed=99), replace(setting.settings, samples=1))])
    sampling, ours, theirs, tokens, differences = [], [], [], [], []
    for seed in range(repeats):
        question = subject.question(setting, seed)
        sampling.append(timed(lambda question=question: job_of(engine, question, setting.settings)))
        job = sampling[-1].result
        before = engine.tokens_forwarded
        ours.append(timed(lambda job=job: engine.score([job])[0]))
        tokens.append((naive_tokens(job), engine.tokens_forwarded - before, floor_tokens(job)))
        part = some_branches(job, step)
        found = timed(lambda part=part: plain.score(part))
        scale = naive_tokens(job) / naive_tokens(part)
        theirs.append(Timed(found.result, found.cpu * scale, found.wall * scale))
        differences.append(float(np.abs(ours[-1].result[:, ::step] - found.result).max()))
    naive, here, least = (statistics.median(column) for column in zip(*tokens, strict=True))
    few = max(one / floor for _, one, floor in tokens)
    slow, fast, sampled = (statistics.median(one.cpu for one in each) for each in (theirs, ours, sampling))
    wall_slow, wall_fast = (statistics.median(one.wall for one in each) for each in (theirs, ours))
    equal = max(differences) <= TOLERANCE
    print(
        f"{setting.title:26} {naive:9,.0f} {here:7,.0f} {least:7,.0f} {few:9.2f}x     {slow:7.2f} ({wall_slow:6.2f})"
        f"{'*' if step > 1 else ' '} {fast:7.2f} ({wall_fast:5.2f}) {slow / fast:5.2f}x {setting.aim:>5}  "
        f"{sampled:6.2f} s {(slow + sampled) / (fast + sampled):5.2f}x   {max(differences):.1e}"
        + ("" if equal else f"  NOT EQUAL (allowed: {TOLERANCE:g})")
        + ("" if few <= MOST_TOKENS else f"  TOO MANY TOKENS (allowed: {MOST_TOKENS}x)"),
        flush=True,
    )
    return equal and few <= MOST_TOKENS


def scoring(folder: Path, repeats: int, quick: bool) -> bool:
    """Print the tables of both models."""
    good = True
    for subject, times, step in ((random_llama(), repeats, 1), (real_model(folder), 1, 16 if quick else 8)):
        chosen = SETTINGS[:2] if quick and subject.tokens else SETTINGS
        print(f"\n{subject.name}, {times} question{'s' * (times > 1)}\n{HEAD}", flush=True)
        for setting in chosen:
            good &= compare(subject, setting, times, step)
        if step > 1:
            print(f"* timed on every {step}th branch and scaled by the tokens, since branches cost nothing in common")
    return good


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a real model (default: the small demo model)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and settings, no memory")
    parser.add_argument("--repeats", type=int, default=3, help="questions for the random model (default: 3)")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw how cost grows (.png, .svg or .pdf)")
    parser.add_argument(
        "--memory",
        type=float,
        nargs="+",
        default=[0.5],
        metavar="GIB",
        help="budgets beside the weights (default: 0.5)",
    )
    parser.add_argument("--vllm", metavar="MODEL", help="compare the vLLM engine, with this model")
    parser.add_argument("--dtype", default="float32", help="of vLLM (default: float32)")
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.3, help="of vLLM (default: 0.3)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    import torch
    import transformers

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(
        f"n=128, s=10, l=5, stride 8; 1 of {os.cpu_count()} CPU cores, Python {sys.version.split()[0]}, "
        f"PyTorch {torch.__version__}, transformers {transformers.__version__}"
    )
    if arguments.vllm:
        return int(not vllm.compare(arguments.vllm, arguments.dtype, arguments.gpu_memory_utilization, arguments.quick))
    folder, good = model_folder(arguments.model), True
    repeats = 1 if arguments.quick else arguments.repeats
    if "scoring" in arguments.parts:
        good &= scoring(folder, repeats, arguments.quick)
    if "growth" in arguments.parts:
        good &= growth.show(random_llama(), arguments.quick, arguments.figure)
    if "memory" in arguments.parts and not arguments.quick:
        good &= memory.show(folder, arguments.memory)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
