"""Running the model for some seconds on the first documents, to know how fast it is on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance

from lm_eval_healthcare.harness import repeated_requests
from lm_eval_healthcare.harness import requests as request_types
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.plan_requests import GENERATION, LIKELIHOOD, RELAXED, count, kind_of, plain_type
from lm_eval_healthcare.harness.privacy import guarded

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.plan_tokens import CountingModel
    from lm_eval_healthcare.harness.run import Prepared

logger = logging.getLogger(__name__)

_FIRST_ANSWER = 16  # tokens of the first answers, from which is seen how long whole ones take
_FOR_PROMPTS = 0.25  # of the time for generation that goes to reading prompts alone
_GROWTH = 2
_CAREFUL = 3  # the next batch, of twice the size, is thought to take so many times as long


@dataclass
class Probed:
    """What a probe found.

    Attributes:
        load_seconds: Time to load the model.
        seconds: Time in which it was asked.
        requests: Requests that it answered.
        prompt_rate: Tokens of prompts that it read per second; None if it was not asked to write.
        output_rate: Tokens of answers that it wrote per second; None likewise, or if it wrote nothing.
        likelihood_rate: Tokens per second where likelihoods were asked for; None if they were not.
        answer_tokens: Mean tokens of the answers to each task's first documents, where whole ones were written.
    """

    load_seconds: float
    seconds: float = 0.0
    requests: int = 0
    prompt_rate: float | None = None
    output_rate: float | None = None
    likelihood_rate: float | None = None
    answer_tokens: dict[str, float] = field(default_factory=dict)


def refuse_probe(config: Any) -> None:
    """Refuse a probe that would not end in time.

    Raises:
        OptionError: If the harness would first look for the largest batch.
    """
    if "hf" in str(config.model) and str(config.batch_size).startswith("auto"):
        raise OptionError(
            "--probe with --batch_size auto: the harness's search for the largest batch takes longer than the probe. "
            "Give a number of documents, such as --batch_size 8"
        )


def probe(prepared: Prepared, lm: CountingModel, first: Mapping[str, Sequence[Instance]], seconds: float) -> Probed:
    """Load the model through the harness, and ask it real requests of the first documents of every task.

    Args:
        prepared: The command.
        lm: The model's tokens.
        first: The requests of the first documents of each task.
        seconds: For how long; a batch that has begun is finished.
    """
    model, load_seconds = _loaded(prepared)
    found = Probed(load_seconds)
    kinds = {
        kind: _in_turn([[one for one in part if kind_of(one) == kind] for part in first.values()])
        for kind in (GENERATION, LIKELIHOOD, RELAXED)
    }
    writing = [_once(one) for one in kinds[GENERATION]] or [_as_generation(one) for one in kinds[RELAXED]]
    parts = [part for part in (kinds[LIKELIHOOD], writing) if part]
    begun = time.perf_counter()
    size = prepared.config.batch_size
    probing = _Probe(model, lm, found, int(size) if str(size or 1).isdigit() else 1)
    if kinds[LIKELIHOOD]:
        probing.likelihoods(kinds[LIKELIHOOD], seconds / len(parts))
    if writing:
        probing.generations(writing, seconds - (time.perf_counter() - begun), whole=bool(kinds[GENERATION]))
    found.seconds = time.perf_counter() - begun
    return found


def _loaded(prepared: Prepared) -> tuple[Any, float]:
    from lm_eval.api.registry import get_model

    config = prepared.config
    request_types.install()
    begun = time.perf_counter()
    model = get_model(config.model).create_from_arg_obj(
        dict(prepared.args.model_args or config.model_args or {}),
        {"batch_size": config.batch_size, "max_batch_size": config.max_batch_size, "device": config.device},
    )
    return model, time.perf_counter() - begun


def _in_turn(tasks: Sequence[Sequence[Instance]]) -> list[Instance]:
    """Return the requests of the first document of each task, then those of the second, and so on."""
    by_document = []
    for instances in tasks:
        documents: dict[Any, list[Instance]] = {}
        for one in instances:
            documents.setdefault(one.doc_id, []).append(one)
        by_document.append(list(documents.values()))
    return [one for row in zip_longest(*by_document, fillvalue=[]) for document in row for one in document]


def _once(instance: Instance) -> Instance:
    """Return a request for one answer; those for several sampled ones hold how many."""
    if plain_type(instance) != repeated_requests.REQUEST_TYPE:
        return instance
    name = str(instance.request_type).replace(repeated_requests.REQUEST_TYPE, "generate_until")
    metadata = (instance.task_name, instance.doc_id, 1)
    return Instance(request_type=name, doc=instance.doc, arguments=instance.args[:2], idx=0, metadata=metadata)


def _as_generation(instance: Instance) -> Instance:
    """Return a request for a completion as long as those that Relaxed Perplexity samples."""
    name = "generate_until"
    if str(instance.request_type).startswith(guarded("")):
        name = guarded(name)
    prompt, _, options = instance.args
    arguments = (prompt, {"until": [], "max_gen_toks": max(1, int(options["length"])), "do_sample": False})
    return Instance(request_type=name, doc=instance.doc, arguments=arguments, idx=0, metadata=instance.metadata)


class _Probe:
    """Asks a model more and more at once, as long as time lasts; the last and largest batch says how fast it is."""

    def __init__(self, model: Any, lm: CountingModel, found: Probed, batch: int) -> None:
        self._model, self._lm, self._found, self._batch = model, lm, found, batch

    def _ask(self, part: Sequence[Instance]) -> tuple[list[Any], float]:
        begun = time.perf_counter()
        answers: list[Any] = [None] * len(part)
        for name in dict.fromkeys(one.request_type for one in part):
            places = [place for place, one in enumerate(part) if one.request_type == name]
            found = getattr(self._model, name)([part[place] for place in places])
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        self._found.requests += len(part)
        return answers, max(time.perf_counter() - begun, 1e-9)

    def likelihoods(self, instances: Sequence[Instance], seconds: float) -> None:
        """Find the rate at which likelihoods are computed."""
        end = time.perf_counter() + seconds
        self._ask(instances[:1])  # what is done once does not count
        for part in _growing(instances, max(4, self._batch)):
            _, took = self._ask(part)
            self._found.likelihood_rate = count(self._lm, part, "").computed / took
            if time.perf_counter() + _CAREFUL * took > end:
                return

    def generations(self, instances: Sequence[Instance], seconds: float, whole: bool) -> None:
        """Find the rates at which prompts are read and answers are written, and how long answers are.

        Args:
            instances: Requests.
            seconds: For how long.
            whole: Whether the answers say how long a task's answers are.
        """
        begun = time.perf_counter()
        self._ask([_shortened(instances[0], 1)])
        others = instances[len(instances) // 2 :]  # prompts that are read again may come from a cache
        for part in _growing(others, self._batch):
            _, took = self._ask([_shortened(one, 1) for one in part])
            self._found.prompt_rate = count(self._lm, part, "").prompt / took
            if time.perf_counter() + _CAREFUL * took > begun + _FOR_PROMPTS * seconds:
                break
        lengths: dict[str, list[int]] = {}
        rate = None  # seconds for one token of each answer of a batch
        for part in _growing(instances, self._batch):
            left = begun + seconds - time.perf_counter()
            limit = _FIRST_ANSWER if rate is None else int(left / rate)
            if limit < _FIRST_ANSWER:
                break
            most = max(self._lm.answer_limit(one.args[1]) for one in part)
            answers, took = self._ask([_shortened(one, limit) for one in part])
            rate = self._learn(part, answers, took, min(limit, most)) or rate
            if whole and limit >= most:
                for one, written in zip(part, self._written(answers), strict=True):
                    lengths.setdefault(one.task_name, []).append(written)
        if self._found.output_rate is None:  # answers end at a stop string at once: how fast is the model without?
            part = [_shortened(one, _FIRST_ANSWER, stops=False) for one in instances[: self._batch]]
            self._learn(part, *self._ask(part), _FIRST_ANSWER)
        self._found.answer_tokens = {task: sum(found) / len(found) for task, found in lengths.items()}

    def _written(self, answers: Sequence[Any]) -> list[int]:
        return self._lm.lengths([str(answer) for answer in answers], add_special_tokens=False)

    def _learn(self, part: Sequence[Instance], answers: Sequence[Any], took: float, limit: int) -> float:
        """Take the time for prompts off, and return the seconds for each token of a batch's answers."""
        written = self._written(answers)
        prompts = count(self._lm, part, "").prompt / (self._found.prompt_rate or 1)
        writing = max(took - prompts, took / 10)
        if sum(written):
            self._found.output_rate = sum(written) / writing
        return writing / max(1, *written) * _GROWTH if any(written) else took / limit * _GROWTH


def _shortened(instance: Instance, limit: int, stops: bool = True) -> Instance:
    """Return the same request with fewer tokens to be written, with its stop strings or without."""
    prompt, kwargs = instance.args
    names = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
    least = min([limit, *(int(kwargs[name]) for name in names if kwargs.get(name) is not None)])
    shorter = {**{name: value for name, value in kwargs.items() if name not in names}, "max_gen_toks": least}
    shorter = shorter if stops else {**shorter, "until": []}
    return Instance(
        request_type=instance.request_type,
        doc=instance.doc,
        arguments=(prompt, shorter),
        idx=instance.idx,
        metadata=instance.metadata,
    )


def _growing(instances: Sequence[Instance], size: int) -> Iterator[Sequence[Instance]]:
    """Yield parts of which each is larger than the last, up to all; of few requests all of them again."""
    start = 0
    while True:
        part = instances[start : start + size]
        if len(part) < min(size, len(instances)):
            part, start = instances[: min(size, len(instances))], 0
        yield part
        start += len(part)
        if size >= len(instances):
            return
        size *= _GROWTH
