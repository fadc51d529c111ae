"""The overview and the benchmarks: tables of values with errors, intervals, ranks and honest marks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from lm_eval_healthcare.report.html_data import (
    BEST,
    NEAR,
    NO_FILTER,
    Breakdown,
    Measure,
    RankInterval,
    Report,
    Z,
    is_diagnostic,
    marks,
    means,
    measure_label,
    measures,
    shown,
    without_parts,
)
from lm_eval_healthcare.report.html_parts import (
    Names,
    arrow,
    count,
    details,
    escape,
    many,
    natural,
    percent,
    scroll,
    slug,
    span,
)
from lm_eval_healthcare.results.cell import GROUP, Cell, Key


def overview(report: Report, names: Names) -> str:
    """Return models by tasks, one table for each metric; the script shows one of them at a time."""
    cells = without_parts(report.table.cells)
    every = measures(cells, report.metric)
    if not every:
        return "<p>There are no values to show.</p>"
    by_measure: dict[Measure, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_measure[cell.metric, cell.filter].append(cell)
    aside = {one.cell.key: one.reason for one in report.table.set_aside}
    ranks = {one.key: one for one in report.ranks}
    options, tables = [], []
    for number, measure in enumerate(every):
        label = measure_label(measure)
        options.append(f'<option value="m-{number}">{escape(label)} ({len(by_measure[measure])})</option>')
        tables.append(
            f'<div class="measure" id="m-{number}"><h3>{escape(label)}{arrow(by_measure[measure])}</h3>'
            + _leaderboard(by_measure[measure], measure, aside, ranks, names) + "</div>"
        )  # fmt: skip
    controls = (
        '<div class="controls script"><label>Metric <select id="measure">' + "".join(options) + "</select></label>"
        '<label>Second line <select id="second"><option value="se">± standard error</option>'
        '<option value="ci">95% interval</option><option value="rk">rank, with 95% interval</option>'
        '<option value="n">documents</option>'
        '<option value="off">nothing</option></select></label></div>'
    )
    legend = (
        '<p class="legend"><span class="key"><span class="box best">★</span>best in its column, ties included</span> '
        '<span class="key"><span class="box near">≈</span>not told apart from the best: the difference is below 1.96 '
        'of its standard errors, the runs taken as independent</span> <span class="key"><span class="box gone">'
        "</span>no value, or set aside</span></p>"
    )
    return controls + legend + "\n".join(tables)


def _leaderboard(
    cells: Sequence[Cell], measure: Measure, aside: Mapping[Key, str], ranks: Mapping[Key, RankInterval], names: Names
) -> str:
    tasks = sorted({cell.task for cell in cells}, key=natural)
    other = {key for key in aside if key[2:] == measure}
    models = sorted({cell.model for cell in cells} | {key[0] for key in other if key[1] in tasks})
    groups = {cell.task for cell in cells if cell.kind == GROUP}
    by_key = {(cell.model, cell.task): cell for cell in cells}
    number, averages = means(cells)
    models.sort(key=lambda model: (-averages.get(model, -math.inf), natural(names.plain(model))))
    columns = {task: [cell for cell in cells if cell.task == task] for task in tasks}
    marked = {task: marks(column) for task, column in columns.items()}
    head = ['<th scope="col" aria-sort="none"><button type="button">Model</button></th>']
    if averages:
        head.append(
            f'<th scope="col"><button type="button" title="plain mean over the {number} tasks, of models that have '
            f'them all"><bdi>Mean of {number}</bdi></button></th>'
        )
    head += [
        f'<th scope="col"><button type="button"><bdi>{escape(task)}</bdi>'
        f"{' (group)' if task in groups else ''}{arrow(columns[task])}</button></th>"
        for task in tasks
    ]
    rows = []
    for model in models:
        tds = [f'<th scope="row">{names(model)}</th>']
        if averages:
            tds.append(_mean_cell(model, averages, number, sum((model, t) in by_key for t in set(tasks) - groups)))
        for task in tasks:
            cell = by_key.get((model, task))
            if cell is None:
                tds.append(_missing(aside.get((model, task, *measure))))
            else:
                tds.append(value_cell(cell, marked[task].get(model), _further_lines(cell, ranks.get(cell.key))))
        rows.append(f"<tr>{''.join(tds)}</tr>")
    return scroll(
        f"Models by tasks, {measure_label(measure)}",
        f'<table class="board sortable{many(len(tasks))}"><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>",
    )


def _mean_cell(model: str, averages: Mapping[str, float], number: int, have: int) -> str:
    if model in averages:
        return f'<td class="mean" data-v="{averages[model]!r}">{shown(averages[model])}</td>'
    return f'<td class="gone" title="no mean: {have} of {number} tasks">{have}/{number}</td>'


def value_cell(cell: Cell, mark: str | None = None, more: Sequence[str] = ()) -> str:
    """Return a table cell with value and standard error.

    Args:
        cell: The value.
        mark: `best`, `near` or None.
        more: Further lines as HTML, of which the page shows one at a time.
    """
    if math.isnan(cell.value):
        return f'<td class="gone" title="{escape(_about(cell))}">–</td>'
    error = "?" if math.isnan(cell.stderr) else shown(cell.stderr)
    lines = [f'<small class="se">±{error}</small>', *more]
    doubt = cell.complete is False or cell.coverage < 1 or cell.unusable
    sign = {BEST: "★", NEAR: "≈", None: ""}[mark]
    spoken = {BEST: "best", NEAR: "not told apart from the best", None: ""}[mark]
    before = f'<span class="mark" aria-hidden="true">{sign}</span><span class="vh">{spoken}</span>' if mark else ""
    note = '<span class="doubt" title="partial, unusable or not all documents scored">!</span>' if doubt else ""
    return (
        f'<td class="{mark or ""}" data-v="{cell.value!r}" title="{escape(_about(cell))}">'
        f"{before}{shown(cell.value)}{note}{''.join(lines)}</td>"
    )


def _further_lines(cell: Cell, rank: RankInterval | None) -> list[str]:
    low, high = cell.value - Z * cell.stderr, cell.value + Z * cell.stderr
    interval = "?" if math.isnan(low) else f"{shown(low)} to {shown(high)}"
    return [
        f'<small class="ci">{interval}</small>',
        f'<small class="n">{count(cell)}</small>',
        f'<small class="rk">{_rank(rank)}</small>',
    ]


def _about(cell: Cell) -> str:
    parts = [f"{cell.value!r}"]
    if not math.isnan(cell.stderr):
        parts.append(f"standard error {cell.stderr:.4g}")
    parts.append(f"{count(cell)} documents")
    if not math.isnan(cell.coverage):
        parts.append(f"coverage {percent(cell.coverage)}")
    if cell.n_shot is not None:
        parts.append(f"{cell.n_shot}-shot")
    if cell.version is not None:
        parts.append(f"version {cell.version}")
    if cell.unusable:
        parts.append(f"unusable: {cell.unusable}")
    return "; ".join(parts)


def _rank(rank: RankInterval | None) -> str:
    if rank is None or math.isnan(rank.rank):
        return "no rank"
    known = not math.isnan(rank.low) and not math.isnan(rank.high)
    return f"rank {rank.rank:g}" + (f" ({rank.low:g} to {rank.high:g})" if known else "")


def _missing(reason: str | None) -> str:
    if reason is None:
        return '<td class="gone" title="no result"><span class="vh">no result</span></td>'
    return f'<td class="gone" title="set aside: {escape(reason)}">✕<span class="vh">set aside</span></td>'


def benchmarks(report: Report, names: Names) -> str:
    """Return one part for each task: all metrics of all models, and breakdowns."""
    cells = without_parts(report.table.cells)
    by_task: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_task[cell.task].append(cell)
    parts: dict[str, list[Breakdown]] = defaultdict(list)
    for part in report.breakdowns:
        parts[part.task].append(part)
    tasks = sorted(by_task, key=natural)
    out = [
        '<p class="controls script"><label>Go to <select id="go"><option value="">choose a benchmark</option>'
        + "".join(f'<option value="{slug("b", n)}">{escape(task)}</option>' for n, task in enumerate(tasks))
        + '</select></label><button type="button" id="open-all">Open all</button></p>'
        '<div class="benches">'
    ]
    for number, task in enumerate(tasks):
        found = by_task[task]
        group = " · group" if any(cell.kind == GROUP for cell in found) else ""
        count = len({cell.model for cell in found})
        head = f"<bdi>{escape(task)}</bdi> <small>{count} model{'s' if count != 1 else ''}{group}</small>"
        main = [cell for cell in found if not is_diagnostic(cell.metric)]
        rest = [cell for cell in found if is_diagnostic(cell.metric)]
        body = [_task_table(main, names, f"{task}: metrics")] if main else []
        if rest:
            body.append(details("Coverage and other diagnostics", _task_table(rest, names, f"{task}: diagnostics")))
        body += _breakdown_tables(parts.get(task, []), names)
        opened = " open" if len(tasks) == 1 else ""
        out.append(f'<details class="bench" id="{slug("b", number)}"{opened}><summary>{head}</summary>'
                   f"{''.join(body)}</details>")  # fmt: skip
    return "\n".join(out) + "</div>"


def _task_table(cells: Sequence[Cell], names: Names, caption: str) -> str:
    every = sorted({(c.metric, c.filter) for c in cells}, key=lambda m: (m[0], m[1] != NO_FILTER, m[1]))
    by_key = {(c.model, (c.metric, c.filter)): c for c in cells}
    models = sorted({c.model for c in cells}, key=lambda model: natural(names.plain(model)))
    columns = {measure: [c for c in cells if (c.metric, c.filter) == measure] for measure in every}
    marked = {measure: {} if is_diagnostic(measure[0]) else marks(columns[measure]) for measure in every}
    head = (
        '<th scope="col"><button type="button">Model</button></th><th scope="col"><button type="button">n</button></th>'
    )
    head += '<th scope="col"><button type="button">Coverage</button></th>'
    head += "".join(
        f'<th scope="col"><button type="button">{escape(measure_label(m))}{arrow(columns[m])}</button></th>'
        for m in every
    )
    rows = []
    for model in models:
        own = [c for c in cells if c.model == model]
        known = [c.coverage for c in own if not math.isnan(c.coverage)]
        least = min(known, default=math.nan)
        tds = [
            f'<th scope="row">{names(model)}</th>',
            f'<td data-v="{own[0].n if own[0].n is not None else ""}">{span([count(c) for c in own])}</td>',
            f'<td data-v="{"" if math.isnan(least) else least}" title="least over the metrics">{percent(least)}</td>',
        ]
        for measure in every:
            cell = by_key.get((model, measure))
            tds.append(_missing(None) if cell is None else value_cell(cell, marked[measure].get(model)))
        rows.append(f"<tr>{''.join(tds)}</tr>")
    return scroll(caption, f'<table class="board sortable"><thead><tr>{head}</tr></thead>'
                            f"<tbody>{''.join(rows)}</tbody></table>")  # fmt: skip


def _breakdown_tables(parts: Sequence[Breakdown], names: Names) -> list[str]:
    out = []
    for column in dict.fromkeys(part.column for part in parts):
        own = [part for part in parts if part.column == column]
        own.sort(key=lambda part: natural(names.plain(part.model)))
        keys = dict.fromkeys(key for part in own for row in part.rows.values() for key in row)
        metrics = [key for key in keys if key != "n" and not key.endswith("_stderr")]
        values = sorted({value for part in own for value in part.rows}, key=natural)
        for number, metric in enumerate(sorted(metrics, key=lambda m: (is_diagnostic(m), m))):
            head = "".join(f'<th scope="col">{names(part.model)}</th>' for part in own)
            rows = "".join(
                f'<tr><th scope="row"><bdi>{escape(value)}</bdi></th>'
                + "".join(_breakdown_cell(part.rows.get(value, {}), metric) for part in own)
                + "</tr>"
                for value in values
            )
            table = (f'<table class="board"><thead><tr><th scope="col">{escape(column)}</th>{head}</tr></thead>'
                     f"<tbody>{rows}</tbody></table>")  # fmt: skip
            title = f"By {column}: {metric}"
            out.append(details(title, scroll(title, table), is_open=number == 0 and len(values) <= 30))
    return out


def _breakdown_cell(row: Mapping[str, float], metric: str) -> str:
    value, error = row.get(metric, math.nan), row.get(f"{metric}_stderr", math.nan)
    if math.isnan(value):
        return '<td class="gone"><span class="vh">no value</span></td>'
    n = row.get("n", math.nan)
    second = "" if math.isnan(error) else f"±{shown(error)}, "
    number = "?" if math.isnan(n) else f"{n:.0f}"
    return f'<td data-v="{value!r}">{shown(value)}<small>{second}n = {number}</small></td>'
