"""All metrics of two runs compared on their common documents, and scores by a column of the documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.analysis.multiplicity import HOLM, adjusted
from lm_eval_healthcare.analysis.paired_runs import BCA, RESAMPLES, Comparison, compare_paired
from lm_eval_healthcare.analysis.score_by_group import Group, Trend, group_scores, number, trend
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.paired_samples import Pairs, SampleScores, is_check
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.task_runs import directions, signatures
from lm_eval_healthcare.results.texts import NO_FILTER

NO_VALUE = "(none)"
_LEVEL = 0.05
_MOST_GROUPS = 100
_LONGEST_LABEL = 40


@dataclass(frozen=True)
class Choice:
    """What is compared and how.

    Attributes:
        metrics: Patterns of names; none for all but those that only check the scoring, such as `bleu_coverage`.
        filter: The filter; None for all that both runs have.
        cluster: The column by which documents go together; None for independent documents.
        interval: `bca` or `percentile`.
        resamples: Draws of the bootstrap.
        seed: Its seed, the same for every metric.
    """

    metrics: tuple[str, ...] = ()
    filter: str | None = None
    cluster: str | None = None
    interval: str = BCA
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True)
class MetricRow:
    """One metric of two runs.

    Attributes:
        metric: Its name.
        filters: The filter in A and in B.
        higher_is_better: The direction; None if it is not known.
        found: The comparison.
        p_holm: p after Holm's correction for all rows.
    """

    metric: str
    filters: tuple[str, ...]
    higher_is_better: bool | None
    found: Comparison
    p_holm: float = math.nan

    @property
    def name(self) -> str:
        """The metric with its filter, where that is not `none`."""
        return metric_name(self.metric, self.filters)

    @property
    def better(self) -> str | None:
        """`A` or `B` if `p_holm` is below 0.05 and the direction known; None otherwise."""
        if self.higher_is_better is None or not self.p_holm < _LEVEL or not self.found.difference:
            return None
        return "A" if (self.found.difference > 0) == self.higher_is_better else "B"


@dataclass(frozen=True)
class ByColumn:
    """One metric by a column of the documents.

    Attributes:
        name: The metric with its filter.
        groups: For each group those of the runs, in their order.
        trends: One for each run.
    """

    name: str
    groups: list[tuple[Group, ...]]
    trends: tuple[Trend, ...]


def metric_name(metric: str, filters: Sequence[str]) -> str:
    """Return a metric's name with its filter, if that is not `none`."""
    distinct = list(dict.fromkeys(filters))
    return metric if distinct == [NO_FILTER] else f"{metric}[{' / '.join(distinct)}]"


def compare_metrics(
    a: SampleScores, b: SampleScores, pairs: Pairs, choice: Choice
) -> tuple[list[MetricRow], list[str]]:
    """Compare all metrics of two runs.

    Returns:
        A row for each metric and filter, and what there is to know.

    Raises:
        ResultsError: If there is no such filter, metric or column.
    """
    codes, notes = (None, []) if choice.cluster is None else _clusters(a, b, pairs, choice.cluster)
    up = {**directions(b.of), **directions(a.of)}
    rows = []
    for filters, metrics in chosen_metrics((a, b), choice).items():
        for metric in metrics:
            found = compare_paired(
                a.scores[filters[0]][metric][pairs.a], b.scores[filters[1]][metric][pairs.b],
                np.random.default_rng(choice.seed), codes, choice.resamples, choice.interval,
            )  # fmt: skip
            rows.append((metric, filters, up.get(metric), found))
    p_holm = adjusted(np.array([row[3].p for row in rows]), HOLM)
    notes += _left_out((a, b), choice) + _incomparable(a, b, [row[0] for row in rows])
    return [MetricRow(*row, float(p)) for row, p in zip(rows, p_holm, strict=True)], notes


def chosen_metrics(runs: Sequence[SampleScores], choice: Choice) -> dict[tuple[str, ...], list[str]]:
    """Return the metrics that all runs have by the filters, one for each run, under which they are looked at.

    Raises:
        ResultsError: If there is none.
    """
    first = runs[0]
    if choice.filter is not None:
        for run in runs:
            if choice.filter not in run.scores:
                names = "; ".join(map(printable, run.scores))
                raise ResultsError(f"--filter {choice.filter}: the filters of {printable(run.of.task)} are: {names}")
        filters = [(choice.filter,) * len(runs)]
    else:
        filters = [(name,) * len(runs) for name in first.scores if all(name in run.scores for run in runs)]
        if not filters and all(len(run.scores) == 1 for run in runs):
            filters = [tuple(next(iter(run.scores)) for run in runs)]
    found: dict[tuple[str, ...], list[str]] = {}
    for at in filters:
        common = [metric for metric in first.scores[at[0]]
                  if all(metric in run.scores[name] for run, name in zip(runs, at, strict=True))]  # fmt: skip
        if metrics := [metric for metric in common if _wanted(metric, choice)]:
            found[at] = metrics
    if not found:
        what = f"matches --metric {' '.join(choice.metrics)}" if choice.metrics else "is a number for each document"
        raise ResultsError(f"no metric {what} in {' and '.join(_offer(run) for run in runs)}")
    return found


def _offer(run: SampleScores) -> str:
    names = [metric_name(metric, [name]) for name, metrics in run.scores.items() for metric in metrics]
    return f"{printable(run.of.file)} (there: {', '.join(map(printable, names)) or 'none'})"


def _wanted(metric: str, choice: Choice) -> bool:
    if choice.metrics:
        return any(fnmatchcase(metric, pattern) for pattern in choice.metrics)
    return not is_check(metric)


def _left_out(runs: Sequence[SampleScores], choice: Choice) -> list[str]:
    """Say which metrics only one run has."""
    notes = []
    for place, (name, run) in enumerate(zip("AB", runs, strict=True)):
        other = {metric for metrics in runs[1 - place].scores.values() for metric in metrics}
        alone = {m for metrics in run.scores.values() for m in metrics if m not in other and _wanted(m, choice)}
        if alone:
            notes.append(f"only {name} has {', '.join(map(printable, sorted(alone)))}")
        names = [one for one in run.scores if one not in runs[1 - place].scores]
        if names and len(run.scores) > 1 and choice.filter is None:
            notes.append(f"only {name} has the filter {'; '.join(map(printable, names))}")
    return notes


def _incomparable(a: SampleScores, b: SampleScores, metrics: Sequence[str]) -> list[str]:
    told = signatures(a.of), signatures(b.of)
    return [
        f"{printable(metric)} was computed in two ways (its signatures differ), so its values are not comparable"
        for metric in dict.fromkeys(metrics)
        if all(metric in one for one in told) and told[0][metric] != told[1][metric]
    ]


def _clusters(a: SampleScores, b: SampleScores, pairs: Pairs, column: str) -> tuple[NDArray[np.int64], list[str]]:
    """Return a number for each common document that says to which cluster it belongs."""
    having = a if any(column in document.columns for document in a.documents) else b
    having.require(column, "--cluster")
    places = pairs.a if having is a else pairs.b
    known: dict[str, int] = {}
    without, codes = 0, []
    for place in places:
        value = having.documents[place].columns.get(column)
        without += value is None
        codes.append(known.setdefault(f"={value}" if value is not None else str(place), len(known)))
    notes = [f"{without} documents have no '{column}', and are clusters of their own"] if without else []
    return np.array(codes, dtype=np.int64), notes


def labels_of(run: SampleScores, places: Sequence[int] | NDArray[np.int64], column: str, numbers: bool) -> list[str]:
    """Return the value that documents have in a column by which scores are shown.

    Args:
        run: The run.
        places: The documents.
        column: The column.
        numbers: Whether only numbers may be shown, as of credentialed data.

    Raises:
        ResultsError: If no document has it, or it is no column of groups; the message holds none of its values.
    """
    run.require(column, "--by")
    labels = [run.documents[place].columns.get(column, NO_VALUE) for place in places]
    distinct = set(labels)
    texts = {label for label in distinct - {NO_VALUE} if math.isnan(number(label))}
    if (
        len(distinct) > _MOST_GROUPS
        or any(len(label) > _LONGEST_LABEL for label in texts)
        or 2 * len(texts) > len(labels)
    ):
        raise ResultsError(
            f"--by {printable(column)}: {len(distinct)} values, which are no groups; give a column of at most "
            f"{_MOST_GROUPS} short values that documents share, such as year or category"
        )
    if numbers and texts:
        raise ResultsError(
            f"--by {printable(column)}: it holds texts of credentialed data, which are not shown; give a column "
            "of numbers"
        )
    return [printable(label) for label in labels]


def by_column(
    runs: Sequence[SampleScores], places: Sequence[NDArray[np.int64]], labels: Sequence[str], choice: Choice
) -> list[ByColumn]:
    """Return the scores of each group, on the documents that all runs have a score of.

    Args:
        runs: One run, or two.
        places: For each run, the places of the documents, the same ones in the same order.
        labels: The group of each document.
        choice: What is looked at.

    Raises:
        ResultsError: If there is no metric.
    """
    found = []
    for filters, metrics in chosen_metrics(runs, choice).items():
        for metric in metrics:
            columns = np.array(
                [run.scores[name][metric][at] for run, name, at in zip(runs, filters, places, strict=True)]
            )
            columns[:, ~np.isfinite(columns).all(axis=0)] = math.nan
            groups = list(zip(*(group_scores(column, labels) for column in columns), strict=True))
            trends = tuple(trend(column, labels) for column in columns)
            found.append(ByColumn(metric_name(metric, filters), groups, trends))
    return found


def protocol(runs: Sequence[SampleScores]) -> Mapping[str, str]:
    """Return what each run is, by its letter: model, task, documents, file."""
    return {
        letter: f"{printable(run.of.run.model)}, {printable(run.of.task)}, {len(run.documents)} documents, "
        f"{printable(run.of.file)}"
        for letter, run in zip("AB", runs, strict=False)
    }
