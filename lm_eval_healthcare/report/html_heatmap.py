"""Correlations as tables whose cells are coloured: read by screen readers, printed, and explained on focus."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lm_eval_healthcare.report.html_data import shown
from lm_eval_healthcare.report.html_parts import details, escape, natural, plain_table

if TYPE_CHECKING:
    from lm_eval_healthcare.analysis.scores import Correlation

STEPS = 20
"""Colours from -1 to 1; the scale is the same in every report."""
_LOW, _MIDDLE, _HIGH = (213, 94, 0), (247, 247, 247), (0, 114, 178)  # Okabe and Ito's vermillion and blue
_EVEN = math.sqrt(1.05 * 0.05) - 0.05  # the luminance on which black and white text have the same contrast
_MOST_LISTED = 2_000
_REASONS = {"too_few_models": "fewer than 3 models have both", "constant": "one of the two is constant"}


def heatmaps(correlations: Mapping[str, Sequence[Correlation]]) -> str:
    """Return one heatmap for each title and method, and all numbers as lists.

    Args:
        correlations: Pairs of columns by title. Where there are several titles, all but the first are closed.
    """
    by_kind: dict[tuple[str, str], list[Correlation]] = defaultdict(list)
    for title, pairs in correlations.items():
        for one in pairs:
            by_kind[title, one.method].append(one)
    if not by_kind:
        return "<p>No correlations: at least three models with two columns in common are needed.</p>"
    out = [
        "<p>Each cell tells how two columns go together over the models that have both. Point at a cell, or go into "
        f"the table and use the arrow keys, for its interval and number of models. {_signs(by_kind.values())}</p>",
        _legend(),
    ]
    for number, ((title, method), found) in enumerate(by_kind.items()):
        body = _heatmap(found, number, f"{title}, {method}") + _list(found, f"{title}, {method}")
        out.append(details(f"{title} ({method.capitalize()})", body, is_open=number == 0))
    return "\n".join(out)


def _signs(found: Iterable[Sequence[Correlation]]) -> str:
    if any(flag.endswith("_reversed") for pairs in found for one in pairs for flag in one.flags):
        return "Columns of which less is better are turned round: above 0 says better here, better there."
    return "Signs are those of the values: where less is better, as with perplexities, below 0 is what one expects."


def step(r: float) -> int:
    """Return the number of the colour of a coefficient, 0 for -1 to `STEPS` for 1."""
    return round((max(-1.0, min(1.0, r)) + 1) / 2 * STEPS)


def colours() -> str:
    """Return the style rules of the colours: vermillion over white to blue, distinct with any colour vision."""
    rules = []
    for number in range(STEPS + 1):
        share = 2 * number / STEPS - 1
        end = _HIGH if share > 0 else _LOW
        rgb = [round(m + (e - m) * abs(share)) for m, e in zip(_MIDDLE, end, strict=True)]
        text = "#fff" if _luminance(rgb) < _EVEN else "#000"
        rules.append(f".c{number}{{background:rgb({rgb[0]},{rgb[1]},{rgb[2]});color:{text}}}")
    return "".join(rules)


def _luminance(rgb: Sequence[int]) -> float:
    """Return the relative luminance of a colour, from 0 to 1, as the Web Content Accessibility Guidelines define it."""
    linear = [(c / 255 + 0.055) ** 2.4 / 1.055**2.4 if c / 255 > 0.04045 else c / 255 / 12.92 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _heatmap(found: Sequence[Correlation], number: int, label: str) -> str:
    xs, ys = dict.fromkeys(c.x for c in found), dict.fromkeys(c.y for c in found)
    if set(xs) & set(ys):
        rows = columns = sorted({**xs, **ys}, key=natural)
    else:
        rows, columns = sorted(xs, key=natural), sorted(ys, key=natural)
    pairs = {(c.x, c.y): c for c in found}
    head = "".join(f'<th scope="col"><bdi>{escape(name)}</bdi></th>' for name in columns)
    body = []
    for row in rows:
        tds = "".join(_cell(row, column, pairs.get((row, column)) or pairs.get((column, row))) for column in columns)
        body.append(f'<tr><th scope="row"><bdi>{escape(row)}</bdi></th>{tds}</tr>')
    return (
        f'<div class="scroll" role="region" aria-label="{escape(label)}"><table class="heat" id="heat-{number}">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        f'<p class="readout" id="readout-{number}" role="status" aria-live="polite">&nbsp;</p>'
    )


def _cell(row: str, column: str, one: Correlation | None) -> str:
    if one is None:
        if row == column:
            return '<td class="same" title="the column itself">·</td>'
        return f'<td class="gone" title="{escape(f"{row}, {column}: not computed")}"></td>'
    title = escape(f"{row}, {column}: {_told(one)}")
    if math.isnan(one.r):
        return f'<td class="gone" title="{title}"><span class="vh">undefined</span></td>'
    few = " few" if "few_models" in one.flags else ""
    return f'<td class="c{step(one.r)}{few}" title="{title}">{_short(one.r)}</td>'


def _told(one: Correlation) -> str:
    if math.isnan(one.r):
        reason = _REASONS.get(one.reason or "", one.reason or "no reason given")
        return f"undefined, {reason}; n = {one.n}"
    parts = [f"r = {one.r:.3f}".replace("-", "−"), f"n = {one.n} models"]
    if not math.isnan(one.low) and not math.isnan(one.high):
        parts.append(f"95% interval {one.low:.2f} to {one.high:.2f}".replace("-", "−"))
    if not math.isnan(one.p):
        parts.append(_p("p", one.p))
    if not math.isnan(one.adjusted):
        parts.append(_p("adjusted p", one.adjusted))
    low, high = one.sensitivity
    if not math.isnan(low):
        parts.append(f"one model left out: {low:.2f} to {high:.2f}".replace("-", "−"))
    if not math.isnan(one.propagated):
        parts.append(f"error from the scores' own errors {one.propagated:.3f}")
    parts += [flag.replace("_", " ") for flag in one.flags]
    return "; ".join(parts)


def _p(name: str, value: float) -> str:
    return f"{name} < 0.0001" if value < 0.0001 else f"{name} = {value:.4f}"


def _short(r: float) -> str:
    text = f"{r:.2f}"
    text = "0.00" if text == "-0.00" else text
    return text.replace("-", "−").replace("0.", ".", 1) if abs(r) < 0.995 else text.replace("-", "−").rstrip("0.")


def _list(found: Sequence[Correlation], label: str) -> str:
    ordered = sorted(found, key=lambda c: (math.isnan(c.r), -abs(c.r) if not math.isnan(c.r) else 0.0, c.x, c.y))
    rows = [
        [escape(c.x), escape(c.y), shown(c.r), "" if math.isnan(c.low) else f"{shown(c.low)} to {shown(c.high)}",
         str(c.n), shown(c.p), shown(c.adjusted), escape(_REASONS.get(c.reason or "", c.reason or "")),
         escape(", ".join(flag.replace("_", " ") for flag in c.flags))]
        for c in ordered[:_MOST_LISTED] if c.x != c.y
    ]  # fmt: skip
    head = ["x", "y", "r", "95% interval", "n", "p", "adjusted p", "Undefined because", "Flags"]
    more = f"<p>The first {_MOST_LISTED} of {len(found)}.</p>" if len(found) > _MOST_LISTED else ""
    table = plain_table(head, rows, label)
    return f"<details><summary>As a list, strongest first</summary>{table}{more}</details>"


def _legend() -> str:
    boxes = "".join(f'<span class="box c{number}"></span>' for number in range(0, STEPS + 1, 2))
    return (
        f'<p class="legend"><span class="key">−1 {boxes} 1</span> <span class="key"><span class="box gone"></span>'
        'undefined or not computed</span> <span class="key"><span class="box c14 few">.4</span>fewer than 5 models'
        "</span></p>"
    )
