"""Metrics that are no scores: they tell how many documents another metric saw, or what was odd about answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_BARE = (
    "bypass", "coverage", "empty_prediction", "very_short_prediction", "cut_reasoning", "wrong_language", "truncated",
    "unparsed", "parsed", "conflicting", "context_cut", "no_tokens", "extreme_perplexity", "n", "n_samples",
    "num_samples", "sample_len", "sample_count", "total_samples",
)  # fmt: skip
_ALWAYS = ("_stderr", "_coverage", "_unparsed", "_truncated", "_conflicting")
_BESIDE = (
    "_parsed", "_unscored", "_scored", "_failed", "_failures", "_failure_rate", "_errors", "_error_rate", "_invalid",
    "_missing", "_refused", "_skipped", "_variance", "_std", "_stdev", "_n", "_count", "_num", "_n_samples", "_ci_low",
    "_ci_high", "_ci",
)  # fmt: skip
_SHARE, _REST = ("_coverage", "_parsed", "_scored"), ("_unparsed", "_unscored", "_failed", "_failure_rate")


def is_helper(metric: str, metrics: Collection[str]) -> bool:
    """Say whether a metric tells something of another one, or of the answers, rather than how good they are.

    Args:
        metric: Its name.
        metrics: All names of the same task: some endings mean this only where the metric itself is there.
    """
    if metric in _BARE or metric.endswith(_ALWAYS):
        return True
    base = _base(metric, _BESIDE)
    # `acc_parsed` beside `acc_parsed_coverage` is a score of its own: over the answers that name an option.
    return base is not None and base in metrics and f"{metric}_coverage" not in metrics


def helpers_without_metric(metrics: Collection[str]) -> list[str]:
    """Return the helpers by their endings whose metric is not there: they may have been meant as scores."""
    endings = tuple(ending for ending in _ALWAYS if ending != "_stderr")
    return sorted(
        one for one in metrics if one not in _BARE and (base := _base(one, endings)) is not None and base not in metrics
    )


class Coverage:
    """The share of documents with a score, from what stands beside a metric."""

    def __init__(self, values: Mapping[tuple[str, str], float | None]) -> None:
        """Take all values of a task by metric and filter; None for what is no number."""
        metrics = {metric for metric, _ in values}
        self._known: dict[tuple[str, str], float] = {}
        for endings, missing in ((_REST, True), (_SHARE, False)):  # the later ones win
            for (metric, name), value in values.items():
                base = _base(metric, endings)
                share = _share(value)
                if base is not None and share is not None and is_helper(metric, metrics):
                    self._known[base, name] = 1 - share if missing else share

    def of(self, metric: str, name: str) -> float | None:
        """Return the coverage of a metric under a filter, or that of the one it is made from; None if it is not told.

        `prometheus_expected` is made from the verdicts that `prometheus` is made from.
        """
        while metric:
            if (metric, name) in self._known:
                return self._known[metric, name]
            metric = metric.rpartition("_")[0]
        return None


def part_of(metric: str, metrics: Collection[str], breakdown: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the metric of which another one is the score by a category, or by a judge, and the number of documents.

    Args:
        metric: The name, such as `acc_year_2020`.
        metrics: All names of the same task.
        breakdown: What the run says of its categories, by column and value.
    """
    for column, rows in breakdown.items():
        base, found, slug = metric.partition(f"_{column}_")
        if found and base in metrics:
            sizes = [
                row.get("n")
                for value, row in (rows.items() if isinstance(rows, dict) else ())
                if isinstance(row, dict) and re.sub(r"[\W_]+", "_", str(value).lower()).strip("_") == slug
            ]
            return base, sizes[0] if sizes and isinstance(sizes[0], int) else None
    base, found, judge = metric.rpartition("_judge")
    return (base if found and judge.isdigit() and base in metrics else None), None


def _base(metric: str, endings: tuple[str, ...]) -> str | None:
    ending = next((one for one in endings if metric.endswith(one) and len(metric) > len(one)), None)
    return None if ending is None else metric[: -len(ending)]


def _share(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= 1 else None
