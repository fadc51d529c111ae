"""BLEURT: subwords and truncation as in Google's code, scores as in bleurt-pytorch, whatever the batch."""

from __future__ import annotations

import json
import os
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import bleurt
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint, convert
from lm_eval_healthcare.metrics.bleurt_tokens import VocabularyError, WordPiece, kept, windows
from lm_eval_healthcare.metrics.encoding import batches

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

KINDS = ("bert", "rembert")
METRIC = bleurt.Bleurt()
WORDS = [
    "the",
    "patient",
    "has",
    "mild",
    "fever",
    "and",
    "a",
    "dry",
    "cough",
    "no",
    "pain",
    "in",
    "chest",
    "blood",
    "pressure",
    "is",
    "high",
    "zzz",
    "hyperkalaemia",
]
Models = dict[str, str]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """A checkpoint of each architecture for 64 tokens, in the layout of the published weights."""
    base = tmp_path_factory.mktemp("bleurt")
    yield {kind: str(tiny.tiny_bleurt(base / kind, kind)) for kind in KINDS}
    bleurt.release()


def texts(n: int, seed: int, longest: int = 40) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(n)]


def score(predictions: list[str], references: Any, model: str, **options: Any) -> np.ndarray:
    return METRIC.score(predictions, references, bleurt_model=model, metrics_device="cpu", **options)


def one_at_a_time(reference: int, candidate: int, room: int) -> tuple[int, int]:
    while reference + candidate > room:
        if reference > candidate:
            reference -= 1
        else:
            candidate -= 1
    return reference, candidate


def test_truncation_is_one_token_at_a_time_from_the_longer_text() -> None:
    for room in (2, 3, 8, 9):
        for reference in range(30):
            for candidate in range(30):
                assert kept(reference, candidate, room) == one_at_a_time(reference, candidate, room)
    rng = random.Random(5)
    for _ in range(2000):
        lengths = rng.randint(0, 3000), rng.randint(0, 3000), rng.choice([125, 509])
        assert kept(*lengths) == one_at_a_time(*lengths)
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


def test_wordpiece_is_that_of_transformers_elsewhere(models: Models, generated_pairs: list[tuple[str, str]]) -> None:
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


def test_sentencepiece_is_asked_directly(models: Models) -> None:
    from sentencepiece import SentencePieceProcessor

    theirs = SentencePieceProcessor(model_file=f"{models['rembert']}/spm.model")
    ours = Checkpoint.of(models["rembert"]).subwords()
    assert (ours.cls, ours.sep) == (theirs.piece_to_id("[CLS]"), theirs.piece_to_id("[SEP]"))
    for text in [*texts(20, seed=1), "¿El paciente tiene fiebre?", "38.5 °C", "😷", "a\x00b", "[SEP] mild [CLS]"]:
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


def by_the_network(model: str, reference: str, prediction: str) -> float:
    """The score of one pair, put together by hand from subwords that are cut one token at a time."""
    checkpoint = Checkpoint.of(model)
    subwords = checkpoint.subwords()
    first, second = subwords.ids(reference).tolist(), subwords.ids(prediction).tolist()
    sizes = one_at_a_time(len(first), len(second), 64 - 3)
    first, second = first[: sizes[0]], second[: sizes[1]]
    ids = [subwords.cls, *first, subwords.sep, *second, subwords.sep]
    types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    return tiny.network(tiny.load(checkpoint.folder), np.array(ids), np.array(types))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_network_in_numpy(models: Models, kind: str) -> None:
    predictions, references = texts(12, seed=2, longest=60), texts(12, seed=3, longest=60)
    expected = [by_the_network(models[kind], *pair) for pair in zip(references, predictions, strict=True)]
    np.testing.assert_allclose(score(predictions, references, models[kind]), expected, atol=2e-6)
    assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_bleurt_pytorch(models: Models, kind: str) -> None:
    """Runs where the package does, which is with transformers 4."""
    original = pytest.importorskip("bleurt_pytorch", exc_type=ImportError)
    predictions, references = texts(30, seed=4, longest=24), texts(30, seed=5, longest=24)
    subwords = Checkpoint.of(models[kind]).subwords()
    short = [
        row
        for row, pair in enumerate(zip(references, predictions, strict=True))
        if sum(len(subwords.ids(text)) for text in pair) <= 61  # it never truncates
    ]
    predictions, references = [predictions[row] for row in short], [references[row] for row in short]
    tokenizer = original.BleurtTokenizer.from_pretrained(models[kind])
    network = original.BleurtForSequenceClassification.from_pretrained(models[kind]).eval()
    with torch.no_grad():
        inputs = [tokenizer(*pair, return_tensors="pt") for pair in zip(references, predictions, strict=True)]
        expected = [network(**given).logits[0, 0].item() for given in inputs]
    assert len(expected) > 10
    np.testing.assert_allclose(score(predictions, references, models[kind]), expected, atol=1e-6)


# Where the package has other subwords than Google's own code has, which is what is wanted.
NOT_AS_THE_PACKAGE = {
    "bert": {
        "very-long-word",  # of 101 to 200 characters: unknown to the package's tokenizer, cut into pieces by Google's
        "special-tokens-bert",  # a written "[SEP]" becomes a separator
    },
    "rembert": {"special-tokens-bert", "special-tokens-roberta"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_that_bleurt_pytorch_gave(tmp_path: Path, kind: str) -> None:
    """The table is written by `python scripts/reference_tables.py`; its second value is the one for cut pairs."""
    folder = Path(__file__).parent.parent / "reference"
    documents = {
        document["id"]: document
        for document in json.loads((folder / "texts.json").read_text(encoding="utf-8"))["documents"]
    }
    table = json.loads((folder / "bleurt.json").read_text(encoding="utf-8"))
    setting = next(setting for setting in table["settings"] if setting["name"] == kind)
    model = str(tiny.tiny_bleurt(tmp_path, kind, positions=setting["positions"]))
    rows = [
        (name, reference, values[1])
        for name, found in setting["documents"].items()
        for reference, values in zip(documents[name]["references"], found, strict=True)
        if documents[name]["kind"] != "blank"
    ]
    scores = score([documents[name]["prediction"] for name, _, _ in rows], [text for _, text, _ in rows], model)
    for (name, _, expected), found in zip(rows, scores, strict=True):
        if isinstance(expected, dict):  # the package's error
            assert "surrogate" in name
            assert np.isfinite(found)
        elif name in NOT_AS_THE_PACKAGE[kind]:
            assert abs(found - expected) > 1e-3
        else:
            assert found == pytest.approx(expected, abs=1e-6), name
    assert len(rows) > 70


@pytest.mark.parametrize("kind", KINDS)
def test_alone_in_a_batch_and_in_another_order(models: Models, kind: str) -> None:
    predictions, references = texts(40, seed=6), texts(40, seed=7)
    together = score(predictions, references, models[kind])
    alone = [score([p], [r], models[kind])[0] for p, r in zip(predictions, references, strict=True)]
    backwards = score(predictions[::-1], references[::-1], models[kind])[::-1]
    small = score(predictions, references, models[kind], metrics_batch_tokens=1)
    large = score(predictions, references, models[kind], metrics_batch_tokens=10**6)
    for other in (alone, backwards, small, large):
        np.testing.assert_allclose(other, together, atol=1e-6)


def test_bfloat16_is_near_and_has_its_own_signature(models: Models) -> None:
    predictions, references = texts(20, seed=8), texts(20, seed=9)
    exact = score(predictions, references, models["bert"])
    rough = score(predictions, references, models["bert"], metrics_dtype="bfloat16")
    assert 0 < np.abs(exact - rough).max() < 0.1
    signatures = {
        METRIC.signature(bleurt_model=models["bert"], metrics_dtype=dtype) for dtype in ("float32", "bfloat16")
    }
    assert len(signatures) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_reference_and_prediction_are_not_interchangeable(models: Models, kind: str) -> None:
    one, other = "the patient has mild fever", "high blood pressure"
    assert abs(score([one], [other], models[kind])[0] - score([other], [one], models[kind])[0]) > 1e-3


def test_the_best_of_several_references_counts(models: Models) -> None:
    predictions, references = texts(6, seed=10), [texts(3, seed=20 + row) for row in range(6)]
    references[0] = [references[0][0]] * 2
    single = [
        [score([p], [text], models["bert"])[0] for text in r] for p, r in zip(predictions, references, strict=True)
    ]
    expected = [max(values) for values in single]
    np.testing.assert_allclose(score(predictions, references, models["bert"]), expected, atol=1e-6)


def test_pairs_past_the_limit_are_flagged(models: Models) -> None:
    """61 subwords fit. Every word here is one piece of the vocabulary."""
    reference, fits, too_long = "fever " * 30, "cough " * 31, "cough " * 32
    measured = METRIC.measure(
        ["bleurt"],
        [fits, too_long, "cough", too_long, too_long + "blood"],
        [reference, reference, [reference, "fever " * 61], "fever", reference],
        bleurt_model=models["bert"],
    )
    assert measured.truncated["bleurt"].tolist() == [False, True, True, False, True]
    assert measured.scores["bleurt"][1] == measured.scores["bleurt"][4]  # they differ where the model does not see


def test_windows_are_the_mean_over_parts_and_truncate_nothing(models: Models) -> None:
    """100 and 70 one-piece words in 61: 3 parts of 33 or 34 and 23 or 24, cut at 33, 66 and at 23, 46."""
    reference, prediction = WORDS[:4] * 25, [*WORDS[4:9], *WORDS[10:12]] * 10
    assert Checkpoint.of(models["bert"]).subwords().ids(" ".join(reference)).size == 100
    assert Checkpoint.of(models["bert"]).subwords().ids(" ".join(prediction)).size == 70
    cuts = [((0, 33), (0, 23)), ((33, 66), (23, 46)), ((66, 100), (46, 70))]
    parts = [
        by_the_network(models["bert"], " ".join(reference[a:b]), " ".join(prediction[c:d])) for (a, b), (c, d) in cuts
    ]
    measured = METRIC.measure(
        ["bleurt"], [" ".join(prediction)], [" ".join(reference)], bleurt_model=models["bert"], metrics_long="windows"
    )
    assert measured.scores["bleurt"][0] == pytest.approx(np.mean(parts), abs=2e-6)
    assert not measured.truncated["bleurt"][0]
    short = texts(5, seed=11, longest=10), texts(5, seed=12, longest=10)
    np.testing.assert_array_equal(score(*short, models["bert"]), score(*short, models["bert"], metrics_long="windows"))
    assert "long:windows" in METRIC.signature(bleurt_model=models["bert"], metrics_long="windows")


ADVERSARIAL = {
    "control characters": "\x01\x02 mild \x07fever\x1b[0m",
    "100,000 characters": "fever and cough " * 6250,
    "100,000 letters": "a" * 100_000,
    "right to left": "المريض يعاني من حمى خفيفة",
    "emoji": "😷🤒 👩🏽‍⚕️",
    "punctuation": "?!... --- ;;",
    "no subword": "\ufffd",
    "parts of words": "##ing ##s",
    "lone surrogate": "fever \ud83d cough \udc00",
    "halves of one character": "fever \ud83d\ude37",
    "separators": "[SEP] [CLS] </s> <pad> [PAD] [MASK]",
    "null": "fever\x00cough",
    "private use": "\uf0b7 fever \uf0b7 cough",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_adversarial_texts_have_a_score(models: Models, kind: str, long: str) -> None:
    rows = list(ADVERSARIAL.values())
    ordinary = ["mild fever"] * len(rows)
    together = score(rows, ordinary, models[kind], metrics_long=long)
    assert np.isfinite(together).all()
    assert np.abs(together).max() < 20  # the head's weights bound it
    if long == "truncate":
        assert np.isfinite(score(ordinary, rows, models[kind])).all()
        assert np.isfinite(score(rows, rows, models[kind])).all()
        alone = [score([text], ["mild fever"], models[kind])[0] for text in rows]
        np.testing.assert_allclose(together, alone, atol=1e-6)


def test_a_text_without_subwords_is_an_empty_segment(models: Models) -> None:
    subwords = Checkpoint.of(models["bert"]).subwords()
    fever = subwords.ids("fever").tolist()
    assert subwords.ids("\ufffd").size == 0
    ids, types = [subwords.cls, *fever, subwords.sep, subwords.sep], [0] * (len(fever) + 2) + [1]
    expected = tiny.network(tiny.load(Path(models["bert"])), np.array(ids), np.array(types))
    assert score(["\ufffd"], ["fever"], models["bert"])[0] == pytest.approx(expected, abs=2e-6)


def test_equal_documents_are_computed_once(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = bleurt._Scorer.__call__

    def counting(self: Any, pairs: Any) -> Any:
        seen.extend(pairs)
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", counting)
    scores = score(["mild fever"] * 10_000, [["fever", "fever", "cough"]] * 10_000, models["bert"])
    assert len(seen) == 2
    assert np.ptp(scores) == 0


def test_documents_are_reported_as_they_are_complete(models: Models) -> None:
    predictions, references = [*texts(5, seed=13), "fever"], [texts(2, seed=30 + row) for row in range(6)]
    predictions[5], references[5] = predictions[0], references[0]
    told = []
    measured = METRIC.measure(
        ["bleurt"],
        predictions,
        references,
        bleurt_model=models["bert"],
        report=lambda *what: told.append(what),
        metrics_batch_tokens=1,
    )
    assert [name for name, *_ in told] == ["bleurt"] * 6
    assert {row: (value, cut) for _, row, value, cut in told} == {
        row: (measured.scores["bleurt"][row], measured.truncated["bleurt"][row]) for row in range(6)
    }


def test_a_run_that_dies_has_reported_what_it_knew(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = bleurt._Scorer.__call__

    def dying(self: Any, pairs: Any) -> Any:
        calls.append(len(pairs))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", dying)
    told = []
    with pytest.raises(KeyboardInterrupt):
        score(
            texts(8, seed=14), texts(8, seed=15), models["bert"],
            metrics_batch_tokens=1, report=lambda *what: told.append(what),
        )  # fmt: skip
    assert len(told) == 3


def test_out_of_memory_halves_the_batch(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, references = texts(12, seed=16, longest=20), texts(12, seed=17, longest=20)
    expected = score(predictions, references, models["bert"])
    original = bleurt._Scorer.__call__

    def small(self: Any, pairs: Any) -> Any:
        if len(pairs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", small)
    np.testing.assert_allclose(score(predictions, references, models["bert"]), expected, atol=1e-6)
    monkeypatch.setattr(bleurt._Scorer, "__call__", lambda self, pairs: small(self, [*pairs] * 3))
    with pytest.raises(batches.DoesNotFit, match="metrics_dtype=bfloat16"):
        score(predictions, references, models["bert"])


def test_nothing_to_score() -> None:
    measured = METRIC.measure(["bleurt"], [], [], bleurt_model="/no/such/folder")
    assert measured.scores["bleurt"].shape == measured.truncated["bleurt"].shape == (0,)


def test_through_the_suite(models: Models) -> None:
    found = metrics.score(
        ["mild fever", "", None, "cough"], ["fever", "fever", "", None], "bleurt", bleurt_model=models["bert"]
    )
    scores = found["bleurt"]
    assert scores[0] == score(["mild fever"], ["fever"], models["bert"])[0]
    assert scores[1] == 0.0
    assert np.isnan(scores[2:]).all()


def test_the_model_depends_on_the_language() -> None:
    for languages in (None, ("en",), ("en-GB", "eng"), "en", ["English"]):
        assert "model:bleurt-base-512@" in METRIC.signature(languages=languages)
    for languages in (("es",), ("en", "es"), "es"):
        assert "model:BLEURT-20@" in METRIC.signature(languages=languages)
    assert "model:bleurt-base-512@" in METRIC.signature(bleurt_model="lucadiliello/bleurt-base-512", languages=("es",))


def test_signature_names_the_files_and_not_the_machine(models: Models, tmp_path: Path) -> None:
    given = METRIC.signature(bleurt_model=models["bert"], metrics_device="cpu", metrics_batch_tokens=7)
    fingerprint = given.partition("model:bert@")[2].partition("|")[0]
    assert given == (
        f"bleurt|impl:lm_eval_healthcare-1|ref:bleurt-pytorch-0.0.1|model:bert@{fingerprint}|dtype:float32|"
        "long:truncate|refs:best|scale:unbounded|blank:0"
    )
    assert len(fingerprint) == 12
    assert METRIC.signature(bleurt_model=str(tiny.tiny_bleurt(tmp_path / "bert"))) == given
    arrays = tiny.load(tmp_path / "bert")
    arrays["classifier.bias"] += 1
    tiny.save(tmp_path / "bert", arrays, "bin")
    assert METRIC.signature(bleurt_model=str(tmp_path / "bert")) != given


def test_weights_that_change_on_disk_are_loaded_again(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    before = score(["fever"], ["cough"], str(folder))[0]
    arrays = tiny.load(folder)
    arrays["classifier.bias"] += 1
    tiny.save(folder, arrays, "bin")
    assert score(["fever"], ["cough"], str(folder))[0] == pytest.approx(before + 1, abs=1e-5)


def test_what_is_missing_is_told_before_the_run(models: Models, tmp_path: Path) -> None:
    assert METRIC.missing(bleurt_model=models["rembert"]) is None
    assert "lucadiliello/bleurt-base-512" in str(METRIC.missing())
    assert "lucadiliello/BLEURT-20" in str(METRIC.missing(languages=("es",)))
    assert "there is no config.json" in str(METRIC.missing(bleurt_model=str(tmp_path)))
    folder = tiny.tiny_bleurt(tmp_path / "x", "rembert")
    (folder / "spm.model").rename(folder / "tokenizer.json")
    assert "no SentencePiece model" in str(METRIC.missing(bleurt_model=str(folder)))
    with pytest.raises(ValueError, match="metrics_dtype=int8"):
        METRIC.missing(metrics_dtype="int8")
    with pytest.raises(ValueError, match="bleurt_model= is empty"):
        METRIC.missing(bleurt_model=" ")


def test_published_answers() -> None:
    """Google's own test of the checkpoint that its repository carries (bleurt/score_test.py, "dbleurt_tiny").

    Needs its weights in a folder, in the layout of bleurt-pytorch or of transformers. Google computes GELU by its tanh
    approximation; the exact one may differ by about 0.001.
    """
    folder = os.environ.get("LM_EVAL_HEALTHCARE_BLEURT_TINY")
    if not folder:
        pytest.skip("LM_EVAL_HEALTHCARE_BLEURT_TINY does not name the folder of Google's dbleurt_tiny")
    reference = "An apple a day keeps the doctor away."
    predictions = [reference, "An apple a day keeps doctors away."]
    expected = [0.910811, 0.771989]
    np.testing.assert_allclose(score(predictions, [reference] * 2, folder), expected, atol=3e-3)


def test_published_answers_with_the_activation_of_tensorflow(tmp_path: Path) -> None:
    """The same, to the digits that Google's test gives."""
    folder = os.environ.get("LM_EVAL_HEALTHCARE_BLEURT_TINY")
    if not folder:
        pytest.skip("LM_EVAL_HEALTHCARE_BLEURT_TINY does not name the folder of Google's dbleurt_tiny")
    model = convert(folder, tmp_path / "tiny", hidden_act="gelu_pytorch_tanh")
    reference = "An apple a day keeps the doctor away."
    predictions = [reference, "An apple a day keeps doctors away."]
    np.testing.assert_allclose(score(predictions, [reference] * 2, str(model)), [0.910811, 0.771989], atol=1e-5)
