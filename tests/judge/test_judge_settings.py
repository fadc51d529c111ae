"""Presets, what is refused, and what a signature and a seed depend on."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.options import JudgeOptions
from lm_eval_healthcare.judge.settings import Sampling, Settings


def test_the_published_settings() -> None:
    """Section 3 of prometheus-eval's defaults, as the paper used them."""
    paper = Settings.of()
    assert paper.sampling == Sampling(temperature=1.0, top_p=0.9, repetition_penalty=1.03, max_tokens=1024)
    assert paper.tries == 10


def test_the_reproducible_settings() -> None:
    settings = Settings.of("reproducible", attempts=7)
    assert settings.sampling.greedy
    assert settings.tries == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0), ("temperature", float("nan")), ("top_p", 0.0), ("top_p", 1.2), ("max_tokens", 0),
        ("repetition_penalty", 0.0), ("attempts", 0), ("samples", 0), ("failure_limit", 1.5), ("too_long", "guess"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(JudgeError, match=f"{name} is"):
        Settings.of(**{name: value})


def test_several_verdicts_of_a_greedy_judge_are_refused() -> None:
    with pytest.raises(JudgeError, match="all the same"):
        Settings.of("reproducible", samples=3)


def test_seeds_differ_by_everything_and_come_again() -> None:
    settings = Settings.of()
    seeds = {
        settings.seed_of(key, sample, attempt) for key in (b"a", b"b") for sample in range(3) for attempt in range(3)
    }
    assert len(seeds) == 18
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert settings.seed_of(b"a", 1, 2) == Settings.of().seed_of(b"a", 1, 2)
    assert settings.seed_of(b"a", 1, 2) != Settings.of(seed=1).seed_of(b"a", 1, 2)


def test_signatures_differ_by_everything_that_scores_depend_on() -> None:
    base = Settings.of()
    changed = [
        Settings.of(**{name: value})
        for name, value in (
            ("temperature", 0.5), ("top_p", 0.5), ("repetition_penalty", 1.0), ("max_tokens", 64), ("attempts", 3),
            ("samples", 2), ("seed", 9), ("too_long", "skip"),
        )
    ]  # fmt: skip
    found = {settings.signature("m", "w", "r") for settings in (base, *changed)}
    found |= {base.signature("n", "w", "r"), base.signature("m", "x", "r"), base.signature("m", "w", "s")}
    assert len(found) == 12
    assert base.signature("m", "w", "r") == Settings.of(failure_limit=0.2).signature("m", "w", "r")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": "openai"}, "--base-url"),
        ({"base_url": "127.0.0.1:8000"}, "http://127.0.0.1:8000/v1"),
        ({"base_url": "http://127.0.0.1:1/v1", "backend": "hf"}, "goes with the back end openai"),
        ({"backend": "hf"}, "no judge is named"),
        ({"backend": "torch"}, "expected one of auto, vllm, openai, hf"),
        ({"base_url": "http://x/v1", "concurrency": "many"}, "expected a whole number"),
        ({"base_url": "http://x/v1", "concurrency": "0"}, "above 0"),
        ({"base_url": "http://x/v1", "timeout": "-2"}, "above 0"),
        ({"base_url": "http://x/v1", "retries": "-1"}, "0 or more"),
        ({"base_url": "http://x/v1", "args": "dtype"}, "name=value"),
        ({"base_url": "http://x/v1", "preset": "best"}, "expected one of paper, reproducible"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(JudgeError, match=message):
        JudgeOptions.of((), given)


def test_options_are_read_from_texts() -> None:
    given = {
        "args": "dtype=float32, max_model_len=2048,enforce_eager=True,gpu_memory_utilization=0.5", "samples": "3",
        "temperature": "0.7", "backend": "hf", "context": None,
    }  # fmt: skip
    options = JudgeOptions.of(("a judge",), given)
    expected = {"dtype": "float32", "max_model_len": 2048, "enforce_eager": True, "gpu_memory_utilization": 0.5}
    assert options.args == expected
    assert (options.settings.samples, options.settings.sampling.temperature) == (3, 0.7)
    assert options.kind == "hf"
    assert JudgeOptions.of((), {"base_url": "http://127.0.0.1:8000/v1"}).kind == "openai"
