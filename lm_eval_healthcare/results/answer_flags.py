"""What is to be known of repeated answers before their spread means anything: whether they were drawn at random at all.

A cache, greedy decoding, or a server that ignores settings gives the same answer again; its variance of 0 says nothing
about the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.results.names import printable

SINGLE_ANSWER = "single_answer"
NOT_SAMPLED = "not_sampled"
SETTINGS_UNKNOWN = "settings_unknown"
SETTINGS_MISMATCH = "settings_mismatch"
REPEATS_MISMATCH = "repeats_mismatch"
IDENTICAL_ANSWERS = "identical_answers"
FEW_DISTINCT_ANSWERS = "few_distinct_answers"
RAW_ANSWERS = "raw_answers"
LOG_MISMATCH = "per_answer_mismatch"
_COLD = 1e-5
"""Temperatures below are greedy decoding: to vLLM by its own rule, to others because no second token has a chance."""
COMPARED = ("do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
"""The arguments of generation that decide which answers are drawn."""
_FEW = 0.5
_TOLD_FROM = 0.1  # that a few questions have short answers which come again is no news
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Flag:
    """Something that is to be known of a run.

    Attributes:
        flag: Its name.
        n: How many questions it is about.
        text: What it means, in words.
    """

    flag: str
    n: int
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as it stands in files."""
        return {"flag": self.flag, "n": self.n, "text": self.text}


def sampled(settings: Mapping[str, Any]) -> bool | None:
    """Say whether arguments of generation let a model draw its answer; None if they do not tell.

    `do_sample` false, temperature 0 and a `top_k` of 1 all give the likeliest answer. Where none of them is said,
    back ends differ in what they do.
    """
    do_sample, temperature = _plain(settings.get("do_sample")), _plain(settings.get("temperature"))
    top_k, top_p = _plain(settings.get("top_k")), _plain(settings.get("top_p"))
    cold = isinstance(temperature, float) and 0 <= temperature < _COLD
    if do_sample is False or do_sample == 0 or cold or top_k == 1 or top_p == 0:
        return False
    return True if isinstance(temperature, float) and temperature > 0 else None


def flags_of(
    answers: Sequence[Sequence[str | None]],
    settings: Sequence[Mapping[str, Any]],
    *,
    declared: int | None,
    wanted: Mapping[str, Any],
    raw: tuple[str, int] = ("none", 0),
    cut_logs: int = 0,
) -> list[Flag]:
    """Look at the answers of a run.

    Args:
        answers: Those to each question.
        settings: The arguments of generation of each question.
        declared: How many answers the task says.
        wanted: The arguments of generation that the results file says.
        raw: The name of the filter, and for how many questions raw replies stand for what it made.
        cut_logs: Questions that have more or fewer scores of single answers than answers.
    """
    n = len(answers)
    flags = [*_about_settings(settings, wanted), *_about_repeats([len(own) for own in answers], declared)]
    flags += _about_repetition(answers)
    if raw[1]:
        flags.append(
            Flag(
                RAW_ANSWERS, raw[1],
                f"the filter '{printable(raw[0])}' keeps one answer a question, so all are read as the model gave them "
                f"({raw[1]} of {n} questions)",
            )
        )  # fmt: skip
    if cut_logs:
        text = f"{cut_logs} of {n} questions have another number of logged scores than of answers; what is missing is"
        flags.append(Flag(LOG_MISMATCH, cut_logs, f"{text} no score"))
    return flags


def distinct(answers: Sequence[str | None]) -> int:
    """Return how many different answers there are, blanks around them aside; missing ones do not count."""
    return len({text.strip() for text in answers if text is not None})


def _about_settings(settings: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> Iterator[Flag]:
    n = len(settings)
    known = _by_settings(settings, sampled)
    if greedy := sum(one is False for one in known):
        yield Flag(
            NOT_SAMPLED, greedy,
            f"{greedy} of {n} questions were answered without sampling, as their arguments say "
            f"({_shown(settings[known.index(False)])}): asking again gives the same answer",
        )  # fmt: skip
    if unknown := sum(one is None for one in known):
        yield Flag(
            SETTINGS_UNKNOWN, unknown,
            f"the arguments of {unknown} of {n} questions do not say the temperature, so it is not sure that answers "
            "were drawn at random",
        )  # fmt: skip
    differ = _by_settings(settings, lambda given: _differences(given, wanted))
    if n_differ := sum(map(bool, differ)):
        yield Flag(
            SETTINGS_MISMATCH, n_differ,
            f"{n_differ} of {n} questions were asked with other settings than the results file says: "
            f"{next(one for one in differ if one)}. A cache of requests may have answered; the arguments count",
        )  # fmt: skip


def _by_settings(settings: Sequence[Mapping[str, Any]], function: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    """Call a function once for all equal settings."""
    done: dict[Hashable, Any] = {}
    found = []
    for given in settings:
        key = tuple((name, str(given.get(name))) for name in COMPARED)
        if key not in done:
            done[key] = function(given)
        found.append(done[key])
    return found


def _differences(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which settings differ; a setting that either side leaves out is no difference."""
    found = [
        f"{name} {given[name]} instead of {wanted[name]}"
        for name in COMPARED
        if given.get(name) is not None
        and wanted.get(name) is not None
        and not _same(_plain(given[name]), _plain(wanted[name]))
    ]
    return printable(", ".join(found))


def _about_repeats(counts: Sequence[int], declared: int | None) -> Iterator[Flag]:
    n, most, least = len(counts), max(counts, default=0), min(counts, default=0)
    if most != least:
        fewer = sum(count < most for count in counts)
        yield Flag(
            REPEATS_MISMATCH, fewer,
            f"the questions have between {least} and {most} answers: {fewer} of {n} have fewer than {most}",
        )  # fmt: skip
    if declared is not None and declared != most:
        other = sum(count != declared for count in counts)
        yield Flag(
            REPEATS_MISMATCH, other,
            f"the results file says repeats {declared}, and {other} of {n} questions have another number of answers "
            f"(the most is {most}); all that are there count",
        )  # fmt: skip


def _about_repetition(answers: Sequence[Sequence[str | None]]) -> Iterator[Flag]:
    several = [(distinct(own), len(own)) for own in answers if len(own) > 1]
    n = len(answers)
    if same := sum(different <= 1 for different, _ in several):
        yield Flag(
            IDENTICAL_ANSWERS, same,
            f"{same} of {n} questions have {max(count for _, count in several)} identical answers: a cache, greedy "
            "decoding or a fixed seed may have given one answer again and again",
        )  # fmt: skip
    few = sum(1 < different <= _FEW * count for different, count in several)
    if few and few >= _TOLD_FROM * n:
        yield Flag(
            FEW_DISTINCT_ANSWERS, few,
            f"{few} of {n} questions have more copies than different answers, which is common for short answers only",
        )  # fmt: skip


def _shown(settings: Mapping[str, Any]) -> str:
    parts = [f"{name} {settings[name]}" for name in COMPARED if settings.get(name) is not None]
    return printable(", ".join(parts[:_MOST_SHOWN]))


def _plain(value: Any) -> bool | float | str | None:
    """Return a setting so that equal ones compare equal: numbers as floats, also those that are written as texts."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        try:
            return float(value)
        except ValueError:
            return value
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else str(value)


def _same(one: bool | float | str | None, other: bool | float | str | None) -> bool:
    return one == other
