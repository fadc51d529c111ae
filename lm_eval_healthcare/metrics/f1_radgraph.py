"""F1-RadGraph: how far the findings of two radiology reports agree, as entities and relations that a model finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.metrics import radgraph_weights
from lm_eval_healthcare.metrics.base import Measured, Metric, References, as_lists, format_signature, package_version
from lm_eval_healthcare.metrics.encoding import device
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.radgraph_annotator import MAX_WORDS, Annotated, annotator
from lm_eval_healthcare.metrics.radgraph_reward import LEVELS, reward
from lm_eval_healthcare.metrics.settings import Compute, choice, text

if TYPE_CHECKING:
    from lm_eval_healthcare.metrics.radgraph_annotator import Annotator


@dataclass(frozen=True)
class _Settings:
    """What a user chose."""

    model: str
    level: str
    compute: Compute

    @classmethod
    def of(cls, options: dict[str, Any]) -> _Settings:
        model = text(options, "radgraph_model") or radgraph_weights.MODELS[0]
        return cls(model, choice(options, "radgraph_reward", LEVELS), Compute.from_options(options))


class F1RadGraph(Metric):
    """F1-RadGraph, 0 to 1, higher is better; `radgraph_reward.reward` has the definition.

    Both reports are lower-cased before they are annotated: the package compares words as they are written, so that
    "Effusion" and "effusion" share nothing. Published scores of reports in mixed case are lower where only case
    differs. A report without any entity scores 0, as in the original. With several references the best one counts.

    Attributes:
        domain: The model knows radiology reports alone. It finds little in other texts, and scores of them mean little.
    """

    name = "f1_radgraph"
    description = "Agreement of the findings in radiology reports: F1 of entities and whether they have relations."
    options = ("radgraph_model", "radgraph_reward", "metrics_device", "report")
    requires = ("radgraph", "torch", "transformers", "requests")
    extra = "radgraph"
    heavy = True
    limited = True
    domain = "radiology"

    def missing(self, **options: Any) -> str | None:
        """Return which package, weights or device the metric lacks and how to get it, or None if it is ready.

        Raises:
            ValueError: If an option has a value that cannot be used.
        """
        settings = _Settings.of(options)
        return super().missing() or radgraph_weights.missing(settings.model) or device.absent(settings.compute)

    def prepare(self, **options: Any) -> None:
        """Find the weights and the encoder's tokenizer, downloading them and unpacking the archive if need be.

        Raises:
            ModelMissing: If they cannot be had.
        """
        radgraph_weights.locate(_Settings.of(options).model)

    def measure(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> Measured:
        """Return the scores, and which documents have a report of more than `MAX_WORDS` words.

        Equal reports are annotated once. `report` is called after each document.

        Raises:
            ModelMissing: If the package or the weights are missing.
        """
        from tqdm import tqdm

        settings, report = _Settings.of(options), options.get("report")
        model = self._model(settings)
        documents = [
            [given.lower() for given in (prediction, *texts)]
            for prediction, texts in zip(predictions, as_lists(references), strict=True)
        ]
        scores, truncated = np.zeros(len(documents)), np.zeros(len(documents), dtype=bool)
        known: dict[str, Annotated] = {}
        distinct = len({given for document in documents for given in document})
        with tqdm(total=distinct, desc=self.name, unit="report", delay=2, leave=False) as progress:
            for row, document in enumerate(documents):
                for given in document:
                    if given not in known:
                        known[given] = model.annotate(given)
                        progress.update()
                prediction, *wanted = (known[given] for given in document)
                scores[row] = max(reward(prediction.entities, other.entities, settings.level) for other in wanted)
                truncated[row] = any(known[given].truncated for given in document)
                if report is not None:
                    report(self.name, row, float(scores[row]), bool(truncated[row]))
        return Measured({self.name: scores}, {self.name: truncated})

    def signature(self, **options: Any) -> str:
        """Return the signature; `impl` is this file's revision, counted up whenever a score would change."""
        settings = _Settings.of(options)
        return format_signature(
            self.name,
            impl="lm_eval_healthcare-1",
            ref=f"radgraph-{package_version('radgraph')}",
            model=radgraph_weights.label(settings.model),
            dtype="float32",
            reward=settings.level,
            case="lower",
            words=str(MAX_WORDS),
            refs="best",
            scale="0-1",
            blank="0",
        )

    def _model(self, settings: _Settings) -> Annotator:
        """Return the loaded model.

        Raises:
            ModelMissing: If the package or the weights are missing.
            DeviceUnavailable: If a GPU was asked for by name and cannot be used.
        """
        problem = super().missing()
        if problem:
            raise ModelMissing(problem)
        return annotator(radgraph_weights.locate(settings.model), settings.compute)
