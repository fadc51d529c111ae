"""BERTScore: how well each token's vector finds a like one in the other text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lm_eval_healthcare.metrics.base import format_signature
from lm_eval_healthcare.metrics.bert_score_baseline import baseline_file, file_digest, read_baseline
from lm_eval_healthcare.metrics.bert_score_layers import default_language, default_model, published_layer
from lm_eval_healthcare.metrics.embedding import Compare, Compared, EmbeddingMetric
from lm_eval_healthcare.metrics.encoding import checkpoints
from lm_eval_healthcare.metrics.encoding.device import tell_once
from lm_eval_healthcare.metrics.encoding.encoder import Encoder, count_layers
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.metrics.settings import COMPUTE_OPTIONS, Compute, text, whole_number

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from lm_eval_healthcare.metrics.encoding.embed import Embedded

_DESCRIPTIONS = {
    "bert_score": "F-measure of tokens matched by the similarity of their vectors in an encoder (BERTScore).",
    "bert_score_precision": "How well the prediction's tokens are matched by the reference's (BERTScore's precision).",
    "bert_score_recall": "How well the reference's tokens are matched by the prediction's (BERTScore's recall).",
}
_BLOCK = 2**23  # similarities that are looked at together


@dataclass(frozen=True)
class Settings:
    """What a user chose.

    Attributes:
        model: Folder or hub name of the encoder.
        compute: How it runs.
        layer: The layer that was asked for or is published for the encoder; None: its last.
        chosen: Whether the user asked for that layer.
        rescale: `no`, `package` or the path of a file of baselines.
        language: Two-letter code of the texts' language; None for several.
    """

    model: str
    compute: Compute
    layer: int | None
    chosen: bool
    rescale: str
    language: str | None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """Read `bert_score_model`, `bert_score_layer`, `bert_score_rescale` and `languages`.

        Raises:
            ValueError: If a value cannot be used.
        """
        languages = options.get("languages") or ("en",)
        languages = [languages] if isinstance(languages, str) else list(languages)
        model = text(options, "bert_score_model") or default_model(languages)
        layer = whole_number(options, "bert_score_layer", minimum=0)
        rescale = options.get("bert_score_rescale")
        if rescale is True:
            raise ValueError("bert_score_rescale=yes: expected no, package, or the path of a file of baselines")
        return cls(
            model=model,
            compute=Compute.from_options(options),
            layer=published_layer(checkpoints.short_name(model)) if layer is None else layer,
            chosen=layer is not None,
            rescale="no" if rescale is False else text(options, "bert_score_rescale") or "no",
            language=default_language(languages),
        )

    def layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the one layer that is used, of an encoder of `n_layers`.

        Raises:
            ValueError: If it has fewer.
        """
        if self.layer is None:
            return (n_layers,)
        if self.layer > n_layers:
            given = "" if self.chosen else f" (the one published for {checkpoints.short_name(self.model)})"
            raise ValueError(
                f"bert_score_layer={self.layer}{given}: {self.model} has {n_layers} layers; give a number of 0 "
                f"(embeddings) to {n_layers}"
            )
        return (self.layer,)

    def baseline(self, layer: int) -> tuple[float, float, float] | None:
        """Return the baselines of precision, recall and F by which scores are rescaled, None if they are not.

        Raises:
            ValueError: If they cannot be had.
        """
        if self.rescale == "no":
            return None
        name = checkpoints.short_name(self.model)
        return read_baseline(baseline_file(self.rescale, self.language, name), layer)

    def rescale_label(self) -> str:
        """Return what a signature says of rescaling."""
        if self.rescale == "no":
            return "no"
        try:
            path = baseline_file(self.rescale, self.language, checkpoints.short_name(self.model))
            return f"{'bert-score-0.3.13' if self.rescale == 'package' else 'file'}@{file_digest(path)}"
        except (OSError, ValueError):
            return f"{'package' if self.rescale == 'package' else 'file'}@absent"


class BertScore(EmbeddingMetric):
    r"""BERTScore's F-measure, precision or recall; cosines, so up to 1, higher is better, rarely below 0.

    With $x_i$ the vectors of the n tokens of a prediction and $y_j$ those of the m tokens of a reference, special ones
    excepted in the sums but not in the maxima:

        P = 1/n sum_i max_j cos(x_i, y_j)     R = 1/m sum_j max_i cos(x_i, y_j)     F = 2 P R / (P + R)

    and all three are 0 where a side has no token but special ones, F where P + R = 0. Raw scores of unrelated texts are
    high, 0.8 and more with roberta-large: they compare systems on the same texts and say little by themselves.
    Rescaled scores (`bert_score_rescale`) are (s - b) / (1 - b) with b the score of random pairs, and may be negative:
    those of a blank prediction, whose raw score is 0, are.

    Source: Zhang et al. 2020 (https://openreview.net/forum?id=SkeHuCVFDr) as in bert-score 0.3.13 without idf. There,
    padding counts as a similarity of 0; here a score is always that of the pair alone.
    """

    group = "bert_score"
    model_option = "bert_score_model"
    minimum = -1.0
    options = (
        "bert_score_model",
        "bert_score_layer",
        "bert_score_rescale",
        *COMPUTE_OPTIONS,
        "languages",
        "report",
    )
    parts: ClassVar[dict[str, int]] = {"bert_score_precision": 0, "bert_score_recall": 1, "bert_score": 2}

    def __init__(self, name: str) -> None:
        """Describe one of `bert_score` (F), `bert_score_precision` and `bert_score_recall`."""
        self.name = name
        self.description = _DESCRIPTIONS[name]

    def settings(self, options: Mapping[str, Any]) -> Settings:
        """Read the options.

        Raises:
            ValueError: If a value cannot be used.
        """
        return Settings.from_options(options)

    def unusable(self, settings: Any, folder: Path) -> str | None:
        """Return why an encoder cannot be used, or what is wrong with the baselines for rescaling.

        Raises:
            ValueError: If the encoder does not have the layer that is asked for.
        """
        problem = super().unusable(settings, folder)
        n_layers = count_layers(checkpoints.configuration(str(folder)) or {})
        if problem is None and n_layers is not None:
            layers = settings.layers(n_layers)
            try:
                settings.baseline(*layers)
            except ValueError as error:
                return str(error)
        return problem

    def remarks(self, **options: Any) -> list[str]:
        """Say which layer is used where none is published for the encoder."""
        settings = self.settings(options)
        if settings.layer is not None:
            return []
        return [_no_published_layer(settings, count_layers(checkpoints.configuration(settings.model) or {}))]

    def blank(self, **options: Any) -> float | None:
        """Return the score of a blank prediction: 0, which rescaling makes -b / (1 - b) with b the baseline."""
        settings = self.settings(options)
        layer = settings.layer
        if layer is None:
            layer = count_layers(checkpoints.configuration(settings.model) or {})
        try:
            baseline = None if layer is None else settings.baseline(layer)
        except ValueError:  # nothing will be scored
            return self.worst
        return _rescaled((0.0, 0.0, 0.0), baseline)[self.parts[self.name]]

    def comparer(self, encoder: Encoder, corpus: Pairs | None, settings: Any, options: Mapping[str, Any]) -> Compare:
        """Return a function of a prediction and a reference that gives precision, recall and F by metric."""
        (layer,) = settings.layers(encoder.n_layers)
        if settings.layer is None:
            tell_once(_no_published_layer(settings, layer))
        baseline = settings.baseline(layer)
        last: list[tuple[Embedded, Any]] = []

        def unit(embedded: Embedded) -> Any:
            for known, vectors in last:
                if known is embedded:
                    return vectors
            last.insert(0, (embedded, _unit(embedded.layers[layer])))
            del last[2:]
            return last[0][1]

        def compare(prediction: Embedded, reference: Embedded) -> Compared:
            values = _match(unit(prediction), unit(reference), ~prediction.tokens.special, ~reference.tokens.special)
            values = _rescaled(values, baseline)
            return Compared({name: values[part] for name, part in self.parts.items()})

        return compare

    def signature(self, **options: Any) -> str:
        """Return the signature: encoder, layer, rescaling and what else changes scores."""
        settings = self.settings(options)
        layer = settings.layer
        if layer is None:
            layer = count_layers(checkpoints.configuration(settings.model) or {})
        return format_signature(
            self.name,
            impl="lm_eval_healthcare-1",
            ref="bert-score-0.3.13",
            model=checkpoints.label(settings.model),
            layer="last" if layer is None else str(layer),
            idf="no",
            rescale=settings.rescale_label(),
            **settings.compute.signature_fields(),
            refs="best",
            scale="cosine" if settings.rescale == "no" else "rescaled",
            blank="0" if settings.rescale == "no" else "rescaled-0",
        )


BERT_SCORE = tuple(BertScore(name) for name in _DESCRIPTIONS)


def _no_published_layer(settings: Settings, last: int | None) -> str:
    named = "its last one" if last is None else f"its last one, {last},"
    return (
        f"bert_score: no layer is published for {checkpoints.short_name(settings.model)}, so {named} is used; "
        "bert_score_layer chooses another"
    )


def _rescaled(values: tuple[float, ...], baseline: tuple[float, float, float] | None) -> tuple[float, ...]:
    """Return precision, recall and F with 0 where random pairs are, and 1 where it was."""
    if baseline is None:
        return values
    return tuple((value - base) / (1 - base) for value, base in zip(values, baseline, strict=True))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    """Return the vectors in float64, each of length 1; zero stays zero."""
    import torch

    with torch.inference_mode():
        exact = vectors.double()
        return exact / exact.norm(dim=-1, keepdim=True).clamp_min(1e-30)


def _match(x: torch.Tensor, y: torch.Tensor, counts_x: Any, counts_y: Any) -> tuple[float, ...]:
    """Return precision, recall and F of two texts.

    Args:
        x: Unit vectors of the prediction's tokens, shape `(n, d)`.
        y: Unit vectors of the reference's tokens, shape `(m, d)`.
        counts_x: Bool array of shape `(n,)`: the token is no special one.
        counts_y: The same for the reference, shape `(m,)`.
    """
    import torch

    if not counts_x.any() or not counts_y.any():
        return 0.0, 0.0, 0.0
    with torch.inference_mode():
        rows, best_y = [], None
        for block in x.split(max(1, _BLOCK // len(y))):
            similarities = block @ y.T
            rows.append(similarities.amax(dim=1))
            columns = similarities.amax(dim=0)
            best_y = columns if best_y is None else torch.maximum(best_y, columns)
        best = torch.cat([*rows, best_y]).cpu().numpy().clip(-1.0, 1.0)
    precision, recall = float(best[: len(x)][counts_x].mean()), float(best[len(x) :][counts_y].mean())
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0
