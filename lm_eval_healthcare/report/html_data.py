"""What the HTML report shows, brought into shape: names, which metric is which, best values, breakdowns.

Nothing here knows HTML, and nothing reads the clock.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.cell import GROUP, Cell, Key, Rules, Table
from lm_eval_healthcare.results.helper_metrics import is_helper
from lm_eval_healthcare.results.results_file import SECTION, ResultsError, read_results, task_metadata

if TYPE_CHECKING:
    from lm_eval_healthcare.analysis.scores import Correlation
    from lm_eval_healthcare.report.study_files import StudyFile

Z = 1.959963984540054
"""The 0.975 quantile of the normal distribution: value ± Z standard errors is the 95% interval."""
NO_FILTER = "none"
_PREFERRED = ("acc", "prometheus", "bert_score", "rougeL", "bleu")

Measure = tuple[str, str]
"""A metric and its filter."""


@dataclass(frozen=True)
class RankInterval:
    """The rank of one model in one column.

    Attributes:
        key: Model, task, metric and filter.
        rank: 1 is best; models with equal scores share the mean of their places.
        low: Better end of the 95% interval; NaN where there is none.
        high: Worse end.
    """

    key: Key
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Made:
    """How a report came to be.

    Attributes:
        date: When, as a text; it is printed and never computed.
        command: The command line.
        version: The pack's version.
        title: The heading.
        rules: How the values were chosen.
        paths: What was read.
    """

    date: str
    command: str
    version: str
    title: str = "Results on healthcare benchmarks"
    rules: Rules = field(default_factory=Rules)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Breakdown:
    """One task of one model by the values of one column.

    Attributes:
        model: The model.
        task: The task.
        column: The column of the rows, such as `category` or `year`.
        rows: For each value of the column: `n`, and each metric with its `<metric>_stderr`.
    """

    model: str
    task: str
    column: str
    rows: Mapping[str, Mapping[str, float]]


@dataclass
class Report:
    """Everything that a report is made from.

    Attributes:
        table: The tidy table.
        made: How the report came to be.
        breakdowns: Scores by category and the like.
        samples: What `html_samples.collect` returns; None for no sample browser.
        correlations: Drawn as heatmaps, one for each title and method.
        ranks: Ranks with intervals.
        studies: Studies of self-consistency and resilience that lie below the paths.
        warnings: What is to be said first, besides the notes of the table.
        metric: The metric that the overview begins with; None for the one with most values.
    """

    table: Table
    made: Made
    breakdowns: Sequence[Breakdown] = ()
    samples: dict[str, Any] | None = None
    correlations: Mapping[str, Sequence[Correlation]] = field(default_factory=dict)
    ranks: Sequence[RankInterval] = ()
    studies: Sequence[StudyFile] = ()
    warnings: Sequence[str] = ()
    metric: str | None = None


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the shortest ends of names, cut at `/`, that tell them apart.

    Args:
        names: Names of models, often paths.
    """
    every = list(dict.fromkeys(names))
    parts = {name: name.rstrip("/").split("/") for name in every}
    length = dict.fromkeys(every, 1)
    while True:
        short = {name: "/".join(parts[name][-length[name] :]) or name for name in every}
        counts = Counter(short.values())
        unclear = [name for name in every if counts[short[name]] > 1 and length[name] < len(parts[name])]
        if not unclear:
            return {name: text if counts[text] == 1 else name for name, text in short.items()}
        for name in unclear:
            length[name] += 1


def is_diagnostic(metric: str) -> bool:
    """Say whether a metric tells how a score came about rather than how good the answers are."""
    return is_helper(metric, ())


def without_parts(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that are not a part of another, as the accuracy in one category is."""
    return [cell for cell in cells if not cell.extra.get("part_of")]


def measures(cells: Iterable[Cell], first: str | None = None) -> list[Measure]:
    """Return every metric with its filter, the one to begin with first.

    That is `first` if it is there; then those with more values come first, and diagnostics last.

    Args:
        cells: The chosen values.
        first: A metric, or `metric,filter`.
    """
    counts = Counter((cell.metric, cell.filter) for cell in cells)

    def order(measure: Measure) -> tuple[Any, ...]:
        metric, name = measure
        preferred = _PREFERRED.index(metric) if metric in _PREFERRED else len(_PREFERRED)
        asked = first is not None and first in (metric, f"{metric},{name}")
        return not asked, is_diagnostic(metric), -counts[measure], preferred, metric, name != NO_FILTER, name

    return sorted(counts, key=order)


def measure_label(measure: Measure) -> str:
    """Return a metric as it is shown: the filter behind it where there is one."""
    metric, name = measure
    return metric if name == NO_FILTER else f"{metric} [{name}]"


def direction(cells: Iterable[Cell]) -> bool | None:
    """Return the direction that all cells agree on, or None."""
    found = {cell.higher_is_better for cell in cells}
    return next(iter(found)) if len(found) == 1 else None


def shown(value: float) -> str:
    """Return a number in about four digits; `–` if there is none."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size == 0 or 0.00005 <= size < 1:
        text = f"{value:.4f}"
    elif size < 0.00005 or size >= 100_000:
        text = f"{value:.3g}"
    else:
        text = f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:.1f}"
    return text.replace("-", "−")


BEST, NEAR = "best", "near"


def marks(cells: Sequence[Cell]) -> dict[str, str]:
    """Say which values of one column are best, and which cannot be told apart from the best.

    Best are all values that are printed as the best one is. Near is a value whose difference from it is less than
    1.96 standard errors of the difference, the runs taken as independent: sqrt(s1² + s2²). Two runs over the same
    documents usually differ by less, so this errs on the side of a tie.

    Args:
        cells: Values of one task and metric, one for each model.

    Returns:
        `best` or `near` by model; nothing if there are fewer than two values or the direction is not known.
    """
    known = [cell for cell in cells if not math.isnan(cell.value)]
    higher = direction(known)
    if len(known) < 2 or higher is None:
        return {}
    top = max(known, key=lambda cell: cell.value if higher else -cell.value)
    out = {}
    for cell in known:
        error = math.hypot(cell.stderr, top.stderr)
        if shown(cell.value) == shown(top.value):
            out[cell.model] = BEST
        elif error > 0 and abs(cell.value - top.value) < Z * error:
            out[cell.model] = NEAR
    return out


def means(cells: Sequence[Cell]) -> tuple[int, dict[str, float]]:
    """Return the number of tasks, and the plain mean over them of each model that has a value for all.

    Groups stay out, since they would count their tasks twice.

    Args:
        cells: Values of one metric.

    Returns:
        No means if there is one task only, or higher is not better everywhere.
    """
    leaves = [cell for cell in cells if cell.kind != GROUP]
    tasks = {cell.task for cell in leaves}
    if len(tasks) < 2 or direction(leaves) is not True:
        return len(tasks), {}
    values: dict[str, list[float]] = defaultdict(list)
    for cell in leaves:
        if not math.isnan(cell.value):
            values[cell.model].append(cell.value)
    return len(tasks), {m: math.fsum(v) / len(v) for m, v in values.items() if len(v) == len(tasks)}


def read_breakdowns(
    table: Table, private: Callable[[str, Mapping[str, Any]], bool], faults: list[str] | None = None
) -> list[Breakdown]:
    """Read the scores by category of the files that chosen values come from.

    Args:
        table: The tidy table.
        private: Says of a task and the content of its results file whether its data are credentialed: what such rows
            hold is not shown, not even the names of categories.
        faults: Takes what could not be read.
    """
    wanted: dict[Path, dict[tuple[str, str], float]] = defaultdict(dict)
    for cell in table.cells:
        wanted[cell.file][cell.model, cell.task] = cell.date
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    dated = sorted(wanted, key=lambda file: (max(_known(d) for d in wanted[file].values()), str(file)))
    for file in dated:
        try:
            content = read_results(file)
        except ResultsError as error:
            if faults is not None:
                faults.append(str(error))
            continue
        for model, task in sorted(wanted[file]):
            if not private(task, content):
                for column, rows in _breakdown(content, task):
                    _merge(found.setdefault((model, task, column), {}), rows)
    return [Breakdown(*key, rows=rows) for key, rows in sorted(found.items())]


def _known(date: float) -> float:
    return -math.inf if math.isnan(date) else date


def _breakdown(content: Mapping[str, Any], task: str) -> Iterable[tuple[str, dict[str, dict[str, float]]]]:
    section = task_metadata(content, task).get(SECTION)
    given = section.get("breakdown") if isinstance(section, dict) else None
    for column, rows in given.items() if isinstance(given, dict) else ():
        kept = {
            str(value): {str(key): float(number) for key, number in row.items() if isinstance(number, int | float)}
            for value, row in (rows.items() if isinstance(rows, dict) else ())
            if isinstance(row, dict)
        }
        if kept:
            yield str(column), kept


def _merge(into: dict[str, dict[str, float]], rows: Mapping[str, Mapping[str, float]]) -> None:
    for value, row in rows.items():
        into.setdefault(value, {}).update(row)
