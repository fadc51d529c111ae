from __future__ import annotations

import gc
import logging
import random
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.metrics.encoding import embed
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit
from lm_eval_healthcare.metrics.encoding.embed import Embedded, embed_pairs, order
from lm_eval_healthcare.metrics.encoding.encoder import Encoder
from lm_eval_healthcare.metrics.encoding.tokens import Tokens, Vocabulary
from lm_eval_healthcare.metrics.settings import Compute
from tiny_encoders import WORDS

torch = pytest.importorskip("torch")
CPU = Compute(device="cpu")


def made_up_texts(n: int, longest: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(n)]


def visited(
    encoder: Any, texts: Sequence[str], pairs: Sequence[tuple[int, int]], compute: Compute = CPU, layer: int = 3
) -> dict[int, tuple[Any, Any]]:
    found: dict[int, tuple[Any, Any]] = {}

    def visit(number: int, prediction: Embedded, reference: Embedded) -> None:
        assert number not in found
        found[number] = (prediction.layers[layer].clone(), reference.layers[layer].clone())

    embed_pairs(encoder, [layer], texts, pairs, compute, visit)
    assert sorted(found) == list(range(len(pairs)))
    return found


def test_every_pair_gets_its_own_texts_vectors(tiny: Callable[[str], Path]) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    texts = made_up_texts(60, 40)
    rng = random.Random(1)
    pairs = list(dict.fromkeys((rng.randrange(60), rng.randrange(60)) for _ in range(150)))
    found = visited(encoder, texts, pairs)
    assert encoder.texts == len({text for pair in pairs for text in pair})
    alone = [encoder.encode([tokens.ids], [3])[0][3] for tokens in encoder.tokenize(texts)]
    for number, pair in enumerate(pairs):
        for side in (0, 1):
            torch.testing.assert_close(found[number][side], alone[pair[side]], rtol=0, atol=5e-6)


def test_eleven_answers_and_their_reference_are_twelve_texts(tiny: Callable[[str], Path]) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    visited(encoder, made_up_texts(12, 20), [(answer, 11) for answer in range(11)])
    assert encoder.texts == 12


def test_nothing_to_do(tiny: Callable[[str], Path]) -> None:
    assert visited(Encoder(tiny("bert"), CPU), ["fever"], []) == {}


def test_long_texts_are_cut_or_encoded_by_windows(tiny: Callable[[str], Path]) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    texts = ["fever " * 200, "cough"]
    assert visited(encoder, texts, [(0, 1)])[0][0].shape == (64, 32)
    assert encoder.texts == 2
    # 200 words in windows of 62 words: 4 of them.
    assert visited(encoder, texts, [(0, 1)], Compute(device="cpu", long="windows"))[0][0].shape == (202, 32)
    assert encoder.texts == 2 + 5


@pytest.mark.parametrize("kilobytes", [1, 40, 10_000])
def test_memory_is_bounded_and_what_is_dropped_is_encoded_again(
    kilobytes: int, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    monkeypatch.setattr(embed, "MEMORY", kilobytes * 1000)
    monkeypatch.setattr(embed, "KEPT", 0)
    alive: weakref.WeakSet[Embedded] = weakref.WeakSet()
    most = 0

    class Watched(Embedded):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            alive.add(self)

    monkeypatch.setattr(embed, "Embedded", Watched)
    texts = made_up_texts(80, 40)
    lengths = [len(tokens) for tokens in encoder.tokenize(texts)]
    rng = random.Random(2)
    pairs = list(dict.fromkeys((rng.randrange(40), rng.randrange(40, 80)) for _ in range(300)))
    seen = []

    def visit(number: int, prediction: Embedded, reference: Embedded) -> None:
        nonlocal most
        seen.append(number)
        assert [len(prediction.tokens), len(reference.tokens)] == [lengths[text] for text in pairs[number]]
        most = max(most, sum(4 * 32 * len(one.tokens) for one in alive))

    embed_pairs(encoder, [3], texts, pairs, CPU, visit)
    gc.collect()
    assert sorted(seen) == list(range(len(pairs)))
    distinct = len({text for pair in pairs for text in pair})
    # A wave and what is kept for later ones, half of the memory each; or, where that is nothing, one pair.
    assert most <= max(kilobytes * 1000, 2 * 4 * 32 * 42)
    assert (encoder.texts > distinct) is (kilobytes < 10_000)
    assert encoder.texts <= 2 * len(pairs)


def test_references_are_kept_for_the_next_call(tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    references = [f"fever {word}" for word in WORDS[:10]]
    pairs = [(number, number + 10) for number in range(10)]
    texts = [[f"{word} {model}" for word in WORDS[:10]] + references for model in ("one", "other", "third")]
    first = visited(encoder, texts[0], pairs)
    assert encoder.texts == 20
    second = visited(encoder, texts[1], pairs)
    assert encoder.texts == 30
    assert all(torch.equal(first[number][1], second[number][1]) for number in range(10))
    # Another layer or another treatment of long texts is another vector.
    visited(encoder, texts[1], pairs, layer=2)
    assert encoder.texts == 50
    visited(encoder, texts[1], pairs, Compute(device="cpu", long="windows"))
    assert encoder.texts == 70
    # Four tokens each ([CLS], two words, [SEP]), 32 numbers of 4 bytes: room for the last three.
    monkeypatch.setattr(embed, "KEPT", 3 * 4 * 32 * 4)
    visited(encoder, texts[2], pairs)
    assert len(encoder.kept) == 3
    encoder.move("meta")
    assert not encoder.kept


def test_scores_come_out_long_before_the_end(tiny: Callable[[str], Path]) -> None:
    encoder = Encoder(tiny("bert"), CPU)
    texts = [f"{text} {number}" for number, text in enumerate(made_up_texts(400, 40))]
    encoded_at: list[int] = []
    embed_pairs(
        encoder,
        [3],
        texts,
        [(number, number + 200) for number in range(200)],
        Compute(device="cpu", batch_tokens=64),
        lambda *args: encoded_at.append(encoder.texts),
    )
    assert encoded_at[0] < 120
    assert encoded_at[-1] == encoder.texts == 400


def test_pairs_that_share_texts_are_neighbours_and_long_ones_come_first() -> None:
    # Texts 0-2 are answers to reference 6; answer 3 has references 7 and 8; 4 and 5 are a pair.
    lengths = [5, 9, 7, 30, 50, 2, 8, 20, 10]
    pairs = [(0, 6), (3, 7), (1, 6), (4, 5), (3, 8), (2, 6)]
    assert [pairs[number] for number in order(pairs, lengths)] == [(4, 5), (3, 7), (3, 8), (1, 6), (2, 6), (0, 6)]
    # Two references of every answer: by answers, so that both references are met again at once.
    pairs = [(answer, reference) for reference in (3, 4) for answer in (0, 1, 2)]
    assert [pairs[number] for number in order(pairs, [7, 9, 8, 1, 1])] == [
        (1, 3), (1, 4), (2, 3), (2, 4), (0, 3), (0, 4),
    ]  # fmt: skip


class FullGpu:
    """Stands for an encoder on a GPU whose memory takes so many tokens at a time."""

    def __init__(self, room: int, device: str = "cuda:0") -> None:
        self.room, self.device, self.width, self.texts, self.operations = room, device, 2, 0, 1.0
        self.kept: dict[Any, Any] = {}
        self.calls: list[tuple[str, int]] = []

    def tokenize(self, texts: Sequence[str], long: str) -> list[Tokens]:
        vocabulary = Vocabulary(["x"], np.zeros(1, dtype=bool), np.zeros(1, dtype=bool))
        return [Tokens(np.zeros(len(text), dtype=np.int64), vocabulary, False) for text in texts]

    def windows(self, tokens: Tokens) -> list[Any]:
        return [tokens.ids]

    def join(self, windows: Sequence[Any]) -> Any:
        return windows[0]

    def move(self, device: str) -> None:
        self.device = device

    def encode(self, batch: Sequence[Any], layers: Sequence[int]) -> list[dict[int, Any]]:
        padded = max(map(len, batch)) * len(batch)
        self.calls.append((self.device, padded))
        if self.device != "cpu" and padded > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.texts += len(batch)
        return [{layer: torch.full((len(ids), 2), float(len(ids))) for layer in layers} for ids in batch]


def test_out_of_memory_on_a_gpu_means_smaller_batches(caplog: pytest.LogCaptureFixture) -> None:
    encoder = FullGpu(room=12)
    texts = ["a" * length for length in (4, 3, 5, 2, 6, 1)]
    with caplog.at_level(logging.WARNING):
        found = visited(encoder, texts, [(0, 1), (2, 3), (4, 5)], Compute(device="auto"))
    assert [len(vectors) for _, pair in sorted(found.items()) for vectors in pair] == [4, 3, 5, 2, 6, 1]
    # All six at 6 x 6 = 36; half of it is 18 = 3 x 6; half of that 9: 1 x 6, 1 x 5, 2 x 4, 2 x 2 (padded).
    assert encoder.calls == [("cuda:0", padded) for padded in (36, 18, 6, 5, 8, 4)]
    assert encoder.device == "cuda:0"


def test_vectors_kept_for_later_go_before_batches_get_smaller(caplog: pytest.LogCaptureFixture) -> None:
    class Filling(FullGpu):
        """Room for 16 tokens, of which kept vectors take theirs."""

        def encode(self, batch: Sequence[Any], layers: Sequence[int]) -> list[dict[int, Any]]:
            self.room = 16 - sum(len(embedded.tokens) for embedded in self.kept.values())
            return super().encode(batch, layers)

    encoder = Filling(room=16)
    visited(encoder, ["aaa", "aaaa"], [(0, 1)], Compute(device="auto", batch_tokens=16))
    assert [len(embedded.tokens) for embedded in encoder.kept.values()] == [4]  # the reference
    with caplog.at_level(logging.WARNING):
        visited(encoder, ["bbbb", "cccc", "dd", "ee"], [(0, 1), (2, 3)], Compute(device="auto", batch_tokens=16))
    # 2 x 4 and 2 x 4 fill all 16, of which the reference "aaaa" has 4; without it they fit.
    assert encoder.calls[1:] == [("cuda:0", 16), ("cuda:0", 16)]
    assert "going on without vectors that were kept for later" in caplog.text
    assert "going on with batches of" not in caplog.text
    assert not encoder.kept  # and nothing is kept from then on


def test_vectors_for_later_texts_go_too_and_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # A token has 2 numbers of 4 bytes. Waves of 4 tokens, one pair of 2 and 2; as much for what later waves need.
    monkeypatch.setattr(embed, "MEMORY", 2 * 4 * 8)
    monkeypatch.setattr(embed, "KEPT", 0)

    class Refusing(FullGpu):
        """Has no room for the third text, once."""

        def encode(self, batch: Sequence[Any], layers: Sequence[int]) -> list[dict[int, Any]]:
            self.room = 0 if len(self.calls) == 1 else 99
            return super().encode(batch, layers)

    encoder = Refusing(room=99)
    # After the first pair, "aa" is there for the second and "cc" for the third; for "dd" the "cc" has to go.
    pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
    found = visited(encoder, ["aa", "bb", "cc", "dd"], pairs, Compute(device="cuda:0"))
    assert [len(vectors) for _, pair in sorted(found.items()) for vectors in pair] == [2] * 8
    assert encoder.calls[:4] == [("cuda:0", 4), ("cuda:0", 2), ("cuda:0", 2), ("cuda:0", 4)]


@pytest.mark.parametrize(
    ("device", "operations", "batches"),
    [
        # 8 s of 40e9 operations a second: a million tokens are more than 32 batches of 10; 80 tokens are 8; 2 at least.
        ("cpu", 320_000.0, 32),
        ("cpu", 4e9, 8),
        ("cpu", 1e12, 2),
        ("cuda:0", 1e12, 32),
    ],
)
def test_scores_come_out_every_few_seconds_on_a_cpu(
    device: str, operations: float, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    encoder = FullGpu(room=99, device=device)
    encoder.operations = operations
    texts = [f"{number:05}" for number in range(200)]
    calls: list[int] = []
    embed_pairs(
        encoder, [3], texts, [(number, number + 100) for number in range(100)],  # type: ignore[arg-type]
        Compute(device="auto", batch_tokens=10), lambda *args: calls.append(len(encoder.calls)),
    )  # fmt: skip
    # Two texts a batch, so that a wave of `batches` has as many pairs.
    assert calls == [min(100, (number // batches + 1) * batches) for number in range(100)]


def test_waves_are_as_small_as_a_cpu_needs_them_once_the_gpu_is_left() -> None:
    encoder = FullGpu(room=5)
    encoder.operations = 1e15
    texts = ["a" * 6, *[f"{number:05}" for number in range(39)]]
    calls: list[tuple[str, int]] = []

    def visit(*args: Any) -> None:
        calls.append((encoder.device, encoder.texts))

    pairs = [(number, number + 20) for number in range(20)]
    embed_pairs(encoder, [3], texts, pairs, Compute(device="auto", batch_tokens=10), visit)  # type: ignore[arg-type]
    # The text of 6 tokens goes to the CPU with the rest: waves of 2 batches of 10 tokens are 4 texts, 2 pairs.
    assert calls[0] == ("cpu", 2)
    assert calls[-1] == ("cpu", 40)
    assert len(set(calls)) >= 10


def test_a_text_too_long_for_the_gpu_sends_the_rest_to_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    encoder = FullGpu(room=4)
    with caplog.at_level(logging.WARNING):
        found = visited(encoder, ["aa", "aaaaaa", "aaa"], [(0, 1), (2, 0)], Compute(device="auto"))
    assert [len(vectors) for _, pair in sorted(found.items()) for vectors in pair] == [2, 6, 3, 2]
    assert encoder.device == "cpu"
    assert "a text of 6 tokens alone does not fit" in caplog.text
    assert "going on with the CPU" in caplog.text


def test_a_device_that_was_asked_for_by_name_is_not_left() -> None:
    with pytest.raises(DoesNotFit, match="a text of 6 tokens alone"):
        visited(FullGpu(room=4), ["aa", "aaaaaa"], [(0, 1)], Compute(device="cuda:0"))


def test_a_comparison_that_does_not_fit_the_gpu_is_made_on_the_cpu() -> None:
    tried: list[int] = []

    def visit(number: int, prediction: Embedded, reference: Embedded) -> None:
        tried.append(number)
        if len(tried) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert prediction.layers[3].device.type == "cpu"

    embed_pairs(FullGpu(room=100), [3], ["aa", "a"], [(0, 1)], Compute(device="auto"), visit)
    assert tried == [0, 0]
