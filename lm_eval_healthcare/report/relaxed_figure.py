"""The figure of Relaxed Perplexity: where in the model's answer a target becomes likely.

Each line is the mean over documents of -log P_i per byte of the targets, the band around it the middle half of the
documents. A document's value at a position is the sum over its targets in a list, divided by the sum of their bytes.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.curves import cross_entropies
from lm_eval_healthcare.report.data_figures import PALETTE
from lm_eval_healthcare.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.relaxed_perplexity import Matrix

ENDINGS = (".png", ".svg")
MOST_PANELS = 8
_INK = "#444444"
_MARKERS = ("o", "s", "^", "D", "v", "P")  # lines can be told apart without colours


@dataclass
class Panel:
    """What is drawn of one task of one run.

    Attributes:
        title: What stands above it.
        values: By list of targets and position, the nats per byte of each document.
        targets: By list, how many targets there are.
        documents: How many documents have a scored target.
        infinite: How many values were left out since the model rules the target out there.
    """

    title: str
    values: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    targets: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    documents: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    infinite: int = 0

    def add(self, matrix: Matrix, groups: Sequence[str], combination: str = "") -> None:
        """Take in one document.

        Args:
            matrix: Its matrix.
            groups: For each of its targets the name of the list that it is from.
            combination: How the prefixes of a position are combined, see `estimator.COMBINATIONS`.
        """
        for group in dict.fromkeys(groups):
            places = [
                place
                for place, target in enumerate(matrix.targets)
                if groups[place] == group and target.reason is None and target.bytes
            ]
            if not places:
                continue
            nats = np.sum([cross_entropies(matrix, place, combination) for place in places], axis=0)
            per_byte = nats / sum(matrix.targets[place].bytes for place in places)
            self.targets[group] += len(places)
            self.documents[group] += 1
            for position, value in zip(matrix.positions, per_byte.tolist(), strict=True):
                if np.isfinite(value):
                    self.values[group][position].append(value)
                else:
                    self.infinite += 1


def summarise(values: Mapping[int, Sequence[float]]) -> dict[str, list[float]]:
    """Return positions with mean, quartiles and number of the documents' values at each.

    Returns:
        `position`, `mean`, `low` and `high` (first and third quartile, between values interpolated), `n`.
    """
    found: dict[str, list[float]] = {name: [] for name in ("position", "mean", "low", "high", "n")}
    for position in sorted(values):
        low, high = np.quantile(values[position], (0.25, 0.75)).tolist()
        row = (position, statistics.fmean(values[position]), low, high, len(values[position]))
        for name, value in zip(found, row, strict=True):
            found[name].append(value)
    return found


def check(path: Path) -> None:
    """Say early that a figure cannot be drawn.

    Raises:
        UserError: If matplotlib is not installed, or the file's name does not end as a picture's.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"--figure {path}: expected a name that ends in {' or '.join(ENDINGS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError("figures need matplotlib: pip install 'lm_eval_healthcare[figures]'") from error


def draw(path: Path, panels: Sequence[Panel], source: str) -> Path:
    """Draw the panels into one file, whole or not at all.

    Args:
        path: Where it goes, .png or .svg; its folder is made if needed.
        panels: One for each task of each run.
        source: What stands small below: where the numbers are from and how they were measured.

    Returns:
        The file.

    Raises:
        UserError: If matplotlib is not installed, there is nothing or too much to draw, or the file cannot be written.
    """
    check(path)
    panels = [panel for panel in panels if panel.values]
    if not 1 <= len(panels) <= MOST_PANELS:
        raise UserError(
            f"--figure {path}: {len(panels)} tasks with scored targets; expected 1 to {MOST_PANELS}. Give the files "
            "of fewer runs"
        )
    picture = figure(panels, source)
    try:
        with whole_file(path) as part:
            picture.savefig(part, dpi=160)
    except OSError as error:
        raise UserError(f"--figure {path}: cannot be written ({error}); choose another folder") from error
    return path


def figure(panels: Sequence[Panel], source: str) -> Any:
    """Return the panels as a matplotlib figure that no global state knows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 1 if len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    picture = Figure(figsize=(7.6 if columns == 1 else 12.6, 0.7 + 4.3 * rows), layout="constrained")
    FigureCanvasAgg(picture)
    all_axes = picture.subplots(rows, columns, squeeze=False, sharey=True).flatten().tolist()
    for place, (axes, panel) in enumerate(zip(all_axes, panels, strict=False)):
        _draw_panel(axes, panel)
        if place % columns == 0:
            axes.set_ylabel("−log P of the target, nats per byte")
    for axes in all_axes[len(panels) :]:
        axes.remove()
    picture.suptitle("Where in the answer does the target become likely?", fontsize=12)
    infinite = sum(panel.infinite for panel in panels)
    note = f"; without {infinite:,} values of targets that the model rules out" if infinite else ""
    picture.supxlabel(
        f"line: mean over documents, dotted where most of them have ended; band: their middle half; "
        f"ring: where the target is most likely{note}\n{source}",
        fontsize=7.5, color=_INK, wrap=True,
    )  # fmt: skip
    return picture


def _draw_panel(axes: Any, panel: Panel) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    for place, (group, values) in enumerate(panel.values.items()):
        found, colour = summarise(values), PALETTE[place % len(PALETTE)]
        whole = max(1, _kept_by_half(found, panel.documents[group]))
        style: dict[str, Any] = {
            "color": colour,
            "linewidth": 1.8,
            "markersize": 4,
            "marker": _MARKERS[place % len(_MARKERS)],
        }
        part = {name: column[:whole] for name, column in found.items()}
        axes.fill_between(part["position"], part["low"], part["high"], color=colour, alpha=0.16, linewidth=0)
        axes.plot(part["position"], part["mean"], label=_label(panel, group, found), **style)
        rest = slice(max(0, whole - 1), None)
        axes.plot(found["position"][rest], found["mean"][rest], linestyle=":", markevery=slice(1, None), **style)
        _mark_lowest(axes, part, colour)
    axes.xaxis.set_major_locator(_whole_numbers())
    axes.set_xlabel("Tokens of the answer before the target")
    axes.set_title(panel.title, fontsize=10)
    axes.margins(x=0.02, y=0.12)
    axes.legend(frameon=False, fontsize=8.5, loc="best")


def _kept_by_half(found: Mapping[str, Sequence[float]], documents: int) -> int:
    """Return how many positions, from the first, still have at least half of the documents.

    Later ones are about few documents, those whose completions are long, and say little about where a target is likely.
    """
    return next((place for place, n in enumerate(found["n"]) if 2 * n < documents), len(found["n"]))


def _label(panel: Panel, group: str, found: Mapping[str, Sequence[float]]) -> str:
    """Name a line, and say where it stands for fewer documents at its end, since all completions of some ended."""
    documents, last = panel.documents[group], int(found["n"][-1])
    fewer = f", {last:,} at {found['position'][-1]:g} tokens" if last < documents else ""
    return f"{group}: {panel.targets[group]:,} targets of {documents:,} documents{fewer}"


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=9, integer=True, steps=[1, 2, 4, 8, 10], min_n_ticks=1)


def _mark_lowest(axes: Any, found: Mapping[str, Sequence[float]], colour: str) -> None:
    """Mark where the mean is lowest, that is, where the target is most likely."""
    from matplotlib.patheffects import withStroke

    lowest = min(range(len(found["mean"])), key=found["mean"].__getitem__)
    x, y = found["position"][lowest], found["mean"][lowest]
    axes.plot([x], [y], marker="o", markersize=11, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.6)
    axes.annotate(
        f"{x:g}", (x, y), (0, -16), textcoords="offset points", ha="center", fontsize=9, color=colour,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip
