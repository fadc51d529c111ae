"""Request type `choice_loglikelihood`: the choices of a question with as few requests as the model allows.

The harness asks vLLM for every choice in a request of its own, with the log-probabilities of the prompt, for which
vLLM does not read its prefix cache. Where each choice is exactly one token after the context ("A" to "D", "yes" or
"no"), all of them are among the model's predictions for one next token: one request with the context answers the
question, and few-shot examples or an instruction that questions share are computed once. The numbers are those of
`loglikelihood`, up to the order of floating-point additions.

The same holds for choices that differ in their last token only. With a chat template they usually do: the template
ends in a line break, which the harness counts as part of the choice. Each token that the choices share costs a further
request, with a prompt that the prefix cache knows.

Everything else is handed to the model's own `loglikelihood`: choices of several tokens, models that are not vLLM, and
vLLM models that compute log-likelihoods in a way of their own. The harness's transformers back end needs nothing from
here, since it already computes one pass for all one-token choices of a context.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval.api.model import hash_args
from tqdm import tqdm

from lm_eval_healthcare.harness import requests as request_types

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

logger = logging.getLogger(__name__)

REQUEST_TYPE = "choice_loglikelihood"
# Contexts that the engine gets at once where it batches by itself: what a run that is killed loses at most.
CONTEXTS_A_CALL = 512
# vLLM's usual limit for log-probabilities of one position.
TOKENS_A_REQUEST = 20
# Tokens that all choices of a question may begin with.
SHARED_TOKENS = 2

Likelihood = tuple[float, bool]
Step = tuple[tuple[int, ...], int]


class _Choice(NamedTuple):
    """A choice: its place among the requests, and each of its tokens with all that the model reads before it."""

    place: int
    steps: tuple[Step, ...]


class _Refused(Exception):
    """The engine cannot answer for tokens that are named."""


def choice_loglikelihood(lm: Any, requests: Sequence[Instance]) -> list[Likelihood]:
    """Return what `lm.loglikelihood(requests)` would, with one request a question where that is possible.

    Under `--use_cache` the answers are read from and written to the entries of the harness's own `loglikelihood`, so
    that runs with and without the pack share them, and a run that was killed goes on where it stopped.

    Args:
        lm: A model of the harness.
        requests: Instances with arguments (context, continuation); repeats and padding copies are answered as well.

    Returns:
        For each request the natural logarithm of the continuation's probability given the context, and whether greedy
        decoding would produce it.
    """
    answers = _cached(lm, requests)
    missing = [place for place, answer in enumerate(answers) if answer is None]
    engine = _engine(lm) if missing else None
    if engine is not None:
        choices = _last_token_choices(lm, requests, missing)
        try:
            for place, answer in _ask(lm, engine.SamplingParams, requests, choices):
                answers[place] = answer
        except _Refused as refusal:
            logger.warning("vLLM gives no log-probabilities of named tokens (%s); each choice is asked alone", refusal)
        missing = [place for place in missing if answers[place] is None]
        logger.info("%d of %d choices were answered question by question", len(choices), len(requests))
    if missing:
        rest = lm.loglikelihood([requests[place] for place in missing])
        for place, answer in zip(missing, rest, strict=True):
            answers[place] = answer
            _save(lm, requests[place], answer)
    _commit(lm)
    return answers  # type: ignore[return-value]


request_types.register(REQUEST_TYPE, choice_loglikelihood)


# Which models, and which choices


def _engine(lm: Any) -> Any | None:
    """Return the harness's vLLM module if `lm` is its model and computes log-likelihoods as that does, else None."""
    module = sys.modules.get("lm_eval.models.vllm_causallms")
    model = getattr(module, "VLLM", None)
    if model is None or not isinstance(lm, model):
        return None
    methods = ("loglikelihood", "_loglikelihood_tokens", "_model_generate", "_parse_logprobs")
    if any(getattr(type(lm), name) is not getattr(model, name) for name in methods):
        return None
    if lm.enable_thinking or lm.max_length < 3:
        return None  # the harness's method says what is wrong
    # With another mode vLLM's numbers for predictions are not those that it gives for prompts.
    return module if str(lm.model_args.get("logprobs_mode") or "raw_logprobs") == "raw_logprobs" else None


def _last_token_choices(lm: Any, requests: Sequence[Instance], places: Sequence[int]) -> list[_Choice]:
    """Return the choices of every question whose choices are the same tokens but for the last."""
    questions: dict[tuple[Any, ...], list[int]] = {}
    for place in places:
        request = requests[place]
        if len(request.args) == 2:
            questions.setdefault((request.task_name, request.doc_id, request.args[0]), []).append(place)
    found: list[_Choice] = []
    cut = 0
    for group in tqdm(questions.values(), desc="Tokenizing questions", disable=lm.rank != 0):
        split = _split(lm, list(dict.fromkeys(requests[place].args for place in group)))
        if split is None:
            continue
        context, shared, last = split
        # vLLM needs room for one generated token, and the last one of the choice is not in the prompt.
        start = max(0, len(context) + len(shared) - (lm.max_length - 2))
        cut += start > 0
        read = context[start:]
        before = tuple((read + shared[:i], token) for i, token in enumerate(shared))
        found += [_Choice(place, (*before, (read + shared, last[requests[place].args]))) for place in group]
    if cut:
        logger.warning("%d contexts do not fit into %d tokens; they lose their first ones", cut, lm.max_length)
    return found


def _split(
    lm: Any, pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[int, ...], tuple[int, ...], dict[tuple[str, str], int]] | None:
    """Return the tokens of a question's context, those that all choices begin with, and each choice's last one.

    None if the choices differ in more than the last token, or if as many requests would be needed as there are choices.
    """
    beginnings, last = set(), {}
    for pair in pairs:
        context, continuation = _encode(lm, *pair)
        beginnings.add((tuple(context), tuple(continuation[:-1])))
        if not context or not 1 <= len(continuation) <= SHARED_TOKENS + 1 or len(beginnings) > 1:
            return None
        last[pair] = continuation[-1]
    ((read, shared),) = beginnings
    useful = not shared or len(shared) + 1 < len(pairs)
    return (read, shared, last) if useful and len(shared) + 2 < lm.max_length else None


def _encode(lm: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Return the tokens of context and continuation as the harness's `loglikelihood` splits them."""
    if context:
        return lm._encode_pair(context, continuation)
    tokens = lm.tok_encode(continuation, add_special_tokens=False)
    first = lm.prefix_token_id
    return (tokens[:1], tokens[1:]) if tokens[:1] == [first] else ([first], tokens)


# Asking the engine


def _prompts(choices: Sequence[_Choice]) -> list[tuple[tuple[int, ...], list[int]]]:
    """Return each context once with the tokens to ask for; common beginnings together, for the prefix cache."""
    contexts: dict[tuple[int, ...], dict[int, None]] = {}
    for choice in choices:
        for context, token in choice.steps:
            contexts.setdefault(context, {})[token] = None
    return [
        (context, list(contexts[context])[start : start + TOKENS_A_REQUEST])
        for context in sorted(contexts)
        for start in range(0, len(contexts[context]), TOKENS_A_REQUEST)
    ]


def _ask(
    lm: Any, sampling_params: Any, requests: Sequence[Instance], choices: Sequence[_Choice]
) -> Iterator[tuple[int, Likelihood]]:
    """Yield place and answer of each choice, and save the answers of each call in the cache."""
    prompts = _prompts(choices)
    size = CONTEXTS_A_CALL if lm.batch_size == "auto" else int(lm.batch_size)
    if lm.data_parallel_size > 1:
        size = max(1, len(prompts))  # every call starts the workers anew
    values: dict[Step, Likelihood] = {}
    waiting: dict[Step, list[_Choice]] = {}
    for choice in choices:
        waiting.setdefault(choice.steps[-1], []).append(choice)
    with tqdm(total=len(choices), desc=f"Running {REQUEST_TYPE} requests", disable=lm.rank != 0) as bar:
        for start in range(0, len(prompts), size):
            batch = prompts[start : start + size]
            for (context, tokens), output in zip(batch, _generate(lm, sampling_params, batch), strict=True):
                for token, value in _likelihoods(output, tokens).items():
                    values[context, token] = value
                    # Shorter prompts come first, so a choice is complete with its last step.
                    for choice in waiting.get((context, token), []):
                        parts = [values[step] for step in choice.steps]
                        answer = sum(part for part, _ in parts), all(greedy for _, greedy in parts)
                        _save(lm, requests[choice.place], answer)
                        bar.update(1)
                        yield choice.place, answer


def _generate(lm: Any, sampling_params: Any, batch: Sequence[tuple[tuple[int, ...], list[int]]]) -> Sequence[Any]:
    try:
        parameters = [
            sampling_params(temperature=0, max_tokens=1, detokenize=False, logprob_token_ids=tokens)
            for _, tokens in batch
        ]
        contexts = [list(context) for context, _ in batch]
        return lm._model_generate(requests=contexts, generate=True, sampling_params=parameters)
    except Exception as error:
        # vLLM's errors have no common class over its versions. Whatever is wrong for good comes up again, as itself,
        # when the harness's way asks the same engine.
        raise _Refused(f"{type(error).__name__}: {error}") from error


def _likelihoods(output: Any, tokens: Sequence[int]) -> dict[int, Likelihood]:
    """Return the answer for each token from the engine's first predicted position."""
    completion = output.outputs[0]
    if not completion.logprobs or not completion.token_ids:
        raise _Refused("the answer holds none")
    values = {token: getattr(value, "logprob", value) for token, value in completion.logprobs[0].items()}
    sampled = completion.token_ids[0]
    if any(token not in values for token in (sampled, *tokens)):
        raise _Refused("the answer lacks some")
    # As in the harness, a choice that ties with the likeliest token counts as greedy.
    return {token: (values[token], values[token] >= values[sampled]) for token in tokens}


# The harness's cache of answers


def _entries(lm: Any) -> Any | None:
    return getattr(getattr(lm, "cache_hook", None), "dbdict", None)


def _cached(lm: Any, requests: Sequence[Instance]) -> list[Likelihood | None]:
    """Return the answers that the harness's cache holds, None for the others."""
    entries = _entries(lm)
    if entries is None:
        return [None] * len(requests)
    found = [entries.get(hash_args("loglikelihood", request.args)) for request in requests]
    logger.info("%d of %d log-likelihoods are in the cache", sum(a is not None for a in found), len(found))
    return found


def _save(lm: Any, request: Instance, answer: Likelihood) -> None:
    if _entries(lm) is not None:
        lm.cache_hook.add_partial("loglikelihood", request.args, answer)


def _commit(lm: Any) -> None:
    entries = _entries(lm)
    if entries is not None:
        entries.commit()
