from __future__ import annotations

import json
import logging
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.bert_score import BertScore, Settings
from lm_eval_healthcare.metrics.bert_score_layers import LAYERS, default_model, published_layer
from lm_eval_healthcare.metrics.encoding import device, embed, encoder
from lm_eval_healthcare.metrics.encoding.tokens import Tokens, Vocabulary
from lm_eval_healthcare.metrics.settings import Compute
from support import child_environment
from tiny_encoders import TINY, WORDS, minilm, tiny_bert

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

NAMES = ["bert_score_precision", "bert_score_recall", "bert_score"]
PAIRS = [
    ("The patient has mild fever, no cough.", "mild fever in this patient"),
    ("hypertension and hyperkalaemia", "high blood pressure"),
    ("  el paciente tiene fiebre leve\n", "tos seca sin dolor"),
    ("fever", "fever"),
    ("take one tablet daily with water " * 3, "no pain in chest " * 5),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the folder of a tiny encoder, or of the small real one, by name."""
    folder = tmp_path_factory.mktemp("tiny")

    def find(kind: str) -> str:
        if kind == "minilm":
            return str(minilm())
        return str(folder / kind if (folder / kind).exists() else TINY[kind](folder / kind))

    return find


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(device, "_told", set())
    yield
    encoder._warm.clear()


def scores(pairs: Sequence[tuple[str, Any]], model: str, layer: int = 2, **options: Any) -> np.ndarray:
    """Precision, recall and F of each pair, shape `(n, 3)`."""
    predictions, references = zip(*pairs, strict=True)
    found = metrics.score(
        predictions, references, NAMES, bert_score_model=model, bert_score_layer=layer, metrics_device="cpu", **options
    )
    return np.stack([found[name] for name in NAMES], axis=1)


def by_hand(prediction: Sequence[Any], reference: Sequence[Any], **settings: Any) -> Mapping[str, float]:
    """Compare two texts of made-up vectors; the first and the last token of each are special."""
    vocabulary = Vocabulary(["[CLS]", "x"], np.array([False, False]), np.array([True, False]))

    def embedded(vectors: Sequence[Any]) -> embed.Embedded:
        ids = np.array([0] + [1] * (len(vectors) - 2) + [0])
        return embed.Embedded(Tokens(ids, vocabulary, False), {1: torch.tensor(vectors, dtype=torch.float32)})

    chosen = Settings("toy", Compute(), 1, True, **{"rescale": "no", "language": "en", **settings})
    compare = BertScore("bert_score").comparer(SimpleNamespace(n_layers=1), None, chosen, {})  # type: ignore[arg-type]
    return compare(embedded(prediction), embedded(reference)).scores


def test_two_dimensions_by_hand() -> None:
    # Directions, lengths do not matter: cosines of (3,4) with (1,0), (0,1), (4,3) are 0.6, 0.8, 0.96.
    found = by_hand(
        prediction=[(-1, 0), (5, 0), (0, 2), (0, -1)],  # special, right, up, special
        reference=[(0, -1), (3, 4), (0, -1)],  # special, (0.6, 0.8), special
    )
    # P: right is closest to (0.6, 0.8) with 0.6, up with 0.8. R: (0.6, 0.8) is closest to up.
    assert found["bert_score_precision"] == pytest.approx(0.7, rel=1e-7)
    assert found["bert_score_recall"] == pytest.approx(0.8, rel=1e-7)
    assert found["bert_score"] == pytest.approx(2 * 0.7 * 0.8 / 1.5, rel=1e-7)


def test_special_tokens_weigh_nothing_but_can_be_matched() -> None:
    found = by_hand(prediction=[(0, 1), (1, 0), (0, 1)], reference=[(3, 4), (0, 1), (1, 0)])
    # P: the word (1,0) finds the reference's last special token with 1, its word with 0. R: likewise.
    assert dict(found) == pytest.approx({"bert_score_precision": 1, "bert_score_recall": 1, "bert_score": 1})


def test_similarities_below_zero_are_kept() -> None:
    # bert-score gives 0 here as soon as the pair is padded in a batch.
    found = by_hand(prediction=[(1, 0)] * 3, reference=[(-4, 3), (-3, 4), (-4, 3)])
    # Best for the word on the left: -0.6. Best for the reference's word: -0.6.
    assert found["bert_score_precision"] == pytest.approx(-0.6, rel=1e-7)
    assert found["bert_score"] == pytest.approx(-0.6, rel=1e-7)


def test_f_of_nothing_is_zero() -> None:
    # P = 0.6, R = -0.6 would divide by zero; right angles give P = R = 0.
    assert by_hand([(1, 0)] * 3, [(0, 1)] * 3)["bert_score"] == 0
    for empty in ([(1, 0), (0, 1)], [(1, 0)] * 3):
        found = by_hand([(1, 0), (1, 0)], empty)
        assert set(found.values()) == {0.0}
        assert set(by_hand(empty, [(1, 0), (1, 0)]).values()) == {0.0}


def test_a_vector_of_zeros_is_like_nothing() -> None:
    assert by_hand([(0, 0)] * 3, [(0, 1)] * 3)["bert_score"] == 0


def test_rescaling_by_hand(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.5,0.6,0.55\n")
    words = {"prediction": [(0, -1), (5, 0), (0, 2), (0, -1)], "reference": [(0, -1), (3, 4), (0, -1)]}
    found = by_hand(**words, rescale=str(table))
    # P = 0.7, R = 0.8, F = 1.12 / 1.5: (0.7 - 0.5) / 0.5, (0.8 - 0.6) / 0.4, (F - 0.55) / 0.45
    assert found["bert_score_precision"] == pytest.approx(0.4, rel=1e-6)
    assert found["bert_score_recall"] == pytest.approx(0.5, rel=1e-6)
    assert found["bert_score"] == pytest.approx((1.12 / 1.5 - 0.55) / 0.45, rel=1e-6)
    # A side without a token but special ones has 0: (0 - 0.5) / 0.5, (0 - 0.6) / 0.4, (0 - 0.55) / 0.45, as bert-score.
    nothing = by_hand([(1, 0)] * 2, [(1, 0)] * 3, rescale=str(table))
    expected = {"bert_score_precision": -1, "bert_score_recall": -1.5, "bert_score": -0.55 / 0.45}
    assert dict(nothing) == pytest.approx(expected, rel=1e-12)


def test_a_blank_prediction_has_the_rescaled_zero(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("LAYER,P,R,F\n2,0.5,0.6,0.55\n3,0.2,0.2,0.2\n")
    pairs: list[tuple[Any, Any]] = [(None, "fever"), (" \n", ["fever", "cough"]), ("fever", "fever"), ("", None)]
    model = str(tiny_bert(tmp_path / "tiny"))
    found = scores(pairs, model, bert_score_rescale=str(table))
    np.testing.assert_allclose(found[:2], [[-1, -1.5, -0.55 / 0.45]] * 2, rtol=1e-12)
    np.testing.assert_allclose(found[2], [1, 1, 1], atol=1e-6)
    assert np.isnan(found[3]).all()
    # The last of its 3 layers, where no other is asked for or published.
    blank = metrics.score([""], ["x"], NAMES, bert_score_model=model, bert_score_rescale=str(table))
    assert {name: values[0] for name, values in blank.items()} == pytest.approx(dict.fromkeys(NAMES, -0.25))
    np.testing.assert_array_equal(scores(pairs[:2], model), np.zeros((2, 3)))
    assert fields(bert_score_model=model)["blank"] == "0"
    assert fields(bert_score_model=model, bert_score_rescale=str(table))["blank"] == "rescaled-0"
    # Of no use: nothing can be scored with them, which is told elsewhere.
    assert metrics.blank_score("bert_score", bert_score_model=model, bert_score_rescale="/no/such/table") == 0


def reference_loop(prediction: str, reference: str, model: str, layer: int, first: str = "") -> list[float]:
    """BERTScore with plain transformers calls: one text at a time, no padding, the whole model, loops."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModel.from_pretrained(model).eval().float()

    def vectors(text: str) -> tuple[np.ndarray, np.ndarray]:
        ids = tokenizer(first + text.strip(), truncation=True, max_length=tokenizer.model_max_length)["input_ids"]
        with torch.no_grad():
            hidden = network(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
        weights = [0.0 if token in (tokenizer.cls_token_id, tokenizer.sep_token_id) else 1.0 for token in ids]
        return hidden.numpy().astype(np.float64), np.array(weights)

    (x, of_x), (y, of_y) = vectors(prediction), vectors(reference)
    cosine = [[float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)) for b in y] for a in x]
    precision = sum(max(row) * weight for row, weight in zip(cosine, of_x, strict=True)) / of_x.sum()
    recall = sum(max(column) * weight for column, weight in zip(zip(*cosine, strict=True), of_y, strict=True))
    recall /= of_y.sum()
    return [precision, recall, 2 * precision * recall / (precision + recall)]


@pytest.mark.parametrize(
    ("kind", "layer"), [("bert", 2), ("bert", 0), ("roberta", 3), ("rembert", 2), ("distilbert", 1), ("minilm", 6)]
)
def test_equals_a_plain_loop_over_texts_and_tokens(kind: str, layer: int, tiny: Callable[[str], str]) -> None:
    pairs = PAIRS if kind != "minilm" else [*PAIRS[:3], ("fever " * 600, "mild cough " * 300)]
    first = " " if kind == "roberta" else ""
    wanted = [reference_loop(*pair, tiny(kind), layer, first) for pair in pairs]
    np.testing.assert_allclose(scores(pairs, tiny(kind), layer), wanted, rtol=0, atol=1e-6)


def test_the_best_reference_counts_for_each_part_on_its_own(tiny: Callable[[str], str]) -> None:
    prediction, references = "mild fever", ["mild", "mild fever and a dry cough", "no pain"]
    each = scores([(prediction, reference) for reference in references], tiny("bert"))
    [found] = scores([(prediction, references)], tiny("bert"))
    np.testing.assert_allclose(found, each.max(axis=0), rtol=0, atol=1e-6)
    assert len(set(each.argmax(axis=0))) > 1


def many_pairs(n: int) -> list[tuple[str, str]]:
    rng = random.Random(3)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 50)))

    return [(text(), text()) for _ in range(n)]


@pytest.mark.parametrize("kind", ["bert", "roberta", "minilm"])
def test_alone_in_any_batch_and_in_any_order_the_same(kind: str, tiny: Callable[[str], str]) -> None:
    pairs = many_pairs(40)
    together = scores(pairs, tiny(kind))
    for tokens in (1, 100, 5000):
        np.testing.assert_allclose(scores(pairs, tiny(kind), metrics_batch_tokens=tokens), together, rtol=0, atol=1e-6)
    shuffled = random.Random(4).sample(range(40), 40)
    np.testing.assert_allclose(
        scores([pairs[row] for row in shuffled], tiny(kind)), together[shuffled], rtol=0, atol=1e-6
    )
    alone = np.concatenate([scores([pair], tiny(kind)) for pair in pairs])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-6)


def test_bfloat16_differs_by_less_than_a_hundredth(tiny: Callable[[str], str]) -> None:
    """Measured: up to 2.3e-3 from float32 (3.5e-4 on average), and up to 6.5e-4 between batches of bfloat16."""
    pairs = many_pairs(20)
    exact = scores(pairs, tiny("minilm"), 6)
    rough = scores(pairs, tiny("minilm"), 6, metrics_dtype="bfloat16")
    assert 1e-5 < np.abs(exact - rough).max() < 1e-2
    other = scores(pairs, tiny("minilm"), 6, metrics_dtype="bfloat16", metrics_batch_tokens=40)
    assert np.abs(other - rough).max() < 1e-2


ADVERSARIAL = {
    "control characters": "fever\x00\x07\x1b[0m\x85",
    "right to left": "\u202eحمى خفيفة\u202c",
    "emoji": "\U0001f912\U0001f3fb\u200d\u2640\ufe0f",
    "punctuation": "?!... ---",
    "parts of words": "##aemia ##s",
    "half a character": "fever \ud83d",
    "only half a character": "\udc00",
    "a special token of BERT": "[SEP]",
    "special tokens of BERT": "mild [SEP] fever [CLS] [MASK] [PAD]",
    "special tokens of RoBERTa": "mild </s> fever <s> <mask> <pad>",
    "combining marks": "e\u0301" * 50,
    "one letter": "x",
    "no-break spaces": "\u00a0fever\u00a0",
}


@pytest.mark.parametrize("kind", [*TINY, "minilm"])
def test_odd_texts_have_a_score(kind: str, tiny: Callable[[str], str]) -> None:
    texts = list(ADVERSARIAL.values())
    found = scores([*((text, "mild fever") for text in texts), *(("mild fever", text) for text in texts)], tiny(kind))
    assert np.isfinite(found).all()
    assert (np.abs(found) <= 1).all()
    same = scores([(text, text) for text in texts], tiny(kind))
    # A text is like itself, unless it has no token that counts.
    assert np.logical_or(np.abs(same - 1) < 1e-6, same == 0).all()


def test_a_text_without_a_token_that_counts_has_zero(tiny: Callable[[str], str]) -> None:
    assert (
        scores([("[SEP]", "fever"), ("fever", "[CLS] [SEP]"), ("[SEP]", "[SEP]")], tiny("bert")).tolist()
        == [[0.0, 0.0, 0.0]] * 3
    )


def test_texts_of_100_000_characters(tiny: Callable[[str], str]) -> None:
    texts = ["x" * 100_000, "mild fever " * 9000, "\U0001f600" * 100_000, "fever"]
    pairs = [(text, "mild fever") for text in texts]
    for kind in ("bert", "roberta"):
        assert np.isfinite(scores(pairs, tiny(kind))).all()


def test_texts_that_differ_past_the_limit_are_flagged(tiny: Callable[[str], str]) -> None:
    # 64 tokens: 62 words.
    predictions = ["fever " * 62, "fever " * 62 + "cough", "fever", "fever"]
    references: list[Any] = ["fever", "fever " * 62, ["cough", "fever " * 63], "cough"]
    options = {"bert_score_model": tiny("bert"), "bert_score_layer": 2, "metrics_device": "cpu"}
    found = metrics.measure(predictions, references, NAMES, **options)
    for name in NAMES:
        assert found.truncated[name].tolist() == [False, True, True, False]
    assert found.scores["bert_score"][1] == pytest.approx(1, abs=1e-6)
    windows = metrics.measure(predictions, references, NAMES, metrics_long="windows", **options)
    assert not windows.truncated["bert_score"].any()
    assert windows.scores["bert_score"][1] < 0.9999
    np.testing.assert_allclose(windows.scores["bert_score"][[0, 3]], found.scores["bert_score"][[0, 3]], atol=1e-6)


def loaded(model: str) -> encoder.Encoder:
    return encoder.load(Path(model), Compute(device="cpu"), 2)


def test_each_distinct_text_is_encoded_once(tiny: Callable[[str], str]) -> None:
    used = loaded(tiny("bert"))
    answers = [" ".join(WORDS[row : row + 5]) for row in range(11)]
    scores([(answer, "mild fever") for answer in answers], tiny("bert"))
    assert used.texts == 12
    scores([("fever", ["cough", "pain"]), ("cough", ["pain", "fever"]), ("fever", "cough")], tiny("bert"))
    assert used.texts == 12 + 3


def test_ten_thousand_equal_documents_are_one(tiny: Callable[[str], str]) -> None:
    used = loaded(tiny("bert"))
    found = scores([("mild fever", "dry cough")] * 10_000, tiny("bert"))
    assert used.texts == 2
    assert len(np.unique(found, axis=0)) == 1
    np.testing.assert_array_equal(found[:1], scores([("mild fever", "dry cough")], tiny("bert")))


def test_scores_are_reported_as_documents_are_complete(tiny: Callable[[str], str]) -> None:
    pairs: list[tuple[Any, Any]] = [*many_pairs(200), ("fever " * 99, ["cough", "fever"]), (" ", "fever"), ("x", None)]
    pairs.insert(3, pairs[7])
    predictions, references = zip(*pairs, strict=True)
    used = loaded(tiny("bert"))
    told: dict[tuple[str, int], tuple[float, bool]] = {}
    encoded: list[int] = []

    def report(name: str, row: int, score: float, truncated: bool) -> None:
        assert (name, row) not in told
        told[name, row] = score, truncated
        encoded.append(used.texts)

    found = metrics.measure(
        predictions, references, NAMES, bert_score_model=tiny("bert"), bert_score_layer=2, metrics_device="cpu",
        metrics_batch_tokens=64, report=report,
    )  # fmt: skip
    assert sorted(told) == sorted((name, row) for name in NAMES for row in range(202))
    for (name, row), (score, truncated) in told.items():
        assert score == found.scores[name][row]
        assert truncated is bool(found.truncated[name][row]) is (row == 201)
    assert encoded[0] < used.texts / 4


def test_several_metrics_of_one_encoder_need_one_pass(tiny: Callable[[str], str]) -> None:
    used = loaded(tiny("bert"))
    pairs = many_pairs(10)
    scores(pairs, tiny("bert"))
    distinct = len({text for pair in pairs for text in pair})
    assert used.texts == distinct


def test_defaults_by_language() -> None:
    assert default_model(("en",)) == default_model(("en-GB",)) == default_model(("English",)) == "roberta-large"
    assert default_model(("es",)) == default_model(("pt_BR",)) == "bert-base-multilingual-cased"
    assert default_model(("en", "es")) == "bert-base-multilingual-cased"
    assert default_model(("zh",)) == "bert-base-chinese"
    assert default_model(("tr",)) == "dbmdz/bert-base-turkish-cased"


def fields(**options: Any) -> dict[str, str]:
    name, *rest = metrics.signature("bert_score", **options).split("|")
    return {"name": name, **dict(field.split(":", 1) for field in rest)}


def test_signatures_of_models_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    english, spanish = fields(), fields(languages=("es",))
    assert (english["model"], english["layer"]) == ("roberta-large@absent", "17")
    assert (spanish["model"], spanish["layer"]) == ("bert-base-multilingual-cased@absent", "9")
    assert fields(bert_score_model="microsoft/deberta-xlarge-mnli")["layer"] == "40"
    assert fields(bert_score_model="me/other")["layer"] == "last"
    assert fields(bert_score_model="me/other", bert_score_layer="4")["layer"] == "4"
    # No option that cannot change a score.
    assert fields(metrics_device="cuda", metrics_batch_tokens=7) == english
    assert fields(metrics_dtype="bfloat16") != english
    assert fields(metrics_long="windows") != english
    assert english["rescale"] == "no"
    assert english["scale"] == "cosine"


def test_a_signature_needs_neither_torch_nor_transformers(tiny: Callable[[str], str]) -> None:
    code = (
        "import sys; from lm_eval_healthcare import metrics\n"
        f"print(metrics.signature('bert_score', bert_score_model={tiny('bert')!r}))\n"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=child_environment(), timeout=60
    )
    signature, heavy = done.stdout.splitlines()
    assert "|layer:3|" in signature
    assert heavy == "set()"


def test_signatures_do_not_depend_on_where_a_model_lies(tiny: Callable[[str], str], tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "bert"
    shutil.copytree(tiny("bert"), copy)
    assert fields(bert_score_model=str(copy)) == fields(bert_score_model=tiny("bert"))
    assert fields(bert_score_model=tiny("bert"), bert_score_layer=2) != fields(bert_score_model=tiny("bert"))


def test_the_layer_of_a_known_encoder_is_taken_from_its_folders_name(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "roberta-large", layers=18, hidden=8)
    assert fields(bert_score_model=str(folder))["layer"] == "17"
    pair = ("mild fever", "dry cough")
    options = {"bert_score_model": str(folder), "metrics_device": "cpu"}
    found = [metrics.score([pair[0]], [pair[1]], ["bert_score"], **options, **more)["bert_score"][0]
             for more in ({}, {"bert_score_layer": 17}, {"bert_score_layer": "18"})]  # fmt: skip
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert found[0] != pytest.approx(found[2], abs=1e-4)
    assert LAYERS["roberta-large"] == 17


@pytest.mark.parametrize("name", ["roberta_large", "Roberta-Large", "SCIBERT-scivocab-uncased"])
def test_names_are_known_whatever_their_case_and_dashes(name: str) -> None:
    assert published_layer(name) == {"roberta-large": 17}.get(name.lower().replace("_", "-"), 8)


@pytest.mark.parametrize("name", ["roberta-large-offline", "my-roberta-large", "roberta", "roberta-large.bak"])
def test_names_that_are_only_like_a_known_one_are_not_known(name: str) -> None:
    assert published_layer(name) is None


def test_an_unknown_encoder_is_remarked_on_before_the_run(tiny: Callable[[str], str]) -> None:
    for name in NAMES:
        [text] = metrics.remarks(name, bert_score_model=tiny("bert"))
        assert text == (
            "bert_score: no layer is published for bert, so its last one, 3, is used; bert_score_layer chooses another"
        )
    [text] = metrics.remarks("bert_score", bert_score_model="someone/on-the-hub")
    assert "no layer is published for on-the-hub, so its last one is used" in text
    assert metrics.remarks("bert_score", bert_score_model=tiny("bert"), bert_score_layer=1) == []
    assert metrics.remarks("bert_score") == []


def test_an_unknown_encoder_uses_its_last_layer_and_says_so_once(
    tiny: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    pair = ("mild fever", "dry cough")
    options = {"bert_score_model": tiny("distilbert"), "metrics_device": "cpu"}
    with caplog.at_level(logging.WARNING):
        found = [metrics.score([pair[0]], [pair[1]], ["bert_score"], **options)["bert_score"][0] for _ in range(2)]
    assert "no layer is published for distilbert, so its last one, 3, is used" in caplog.text
    assert len(caplog.records) == 1
    assert found[0] == found[1] == pytest.approx(scores([pair], tiny("distilbert"), 3)[0][2], abs=1e-9)
    assert fields(bert_score_model=tiny("distilbert"))["layer"] == "3"


def test_a_layer_that_the_encoder_lacks_is_refused(tiny: Callable[[str], str], tmp_path: Path) -> None:
    told = r"bert_score_layer=4: .*bert has 3 layers; give a number of 0 \(embeddings\) to 3"
    options = {"bert_score_model": tiny("bert"), "bert_score_layer": 4}
    with pytest.raises(ValueError, match=told):
        metrics.score(["x"], ["y"], ["bert_score"], **options)
    with pytest.raises(ValueError, match=told):
        metrics.missing("bert_score", **options)
    folder = tiny_bert(tmp_path / "bert-base-uncased")
    with pytest.raises(ValueError, match=r"bert_score_layer=9 \(the one published for bert-base-uncased\)"):
        metrics.missing("bert_score", bert_score_model=str(folder))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bert_score_layer": "last"}, "bert_score_layer=last: expected a whole number"),
        ({"bert_score_layer": -1}, "bert_score_layer=-1"),
        ({"bert_score_model": " "}, "bert_score_model= is empty"),
        ({"bert_score_rescale": True}, "bert_score_rescale=yes: expected no, package, or the path"),
        ({"metrics_dtype": "int8"}, "metrics_dtype=int8"),
    ],
)
def test_values_that_cannot_be_used(options: dict[str, Any], told: str) -> None:
    for ask in (metrics.signature, metrics.missing):
        with pytest.raises(ValueError, match=told):
            ask("bert_score", **options)


def test_what_is_missing_is_told_before_anything_is_loaded(
    tiny: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert metrics.missing("bert_score", bert_score_model=tiny("bert")) is None
    assert metrics.missing("bert_score", bert_score_model=tiny("bert"), bert_score_layer=3) is None
    told = str(metrics.missing("bert_score"))
    for part in ("bert_score: model 'roberta-large'", "is not on this machine", "The option is bert_score_model"):
        assert part in told
    with pytest.raises(ValueError, match="model 'roberta-large' is not on this machine"):
        metrics.score(["x"], ["y"], ["bert_score"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = str(metrics.missing("bert_score", bert_score_model=tiny("bert"), metrics_device="cuda"))
    assert "PyTorch sees no GPU" in told


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bert-score that must not be imported, with baselines of two models."""
    folder = tmp_path / "site" / "bert_score"
    (folder / "rescale_baseline" / "en" / "google").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    for name, value in (("my-bert", 0.25), ("google/other", 0.5)):
        rows = "".join(f"{layer},{value},{value},{value}\n" for layer in range(4))
        (folder / "rescale_baseline" / "en" / f"{name}.tsv").write_text(f"LAYER,P,R,F\n{rows}")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder / "rescale_baseline" / "en"


def test_baselines_of_an_installed_bert_score(package: Path, tmp_path: Path) -> None:
    for name, base in (("my-bert", 0.25), ("other", 0.5)):
        model = str(tiny_bert(tmp_path / name))
        raw, rescaled = scores(PAIRS, model), scores(PAIRS, model, bert_score_rescale="package")
        np.testing.assert_allclose(rescaled, (raw - base) / (1 - base), rtol=0, atol=1e-12)
    model = str(tmp_path / "my-bert")
    signed = fields(bert_score_model=model, bert_score_rescale="package")
    assert signed["rescale"].startswith("bert-score-0.3.13@")
    assert signed["scale"] == "rescaled"
    same = fields(bert_score_model=model, bert_score_rescale=str(package / "my-bert.tsv"))
    assert same["rescale"].startswith("file@")
    assert same["rescale"][-12:] == signed["rescale"][-12:]
    assert fields(bert_score_model=model, bert_score_rescale=False)["rescale"] == "no"
    with pytest.raises(ValueError, match=r"no baselines of bert for the language en \(it has: my-bert, other\)"):
        scores(PAIRS, str(tiny_bert(tmp_path / "bert")), bert_score_rescale="package")
    options = {"bert_score_model": model, "bert_score_rescale": "package", "languages": ("es",)}
    assert "for the language es" in str(metrics.missing("bert_score", **options))


def test_baselines_without_the_package(tiny: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval_healthcare.metrics import bert_score_baseline

    monkeypatch.setattr(bert_score_baseline, "find_spec", lambda name: None)
    told = metrics.missing("bert_score", bert_score_model=tiny("bert"), bert_score_rescale="package")
    assert "bert-score, which is not installed" in str(told)
    assert fields(bert_score_model=tiny("bert"), bert_score_rescale="package")["rescale"] == "package@absent"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no such file"),
        ("LAYER,P,R\n2,1,1\n", "not a file of baselines"),
        ("LAYER,P,R,F\n2,x,1,1\n", "not a file of baselines"),
        ("LAYER,P,R,F\n1,0,0,0\n9,0,0,0\n", "no baseline for layer 2; the layers are 1, 9"),
        ("LAYER,P,R,F\n2,0.5,1,0.5\n", "layer 2 is not below 1"),
    ],
)
def test_files_of_baselines_that_cannot_be_used(
    content: str | None, told: str, tiny: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "table.tsv"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=told):
        scores(PAIRS, tiny("bert"), bert_score_rescale=str(file))


def test_the_cap_of_a_tokenizer_without_a_limit(tiny: Callable[[str], str], tmp_path: Path) -> None:
    """b13: evaluate's call raised `OverflowError: int too big to convert` here."""
    folder = tmp_path / "bert"
    shutil.copytree(tiny("bert"), folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "model_max_length": 10**30}), encoding="utf-8")
    pairs = [("Start oral rehydration", "Give fluids by mouth"), ("fever " * 100, "cough")]
    np.testing.assert_array_equal(scores(pairs, str(folder)), scores(pairs, tiny("bert")))
