"""Models, questions and branches for the benchmarks of Relaxed Perplexity, and how many tokens branches cost."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lm_eval_healthcare.relaxed_perplexity import Settings, choose
from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.transformers_engine import TransformersEngine

STANDARD = Settings(samples=10, keep=5, length=128, stride=8, end="ignore")
"""The paper's numbers; no completion ends early, so that all positions are there."""
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Setting:
    """What is measured: a question of so many tokens, targets of so many, and how."""

    question: int
    targets: tuple[int, ...]
    settings: Settings = STANDARD
    aim: str = ""

    @property
    def title(self) -> str:
        lengths = set(self.targets)
        told = str(lengths.pop()) if len(lengths) == 1 else "+".join(map(str, self.targets))
        several = f"{len(self.targets)} targets of {told}" if len(self.targets) > 1 else f"t={told}"
        stride = "" if self.settings.stride == STANDARD.stride else f", stride {self.settings.stride}"
        return f"q={self.question}, {several}{stride}"


SETTINGS = (
    Setting(100, (60,), aim="2.2x"),
    Setting(100, (12, 12), aim="6x"),
    Setting(1000, (60,), aim="7x"),
)


@dataclass(frozen=True)
class Subject:
    """A model, and where the tokens of its questions and targets come from.

    Attributes:
        name: What the output calls it.
        model: A causal language model of transformers.
        tokens: Tokens of text, from which questions and targets are cut; none stands for random ones.
    """

    name: str
    model: Any
    tokens: Sequence[int] = field(default=(), repr=False)

    def engine(self, memory: float | None = None) -> TransformersEngine:
        return TransformersEngine(self.model, end_tokens={self.end}, memory=memory)

    @property
    def end(self) -> int:
        end = self.model.config.eos_token_id
        return int(end[0] if isinstance(end, list) else end)

    def question(self, setting: Setting, seed: int = 0) -> Question:
        """Return a question and targets of the setting's lengths, other ones for each seed."""
        sizes = (setting.question, *setting.targets)
        if len(self.tokens) < 2 * sum(sizes):
            rng = np.random.default_rng(seed)
            cut = [tuple(map(int, rng.integers(5, self.model.config.vocab_size, size))) for size in sizes]
        else:
            start = 131 * seed % (len(self.tokens) - sum(sizes))
            edges = np.cumsum([start, *sizes])
            cut = [tuple(self.tokens[a:b]) for a, b in pairwise(edges)]
        return Question(cut[0], tuple(cut[1:]), seed)


def random_llama() -> Subject:
    """Return a random Llama of 256 units and 6 layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4000, hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=4096, initializer_range=0.05,
    )  # fmt: skip
    return Subject("random Llama, d=256, 6 layers", LlamaForCausalLM(config).eval())


def real_model(folder: Path) -> Subject:
    """Return a model of a folder in float32, asked about the text of the packaged sample rows."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return Subject(folder.name, model, tokenizer(sample_text(), add_special_tokens=False).input_ids)


def sample_text() -> str:
    """Return what stands in the packaged sample rows, one row after another."""
    from lm_eval_healthcare.sample import rows_path

    lines = [
        line
        for path in sorted((rows_path() / "aci_bench").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    return "\n\n".join(value for line in lines for value in json.loads(line).values() if isinstance(value, str))


def model_folder(given: Path | None) -> Path:
    """Return the folder that was given, or that of the small demo model, which is made where it is missing."""
    named = given or os.environ.get("LM_EVAL_HEALTHCARE_DEMO_MODEL")
    if named:
        return Path(named)
    from lm_eval_healthcare.sample.model import make_demo_model

    return make_demo_model(Path(sys.prefix) / "demo-model")


def job_of(engine: Any, question: Question, settings: Settings) -> Job:
    """Sample, and choose the prefixes."""
    (samples,) = engine.sample([question], settings)
    return Job(question, samples, choose(samples, settings))


def some_branches(job: Job, step: int) -> Job:
    """Return every so many-th branch of a job; with a step that does not divide `keep` all ranks are among them."""
    return replace(job, prefixes=job.prefixes[::step])


def naive_tokens(job: Job) -> int:
    """Return the tokens of one forward pass a branch: sum over branches of q + i + t."""
    return sum(
        len(job.question.tokens) + prefix.position + len(target)
        for prefix in job.prefixes
        for target in job.question.targets
    )


def floor_tokens(job: Job) -> int:
    """Return q + u + B (t - 1) summed over the targets, u being the used tokens of all samples: no way needs fewer."""
    used: dict[int, int] = {}
    for prefix in job.prefixes:
        used[prefix.sample] = max(used.get(prefix.sample, 0), prefix.position)
    branches = len(job.prefixes) * sum(len(target) - 1 for target in job.question.targets)
    return len(job.question.tokens) + sum(used.values()) + branches


class Timed(NamedTuple):
    """A result, and the seconds of CPU time and of wall time that it took."""

    result: Any
    cpu: float
    wall: float


def timed(work: Callable[[], Any]) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Timed(result, time.process_time() - cpu, time.perf_counter() - wall)
