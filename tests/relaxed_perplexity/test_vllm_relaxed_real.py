"""The vLLM engine on a real vLLM, on the CPU: against a forward pass of transformers, and against a table."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_engine import TooLong, VLLMEngine
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import FORCED, with_forced_tokens
from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample, choose
from lm_eval_healthcare.relaxed_perplexity.settings import Settings
from toy_llama import END, TABLE, token_ids, write_bigram_llama

pytestmark = pytest.mark.vllm
WAYS = ["forced", *(pytest.param(way, marks=pytest.mark.long) for way in ("cached", "plain"))]

WINDOW = 384
SETTINGS = Settings(samples=3, keep=2, length=16, stride=8, seed=7)
ENGLISH = "Question: A patient of sixty years has chest pain that began two hours ago. What should be done?\nAnswer:"
SPANISH = "Pregunta: ¿Qué fármaco se usa en niños con convulsiones febriles y cuál es su dosis?\nRespuesta:"


def start(folder: Path, window: int = WINDOW, **arguments: Any) -> Any:
    """A vLLM with the prefix cache on, small blocks and the logits processor."""
    vllm = pytest.importorskip("vllm")
    return vllm.LLM(
        model=str(folder), dtype="float32", max_model_len=window, enforce_eager=True, gpu_memory_utilization=0.3,
        enable_prefix_caching=True, block_size=32, **with_forced_tokens(arguments),
    )  # fmt: skip


@pytest.fixture(scope="module")
def llm(demo_model: Path) -> Iterator[Any]:
    model = start(demo_model)
    yield model
    del model
    gc.collect()


@pytest.fixture(scope="module")
def reference(demo_model: Path) -> tuple[Any, Any]:
    """The same model in transformers, and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(demo_model, dtype=torch.float32, attn_implementation="eager")
    return model.eval(), AutoTokenizer.from_pretrained(demo_model)


def engine_of(llm: Any, way: str = "auto", window: int = WINDOW) -> VLLMEngine:
    return VLLMEngine(llm, max_model_len=window, end_tokens=set(), way=way)


def forward(model: Any, prompt: tuple[int, ...], target: tuple[int, ...]) -> float:
    """log P(target | prompt) by one pass over both; its softmax in float32, as vLLM's and the harness's.

    In float32 the sum over 49,152 tokens is off by 1e-5 at each row, always to the same side: over 300 tokens that is
    more than everything else together.
    """
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([prompt + target]), use_cache=False, logits_to_keep=len(target) + 1).logits[0, :-1]
        log_p = torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None]).double()
    return float(log_p.sum())


def from_outside(tokens: tuple[int, ...], text: tuple[int, ...], model: Any) -> Sample:
    """A sample that the engine did not make itself; of its beginnings only their order matters here."""
    return Sample(text, np.linspace(0.0, forward(model, tokens, text), len(text) + 1))


@pytest.fixture(scope="module")
def jobs(reference: tuple[Any, Any]) -> list[Job]:
    """Branches of every kind: targets of 1 and of 300 tokens, several targets, a sample that stops early, Spanish,
    prefixes that end inside a word, and a prompt that just fits."""
    model, tokenizer = reference

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, add_special_tokens=False).input_ids)

    long = (ids(" Give aspirin, take an ECG, and call the cardiologist; then measure troponin again.") * 20)[:300]
    texts = [" Take an electrocardiogram and give acetylsalicylic acid at once.", " It depends."]
    spanish = [" Diazepam rectal, según el peso; el paracetamol no previene las crisis."]
    near = (ids(ENGLISH) * 30)[: WINDOW - 1 - 8 - 12]
    questions = [
        (Question(ids(ENGLISH), (ids(" Give aspirin and take an ECG."), ids(" ECG"), long)), texts),
        (Question(ids(SPANISH), (ids(" Diazepam, 0,5 mg/kg por vía rectal."), ids(" niños")[:1])), spanish),
        (Question(near, (ids(" Call an ambulance, then give oxygen and aspirin at once now.")[:12],)), texts[:1]),
    ]
    made = []
    for (question, samples), length in zip(questions, (16, 16, 8), strict=True):
        assert {1, 300} <= {len(t) for t in question.targets} or question is not questions[0][0]
        outside = [from_outside(question.tokens, ids(text)[:length], model) for text in samples]
        made.append(Job(question, outside, choose(outside, replace(SETTINGS, length=length, stride=3))))
    lengths = [len(sample.tokens) for sample in made[0].samples]
    assert lengths[1] < 16 <= len(ids(texts[0]))  # the second stops early, and leaves the later positions to the first
    inside = [tokenizer.decode(made[0].samples[0].tokens[:place]) for place in (3, 6, 9, 12, 15)]
    assert any(not f"{texts[0]} ".startswith(f"{beginning} ") for beginning in inside), inside  # ends inside a word
    assert max(len(made[2].question.tokens) + 6 + 12 + 1, 0) <= WINDOW
    return made


@pytest.fixture(scope="module")
def truth(jobs: list[Job], reference: tuple[Any, Any]) -> list[np.ndarray]:
    return [
        np.array(
            [
                [
                    forward(reference[0], job.question.tokens + job.prefix_tokens(prefix), target)
                    for prefix in job.prefixes
                ]
                for target in job.question.targets
            ]
        )
        for job in jobs
    ]


def assert_close(found: list[np.ndarray], truth: list[np.ndarray]) -> None:
    for one, other in zip(found, truth, strict=True):
        # float32; 1e-4 nats, and 1e-6 of a sum over 300 tokens
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_one_forward_pass_a_branch(llm: Any, jobs: list[Job], truth: list[np.ndarray], way: str) -> None:
    assert_close(engine_of(llm, way).score(jobs), truth)


@pytest.mark.long
def test_order_and_a_warm_cache_change_nothing(llm: Any, jobs: list[Job], truth: list[np.ndarray]) -> None:  # case b41
    assert llm.llm_engine.vllm_config.cache_config.enable_prefix_caching
    for way in ("forced", "cached", "plain"):
        engine = engine_of(llm, way)
        short = [Job(replace(j.question, targets=j.question.targets[:2]), j.samples, j.prefixes) for j in jobs[:2]]
        wanted = [table[:2] for table in truth[:2]]
        llm.reset_prefix_cache()
        assert_close(engine.score(short), wanted)
        assert_close(engine.score(short[::-1])[::-1], wanted)
        assert_close([engine.score([job])[0] for job in short], wanted)


@pytest.mark.long
def test_samples_are_the_models_own(llm: Any, reference: tuple[Any, Any]) -> None:
    """log P of prefixes and of first tokens; the same in another order, and together with other questions."""
    model, tokenizer = reference
    targets = (tuple(tokenizer(" Aspirin").input_ids[:1]), tuple(tokenizer(" ECG now").input_ids))
    questions = [
        Question(tuple(tokenizer(text).input_ids), targets, seed=seed)
        for text, seed in ((ENGLISH, 11), (SPANISH, 12), ("What is fever?", 13))
    ]
    engine, settings = engine_of(llm), replace(SETTINGS, end="ignore")
    found = engine.sample(questions, settings)
    for question, samples in zip(questions, found, strict=True):
        assert len({sample.tokens for sample in samples}) > 1
        for sample in samples[:2]:
            assert sample.first is not None
            for length in (0, 8, len(sample.tokens)):
                prefix = sample.tokens[:length]
                if length:
                    # Up to 1e-5 a token between the two implementations, on text as odd as what must not end.
                    assert sample.log_p[length] == pytest.approx(forward(model, question.tokens, prefix), abs=2e-4)
                for row, target in zip(sample.first, targets, strict=True):
                    expected = forward(model, question.tokens + prefix, target[:1])
                    assert row[length] == pytest.approx(expected, abs=1e-4)
    again = engine.sample(questions[::-1], settings)[::-1]
    alone = [engine.sample([question], settings)[0] for question in questions]
    for other in (again, alone):
        assert [[s.tokens for s in samples] for samples in other] == [[s.tokens for s in samples] for samples in found]
    jobs = [Job(q, samples, choose(samples, settings)) for q, samples in zip(questions, found, strict=True)]
    scores = engine.score(jobs)
    assert engine.way == "forced"  # the best that this engine offers, and it proved itself
    for job, table in zip(jobs, scores, strict=True):
        prefix = job.prefixes[-1]
        prompt = job.question.tokens + job.prefix_tokens(prefix)
        assert table[1, -1] == pytest.approx(forward(model, prompt, targets[1]), abs=1e-4)
        assert table[0, -1] == pytest.approx(job.samples[prefix.sample].first[0, prefix.position], abs=1e-9)


def test_more_prompts_than_a_step_takes(llm: Any) -> None:
    """Seeded requests whose prompts are read in pieces would end the engine on the CPU; in groups nothing changes."""
    step = llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens
    length = (WINDOW - 16) // 2
    questions = [Question((100 + k, *range(200, 199 + length)), ((7,),), seed=k) for k in range(step // length + 2)]
    settings = replace(SETTINGS, samples=2, length=2, stride=1)
    together = engine_of(llm).sample(questions, settings)
    alone = engine_of(llm).sample(questions[-1:], settings)
    assert [sample.tokens for sample in together[-1]] == [sample.tokens for sample in alone[0]]


def test_what_does_not_fit_is_refused(llm: Any) -> None:  # case b64
    engine = engine_of(llm)
    fits = Question((5,) * (WINDOW - 16 - 4 - 1), ((7, 8, 9, 10),))
    samples = engine.sample([fits], replace(SETTINGS, samples=1, end="ignore"))
    job = Job(fits, samples[0], choose(samples[0], replace(SETTINGS, stride=16)))
    assert np.isfinite(engine.score([job])[0]).all()
    with pytest.raises(TooLong, match="document 1 of 1"):
        engine.sample([replace(fits, tokens=(5,) * (WINDOW - 16))], SETTINGS)


def test_forced_requests_beside_others(llm: Any) -> None:
    """Free and forced requests in one batch; each is as if alone."""
    from vllm import SamplingParams

    rng = random.Random(0)
    prompts = [[rng.randrange(1000, 9000) for _ in range(rng.randrange(5, 40))] for _ in range(30)]
    wanted = [[rng.randrange(1000, 9000) for _ in range(rng.randrange(1, 9))] for _ in prompts]

    def request(place: int) -> SamplingParams:
        if place % 3 == 0:
            return SamplingParams(max_tokens=6, temperature=0, logprobs=0, ignore_eos=True, detokenize=False)
        return SamplingParams(
            max_tokens=len(wanted[place]), temperature=0, logprobs=0, ignore_eos=True, detokenize=False,
            extra_args={FORCED: wanted[place]},
        )  # fmt: skip

    def ask(places: list[int]) -> list[Any]:
        tokens = [{"prompt_token_ids": prompts[place]} for place in places]
        outputs = llm.generate(tokens, [request(place) for place in places], use_tqdm=False)
        return [output.outputs[0] for output in outputs]

    together = ask(list(range(30)))
    for place, completion in enumerate(together):
        if place % 3:
            assert list(completion.token_ids) == wanted[place]
    for place in (0, 3, 4, 27, 28):
        (alone,) = ask([place])
        assert alone.token_ids == together[place].token_ids
        for one, other in zip(alone.logprobs, together[place].logprobs, strict=True):
            assert {t: v.logprob for t, v in one.items()} == pytest.approx(
                {t: v.logprob for t, v in other.items()}, abs=1e-4
            )


def test_the_processor_has_the_interface_of_the_newer_runner_too() -> None:
    """That runner needs a GPU, so here the processor is given what it would get: three requests in slots 4, 1 and 2."""
    pytest.importorskip("vllm")
    import torch
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as NewLogitsProcessor

    from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import ForcedTokens

    assert issubclass(ForcedTokens, LogitsProcessor)
    assert issubclass(ForcedTokens, NewLogitsProcessor)
    lengths = np.array([0, 10, 10, 0, 10])
    processor = ForcedTokens(None, SimpleNamespace(prompt_len=SimpleNamespace(np=lengths)))
    forced = SamplingParams(extra_args={FORCED: [3, 1, 2]})
    assert processor.add_request(4, forced)
    assert processor.add_request(2, forced)
    assert not processor.add_request(1, SamplingParams())
    context = SimpleNamespace(idx_mapping_np=np.array([4, 1, 2]), seq_lens_upper_bound_np=np.array([11, 11, 12]))
    logits = torch.arange(15.0).reshape(3, 5)
    found = processor.apply(logits.clone(), context)
    assert [row.isfinite().nonzero().flatten().tolist() for row in found] == [[1], [0, 1, 2, 3, 4], [2]]
    assert torch.equal(found[1], logits[1])
    assert not processor.add_request(4, SamplingParams())  # the slot is another request's now
    assert torch.equal(processor.apply(logits.clone(), context)[0], logits[0])


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, llm: Any) -> Iterator[Any]:
    """The model whose probabilities are a table, with few places in the batch and little cache: requests wait."""
    folder = write_bigram_llama(tmp_path_factory.mktemp("toy"), max_length=96)
    model = start(folder, window=96, max_num_seqs=5, num_gpu_blocks_override=12)
    yield model
    del model
    gc.collect()


@pytest.mark.parametrize("way", WAYS)
def test_the_table_by_hand(toy: Any, way: str) -> None:
    """P("ba" | ... a) = 0.3 * 0.6; P("ba" | ... b) = 0.3 * 0.6; P("ab" | ... a) = 0.5 * 0.3; ... b: 0.6 * 0.3."""
    ids = token_ids()
    a, b = ids["a"], ids["b"]
    settings = Settings(samples=20, keep=None, length=24, stride=3, seed=1)
    question = Question((ids["<s>"], a), ((b, a), (a, b), (b,), (a,) * 30), seed=9)
    engine = VLLMEngine(toy, max_model_len=96, end_tokens={ids[END]}, way=way)
    (samples,) = engine.sample([question], settings)
    lengths = [len(sample.tokens) for sample in samples]
    assert min(lengths) < 24  # P(end) is 0.2 or 0.1 at each step
    for sample in samples:
        chain = [TABLE["ab"[one]]["ab"[other]] for one, other in zip((a, *sample.tokens), sample.tokens, strict=False)]
        np.testing.assert_allclose(np.exp(sample.log_p), np.cumprod([1.0, *chain]), rtol=1e-4)
    job = Job(question, samples, choose(samples, settings))
    (found,) = engine.score([job])
    for place, prefix in enumerate(job.prefixes):
        last = (a, *job.prefix_tokens(prefix))[-1]
        to_a, to_b = (0.5, 0.3) if last == a else (0.6, 0.3)
        expected = [to_b * 0.6, to_a * 0.3, to_b, to_a * 0.5**29]
        np.testing.assert_allclose(found[:, place], np.log(expected), atol=1e-4)
    never = replace(settings, end="ignore")
    assert {len(sample.tokens) for sample in engine.sample([question], never)[0]} == {24}
