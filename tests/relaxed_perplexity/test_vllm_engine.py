"""The vLLM engine without vLLM: a made-up engine that answers as vLLM does, prefix cache and its traps included."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_engine import TooLong, VLLMEngine
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import (
    FORCED,
    LOGITS_PROCESSOR,
)
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_ways import Branch, Facts, Forced, Plain, PromptIds
from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample, choose
from lm_eval_healthcare.relaxed_perplexity.settings import Settings

VOCABULARY, END, BLOCK = 12, 11, 4
OLD = {"n", "seed", "temperature", "top_p", "max_tokens", "min_tokens", "stop_token_ids", "ignore_eos"}
OLD |= {"logprobs", "prompt_logprobs", "detokenize", "extra_args"}
NOW = OLD | {"flat_logprobs", "skip_reading_prefix_cache", "logprob_token_ids"}
NEW = NOW | {"prompt_logprob_token_ids", "prompt_logprob_start", "trace_decode_token_ids"}


@functools.cache
def next_log_p(context: tuple[int, ...]) -> np.ndarray:
    """log P(next token | all tokens before): made up, other for each context; token 0 is impossible after token 1."""
    logits = np.random.RandomState(hash(context) % 2**32).standard_normal(VOCABULARY) * 2
    if context and context[-1] == 1:
        logits[0] = -np.inf
    return logits - np.logaddexp.reduce(logits)


def true_log_p(prompt: tuple[int, ...], target: tuple[int, ...]) -> float:
    """The sum over the target's tokens, one context after the other."""
    return float(sum(next_log_p(prompt + target[:place])[token] for place, token in enumerate(target)))


class Parameters:
    """Stands for `vllm.SamplingParams`."""

    def __init__(self, **given: Any) -> None:
        self.given = given
        unknown = set(given) - {name for name in dir(self) if not name.startswith("_")}
        if unknown:
            raise TypeError(f"unexpected keyword argument {unknown}")

    def get(self, name: str, default: Any = None) -> Any:
        return self.given.get(name, default)


class MadeUpLLM:
    """Answers as vLLM: requests in, outputs out, with a prefix cache of whole blocks.

    Attributes:
        calls: The requests of each call.
        spoil: Called with the place of a request in its call, its parameters and its output, which it may change.
    """

    def __init__(
        self, *, forced: bool = False, new_runner: bool = False, trace: bool = False, caching: bool = True, **model: Any
    ) -> None:
        settings = {"logprobs_mode": "raw_logprobs", "dtype": "torch.float32", "logits_processors": None} | model
        if forced:
            settings["logits_processors"] = [LOGITS_PROCESSOR]
        self.llm_engine = SimpleNamespace(
            vllm_config=SimpleNamespace(
                model_config=SimpleNamespace(enable_trace_replay=trace, **settings),
                cache_config=SimpleNamespace(block_size=BLOCK, enable_prefix_caching=caching),
                use_v2_model_runner=new_runner,
            )
        )
        self.calls: list[list[Parameters]] = []
        self.prompts: list[tuple[int, ...]] = []
        self.spoil: Callable[[int, Parameters, Any], None] = lambda place, parameters, output: None
        self._new_runner, self._caching, self._cache = new_runner, caching, set()

    def generate(self, prompts: Any, *, sampling_params: Any, use_tqdm: bool, lora_request: Any) -> list[Any]:
        assert use_tqdm is False
        assert lora_request == "adapter"
        self.calls.append(sampling_params)
        outputs = []
        for place, (prompt, parameters) in enumerate(zip(prompts, sampling_params, strict=True)):
            output = self._answer(tuple(prompt["prompt_token_ids"]), parameters)
            self.spoil(place, parameters, output)
            outputs.append(output)
        return outputs

    def _answer(self, prompt: tuple[int, ...], parameters: Parameters) -> Any:
        self.prompts.append(prompt)
        skip = parameters.get("skip_reading_prefix_cache")
        skip = parameters.get("prompt_logprobs") is not None if skip is None else skip
        cached = 0
        while self._caching and not skip and cached + BLOCK < len(prompt) and prompt[: cached + BLOCK] in self._cache:
            cached += BLOCK
        output = SimpleNamespace(prompt_token_ids=list(prompt), prompt_logprobs=None, prompt_token_id_logprobs=None)
        output.num_cached_tokens = cached
        if parameters.get("prompt_logprobs") is not None:
            rows = [{prompt[i]: SimpleNamespace(logprob=next_log_p(prompt[:i])[prompt[i]])} for i in range(len(prompt))]
            # The newer runner leaves the rows of cached blocks out; the older one returns what the memory held before.
            stale = [] if self._new_runner else [{token: SimpleNamespace(logprob=-0.1)} for token in prompt[:cached]]
            output.prompt_logprobs = [None, *stale, *rows[1 + cached :]]
        wanted = parameters.get("prompt_logprob_token_ids")
        if wanted is not None:
            assert self._new_runner
            start = parameters.get("prompt_logprob_start")
            assert len(wanted) == len(prompt) - 1 - start
            if cached <= start:
                values = [[next_log_p(prompt[: start + 1 + i])[t] for t in row] for i, row in enumerate(wanted)]
                output.prompt_token_id_logprobs = np.array(values, dtype=np.float32)
        output.outputs = [self._complete(prompt, parameters, place) for place in range(parameters.get("n", 1))]
        for completion in output.outputs:
            text = prompt + completion.token_ids[:-1]
            self._cache |= {text[:end] for end in range(BLOCK, len(text) + 1, BLOCK)}
        return output

    def _complete(self, prompt: tuple[int, ...], parameters: Parameters, place: int) -> Any:
        rng = np.random.RandomState((parameters.get("seed", 0) or 0) + place)
        given = parameters.get("trace_decode_token_ids") or parameters.get("extra_args", {}).get(FORCED)
        ids = parameters.get("logprob_token_ids")
        tokens: tuple[int, ...] = ()
        rows = []
        stopped = False
        while len(tokens) < parameters.get("max_tokens") and not stopped:
            log_p = next_log_p(prompt + tokens)
            chances = np.exp(log_p)
            if len(tokens) < parameters.get("min_tokens", 0):
                chances[END] = 0
            token = given[len(tokens)] if given else int(rng.choice(VOCABULARY, p=chances / chances.sum()))
            rows.append({t: SimpleNamespace(logprob=log_p[t]) for t in (token, *(ids or ()))})
            tokens += (token,)
            stopped = token in parameters.get("stop_token_ids", ()) and not parameters.get("ignore_eos")
        known = parameters.get("logprobs") is not None or ids
        return SimpleNamespace(
            index=place, token_ids=tokens, logprobs=rows if known else None,
            finish_reason="stop" if stopped else "length",
        )  # fmt: skip


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[str]], None]:
    """Put a made-up module `vllm` in place, whose requests have the given parameters."""

    def install(names: set[str]) -> None:
        module, parameters = ModuleType("vllm"), ModuleType("vllm.sampling_params")
        module.SamplingParams = type("SamplingParams", (Parameters,), dict.fromkeys(names))  # type: ignore[attr-defined]
        module.TokensPrompt = dict  # type: ignore[attr-defined]
        module.sampling_params = parameters  # type: ignore[attr-defined]
        parameters.MAX_LOGPROB_TOKEN_IDS = 3  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "vllm", module)
        monkeypatch.setitem(sys.modules, "vllm.sampling_params", parameters)

    install(NOW)
    return install


def engine_of(llm: MadeUpLLM, way: str = "auto", longest: int = 64) -> VLLMEngine:
    return VLLMEngine(llm, max_model_len=longest, end_tokens={END}, lora_request="adapter", way=way)


SETTINGS = Settings(samples=4, keep=3, length=8, stride=2, seed=5)
QUESTIONS = [
    Question((1, 2, 3, 4, 5), ((6, 7, 8), (6,), (3, 0, 1, 0)), seed=3),  # the last target is impossible
    Question((1, 2, 3, 4, 5, 6, 7, 8), ((9, 9, 2, 4, 5, 6, 7),), seed=4),
]


def jobs_of(engine: VLLMEngine, questions: list[Question], settings: Settings = SETTINGS) -> list[Job]:
    sampled = engine.sample(questions, settings)
    return [Job(q, samples, choose(samples, settings)) for q, samples in zip(questions, sampled, strict=True)]


def expected(job: Job) -> np.ndarray:
    return np.array(
        [
            [true_log_p(job.question.tokens + job.prefix_tokens(prefix), target) for prefix in job.prefixes]
            for target in job.question.targets
        ]
    )


def assert_true(found: list[np.ndarray], jobs: list[Job]) -> None:
    assert len(found) == len(jobs)
    for table, job in zip(found, jobs, strict=True):
        assert table.dtype == np.float64
        assert table.shape == (len(job.question.targets), len(job.prefixes))
        np.testing.assert_allclose(table, expected(job), rtol=1e-6)


# Sampling


@pytest.mark.parametrize("names", [OLD, NOW])
def test_samples_carry_the_models_own_log_probabilities(vllm: Any, names: set[str]) -> None:
    vllm(names)
    llm = MadeUpLLM()
    for question, samples in zip(QUESTIONS, engine_of(llm).sample(QUESTIONS, SETTINGS), strict=True):
        assert len(samples) == 4
        for sample in samples:
            assert END not in sample.tokens
            for length in range(len(sample.tokens) + 1):
                prefix = sample.tokens[:length]
                assert sample.log_p[length] == pytest.approx(true_log_p(question.tokens, prefix), abs=1e-9)
                if names is OLD:
                    assert sample.first is None
                else:
                    assert sample.first is not None
                    for target, row in zip(question.targets, sample.first, strict=True):
                        assert row[length] == pytest.approx(next_log_p(question.tokens + prefix)[target[0]])
    assert len(llm.calls) == 1
    (request, _) = llm.calls[0]
    assert {name: request.get(name) for name in ("n", "seed", "top_p", "temperature", "max_tokens")} == {
        "n": 4, "seed": 3, "top_p": 0.9, "temperature": 1.0, "max_tokens": 9,
    }  # fmt: skip


def test_completions_end_early_or_not(vllm: Any) -> None:
    many = replace(SETTINGS, samples=40)
    (stopped,) = engine_of(MadeUpLLM()).sample(QUESTIONS[:1], many)
    lengths = {len(sample.tokens) for sample in stopped}
    assert 8 in lengths
    assert min(lengths) < 8
    assert all(len(sample.log_p) == len(sample.tokens) + 1 for sample in stopped)
    (ignoring,) = engine_of(MadeUpLLM()).sample(QUESTIONS[:1], replace(many, end="ignore"))
    assert {len(sample.tokens) for sample in ignoring} == {8}
    assert not any(END in sample.tokens for sample in ignoring)


def test_no_completion_at_all(vllm: Any) -> None:
    settings = replace(SETTINGS, length=0)
    llm = MadeUpLLM()
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS, settings)
    assert [sample.tokens for sample in jobs[0].samples] == [()] * 4
    assert jobs[0].samples[0].first is not None
    assert_true(engine.score(jobs), jobs)


def test_more_targets_than_vllm_tells_about(vllm: Any) -> None:
    question = Question((1, 2), ((3,), (4, 5), (6,), (7,)))  # four first tokens, and this vLLM tells about three
    engine = engine_of(MadeUpLLM())
    jobs = jobs_of(engine, [question, QUESTIONS[0]])
    assert jobs[0].samples[0].first is None
    assert jobs[1].samples[0].first is not None
    assert_true(engine.score(jobs), jobs)


def test_a_vllm_that_tells_nothing_about_chosen_tokens(vllm: Any) -> None:
    llm = MadeUpLLM()

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        for completion in output.outputs:
            completion.logprobs = None if parameters.get("logprobs") is None else completion.logprobs

    llm.spoil = spoil
    (samples,) = engine_of(llm).sample(QUESTIONS[:1], SETTINGS)
    assert samples[0].first is None
    assert samples[0].log_p[-1] == pytest.approx(true_log_p(QUESTIONS[0].tokens, samples[0].tokens))


def test_a_completion_that_was_cut_short_is_an_error(vllm: Any) -> None:
    llm = MadeUpLLM()

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        output.outputs[1].token_ids = output.outputs[1].token_ids[:2]
        output.outputs[1].logprobs = output.outputs[1].logprobs[:2]
        output.outputs[1].finish_reason = "abort"

    llm.spoil = spoil
    with pytest.raises(RuntimeError, match="after 2 of 8 tokens"):
        engine_of(llm).sample(QUESTIONS, SETTINGS)


# Scoring

KINDS: dict[str, tuple[set[str], dict[str, Any]]] = {
    "plain": (OLD, {}),
    "cached": (NOW, {}),
    "forced": (NOW, {"forced": True}),
    "trace": (NEW, {"trace": True, "forced": True}),
    "prompt_ids": (NEW, {"new_runner": True, "trace": True, "forced": True}),
}


@pytest.mark.parametrize("outside", [False, True], ids=["own samples", "samples from outside"])
@pytest.mark.parametrize(("way", "caching"), [(w, c) for w in KINDS for c in (True, False) if c or w != "cached"])
def test_every_way_gives_the_true_values(vllm: Any, way: str, outside: bool, caching: bool) -> None:
    names, abilities = KINDS[way]
    vllm(names)
    llm = MadeUpLLM(caching=caching, **abilities)
    engine = engine_of(llm, way)
    assert (engine.way, engine_of(llm).way) == (way, way)
    jobs = jobs_of(engine, QUESTIONS)
    if outside:
        jobs = [Job(job.question, [Sample(s.tokens, s.log_p) for s in job.samples], job.prefixes) for job in jobs]
    found = engine.score(jobs)
    assert_true(found, jobs)
    assert np.isneginf(found[0][2][1:]).any()
    # Again with everything in the cache, in the other order, and one after the other.
    assert_true(engine.score(jobs), jobs)
    assert_true(engine.score(jobs[::-1])[::-1], jobs)
    assert_true([engine.score([job])[0] for job in jobs], jobs)
    assert engine.way == way


def test_one_call_scores_all_and_equal_branches_once(vllm: Any) -> None:
    llm = MadeUpLLM(forced=True)
    engine = engine_of(llm, "forced")
    jobs = jobs_of(engine, QUESTIONS[:1])
    engine.score(jobs)  # the self-test is over
    llm.calls.clear()
    twice = [*jobs, Job(replace(QUESTIONS[0], targets=((6, 7, 8), (6, 7, 8))), jobs[0].samples, jobs[0].prefixes)]
    twice[1] = Job(twice[1].question, [replace(s, first=None) for s in twice[1].samples], twice[1].prefixes)
    found = engine.score(twice)
    np.testing.assert_allclose(found[1], found[0][[0, 0]])
    assert len(llm.calls) == 1
    prefixes = {jobs[0].prefix_tokens(prefix) for prefix in jobs[0].prefixes}
    # Two targets of several tokens; the one of a single token was known from sampling.
    assert len(llm.calls[0]) == 2 * len(prefixes)


def test_the_cheaper_way_is_taken_for_each_branch(vllm: Any) -> None:
    """At the beginning the cache spares nothing, so one plain pass is as good as decoding."""
    facts = Facts(frozenset(NOW), new_runner=False, trace=False, forced=True, block=128, exact=True)
    early, late = (Branch((0,) * size, (1,) * 12, first=-1.0) for size in (30, 1000))
    assert facts.again(128) == 128
    assert facts.again(129) == 1
    assert Forced().cost(late, facts) < Plain().cost(late, facts) / 5
    assert Forced().cost(early, replace(facts, block=0)) <= Plain().cost(early, facts)
    assert PromptIds().cost(late, facts) < Plain().cost(late, facts) / 5


def rows_of_a_cut_prompt(place: int, parameters: Parameters, output: Any) -> None:
    if output.prompt_token_id_logprobs is not None:
        output.prompt_token_id_logprobs = output.prompt_token_id_logprobs[1:]


def other_values_for_later_requests(place: int, parameters: Parameters, output: Any) -> None:
    if output.prompt_token_id_logprobs is not None and place:
        output.prompt_token_id_logprobs -= 0.5


def another_value_for_one_order(place: int, parameters: Parameters, output: Any) -> None:
    if output.prompt_token_id_logprobs is not None and place == 0 and len(output.prompt_token_ids) > 12:
        output.prompt_token_id_logprobs -= 0.01


def no_number(place: int, parameters: Parameters, output: Any) -> None:
    if output.prompt_token_id_logprobs is not None:
        output.prompt_token_id_logprobs[0] = np.nan


def not_built_in(place: int, parameters: Parameters, output: Any) -> None:
    if output.prompt_token_id_logprobs is not None:
        raise NotImplementedError("prompt_logprob_token_ids on this platform")


@pytest.mark.parametrize(
    "spoil",
    [rows_of_a_cut_prompt, other_values_for_later_requests, another_value_for_one_order, no_number, not_built_in],
)
def test_a_way_that_is_wrong_is_left_with_a_warning(
    vllm: Any, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:  # case b41
    vllm(NEW)
    llm = MadeUpLLM(new_runner=True, forced=True)
    llm.spoil = spoil
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS)
    with caplog.at_level(logging.WARNING):
        assert_true(engine.score(jobs), jobs)
        assert engine.way == "forced"
        assert_true(engine.score(jobs[::-1])[::-1], jobs)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "prompt_ids failed and is not used, but forced" in told[0]
    with pytest.raises(RuntimeError, match="prompt_ids failed"):
        engine_of(llm, "prompt_ids").score(jobs)


def test_a_processor_that_does_nothing_is_noticed(vllm: Any, caplog: pytest.LogCaptureFixture) -> None:
    llm = MadeUpLLM(forced=True)

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        if parameters.get("extra_args"):
            completion = output.outputs[0]
            completion.token_ids = tuple((token + 1) % VOCABULARY for token in completion.token_ids)

    llm.spoil = spoil
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS)
    assert_true(engine.score(jobs), jobs)
    assert engine.way == "cached"
    assert "forced failed" in caplog.text


def test_wrong_first_tokens_are_not_trusted(vllm: Any, caplog: pytest.LogCaptureFixture) -> None:
    llm = MadeUpLLM(forced=True)
    engine = engine_of(llm)
    jobs = [
        Job(job.question, [replace(s, first=s.first - 0.1) for s in job.samples], job.prefixes)
        for job in jobs_of(engine, QUESTIONS)
    ]
    assert_true(engine.score(jobs), jobs)
    assert engine.way == "forced"
    assert "first tokens" in caplog.text


@pytest.mark.parametrize("first", ["drops", "order"])
def test_a_wrong_plain_way_is_an_error(vllm: Any, first: str) -> None:  # case b41
    vllm(OLD)
    llm = MadeUpLLM()

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        if output.prompt_logprobs is None:
            return
        if first == "drops":
            output.prompt_logprobs = [None, *output.prompt_logprobs[2:]]
        elif place:
            for row in output.prompt_logprobs[1:]:
                for entry in row.values():
                    entry.logprob -= 0.01

    llm.spoil = spoil
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS)
    with pytest.raises(RuntimeError, match="plain failed" if first == "drops" else "enable_prefix_caching=False"):
        engine.score(jobs)


def test_the_memorys_old_values_are_not_taken(vllm: Any, caplog: pytest.LogCaptureFixture) -> None:  # case b41
    """A vLLM that does not say how much it read from its cache leaves no way of knowing which rows hold values."""
    llm = MadeUpLLM()

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        output.num_cached_tokens = None

    llm.spoil = spoil
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS)
    assert_true(engine.score(jobs), jobs)
    assert engine.way == "plain"
    assert "cached failed" in caplog.text
    llm = MadeUpLLM(new_runner=True)
    assert engine_of(llm).way == "plain"
    with pytest.raises(ValueError, match=r"cached.*VLLM_USE_V2_MODEL_RUNNER=0"):
        engine_of(llm, "cached")


def test_clamped_values_are_probabilities_of_zero(vllm: Any) -> None:
    llm = MadeUpLLM()

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        for row in output.prompt_logprobs or ():
            for entry in (row or {}).values():
                entry.logprob = max(entry.logprob, -9999.0)

    llm.spoil = spoil
    engine = engine_of(llm, "plain")
    jobs = jobs_of(engine, QUESTIONS)
    assert_true(engine.score(jobs), jobs)


def test_answers_that_belong_to_other_requests_are_noticed(vllm: Any) -> None:
    llm = MadeUpLLM()
    engine = engine_of(llm)
    jobs = jobs_of(engine, QUESTIONS)
    right = llm.generate
    llm.generate = lambda *a, **k: right(*a, **k)[::-1]  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="not those of"):
        engine.score(jobs)


# Limits


def test_what_does_not_fit_is_named_before_anything_is_asked(vllm: Any) -> None:  # case b64
    llm = MadeUpLLM()
    long = Question(tuple(range(2, 10)) * 3, ((6, 7, 8),), seed=1)  # 24 tokens, a completion of 8, one more: 33
    with pytest.raises(TooLong, match=r"document 2 of 3 \(a question of 24 tokens\) by 1 tokens") as caught:
        engine_of(llm, longest=32).sample([QUESTIONS[0], long, QUESTIONS[1]], SETTINGS)
    assert caught.value.places == (1,)
    engine = engine_of(MadeUpLLM(), longest=36)  # 24 + 8 + 3 + 1
    jobs = jobs_of(engine, [QUESTIONS[0], long], replace(SETTINGS, end="ignore"))
    assert_true(engine.score(jobs), jobs)
    with pytest.raises(TooLong, match="document 2 of 2") as caught:
        engine_of(llm, longest=35).score(jobs)
    assert caught.value.places == (1,)
    assert not llm.calls


# The engine's settings


@pytest.mark.parametrize("mode", ["processed_logprobs", "raw_logits"])
def test_other_log_probabilities_are_refused(vllm: Any, mode: str) -> None:
    with pytest.raises(ValueError, match=f"logprobs_mode={mode}.*start the engine with logprobs_mode=raw_logprobs"):
        engine_of(MadeUpLLM(logprobs_mode=mode))


def test_ways_that_are_not_there(vllm: Any) -> None:
    with pytest.raises(ValueError, match="expected auto or one of prompt_ids, trace, forced, cached, plain"):
        engine_of(MadeUpLLM(), "fast")
    with pytest.raises(ValueError, match=r"forced.*needs the engine's argument logits_processors"):
        engine_of(MadeUpLLM(), "forced")
    with pytest.raises(ValueError, match=r"prompt_ids.*needs a vLLM that knows"):
        engine_of(MadeUpLLM(), "prompt_ids")
    vllm(NEW)
    with pytest.raises(ValueError, match=r"prompt_ids.*VLLM_USE_V2_MODEL_RUNNER"):
        engine_of(MadeUpLLM(), "prompt_ids")
    with pytest.raises(ValueError, match=r"trace.*enable_trace_replay"):
        engine_of(MadeUpLLM(), "trace")


def test_half_precision_may_differ_more(vllm: Any) -> None:
    vllm(NEW)

    def spoil(place: int, parameters: Parameters, output: Any) -> None:
        if output.prompt_token_id_logprobs is not None:
            output.prompt_token_id_logprobs -= 0.02

    ways = {}
    for dtype in ("torch.float32", "torch.bfloat16"):
        llm = MadeUpLLM(new_runner=True, dtype=dtype)
        llm.spoil = spoil
        engine = engine_of(llm)
        engine.score(jobs_of(engine, QUESTIONS))
        ways[dtype] = engine.way
    assert ways == {"torch.float32": "plain", "torch.bfloat16": "prompt_ids"}
