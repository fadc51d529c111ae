"""What every metric offers: bounds, a direction, scores and a signature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]
References: TypeAlias = Sequence[str | Sequence[str]]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass
class Measured:
    """What metrics found out about a batch of documents.

    Attributes:
        scores: For each metric a float64 array of shape `(n,)`, in document order.
        truncated: For each metric with a limited view a bool array of shape `(n,)`: the metric did not see the end of
            the document's prediction or of a reference.
    """

    scores: dict[str, Scores]
    truncated: dict[str, Flags] = field(default_factory=dict)


class Metric:
    """One number per document, from what a model wrote and what it should have written.

    A metric is a subclass in a file of its own and one line in `suite`. It implements `score` (or, to share work with
    its relatives, `score_family`; or, to say more than a number, `measure`) and `signature`, and sees no missing or
    blank text: `metrics.score` has dealt with that before.

    Attributes:
        name: The key in result files.
        description: What it measures, in one sentence.
        higher_is_better: The direction.
        worst: The score of a blank prediction, unless `blank` says otherwise.
        minimum: The lowest possible score.
        maximum: The highest possible score.
        family: Metrics of one family are asked together, in one call of `score_family` or `measure`, with the options
            of all of them. `None`: the metric works alone.
        options: Names of the keyword arguments that `score`, `signature` and `missing` take.
        requires: Modules that `score` imports, with the name of the distribution where it is another.
        extra: The extra of this package that installs what the metric requires, if there is one.
        heavy: Whether the metric runs a neural network: its scores are worth keeping, and it can be left for later.
        limited: Whether the metric sees only so much of a text, so that `measure` reports what it did not see.
        domain: The kind of text that the metric is made for, such as `radiology`; None: any.
        needs_corpus: Whether a score depends on the whole evaluated set: the option `corpus` brings it.
    """

    name: str
    description: str
    higher_is_better: bool = True
    worst: float = 0.0
    minimum: float = 0.0
    maximum: float = 1.0
    family: str | None = None
    options: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    extra: str | None = None
    heavy: bool = False
    limited: bool = False
    needs_corpus: bool = False
    domain: str | None = None

    def missing(self, **options: Any) -> str | None:
        """Return what the metric lacks to be computed on this machine and how to get it, or None if it is ready.

        Raises:
            ValueError: If an option has a value that cannot be used.
        """
        absent = [module.replace("_", "-") for module in self.requires if find_spec(module) is None]
        if not absent:
            return None
        remedy = f'"lm-eval-healthcare[{self.extra}]"' if self.extra else " ".join(absent)
        return f"{self.name} needs {', '.join(absent)}: pip install {remedy}"

    def blank(self, **options: Any) -> float | None:
        """Return the score of a blank prediction, or None if the metric is to be asked about an empty text."""
        return self.worst

    def remarks(self, **options: Any) -> list[str]:
        """Return what a user should know of the metric with these options before it scores anything."""
        return []

    def prepare(self, **options: Any) -> None:
        """Fetch what the metric needs beyond this machine, so that nothing is missing once it is to score.

        Raises:
            ValueError: If it cannot be had; the text says what to do.
        """

    def measure(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> Measured:
        """Return the scores of this metric and its relatives, and what they did not see.

        Args:
            names: The metrics asked for: this one alone, or several of its family.
            predictions: Texts, shape `(n,)`.
            references: Texts, or a non-empty list of texts for each document, shape `(n,)`.
            **options: The options of all of them.
        """
        if self.family is None:
            return Measured({self.name: self.score(predictions, references, **options)})
        return Measured(self.score_family(names, predictions, references, **options))

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return one float64 per document, in document order.

        Args:
            predictions: Texts, shape `(n,)`.
            references: Texts, or a non-empty list of texts for each document, shape `(n,)`.
            **options: The metric's own.
        """
        raise NotImplementedError(f"metric {self.name!r} does not implement score()")

    def score_family(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> dict[str, Scores]:
        """Return the scores of several metrics of this metric's family, by name."""
        raise NotImplementedError(f"metric {self.name!r} has a family but does not implement score_family()")

    def signature(self, **options: Any) -> str:
        """Return what the scores depend on, as `key:value` fields after the name; equal strings, comparable scores."""
        raise NotImplementedError(f"metric {self.name!r} does not implement signature()")


def as_lists(references: References) -> list[list[str]]:
    """Return the references with every document's in a list of its own.

    Raises:
        ValueError: If a document has no reference.
    """
    lists = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    if not all(lists):
        raise ValueError(f"document {lists.index([])} has no reference; call metrics.score, which gives it NaN")
    return lists


def as_scores(values: Iterable[float]) -> Scores:
    """Return the values as a float64 array."""
    return np.fromiter(values, dtype=np.float64)


def format_signature(name: str, **fields: str) -> str:
    """Return `name|key:value|...`, in the order given."""
    return "|".join([name, *(f"{key}:{value}" for key, value in fields.items())])


def package_version(distribution: str) -> str:
    """Return the installed version of a package, for signatures."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "absent"
