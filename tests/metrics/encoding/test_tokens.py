from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lm_eval_healthcare.metrics.encoding.tokens import TextTokenizer
from tiny_encoders import minilm, tiny_bert, tiny_rembert, tiny_roberta

pytest.importorskip("transformers")
NO_LIMIT = 10**6


def pieces(folder: Path, text: str) -> list[str]:
    return TextTokenizer(folder).encode([text], NO_LIMIT)[0].pieces


def test_wordpiece(tiny: Callable[[str], Path]) -> None:
    [tokens] = TextTokenizer(tiny("bert")).encode(["Hyperkalaemia, no fever"], NO_LIMIT)
    assert tokens.pieces == ["[CLS]", "hyper", "##kal", "##aemia", ",", "no", "fever", "[SEP]"]
    assert np.flatnonzero(tokens.vocabulary.continues[tokens.ids]).tolist() == [2, 3]
    assert np.flatnonzero(tokens.special).tolist() == [0, 7]
    assert (len(tokens), tokens.truncated) == (8, False)


def test_byte_level_bpe_has_a_space_before_the_first_word(tiny: Callable[[str], Path]) -> None:
    # "mild" and "Ġmild" would be different tokens; bert-score asks for the latter.
    [tokens] = TextTokenizer(tiny("roberta")).encode(["  mild fever, "], NO_LIMIT)
    assert tokens.pieces == ["<s>", "Ġmild", "Ġfever", ",", "</s>"]
    assert np.flatnonzero(tokens.vocabulary.continues[tokens.ids]).tolist() == [3]
    assert np.flatnonzero(tokens.special).tolist() == [0, 4]


def test_sentencepiece_and_unknown_characters(tiny: Callable[[str], Path]) -> None:
    [tokens] = TextTokenizer(tiny("rembert")).encode(["hypertension א"], NO_LIMIT)
    # transformers 5 makes [CLS] of the unknown character, whatever tokenizer.json says.
    assert tokens.pieces == ["[CLS]", "▁hyper", "tension", "▁", "<unk>", "[SEP]"]
    assert np.flatnonzero(tokens.vocabulary.continues[tokens.ids]).tolist() == [2, 4]
    assert np.flatnonzero(tokens.special).tolist() == [0, 5]


def test_special_tokens_in_a_text_are_special_wherever_they_stand(tiny: Callable[[str], Path]) -> None:
    [tokens] = TextTokenizer(tiny("bert")).encode(["fever [SEP] cough [CLS]"], NO_LIMIT)
    assert tokens.pieces == ["[CLS]", "fever", "[SEP]", "cough", "[CLS]", "[SEP]"]
    assert tokens.special.tolist() == [True, False, True, False, True, True]


def test_the_space_before_a_mask_belongs_to_it_as_in_transformers_4(tiny: Callable[[str], Path]) -> None:
    assert pieces(tiny("roberta"), "mild <mask> fever") == ["<s>", "Ġmild", "<mask>", "Ġfever", "</s>"]


def test_long_texts_are_cut_between_the_special_tokens(tiny: Callable[[str], Path]) -> None:
    tokenizer = TextTokenizer(tiny("bert"))
    short, long = tokenizer.encode(["fever " * 8, "fever " * 9], 10)
    assert (len(short), short.truncated) == (10, False)
    assert (len(long), long.truncated) == (10, True)
    assert long.pieces == ["[CLS]", *["fever"] * 8, "[SEP]"]
    assert tokenizer.max_length == 64


@pytest.mark.parametrize("kind", ["bert", "roberta", "rembert"])
def test_halves_of_characters_and_empty_texts_have_tokens(kind: str, tiny: Callable[[str], Path]) -> None:
    tokenizer = TextTokenizer(tiny(kind))
    lone, joined, replaced, whole, empty = tokenizer.encode(
        ["fever \ud83d", "fever \ud83d\ude00", "fever \ufffd", "fever \U0001f600", " \t"], NO_LIMIT
    )
    assert lone.ids.tolist() == replaced.ids.tolist()
    assert joined.ids.tolist() == whole.ids.tolist()
    assert empty.special.tolist() == [True, True]


@pytest.mark.parametrize("make", [tiny_bert, tiny_roberta, tiny_rembert])
def test_a_tokenizer_without_a_limit_says_so(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(tmp_path / "tiny")
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text("utf-8"))
    assert TextTokenizer(folder).max_length == settings.pop("model_max_length")
    file.write_text(json.dumps(settings), encoding="utf-8")
    assert TextTokenizer(folder).max_length is None
    file.write_text(json.dumps({**settings, "model_max_length": 1e30}), encoding="utf-8")
    assert TextTokenizer(folder).max_length is None


def test_a_tokenizer_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = tiny_rembert(tmp_path / "tiny")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tiny: its tokenizer cannot be read \(.*\)\. Check that the folder"):
        TextTokenizer(folder)


def test_cutting_and_padding_that_a_tokenizer_brings_along_are_ignored() -> None:
    # This one's tokenizer.json pads every text to 128 tokens, or cuts it there.
    folder = minilm()
    stored = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    assert stored["truncation"]["max_length"] == 128
    short, long = TextTokenizer(folder).encode(["fever", "fever " * 300], NO_LIMIT)
    assert short.pieces == ["[CLS]", "fever", "[SEP]"]
    assert len(long) == 302


@pytest.mark.parametrize("text", ["x" * 100_000, "fever " * 16_000, "\U0001f600" * 100_000, "א" * 100_000])
@pytest.mark.parametrize("kind", ["bert", "roberta", "rembert"])
def test_texts_of_100_000_characters(kind: str, text: str, tiny: Callable[[str], Path]) -> None:
    tokenizer = TextTokenizer(tiny(kind))
    [tokens], [whole] = (tokenizer.encode([text], limit) for limit in (64, NO_LIMIT))
    assert not whole.truncated
    assert len(tokens) == min(64, len(whole))
    assert tokens.truncated is (len(whole) > 64)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_tokenizer_json_gives_the_same_as_the_files_that_it_is_made_of(
    kind: str, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    import transformers

    texts = ["The mild <mask> fever", " Ñandú 40 \u00b5g", "[MASK] a\tb\nc", "\U0001f600 </s> [SEP] א", "can't ##ed"]
    transformers.AutoTokenizer.from_pretrained(tiny(kind)).save_pretrained(tmp_path / kind)
    # As published: the space before a mask belongs to it.
    file = tmp_path / kind / "tokenizer.json"
    stored = json.loads(file.read_text("utf-8"))
    for token in stored["added_tokens"]:
        token["lstrip"] = token["content"] == "<mask>"
    file.write_text(json.dumps(stored), encoding="utf-8")
    (tmp_path / kind / "config.json").write_bytes((tiny(kind) / "config.json").read_bytes())
    found, wanted = (TextTokenizer(folder).encode(texts, NO_LIMIT) for folder in (tmp_path / kind, tiny(kind)))
    assert [tokens.pieces for tokens in found] == [tokens.pieces for tokens in wanted]


def test_where_the_files_disagree_about_case_the_configuration_counts(tmp_path: Path) -> None:
    import transformers

    folder = tiny_bert(tmp_path / "tiny")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    assert json.loads((folder / "tokenizer.json").read_text("utf-8"))["normalizer"]["lowercase"] is True
    assert pieces(folder, "FEVER") == ["[CLS]", "fever", "[SEP]"]
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "do_lower_case": False}), encoding="utf-8")
    assert pieces(folder, "FEVER") == ["[CLS]", "[UNK]", "[SEP]"]
