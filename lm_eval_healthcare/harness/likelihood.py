"""Request type `answer_loglikelihood`: how likely a model finds a given answer, alone or after a prompt.

Arguments are (context, answer); an empty context asks for the answer alone. Unlike the harness's own requests,

* a tokenizer that adds a beginning-of-text token does not make the model predict that token after itself: exactly one
  prefix token stands before the answer, is not scored, and is reported;
* an answer is never cut: what does not fit is taken from the context's left, with a count, and an answer that is longer
  than half of the model's window beside such a context is scored in several windows, each token once;
* an answer without tokens is no error.

Where none of this applies, values equal the harness's `loglikelihood_rolling` and `loglikelihood`.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM, hash_args
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from lm_eval_healthcare.harness import requests as request_types
from lm_eval_healthcare.harness.replay import ReplayModel

if TYPE_CHECKING:
    Question = tuple[str, str]
    Response = tuple[float, int | None, int, str | None]
    Window = tuple[list[int], list[int]]

logger = logging.getLogger(__name__)

REQUEST_TYPE = "answer_loglikelihood"
# Windows that a model gets at once, and what a run with --use_cache that is killed loses at most.
WINDOWS_A_CALL = 512  # enough for an engine that makes its own batches
WINDOWS_A_STEP = 64  # of progress, where batches are small
# Tokens of context and continuation that a model takes, compared with its `max_length`: transformers does not read the
# last one, vLLM needs room for a generated one. One less where nobody knows.
_ROOM = {"HFLM": 1, "SGLangLM": 0, "TemplateAPI": 0, "VLLM": -1}


class _Plan(NamedTuple):
    """What a model is asked to find out about one answer."""

    windows: list[Window]
    context_cut: int = 0
    prefix_token: str | None = None


def answer_loglikelihood(lm: Any, requests: Sequence[Instance]) -> list[Response]:
    """Return the log-likelihood of each request's answer.

    Equal requests are computed once. Under `--use_cache` answers are kept as soon as they are there.

    Args:
        lm: A model of the harness.
        requests: Instances with arguments (context, answer).

    Returns:
        For each request (log-likelihood, tokens scored, context tokens cut, prefix token): natural logarithm; 0.0 over
        0 tokens for an empty answer, None for the number of tokens where only the model knows it; the text of the token
        before the first scored one, or None where the context stood there.

    Raises:
        ValueError: If an answer alone is asked for and the model has no token to put before it.
    """
    if isinstance(lm, ReplayModel):
        return lm.loglikelihood(list(requests))  # type: ignore[return-value]  # repeats what was saved, of any type
    questions: list[Question] = [(request.args[0], request.args[1]) for request in requests]
    found = _from_cache(lm, questions)
    missing = [question for question in dict.fromkeys(questions) if question not in found]
    found.update({question: (0.0, 0, 0, None) for question in missing if not question[1]})
    missing = [question for question in missing if question[1]]
    compute = _by_tokens if isinstance(lm, TemplateLM) and getattr(lm, "max_length", None) else _by_text
    for question, response in compute(lm, missing):
        found[question] = response
        _to_cache(lm, question, response)
    if (cache := entries(lm)) is not None:
        cache.commit()
    return [found[question] for question in questions]


request_types.register(REQUEST_TYPE, answer_loglikelihood)


# Windows


def token_limit(lm: Any) -> int:
    """Return how many tokens of context and continuation together one request to this model may have."""
    names = [*getattr(lm, "stands_for", ()), *(kind.__name__ for kind in type(lm).__mro__)]
    return int(lm.max_length) + next((_ROOM[name] for name in names if name in _ROOM), -1)


def windows_alone(tokens: list[int], prefix: int, limit: int) -> list[Window]:
    """Split a text into the harness's disjoint windows; the first one's context is the prefix token.

    Args:
        tokens: The text's tokens.
        prefix: The token before the first.
        limit: The most tokens of context and continuation together, 2 or more.
    """
    return [make_disjoint_window(window) for window in get_rolling_token_windows(tokens, prefix, limit - 1, 1)]


def windows_after(context: list[int], answer: list[int], limit: int, front: int | None = None) -> list[Window]:
    """Split an answer into windows that score each of its tokens once, in order.

    If everything fits, there is one window. If not, a window scores half of `limit` at most, and everything before
    those tokens (the context, then the answer) fills the rest, cut from the left: each token is conditioned on half a
    window at least of what stands before it.

    Args:
        context: The tokens before the answer, one or more.
        answer: The tokens to score.
        limit: The most tokens of context and continuation together, 2 or more.
        front: A token that stays in front when something is cut, such as the one that begins every text.
    """
    if len(context) + len(answer) <= limit:
        return [(context, answer)]
    windows: list[Window] = []
    text, start = context + answer, len(context)
    while start < len(text):
        end = min(len(text), start + limit - limit // 2)
        room = limit - (end - start)
        kept = text[max(0, start - room) : start]
        if start > room > 1 and front is not None:
            kept = [front, *kept[1:]]
        windows.append((kept, text[start:end]))
        start = end
    return windows


def _plan(lm: Any, context: str, answer: str) -> _Plan:
    limit, prefix = token_limit(lm), lm.prefix_token_id
    if prefix is None:
        raise ValueError(
            "this model has no token to put before a text: neither a beginning nor an end of text is known. Give one "
            "with prefix_token_id=... in --model_args, and a server's tokenizer with tokenizer=..."
        )
    if context:
        before, tokens = lm._encode_pair(context, answer)
        if before and tokens:
            windows = windows_after(before, tokens, limit, prefix if before[0] == prefix else None)
            return _Plan(windows, len(before) - min(len(before), len(windows[0][0])))
    else:
        tokens = lm.tok_encode(answer, add_special_tokens=False)
    while tokens and tokens[0] == prefix:  # it stands there already
        tokens = tokens[1:]
    return _Plan(windows_alone(tokens, prefix, limit), prefix_token=_text_of(lm, prefix) if tokens else None)


def _text_of(lm: Any, token: int) -> str:
    try:
        return str(lm.tokenizer.decode([token]))
    except Exception:  # tokenizers of servers and of other makers differ; the number says enough
        return f"token {token}"


# Asking a model that the harness gives tokens


def _by_tokens(lm: Any, questions: Sequence[Question]) -> Iterator[tuple[Question, Response]]:
    """Yield the response to each question as soon as all of its windows are computed, the longest first."""
    quiet = getattr(lm, "rank", 0) != 0
    bar = tqdm(questions, desc="Tokenizing answers", disable=quiet or len(questions) < 1000)
    plans = [_plan(lm, *question) for question in bar]
    windows = [(place, window) for place, plan in enumerate(plans) for window in plan.windows]
    windows.sort(key=lambda item: -sum(map(len, item[1])))
    sums: list[list[float]] = [[] for _ in plans]
    for place, plan in enumerate(plans):
        if not plan.windows:
            yield questions[place], (0.0, 0, plan.context_cut, None)
    with tqdm(total=len(windows), desc=f"Running {REQUEST_TYPE} requests", disable=quiet) as bar:
        for batch, values in computed(lm, windows):
            for (place, _), (value, *_) in zip(batch, values, strict=False):  # padding is left over
                plan = plans[place]
                sums[place].append(float(value))
                if len(sums[place]) == len(plan.windows):
                    tokens = sum(len(scored) for _, scored in plan.windows)
                    total = math.fsum(sums[place])
                    yield questions[place], (total, tokens, plan.context_cut, plan.prefix_token)
            bar.update(len(batch))


def computed(lm: Any, windows: list[tuple[int, Window]]) -> Iterator[tuple[list[tuple[int, Window]], list[Any]]]:
    """Yield windows in batches with what the model says of them; every rank makes the same number of passes."""
    asked = [window for _, window in windows]
    if getattr(lm, "world_size", 1) > 1:
        filler: Window = ([lm.prefix_token_id], [lm.prefix_token_id])
        asked += [filler] * (_most_of_ranks(lm, len(windows)) - len(windows))
    if not asked:
        return
    options: dict[str, Any] = {"disable_tqdm": True}
    size = WINDOWS_A_CALL
    if _pads_batches(lm):
        if lm.batch_size == "auto":  # found once, by the longest window; the harness would look again in every call
            options["override_bs"] = lm._detect_batch_size([(None, *max(asked, key=lambda w: len(w[0] + w[1])))], 0)
        width = int(options.get("override_bs") or lm.batch_size)
        size = width * math.ceil(WINDOWS_A_STEP / width)
    elif getattr(lm, "data_parallel_size", 1) > 1:
        size = len(asked)  # every call starts the workers anew
    for start in range(0, len(asked), size):
        part = [(None, before, scored) for before, scored in asked[start : start + size]]
        with _each_alone(lm):
            values = lm._loglikelihood_tokens(part, **options)
        yield windows[start : start + size], values


@contextlib.contextmanager
def _each_alone(lm: Any) -> Iterator[None]:
    """Keep the harness's transformers back end from answering several windows with one pass.

    It does so where context and continuation together are the same but for the last token, and takes the log-likelihood
    of a shorter continuation from the first positions of the longest, not from the last: a wrong number. Texts that
    repeat themselves have such windows. It is meant for choices of one token, of which there are none here.
    """
    shares = getattr(lm, "logits_cache", None)
    if not shares:
        yield
        return
    lm.logits_cache = False
    try:
        yield
    finally:
        lm.logits_cache = shares


def _pads_batches(lm: Any) -> bool:
    """Say whether the model is the harness's transformers back end, which makes batches of a size that it must find."""
    return any(kind.__name__ == "HFLM" for kind in type(lm).__mro__)


def _most_of_ranks(lm: Any, count: int) -> int:
    import torch

    return int(lm.all_gather(torch.tensor([count], device=lm.device)).max().item())


# Asking any other model


def _by_text(lm: Any, questions: Sequence[Question]) -> Iterator[tuple[Question, Response]]:
    """Yield the responses of a model whose tokens nobody sees, through the harness's own two requests."""
    for method, chosen in (
        ("loglikelihood_rolling", [question for question in questions if not question[0]]),
        ("loglikelihood", [question for question in questions if question[0]]),
    ):
        for start in range(0, len(chosen), WINDOWS_A_CALL):
            batch = chosen[start : start + WINDOWS_A_CALL]
            asked = [
                Instance(
                    request_type=method,
                    doc={},
                    arguments=question if question[0] else question[1:],
                    idx=place,
                    metadata=(None, None, 1),
                )
                for place, question in enumerate(batch)
            ]
            for question, value in zip(batch, getattr(lm, method)(asked), strict=True):
                number = value[0] if isinstance(value, tuple | list) else value
                yield question, (float(number), None, 0, None)


# The harness's cache of answers


def entries(lm: Any) -> Any | None:
    """Return the harness's cache of answers under `--use_cache`, else None."""
    return getattr(getattr(lm, "cache_hook", None), "dbdict", None)


def _from_cache(lm: Any, questions: Sequence[Question]) -> dict[Question, Response]:
    cache = entries(lm)
    if cache is None:
        return {}
    found = {question: cache.get(hash_args(REQUEST_TYPE, question)) for question in dict.fromkeys(questions)}
    found = {question: response for question, response in found.items() if response is not None}
    logger.info("%d of %d answers' log-likelihoods are in the cache", len(found), len(questions))
    return found


def _to_cache(lm: Any, question: Question, response: Response) -> None:
    cache = entries(lm)
    if cache is not None:
        cache[hash_args(REQUEST_TYPE, question)] = response
