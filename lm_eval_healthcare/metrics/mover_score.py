"""MoverScore: how far a prediction's words have to travel to become the reference's, in an encoder's space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.metrics.base import format_signature
from lm_eval_healthcare.metrics.bert_score_layers import default_language
from lm_eval_healthcare.metrics.embedding import Compare, Compared, EmbeddingMetric
from lm_eval_healthcare.metrics.encoding import checkpoints
from lm_eval_healthcare.metrics.encoding.device import tell_once
from lm_eval_healthcare.metrics.encoding.encoder import Encoder, count_layers
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.metrics.settings import COMPUTE_OPTIONS, Compute, choice, text, whole_number
from lm_eval_healthcare.metrics.transport import distances, earth_movers_distance
from lm_eval_healthcare.metrics.word_points import Points, WordFinder, points_of
from lm_eval_healthcare.metrics.word_rarity import WordRarity, all_references, fingerprint

if TYPE_CHECKING:
    from lm_eval_healthcare.metrics.encoding.embed import Embedded

MOST_WORDS = 8000
"""Words of a text that are compared. Two texts of so many take 3 GB and half a minute; only windows make such texts."""


@dataclass(frozen=True)
class Variant:
    """One of the scores that are published as MoverScore.

    Attributes:
        source: Where it is published.
        similarity: `1-emd` or `1/(1+emd)`, of the earth mover's distance.
        squared: Whether the distance of two words is the square of the Euclidean one.
        depth: How many of the last layers a word's vector is made of, see `points_of`.
        ngram: Words in a run.
        keep_pieces: Whether the later pieces of a word count as words.
        idf: How words weigh where nothing else is said: `corpus` or `uniform`.
        on_hub: Whether the published model is on the hub, so that it can be the default.
    """

    source: str
    similarity: str = "1-emd"
    squared: bool = False
    depth: int = 1
    ngram: int = 1
    keep_pieces: bool = False
    idf: str = "corpus"
    on_hub: bool = True


VARIANTS: dict[str, Variant] = {
    "pypi": Variant("moverscore_v2-1.0.3"),
    "head": Variant("emnlp19-moverscore-v2-2021", similarity="1/(1+emd)"),
    "v1": Variant("moverscore-1.0.3", squared=True, depth=5, on_hub=False),
    "v1-bigram": Variant("moverscore-1.0.3", squared=True, depth=5, ngram=2, on_hub=False),
    "sentence": Variant("emnlp19-moverscore-example", keep_pieces=True, idf="uniform"),
}
"""The published scores by the names that `mover_score_variant` takes; the first is the default."""


@dataclass(frozen=True)
class Settings:
    """What a user chose.

    Attributes:
        model: Folder or hub name of the encoder.
        compute: How it runs.
        name: Of the variant.
        idf: `corpus` or `uniform`.
        layer: The (last) layer, counted from 1; None: the model's last.
    """

    model: str
    compute: Compute
    name: str
    idf: str
    layer: int | None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """Read the options that begin with `mover_score_`, and `languages`.

        Raises:
            ValueError: If a value cannot be used.
        """
        name = choice(options, "mover_score_variant", tuple(VARIANTS))
        variant = VARIANTS[name]
        model = text(options, "mover_score_model")
        if model is None and not variant.on_hub:
            raise ValueError(
                f"mover_score_variant={name} was published with a BERT tuned on MNLI that is not on the hub; give "
                "mover_score_model=FOLDER: that one (MNLI_BERT.zip of AIPHES/emnlp19-moverscore, release 0.6, as a "
                "transformers folder) or another encoder"
            )
        if model is None:
            languages = options.get("languages") or ("en",)
            english = default_language([languages] if isinstance(languages, str) else list(languages)) == "en"
            model = "distilbert-base-uncased" if english else "distilbert-base-multilingual-cased"
        other = {"corpus": "uniform", "uniform": "corpus"}[variant.idf]
        return cls(
            model=model,
            compute=Compute.from_options(options),
            name=name,
            idf=choice(options, "mover_score_idf", (variant.idf, other)),
            layer=whole_number(options, "mover_score_layer"),
        )

    @property
    def variant(self) -> Variant:
        """The published score."""
        return VARIANTS[self.name]

    def layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the layers that are used, the deepest last, of an encoder of `n_layers`.

        Raises:
            ValueError: If it has fewer.
        """
        last = n_layers if self.layer is None else self.layer
        if last > n_layers:
            raise ValueError(f"mover_score_layer={last}: {self.model} has {n_layers} layers; give 1 to {n_layers}")
        return tuple(range(max(1, last - self.variant.depth + 1), last + 1))


class MoverScore(EmbeddingMetric):
    r"""MoverScore: one minus the earth mover's distance between the words of two texts; up to 1, higher is better.

    A text is its words' vectors in an encoder, brought to length 1, with weights that sum to 1. Punctuation does not
    count, and of a word that the tokenizer cuts only the first piece does. The distance is the least that it costs to
    move the weight of one text onto the words of the other, at $\|x_i - y_j\|$ for each unit of weight:

        MoverScore = 1 - min_F sum_ij F_ij |x_i - y_j|,    sum_j F_ij = a_i,    sum_i F_ij = b_j,    F_ij >= 0

    Weights are inverse document frequencies, $\log\frac{N + 1}{df + 1}$ of a token that df of N texts have: for
    references among all references of the evaluated set, for predictions among all predictions (the option `corpus`;
    `metrics.score` takes what it is given as the set). Blank texts do not count, the references of blank predictions
    do. [CLS] and [SEP] are in every text and weigh nothing. So scores
    of two runs are comparable where the sets are the same, which the signature tells; `mover_score_idf=uniform` weighs
    all words, [CLS] and [SEP] the same and needs no set. A prediction that is its reference word by word scores 1 if
    its words weigh the same on both sides, as they do with uniform weights.

    Source: Zhao et al. 2019 (https://aclanthology.org/D19-1053), as in `moverscore_v2` of the package moverscore 1.0.3;
    for others that go by this name see `VARIANTS`. What differs from it, on purpose:

    * Distances have float64 precision. There they go through float32 products, whose rounding the square root enlarges
      to up to 7e-4 for words with the same vector: texts that share words in the same place score up to 5e-4 less than
      here, equal ones 0.9998. Others agree to 1e-6; those of v1, whose weights sum to a little less than 1, to 1e-5.
    * A text without a word (punctuation, pieces and marks are none) scores 0, where the package gives 1 or less than 0.
    * Where all words of a text are in every text of the set, as in a set of one document, they weigh the same. There
      they weigh nothing, and any two texts score 1.
    * The best of several references counts; the package takes one.
    """

    name = "mover_score"
    group = "mover_score"
    model_option = "mover_score_model"
    description = (
        "How little a prediction's words must move in an encoder's space to become the reference's (MoverScore)."
    )
    requires = (*EmbeddingMetric.requires, "ot")
    minimum = -3.0  # of v1, whose distances are squared; -1 by default
    needs_corpus = True
    options = (
        "mover_score_model",
        "mover_score_layer",
        "mover_score_variant",
        "mover_score_idf",
        *COMPUTE_OPTIONS,
        "languages",
        "corpus",
        "report",
    )

    def settings(self, options: Mapping[str, Any]) -> Settings:
        """Read the options.

        Raises:
            ValueError: If a value cannot be used.
        """
        return Settings.from_options(options)

    def comparer(self, encoder: Encoder, corpus: Pairs | None, settings: Any, options: Mapping[str, Any]) -> Compare:
        """Return a function of a prediction and a reference that gives their score.

        Raises:
            ValueError: If words are to weigh by an evaluated set, and there is none.
        """
        sides: tuple[WordRarity | None, WordRarity | None] = (None, None)
        if settings.idf == "corpus":
            if corpus is None:
                raise ValueError(
                    "mover_score weighs words by the evaluated set: give corpus=, or mover_score_idf=uniform"
                )
            sides = _rarities(encoder, corpus, settings.compute.long)
        predictions, references = (_Side(encoder, settings, rarity) for rarity in sides)

        def compare(prediction: Embedded, reference: Embedded) -> Compared:
            (moved, all_moved), (goal, all_of_goal) = predictions(prediction), references(reference)
            return Compared({self.name: _score(moved, goal, settings.variant)}, all_moved and all_of_goal)

        return compare

    def signature(self, **options: Any) -> str:
        """Return the signature: variant, encoder, layer, the set behind the weights, and what else changes scores."""
        settings = self.settings(options)
        variant = settings.variant
        n_layers = count_layers(checkpoints.configuration(settings.model) or {})
        layer = n_layers if settings.layer is None else settings.layer
        corpus: Pairs | None = options.get("corpus") if settings.idf == "corpus" else None
        return format_signature(
            self.name,
            impl="lm_eval_healthcare-1",
            ref=variant.source,
            variant=settings.name,
            model=checkpoints.label(settings.model),
            layer="last" if layer is None else str(layer),
            vectors="one-layer" if variant.depth == 1 else f"min-mean-max-of-{variant.depth}",
            distance="squared-euclidean" if variant.squared else "euclidean",
            scale=variant.similarity,
            ngram=str(variant.ngram),
            pieces="all" if variant.keep_pieces else "first",
            idf=settings.idf if corpus is None else f"corpus-{fingerprint(corpus)}",
            idf0="equal",
            **settings.compute.signature_fields(),
            refs="best",
            wordless="0",
            blank="0",
        )


class _Side:
    """Makes points of the texts of one side; the last one is remembered, as pairs of one text come together."""

    def __init__(self, encoder: Encoder, settings: Settings, rarity: WordRarity | None) -> None:
        self._find = WordFinder(encoder.tokenizer.vocabulary, rarity, settings.variant.keep_pieces)
        self._layers = settings.layers(encoder.n_layers)
        self._ngram = settings.variant.ngram
        self._last: tuple[Embedded | None, tuple[Points | None, bool]] = (None, (None, True))

    def __call__(self, embedded: Embedded) -> tuple[Points | None, bool]:
        """Return a text's points, None if it has no word, and whether they are those of all its words."""
        if self._last[0] is not embedded:
            self._last = embedded, self._points(embedded)
        return self._last[1]

    def _points(self, embedded: Embedded) -> tuple[Points | None, bool]:
        words = self._find(embedded.tokens.ids)
        if words is None:
            return None, True
        whole = len(words.kept) <= MOST_WORDS
        if not whole:
            tell_once(
                f"mover_score: of texts with more than {MOST_WORDS} words only the first {MOST_WORDS} are compared; "
                "their documents count as truncated"
            )
        layers = [embedded.layers[layer].cpu().numpy() for layer in self._layers]
        return points_of(layers, words.first(MOST_WORDS), self._ngram), whole


def _score(prediction: Points | None, reference: Points | None, variant: Variant) -> float:
    """Return the similarity of two texts: 0 if one has no word, NaN if the encoder's vectors are not finite."""
    if prediction is None or reference is None:
        return 0.0
    if not (np.isfinite(prediction.vectors).all() and np.isfinite(reference.vectors).all()):
        return float("nan")
    cost = distances(prediction.vectors, reference.vectors, squared=variant.squared)
    moved = earth_movers_distance(cost, prediction.weights, reference.weights)
    return 1 - moved if variant.similarity == "1-emd" else 1 / (1 + moved)


def _rarities(encoder: Encoder, corpus: Pairs, long: str) -> tuple[WordRarity, WordRarity]:
    """Count the tokens of both sides of an evaluated set, once for all calls that score parts of it."""
    key = ("rarities", encoder.folder, long)
    if key not in corpus.notes:
        references = all_references(corpus)
        corpus.notes[key] = _rarity(encoder, corpus.predictions, long), _rarity(encoder, references, long)
    return corpus.notes[key]


def _rarity(encoder: Encoder, texts: Sequence[str], long: str) -> WordRarity:
    """Count the tokens of one side of the evaluated set."""
    times = Counter(texts)
    tokens = encoder.tokenize(list(times), long)
    return WordRarity.of((found.ids, n) for found, n in zip(tokens, times.values(), strict=True))
