"""Models whose tokens a test can follow: one that only writes down what it is asked, and tiny real ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.model import TemplateLM

BOS = 1
WORDS = [
    "fever", "cough", "rash", "pain", "chest", "heart", "lung", "liver", "acute", "chronic", "mild", "severe", "give",
    "take", "rest", "water", "the", "a", "of", "with", "and", "no", "patient", "doctor", "dose", "daily", "two", "yes",
]  # fmt: skip


class CharacterModel(TemplateLM):
    """One token a character, a fixed cost a token, and a record of every window it is asked to score."""

    def __init__(self, max_length: int = 64, cost: float = 1.0, adds_bos: bool = False, **costs: float) -> None:
        super().__init__()
        self.max_length, self.cost, self.costs, self.adds_bos = max_length, cost, costs, adds_bos
        self.windows: list[tuple[list[int], list[int]]] = []
        self.calls: list[int] = []
        self.fail_in_call: int | None = None
        self.tokenizer = self

    @property
    def eot_token_id(self) -> int:
        return BOS

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        tokens = [BOS if character == "\x01" else ord(character) + 10 for character in string]
        return [BOS, *tokens] if self.adds_bos and add_special_tokens is None else tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join("<bos>" if token == BOS else chr(token - 10) for token in tokens)

    def _loglikelihood_tokens(self, requests: Sequence[Any], **kwargs: Any) -> list[tuple[float, bool]]:
        self.calls.append(len(requests))
        if len(self.calls) == self.fail_in_call:
            raise KeyboardInterrupt
        for _, context, scored in requests:
            assert context
            assert scored
            assert len(context) + len(scored) <= self.max_length - 1, "more than fits is asked for"
            self.windows.append((list(context), list(scored)))
        return [(-self.cost * len(scored), False) for _, _, scored in requests]

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        raise AssertionError("a model that takes tokens is asked with tokens")

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return ["" for _ in requests]

    @property
    def tokenizer_name(self) -> str:
        return "characters"

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"[{m['role']}] {m['content']}\n" for m in messages) + "[assistant]\n"


def tiny_llama(folder: Path, adds_bos: bool, max_length: int = 32) -> Path:
    """Write a random Llama with a word tokenizer that does or does not begin every text with `<s>`."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=max_length
    )
    wrapped.save_pretrained(folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=max_length, bos_token_id=1, eos_token_id=2,
        initializer_range=0.5,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def load(folder: Path, **arguments: Any) -> Any:
    """Load a model folder with the harness's transformers back end, on the CPU in float32."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(**{"pretrained": str(folder), "dtype": "float32", "device": "cpu", "batch_size": 3, **arguments})


def log_probability(lm: Any) -> Callable[[list[int], list[int]], float]:
    """The sum of log-probabilities of tokens after others, straight from the model's logits."""
    import torch

    def value(before: list[int], tokens: list[int]) -> float:
        with torch.no_grad():
            logits = lm.model(torch.tensor([before + tokens])).logits[0].double()
        chosen = torch.log_softmax(logits, dim=-1)[len(before) - 1 : -1]
        return float(chosen.gather(1, torch.tensor(tokens)[:, None]).sum())

    return value


class BigramModel(CharacterModel):
    """One token a character, the probability of each depends on the one before it; writes down texts as it is told.

    Attributes:
        asked: The arguments of every generation request.
    """

    def __init__(
        self,
        texts: Sequence[str],
        table: dict[str, float] | None = None,
        other: float = 0.5,
        max_length: int = 10_000,
        adds_bos: bool = False,
    ) -> None:
        super().__init__(max_length=max_length, adds_bos=adds_bos)
        self.texts, self.table, self.other = list(texts), table or {}, other
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        start = len(self.asked)
        self.asked += [request.args for request in requests]
        return [self.texts[(start + place) % len(self.texts)] for place in range(len(requests))]

    def _loglikelihood_tokens(self, requests: Sequence[Any], **kwargs: Any) -> list[tuple[float, bool]]:
        super()._loglikelihood_tokens(requests, **kwargs)
        return [(self.log_p(self.decode(before), self.decode(tokens)), False) for _, before, tokens in requests]

    def log_p(self, before: str, text: str) -> float:
        """The log-probability of `text` after `before`, one factor a character."""
        pairs = zip(before[-1:] + text[:-1], text, strict=True)
        values = [self.table.get(first + second, self.other) for first, second in pairs]
        return sum(math.log(value) if value > 0 else (-math.inf if value == 0 else math.nan) for value in values)


def log_probability_float32(lm: Any) -> Callable[[list[int], list[int]], float]:
    """As `log_probability`, with the harness's log-softmax in float32: one forward pass, no cache."""
    import torch

    def value(before: list[int], tokens: list[int]) -> float:
        with torch.inference_mode():
            logits = lm.model(torch.tensor([before + tokens])).logits[0, len(before) - 1 : -1]
            chosen = torch.log_softmax(logits.float(), dim=-1).gather(1, torch.tensor(tokens)[:, None])
        return float(chosen.double().sum())

    return value
