"""The ways in which models of the harness are asked K times for an answer to one question.

Each way takes questions and yields answers as they come. What an answer is does not depend on the other questions, on
their order or their number: the seed of a question's first answer is made of the run's seed and the prompt.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.harness.asking import TAKE_SEEDS, ask, instance, seeded, uncached
from lm_eval_healthcare.harness.relaxed_codec import is_a
from lm_eval_healthcare.metrics.encoding.batches import free_memory, is_out_of_memory
from lm_eval_healthcare.relaxed_perplexity.engines import vllm_pieces

logger = logging.getLogger(__name__)

QUESTIONS_AT_ONCE = 64
"""Questions of a group where many are computed together: what a kill costs, against a full device."""
_SEEDS = 2**31 - 1


@dataclass(frozen=True)
class Asked:
    """A question that is to be answered several times.

    Attributes:
        prompt: What the model is given: a text, or the harness's own form of a chat.
        arguments: The generation arguments, with what this back end needs to sample as others do.
        repeats: Number of answers, K.
        base_seed: The run's seed.
    """

    prompt: Any
    arguments: Mapping[str, Any]
    repeats: int
    base_seed: int

    @property
    def seed(self) -> int:
        """The question's own seed, so that its answers do not depend on what else is asked."""
        text = f"{self.base_seed} {self.prompt}"
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big") % _SEEDS


Keep = Callable[[Mapping[int, Mapping[int, str]]], None]
"""Takes answers by the question's place in the group and the answer's number, the moment that they are there."""


@dataclass(frozen=True)
class Way:
    """How a model is asked.

    Attributes:
        name: What is told of it in results.
        seeds: How the seeds are made.
        group: Questions that are given to `answer` at once.
        answer: Takes the model, questions, the numbers of the answers that each lacks, and what keeps them.
    """

    name: str
    seeds: str
    group: int
    answer: Callable[[Any, Sequence[Asked], Sequence[Sequence[int]], Keep], None]


_OF_QUESTION = "sha256 of repeats_seed and the prompt"


def way_for(lm: Any) -> Way:
    """Return the way in which a model is asked."""
    if is_a(lm, "VLLM"):
        return Way(
            "one request a question with n=K", f"{_OF_QUESTION}, plus the answer's number", QUESTIONS_AT_ONCE, _in_one
        )
    if any(is_a(lm, name) for name in TAKE_SEEDS):
        return Way("K requests a question", "repeats_seed plus the answer's number", QUESTIONS_AT_ONCE, _by_seed)
    if is_a(lm, "HFLM"):
        return Way("K copies of a question in one batch", f"{_OF_QUESTION}, of PyTorch", 1, _copies)
    return Way("K requests a question", f"{_OF_QUESTION}, of PyTorch; a server's own stream has none", 1, _clones)


def arguments_for(lm: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return generation arguments that sample from the same words on every back end.

    transformers takes the 50 likeliest words alone unless it is told otherwise, and what a model's folder says of
    sampling on top.
    """
    return {**({"top_k": 0, "repetition_penalty": 1.0} if is_a(lm, "HFLM") else {}), **arguments}


# vLLM


def _in_one(lm: Any, questions: Sequence[Asked], lacking: Sequence[Sequence[int]], keep: Keep) -> None:
    """One request a question; equal seeds, which are rare, would make two questions one and are asked in turn."""
    turns: list[list[int]] = []
    for place, question in enumerate(questions):
        free = next((turn for turn in turns if all(questions[other].seed != question.seed for other in turn)), None)
        turns.append([place]) if free is None else free.append(place)
    for turn in turns:
        asked = [
            instance("generate_until", (questions[place].prompt, {**questions[place].arguments, "seed": seed}))
            for place in turn
            for seed in [questions[place].seed] * questions[place].repeats
        ]
        with uncached(lm), _joined(lm, len(asked)):
            texts = iter(ask(lm.generate_until, asked))
        keep({place: {number: next(texts) for number in range(questions[place].repeats)} for place in turn})


@contextlib.contextmanager
def _joined(lm: Any, size: int) -> Iterator[None]:
    """Let the harness's own loop see K requests where the engine gets one with n=K.

    So each of the K answers is cut at stop strings and rid of its reasoning by the harness itself. Equal prompts stand
    next to each other there, since it sorts them.
    """
    model_generate, batch_size = lm._model_generate, lm.batch_size

    def joined(requests: Any, generate: bool = False, sampling_params: Any = None) -> list[Any]:
        whole: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for place, (tokens, parameters) in enumerate(zip(requests, sampling_params, strict=True)):
            whole[tuple(tokens), parameters.seed].append(place)
        parts = []
        for (tokens, seed), places in whole.items():
            for first, count in _pieces(lm, tokens, len(places)):
                parameters = sampling_params[places[0]].clone()
                parameters.n, parameters.seed = count, seed + first
                parts.append((list(tokens), parameters, places[first : first + count]))
        found: list[Any] = [None] * len(requests)
        for group in _groups(lm, parts):
            outputs = model_generate(
                requests=[tokens for tokens, _, _ in group],
                generate=True,
                sampling_params=[parameters for _, parameters, _ in group],
            )
            for output, (_, _, places) in zip(outputs, group, strict=True):
                completions = sorted(output.outputs, key=lambda one: one.index)
                for place, completion in zip(places, completions, strict=True):
                    found[place] = types.SimpleNamespace(outputs=[completion])
        return found

    lm._model_generate, lm.batch_size = joined, size
    try:
        yield
    finally:
        del lm._model_generate
        lm.batch_size = batch_size


def _pieces(lm: Any, tokens: Sequence[int], repeats: int) -> Iterator[tuple[int, int]]:
    """Yield the first number and the size of each request for one question: all in one, if a step can take it."""
    whole = getattr(lm, "data_parallel_size", 1) > 1 or vllm_pieces.fits(lm.model, (tuple(tokens), {"n": repeats}))
    yield from [(0, repeats)] if whole else [(number, 1) for number in range(repeats)]


def _groups(lm: Any, parts: Sequence[tuple[list[int], Any, list[int]]]) -> Iterator[Sequence[Any]]:
    """Yield what the engine gets at once; on the CPU prompts of seeded requests must be read in one piece."""
    if getattr(lm, "data_parallel_size", 1) > 1:
        yield parts
        return
    start = 0
    requests = [(tuple(tokens), {"n": parameters.n}) for tokens, parameters, _ in parts]
    for group in vllm_pieces.groups(lm.model, requests):
        yield parts[start : start + len(group)]
        start += len(group)


# Servers


class _Hook:
    """Stands in the place of the harness's cache and keeps each answer of a server as it comes."""

    def __init__(self, places: Mapping[tuple[str, int], tuple[int, int]], keep: Keep) -> None:
        self._places, self._keep = places, keep

    def add_partial(self, kind: str, request: Any, answer: Any) -> None:
        prompt, arguments = request
        place = self._places.get((str(prompt), arguments.get("seed")))
        if place is not None:
            self._keep({place[0]: {place[1]: answer}})


def _by_seed(lm: Any, questions: Sequence[Asked], lacking: Sequence[Sequence[int]], keep: Keep) -> None:
    """K requests with seeds that all questions share: the harness sends those at once that have equal arguments."""
    places = [(place, number) for place, numbers in enumerate(lacking) for number in numbers]
    asked = [
        instance("generate_until", (question.prompt, {**question.arguments, "seed": question.base_seed + number}))
        for place, number in places
        for question in [questions[place]]
    ]
    known = {
        (str(one.args[0]), one.args[1]["seed"]): place for one, place in zip(asked, places, strict=True)
    }  # equal prompts with other arguments would be one here
    hook, lm.cache_hook = lm.cache_hook, _Hook(known if len(known) == len(asked) else {}, keep)
    try:
        texts = ask(lm.generate_until, asked)
    finally:
        lm.cache_hook = hook
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for (place, number), text in zip(places, texts, strict=True):
        found[place][number] = text
    keep(found)


# transformers, and any other model

_smaller: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""The batch size that a loaded model's memory lasted for, where it was less than K."""


def _copies(lm: Any, questions: Sequence[Asked], lacking: Sequence[Sequence[int]], keep: Keep) -> None:
    """K copies of one question in a batch, smaller ones once memory has run out."""
    for place, question in enumerate(questions):
        size = min(question.repeats, _smaller.get(lm, question.repeats))
        while True:
            texts = _attempt(lm, question, size)
            if texts is not None:
                break
            free_memory()
            size = _smaller[lm] = max(1, size // 2)
            logger.warning("out of memory, going on with %d answers to a question at once", size)
        keep({place: dict(enumerate(texts))})


def _attempt(lm: Any, question: Asked, size: int) -> list[str] | None:
    """Return the answers, or None if there is not enough memory; the failed call's tensors are gone by then."""
    before, lm.batch_size_per_gpu = lm.batch_size_per_gpu, size
    try:
        return _cloned(lm, question)
    except (RuntimeError, MemoryError) as error:
        if size == 1 or not is_out_of_memory(error):
            raise
        return None
    finally:
        lm.batch_size_per_gpu = before


def _clones(lm: Any, questions: Sequence[Asked], lacking: Sequence[Sequence[int]], keep: Keep) -> None:
    for place, question in enumerate(questions):
        keep({place: dict(enumerate(_cloned(lm, question)))})


def _cloned(lm: Any, question: Asked) -> list[str]:
    asked = [instance("generate_until", (question.prompt, dict(question.arguments))) for _ in range(question.repeats)]
    with uncached(lm), seeded(question.seed):
        return ask(lm.generate_until, asked)
