"""The pictures of a study as SVG that stands inside a page: no style attributes, no references, every text escaped.

The page's policy allows its own style sheet only, so colours are classes, whose rules `style` returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_eval_healthcare.report.data_figures import PALETTE
from lm_eval_healthcare.report.html_data import shown
from lm_eval_healthcare.report.html_parts import escape
from lm_eval_healthcare.report.study_numbers import NEGLIGIBLE, decades, place_labels, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_eval_healthcare.report.study_numbers import Distribution, Noise

_WIDTH, _ROW = 820, 30
_LEFT, _RIGHT = 215, 650
_MOST_DOTS = 400
_BEHIND_POINT = 16


def style() -> str:
    """Return the style rules of the pictures."""
    colours = "".join(f".k{number}{{fill:{colour}}}" for number, colour in enumerate(PALETTE))
    return (
        ".study{width:100%;min-width:40rem;max-width:52rem;height:auto;display:block;margin:.4rem 0}"
        ".study text{fill:var(--fg);font-size:12px}"
        ".study .soft{fill:var(--soft);font-size:11px}.study .rule{stroke:var(--line)}.study .ink{stroke:var(--fg)}"
        f".study .mean{{fill:var(--bg);stroke:var(--fg)}}.study .dot{{fill-opacity:.6}}{colours}"
    )


def strips(rows: Sequence[Distribution], label: str, *, log: bool) -> str:
    """Return distributions, one row a metric, each with its middle half, median and mean; empty if there are none.

    Args:
        rows: The rows from above.
        label: What the axis shows.
        log: Whether the axis is logarithmic, with a place for exact zeros.
    """
    if not any(one.values for one in rows):
        return ""
    place, ticks = _log_axis(rows) if log else _plain_axis(rows)
    height = _ROW * len(rows) + 44
    out = []
    for at, text in ticks:
        out.append(f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="4" y2="{height - 38}"/>')
        out.append(f'<text class="soft" x="{at:.1f}" y="{height - 24}" text-anchor="middle">{text}</text>')
    for number, one in enumerate(rows):
        out.append(_strip(one, 4 + _ROW * number + _ROW / 2, place))
    middle = (_LEFT + _RIGHT) / 2
    out.append(f'<text class="soft" x="{middle}" y="{height - 6}" text-anchor="middle">{escape(label)}</text>')
    return _svg("".join(out), height, f"{label}, one row a metric")


def _strip(one: Distribution, y: float, place: Callable[[float], float]) -> str:
    out = [
        f'<text x="{_LEFT - 28}" y="{y + 4}" text-anchor="end">{_named(one.name, 27)}</text>',
        f'<text class="soft" x="{_RIGHT + 14}" y="{y + 4}">{escape(one.count)}</text>',
    ]
    if not one.values:
        return "".join(out) + f'<text class="soft" x="{(_LEFT + _RIGHT) / 2}" y="{y + 4}">undefined</text>'
    colour = f"k{(max(1, one.cluster) - 1) % len(PALETTE)}"
    for number, value in enumerate(_some(one.values)):
        up = ((number * 0.6180339887498949) % 1.0 - 0.5) * (_ROW - 12)
        out.append(f'<circle class="dot {colour}" cx="{place(value):.1f}" cy="{y + up:.1f}" r="2.2"/>')
    low, middle, high = (place(one.quantile(share)) for share in (0.25, 0.5, 0.75))
    out.append(f'<line class="ink" stroke-width="2" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
    out.append(f'<line class="ink" stroke-width="2" x1="{middle:.1f}" x2="{middle:.1f}" y1="{y - 7}" y2="{y + 7}"/>')
    if not math.isnan(one.mean):
        x = place(one.mean)
        title = escape(f"{one.name}: mean {shown(one.mean)}, median {shown(one.quantile(0.5))}, {one.count}")
        out.append(
            f'<path class="mean" d="M{x - 5:.1f} {y}l5 -5l5 5l-5 5z"><title>{title}</title></path>'
        )  # fmt: skip
    return "".join(out)


def _some(values: Sequence[float]) -> Sequence[float]:
    """Return as many values as can be drawn, evenly out of the sorted ones."""
    if len(values) <= _MOST_DOTS:
        return values
    return [values[round(number * (len(values) - 1) / (_MOST_DOTS - 1))] for number in range(_MOST_DOTS)]


def _log_axis(rows: Sequence[Distribution]) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    low, high = decades([value for one in rows for value in one.positive])
    zeros = any(one.zeros for one in rows)
    start = _LEFT + (26 if zeros else 0)

    def place(value: float) -> float:
        if value <= NEGLIGIBLE:
            return _LEFT
        # A quartile may lie between 0 and the least value, left of where the axis begins.
        return start + (max(low, math.log10(value)) - low) / (high - low) * (_RIGHT - start)

    ticks = [(place(10.0**power), _power(power)) for power in _powers(low, high)]
    return place, [(float(_LEFT), "0"), *ticks] if zeros else ticks


def _plain_axis(rows: Sequence[Distribution]) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    most = max((one.values[-1] for one in rows if one.values), default=0.0)
    step = 10.0 ** math.floor(math.log10(most / 2)) if most > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if most <= 6 * step * factor)
    end = max(step, math.ceil(most / step - 1e-9) * step)

    def place(value: float) -> float:
        return _LEFT + value / end * (_RIGHT - _LEFT)

    return place, [(place(step * number), f"{step * number:g}") for number in range(round(end / step) + 1)]


def _powers(low: int, high: int) -> range:
    return range(low, high + 1, max(1, math.ceil((high - low) / 8)))


def _power(power: int) -> str:
    return f'10<tspan dy="-5" font-size="9">{str(power).replace("-", "−")}</tspan>'


def metrics(rows: Sequence[Distribution], x_label: str, y_label: str) -> str:
    """Return mean variance against variance of variances, one labelled point a metric; empty if none has both above 0.

    Args:
        rows: The metrics.
        x_label: What the first axis shows.
        y_label: What the second axis shows.
    """
    rows = [one for one in rows if one.mean > 0 and one.spread > 0]
    if not rows:
        return ""
    left, top, right, bottom = 70.0, 10.0, 720.0, 330.0
    low, high = decades([one.mean for one in rows])
    below, above = decades([one.spread for one in rows])
    out = []
    for power in _powers(low, high):
        x = left + (power - low) / (high - low) * (right - left)
        out.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        out.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{_power(power)}</text>')
    for power in _powers(below, above):
        y = bottom - (power - below) / (above - below) * (bottom - top)
        out.append(f'<line class="rule" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>')
    points = [
        (left + (math.log10(one.mean) - low) / (high - low) * (right - left),
         top + (math.log10(one.spread) - below) / (above - below) * (bottom - top))
        for one in rows
    ]  # fmt: skip
    widths = [6.8 * len(shortened(one.name, 30)) for one in rows]
    boxes = place_labels(points, widths, 15.0, (left, top, right + 90, bottom), gap=8.0)
    for one, (x, height), box in zip(rows, points, boxes, strict=True):
        y, middle = bottom + top - height, bottom + top - (box[1] + box[3]) / 2
        at, anchor = (box[0], "start") if box[0] > x else (box[2], "end")
        title = escape(f"{one.name}: mean {shown(one.mean)}, variance {shown(one.spread)}, cluster {one.cluster}")
        out.append(f'<line class="rule" x1="{x:.1f}" y1="{y:.1f}" x2="{at:.1f}" y2="{middle:.1f}"/>')
        out.append(_mark(x, y, one.cluster, title))
        out.append(f'<text x="{at:.1f}" y="{middle + 4:.1f}" text-anchor="{anchor}">{_named(one.name, 30)}</text>')
    out.append(
        f'<text class="soft" x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text class="soft" x="{_BEHIND_POINT}" y="{(top + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 {_BEHIND_POINT} {(top + bottom) / 2})">{escape(y_label)}</text>'
    )
    return _svg("".join(out), int(bottom) + 44, f"{y_label} against {x_label}")


def _mark(x: float, y: float, cluster: int, title: str) -> str:
    """Return the point of a metric: clusters differ by colour, and neighbours also by shape."""
    number = max(1, cluster) - 1
    shapes = (
        f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        f"M{x - 5:.1f} {y - 5:.1f}h10v10h-10z",
        f"M{x:.1f} {y - 6:.1f}l6 11h-12z",
        f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z",
    )
    return (
        f'<path class="k{number % len(PALETTE)}" d="{shapes[number % len(shapes)]}"><title>{title}</title></path>'
    )  # fmt: skip


def bars(rows: Sequence[Noise]) -> str:
    """Return the share of prediction noise in the squared standard error of each mean; empty if there is none.

    Args:
        rows: The means.
    """
    rows = [one for one in rows if not math.isnan(one.share)]
    if not rows:
        return ""
    height, left = 22 * len(rows) + 34, _LEFT + 50
    out = []
    for number, one in enumerate(rows):
        y = 4 + 22 * number
        wide = (_RIGHT - left) * one.share
        out.append(
            f'<text x="{left - 10}" y="{y + 13}" text-anchor="end">{_named(one.name, 37)}</text>'
            f'<rect class="k0" x="{left}" y="{y}" width="{wide:.1f}" height="17"/>'
            f'<rect class="k1" x="{left + wide:.1f}" y="{y}" width="{_RIGHT - left - wide:.1f}" height="17"/>'
            f'<text class="soft" x="{_RIGHT + 14}" y="{y + 13}">± {shown(one.se)}, {one.share:.0%} prediction</text>'
        )
    for share in (0, 0.5, 1):
        x = left + share * (_RIGHT - left)
        out.append(f'<text class="soft" x="{x}" y="{height - 12}" text-anchor="middle">{share:.0%}</text>')
    return _svg("".join(out), height, "share of prediction noise in the squared standard error")


def _named(name: str, length: int) -> str:
    short = shortened(name, length)
    return escape(short) + (f"<title>{escape(name)}</title>" if short != name else "")


def _svg(body: str, height: float, label: str) -> str:
    return (
        f'<svg class="study" role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}">{body}</svg>'
    )
