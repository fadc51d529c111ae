"""Small parts of the HTML report: escaping, names, tables in boxes that scroll."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from lm_eval_healthcare.report.html_data import Report, direction, short_names
from lm_eval_healthcare.results.cell import Cell

MOST_LISTED = 500
"""Rows of the longest lists; how many more there are is said below them."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def escape(value: object) -> str:
    """Return a text for HTML, inside elements and in quoted attributes.

    What HTML may not hold (control characters, lone surrogates) becomes U+FFFD.
    """
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True)


def slug(prefix: str, number: int) -> str:
    """Return the anchor of a section; names of tasks can hold anything, so numbers tell them apart."""
    return f"{prefix}-{number}"


class Names:
    """How models and tasks are shown, with the full name on hover."""

    def __init__(self, models: Iterable[str]) -> None:
        """Shorten the models' names as far as they stay distinct."""
        self._short = short_names(models)

    def plain(self, model: str) -> str:
        """Return the short name."""
        return self._short.get(model, model)

    def __call__(self, model: str) -> str:
        """Return the short name as HTML."""
        short = self.plain(model)
        return f'<span title="{escape(model)}"><bdi>{escape(short)}</bdi></span>'


def every_model(report: Report) -> list[str]:
    """Return all models, chosen and set aside, in order."""
    table = report.table
    return sorted({cell.model for cell in table.cells} | {aside.cell.model for aside in table.set_aside})


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a table whose cells are HTML already, in a box that scrolls."""
    top = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return scroll(caption, f"<table class='plain'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")


def scroll(label: str, table: str) -> str:
    """Return a table in a box that scrolls in both directions, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def details(summary: str, body: str, is_open: bool = False) -> str:
    """Return a part that opens on demand; `body` is HTML already."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{body}</details>"


def many(columns: int) -> str:
    """Return the class of tables whose headings stand upright, for more than eight columns."""
    return " many" if columns > 8 else ""


def rest(number: int) -> str:
    """Return a sentence that says that a list goes on, if it does."""
    return f"<p>The first {MOST_LISTED} of {number} are listed.</p>" if number > MOST_LISTED else ""


def arrow(cells: Sequence[Cell]) -> str:
    """Return a sign for the direction that all cells agree on."""
    return {
        True: '<span class="dir" title="higher is better">↑</span>',
        False: '<span class="dir" title="lower is better">↓</span>',
        None: '<span class="dir" title="direction not known">?</span>',
    }[direction(cells)]


def count(cell: Cell) -> str:
    """Return how many documents were scored, and of how many where not all were."""
    if cell.n is None:
        return "?"
    return f"{cell.n}" if cell.n_total in (None, cell.n) else f"{cell.n} of {cell.n_total}"


def span(texts: Sequence[str]) -> str:
    """Return distinct texts side by side."""
    return " / ".join(dict.fromkeys(texts))


def percent(share: float) -> str:
    """Return a share in percent, rounded down, so that 100% is all of them."""
    return "–" if math.isnan(share) else "100%" if share >= 1 else f"{math.floor(share * 1000) / 10:.1f}%"


def natural(text: str) -> list[tuple[int, float, str]]:
    """Return what sorts texts as people count: numbers by size, also inside a text, and lone numbers first."""
    parts = re.split(r"(\d+)", text.casefold())
    key = [(0, float(part[:300]), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part]
    return [*key, (2, 0.0, text)]
