"""Stored matrices of Relaxed Perplexity reduced again: one summary for each list of targets, without a model."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lm_eval_healthcare.analysis.aggregate import scored_mean, scored_median
from lm_eval_healthcare.scoring.relaxed import DocumentValues, corpus_value, document_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lm_eval_healthcare.relaxed_perplexity import Settings
    from lm_eval_healthcare.relaxed_perplexity.matrix_file import Document


@dataclass(frozen=True)
class Summary:
    """One list of targets over all documents that have some in it.

    Attributes:
        group: The list's name.
        documents: The number of documents, and of those with a scored target.
        targets: The number of targets, and of those that are scored.
        readings: By reading its value and standard error; NaN where too few documents are scored.
        n_eff: The median over documents of the tokens that count.
        ended_early: The share of documents all of whose completions ended before their full length.
        reasons: Why targets are not scored, with their number.
    """

    group: str
    documents: tuple[int, int]
    targets: tuple[int, int]
    readings: dict[str, tuple[float, float]]
    n_eff: float
    ended_early: float
    reasons: Counter[str] = field(default_factory=Counter)


def reduce_documents(
    documents: Iterable[Document], settings: Settings, readings: Sequence[str]
) -> dict[str, list[tuple[int, DocumentValues]]]:
    """Return, by list of targets, each document's number and values.

    Args:
        documents: The documents, thinned as wanted.
        settings: How they were measured, or would have been if they are thinned.
        readings: The readings that are wanted.
    """
    found: dict[str, list[tuple[int, DocumentValues]]] = defaultdict(list)
    for document in documents:
        values = document_values(document.matrix, document.groups, settings, readings)
        for group, of_group in values.items():
            found[group].append((document.doc_id, of_group))
    return dict(found)


def summarise(group: str, values: Sequence[DocumentValues], readings: Sequence[str]) -> Summary:
    """Return the summary of one list of targets.

    Args:
        group: Its name.
        values: The values of each document that has targets in it.
        readings: The readings that are wanted.
    """
    return Summary(
        group=group,
        documents=(len(values), sum(value.scored > 0 for value in values)),
        targets=(sum(value.targets for value in values), sum(value.scored for value in values)),
        readings={reading: corpus_value(reading, values) for reading in readings},
        n_eff=scored_median([value.n_eff for value in values]),
        ended_early=scored_mean([float(value.ended_early) if value.scored else math.nan for value in values]),
        reasons=Counter(reason for value in values for reason in value.reasons),
    )
