"""The logits processor that makes requests generate given tokens, without vLLM: batches that change as vLLM's do."""

from __future__ import annotations

import itertools
import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import (
    FORCED,
    LOGITS_PROCESSOR,
    ForcedRows,
    check_params,
    leave_only,
    next_of_slots,
    with_forced_tokens,
)


def test_the_processor_is_added_to_the_arguments() -> None:
    assert with_forced_tokens({"model": "m"}) == {"model": "m", "logits_processors": [LOGITS_PROCESSOR]}
    assert with_forced_tokens({"logits_processors": ["a:B"]})["logits_processors"] == ["a:B", LOGITS_PROCESSOR]
    once = with_forced_tokens({})
    assert with_forced_tokens(once) == once
    speculative = {"speculative_config": {"method": "ngram"}}
    assert with_forced_tokens(speculative) == speculative


def test_forced_tokens_are_checked() -> None:
    check_params(SimpleNamespace(extra_args=None))
    check_params(SimpleNamespace(extra_args={FORCED: [1, 2]}))
    with pytest.raises(ValueError, match="expected a list of token ids"):
        check_params(SimpleNamespace(extra_args={FORCED: "12"}))


def test_only_the_named_rows_change() -> None:
    torch = pytest.importorskip("torch")
    logits = torch.arange(12.0).reshape(4, 3).log()
    changed = leave_only(logits.clone(), [2, 0], [1, 0])  # the logit of row 0 and token 0 is minus infinity
    infinity = math.inf
    assert changed[[0, 2]].tolist() == [[0, -infinity, -infinity], [-infinity, 0, -infinity]]
    assert torch.equal(changed[[1, 3]], logits[[1, 3]])
    assert torch.equal(leave_only(logits.clone(), [], []), logits)


UNIDIRECTIONAL, SWAP = SimpleNamespace(name="UNIDIRECTIONAL"), SimpleNamespace(name="SWAP")


@pytest.mark.parametrize("seed", range(5))
def test_the_processor_follows_the_batch(seed: int) -> None:
    """Requests come, end, are put off and taken up again, and change places; each gets its own next token."""
    torch = pytest.importorskip("torch")
    rng = random.Random(seed)
    numbers = itertools.count()
    waiting = [
        {"forced": [rng.randrange(50) for _ in range(rng.randrange(1, 9))] if number % 3 else None, "out": []}
        for number in range(60)
    ]
    batch: list[dict[str, Any]] = []
    processor, written = ForcedRows(), 0
    while waiting or batch:
        removed, added, moved = [], [], []
        leaving = [r for r, each in enumerate(batch) if len(each["out"]) == len(each["forced"] or "12345")]
        put_off = [r for r in range(len(batch)) if r not in leaving and rng.random() < 0.05]
        for row in put_off:
            again = batch[row]
            waiting.append({**again, "out": list(again["out"])})
        slots: list[dict[str, Any] | None] = list(batch)
        for row in leaving + put_off:
            slots[row] = None
        empty = [row for row, each in enumerate(slots) if each is None]
        for _ in range(min(len(waiting), rng.randrange(4), 8 - (len(slots) - len(empty)))):
            each = waiting.pop(0)
            row = empty.pop(0) if empty else len(slots)
            slots[row : row + 1] = [each]
            params = SimpleNamespace(extra_args={FORCED: each["forced"]} if each["forced"] else None)
            added.append((row, params, None, each["out"]))
        removed = sorted(empty, reverse=True)
        while empty:  # the last rows fill what is empty
            last = len(slots) - 1
            if slots[last] is None:
                empty.remove(last)
            else:
                moved.append((last, empty[0], UNIDIRECTIONAL))
                slots[empty.pop(0)] = slots[last]
            slots.pop()
        batch = [each for each in slots if each is not None]
        if len(batch) > 1 and rng.random() < 0.5:
            one, other = rng.sample(range(len(batch)), 2)
            moved.append((one, other, SWAP))
            batch[one], batch[other] = batch[other], batch[one]
        changed = removed or added or moved
        processor.update(SimpleNamespace(removed=removed, added=added, moved=moved) if changed else None)
        logits = torch.randn(len(batch), 50, generator=torch.Generator().manual_seed(next(numbers)))
        result = processor.apply(logits.clone())
        for row, each in enumerate(batch):
            if each["forced"]:
                token = each["forced"][len(each["out"])]
                assert torch.isfinite(result[row]).nonzero().tolist() == [[token]]
            else:
                assert torch.equal(result[row], logits[row])
                token = 0
            each["out"].append(token)
            written += 1
    assert written > 200


def test_the_processor_of_the_newer_runner() -> None:
    """Slot 5 generates its third token, slot 2 still reads its prompt, slot 0 asked for nothing, slot 3 is done."""
    slots = {5: [10, 11, 12], 2: [20], 3: [30, 31]}
    context = SimpleNamespace(idx_mapping_np=np.array([2, 0, 5, 3]), seq_lens_upper_bound_np=np.array([7, 9, 102, 6]))
    prompt_lengths = np.array([4, 0, 8, 4, 0, 100])
    assert next_of_slots(slots, context, prompt_lengths) == ([2], [12])
