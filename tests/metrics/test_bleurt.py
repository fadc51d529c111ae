"""BLEURT: scores as in bleurt-pytorch and in the network written out, whatever the batch, the order and the text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare.metrics import bleurt
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint, convert
from lm_eval_healthcare.metrics.encoding import release_all
from tiny_bleurt import WORDS, texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

KINDS = ("bert", "rembert")
METRIC = bleurt.Bleurt()
Models = dict[str, str]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """A checkpoint of each architecture for 64 tokens, in the layout of the published weights."""
    base = tmp_path_factory.mktemp("bleurt")
    yield {kind: str(tiny.tiny_bleurt(base / kind, kind)) for kind in KINDS}
    release_all()


def score(predictions: list[str], references: Any, model: str, **options: Any) -> np.ndarray:
    return METRIC.score(predictions, references, bleurt_model=model, metrics_device="cpu", **options)


def by_the_network(model: str, reference: str, prediction: str) -> float:
    """The score of one pair, put together by hand from subwords that are cut one token at a time."""
    checkpoint = Checkpoint.of(model)
    subwords = checkpoint.subwords()
    first, second = subwords.ids(reference).tolist(), subwords.ids(prediction).tolist()
    sizes = tiny.one_at_a_time(len(first), len(second), 64 - 3)
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


def test_the_model_depends_on_the_language() -> None:
    for languages in (None, ("en",), ("en-GB", "eng"), "en", ["English"]):
        assert "model:bleurt-base-512@" in METRIC.signature(languages=languages)
    for languages in (("es",), ("en", "es"), "es"):
        assert "model:BLEURT-20@" in METRIC.signature(languages=languages)
    assert "model:bleurt-base-512@" in METRIC.signature(bleurt_model="lucadiliello/bleurt-base-512", languages=("es",))


def test_signature_names_the_files_and_not_the_machine(models: Models, tmp_path: Path) -> None:
    given = METRIC.signature(bleurt_model=models["bert"], metrics_device="cpu", metrics_batch_tokens=7)
    kind, fingerprint = given.partition("|model:")[2].partition("|")[0].split("@")
    assert given == (
        f"bleurt|impl:lm_eval_healthcare-1|ref:bleurt-pytorch-0.0.1|model:{kind}@{fingerprint}|dtype:float32|"
        "long:truncate|refs:best|scale:unbounded|blank:network-or-0"
    )
    assert len(fingerprint) == 12
    assert METRIC.signature(bleurt_model=str(tiny.tiny_bleurt(tmp_path / "bert"))) == given
    arrays = tiny.load(tmp_path / "bert")
    arrays["classifier.bias"] += 1
    tiny.save(tmp_path / "bert", arrays, "bin")
    assert METRIC.signature(bleurt_model=str(tmp_path / "bert")) != given


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_pytorch_tanh"])
def test_published_answers(tmp_path: Path, hidden_act: str) -> None:
    """Google's own test of the checkpoint in its repository (bleurt/score_test.py, "dbleurt_tiny").

    Needs its weights in a folder, in the layout of bleurt-pytorch or of transformers. Google computes GELU by its tanh
    approximation: with the exact one, scores differ in the third or fourth digit.
    """
    folder = os.environ.get("LM_EVAL_HEALTHCARE_BLEURT_TINY")
    if not folder:
        pytest.skip("LM_EVAL_HEALTHCARE_BLEURT_TINY does not name the folder of Google's dbleurt_tiny")
    model = convert(folder, tmp_path / "tiny", hidden_act=hidden_act)
    reference = "An apple a day keeps the doctor away."
    scores = score([reference, "An apple a day keeps doctors away."], [reference] * 2, str(model))
    np.testing.assert_allclose(scores, [0.910811, 0.771989], atol=3e-3 if hidden_act == "gelu" else 1e-5)
