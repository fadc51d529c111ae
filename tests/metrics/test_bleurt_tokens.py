"""BLEURT's subwords and truncation, as in Google's code."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint
from lm_eval_healthcare.metrics.bleurt_tokens import VocabularyError, WordPiece, kept, windows

pytest.importorskip("torch")

KINDS = ("bert", "rembert")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A checkpoint of each architecture."""
    base = tmp_path_factory.mktemp("bleurt")
    return {kind: str(tiny.tiny_bleurt(base / kind, kind)) for kind in KINDS}


def test_truncation_is_one_token_at_a_time_from_the_longer_text() -> None:
    for room in (2, 3, 8, 9):
        for reference in range(30):
            for candidate in range(30):
                assert kept(reference, candidate, room) == tiny.one_at_a_time(reference, candidate, room)
    rng = random.Random(5)
    for _ in range(2000):
        lengths = rng.randint(0, 3000), rng.randint(0, 3000), rng.choice([125, 509])
        assert kept(*lengths) == tiny.one_at_a_time(*lengths)
    assert kept(400, 400, 509) == (255, 254)  # the odd token is the reference's


def test_windows_are_as_few_equal_parts_as_fit() -> None:
    assert windows(10, 6, 16) == [(slice(0, 10), slice(0, 6))]
    assert windows(11, 6, 16) == [(slice(0, 5), slice(0, 3)), (slice(5, 11), slice(3, 6))]
    rng = random.Random(6)
    for _ in range(500):
        reference, candidate, room = rng.randint(0, 400), rng.randint(0, 400), rng.randint(2, 60)
        parts = windows(reference, candidate, room)
        for side, n in ((0, reference), (1, candidate)):
            positions = [position for part in parts for position in range(n)[part[side]]]
            assert positions == list(range(n))
        sizes = [(a.stop - a.start, b.stop - b.start) for a, b in parts]
        assert max(a + b for a, b in sizes) <= room
        for side in (0, 1):
            column = [size[side] for size in sizes]
            assert max(column) - min(column) <= 1
        for k in range(1, len(parts)):  # no smaller number of parts fits
            pairs = [
                ((i + 1) * reference // k - i * reference // k) + ((i + 1) * candidate // k - i * candidate // k)
                for i in range(k)
            ]
            assert max(pairs) > room


def wordpiece(*pieces: str, **settings: Any) -> WordPiece:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces]
    return WordPiece({piece: number for number, piece in enumerate(vocabulary)}, **settings)


def test_words_of_wordpiece() -> None:
    tokenizer = wordpiece("a")
    assert tokenizer.words("Héllo,\tWÖRLD\u00a0(38.5°C)") == ["hello", ",", "world", "(", "38", ".", "5°c", ")"]
    assert tokenizer.words("a\x00b\u200bc\ufffdd") == ["abcd"]
    assert tokenizer.words("咳嗽x熱") == ["咳", "嗽", "x", "熱"]
    assert tokenizer.words("a\u2028b\r\nc") == ["a", "b", "c"]
    assert tokenizer.words("ΟΔΟΣ") == ["οδος"]
    assert tokenizer.words("¿qué?—x") == ["¿", "que", "?", "—", "x"]
    assert tokenizer.words(" \ufffd\u200b ") == []
    assert wordpiece("a", lower_case=False).words("Héllo") == ["Héllo"]


def test_pieces_of_wordpiece_are_the_longest_known_ones() -> None:
    tokenizer = wordpiece("un", "##aff", "##able", "una", "a", "##a", "##f")
    ids = {"un": 4, "##aff": 5, "##able": 6, "una": 7, "a": 8, "##a": 9, "##f": 10}
    assert tokenizer.ids("unaffable").tolist() == [ids["una"], ids["##f"], ids["##f"], ids["##able"]]
    assert tokenizer.ids("aaa x").tolist() == [ids["a"], ids["##a"], ids["##a"], 1]
    assert tokenizer.ids("unx").tolist() == [1]
    assert tokenizer.ids("").tolist() == []


def test_where_subwords_are_those_of_google_and_not_of_transformers() -> None:
    tokenizer = wordpiece("a", "##a", "[", "]", "sep")
    assert tokenizer.ids("[SEP]").tolist() == [6, 8, 7]  # never the separator, which is 3
    assert tokenizer.ids("a" * 200).tolist() == [4] + [5] * 199
    assert tokenizer.ids("a" * 201).tolist() == [1]
    assert tokenizer.ids("\uf0b7 a").tolist() == [1, 4]  # a private-use bullet is an unknown word


def settled(character: str) -> bool:
    """Whether every Unicode version that a library may know has the character, in the same category."""
    category = unicodedata.category(character)
    return category == unicodedata.ucd_3_2_0.category(character) and category not in ("Cn", "Co", "Cs")


def test_wordpiece_is_that_of_transformers_elsewhere(
    models: dict[str, str], generated_pairs: list[tuple[str, str]]
) -> None:
    from tokenizers import BertWordPieceTokenizer

    theirs = BertWordPieceTokenizer(f"{models['bert']}/vocab.txt", lowercase=True)
    ours = Checkpoint.of(models["bert"]).subwords()
    for text, _ in generated_pairs[:3000]:
        text = "".join(filter(settled, text))
        assert ours.ids(text).tolist() == theirs.encode(text, add_special_tokens=False).ids, text


def test_words_are_those_of_transformers_for_every_settled_character() -> None:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer, splitter, ours = BertNormalizer(lowercase=True), BertPreTokenizer(), wordpiece("a")
    characters = [chr(code) for code in range(0x110000) if settled(chr(code))]
    assert len(characters) > 90_000
    for start in range(0, len(characters), 500):
        text = "".join(f"a{character}b " for character in characters[start : start + 500])
        assert ours.words(text) == [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]


def test_sentencepiece_is_asked_directly(models: dict[str, str]) -> None:
    from sentencepiece import SentencePieceProcessor

    theirs = SentencePieceProcessor(model_file=f"{models['rembert']}/spm.model")
    ours = Checkpoint.of(models["rembert"]).subwords()
    assert (ours.cls, ours.sep) == (theirs.piece_to_id("[CLS]"), theirs.piece_to_id("[SEP]"))
    for text in [
        "the patient has hyperkalaemia",
        "mild  fever ",
        "¿El paciente tiene fiebre?",
        "38.5 °C",
        "😷",
        "a\x00b",
        "[SEP] mild [CLS]",
    ]:
        expected = [theirs.piece_to_id(piece) for piece in theirs.encode(text, out_type=str)]
        assert ours.ids(text).tolist() == expected


def test_a_vocabulary_only_in_tokenizer_json(tmp_path: Path) -> None:
    bert = tiny.tiny_bleurt(tmp_path / "bert")
    text = "the Patient has hyperkalaemia."
    expected = Checkpoint.read(bert).subwords().ids(text).tolist()
    vocabulary = {piece: row for row, piece in enumerate((bert / "vocab.txt").read_text().split())}
    (bert / "vocab.txt").unlink()
    (bert / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocabulary}}))
    assert Checkpoint.read(bert).subwords().ids(text).tolist() == expected
    (bert / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocabulary}}))
    with pytest.raises(VocabularyError, match=r"holds no WordPiece vocabulary; put the checkpoint's vocab\.txt beside"):
        Checkpoint.read(bert).subwords()
    rembert = tiny.tiny_bleurt(tmp_path / "rembert", "rembert")
    (rembert / "spm.model").rename(rembert / "tokenizer.json")
    with pytest.raises(
        VocabularyError, match=r"no SentencePiece model .*; copy spm\.model of the published checkpoint"
    ):
        Checkpoint.read(rembert).subwords()
    (rembert / "spm.model").write_bytes(b"not a model")
    with pytest.raises(VocabularyError, match="is not a SentencePiece model"):
        Checkpoint.read(rembert).subwords()


def test_vocabularies_without_the_special_tokens_are_refused(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\na\n")
    with pytest.raises(VocabularyError, match=r"lacks \[SEP\]"):
        Checkpoint.read(folder).subwords()


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_larger_than_the_weights_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tiny.tiny_bleurt(tmp_path, kind)
    config = json.loads((folder / "config.json").read_text())
    size = config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": size - 1}))
    with pytest.raises(VocabularyError, match=f"weights for {size - 1} subwords and a vocabulary of {size};"):
        Checkpoint.read(folder).subwords()
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": size + 1}))
    Checkpoint.read(folder).subwords()
