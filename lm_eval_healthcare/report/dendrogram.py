"""Clusters of columns as a tree: near columns join early, and each group has a mark and a colour of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.report.data_figures import PALETTE
from lm_eval_healthcare.report.heatmap import matplotlib_figure

if TYPE_CHECKING:
    from lm_eval_healthcare.analysis.clusters import Clusters

_INK = "#555555"
_MARKERS = "os^Dv*PX"


def dendrogram(clusters: Clusters, title: str) -> Any:
    """Draw the tree.

    Args:
        clusters: At least two columns.
        title: What stands above it.

    Returns:
        A matplotlib figure.

    Raises:
        UserError: If matplotlib is not installed.
    """
    from scipy.cluster.hierarchy import dendrogram as tree

    figure = matplotlib_figure(7.5, 0.28 * len(clusters.names) + 1.6)
    axes = figure.subplots()
    drawn = tree(clusters.linkage, no_plot=True, labels=list(clusters.names))
    for heights, places in zip(drawn["dcoord"], drawn["icoord"], strict=True):
        axes.plot(heights, [(place - 5) / 10 for place in places], color=_INK, lw=1.2)
    label_of = dict(zip(clusters.names, clusters.labels, strict=True))
    for place, name in enumerate(drawn["ivl"]):
        group = label_of[name] - 1
        axes.plot(0, place, _MARKERS[group % len(_MARKERS)], color=PALETTE[group % len(PALETTE)], ms=6, clip_on=False)
    axes.set_yticks(range(len(drawn["ivl"])), drawn["ivl"], fontsize=8)
    axes.yaxis.tick_right()
    axes.set_xlim(max(1.02, 1.05 * float(clusters.linkage[-1][2])), 0)
    axes.set_xlabel("distance at which they join (1 - |r|)", fontsize=8)
    axes.tick_params(axis="y", length=0, pad=8)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left")
    return figure
