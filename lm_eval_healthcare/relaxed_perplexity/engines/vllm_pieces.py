"""Which sampling requests vLLM can take at once on the CPU, where a prompt must be read in one piece.

Where the tokens of a step do not suffice for a prompt, vLLM reads a part of it, draws a token in vain and sets the
request's random generator back. Generators on the CPU cannot be set back: the engine ends. On a GPU all go at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval_healthcare.relaxed_perplexity.engines.vllm_ways import Request


def groups(llm: Any, requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """Yield the requests in groups that are read in one piece, in order.

    Args:
        llm: A `vllm.LLM`.
        requests: Prompts with the parameters of their requests.

    Raises:
        RuntimeError: If one alone is too long for a step.
    """
    most = tokens_of_a_step(llm)
    if most is None:
        yield requests
        return
    block = _shared_block(llm)
    costs = [_cost(request, block) for request in requests]
    if max(costs, default=0) > most:
        raise RuntimeError(
            f"on the CPU vLLM must read a question with all its completions in one step, which takes {max(costs)} "
            f"tokens here, and a step has {most}; start it with a larger max_num_batched_tokens, or ask for fewer "
            "completions (relaxed_samples)"
        )
    begin = total = 0
    for place, cost in enumerate(costs):
        if total + cost > most:
            yield requests[begin:place]
            begin, total = place, 0
        total += cost
    if begin < len(requests):
        yield requests[begin:]


def fits(llm: Any, request: Request) -> bool:
    """Say whether a request is read in one piece with all its completions, or need not be."""
    most = tokens_of_a_step(llm)
    return most is None or _cost(request, _shared_block(llm)) <= most


def tokens_of_a_step(llm: Any) -> int | None:
    """Return the most tokens of a step where prompts may be read in pieces on the CPU; None where that does no harm."""
    config = llm.llm_engine.vllm_config
    if getattr(getattr(config, "device_config", None), "device_type", None) != "cpu":
        return None
    scheduler = config.scheduler_config
    return int(scheduler.max_num_batched_tokens) if scheduler.enable_chunked_prefill else None


def _shared_block(llm: Any) -> int:
    cache = llm.llm_engine.vllm_config.cache_config
    return int(cache.block_size) if cache.enable_prefix_caching else 0


def _cost(request: Request, block: int) -> int:
    """Return the tokens that are computed of a prompt for all its completions, which share whole blocks."""
    tokens, parameters = request
    others = int(parameters.get("n", 1)) - 1
    return len(tokens) + others * (min(block, len(tokens)) if block else len(tokens))
