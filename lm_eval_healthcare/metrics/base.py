"""What every metric offers: bounds, a direction, scores and a signature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]
References: TypeAlias = Sequence[str | Sequence[str]]


class Metric:
    """One number per document, from what a model wrote and what it should have written.

    A metric is a subclass in a file of its own and one line in `suite`. It implements `score` (or, to share work with
    its relatives, `score_family`) and `signature`, and sees no missing or blank text: `metrics.score` has dealt with
    that before.

    Attributes:
        name: The key in result files.
        description: What it measures, in one sentence.
        higher_is_better: The direction.
        worst: The score of a blank prediction.
        minimum: The lowest possible score.
        maximum: The highest possible score.
        family: Metrics of one family are asked together, in one call of `score_family`. `None`: the metric works alone.
        options: Names of the keyword arguments that `score` and `signature` take.
        requires: Distributions that `score` imports, by the name of their module.
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

    def missing(self) -> str | None:
        """Return what the metric lacks to be computed on this machine and how to get it, or None if it is ready."""
        absent = [module.replace("_", "-") for module in self.requires if find_spec(module) is None]
        return f"{self.name} needs {', '.join(absent)}: pip install {' '.join(absent)}" if absent else None

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
