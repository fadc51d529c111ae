"""Texts as the tokens of a model of the harness, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import TemplateLM

from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens

_ANCHORS = (".", "a", "\n", ":")
_PIECE = re.compile(r"\s*\S+|\s+")


class Codec:
    """Turns texts into the tokens of a model and back; models that show no tokens are asked in words.

    Attributes:
        unit: `tokens`, or `words` where the model shows none.
    """

    def __init__(self, lm: Any) -> None:
        """Look at what the model has.

        Raises:
            OptionError: If it is a server's model whose tokenizer is not known, or that tells no log-likelihoods.
        """
        self._lm = lm
        if any("Chat" in kind.__name__ for kind in type(lm).__mro__) and is_a(lm, "TemplateAPI"):
            raise OptionError(
                f"{type(lm).__name__}: chat completions tell no log-likelihoods, of which Relaxed Perplexity is made; "
                "use --model local-completions with the same server's /v1/completions and --apply_chat_template"
            )
        own = callable(getattr(lm, "tok_encode", None)) and _decoder(lm) is not None
        if isinstance(lm, TemplateLM) and not own:
            raise OptionError(
                "Relaxed Perplexity counts in tokens, and the tokenizer of this model is not known; name it with "
                "--model_args tokenizer=..., and leave tokenizer_backend at its default"
            )
        self.unit = "tokens" if own else "words"
        self._prompts: dict[Tokens, str] = {}
        self._front = getattr(lm, "prefix_token_id", None) if own else None
        self._pieces: dict[str, int] = {}
        self._texts: list[str] = []

    def prompt(self, text: str) -> list[int]:
        """Return the tokens of a prompt, special ones included where the model has them."""
        tokens = list(self._lm.tok_encode(text)) if self.unit == "tokens" else self._words(text)
        self._prompts[tuple(tokens)] = text
        return tokens

    def prompt_text(self, tokens: Tokens) -> str:
        """Return the text of a prompt's tokens: the very prompt, unless it was cut; decoding may change blanks."""
        if text := self._prompts.get(tokens):
            return text
        adds_front = self._front is not None and self.prompt("a")[:1] == [self._front]
        return self.decode(tokens[1:] if adds_front and tokens[0] == self._front else tokens)

    def after(self, text: str) -> list[int]:
        """Return the tokens of a text that stands after another one, as the model would write it."""
        if self.unit == "words":
            return self._words(text)
        for anchor in _ANCHORS:
            before, whole = self._plain(anchor), self._plain(anchor + text)
            if before and whole[: len(before)] == before:
                return whole[len(before) :]
        return self._plain(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        if self.unit == "words":
            return "".join(self._texts[token] for token in tokens)
        decoder = _decoder(self._lm)
        assert decoder is not None
        return str(decoder(list(tokens)))

    def _plain(self, text: str) -> list[int]:
        return list(self._lm.tok_encode(text, add_special_tokens=False)) if text else []

    def _words(self, text: str) -> list[int]:
        ids = []
        for piece in _PIECE.findall(text):
            if piece not in self._pieces:
                self._pieces[piece] = len(self._texts)
                self._texts.append(piece)
            ids.append(self._pieces[piece])
        return ids


def _decoder(lm: Any) -> Callable[[list[int]], str] | None:
    for owner in (getattr(lm, "tokenizer", None), lm):
        for name in ("decode", "tok_decode"):
            if callable(getattr(owner, name, None)):
                return getattr(owner, name)
    return None


def is_a(lm: Any, name: str) -> bool:
    """Say whether a model is of a class of the harness, by its name: importing the class may need its package."""
    return any(kind.__name__ == name for kind in type(lm).__mro__)
