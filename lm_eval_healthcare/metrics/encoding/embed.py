"""Vectors for pairs of texts: every distinct text encoded once, in batches of like length, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lm_eval_healthcare.metrics.encoding import device as devices
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit, Progress, free_memory, is_out_of_memory, run
from lm_eval_healthcare.metrics.encoding.encoder import Encoder
from lm_eval_healthcare.metrics.encoding.tokens import Tokens
from lm_eval_healthcare.metrics.settings import Compute

if TYPE_CHECKING:
    import torch

MEMORY = 512 * 2**20
"""Bytes that vectors may take at a time; the vectors of one pair may be more."""

KEPT = 256 * 2**20
"""Bytes of vectors of references that an encoder keeps for later calls, which may compare others with them."""

# Batches that are planned together. The more, the less padding, but scores come out after each wave.
_FEWEST_BATCHES, _MOST_BATCHES = 2, 32
_SECONDS_OF_A_WAVE = 8.0  # on a CPU, about


@dataclass(frozen=True, eq=False)
class Embedded:
    """One text's vectors.

    Attributes:
        tokens: What each row stands for.
        layers: For each layer asked for a float32 tensor of shape `(t, d)`, without padding.
    """

    tokens: Tokens
    layers: dict[int, torch.Tensor]

    def cpu(self) -> Embedded:
        """Return the same on the CPU."""
        return Embedded(self.tokens, {layer: vectors.cpu() for layer, vectors in self.layers.items()})


Visit = Callable[[int, Embedded, Embedded], None]


def embed_pairs(
    encoder: Encoder,
    layers: Sequence[int],
    texts: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    compute: Compute,
    visit: Visit,
    description: str = "encoder",
) -> None:
    """Call `visit(pair number, prediction, reference)` once for every pair.

    Pairs come in waves: pairs that share texts together, long ones first. After a wave, what later waves need is kept
    as far as `MEMORY` allows, and encoded again otherwise (`encoder.texts` counts it). The vectors of the last
    references stay with the encoder, as far as `KEPT` allows: the next call may have another model's answers to them.

    Args:
        encoder: The encoder.
        layers: Layers whose vectors are needed, see `Encoder.encode`.
        texts: Distinct texts.
        pairs: Rows of `texts`: of a prediction and of a reference.
        compute: Batch size, and what is done with long texts.
        visit: Takes the vectors of a pair; they may be gone afterwards.
        description: What is done, for people.

    Raises:
        DoesNotFit: If one text alone is too much for the memory of a device that was asked for by name.
    """
    tokens = encoder.tokenize(texts, compute.long)
    _Job(encoder, sorted(set(layers)), texts, tokens, pairs, compute, description).do(visit)


class _Job:
    """One call of `embed_pairs`."""

    def __init__(
        self,
        encoder: Encoder,
        layers: list[int],
        texts: Sequence[str],
        tokens: list[Tokens],
        pairs: Sequence[tuple[int, int]],
        compute: Compute,
        description: str,
    ) -> None:
        self.encoder, self.layers, self.tokens, self.pairs = encoder, layers, tokens, pairs
        self.compute, self.description = compute, description
        self.budget = devices.batch_tokens(compute, encoder.device)
        self.width = 4 * len(layers) * encoder.width  # bytes of a token
        self.memory, self.room_to_keep = MEMORY, KEPT
        self.needed: list[int] = []  # texts of the present wave
        self.store: dict[int, Embedded] = {}
        self.keys = {reference: (texts[reference], tuple(layers), compute.long) for _, reference in pairs}

    def do(self, visit: Visit) -> None:
        left = order(self.pairs, [len(tokens) for tokens in self.tokens])
        while left:
            total = sum(len(self.tokens[text]) for text in self._texts(left) if text not in self.store)
            with Progress(total, self.description, self.encoder.device) as progress:
                left = self._work(left, visit, progress)

    def _work(self, ordered: Sequence[int], visit: Visit, progress: Progress) -> list[int]:
        """Compare pairs in waves; return those left when the device has changed, and with it the size of waves."""
        device, waves = self.encoder.device, self._waves(ordered)
        uses: dict[int, list[int]] = defaultdict(list)  # the waves of each text, the last one first
        for number in reversed(range(len(waves))):
            for text in self._texts(waves[number]):
                uses[text].append(number)
        for number, wave in enumerate(waves):
            self.needed = self._texts(wave)
            self._recall(self.needed, progress)
            self._encode([text for text in self.needed if text not in self.store], progress)
            if self.encoder.device != device:
                return [pair for later in waves[number:] for pair in later]
            self._remember(self.needed)
            for pair in wave:
                self._visit(pair, visit)
            for text in self.needed:
                uses[text].pop()
            self._forget(uses)
        return []

    def _texts(self, wave: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(text for number in wave for text in self.pairs[number]))

    def _waves(self, ordered: Iterable[int]) -> list[list[int]]:
        """Cut the pairs into waves; half of the memory is for a wave, the other for what later ones need."""
        most = min(self.memory // 2 // self.width, max(self._batches_of_a_wave() * self.budget, 1))
        waves: list[list[int]] = [[]]
        held: set[int] = set()
        size = 0
        for number in ordered:
            new = set(self.pairs[number]) - held
            more = sum(len(self.tokens[text]) for text in new)
            if waves[-1] and size + more > most:
                waves.append([])
                held, size = set(), 0
                new = set(self.pairs[number])
                more = sum(len(self.tokens[text]) for text in new)
            waves[-1].append(number)
            held |= new
            size += more
        return waves if waves[-1] else []

    def _batches_of_a_wave(self) -> int:
        if self.encoder.device != "cpu":
            return _MOST_BATCHES
        # By the model's size, not by the clock, so that the same texts are in the same batches next time.
        tokens = _SECONDS_OF_A_WAVE * devices.cpu_speed() / self.encoder.operations
        return min(_MOST_BATCHES, max(_FEWEST_BATCHES, int(tokens / self.budget)))

    def _recall(self, texts: Iterable[int], progress: Progress) -> None:
        """Take the vectors of references that an earlier call has left with the encoder."""
        for text in texts:
            found = self.encoder.kept.get(self.keys.get(text)) if text not in self.store else None
            if found is not None:
                self.store[text] = found
                progress.add(len(self.tokens[text]))

    def _remember(self, texts: Iterable[int]) -> None:
        """Leave the vectors of references with the encoder, in place of those that were not used for longest."""
        kept = self.encoder.kept
        for text in texts:
            if (key := self.keys.get(text)) is not None:
                kept.pop(key, None)
                kept[key] = self.store[text]
        size = sum(len(embedded.tokens) * 4 * self.encoder.width * len(key[1]) for key, embedded in kept.items())
        for key in list(kept):
            if size <= self.room_to_keep:
                break
            size -= len(kept.pop(key).tokens) * 4 * self.encoder.width * len(key[1])

    def _forget(self, uses: dict[int, list[int]]) -> None:
        """Keep the vectors that are needed soonest, as many as half of the memory holds."""
        room = self.memory // 2
        kept = {}
        for text in sorted((text for text in self.store if uses[text]), key=lambda text: uses[text][-1]):
            room -= len(self.tokens[text]) * self.width
            if room < 0:
                break
            kept[text] = self.store[text]
        self.store = kept

    def _encode(self, texts: list[int], progress: Progress) -> None:
        """Encode texts by windows, one that fits is one window; those that are done when the device changes."""
        windows = [(text, ids) for text in texts for ids in self.encoder.windows(self.tokens[text])]
        lengths = [len(ids) for _, ids in windows]
        parts: dict[int, dict[int, torch.Tensor]] = {}

        def step(batch: list[int]) -> None:
            parts.update(
                zip(batch, self.encoder.encode([windows[item][1] for item in batch], self.layers), strict=True)
            )

        try:
            left = range(len(windows))
            self.budget = run(left, lengths, self.budget, step, self.description, progress, self._relieve)
        except DoesNotFit as error:
            self._leave_gpu(error)
            parts.update({item: {k: v.cpu() for k, v in part.items()} for item, part in parts.items()})
        belongs: dict[int, list[int]] = defaultdict(list)
        for item, (text, _) in enumerate(windows):
            belongs[text].append(item)
        for text, items in belongs.items():
            own = [parts.pop(item) for item in items if item in parts]
            if len(own) == len(items):
                vectors = {layer: self.encoder.join([part[layer] for part in own]) for layer in self.layers}
                self.store[text] = Embedded(self.tokens[text], vectors)

    def _relieve(self) -> bool:
        """Let the vectors go that this wave does not need, and keep fewer from now on."""
        needed = set(self.needed)
        spare = [text for text in self.store if text not in needed]
        found = bool(spare or self.encoder.kept)
        self.encoder.kept.clear()
        for text in spare:
            del self.store[text]
        self.memory, self.room_to_keep = self.memory // 2, 0
        return found

    def _leave_gpu(self, error: DoesNotFit) -> None:
        """Go on with the CPU, if the device was ours to choose."""
        if self.encoder.device == "cpu" or self.compute.device != "auto":
            raise error
        devices.tell_once(f"{error}: going on with the CPU, which takes longer")
        self.encoder.move("cpu")
        self.budget = devices.batch_tokens(self.compute, "cpu")
        self.memory, self.room_to_keep = MEMORY, KEPT
        self.store = {text: embedded.cpu() for text, embedded in self.store.items()}
        free_memory()

    def _visit(self, number: int, visit: Visit) -> None:
        prediction, reference = (self.store[text] for text in self.pairs[number])
        if self.encoder.device == "cpu":
            visit(number, prediction, reference)
            return
        try:
            visit(number, prediction, reference)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            visit(number, prediction.cpu(), reference.cpu())


def order(pairs: Sequence[tuple[int, int]], lengths: Sequence[int]) -> list[int]:
    """Return the numbers of the pairs, those that share texts, directly or through others, side by side.

    Groups come by their longest text, the longest first. In a group, pairs are sorted by the side that has more texts,
    so that the few texts of the other side are met again soon.
    """
    root = list(range(len(lengths)))

    def find(text: int) -> int:
        while root[text] != text:
            root[text] = root[root[text]]
            text = root[text]
        return text

    for prediction, reference in pairs:
        root[find(prediction)] = find(reference)
    groups: dict[int, list[int]] = defaultdict(list)
    for number, (prediction, _) in enumerate(pairs):
        groups[find(prediction)].append(number)
    ordered = []
    for numbers in groups.values():
        predictions, references = (len({pairs[number][side] for number in numbers}) for side in (0, 1))
        side = 0 if predictions >= references else 1
        numbers = sorted(numbers, key=partial(_place, pairs, lengths, side))
        longest = max(lengths[text] for number in numbers for text in pairs[number])
        ordered.append((-longest, numbers[0], numbers))
    ordered.sort(key=lambda group: group[:2])
    return [number for _, _, numbers in ordered for number in numbers]


def _place(pairs: Sequence[tuple[int, int]], lengths: Sequence[int], side: int, number: int) -> tuple[int, int, int]:
    text = pairs[number][side]
    return -lengths[text], text, number
