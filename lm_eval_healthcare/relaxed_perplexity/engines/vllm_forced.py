"""A logits processor for vLLM that makes chosen requests generate given tokens.

vLLM reports the log-probability that the model gave to each generated token before any processor changed the logits, so
a request that is made to generate a target yields the target's own log-probabilities, and its prompt may come from the
prefix cache. vLLM loads the class by the name in `LOGITS_PROCESSOR`, in the process that runs the model.

vLLM has two model runners, and each wants processors with an interface of its own; the class has both. It is built when
it is first asked for, so that importing this module does not import vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LOGITS_PROCESSOR = "lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced:ForcedTokens"
"""The processor's name, for the engine's argument `logits_processors`."""

FORCED = "forced_token_ids"
"""The key in `SamplingParams.extra_args` under which a request names the tokens that it is to generate."""

_UNIDIRECTIONAL = "UNIDIRECTIONAL"


def with_forced_tokens(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a vLLM engine with the processor added to its logits processors.

    Arguments under which vLLM takes no such processors, those of speculative decoding, are returned as they are.

    Args:
        arguments: Keyword arguments of `vllm.LLM`.
    """
    arguments = dict(arguments)
    if any(arguments.get(name) for name in ("speculative_config", "spec_method", "spec_model", "spec_tokens")):
        return arguments
    present = arguments.get("logits_processors") or []
    present = [present] if isinstance(present, str) else list(present)
    if LOGITS_PROCESSOR not in present:
        arguments["logits_processors"] = [*present, LOGITS_PROCESSOR]
    return arguments


class ForcedRows:
    """Which row of the batch is to generate which tokens, and the logits that make it do so.

    It knows nothing of vLLM. A row's next token is the one after those that it has generated: the list of generated
    tokens is the request's own, which grows, so a request that is put off and taken up again goes on where it was.
    """

    def __init__(self) -> None:
        """Start with no rows."""
        self._rows: dict[int, tuple[Sequence[int], Sequence[int]]] = {}

    def update(self, update: Any) -> None:
        """Follow a change of the batch: requests that left it, came to it, and changed places, in this order."""
        if update is None:
            return
        for row in update.removed:
            self._rows.pop(row, None)
        for row, params, _, generated in update.added:
            wanted = forced_tokens(params)
            if wanted:
                self._rows[row] = (wanted, generated)
            else:
                self._rows.pop(row, None)
        for one, other, direction in update.moved:
            first, second = self._rows.pop(one, None), self._rows.pop(other, None)
            if first is not None:
                self._rows[other] = first
            if second is not None and direction.name != _UNIDIRECTIONAL:
                self._rows[one] = second

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Leave in the rows that are to generate something only its next token; change no other row."""
        rows, tokens = [], []
        for row, (wanted, generated) in self._rows.items():
            step = len(generated)
            if step < len(wanted):
                rows.append(row)
                tokens.append(wanted[step])
        return leave_only(logits, rows, tokens)


def forced_tokens(params: Any) -> Sequence[int] | None:
    """Return the tokens that a request's parameters name, None if it names none."""
    return (getattr(params, "extra_args", None) or {}).get(FORCED)


def leave_only(logits: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
    """Set the logits of the rows to minus infinity, but for one token in each, in place.

    Args:
        logits: Of shape (rows of the batch, vocabulary).
        rows: Places of the rows to change, each once.
        tokens: The token that is left in each of them.
    """
    if not rows:
        return logits
    import torch

    at = torch.tensor([rows, tokens], dtype=torch.long).to(logits.device, non_blocking=True)
    logits.index_fill_(0, at[0], -torch.inf)
    # Not the value that was there: a token of probability zero must be generated too.
    logits.index_put_((at[0], at[1]), logits.new_zeros(()))
    return logits


def check_params(params: Any) -> None:
    """Refuse a request whose forced tokens are no whole numbers.

    Raises:
        ValueError: If they are not.
    """
    wanted = forced_tokens(params)
    if wanted is not None and not (isinstance(wanted, list) and all(isinstance(token, int) for token in wanted)):
        raise ValueError(f"{FORCED}={wanted!r}: expected a list of token ids")


def _build() -> type:
    from vllm.v1.sample.logits_processor import LogitsProcessor as Interface

    bases: list[type] = [Interface]
    try:
        from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as NewInterface
    except ImportError:
        pass
    else:
        bases.append(NewInterface)

    class ForcedTokens(*bases):  # type: ignore[misc]
        """Makes requests that name tokens in `extra_args` generate these."""

        def __init__(self, config: Any, *states: Any) -> None:
            """Take the arguments of either interface: (config, device, pinned memory) or (config, request states)."""
            self._forced = ForcedRows()
            self._states: Any = states[0] if len(states) == 1 else None
            self._slots: dict[int, Sequence[int]] = {}

        @classmethod
        def validate_params(cls, sampling_params: Any) -> None:
            check_params(sampling_params)

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            self._forced.update(batch_update)

        def add_request(self, req_idx: int, sampling_params: Any) -> bool:
            wanted = forced_tokens(sampling_params)
            self._slots.pop(req_idx, None)
            if wanted:
                self._slots[req_idx] = wanted
            return bool(wanted)

        def apply(self, logits: Any, context: Any = None) -> Any:
            if context is None:
                return self._forced.apply(logits)
            rows, tokens = next_of_slots(self._slots, context, self._states.prompt_len.np)
            return leave_only(logits, rows, tokens)

    return ForcedTokens


def next_of_slots(
    slots: Mapping[int, Sequence[int]], context: Any, prompt_lengths: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return rows of the batch and the next token of each, for the newer of vLLM's two interfaces.

    Requests keep a slot for as long as they are in the batch; a row is the place of a slot in this step. How many
    tokens a request has generated is the length of what the model has seen of it, less its prompt's. A step that has
    not reached the end of the prompt generates nothing.

    Args:
        slots: The tokens that the request of a slot is to generate.
        context: vLLM's description of the step.
        prompt_lengths: The length of the prompt of each slot.
    """
    rows, tokens = [], []
    places = zip(context.idx_mapping_np.tolist(), context.seq_lens_upper_bound_np.tolist(), strict=False)
    for row, (slot, length) in enumerate(places):
        wanted = slots.get(slot)
        step = length - int(prompt_lengths[slot])
        if wanted and 0 <= step < len(wanted):
            rows.append(row)
            tokens.append(wanted[step])
    return rows, tokens


def __getattr__(name: str) -> Any:
    if name != "ForcedTokens":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = built = _build()
    return built
