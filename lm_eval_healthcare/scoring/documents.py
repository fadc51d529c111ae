"""Scoring all documents of a task in one batch, with a reason for every document that has no score.

In-run scoring and scoring of saved answers are this one function.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.base import Measured
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.scoring.score_cache import ScoreCache, key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

EMPTY_PREDICTION = "empty_prediction"
BLANK_REFERENCE = "blank_reference"
METRIC_ERROR = "metric_error"
METRIC_MISSING = "metric_missing"
SCORED_LATER = "scored_later"
TRUNCATED = "truncated"
NOT_FINITE = "not_finite"
NAN_LOGLIKELIHOOD = "nan_loglikelihood"
_ABSENT = "@absent"


@dataclass
class DocumentScores:
    """Scores of the documents of one task.

    Attributes:
        scores: For each metric a float64 array, one value per document in document order; NaN where there is none.
        empty: Bool array: the prediction is blank or missing (it is scored with each metric's worst value).
        very_short: Bool array: the prediction is one word.
        truncated: For each metric with a limited view a bool array: it did not see the document's texts to their ends.
        signatures: What the scores of each metric depend on.
        reasons: Documents by reason: `empty_prediction`, `blank_reference`, `metric_error:<metric>`,
            `metric_missing:<metric>`, `scored_later:<metric>`, `truncated:<metric>`, `not_finite:<metric>`.
        errors: The exception's text for each metric that failed.
        computed_pairs: Keys of the pairs that neural metrics computed.
        known_pairs: Keys of the pairs whose scores came from the cache, for some metric.
        seconds: What scoring took.
    """

    scores: dict[str, np.ndarray]
    empty: np.ndarray
    very_short: np.ndarray
    truncated: dict[str, np.ndarray] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    computed_pairs: set[bytes] = field(default_factory=set)
    known_pairs: set[bytes] = field(default_factory=set)
    seconds: float = 0.0

    @property
    def computed(self) -> int:
        """Number of pairs that neural metrics computed."""
        return len(self.computed_pairs)

    @property
    def cached(self) -> int:
        """Number of pairs whose scores all came from the cache."""
        return len(self.known_pairs - self.computed_pairs)


def score_documents(
    predictions: Sequence[str | None],
    references: Sequence[str | Sequence[str]],
    names: Sequence[str],
    *,
    cache: ScoreCache | None = None,
    left_out: Mapping[str, str] | None = None,
    corpus: Any = None,
    **options: Any,
) -> DocumentScores:
    """Score every document with every metric.

    A metric that raises costs its own scores and nothing else: they are NaN, counted, and the error is kept.

    Args:
        predictions: One text per document, None where the model gave none.
        references: One text, or several equally good ones, per document.
        names: Metrics by name.
        cache: Where scores of neural metrics are looked up and kept while they are computed.
        left_out: Metrics that are not computed, each with its reason, `metric_missing` or `scored_later`.
        corpus: Predictions and references of the whole evaluated set, if these documents are a part of it.
        **options: Options of the metrics.

    Returns:
        Scores and counts, documents in the order given.
    """
    started = time.monotonic()
    result = _counted(predictions, references)
    pairs = Pairs.of(predictions, references)
    options = {**options, "corpus": corpus if corpus is not None else pairs}
    left_out = dict(left_out or {})
    asked = [name for name in names if name not in left_out]
    light = [name for name in asked if not metrics.AVAILABLE[name].heavy]
    heavy = [name for name in asked if metrics.AVAILABLE[name].heavy]
    if light:
        _keep(result, _measure(predictions, references, light, options, result))
    for part, group in metrics.parts(pairs, heavy, options):
        _keep(result, _measure_neural(part, group, options, cache or ScoreCache.open("off"), result))
    for name, why in left_out.items():
        result.scores[name] = np.full(pairs.n, np.nan)
        result.reasons[f"{why}:{name}"] = pairs.n
    _complete(result, names, options)
    result.seconds = time.monotonic() - started
    return result


def _complete(result: DocumentScores, names: Sequence[str], options: dict[str, Any]) -> None:
    """Put the metrics in order, and add what is said of each: signature, and what it did not see."""
    for name in names:
        result.signatures[name] = _signature(name, options)
        if metrics.AVAILABLE[name].limited:
            flags = result.truncated.setdefault(name, np.zeros(result.empty.size, dtype=bool))
            result.reasons.update({f"{TRUNCATED}:{name}": int(flags.sum())} if flags.any() else {})
    result.scores = {name: result.scores[name] for name in names}


def _counted(predictions: Sequence[str | None], references: Sequence[Any]) -> DocumentScores:
    """Count what no metric decides: which texts are blank or very short."""
    empty = np.array([metrics.is_blank(text) for text in predictions], dtype=bool)
    blank = np.array([_all_blank(reference) for reference in references], dtype=bool)
    very_short = (
        np.array([isinstance(text, str) and len(text.split()) == 1 for text in predictions], dtype=bool) & ~empty
    )
    result = DocumentScores({}, empty, very_short)
    if empty.any():
        result.reasons[EMPTY_PREDICTION] = int(empty.sum())
    if blank.any():
        result.reasons[BLANK_REFERENCE] = int(blank.sum())
    return result


def _keep(result: DocumentScores, measured: Measured) -> None:
    result.scores |= measured.scores
    result.truncated |= measured.truncated


def _measure(
    predictions: Sequence[str | None],
    references: Sequence[Any],
    names: Sequence[str],
    options: dict[str, Any],
    result: DocumentScores,
) -> Measured:
    """Measure with all metrics at once; where that fails, one at a time, so that only the faulty one has no scores."""
    try:
        return metrics.measure(predictions, references, metrics=list(names), **options)
    except Exception:
        logger.exception("scoring with %s failed; trying one metric at a time", ", ".join(names))
    measured = Measured({})
    for name in names:
        try:
            found = metrics.measure(predictions, references, metrics=[name], **options)
        except Exception as error:
            result.errors[name] = f"{type(error).__name__}: {error}"
            result.reasons[f"{METRIC_ERROR}:{name}"] = result.empty.size
            logger.error(
                "metric %s failed (%s); its scores are NaN, the other metrics and all answers are safe", name, error
            )
            found = Measured({name: np.full(len(predictions), np.nan)})
        measured.scores |= found.scores
        measured.truncated |= found.truncated
    return measured


def _measure_neural(
    pairs: Pairs, names: Sequence[str], options: dict[str, Any], cache: ScoreCache, result: DocumentScores
) -> Measured:
    """Measure what the cache does not hold, each distinct pair once, and put it there as it is computed."""
    keys = [key(prediction, texts) for prediction, texts in zip(pairs.predictions, pairs.references, strict=True)]
    signatures = {name: _signature(name, options) for name in names}
    known = {name: _look_up(cache, signatures[name], keys) for name in names}
    open_pairs = _open_pairs(keys, names, known)
    for names_asked, places in open_pairs.items():
        chosen = [pairs.predictions[place] for place in places], [pairs.references[place] for place in places]

        def report(name: str, row: int, value: float, cut: bool, places: list[int] = places) -> None:
            if _ABSENT not in signatures[name]:
                cache.put(signatures[name], keys[places[row]], value, cut)

        found = _measure(*chosen, names_asked, {**options, "report": report}, result)
        for name in names_asked:
            cuts = found.truncated.get(name, np.zeros(len(places), dtype=bool))
            for place, value, cut in zip(places, found.scores[name], cuts, strict=True):
                known[name][keys[place]] = float(value), bool(cut)
        if not set(names_asked) <= set(result.errors):
            result.computed_pairs |= {keys[place] for place in places}
    cache.flush()
    result.known_pairs |= set(keys) - {keys[place] for places in open_pairs.values() for place in places}
    return _spread(pairs, names, keys, known, options, result)


def _look_up(cache: ScoreCache, signature: str, keys: Sequence[bytes]) -> dict[bytes, tuple[float, bool]]:
    """Ask the cache; not where a signature does not say which model it is, since that may be another one tomorrow."""
    return {} if _ABSENT in signature else dict(cache.get(signature, list(dict.fromkeys(keys))))


def _spread(
    pairs: Pairs,
    names: Sequence[str],
    keys: Sequence[bytes],
    known: Mapping[str, Mapping[bytes, tuple[float, bool]]],
    options: dict[str, Any],
    result: DocumentScores,
) -> Measured:
    """Give every document the score of its pair, and blank predictions theirs; count scores that are no numbers."""
    measured = Measured(
        {name: np.full(pairs.n, np.nan) for name in names},
        {name: np.zeros(pairs.n, dtype=bool) for name in names if metrics.AVAILABLE[name].limited},
    )
    for name in names:
        if name in result.errors:
            continue
        if pairs.unanswered:
            measured.scores[name][pairs.unanswered] = metrics.blank_score(name, **options)
        for row, pair in zip(pairs.scored, keys, strict=True):
            measured.scores[name][row], cut = known[name][pair]
            if name in measured.truncated:
                measured.truncated[name][row] = cut
        if n := int(np.isnan(measured.scores[name][pairs.scored]).sum()):
            result.reasons[f"{NOT_FINITE}:{name}"] = n
    return measured


def _open_pairs(
    keys: Sequence[bytes], names: Sequence[str], known: Mapping[str, Mapping[bytes, Any]]
) -> dict[tuple[str, ...], list[int]]:
    """Return the places of pairs that still have to be computed, by the metrics that they lack."""
    open_pairs: dict[tuple[str, ...], list[int]] = defaultdict(list)
    seen: set[bytes] = set()
    for place, pair in enumerate(keys):
        lacking = tuple(name for name in names if pair not in known[name])
        if lacking and pair not in seen:
            open_pairs[lacking].append(place)
        seen.add(pair)
    return dict(open_pairs)


def _signature(name: str, options: Mapping[str, Any]) -> str:
    return metrics.signature(name, **{option: value for option, value in options.items() if option != "report"})


def _all_blank(reference: str | Sequence[str]) -> bool:
    texts = [reference] if isinstance(reference, str) or reference is None else list(reference)
    return all(metrics.is_blank(text) for text in texts)
