"""Metrics that compare the word vectors of two texts: one pass of an encoder serves all that use the same one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lm_eval_healthcare.metrics.base import Measured, Metric, References, Scores, as_lists
from lm_eval_healthcare.metrics.encoding import checkpoints, embed, soundness
from lm_eval_healthcare.metrics.encoding import device as devices
from lm_eval_healthcare.metrics.encoding.embed import Embedded, embed_pairs
from lm_eval_healthcare.metrics.encoding.encoder import Encoder, count_layers, load
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.metrics.settings import Compute

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Compared:
    """What a comparison of a prediction and a reference has given.

    Attributes:
        scores: By metric.
        whole: Whether all that the encoder saw of both texts was compared.
    """

    scores: Mapping[str, float]
    whole: bool = True


Compare = Callable[[Embedded, Embedded], Compared]


class Settings(Protocol):
    """What a metric makes of its options."""

    @property
    def model(self) -> str:
        """Folder or hub name of the encoder."""

    @property
    def compute(self) -> Compute:
        """How it runs."""

    def layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the layers whose vectors are needed, of an encoder of `n_layers`.

        Raises:
            ValueError: If it has too few.
        """


class EmbeddingMetric(Metric):
    """A comparison of a prediction's and a reference's word vectors; the best of several references counts.

    A subclass says which encoder and layers it wants (`settings`) and how a pair is compared (`comparer`).

    Attributes:
        group: Metrics of one group come out of one comparison.
        model_option: The option that names the encoder.
    """

    family: str | None = "embedding"
    requires: tuple[str, ...] = ("torch", "transformers")
    extra: str | None = "semantic"
    heavy = True
    limited = True
    group: str
    model_option: str

    def settings(self, options: Mapping[str, Any]) -> Settings:
        """Read the options.

        Raises:
            ValueError: If a value cannot be used.
        """
        raise NotImplementedError(f"metric {self.name!r} does not implement settings()")

    def comparer(self, encoder: Encoder, corpus: Pairs | None, settings: Any, options: Mapping[str, Any]) -> Compare:
        """Return a function of a prediction and a reference that gives the scores of this metric's group by name.

        Args:
            encoder: The encoder that the vectors come from.
            corpus: The evaluated set, where the caller knows it.
            settings: What `settings` returned.
            options: The options themselves.
        """
        raise NotImplementedError(f"metric {self.name!r} does not implement comparer()")

    def missing(self, **options: Any) -> str | None:
        """Return what is lacking: a package, the device that was asked for, or the encoder.

        Raises:
            ValueError: If an option has a value that cannot be used, such as a layer that the encoder does not have.
        """
        absent = super().missing(**options)
        if absent is not None:
            return absent
        settings = self.settings(options)
        problem = devices.absent(settings.compute) or checkpoints.missing(settings.model)
        if problem is not None:
            return f"{self.name}: {problem} (The option is {self.model_option}.)"
        folder = checkpoints.find(settings.model)
        unusable = self.unusable(settings, folder) if folder is not None else None
        return f"{self.name}: {unusable}" if unusable is not None else None

    def prepare(self, **options: Any) -> None:
        """Find the encoder, downloading it if need be.

        Raises:
            ModelMissing: If it cannot be had, or not be used.
            ValueError: If it does not have the layers that are asked for.
        """
        settings = self.settings(options)
        unusable = self.unusable(settings, checkpoints.locate(settings.model))
        if unusable is not None:
            raise checkpoints.ModelMissing(f"{self.name}: {unusable}")

    def unusable(self, settings: Any, folder: Path) -> str | None:
        """Return why an encoder that is here cannot be used, without loading it.

        Raises:
            ValueError: If it does not have the layers that are asked for.
        """
        problem = soundness.unsound(folder)
        if problem is not None:
            return f"{self.model_option}={settings.model}: {problem}"
        n_layers = count_layers(checkpoints.configuration(str(folder)) or {})
        if n_layers is not None:
            settings.layers(n_layers)
        return None

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return the score of each document."""
        return self.measure([self.name], predictions, references, **options).scores[self.name]

    def measure(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> Measured:
        """Return the scores of several embedding metrics, with one pass of each encoder that they need.

        Args:
            names: Metrics of this family.
            predictions: Texts, shape `(n,)`.
            references: Texts, or a non-empty list of texts for each document, shape `(n,)`.
            **options: The options of all of them.

        Raises:
            ValueError: If an option cannot be used or an encoder cannot be had.
        """
        documents = _Documents.of(predictions, as_lists(references))
        passes: dict[tuple[Path, Compute], list[_Group]] = defaultdict(list)
        for group in _groups(self, names, options):
            folder = checkpoints.locate(group.settings.model)
            passes[folder, group.settings.compute].append(group)
        found = Measured({})
        for (folder, compute), groups in passes.items():
            _one_pass(folder, compute, groups, documents, options, found)
        return found


@dataclass
class _Group:
    """Metrics that come out of one comparison, and what they want."""

    metric: EmbeddingMetric
    names: list[str]
    settings: Any


@dataclass
class _Documents:
    """The distinct texts and pairs of a batch.

    Attributes:
        texts: Distinct texts.
        pairs: Distinct pairs of a prediction and a reference, as rows of `texts`.
        of_document: The pairs of each document.
    """

    texts: list[str]
    pairs: list[tuple[int, int]]
    of_document: list[list[int]]

    @classmethod
    def of(cls, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> _Documents:
        texts: dict[str, int] = {}
        pairs: dict[tuple[int, int], int] = {}
        of_document = []
        for prediction, candidates in zip(predictions, references, strict=True):
            row = texts.setdefault(prediction, len(texts))
            numbers = [
                pairs.setdefault((row, texts.setdefault(candidate, len(texts))), len(pairs)) for candidate in candidates
            ]
            of_document.append(list(dict.fromkeys(numbers)))
        return cls(list(texts), list(pairs), of_document)


def _groups(metric: EmbeddingMetric, names: Sequence[str], options: Mapping[str, Any]) -> list[_Group]:
    from lm_eval_healthcare.metrics.suite import AVAILABLE

    groups: dict[str, _Group] = {}
    for name in names:
        relative = metric if name == metric.name else AVAILABLE[name]
        assert isinstance(relative, EmbeddingMetric)
        group = groups.setdefault(relative.group, _Group(relative, [], relative.settings(options)))
        group.names.append(name)
    return list(groups.values())


def _one_pass(
    folder: Path,
    compute: Compute,
    groups: Sequence[_Group],
    documents: _Documents,
    options: Mapping[str, Any],
    found: Measured,
) -> None:
    """Fill in the scores and flags of all metrics that use one encoder."""
    stated = count_layers(checkpoints.configuration(str(folder)) or {})
    depth = max(max(group.settings.layers(stated)) for group in groups) if stated is not None else None
    encoder = load(folder, compute, depth, embed.MEMORY + embed.KEPT)
    layers = {layer for group in groups for layer in group.settings.layers(encoder.n_layers)}
    compares = [
        (group, group.metric.comparer(encoder, options.get("corpus"), group.settings, options)) for group in groups
    ]
    names = [name for group in groups for name in group.names]
    tally = _Tally(names, documents, options.get("report"))

    def visit(number: int, prediction: Embedded, reference: Embedded) -> None:
        cut = prediction.tokens.truncated or reference.tokens.truncated
        values: dict[str, tuple[float, bool]] = {}
        for group, compare in compares:
            given = compare(prediction, reference)
            values.update((name, (given.scores[name], cut or not given.whole)) for name in group.names)
            if not np.isfinite([*given.scores.values()]).all():
                devices.tell_once(
                    f"{group.metric.group}: {group.settings.model} gives vectors that are no finite numbers; documents "
                    "with them have no score. Its weights may be damaged, or too large for metrics_dtype",
                    subject=f"not finite: {group.metric.group} {group.settings.model}",
                )
        tally.add(number, values)

    description = "+".join(dict.fromkeys(group.metric.group for group in groups))
    embed_pairs(encoder, sorted(layers), documents.texts, documents.pairs, compute, visit, description)
    found.scores |= tally.scores
    found.truncated |= tally.truncated


class _Tally:
    """The scores of pairs as they come, and of documents as they are complete."""

    def __init__(
        self, names: Sequence[str], documents: _Documents, report: Callable[[str, int, float, bool], None] | None
    ) -> None:
        n_documents, n_pairs = len(documents.of_document), len(documents.pairs)
        self.scores = {name: np.full(n_documents, np.nan) for name in names}
        self.truncated = {name: np.zeros(n_documents, dtype=bool) for name in names}
        self._values = {name: np.full(n_pairs, np.nan) for name in names}
        self._cut = {name: np.zeros(n_pairs, dtype=bool) for name in names}
        self._pairs = documents.of_document
        self._open = [len(numbers) for numbers in documents.of_document]
        self._used_by: dict[int, list[int]] = defaultdict(list)
        for row, numbers in enumerate(documents.of_document):
            for number in numbers:
                self._used_by[number].append(row)
        self._report = report

    def add(self, number: int, values: Mapping[str, tuple[float, bool]]) -> None:
        """Take the scores of a pair, each with whether a text was not compared to its end."""
        for name, (value, cut) in values.items():
            self._values[name][number] = value
            self._cut[name][number] = cut
        for row in self._used_by[number]:
            self._open[row] -= 1
            if not self._open[row]:
                self._complete(row)

    def _complete(self, row: int) -> None:
        numbers = self._pairs[row]
        for name, values in self._values.items():
            score, cut = float(values[numbers].max()), bool(self._cut[name][numbers].any())
            self.scores[name][row], self.truncated[name][row] = score, cut
            if self._report is not None and np.isfinite(score):
                self._report(name, row, score, cut)
