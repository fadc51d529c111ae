"""What was read, what was not and why, what to beware of, and how the page was made."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import fields

from lm_eval_healthcare.report.html_data import Made, Report, is_diagnostic, measure_label, shown
from lm_eval_healthcare.report.html_parts import (
    MOST_LISTED,
    Names,
    count,
    details,
    escape,
    many,
    natural,
    percent,
    plain_table,
    rest,
    scroll,
)
from lm_eval_healthcare.results.cell import GROUP, Cell, SetAside, Table

_MOST_FILES = 40
_STATES = {
    "full": ("●", "complete"), "part": ("◐", "partial, chosen"), "thin": ("◒", "not all documents scored"),
    "open": ("○", "number of documents not known"), "none": ("–", "value is NaN"),
    "aside": ("✕", "set aside only"), "gone": ("", "no result"),
}  # fmt: skip


def coverage(report: Report, names: Names) -> str:
    """Return the section that says what was read, what was not, and what to beware of."""
    table = report.table
    files = sorted({str(cell.file) for cell in table.cells})
    others = {str(aside.cell.file) for aside in table.set_aside} - set(files)
    models, tasks = {cell.model for cell in table.cells}, {cell.task for cell in table.cells}
    broken = sum(skipped.broken for skipped in table.skipped)
    tiles = [
        (len(models), "models"), (len(tasks), "tasks and groups"), (len(table.cells), "values chosen"),
        (len(table.set_aside), "values set aside"), (len(table.skipped), "files skipped"),
    ]  # fmt: skip
    body = "".join(f'<li><b class="num">{number}</b> {text}</li>' for number, text in tiles)
    out = [f'<ul class="tiles">{body}</ul>', _warnings(report, broken)]
    out.append(_state_grid(table, names))
    out.append(_thin(table.cells, names))
    out.append(_aside(table.set_aside, names))
    out.append(_skipped(table))
    listed = "".join(f"<li><code>{escape(file)}</code></li>" for file in files[:MOST_LISTED])
    more = f"; {len(others)} more hold only values that were set aside" if others else ""
    out.append(details(f"Files with chosen values ({len(files)}{more})", f"<ul>{listed}</ul>{rest(len(files))}"))
    return "\n".join(out)


def _warnings(report: Report, broken: int) -> str:
    table = report.table
    found = [*report.warnings, *table.notes]
    if not table.cells:
        found.insert(0, "No value was chosen: see what was set aside and skipped, and why, below.")
    if broken:
        found.insert(0, f"{broken} files are cut, empty or no JSON: their results are missing here.")
    partial = sum(cell.complete is False for cell in table.cells)
    if partial:
        found.append(f"{partial} chosen values are from runs over a part of the documents.")
    untold = sum(cell.complete is None for cell in table.cells)
    if untold:
        found.append(f"{untold} chosen values are from files that do not say how many documents the task has.")
    unusable = sum(cell.unusable is not None for cell in table.cells)
    if unusable:
        found.append(f"{unusable} chosen values are marked as unusable by the run itself.")
    thin = sum(cell.coverage < 1 for cell in table.cells)
    if thin:
        found.append(f"{thin} chosen values leave out documents that got no score; their coverage is below 100%.")
    chosen = {(cell.model, cell.task) for cell in table.cells}
    lost = {(one.cell.model, one.cell.task) for one in table.set_aside if one.cell.kind != GROUP} - chosen
    if lost:
        pairs = "1 pair" if len(lost) == 1 else f"{len(lost)} pairs"
        found.append(f"{pairs} of model and task with results that were all set aside.")
    if not found:
        return '<p class="good">No warnings: every chosen value is of a complete run.</p>'
    items = "".join(f"<li>{escape(text)}</li>" for text in dict.fromkeys(found))
    return f'<div class="warn" role="note"><h3>Before you compare</h3><ul>{items}</ul></div>'


def _state_grid(table: Table, names: Names) -> str:
    """Return models by tasks, with one sign for what there is."""
    states: dict[tuple[str, str], str] = {}
    for aside in table.set_aside:
        states[aside.cell.model, aside.cell.task] = "aside"
    order = list(_STATES)
    per_cell: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in table.cells:
        if not is_diagnostic(cell.metric):
            per_cell[cell.model, cell.task].append(_state(cell))
    states |= {key: max(found, key=order.index) for key, found in per_cell.items()}
    if not states:
        return ""
    models = sorted({m for m, _ in states}, key=lambda model: natural(names.plain(model)))
    tasks = sorted({t for _, t in states}, key=natural)
    head = "".join(f'<th scope="col"><bdi>{escape(task)}</bdi></th>' for task in tasks)
    rows = []
    for model in models:
        tds = []
        for task in tasks:
            state = states.get((model, task), "gone")
            sign, meaning = _STATES[state]
            title = escape(f"{names.plain(model)}, {task}: {meaning}")
            tds.append(f'<td class="s-{state}" title="{title}">{sign}<span class="vh">{meaning}</span></td>')
        rows.append(f'<tr><th scope="row">{names(model)}</th>{"".join(tds)}</tr>')
    used = [state for state in _STATES if state in states.values() or state == "gone"]
    legend = " ".join(
        f'<span class="key"><span class="box s-{state}">{_STATES[state][0]}</span>{_STATES[state][1]}</span>'
        for state in used
    )
    return (
        f'<h3>What there is</h3><p class="legend">{legend}</p>'
        + scroll("Models by tasks: what there is",
                  f'<table class="grid{many(len(tasks))}"><thead><tr><th scope="col">Model</th>{head}</tr></thead>'
                  f"<tbody>{''.join(rows)}</tbody></table>")
    )  # fmt: skip


def _state(cell: Cell) -> str:
    if math.isnan(cell.value):
        return "none"
    if cell.complete is None:
        return "open"
    if not cell.complete:
        return "part"
    return "thin" if cell.coverage < 1 else "full"


def _thin(cells: Sequence[Cell], names: Names) -> str:
    found = [cell for cell in cells if cell.complete is False or cell.coverage < 1 or cell.unusable]
    if not found:
        return ""
    rows = [
        [names(c.model), escape(c.task), escape(measure_label((c.metric, c.filter))), shown(c.value), count(c),
         percent(c.coverage), escape(c.unusable or "")]
        for c in found[:MOST_LISTED]
    ]  # fmt: skip
    head = ["Model", "Task", "Metric", "Value", "Documents", "Coverage", "The run itself says"]
    return details(
        f"Chosen values that are partial, unusable or do not cover all documents ({len(found)})",
        plain_table(head, rows, "Partial, unusable and low-coverage values") + rest(len(found)),
        is_open=len(found) <= 12,
    )


def _aside(aside: Sequence[SetAside], names: Names) -> str:
    if not aside:
        return ""
    # Behind these stand files and counts, which would make every reason another one.
    reasons = Counter(re.split(r": | by | \(", one.reason, maxsplit=1)[0] for one in aside)
    items = "".join(f"<li><b class='num'>{n}</b> {escape(reason)}</li>" for reason, n in reasons.most_common(20))
    rows = [
        [names(one.cell.model), escape(one.cell.task), escape(measure_label((one.cell.metric, one.cell.filter))),
         shown(one.cell.value), count(one.cell), escape(one.reason), escape(one.cell.file.name)]
        for one in aside[:MOST_LISTED]
    ]  # fmt: skip
    head = ["Model", "Task", "Metric", "Value", "Documents", "Reason", "File"]
    return f"<h3>Set aside</h3><ul>{items}</ul>" + details(
        f"All values that were set aside ({len(aside)})",
        plain_table(head, rows, "Values set aside") + rest(len(aside)),
    )


def _skipped(table: Table) -> str:
    if not table.skipped:
        return ""
    rows = [
        [f"<code>{escape(one.file)}</code>", "broken" if one.broken else "other", escape(one.reason)]
        for one in table.skipped[:MOST_LISTED]
    ]
    return details(
        f"Skipped files ({len(table.skipped)})",
        plain_table(["File", "Kind", "Reason"], rows, "Skipped files") + rest(len(table.skipped)),
        is_open=any(one.broken for one in table.skipped) and len(rows) <= 12,
    )


def made(report: Report) -> str:
    """Return versions, rules, date and command."""
    about: Made = report.made
    harness = Counter(str(v) for c in report.table.cells if (v := c.extra.get("lm_eval_version")))
    rules = "".join(
        f"<li><code>{escape(f.name)}</code>: {escape(getattr(about.rules, f.name))}</li>" for f in fields(about.rules)
    )
    versions = ", ".join(f"{escape(v)} ({n} values)" for v, n in sorted(harness.items())) or "not told by the files"
    methods = (
        ", ".join(dict.fromkeys(escape(c.method) for pairs in report.correlations.values() for c in pairs)) or "none"
    )
    paths = "".join(f"<li><code>{escape(path)}</code></li>" for path in about.paths[:_MOST_FILES])
    if len(about.paths) > _MOST_FILES:
        paths += f"<li>and {len(about.paths) - _MOST_FILES} more</li>"
    return (
        f"<dl><dt>Date</dt><dd>{escape(about.date)}</dd><dt>Command</dt><dd><code>{escape(about.command)}</code></dd>"
        f"<dt>Paths</dt><dd><ul>{paths}</ul></dd>"
        f"<dt>lm-eval-healthcare</dt><dd>{escape(about.version)}</dd><dt>lm-eval of the runs</dt><dd>{versions}</dd>"
        f"<dt>Rules by which one value was chosen</dt><dd><ul>{rules}</ul></dd>"
        "<dt>Intervals</dt><dd>value ± 1.96 standard errors, where the file has a standard error; they say how the "
        "value would vary over other documents of the same kind, not over other prompts or seeds</dd>"
        f"<dt>Correlations</dt><dd>{methods}</dd></dl>"
        "<p>The page is one file; it loads nothing and sends nothing.</p>"
    )
