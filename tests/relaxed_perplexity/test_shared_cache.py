"""Keys and values that rows share, row by row as a hand would put them together, and how many rows a pass takes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lm_eval_healthcare.relaxed_perplexity.engines.chunks import (
    Footprint,
    Limits,
    Memory,
    NotEnoughMemory,
    Row,
    chunked,
    even_parts,
    is_out_of_memory,
)
from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import Scratch, SharedStates, growing_cache

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def states(*tokens: list[int]) -> Any:
    """Keys of rows of tokens, shape (rows, 2 heads, tokens, 1): the token itself, and as much again for head 1."""
    rows = torch.tensor(tokens, dtype=torch.float32)[:, None, :, None]
    return torch.cat([rows, 100 + rows], 1)


def update(shared: SharedStates, *tokens: list[int]) -> list[list[int]]:
    """What a layer's attention sees of head 0 in each row; values are the keys' negatives, and checked."""
    keys, values = shared.cache.update(states(*tokens), -states(*tokens), 0)
    assert torch.equal(values, -keys)
    assert torch.equal(keys[:, 1], 100 + keys[:, 0])
    return keys[:, 0, :, 0].int().tolist()


@pytest.mark.parametrize("reuse", [True, False])
def test_rows_are_gathered_from_one_pool(reuse: bool) -> None:
    """A question of three tokens, two samples of two, and then branches after beginnings of them."""
    shared = SharedStates(7, Scratch(reuse=reuse))
    assert shared.cache.get_seq_length() == 0
    shared.arrange(None, 3, keep_at=0)
    assert update(shared, [1, 2, 3]) == [[1, 2, 3]]

    question = torch.tensor([[0, 1, 2], [0, 1, 2]])
    shared.arrange(question, 2, keep_at=3)
    assert shared.cache.get_seq_length() == 3
    assert update(shared, [11, 12], [21, 22]) == [[1, 2, 3, 11, 12], [1, 2, 3, 21, 22]]
    assert shared.cache.get_seq_length() == 5

    # Row by row: the whole first sample, one token of the second, and the question alone, aligned at the right.
    shared.arrange(torch.tensor([[0, 1, 2, 3, 4], [0, 0, 1, 2, 5], [0, 0, 0, 1, 2]]), 2)
    assert shared.cache.get_seq_length() == 5
    found = update(shared, [31, 32], [41, 42], [51, 52])
    assert found == [[1, 2, 3, 11, 12, 31, 32], [1, 1, 2, 3, 21, 41, 42], [1, 1, 1, 2, 3, 51, 52]]
    # They were not kept: the next rows find the pool as it was.
    shared.arrange(torch.tensor([[0, 1, 2, 5, 6]]), 1)
    assert update(shared, [61]) == [[1, 2, 3, 21, 22, 61]]


def test_masks_cover_past_and_present() -> None:
    """transformers 5 gives the number of new tokens, 4.57 their places."""
    shared = SharedStates(3)
    shared.arrange(None, 2, keep_at=0)
    update(shared, [1, 2])
    shared.arrange(torch.tensor([[0, 1]]), 3)
    assert shared.cache.layers[0].get_mask_sizes(3) == (5, 0)
    assert shared.cache.layers[0].get_mask_sizes(torch.arange(2, 5)) == (5, 0)
    assert not any(shared.cache.is_sliding)


def test_memory_is_used_again_only_where_that_is_safe() -> None:
    like = torch.zeros(1)
    again, fresh = Scratch(), Scratch(reuse=False)
    first = again.take(like, (2, 3), "keys")
    assert again.take(like, (3, 1), "keys").data_ptr() == first.data_ptr()
    assert again.take(like, (2, 3), "values").data_ptr() != first.data_ptr()
    assert again.take(like, (5, 5), "keys").shape == (5, 5)
    one, two = fresh.take(like, (2, 3), "keys"), fresh.take(like, (2, 3), "keys")
    assert one.data_ptr() != two.data_ptr()


def test_growing_cache_aligns_questions_at_the_right() -> None:
    questions = [[(states(tokens), -states(tokens))] for tokens in ([1, 2, 3], [7])]
    cache = growing_cache(questions, [1, 2], 5)
    assert cache.get_seq_length() == 3
    keys, values = cache.update(states([4], [8], [9]), -states([4], [8], [9]), 0)
    assert keys[:, 0, :, 0].tolist() == [[1, 2, 3, 4], [0, 0, 7, 8], [0, 0, 7, 9]]
    assert torch.equal(values, -keys)
    cache.layers[0].select(torch.tensor([2]))
    keys, _ = cache.update(states([10]), -states([10]), 0)
    assert keys[:, 0, :, 0].tolist() == [[0, 0, 7, 9, 10]]
    assert cache.get_seq_length() == 5


NEED = Footprint(layer=10, layers=100, mask=1, activation=50, logits=1000, vocabulary=250)


def limits(**changed: Any) -> Limits:
    return Limits(**{"question": 100, "need": NEED, "room": 10**9, "most": 10**9, "enough": 10**9, **changed})


def rows(*pairs: tuple[int, int]) -> list[Row]:
    return [Row((place,), before, new, new) for place, (before, new) in enumerate(pairs)]


def lengths(chunks: list[list[Row]]) -> list[list[tuple[int, int]]]:
    return [[(row.before, row.new) for row in chunk] for chunk in chunks]


def test_at_most_a_tenth_of_a_chunk_is_padding() -> None:
    """Rows of 9 and 10 tokens waste 1 of 20; with one of 12 tokens it would be 5 of 36, with 20 far more."""
    chunks = chunked(rows((0, 20), (0, 9), (0, 12), (0, 10)), limits())
    assert lengths(chunks) == [[(0, 9), (0, 10)], [(0, 12)], [(0, 20)]]


def test_chunks_keep_to_memory_and_tokens() -> None:
    """A row of 10 tokens that sees 110 takes 110 * 10 + 10 * (110 + 50) + 10 * 1000 = 12,700 bytes."""
    assert NEED.row(10, 110, 10) == 12_700
    four = rows(*[(0, 10)] * 4)
    assert [len(chunk) for chunk in chunked(four, limits(room=2 * 12_700))] == [2, 2]
    assert [len(chunk) for chunk in chunked(four, limits(room=2 * 12_700 - 1))] == [1] * 4
    assert [len(chunk) for chunk in chunked(four, limits(room=0))] == [1] * 4
    assert [len(chunk) for chunk in chunked(four, limits(most=39))] == [3, 1]


def test_rows_with_other_numbers_of_tokens_before_them_only_fill_small_chunks() -> None:
    mixed = rows((8, 10), (0, 10), (8, 10), (16, 10))
    assert lengths(chunked(mixed, limits())) == [[(0, 10), (8, 10), (8, 10), (16, 10)]]
    assert lengths(chunked(mixed, limits(enough=30))) == [[(0, 10), (8, 10), (8, 10)], [(16, 10)]]
    assert lengths(chunked(mixed, limits(equal=True))) == [[(0, 10)], [(8, 10), (8, 10)], [(16, 10)]]


def test_parts_are_even() -> None:
    assert even_parts(range(10), 4) == [range(3), range(3, 6), range(6, 10)]
    assert even_parts(range(3), 0) == [range(1), range(1, 2), range(2, 3)]
    assert even_parts(range(3), 100) == [range(3)]


def memory() -> Memory:
    return Memory(torch.device("cpu"), 1.0)


def test_work_is_halved_until_it_fits(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def step(items: Any) -> None:
        if len(items) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        done.extend(items)

    given = memory()
    with caplog.at_level(logging.INFO, "lm_eval_healthcare"):
        given.run(step, range(16), "one item")
    assert done == list(range(16))
    assert given.bytes < 2**30
    assert [record.levelname for record in caplog.records] == ["INFO"]
    given.measure()
    assert given.bytes < 2**30  # what was too much once is not tried again


def test_one_item_that_does_not_fit_is_told_with_remedies() -> None:
    def step(items: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried")

    with pytest.raises(NotEnoughMemory, match=r"a branch of 7 tokens alone .*can't allocate memory.*relaxed_length"):
        memory().run(step, [1, 2], "a branch of 7 tokens")


def test_other_errors_are_not_taken_for_memory() -> None:
    def step(items: Any) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        memory().run(step, [1, 2], "one item")
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ValueError("out of memory"))
