"""Ranks of models by metric as a picture: the rank in every cell, its interval below, gaps visibly empty."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.report.heatmap import EMPTY, INK, matplotlib_figure

if TYPE_CHECKING:
    from lm_eval_healthcare.analysis.ranks import Ranks

_BEST, _WORST = "#0072B2", "#F7F7F7"
_LEGEND = (
    "rank (1 is best; equal scores share the mean of their places), below it the 95% interval from the scores' errors"
)


def rank_figure(ranks: Ranks, title: str) -> Any:
    """Draw models by columns.

    Args:
        ranks: The ranks.
        title: What stands above it.

    Returns:
        A matplotlib figure.

    Raises:
        UserError: If matplotlib is not installed.
    """
    figure = matplotlib_figure(max(5.5, 0.62 * len(ranks.names) + 3.0), max(3.2, 0.36 * len(ranks.models) + 2.4))
    from matplotlib.colors import LinearSegmentedColormap

    colour_of = LinearSegmentedColormap.from_list("rank", [_BEST, _WORST])
    axes = figure.subplots()
    for x in range(len(ranks.names)):
        for y in range(len(ranks.models)):
            _cell(axes, x, y, ranks, colour_of)
    axes.set_xlim(-0.5, len(ranks.names) - 0.5)
    axes.set_ylim(len(ranks.models) - 0.5, -0.5)
    axes.set_xticks(range(len(ranks.names)), ranks.names, rotation=90, fontsize=8)
    axes.set_yticks(range(len(ranks.models)), ranks.models, fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, fontsize=10, loc="left")
    figure.supxlabel(_LEGEND, fontsize=6.5, color=INK, x=0.01, ha="left", wrap=True)
    return figure


def _cell(axes: Any, x: int, y: int, ranks: Ranks, colour_of: Any) -> None:
    from matplotlib.patches import Rectangle

    rank, low, high = (float(part[y, x]) for part in (ranks.ranks, ranks.low, ranks.high))
    there = not math.isnan(rank)
    share = (rank - 1) / max(1, ranks.of[x] - 1) if there else 0.0
    axes.add_patch(
        Rectangle(
            (x - 0.5, y - 0.5), 1, 1, facecolor=colour_of(share) if there else EMPTY, lw=0.5,
            edgecolor="white" if there else "#BBBBBB", hatch=None if there else "////",
        )
    )  # fmt: skip
    if there:
        between = "" if math.isnan(low) else f"\n{low:g} to {high:g}"
        axes.text(
            x, y, f"{rank:g}{between}", ha="center", va="center", fontsize=6.5, linespacing=0.95,
            color="white" if share < 0.4 else INK,
        )  # fmt: skip
