"""Which metrics exist, how they are named, and how a batch of documents is scored with several of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lm_eval_healthcare.metrics.base import Measured, Metric, Scores
from lm_eval_healthcare.metrics.bert_score import BERT_SCORE
from lm_eval_healthcare.metrics.bleu import Bleu
from lm_eval_healthcare.metrics.bleurt import Bleurt
from lm_eval_healthcare.metrics.f1_radgraph import F1RadGraph
from lm_eval_healthcare.metrics.mover_score import MoverScore
from lm_eval_healthcare.metrics.pairs import Pairs
from lm_eval_healthcare.metrics.rouge import ROUGE
from lm_eval_healthcare.metrics.rouge_unicode import ROUGE_UNICODE
from lm_eval_healthcare.metrics.sentence_sacrebleu import SentenceSacreBleu
from lm_eval_healthcare.metrics.settings import COMPUTE_OPTIONS

AVAILABLE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Bleu(),
        *ROUGE,
        SentenceSacreBleu(),
        *ROUGE_UNICODE,
        *BERT_SCORE,
        MoverScore(),
        Bleurt(),
        F1RadGraph(),
    )
}
"""Every known metric by name, in the order of result tables."""

_SEMANTIC = ("bert_score", "mover_score", "bleurt")
_ENGLISH = {"en", "eng", "english"}
_GIVEN_BY_CALLERS = ("corpus", "languages", "report")


def score(
    predictions: Sequence[str | None],
    references: Sequence[Any],
    metrics: str | Sequence[str] = "default",
    **options: Any,
) -> dict[str, Scores]:
    """Score a batch of documents.

    A document whose reference is missing or blank gets NaN from every metric; one whose prediction is missing or blank
    gets the metric's worst score. See `is_blank`. The same document gets the same score alone, in a batch and in
    another order; only a metric that weighs words by how rare they are in the evaluated set depends on that set, which
    the option `corpus` brings.

    Args:
        predictions: One text a document, shape `(n,)`; `None` where there is none.
        references: One text, or one list of texts, a document, shape `(n,)`. Blank ones in a list are left out.
        metrics: Names or sets of names as `resolve` takes them.
        **options: Options of the metrics, see `option_names`; each metric gets those it knows. Callers may also give
            `languages` (language codes of the texts), `corpus` (predictions and references of the whole evaluated set)
            and `report`, called as `report(metric, row, score, truncated)` when a neural metric has scored a document.

    Returns:
        For each metric, in the order of `resolve`, a float64 array of shape `(n,)`, in document order.

    Raises:
        TypeError: If a single string is given in place of a sequence.
        ValueError: If the lengths differ, a metric or an option is unknown, or an option's value cannot be used.
    """
    return measure(predictions, references, metrics, **options).scores


def measure(
    predictions: Sequence[str | None],
    references: Sequence[Any],
    metrics: str | Sequence[str] = "default",
    **options: Any,
) -> Measured:
    """Score a batch of documents as `score` does, and say which of them a metric did not see whole.

    Args:
        predictions: As for `score`.
        references: As for `score`.
        metrics: As for `score`.
        **options: As for `score`.

    Returns:
        Scores, and for each metric that is `limited` a bool array of shape `(n,)`.
    """
    names = resolve(metrics, options.get("languages") or ("en",))
    check_options(options)
    pairs = Pairs.of(predictions, references)
    options = {**options, "corpus": _corpus(options.get("corpus"), pairs)}
    out = Measured(
        {name: np.full(pairs.n, np.nan) for name in names},
        {name: np.zeros(pairs.n, dtype=bool) for name in names if AVAILABLE[name].limited},
    )
    for part, group in parts(pairs, names, options):
        _measure_part(part, group, options, out)
    return out


def parts(pairs: Pairs, names: Sequence[str], options: dict[str, Any]) -> list[tuple[Pairs, list[str]]]:
    """Return the documents that metrics are asked about, with the metrics that are asked about the same ones.

    Most metrics have a score for every blank prediction; the others are asked about an empty text.
    """
    asked = [name for name in names if blank_score(name, **options) is None]
    groups = [(pairs, [name for name in names if name not in asked]), (pairs.with_blanks(), asked)]
    return [(part, group) for part, group in groups if group]


def blank_score(name: str, **options: Any) -> float | None:
    """Return a metric's score of a blank prediction, or None if it is asked about an empty text."""
    return AVAILABLE[name].blank(**_options_of([name], options))


def signature(name: str, **options: Any) -> str:
    """Return the signature of a metric: equal signatures mean comparable scores.

    Raises:
        ValueError: If the metric is unknown, or no metric knows an option.
    """
    if name not in AVAILABLE:
        raise ValueError(_unknown(name))
    check_options(options)
    if options.get("corpus") is not None:
        options = {**options, "corpus": _corpus(options["corpus"], None)}
    return AVAILABLE[name].signature(**_options_of([name], options))


def missing(name: str, **options: Any) -> str | None:
    """Return what a metric lacks to be computed on this machine and how to get it, or None if it is ready.

    Raises:
        ValueError: If the metric is unknown, no metric knows an option, or an option's value cannot be used.
    """
    if name not in AVAILABLE:
        raise ValueError(_unknown(name))
    check_options(options)
    return AVAILABLE[name].missing(**_options_of([name], options))


def prepare(name: str, **options: Any) -> None:
    """Fetch what a metric needs beyond this machine, such as its model from the hub.

    Raises:
        ValueError: If it cannot be had; the text says what to do.
    """
    check_options(options)
    AVAILABLE[name].prepare(**_options_of([name], options))


def remarks(name: str, **options: Any) -> list[str]:
    """Return what a user should know of a metric with these options before it scores anything."""
    check_options(options)
    return AVAILABLE[name].remarks(**_options_of([name], options))


def option_names() -> tuple[str, ...]:
    """Return the names of the options that metrics have, for users: all but those that only callers can give."""
    names = dict.fromkeys(name for metric in AVAILABLE.values() for name in metric.options)
    return tuple(dict.fromkeys([*(name for name in names if name not in _GIVEN_BY_CALLERS), *COMPUTE_OPTIONS]))


def check_options(options: Iterable[str]) -> None:
    """Refuse options that no metric knows.

    Raises:
        ValueError: If there is one.
    """
    known = [*sorted(option_names()), *_GIVEN_BY_CALLERS]
    for name in options:
        if name not in known:
            raise ValueError(f"unknown option {name!r}: options are {', '.join(known)}. Leave it out")


def resolve(spec: str | Sequence[str], languages: Sequence[str] = ("en",)) -> list[str]:
    """Return the names of metrics that a specification asks for, each once.

    Args:
        spec: Names of metrics and of the sets `ngram`, `default` and `all`, as a list or as one string joined by `+`
            or commas.
        languages: Language codes of the texts. Any that is not English adds the Unicode ROUGE to `ngram` and `default`.

    Raises:
        ValueError: If the specification is empty or holds an unknown name.
    """
    if spec is None:
        raise ValueError(f"no metric was named. The {_allowed()}")
    sets = _sets([languages] if isinstance(languages, str) else languages)
    parts = re.split(r"[+,]", spec) if isinstance(spec, str) else spec
    parts = [str(part).strip() for part in parts]
    names = [name for part in parts if part for name in sets.get(part, (part,))]
    if not names:
        raise ValueError(f"no metric was named in {spec!r}. The {_allowed()}")
    for name in names:
        if name not in AVAILABLE:
            raise ValueError(_unknown(name))
    return list(dict.fromkeys(names))


def register(metric: Metric) -> Metric:
    """Add a metric to `AVAILABLE` and return it.

    Raises:
        TypeError: If it is no metric.
        ValueError: If the name is taken, or is not one that `resolve` could find.
    """
    if not isinstance(metric, Metric):
        raise TypeError(f"cannot register {metric!r}: give an object of a class that is derived from metrics.Metric")
    taken = [*AVAILABLE, *_sets(["en"])]
    if metric.name in taken or not re.fullmatch(r"\w[\w.-]*", metric.name):
        raise ValueError(
            f"cannot register a metric under the name {metric.name!r}: a name is one word of letters, digits, '_', '.' "
            f"and '-', and none of {', '.join(taken)}. Choose another name"
        )
    AVAILABLE[metric.name] = metric
    return metric


def _sets(languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names behind each set."""
    ngram = ("bleu", *(metric.name for metric in ROUGE), "sacrebleu")
    if any(language.lower().split("-")[0] not in _ENGLISH for language in languages):
        ngram += tuple(metric.name for metric in ROUGE_UNICODE)
    return {
        "ngram": ngram,
        "default": ngram + tuple(name for name in _SEMANTIC if name in AVAILABLE),
        "all": tuple(AVAILABLE),
    }


def _corpus(given: Any, pairs: Pairs | None) -> Pairs | None:
    """The evaluated set: what the caller says it is, else the batch itself."""
    if given is None or isinstance(given, Pairs):
        return given or pairs
    predictions, references = given
    return Pairs.of(predictions, references)


def _measure_part(pairs: Pairs, names: Sequence[str], options: dict[str, Any], out: Measured) -> None:
    """Fill in the scores of metrics that are asked about the same documents."""
    if (report := options.get("report")) is not None:
        options = {**options, "report": lambda name, row, *found: report(name, pairs.scored[row], *found)}
    computed = Measured({})
    for name in names:
        if pairs.scored and name not in computed.scores:
            found = _measure_relatives(name, names, pairs, options)
            computed.scores |= found.scores
            computed.truncated |= found.truncated
        if pairs.unanswered:
            out.scores[name][pairs.unanswered] = blank_score(name, **options)
        if pairs.scored:
            out.scores[name][pairs.scored] = computed.scores[name]
            if name in computed.truncated:
                out.truncated[name][pairs.scored] = computed.truncated[name]


def _measure_relatives(name: str, names: Sequence[str], pairs: Pairs, options: dict[str, Any]) -> Measured:
    """Return the scores of a metric and of all others asked for that share its work."""
    metric = AVAILABLE[name]
    relatives = [name]
    if metric.family is not None:
        relatives = [other for other in names if AVAILABLE[other].family == metric.family]
    found = metric.measure(relatives, pairs.predictions, pairs.references, **_options_of(relatives, options))
    for relative, values in [*found.scores.items(), *found.truncated.items()]:
        if np.shape(values) != (len(pairs.scored),):
            raise RuntimeError(
                f"metric {relative!r} returned an array of shape {np.shape(values)} for {len(pairs.scored)} documents; "
                "a metric must return one number a document"
            )
    return found


def _options_of(names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    known = {option for name in names for option in AVAILABLE[name].options}
    return {name: value for name, value in options.items() if name in known and value is not None}


_JUDGED = "prometheus"


def _unknown(name: str) -> str:
    matches = difflib.get_close_matches(name, [*AVAILABLE, *_sets(["en"])], n=1)
    hint = f" Did you mean {matches[0]!r}?" if matches else ""
    hint = " It needs a judge: give judge=... in a run, or use `lm-eval-healthcare judge`." if name == _JUDGED else hint
    return f"unknown metric {name!r}.{hint} The {_allowed()}"


def _allowed() -> str:
    return (
        f"metrics are {', '.join(AVAILABLE)}; sets are {', '.join(_sets(['en']))}. "
        "Give one or several, joined by '+', such as bleu+rouge1"
    )
