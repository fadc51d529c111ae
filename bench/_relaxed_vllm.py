"""Time the vLLM engine against the harness's own log-likelihoods of the same branches, in one run on one vLLM."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from _relaxed_jobs import STANDARD, TOLERANCE, Setting, floor_tokens, job_of, naive_tokens, sample_text, timed

SETTINGS = (
    Setting(100, (60,)),
    Setting(100, (12, 12)),
    Setting(1000, (60,), replace(STANDARD, stride=32)),
)
ROUNDING = 1e-6
"""Of a log-probability's size: float32 knows a sum of hundreds of nats no better."""


def load(model: str, dtype: str, share: float) -> Any:
    """Start the harness's vLLM back end as a run of the pack does."""
    from lm_eval.models.vllm_causallms import VLLM

    from lm_eval_healthcare.harness.relaxed_engines import engine_arguments

    arguments = {
        "pretrained": model, "dtype": dtype, "max_model_len": 2048, "gpu_memory_utilization": share,
        "enforce_eager": True, "enable_prefix_caching": True,
    }  # fmt: skip
    return VLLM(**engine_arguments("vllm", arguments))


def compare(model: str, dtype: str, share: float, quick: bool) -> bool:
    """Print a row for each setting; return whether the numbers are equal, as far as the dtype allows to ask."""
    from lm_eval_healthcare.harness.relaxed_codec import Codec
    from lm_eval_healthcare.harness.relaxed_engines import AUTO, engine_for

    lm = load(model, dtype, share)
    engine: Any = engine_for(lm, Codec(lm), AUTO, None)
    tokens, end = lm.tok_encode(sample_text(), add_special_tokens=False), lm.eot_token_id
    tokens = [token for token in tokens if token != end]
    _warm(lm, engine, tokens)
    print(
        f"\nvLLM engine, way `{engine.way}`, against the harness's loglikelihood: {model}, {dtype}; one question each"
    )
    print(
        f"{'':34} {'branches':>8} {'prompt tokens':>14} {'least':>7}   {'harness, s of CPU (wall)':>25} "
        f"{'here, s of CPU (wall)':>22} {'ratio':>6} {'of wall':>8}  {'sampling':>8}   largest difference",
        flush=True,
    )
    good = True
    for setting in SETTINGS[:2] if quick else SETTINGS:
        good &= _row(lm, engine, tokens, setting, dtype)
    return good


def _warm(lm: Any, engine: Any, tokens: list[int]) -> None:
    """Let both sides run once: the engine compares its way with the plain one before its first scores."""
    small = Setting(40, (8,), replace(STANDARD, samples=2, length=8))
    job = job_of(engine, small_question(small, tokens[5000:]), small.settings)
    engine.score([job])
    _harness(lm, job)


def small_question(setting: Setting, tokens: list[int]) -> Any:
    from _relaxed_jobs import Question

    edges = np.cumsum([0, setting.question, *setting.targets])
    question, *targets = (tuple(tokens[a:b]) for a, b in pairwise(edges))
    return Question(question, tuple(targets), 0)


def _harness(lm: Any, job: Any) -> np.ndarray:
    """Score the branches as the harness's `loglikelihood` does once it has tokens."""
    pairs = [
        (("", ""), [*job.question.tokens, *job.prefix_tokens(prefix)], list(target))
        for target in job.question.targets
        for prefix in job.prefixes
    ]
    found = [value for value, _ in lm._loglikelihood_tokens(pairs, disable_tqdm=True)]
    return np.asarray(found).reshape(len(job.question.targets), len(job.prefixes))


def _row(lm: Any, engine: Any, tokens: list[int], setting: Setting, dtype: str) -> bool:
    question = small_question(setting, tokens)
    lm.model.reset_prefix_cache()
    sampling = timed(lambda: job_of(engine, question, setting.settings))
    job = sampling.result
    # As in a run: what the cache still holds of question and completions is there.
    ours = timed(lambda: engine.score([job])[0])
    lm.model.reset_prefix_cache()
    theirs = timed(lambda: _harness(lm, job))
    difference = float(np.abs(ours.result - theirs.result).max())
    exact = dtype == "float32"
    equal = not exact or bool(
        (np.abs(ours.result - theirs.result) <= TOLERANCE + ROUNDING * np.abs(theirs.result)).all()
    )
    print(
        f"{setting.title:34} {job_size(job):8} {naive_tokens(job):14,} {floor_tokens(job):7,}   "
        f"{theirs.cpu:15.1f} ({theirs.wall:6.1f}) {ours.cpu:13.1f} ({ours.wall:5.1f}) {theirs.cpu / ours.cpu:5.2f}x "
        f"{theirs.wall / ours.wall:7.2f}x  {sampling.cpu:6.1f} s   {difference:.1e}{'' if equal else '  NOT EQUAL'}",
        flush=True,
    )
    return equal


def job_size(job: Any) -> int:
    return len(job.prefixes) * len(job.question.targets)
