"""Request type `relaxed_perplexity`: the matrix of Relaxed Perplexity of one document, as a JSON text.

Arguments are (prompt, targets, options): targets are pairs of a list's name and a text, options those of
`options_for`. The prompt's tokens are those that any request of the harness has. A target's tokens are found once, as
it would stand inside a text, and follow the raw tokens of each prefix, which may end inside a word.

What does not fit into the model is taken from the prompt's left, once for all of the document's branches, with a count;
a target is never cut, and one for which there is no room beside a completion has no score, and a reason.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval.api.model import hash_args
from tqdm import tqdm

import lm_eval_healthcare
from lm_eval_healthcare.harness import requests as request_types
from lm_eval_healthcare.harness.likelihood import entries, token_limit
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.relaxed_codec import Codec
from lm_eval_healthcare.harness.relaxed_engines import engine_for
from lm_eval_healthcare.harness.replay import ReplayModel
from lm_eval_healthcare.relaxed_perplexity import Matrix, Settings, Target, measure
from lm_eval_healthcare.relaxed_perplexity.engines.base import Question

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine

logger = logging.getLogger(__name__)

REQUEST_TYPE = "relaxed_perplexity"
TARGET_TOO_LONG, NO_TOKENS = "target_too_long", "no_tokens"

Arguments = tuple[str, "list[list[str]]", dict[str, Any]]


class Plan(NamedTuple):
    """One document as it is put to an engine.

    Attributes:
        question: The cut prompt and the targets that fit; None if there is none.
        asked: The places of those targets among all.
        skipped: What is known of the others, by place.
        sizes: Bytes of each target, by place.
        groups: The list that each target belongs to, by place.
        cut: Tokens taken from the prompt's left.
        prefix_token: The text of the token that stands in for an empty prompt.
    """

    question: Question | None
    asked: list[int]
    skipped: dict[int, Target]
    sizes: list[int]
    groups: list[str]
    cut: int
    prefix_token: str | None


def options_for(
    settings: Settings, *, engine: str, delimiter: str, memory: float | None, texts: bool
) -> dict[str, Any]:
    """Return the third argument of a request.

    Args:
        settings: How it is measured.
        engine: The engine that is wanted, or `auto`.
        delimiter: What stands before each target.
        memory: GiB for the transformers engine, or None.
        texts: Whether the samples' texts are kept in the response.
    """
    return {**settings.as_dict(), "engine": engine, "delimiter": delimiter, "memory": memory, "texts": texts}


def relaxed_perplexity(lm: Any, requests: Sequence[Instance]) -> list[str]:
    """Return the matrix of each request's document as JSON.

    Equal requests are computed once. Under `--use_cache` documents are kept as soon as they are there.

    Args:
        lm: A model of the harness.
        requests: Instances with arguments (prompt, targets, options).

    Returns:
        For each request the JSON of `Matrix.as_response`, with the settings.

    Raises:
        OptionError: If the model cannot be asked in the way that was chosen.
    """
    if isinstance(lm, ReplayModel):
        return lm.loglikelihood(list(requests))  # type: ignore[return-value]  # repeats what was saved, of any type
    keys = [_key(lm, request.args) for request in requests]
    by_key: dict[str, Arguments] = {key: request.args for key, request in zip(keys, requests, strict=True)}
    cache = entries(lm)
    found = {key: response for key in by_key if cache is not None and (response := cache.get(key)) is not None}
    if cache is not None:
        logger.info("%d of %d documents' Relaxed Perplexity is in the cache", len(found), len(by_key))
    groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for key, (_, _, options) in by_key.items():
        _, missing = groups.setdefault(json.dumps(options, sort_keys=True), (options, []))
        if key not in found:
            missing.append(key)
    for options, missing in groups.values():
        for key, response in _computed(lm, [(key, by_key[key]) for key in missing], options):
            found[key] = response
            if cache is not None:
                cache[key] = response
                cache.commit()
    return [found[key] for key in keys]


request_types.register(REQUEST_TYPE, relaxed_perplexity)


def _key(lm: Any, arguments: Arguments) -> str:
    """The cache's key: everything that may change a number, the version and the model's window too."""
    prompt, targets, options = arguments
    what = {name: value for name, value in options.items() if name != "memory"}
    what |= {"version": lm_eval_healthcare.__version__, "window": getattr(lm, "max_length", None)}
    return hash_args(REQUEST_TYPE, (prompt, [list(target) for target in targets], what))


def _computed(lm: Any, documents: list[tuple[str, Arguments]], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not documents and getattr(lm, "world_size", 1) == 1:
        return  # several ranks ask together, the one that has nothing to ask too
    settings = Settings.from_dict(options)
    codec = Codec(lm)
    if getattr(lm, "max_length", None) and settings.length + 2 > token_limit(lm):
        raise OptionError(
            f"relaxed_length={settings.length}: with a prompt and a target it must fit into the {token_limit(lm)} "
            "tokens that this model takes; choose a smaller one"
        )
    engine = engine_for(lm, codec, options["engine"], options["memory"])
    quiet = getattr(lm, "rank", 0) != 0
    plans = [
        (key, plan_document(lm, codec, prompt, targets, settings, options["delimiter"]))
        for key, (prompt, targets, _) in tqdm(
            documents, desc="Tokenizing questions and targets", disable=quiet or len(documents) < 1000
        )
    ]
    # Questions of one length waste no padding, and the longest first shows at once whether memory lasts.
    plans.sort(key=lambda item: -len(item[1].question.tokens) if item[1].question else 0)
    decode = codec.decode if options["texts"] else None
    size = engine.group
    with tqdm(total=len(plans), desc=f"Relaxed Perplexity ({engine.name} engine)", disable=quiet) as bar:
        for start in range(0, max(len(plans), 1), size):
            part = plans[start : start + size]
            for (key, _), response in zip(part, _measured(engine, part, settings, decode), strict=True):
                told = {
                    **response,
                    "settings": settings.as_dict(),
                    "unit": codec.unit,
                    "delimiter": options["delimiter"],
                }
                yield key, json.dumps(told, ensure_ascii=False, separators=(",", ":"))
            bar.update(len(part))


def _measured(
    engine: Engine, part: Sequence[tuple[str, Plan]], settings: Settings, decode: Any
) -> list[dict[str, Any]]:
    asked = [plan for _, plan in part if plan.question is not None]
    matrices = iter(
        measure(
            engine,
            [plan.question for plan in asked if plan.question],
            settings,
            target_bytes=[[plan.sizes[place] for place in plan.asked] for plan in asked],
            decode=decode,
        )
    )
    responses = []
    for _, plan in part:
        matrix = next(matrices) if plan.question else Matrix((), (), (), (), 0, 0, engine=engine.name)
        by_place = {**plan.skipped, **dict(zip(plan.asked, matrix.targets, strict=True))}
        whole = replace(
            matrix,
            targets=tuple(replace(by_place[place], group=plan.groups[place]) for place in sorted(by_place)),
            context_cut=plan.cut,
            prefix_token=plan.prefix_token,
        )
        responses.append(whole.as_response())
    return responses


# From texts to tokens


def plan_document(
    lm: Any, codec: Codec, prompt: str, targets: Sequence[Sequence[str]], settings: Settings, delimiter: str
) -> Plan:
    """Return a document's tokens, cut to what the model takes.

    Args:
        lm: The model.
        codec: Its tokens.
        prompt: The question as the model gets it.
        targets: The lists' names and the texts to score.
        settings: How it is measured.
        delimiter: What stands before each target.
    """
    question, prefix_token = codec.prompt(prompt), None
    front = getattr(lm, "prefix_token_id", None) if codec.unit == "tokens" else None
    if not question:
        question, prefix_token = _stand_in(codec, front)
    groups, texts = [group for group, _ in targets], [text for _, text in targets]
    tokens = [codec.after(delimiter + text) for text in texts]
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    limit = token_limit(lm) if getattr(lm, "max_length", None) and codec.unit == "tokens" else None
    asked, skipped = [], {}
    for place, ids in enumerate(tokens):
        if not ids:
            skipped[place] = _without(0, sizes[place], NO_TOKENS)
        elif limit is not None and settings.length + len(ids) + 1 > limit:
            skipped[place] = _without(len(ids), sizes[place], TARGET_TOO_LONG)
        else:
            asked.append(place)
    if not asked:
        return Plan(None, [], skipped, sizes, groups, 0, None)
    room = None if limit is None else limit - settings.length - max(len(tokens[place]) for place in asked)
    kept = cut_left(question, room, front)
    seed = _seed(settings.seed, kept)
    asked_for = Question(tuple(kept), tuple(tuple(tokens[place]) for place in asked), seed)
    return Plan(asked_for, asked, skipped, sizes, groups, len(question) - len(kept), prefix_token)


def cut_left(tokens: list[int], room: int | None, front: int | None) -> list[int]:
    """Return the last `room` tokens; a token that begins every text stays in front if there is room for a second."""
    if room is None or len(tokens) <= room:
        return tokens
    kept = tokens[len(tokens) - room :]
    return [tokens[0], *kept[1:]] if tokens[0] == front and room > 1 else kept


def _stand_in(codec: Codec, front: int | None) -> tuple[list[int], str | None]:
    if codec.unit == "words":
        return codec.prompt("\n"), "\n"
    if front is None:
        raise ValueError(
            "a prompt is empty, and this model has no token to put before a text: neither a beginning nor an end of "
            "text is known. Give one with prefix_token_id=... in --model_args"
        )
    return [front], codec.decode([front])


def _without(length: int, size: int, reason: str) -> Target:
    import numpy as np

    return Target(length, size, np.empty(0), reason)


def _seed(seed: int, tokens: Sequence[int]) -> int:
    """A seed of the document's own, so that its samples do not depend on what else is run."""
    text = f"{seed} {' '.join(map(str, tokens))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (2**31 - 1)
