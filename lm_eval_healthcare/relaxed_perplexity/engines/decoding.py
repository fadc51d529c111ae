"""Running a model token after token for several rows: with a cache that only grows, with the model's own, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.relaxed_perplexity.engines.forward import UnsuitedModel
from lm_eval_healthcare.relaxed_perplexity.engines.shared_cache import growing_cache

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward
    from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens


class Decoder(ABC):
    """Gives the logits of the next token of several rows.

    Attributes:
        forward: The model.
        tokens_forwarded: Tokens that went through the model.
    """

    def __init__(self, forward: Forward, pad: int = 0) -> None:
        """Take the model.

        Args:
            forward: The model.
            pad: A token that stands in padding.
        """
        self.forward, self.pad = forward, pad
        self.tokens_forwarded = 0

    @abstractmethod
    def start(self, texts: Sequence[Tokens], room: int) -> torch.Tensor:
        """Return the logits after each text, shape (rows, vocabulary).

        Args:
            texts: The text of each row, equal ones one after another.
            room: Tokens that may follow.
        """

    @abstractmethod
    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits after one more token of each row, shape (rows, vocabulary)."""

    def select(self, rows: Sequence[int]) -> bool:
        """Go on with some of the rows only; return whether that was possible."""
        return False


class GrowingDecoder(Decoder):
    """Runs each text once, whatever the number of its rows, and keeps keys and values in place."""

    def start(self, texts: Sequence[Tokens], room: int) -> torch.Tensor:
        """Run each text by itself, without padding, and copy its keys and values for its rows."""
        import torch
        from transformers import DynamicCache

        states, logits, repeats = [], [], []
        for text, rows in groupby(texts):
            cache = DynamicCache()
            tokens = torch.tensor([text])
            places = torch.arange(len(text))[None]
            repeats.append(len(list(rows)))
            last = self.forward(tokens, cache=cache, positions=places, keep=1)[0, -1:]
            logits.append(last.expand(repeats[-1], -1))
            states.append([(layer.keys, layer.values) for layer in cache.layers])
            if any(part is None for layer in states[-1] for part in layer):
                raise UnsuitedModel("some of its layers keep no keys and values")
            self.tokens_forwarded += len(text)
        longest = max(map(len, texts))
        self._cache = growing_cache(states, repeats, longest + room)
        self._lengths = torch.tensor([len(text) for text in texts])
        self._mask = (torch.arange(longest) >= longest - self._lengths[:, None]).long()
        return torch.cat(logits)

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Run one token a row."""
        import torch

        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], 1)
        mask = None if bool(self._mask.all()) else self._mask
        given = torch.tensor(tokens)[:, None]
        logits = self.forward(given, cache=self._cache, positions=self._lengths[:, None], mask=mask, keep=1)
        self._lengths = self._lengths + 1
        self.tokens_forwarded += len(tokens)
        return logits[:, -1]

    def select(self, rows: Sequence[int]) -> bool:
        """Keep the keys and values of some rows."""
        import torch

        kept = torch.tensor(rows)
        self._lengths, self._mask = self._lengths[kept], self._mask[kept]
        for layer in self._cache.layers:
            layer.select(kept)
        return True


class OwnCacheDecoder(Decoder):
    """Uses whatever a model itself hands on from token to token, such as the state of a Mamba."""

    _HANDED_ON = ("cache", "past_key_values", "cache_params", "state")

    def start(self, texts: Sequence[Tokens], room: int) -> torch.Tensor:
        """Run all rows of one text.

        Raises:
            UnsuitedModel: If there are different texts, or the model hands nothing on.
        """
        import torch

        if len(set(texts)) > 1:
            raise UnsuitedModel("states of texts of different lengths cannot be aligned")
        self._length = len(texts[0])
        return self._run(torch.tensor(texts), {})

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Run one token a row."""
        import torch

        given = {self._name: self._state}
        if "cache_position" in self.forward.arguments:
            given["cache_position"] = torch.tensor([self._length], device=self.forward.device)
        self._length += 1
        return self._run(torch.tensor(tokens)[:, None], given)

    def _run(self, tokens: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
        output = self.forward.call(tokens, keep=1, **{"use_cache": True, **given})
        self._name = next(
            (
                name
                for name in self._HANDED_ON
                if name in self.forward.arguments and getattr(output, name, None) is not None
            ),
            "",
        )
        if not self._name:
            raise UnsuitedModel("the model hands nothing on from one token to the next")
        self._state = getattr(output, self._name)
        self.tokens_forwarded += tokens.numel()
        return output.logits[:, -1]


class PlainDecoder(Decoder):
    """Runs the whole text again for each token: slow, and right for any model."""

    def start(self, texts: Sequence[Tokens], room: int) -> torch.Tensor:
        """Run each text by itself."""
        self._texts = [list(text) for text in texts]
        return self._run()

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Run each text with its new token by itself."""
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(token)
        return self._run()

    def select(self, rows: Sequence[int]) -> bool:
        """Keep some of the texts."""
        self._texts = [self._texts[row] for row in rows]
        return True

    def _run(self) -> torch.Tensor:
        import torch

        known: dict[tuple[int, ...], torch.Tensor] = {}
        for text in map(tuple, self._texts):
            if text not in known:
                known[text] = self.forward(torch.tensor([text]), keep=1)[0, -1]
                self.tokens_forwarded += len(text)
        return torch.stack([known[tuple(text)] for text in self._texts])
