"""Pictures of self-consistency and of resilience to rewording: distributions, metrics side by side, sources of noise.

They are the counterparts of figures 13 and 14 (resilience) and 15 and 16 (self-consistency) of "Automatic Evaluation of
Healthcare LLMs Beyond Question-Answering". Colours are Okabe and Ito's; clusters also differ by their marks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.report.data_figures import PALETTE
from lm_eval_healthcare.report.heatmap import INK, matplotlib_figure, save
from lm_eval_healthcare.report.study_numbers import (
    NEGLIGIBLE,
    RESILIENCE,
    coefficients,
    decades,
    distributions,
    noises,
    place_labels,
    shortened,
)

if TYPE_CHECKING:
    from lm_eval_healthcare.report.study_numbers import Distribution, Noise

logger = logging.getLogger(__name__)

ENDINGS = (".svg", ".png", ".pdf")
MARKERS = "os^Dv*PX"
_BLUE, _ORANGE, _GREY = PALETTE[0], PALETTE[1], "#BBBBBB"
_MOST_DOTS = 300
_MOST_NOISES = 40
_READING = (
    "dots or shape: one variance a question, divided by the squared range of the metric; line: middle half; bar: "
    "median; diamond: mean; at 0: how many are exactly 0"
)
_READING_CV = (
    "standard deviation divided by the mean, one value a question and model that has one; line: middle half; bar: "
    "median; diamond: mean"
)


def draw(study: Mapping[str, Any], folder: Path, ending: str) -> list[Path]:
    """Draw what there is to draw of a study; a picture without a number is left out, with a warning that says so.

    Args:
        study: The content of `consistency.json` or `resilience.json`.
        folder: Where the pictures go; made if needed.
        ending: `.png`, `.svg` or `.pdf`.

    Returns:
        The files: `<study>_variances`, `<study>_metrics`, and for self-consistency `<study>_cv` and `<study>_noise`.

    Raises:
        UserError: If matplotlib is not installed, the ending is another, or a file cannot be written.
    """
    ending = ending if ending.startswith(".") else f".{ending}"
    if ending not in ENDINGS:
        raise UserError(f"pictures as '{ending}': expected one of {', '.join(ENDINGS)}")
    resilient = study.get("study") == RESILIENCE
    name = "resilience" if resilient else "consistency"
    pictures: dict[str, tuple[str, Callable[[], Any]]] = {
        "variances": ("scaled variance", lambda: variance_figure(study)),
        "metrics": ("mean variance above 0", lambda: metric_figure(study)),
    }
    if not resilient:
        pictures["cv"] = ("coefficient of variation", lambda: coefficient_figure(study))
        pictures["noise"] = ("noise", lambda: noise_figure(study))
    made = []
    for kind, (what, make) in pictures.items():
        figure = make()
        if figure is None:
            logger.warning("no picture %s_%s: no metric has a %s", name, kind, what)
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot be made ({error}); choose another folder") from error
        save(figure, folder / f"{name}_{kind}{ending}")
        made.append(folder / f"{name}_{kind}{ending}")
    return made


def variance_figure(study: Mapping[str, Any]) -> Any:
    """Return the distributions of the scaled variances, one row a metric; None if there are none."""
    rows = distributions(study)
    if not any(one.values for one in rows):
        return None
    asked = "its answer is reworded" if study.get("study") == RESILIENCE else "it is asked again"
    title = f"Variance of a question's scores when {asked}"
    return _rows_figure(rows, title, "scaled variance", _READING, log=True)


def coefficient_figure(study: Mapping[str, Any]) -> Any:
    """Return the distributions of the coefficients of variation; None if there are none."""
    rows = coefficients(study)
    if not any(one.values for one in rows):
        return None
    title = "Coefficient of variation when asked again"
    return _rows_figure(rows, title, "standard deviation / mean", _READING_CV, log=False)


def _rows_figure(rows: Sequence[Distribution], title: str, label: str, reading: str, *, log: bool) -> Any:
    figure = matplotlib_figure(8.0, 0.42 * len(rows) + 1.7)
    axes = figure.subplots()
    low, zero = 0.0, 0.0
    if log:
        low, high = decades([value for one in rows for value in one.positive])
        zero = low - 0.09 * (high - low)
        ticks = range(low, high + 1, max(1, math.ceil((high - low) / 9)))
        zeros = [zero] if any(one.zeros for one in rows) else []
        axes.set_xlim(low - (0.16 if zeros else 0.02) * (high - low), high)
        axes.set_xticks([*zeros, *ticks], [*("0" for _ in zeros), *(f"$10^{{{tick}}}$" for tick in ticks)])
        if zeros:
            axes.axvline(low - 0.03 * (high - low), color=_GREY, lw=0.8)
    else:
        most = max((one.values[-1] for one in rows if one.values), default=1.0)
        axes.set_xlim(-0.02 * most, 1.05 * most if most > 0 else 1.0)
    for place, one in enumerate(rows):
        _row(axes, place, one, PALETTE[(one.cluster - 1) % len(PALETTE)] if one.cluster else _BLUE, low, zero, log=log)
        axes.text(1.01, place, one.count, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(rows)), [_text(one.name) for one in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E4E4E4", lw=0.6)
    axes.set_axisbelow(True)
    _finish(axes, title, label)
    _tell(figure, reading)
    return figure


def _row(axes: Any, place: int, one: Distribution, colour: str, low: float, zero: float, *, log: bool) -> None:
    if not one.values:
        axes.text(
            0.5, place, "undefined", transform=axes.get_yaxis_transform(), ha="center", va="center", fontsize=7,
            color=INK, style="italic",
        )  # fmt: skip
        return
    scale = _scale(zero, low) if log else float
    shown = [math.log10(value) for value in one.positive] if log else list(one.values)
    if len(shown) > _MOST_DOTS:
        _shape(axes, place, shown, colour)
    elif shown:
        axes.scatter(shown, [place + _offset(n) for n in range(len(shown))], s=7, color=colour, alpha=0.45, lw=0)
    if log and one.zeros:
        axes.scatter([zero], [place], s=16, facecolor="white", edgecolor=colour, lw=1.2)
        axes.text(zero, place - 0.3, f"{one.zeros:,}", ha="center", va="center", fontsize=6, color=INK)
    axes.plot([scale(one.quantile(0.25)), scale(one.quantile(0.75))], [place, place], color=INK, lw=1.6)
    axes.plot([scale(one.quantile(0.5))], [place], marker="|", ms=13, mew=1.8, color=INK)
    if not math.isnan(one.mean):
        axes.plot([scale(one.mean)], [place], marker="D", ms=5, mfc="white", mec=INK, mew=1.2)


def _scale(zero: float, low: float) -> Callable[[float], float]:
    """Return the places on a logarithmic axis; a quartile between 0 and the least value is where the axis begins."""
    return lambda value: max(low, math.log10(value)) if value > NEGLIGIBLE else zero


def _offset(number: int) -> float:
    """Return where a dot lies in its row: the same for equal data, without two neighbours on each other."""
    return ((number * 0.6180339887498949) % 1.0 - 0.5) * 0.56


def _shape(axes: Any, place: int, values: Sequence[float], colour: str) -> None:
    """Draw how dense many values are, as a shape around the row."""
    import numpy as np

    heights, edges = np.histogram(values, bins=60)
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    smooth = np.convolve(heights, kernel / kernel.sum(), mode="same")
    half = 0.36 * smooth / smooth.max()
    axes.fill_between((edges[:-1] + edges[1:]) / 2, place - half, place + half, color=colour, alpha=0.45, lw=0)


def metric_figure(study: Mapping[str, Any]) -> Any:
    """Return mean variance against variance of variances on logarithmic axes; None if no metric has both above 0."""
    every = distributions(study)
    rows = [one for one in every if one.mean > 0 and one.spread > 0]
    if not rows:
        return None
    figure = matplotlib_figure(7.0, 5.4)
    axes = figure.subplots()
    ends = [decades([one.mean for one in rows]), decades([one.spread for one in rows])]
    (left, right), (low, high) = ends
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    for axis, (start, end) in zip((axes.xaxis, axes.yaxis), ends, strict=True):
        ticks = range(start, end + 1, max(1, math.ceil((end - start) / 9)))
        axis.set_ticks(list(ticks), [f"$10^{{{tick}}}$" for tick in ticks], fontsize=8)
    wide, tall = 400.0, 290.0  # of the axes in points, nearly: labels only have to keep off each other
    points = [
        ((math.log10(one.mean) - left) / (right - left) * wide, (math.log10(one.spread) - low) / (high - low) * tall)
        for one in rows
    ]
    names = [shortened(one.name, 30) for one in rows]
    boxes = place_labels(points, [5.1 * len(name) for name in names], 9.5, (0.0, 0.0, wide, tall))
    for one, name, point, box in zip(rows, names, points, boxes, strict=True):
        _point(axes, one, name, (point[0] / wide, point[1] / tall), [x / wide for x in box[::2]],
               (box[1] + box[3]) / 2 / tall)  # fmt: skip
    axes.grid(color="#E4E4E4", lw=0.6)
    axes.set_axisbelow(True)
    asked = "an answer is reworded" if study.get("study") == RESILIENCE else "a question is asked again"
    _finish(axes, f"How far metrics move when {asked}", "mean of the scaled variances")
    axes.set_ylabel("variance of the scaled variances", fontsize=8, color=INK)
    left_out = [one.name for one in every if one not in rows]
    legend = "left and low: steady; equal colour and mark: one cluster"
    if left_out:
        legend += "; not shown, since 0 or undefined: " + ", ".join(_text(name) for name in left_out)
    _tell(figure, legend)
    return figure


def _point(
    axes: Any, one: Distribution, name: str, point: tuple[float, float], ends: Sequence[float], height: float
) -> None:
    colour = PALETTE[(one.cluster - 1) % len(PALETTE)]
    on = axes.transAxes
    near = ends[0] if ends[0] > point[0] else ends[1]
    axes.plot([point[0], near], [point[1], height], color=_GREY, lw=0.6, transform=on, zorder=1)
    axes.plot(
        [point[0]], [point[1]], MARKERS[(one.cluster - 1) % len(MARKERS)], color=colour, ms=6, transform=on,
        clip_on=False,
    )  # fmt: skip
    right = ends[0] > point[0]
    axes.text(
        ends[0] if right else ends[1], height, _escaped(name), ha="left" if right else "right", va="center",
        fontsize=8, color=INK, transform=on,
    )  # fmt: skip


def noise_figure(study: Mapping[str, Any]) -> Any:
    """Return the shares of prediction and data noise in the squared standard error of each mean; None if none has."""
    every = [one for one in noises(study) if not math.isnan(one.share)]
    if not every:
        return None
    rows: Sequence[Noise] = every[:_MOST_NOISES]
    figure = matplotlib_figure(8.0, 0.3 * len(rows) + 1.9)
    axes = figure.subplots()
    for place, one in enumerate(rows):
        axes.barh(place, one.share, color=_BLUE, height=0.72, label="prediction noise" if not place else None)
        axes.barh(
            place, 1 - one.share, left=one.share, color=_ORANGE, hatch="//", edgecolor="white", lw=0, height=0.72,
            label="data noise" if not place else None,
        )  # fmt: skip
        text = f"\u00b1 {one.se:.2g}, {one.share:.0%}"
        axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(rows)), [_text(one.name, 60) for one in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    _finish(axes, "Where the error of a mean comes from", "share of the squared standard error")
    axes.legend(fontsize=7, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    legend = (
        "blue: what asking again would change, which more answers a question lessen; orange: what other questions "
        "would change; right: standard error of the mean, and the share of prediction noise"
    )
    if len(every) > len(rows):
        legend += f"; the first {len(rows)} of {len(every)}"
    _tell(figure, legend)
    return figure


def _finish(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(label, fontsize=8, color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(_GREY)


def _text(name: str, length: int = 44) -> str:
    return _escaped(shortened(name, length))


def _escaped(text: str) -> str:
    return text.replace("$", r"\$")  # or it would be set as a formula


def _tell(figure: Any, text: str) -> None:
    """Write how to read a picture below it."""
    import textwrap

    wrapped = textwrap.fill(text, int(20 * figure.get_figwidth()))
    figure.supxlabel(wrapped, fontsize=6.5, color=INK, x=0.01, ha="left")
