"""Tables for papers and pages: LaTeX and markdown, best values marked, ties and gaps as they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath

from lm_eval_healthcare.report.export_tasks import higher_is_better, is_share
from lm_eval_healthcare.report.exports import Document, Exported, ExportError, clean, differences, flaws, percent
from lm_eval_healthcare.results.cell import Cell
from lm_eval_healthcare.results.score_matrix import column_name

BEST, SECOND = "best", "second"
_LARGE = 1e6


@dataclass(frozen=True)
class Look:
    """How a table looks.

    Attributes:
        digits: Digits behind the point; None for three, or one in percent.
        in_percent: Whether shares are told in percent.
        stderr: Whether standard errors stand behind values.
        n: Whether numbers of documents do.
        within_error: Whether values are marked that differ from the best by no more than the error of the difference.
        transpose: Whether models are the columns.
        allow_mixed: Whether columns are shown whose values were measured in different ways.
    """

    digits: int | None = None
    in_percent: bool = False
    stderr: bool = False
    n: bool = False
    within_error: bool = False
    transpose: bool = False
    allow_mixed: bool = False

    def text(self, value: float, share: bool) -> str:
        """Return a number as it is shown."""
        shown = percent(value) if share and self.in_percent else value
        digits = self.digits if self.digits is not None else (1 if share and self.in_percent else 3)
        text = f"{shown:.{digits}e}" if abs(shown) >= _LARGE else f"{shown:.{digits}f}"
        return text.removeprefix("-") if Decimal(text) == 0 else text


@dataclass(frozen=True)
class Entry:
    """One value of a table.

    Attributes:
        cell: Where it is from.
        text: The number as it is shown.
        mark: `best`, `second` or empty.
        close: Whether it differs from the best by no more than the standard error of the difference.
        doubtful: Whether it is shown only because flaws were allowed.
    """

    cell: Cell
    text: str
    mark: str = ""
    close: bool = False
    doubtful: bool = False


@dataclass
class Grid:
    """A table before it is written.

    Attributes:
        models: One a row.
        columns: Names and directions, one a column.
        entries: What there is, by model and column; everything else is missing.
        notes: What stands below it.
    """

    models: list[str]
    columns: dict[str, bool | None]
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def grid(cells: Sequence[Cell], look: Look) -> Grid:
    """Lay values out, mark the best and the second best of each column, and collect what must be said.

    Marks go by the numbers as they are shown: values that look equal are equally good. All that tie for the best are
    best; there is a second only if the best is one. Nothing is marked in a column of one model, or whose direction is
    not known.

    Raises:
        ExportError: If a column holds values that were measured in different ways, unless it is allowed.
    """
    by_column: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda one: (one.task, one.metric, one.filter, one.model)):
        by_column.setdefault(column_name(cell.task, cell.metric, cell.filter), []).append(cell)
    mixed = {name: found for name, own in by_column.items() if (found := differences(own))}
    if mixed and not look.allow_mixed:
        lines = [f"{clean(name)}: {'; '.join(found)}" for name, found in mixed.items()]
        raise ExportError(
            "values that were measured in different ways do not belong side by side; choose with --where, or show them "
            "marked with --allow-mixed-protocols\n" + "\n".join(lines)
        )
    table = Grid(sorted({cell.model for cell in cells}), {})
    for name, own in by_column.items():
        directions = {higher_is_better(cell) for cell in own}
        table.columns[name] = directions.pop() if len(directions) == 1 else None
        entries = _marked([_entry(cell, look, name in mixed) for cell in own], table.columns[name], look)
        table.entries |= {(entry.cell.model, name): entry for entry in entries}
    table.notes = _notes(table, mixed, look)
    return table


def _entry(cell: Cell, look: Look, mixed: bool) -> Entry:
    return Entry(cell, look.text(cell.value, is_share(cell)), doubtful=mixed or bool(flaws(cell)))


def _marked(entries: list[Entry], higher: bool | None, look: Look) -> list[Entry]:
    if higher is None or len(entries) < 2:
        return entries
    ranks = sorted({Decimal(entry.text) for entry in entries}, reverse=higher)
    leaders = [entry for entry in entries if Decimal(entry.text) == ranks[0]]
    out = []
    for entry in entries:
        rank = ranks.index(Decimal(entry.text))
        mark = BEST if rank == 0 else SECOND if rank == 1 and len(leaders) == 1 else ""
        close = look.within_error and rank > 0 and any(_within(entry.cell, one.cell) for one in leaders)
        out.append(Entry(entry.cell, entry.text, mark, close, entry.doubtful))
    return out


def _within(one: Cell, other: Cell) -> bool:
    """Whether two values differ by no more than the standard error of their difference, taken as independent."""
    return abs(one.value - other.value) <= math.hypot(one.stderr, other.stderr)  # false where an error is not known


def _notes(table: Grid, mixed: dict[str, list[str]], look: Look) -> list[str]:
    entries = list(table.entries.values())
    notes = []
    if any(entry.mark for entry in entries):
        notes.append("Best values are marked, all of them if several tie; the second best if the best is one.")
    if any(entry.close for entry in entries):
        notes.append("≈: differs from the best by no more than the standard error of the difference.")
    if len(entries) < len(table.models) * len(table.columns):
        notes.append("–: no value.")
    if look.in_percent and any(is_share(entry.cell) for entry in entries):
        notes.append("Shares are in percent.")
    for entry in entries:
        if found := flaws(entry.cell):
            where = column_name(entry.cell.task, entry.cell.metric, entry.cell.filter)
            notes.append(f"†: {clean(entry.cell.model)}, {clean(where)}: {'; '.join(found.values())}.")
    return notes + [
        f"†: {clean(name)} was measured in different ways: {'; '.join(found)}." for name, found in mixed.items()
    ]


@dataclass(frozen=True)
class _Writing:
    """How one language writes the parts of a table."""

    escape: Callable[[str], str]
    best: str
    second: str
    up: str
    down: str
    close: str
    doubtful: str
    missing: str
    error: str
    count: str
    number: Callable[[str], str]

    def entry(self, entry: Entry | None, look: Look) -> str:
        if entry is None:
            return self.missing
        number = self.number(entry.text)
        text = {BEST: self.best, SECOND: self.second}.get(entry.mark, "%s") % number
        text += (self.close if entry.close else "") + (self.doubtful if entry.doubtful else "")
        if look.stderr and math.isfinite(entry.cell.stderr):
            text += self.error % self.number(look.text(entry.cell.stderr, is_share(entry.cell)))
        if look.n and entry.cell.n is not None:
            text += self.count % entry.cell.n
        return text

    def heading(self, name: str, higher: bool | None) -> str:
        return self.escape(clean(name)) + ("" if higher is None else f" {self.up if higher else self.down}")

    def rows(self, table: Grid, look: Look) -> list[list[str]]:
        heads = [self.heading(name, higher) for name, higher in table.columns.items()]
        rows = [[self.escape("Model"), *heads]]
        for model in table.models:
            own = [self.entry(table.entries.get((model, name)), look) for name in table.columns]
            rows.append([self.escape(clean(model)), *own])
        return [list(row) for row in zip(*rows, strict=True)] if look.transpose else rows


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"{\char34}", "`": r"\`{}", "[": "{[}", "]": "{]}", "*": "{*}",
    "≈": r"$\approx$", "†": r"$\dagger$", "–": r"\textendash{}", "±": r"$\pm$",
}  # fmt: skip
_MARKDOWN = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
_MARKDOWN |= {letter: f"\\{letter}" for letter in "\\`*_[]{}~|$#!"}


def escape_latex(text: str) -> str:
    """Return a text that LaTeX sets letter by letter; a row may begin with it."""
    plain = "".join(_TEX.get(letter, letter) for letter in re.sub(r"\s+", " ", text))
    return re.sub(r"(?<=-)-", "{}-", plain) if "--" in text else plain


def escape_markdown(text: str) -> str:
    """Return a text that stays one cell of a table and neither markup, link nor mention."""
    plain = "".join(_MARKDOWN.get(letter, letter) for letter in re.sub(r"\s+", " ", text))
    return re.sub(r":(?=//)", "&#58;", re.sub(r"(?i)(?<=\bwww)\.", "&#46;", plain))


_AS_LATEX = _Writing(
    escape_latex, r"\textbf{%s}", r"\underline{%s}", r"$\uparrow$", r"$\downarrow$", r"$^{\approx}$", r"$^{\dagger}$",
    r"\textendash{}", r" {\scriptsize $\pm$\,%s}", r" {\scriptsize ($n$=%d)}", lambda text: text.replace("-", "$-$", 1),
)  # fmt: skip
_AS_MARKDOWN = _Writing(
    escape_markdown, "**%s**", "<ins>%s</ins>", "↑", "↓", " ≈", " †", "–", " ± %s", " (n=%d)", lambda text: text
)


def latex(cells: Sequence[Cell], look: Look, name: str) -> Exported:
    r"""Make one file with a `table` that needs nothing but `\usepackage{booktabs}`.

    Args:
        cells: What is shown.
        look: How.
        name: The file's name.
    """
    table = grid(cells, look)
    heading, *rows = [" & ".join(row) + r" \\" for row in _AS_LATEX.rows(table, look)]
    width = len(table.models if look.transpose else table.columns)
    lines = [
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * width}}}", r"\toprule", heading, r"\midrule",
        *rows, r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    lines += [rf"\par {{\footnotesize {escape_latex(note)}}}" for note in table.notes]
    return _one_file(name, [*lines, r"\end{table}"])


def markdown(cells: Sequence[Cell], look: Look, name: str) -> Exported:
    """Make one file with a table as GitHub shows it.

    Args:
        cells: What is shown.
        look: How.
        name: The file's name.
    """
    table = grid(cells, look)
    heading, *rows = [f"| {' | '.join(row)} |" for row in _AS_MARKDOWN.rows(table, look)]
    width = len(table.models if look.transpose else table.columns)
    lines = [heading, "| --- |" + " ---: |" * width, *rows]
    for note in table.notes:
        lines += ["", escape_markdown(note)]
    return _one_file(name, lines)


def _one_file(name: str, lines: Sequence[str]) -> Exported:
    return Exported([Document(PurePosixPath(name), "\n".join(lines) + "\n")])
