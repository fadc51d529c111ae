"""How many tokens a task's requests have: what the harness gives the model, and what the model must compute of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from lm_eval_healthcare.harness import choices, likelihood, relaxed_requests, repeated_requests
from lm_eval_healthcare.harness.privacy import guarded
from lm_eval_healthcare.harness.relaxed_codec import Codec
from lm_eval_healthcare.relaxed_perplexity import Settings

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.plan_tokens import CountingModel
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Question

logger = logging.getLogger(__name__)

GENERATION, LIKELIHOOD, RELAXED = "generation", "likelihood", "relaxed"
_PART = 1024  # requests whose tokens are in memory at once


@dataclass
class Amount:
    """What requests cost, in tokens.

    Attributes:
        requests: What the model is asked, repeated requests as often as they are repeated.
        prompt: Tokens that it is given: for likelihoods those of context and continuation. Prompts that do not fit
            count as far as they do.
        computed: Tokens of these that it must compute at least: choices that differ in their last token share the rest.
        output_most: Most tokens that it may write.
        longest: Tokens of the longest prompt as it would be if nothing were cut.
        cut: Prompts that lose tokens, since they and what follows do not fit into the model's context.
        targets: Relaxed Perplexity: texts that are scored.
        branches: Relaxed Perplexity: how often one of them is scored after a prefix, at most.
    """

    requests: int = 0
    prompt: int = 0
    computed: int = 0
    output_most: int = 0
    longest: int = 0
    cut: int = 0
    targets: int = 0
    branches: int = 0

    def add(self, other: Amount) -> None:
        """Take another amount in."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "longest" else mine + value)


def kind_of(instance: Instance) -> str:
    """Return whether a request is for a generated text, for likelihoods, or for Relaxed Perplexity."""
    name = plain_type(instance)
    generated = dict.fromkeys(("generate_until", repeated_requests.REQUEST_TYPE), GENERATION)
    return {**generated, relaxed_requests.REQUEST_TYPE: RELAXED}.get(name, LIKELIHOOD)


def plain_type(instance: Instance) -> str:
    """Return the request type, that of credentialed data without its guard."""
    return str(instance.request_type).removeprefix(guarded(""))


def count(lm: CountingModel, instances: Sequence[Instance], title: str) -> Amount:
    """Return what the requests of one task cost.

    Args:
        lm: The model's tokens.
        instances: The task's requests.
        title: The task's name, for the progress bar.
    """
    total = Amount()
    seen: set[int] = set()
    with tqdm(total=len(instances), desc=f"Counting tokens of {title}", disable=len(instances) < _PART) as bar:
        for start in range(0, len(instances), _PART):
            part = instances[start : start + _PART]
            for name in Counter(map(plain_type, part)):
                total.add(_COUNTERS[name](lm, [one for one in part if plain_type(one) == name], seen))
            bar.update(len(part))
    return total


def _generations(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    total = Amount()
    for instance, length in zip(instances, lm.lengths([one.args[0] for one in instances]), strict=True):
        most = lm.answer_limit(instance.args[1])
        room = max(0, lm.context - most) if lm.context else length
        times = max(1, instance.repeats or 1)
        fed = min(length, room)
        total.add(Amount(times, fed * times, fed * times, most * times, length, (length > room) * times))
    return total


def _repeated(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    """Count as `_generations`; vLLM computes a prompt once for all its answers."""
    total = _generations(lm, instances, seen)
    if "VLLM" in lm.stands_for:
        total.computed = sum(_generations(lm, [one], seen).prompt // max(1, one.repeats or 1) for one in instances)
    return total


def _likelihoods(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    """Count context and continuation, split as the harness's `loglikelihood` splits them."""
    shares = _shares(lm, instances[0])
    limit = likelihood.token_limit(lm) if lm.context else None
    contexts = list(dict.fromkeys(one.args[0].rstrip() for one in instances if one.args[0]))
    alone = dict(zip(contexts, lm.encode_all(contexts), strict=True))
    wholes = lm.encode_all([one.args[0] + one.args[1] for one in instances if one.args[0]])
    plain = iter(lm.encode_all([one.args[1] for one in instances if not one.args[0]], add_special_tokens=False))
    with_context = iter(wholes)
    total = Amount()
    for instance in instances:
        context = instance.args[0]
        tokens = _joined(alone[context.rstrip()], next(with_context)) if context else _after_prefix(lm, next(plain))
        times = max(1, instance.repeats or 1)
        fed = len(tokens) if limit is None else min(len(tokens), limit)
        key = hash(tuple(tokens[:-1]))
        computed = 0 if shares and key in seen else fed if shares else fed * times
        seen.add(key)
        total.add(Amount(times, fed * times, computed, 0, len(tokens), (fed < len(tokens)) * times))
    return total


def _shares(lm: CountingModel, instance: Instance) -> bool:
    """Say whether the back end computes once what choices have in common but for their last tokens."""
    (own,) = lm.stands_for
    return own == "HFLM" or (own == "VLLM" and plain_type(instance) == choices.REQUEST_TYPE)


def _joined(context: list[int], whole: list[int]) -> list[int]:
    return context + whole[len(context) :]


def _after_prefix(lm: CountingModel, tokens: list[int]) -> list[int]:
    prefix = lm.prefix_token_id
    return tokens if tokens[:1] == [prefix] else [prefix, *tokens]


def _answers(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    """Count the windows in which reference answers are scored; equal requests are computed once, blank ones not."""
    total = Amount()
    for instance in instances:
        context, answer = instance.args
        if not answer or (key := hash((context, answer))) in seen:
            continue
        seen.add(key)
        found = likelihood._plan(lm, context, answer)
        fed = sum(len(before) + len(scored) for before, scored in found.windows)
        scored = sum(len(scored) for _, scored in found.windows)
        longest = found.context_cut + len(found.windows[0][0]) + scored if found.windows else 0
        total.add(Amount(1, fed, fed, 0, longest, int(found.context_cut > 0)))
    return total


def _rolling(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    """Count the harness's windows over whole texts."""
    most = lm.max_length - 2 * ("VLLM" in lm.stands_for)
    total = Amount()
    for instance, tokens in zip(instances, lm.encode_all([one.args[0] for one in instances]), strict=True):
        rolling = get_rolling_token_windows(tokens, prefix_token=lm.prefix_token_id, max_seq_len=most, context_len=1)
        fed = sum(len(before) + len(scored) for before, scored in map(make_disjoint_window, rolling))
        times = max(1, instance.repeats or 1)
        total.add(Amount(times, fed * times, fed * times, 0, len(tokens)))
    return total


def _relaxed(lm: CountingModel, instances: Sequence[Instance], seen: set[int]) -> Amount:
    codec = Codec(lm)
    total = Amount()
    for instance in instances:
        prompt, targets, options = instance.args
        settings = Settings.from_dict(options)
        found = relaxed_requests.plan_document(lm, codec, prompt, targets, settings, options["delimiter"])
        codec = _forgetful(codec)
        if found.question is not None:
            amount = relaxed_amount(found.question, settings)
            amount.longest = len(found.question.tokens) + found.cut
            amount.cut = int(found.cut > 0)
            total.add(amount)
    return total


def _forgetful(codec: Codec) -> Codec:
    codec._prompts.clear()  # it keeps every prompt's text for engines that ask in words
    return codec


def relaxed_amount(question: Question, settings: Settings) -> Amount:
    """Return what Relaxed Perplexity of one document costs if all completions are whole and differ from each other.

    With B prefixes of lengths i, the question's q tokens and targets of t tokens, one forward pass a branch reads
    the sum over branches of q + i + t, and each of the s completions is sampled after q tokens: `prompt`. No way needs
    fewer than q tokens for sampling, and q + u + B (t - 1) for scoring, u being the longest prefixes: `computed`.

    Args:
        question: The document's tokens.
        settings: How it is measured.
    """
    kept = settings.samples if settings.keep is None else min(settings.keep, settings.samples)
    places = [0] + [position for position in settings.positions[1:] for _ in range(kept)]
    q, sizes = len(question.tokens), [len(target) for target in question.targets]
    naive = sum(len(places) * (q + t) + sum(places) for t in sizes)
    floor = q + kept * settings.positions[-1] + len(places) * sum(t - 1 for t in sizes)
    return Amount(
        requests=1,
        prompt=settings.samples * q + naive,
        computed=q + floor,
        output_most=settings.samples * settings.length,
        longest=q,
        targets=len(sizes),
        branches=len(places) * len(sizes),
    )


_COUNTERS: dict[str, Callable[[Any, Sequence[Any], set[int]], Amount]] = {
    "generate_until": _generations,
    repeated_requests.REQUEST_TYPE: _repeated,
    "loglikelihood": _likelihoods,
    choices.REQUEST_TYPE: _likelihoods,
    likelihood.REQUEST_TYPE: _answers,
    "loglikelihood_rolling": _rolling,
    relaxed_requests.REQUEST_TYPE: _relaxed,
}
