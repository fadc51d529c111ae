"""Request type `repeated_generation`: K sampled answers to one question.

Arguments are (prompt, generation arguments, options): options are those of `options_for`. The evaluator gives every
request K times, and those that pad a rank once more; each question is asked for K answers once, and the k-th of its
requests gets the k-th of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lm_eval_healthcare.harness import requests as request_types
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.repeated_store import OFF, AnswerStore, key_of, model_key
from lm_eval_healthcare.harness.repeated_ways import Asked, Way, arguments_for, way_for
from lm_eval_healthcare.harness.replay import ReplayModel

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

logger = logging.getLogger(__name__)

REQUEST_TYPE = "repeated_generation"
SAMPLER_VERSION = 1
"""Goes up when the same arguments would give other answers."""


def options_for(repeats: int, seed: int, cache: str | None) -> dict[str, Any]:
    """Return the third argument of a request.

    Args:
        repeats: Number of answers, K.
        seed: The run's seed.
        cache: The folder in which answers are kept, `off`, or None for the user's cache.
    """
    return {"repeats": repeats, "seed": seed, **({} if cache is None else {"cache": cache})}


@dataclass
class _Question:
    asked: Asked
    key: str | None
    folder: str | None
    answers: dict[int, Any] = field(default_factory=dict)

    @property
    def lacking(self) -> list[int]:
        return [number for number in range(self.asked.repeats) if number not in self.answers]


def repeated_generation(lm: Any, requests: Sequence[Instance]) -> list[Any]:
    """Return one answer for each request, K different draws for the K copies of a question.

    Args:
        lm: A model of the harness.
        requests: Instances with arguments (prompt, generation arguments, options), each K times.

    Returns:
        The answers in the order of the requests.

    Raises:
        OptionError: If the model cannot be asked so.
    """
    if isinstance(lm, ReplayModel):
        return lm.generate_until(list(requests))
    if str(getattr(getattr(lm, "accelerator", None), "distributed_type", "")).endswith("FSDP"):
        raise OptionError("repeated answers do not run under FSDP; use parallelize=True, or one process")
    way, identity = way_for(lm), model_key(lm)
    questions: dict[str, _Question] = {}
    contents = [_content(request) for request in requests]
    for content, request in zip(contents, requests, strict=True):
        if content not in questions:
            questions[content] = _question(lm, request, identity)
        request.answered_by = way
    for folder in dict.fromkeys(question.folder for question in questions.values()):
        _answer(lm, way, folder, [question for question in questions.values() if question.folder == folder])
    taken: dict[str, int] = dict.fromkeys(questions, 0)
    out = []
    for content in contents:
        question = questions[content]
        out.append(question.answers[taken[content] % question.asked.repeats])
        taken[content] += 1
    return out


request_types.register(REQUEST_TYPE, repeated_generation)


def _content(request: Instance) -> str:
    prompt, arguments, options = request.args
    return key_of(str(prompt), arguments, options)


def _question(lm: Any, request: Instance, identity: str | None) -> _Question:
    prompt, arguments, options = request.args
    used = arguments_for(lm, arguments)
    asked = Asked(prompt, used, int(options["repeats"]), int(options["seed"]))
    parts = (SAMPLER_VERSION, identity, str(prompt), used, asked.repeats, asked.base_seed)
    folder = options.get("cache")
    return _Question(asked, None if identity is None else key_of(*parts), OFF if identity is None else folder)


def _answer(lm: Any, way: Way, folder: str | None, questions: Sequence[_Question]) -> None:
    """Fill in the answers of questions that have one store: what is known, then what the model says."""
    quiet = getattr(lm, "rank", 0) != 0
    store = AnswerStore(folder)
    try:
        for question in questions:
            question.answers.update(store.get(question.key))
        missing = [question for question in questions if question.lacking]
        if len(missing) < len(questions) and not quiet:
            logger.info(
                "the answers to %d of %d questions are in %s", len(questions) - len(missing), len(questions), store.path
            )
        with tqdm(total=len(missing), desc=f"Asking for several answers ({way.name})", disable=quiet) as bar:
            for start in range(0, len(missing), way.group):
                part = missing[start : start + way.group]
                _ask(lm, way, store, part)
                bar.update(len(part))
    finally:
        store.close()


def _ask(lm: Any, way: Way, store: AnswerStore, part: Sequence[_Question]) -> None:
    def keep(found: Mapping[int, Mapping[int, Any]]) -> None:
        for place, answers in found.items():
            part[place].answers.update(answers)
        store.put({key: answers for place, answers in found.items() if (key := part[place].key) is not None})

    way.answer(lm, [question.asked for question in part], [question.lacking for question in part], keep)
