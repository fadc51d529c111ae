"""From texts to token ids, the same with every version of transformers.

The published `tokenizer.json` is read as it is where there is one: transformers 5 rebuilds some tokenizers from their
vocabulary and then maps unknown characters to other ids, and ignores `add_prefix_space` when it encodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 256  # texts that the tokenizer gets in one call
_UNLIMITED = 10**6  # a `model_max_length` above this means that there is none
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE_FIRST = ("RobertaTokenizer", "GPT2Tokenizer")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What a tokenizer's ids stand for.

    Attributes:
        pieces: The piece of each id.
        continues: Bool array: the piece goes on with a word that another one began ('##' of WordPiece; no 'Ġ' of
            byte-level BPE; no '▁' of SentencePiece).
        special: Bool array: the ids of the tokenizer's own first and last token ([CLS] and [SEP], <s> and </s>).
    """

    pieces: list[str]
    continues: NDArray[np.bool_]
    special: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tokens:
    """One text as the encoder sees it.

    Attributes:
        ids: Token ids with the special ones in front and behind, shape `(t,)`.
        vocabulary: What the ids stand for.
        truncated: Whether the text's end was cut off.
    """

    ids: NDArray[np.int64]
    vocabulary: Vocabulary
    truncated: bool

    def __len__(self) -> int:
        """Return the number of tokens that the encoder sees."""
        return len(self.ids)

    @property
    def pieces(self) -> list[str]:
        """The pieces, `t` of them."""
        return [self.vocabulary.pieces[number] for number in self.ids]

    @property
    def special(self) -> NDArray[np.bool_]:
        """Shape `(t,)`: a [CLS] or [SEP] (by its id, so also one that is written in the text)."""
        return self.vocabulary.special[self.ids]


class TextTokenizer:
    """The tokenizer of a model's folder.

    Attributes:
        prefix: Ids in front of every text, such as [CLS].
        suffix: Ids behind every text, such as [SEP].
        pad: The id that fills up a batch.
        max_length: The tokenizer's own limit in tokens, None if it has none.
        vocabulary: What the ids stand for.
    """

    def __init__(self, folder: Path) -> None:
        """Read it.

        Raises:
            ValueError: If it cannot be read.
        """
        tokenizer = _load(folder)
        backend = _backend(folder, tokenizer)
        self._encode: Callable[[list[str]], list[list[int]]]
        if backend is None:
            self._encode = lambda texts: [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
            self.prefix, self.suffix = _frame(lambda text, special: _ids(tokenizer, text, special))
        else:
            encode = getattr(backend, "encode_batch_fast", backend.encode_batch)
            self._encode = lambda texts: [found.ids for found in encode(texts, add_special_tokens=False)]
            self.prefix, self.suffix = _frame(
                lambda text, special: backend.encode(text, add_special_tokens=special).ids
            )
        self.pad = int(tokenizer.pad_token_id or 0)
        length = int(min(tokenizer.model_max_length or _UNLIMITED + 1, _UNLIMITED + 1))
        self.max_length = length if 0 < length <= _UNLIMITED else None
        self.vocabulary = _vocabulary(tokenizer, backend)
        self._space_first = _space_first(folder, tokenizer)

    def encode(self, texts: Sequence[str], limit: int) -> list[Tokens]:
        """Return the tokens of each text, the first `limit` of them, the special ones around them included."""
        out: list[Tokens] = []
        frame = len(self.prefix) + len(self.suffix)
        for start in range(0, len(texts), _AT_ONCE):
            for inner in self._encode([self._clean(text) for text in texts[start : start + _AT_ONCE]]):
                kept = inner[: limit - frame]
                out.append(
                    Tokens(
                        ids=np.array([*self.prefix, *kept, *self.suffix], dtype=np.int64),
                        vocabulary=self.vocabulary,
                        truncated=len(kept) < len(inner),
                    )
                )
        return out

    def _clean(self, text: str) -> str:
        """Strip as bert-score does, and mend what cannot be encoded."""
        text = text.strip()
        if _SURROGATE.search(text):  # halves of one character are joined, lone ones become U+FFFD
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return f" {text}" if self._space_first and text else text


def _load(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a tokenizer's own code raises
        raise ValueError(
            f"model folder {folder}: its tokenizer cannot be read ({type(error).__name__}: {error}). Check that the "
            "folder is complete; some tokenizers need `pip install sentencepiece protobuf`"
        ) from error


def _backend(folder: Path, tokenizer: Any) -> Any:
    """The tokenizer of the library `tokenizers`, without cutting and padding of its own; None if there is none."""
    import tokenizers

    file = folder / "tokenizer.json"
    backend = tokenizers.Tokenizer.from_file(str(file)) if file.is_file() else getattr(tokenizer, "_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        return None
    backend.no_truncation()
    backend.no_padding()
    lower = _stated(folder / "tokenizer_config.json", "do_lower_case")
    if lower is not None and isinstance(backend.normalizer, tokenizers.normalizers.BertNormalizer):
        backend.normalizer.lowercase = bool(lower)  # where the two files disagree, transformers 4 believes this one
    if not file.is_file() and _bare(tokenizer) in _SPACE_FIRST and tokenizer.mask_token:
        # As transformers 4 has it: the space before a mask belongs to it.
        backend.add_special_tokens([tokenizers.AddedToken(tokenizer.mask_token, lstrip=True, normalized=False)])
    return backend


def _bare(tokenizer: Any) -> str:
    return type(tokenizer).__name__.removesuffix("Fast")


def _ids(tokenizer: Any, text: str, special: bool) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])


def _frame(encode: Callable[[str, bool], list[int]]) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts in front of a text and behind it."""
    inner, whole = encode("a", False), encode("a", True)
    for start in range(len(whole) - len(inner) + 1):
        if whole[start : start + len(inner)] == inner:
            return whole[:start], whole[start + len(inner) :]
    return [], []


def _vocabulary(tokenizer: Any, backend: Any) -> Vocabulary:
    numbers = tokenizer.get_vocab() if backend is None else backend.get_vocab(with_added_tokens=True)
    pieces = [""] * (max(numbers.values()) + 1)
    for piece, number in numbers.items():
        pieces[number] = piece
    special = np.zeros(len(pieces), dtype=bool)
    for number in (tokenizer.cls_token_id, tokenizer.sep_token_id):
        if number is not None and number < len(pieces):
            special[number] = True
    return Vocabulary(pieces, _continues(pieces, backend) & ~special, special)


def _continues(pieces: Sequence[str], backend: Any) -> NDArray[np.bool_]:
    """Tell which pieces go on with a word, by the mark that most of the marked pieces bear."""
    model = getattr(backend, "model", None)
    inside = getattr(model, "continuing_subword_prefix", None) or "##"
    counts = {mark: sum(piece.startswith(mark) for piece in pieces) for mark in (inside, "Ġ", "▁")}
    mark = inside if type(model).__name__ == "WordPiece" else max(counts, key=lambda mark: counts[mark])
    if not counts[mark]:
        return np.zeros(len(pieces), dtype=bool)
    marked = np.array([piece.startswith(mark) for piece in pieces], dtype=bool)
    return marked if mark == inside else ~marked


def _space_first(folder: Path, tokenizer: Any) -> bool:
    """Whether the first word is told by a space in front, as bert-score has it: RoBERTa's and GPT-2's tokenizers."""
    name = _bare(tokenizer)
    if name in ("TokenizersBackend", "PreTrainedTokenizer"):  # says nothing of its kind
        name = str(_stated(folder / "tokenizer_config.json", "tokenizer_class")).removesuffix("Fast")
        return name in _SPACE_FIRST or _stated(folder / "config.json", "model_type") in ("roberta", "gpt2")
    return name in _SPACE_FIRST


def _stated(file: Path, key: str) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None
