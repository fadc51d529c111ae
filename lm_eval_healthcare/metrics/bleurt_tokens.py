"""The subwords of BLEURT's texts and how a pair is cut to the model's length, both as in Google's BLEURT.

No tokenizer of another library is asked for WordPiece: a text must have the same subwords in every version of them, and
theirs part from Google's in three places. They turn a written "[SEP]" into a separator, call every word of more than
100 characters unknown (Google: 200), and delete private-use characters such as bullets pasted from a text processor.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int32]

LONGEST_WORD = 200
SENTENCEPIECE_FILES = ("spm.model", "sentencepiece.model", "sent_piece.model", "spiece.model")
_REMEMBERED_WORDS = 200_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_CJK = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class VocabularyError(ValueError):
    """A checkpoint's vocabulary is missing or cannot be used; the text says what to do."""


class Subwords(Protocol):
    """What cuts a text into subwords.

    Attributes:
        cls: Id of the token before the pair.
        sep: Id of the token after each text.
        size: Every id is smaller than this.
    """

    cls: int
    sep: int
    size: int

    def ids(self, text: str) -> Ids:
        """Return the ids of a text's subwords, none of them special; there may be none."""
        ...


class WordPiece:
    """Words are cut greedily, longest known piece first; pieces that continue a word are spelt `##piece`.

    A text is cleaned (control and format characters go, CJK characters stand alone), lower-cased and stripped of
    accents, and cut at whitespace and around every punctuation character. A word that cannot be cut into known pieces,
    or has more than 200 characters, is one unknown token.

    Args:
        vocabulary: Id of each piece, with `[CLS]`, `[SEP]` and `[UNK]` among them.
        lower_case: Whether the vocabulary is uncased.

    Raises:
        VocabularyError: If a special token is missing.
    """

    def __init__(self, vocabulary: Mapping[str, int], lower_case: bool = True) -> None:
        """Keep the vocabulary."""
        absent = [token for token in ("[CLS]", "[SEP]", "[UNK]") if token not in vocabulary]
        if absent:
            raise VocabularyError(f"the vocabulary lacks {', '.join(absent)}; it is not that of a BERT model")
        self.cls, self.sep, self.unknown = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[UNK]"))
        self.size = max(vocabulary.values()) + 1
        self._vocabulary = vocabulary
        self._longest_piece = max(map(len, vocabulary))
        self._lower_case = lower_case
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> Ids:
        """Return the ids of a text's pieces."""
        found: list[int] = []
        for word in self.words(_mended(text)):
            pieces = self._known.get(word)
            if pieces is None:
                pieces = self._pieces(word)
                if len(self._known) < _REMEMBERED_WORDS:
                    self._known[word] = pieces
            found += pieces
        return np.array(found, dtype=np.int32)

    def words(self, text: str) -> list[str]:
        """Return the words and punctuation characters of a text, normalized."""
        text = text.translate(_CLEANED)
        if self._lower_case:
            text = unicodedata.normalize("NFD", text.lower()).translate(_UNACCENTED)
        return text.translate(_PUNCTUATION_APART).split()

    def _pieces(self, word: str) -> list[int]:
        """Return the ids of one word's pieces."""
        if len(word) > LONGEST_WORD:
            return [self.unknown]
        pieces: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest_piece), start, -1):
                piece = self._vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return [self.unknown]
            pieces.append(piece)
            start, prefix = end, "##"
        return pieces


class SentencePiece:
    """Pieces of a SentencePiece model, which holds its own normalization.

    Args:
        path: The model's file.

    Raises:
        VocabularyError: If it cannot be read, or has no `[CLS]` or `[SEP]`.
    """

    def __init__(self, path: Path) -> None:
        """Load the model."""
        from sentencepiece import SentencePieceProcessor

        try:
            self._model = SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise VocabularyError(f"{path} is not a SentencePiece model ({error}); fetch it again") from None
        self.size = self._model.get_piece_size()
        self.cls, self.sep = (self._model.piece_to_id(token) for token in ("[CLS]", "[SEP]"))
        if self._model.unk_id() in (self.cls, self.sep):
            raise VocabularyError(f"{path} has no piece [CLS] or no piece [SEP]; it is not that of a BLEURT checkpoint")

    def ids(self, text: str) -> Ids:
        """Return the ids of a text's pieces."""
        return np.array(self._model.encode(_mended(text), out_type=int), dtype=np.int32)


def wordpiece_of(folder: Path) -> WordPiece:
    """Return the WordPiece of a checkpoint's `vocab.txt`, or of the vocabulary in its `tokenizer.json`.

    It lower-cases unless `tokenizer_config.json` says `"do_lower_case": false`.

    Raises:
        VocabularyError: If the folder has neither, or one that is not WordPiece.
    """
    plain, fast = folder / "vocab.txt", folder / "tokenizer.json"
    if plain.is_file():
        lines = plain.read_text(encoding="utf-8").rstrip("\n").split("\n")
        vocabulary = {line.rstrip("\r"): row for row, line in enumerate(lines)}
    elif fast.is_file():
        model = read_json(fast).get("model", {})
        if model.get("type", "WordPiece") != "WordPiece" or not isinstance(model.get("vocab"), dict):
            raise VocabularyError(f"{fast} holds no WordPiece vocabulary; put the checkpoint's vocab.txt beside it")
        vocabulary = model["vocab"]
    else:
        raise VocabularyError(
            f"{folder} has neither vocab.txt nor tokenizer.json; copy the checkpoint's vocab.txt there"
        )
    settings = folder / "tokenizer_config.json"
    lower_case = read_json(settings).get("do_lower_case", True) if settings.is_file() else True
    return WordPiece(vocabulary, lower_case=bool(lower_case))


def sentencepiece_file(folder: Path) -> Path:
    """Return the SentencePiece model of a checkpoint.

    Raises:
        VocabularyError: If the folder has none.
    """
    for name in SENTENCEPIECE_FILES:
        if (folder / name).is_file():
            return folder / name
    hint = ""
    if (folder / "tokenizer.json").is_file():
        hint = " Its tokenizer.json is a rewriting of that model whose subwords are not always the same."
    raise VocabularyError(
        f"{folder} has no SentencePiece model (one of {', '.join(SENTENCEPIECE_FILES)}); copy spm.model of the "
        f"published checkpoint there.{hint}"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        VocabularyError: If it holds none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path} cannot be read as JSON ({error}); fetch it again") from None
    if not isinstance(value, dict):
        raise VocabularyError(f"{path} holds no JSON object; fetch it again")
    return value


def kept(reference: int, candidate: int, room: int) -> tuple[int, int]:
    """Return how many tokens of each text the model sees.

    Tokens are dropped one at a time from the end of the longer text, of the candidate where both are equal, until the
    two fit. What that ends with: a text is never cut below its half of the room, the odd token being the reference's.

    Args:
        reference: Tokens of the reference.
        candidate: Tokens of the candidate.
        room: Tokens that fit.
    """
    half = room // 2
    return min(reference, max(room - candidate, room - half)), min(candidate, max(room - reference, half))


def windows(reference: int, candidate: int, room: int) -> list[tuple[slice, slice]]:
    """Return the parts of two texts that are compared in place of the whole, in order.

    Both are cut into the same number of consecutive parts, part i of n tokens in k parts being those from i*n//k to
    (i+1)*n//k; k is the smallest number with which every pair of parts fits.

    Args:
        reference: Tokens of the reference.
        candidate: Tokens of the candidate.
        room: Tokens that fit, at least 2.
    """
    k = max(1, -(-(reference + candidate) // room))
    while True:
        cuts = np.arange(k + 1)
        first, second = cuts * reference // k, cuts * candidate // k
        if np.max(np.diff(first) + np.diff(second)) <= room:
            break
        k += 1
    return [(slice(int(first[i]), int(first[i + 1])), slice(int(second[i]), int(second[i + 1]))) for i in range(k)]


class _Characters(dict[int, str]):
    """A table for `str.translate` that asks a rule about each character once."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = self._rule(chr(code))
        return self[code]


def _mended(text: str) -> str:
    """Join surrogates that are halves of one character; a lone one becomes U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _cleaned(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    if any(first <= ord(character) <= last for first, last in _CJK):
        return f" {character} "
    return character


def _unaccented(character: str) -> str:
    return "" if unicodedata.category(character) == "Mn" else character


def _punctuation_apart(character: str) -> str:
    is_ascii_symbol = "!" <= character <= "~" and not character.isalnum()
    return f" {character} " if is_ascii_symbol or unicodedata.category(character).startswith("P") else character


_CLEANED = _Characters(_cleaned)
_UNACCENTED = _Characters(_unaccented)
_PUNCTUATION_APART = _Characters(_punctuation_apart)
