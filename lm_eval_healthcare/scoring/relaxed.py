r"""From the matrices of Relaxed Perplexity to values of documents, and from those to one number a reading.

A document has one or several targets in each list of targets (`answer`, `must_have`, ...). For target t let $S_t$ be
the sum over positions of log P and $N_t$ the normaliser, so that its own log Relaxed Perplexity is $-S_t/N_t$.

* Ratios (`log_relaxed_perplexity`, `relaxed_nats_per_byte`): a document adds the pair $(\sum_t S_t, \sum_t N_t)$ over
  its targets in the list; the corpus is minus the ratio of the sums over documents, as in `scoring.perplexity`, and
  `relaxed_perplexity` is e to that power.
* Means (`relaxed_cross_entropy_*`): a document's value is the mean over its targets in the list, the corpus is the mean
  over documents.
* Medians: the median over documents of a ratio of their own.

Targets without scores are left out of their document with a reason; a document without any scored target in a list has
NaN there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.analysis.aggregate import (
    scored_mean,
    scored_mean_stderr,
    scored_median,
    scored_median_stderr,
)
from lm_eval_healthcare.relaxed_perplexity import estimator
from lm_eval_healthcare.scoring.perplexity import (
    Pair,
    corpus_perplexity,
    corpus_perplexity_stderr,
    exp,
    nats_per_unit,
    nats_per_unit_stderr,
)

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity import Matrix, Settings

PERPLEXITY, NATS, MEAN, MEDIAN = "corpus_perplexity", "corpus_nats", "scored_mean", "scored_median"
"""How a reading's values of documents become one number; the first two are of pairs, the others of numbers."""
_AGGREGATIONS: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    PERPLEXITY: (corpus_perplexity, corpus_perplexity_stderr),
    NATS: (nats_per_unit, nats_per_unit_stderr),
    MEAN: (scored_mean, scored_mean_stderr),
    MEDIAN: (scored_median, scored_median_stderr),
}

_RATIO, _LOG, _PER_BYTE, _OF_MEDIAN = "relaxed_perplexity", "log_relaxed_perplexity", "relaxed_nats_per_byte", "_median"
_MEDIANS = {
    f"{name}{end}{_OF_MEDIAN}": f"the median over documents of {name}, which no single one can move far; {combination}"
    for end, combination in estimator.COMBINATIONS.items()
    for name in (_LOG, _PER_BYTE)
}
_FACTS = ("n_eff", "positions")
READINGS: Mapping[str, str] = {
    **{name: meaning for name, meaning in estimator.READINGS.items() if name not in _FACTS},
    **_MEDIANS,
}
"""Every reading of a corpus, with what it says; of all of them lower is better."""
DEFAULT_READINGS = (
    _RATIO, _LOG, f"{_LOG}{_OF_MEDIAN}", _PER_BYTE,
    "relaxed_cross_entropy_sum", "relaxed_cross_entropy_mean", "relaxed_cross_entropy_any",
)  # fmt: skip


@dataclass(frozen=True)
class DocumentValues:
    """What one document's targets in one list add to a corpus.

    Attributes:
        items: By reading, what is aggregated: a pair (log-likelihood, length) where `aggregation_of` says a corpus of
            pairs, else a number; NaN, or a pair of NaN, if no target is scored.
        targets: The number of targets.
        reasons: Why targets have no scores, one for each of these.
        n_eff: Tokens of the completions that count, see `estimator.reduce`; NaN if no target is scored.
        ended_early: Whether every completion ended before its full length, so that late positions are missing.
    """

    items: Mapping[str, float | Pair]
    targets: int
    reasons: tuple[str, ...]
    n_eff: float
    ended_early: bool

    @property
    def scored(self) -> int:
        """The number of targets that have scores."""
        return self.targets - len(self.reasons)

    def value(self, reading: str) -> float:
        """Return the document's own number in a reading: of a pair minus the quotient, or e to that power."""
        item = self.items[reading]
        if not isinstance(item, tuple):
            return item
        nats = -item[0] / item[1]
        return exp(nats) if aggregation_of(reading) == PERPLEXITY else nats


def aggregation_of(reading: str) -> str:
    """Return how a reading's items of documents become one number: `PERPLEXITY`, `NATS`, `MEAN` or `MEDIAN`."""
    if reading.endswith(_OF_MEDIAN):
        return MEDIAN
    if reading.startswith(_RATIO):
        return PERPLEXITY
    return NATS if reading.startswith((_LOG, _PER_BYTE)) else MEAN


def corpus_value(reading: str, documents: Sequence[DocumentValues]) -> tuple[float, float]:
    """Return the value of a reading over documents, and its standard error.

    Args:
        reading: One of `READINGS`.
        documents: The values of each document in one list of targets.

    Returns:
        The two numbers; NaN where too few documents are scored.
    """
    value, stderr = _AGGREGATIONS[aggregation_of(reading)]
    items = [document.items[reading] for document in documents]
    return value(items), stderr(items)


def document_values(
    matrix: Matrix, groups: Sequence[str], settings: Settings, readings: Sequence[str] = tuple(READINGS)
) -> dict[str, DocumentValues]:
    """Return a document's values in each of its lists of targets.

    Args:
        matrix: The document's matrix.
        groups: For each target of the matrix the name of its list.
        settings: How it was measured.
        readings: Names out of `READINGS`.

    Returns:
        By list, in the order in which lists come up.

    Raises:
        ValueError: If the number of groups is not that of the targets.
    """
    if len(groups) != len(matrix.targets):
        raise ValueError(f"{len(groups)} names of lists for {len(matrix.targets)} targets")
    early = bool(matrix.lengths) and max(matrix.lengths) < settings.length
    read = _reader(matrix, settings, readings)
    found = {}
    for group in dict.fromkeys(groups):
        places = [place for place, name in enumerate(groups) if name == group]
        scored = [place for place in places if not matrix.targets[place].reason]
        values = [read(place) for place in scored]
        lengths = [_lengths(matrix, place, value) for place, value in zip(scored, values, strict=True)]
        found[group] = DocumentValues(
            items={name: _item(name, values, lengths) for name in readings},
            targets=len(places),
            reasons=tuple(reason for place in places if (reason := matrix.targets[place].reason)),
            n_eff=values[0]["n_eff"] if values else math.nan,
            ended_early=early,
        )
    return found


def name_parts(reading: str) -> tuple[str, str, str]:
    """Return the parts of a reading's name: quantity, combination of prefixes, and `_median` or nothing."""
    name = reading.removesuffix(_OF_MEDIAN)
    combination = next((end for end in estimator.COMBINATIONS if end and name.endswith(end)), "")
    return name.removesuffix(combination), combination, reading[len(name) :]


def combined(reading: str, combination: str) -> str:
    """Return the name of a reading in which the prefixes of a position are combined in another way.

    Args:
        reading: The name of a reading; one that names a combination itself is returned as it is.
        combination: A key of `estimator.COMBINATIONS`.
    """
    quantity, own, median = name_parts(reading)
    return quantity + (own or combination) + median


def thinned_settings(
    settings: Settings, *, stride: int | None = None, length: int | None = None, keep: int | None = None
) -> Settings:
    """Return the settings of matrices that are thinned, see `Matrix.thinned`.

    Args:
        settings: How they were measured.
        stride: The wanted stride, a multiple of the measured one.
        length: The wanted length of completions, at most the measured one.
        keep: The wanted number of prefixes, at most the measured one.

    Raises:
        ValueError: If something is wanted that was not measured.
    """
    if stride is not None and stride % settings.stride:
        raise ValueError(f"stride {stride}: measured every {settings.stride} tokens, so expected a multiple of that")
    if length is not None and length > settings.length:
        raise ValueError(f"length {length}: completions have {settings.length} tokens, so expected at most that")
    if length is not None and length < settings.length and settings.order == "completion":
        raise ValueError(f"length {length}: prefixes were chosen by the whole completions of {settings.length} tokens")
    if keep is not None and settings.keep is not None and keep > settings.keep:
        raise ValueError(f"keep {keep}: {settings.keep} prefixes of a position were scored, so expected at most that")
    return replace(
        settings,
        stride=settings.stride if stride is None else stride,
        length=settings.length if length is None else length,
        keep=settings.keep if keep is None else keep,
    )


def _reader(matrix: Matrix, settings: Settings, readings: Sequence[str]) -> Callable[[int], dict[str, float]]:
    """Return what reads a target; what no reading asks for is not computed, which is most of the work."""
    needed = {name for reading in readings for name in estimator.needs(reading.removesuffix(_OF_MEDIAN))}
    of_prefixes: dict[str, Any] = {}
    if "log_p_prefix" in needed:
        of_prefixes["log_p_prefix"] = matrix.by_position([prefix.log_p for prefix in matrix.prefixes])
    if "counts" in needed:
        of_prefixes["counts"] = matrix.by_position([prefix.count for prefix in matrix.prefixes])
    positions = matrix.positions

    def read(place: int) -> dict[str, float]:
        target = matrix.targets[place]
        return estimator.reduce(
            matrix.by_position(target.log_p), positions=positions, target_length=target.length, n=settings.length,
            stride=settings.stride, target_bytes=target.bytes, **of_prefixes,
        )  # fmt: skip

    return read


def _lengths(matrix: Matrix, place: int, values: Mapping[str, float]) -> dict[str, float]:
    """What a target is divided by in the two kinds of ratios: positions and its tokens, or its bytes."""
    target = matrix.targets[place]
    return {_LOG: values["n_eff"] + target.length, _PER_BYTE: float(target.bytes)}


def _item(reading: str, values: Sequence[Mapping[str, float]], lengths: Sequence[Mapping[str, float]]) -> float | Pair:
    kind = aggregation_of(reading)
    if kind == MEDIAN:
        total, length = _pair(reading.removesuffix(_OF_MEDIAN), values, lengths)
        return -total / length
    if kind in (PERPLEXITY, NATS):
        return _pair(reading, values, lengths)
    return scored_mean([value[reading] for value in values])


def _pair(reading: str, values: Sequence[Mapping[str, float]], lengths: Sequence[Mapping[str, float]]) -> Pair:
    if not values:
        return math.nan, math.nan
    unit = _PER_BYTE if reading.startswith(_PER_BYTE) else _LOG
    # The logarithm is finite where the perplexity itself does not fit into a float.
    name = f"log_{reading}" if reading.startswith(_RATIO) else reading
    sizes = [length[unit] for length in lengths]
    totals = [-value[name] * size for value, size in zip(values, sizes, strict=True)]
    return math.fsum(totals), math.fsum(sizes)
