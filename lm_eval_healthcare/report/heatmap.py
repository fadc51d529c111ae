"""A matrix of correlations as a picture: the number in every cell, n below it, empty cells visibly empty.

Colours run from blue over white to orange, always from -1 to 1, which people with any colour vision can tell apart.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.whole_file import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from lm_eval_healthcare.analysis.scores import Correlation

ENDINGS = (".svg", ".png")
_LOW, _MIDDLE, _HIGH = "#0072B2", "#F7F7F7", "#D55E00"
INK, EMPTY = "#333333", "#E8E8E8"


def heatmap(
    rows: Sequence[str], columns: Sequence[str], found: Mapping[tuple[str, str], Correlation], title: str
) -> Any:
    """Draw a matrix.

    Args:
        rows: Names of the rows, from above.
        columns: Names of the columns, from the left.
        found: The correlations by row and column, in either order; pairs that are not there are left empty, and so are
            those of a column with itself.
        title: What stands above it.

    Returns:
        A matplotlib figure with one text for each cell that has a coefficient.

    Raises:
        UserError: If matplotlib is not installed.
    """
    height, width = 0.34 * len(rows) + 2.6, 0.42 * len(columns) + 3.4
    figure = matplotlib_figure(max(5.0, width), max(3.6, height))
    from matplotlib.colors import LinearSegmentedColormap

    axes = figure.subplots()
    size = 7.5 if max(len(rows), len(columns)) <= 20 else 5.5
    colour_of = LinearSegmentedColormap.from_list("correlation", [_LOW, _MIDDLE, _HIGH])
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            one = found.get((row, column)) or found.get((column, row))
            _cell(axes, x, y, one, colour_of, size, itself=row == column)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size + 0.5)
    axes.set_yticks(range(len(rows)), rows, fontsize=size + 0.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, fontsize=10, loc="left")
    legend = textwrap.fill(_LEGEND, max(40, int(17 * figure.get_figwidth())))
    figure.supxlabel(legend, fontsize=6.5, color=INK, x=0.01, ha="left")
    return figure


_LEGEND = (
    "coefficient, below it the number of models; bold: the 95% interval does not hold 0; hatched: undefined, or no "
    "models; colours from -1 (blue) to 1 (orange)"
)


def _cell(axes: Any, x: int, y: int, one: Correlation | None, colour_of: Any, size: float, *, itself: bool) -> None:
    from matplotlib.patches import Rectangle

    defined = one is not None and not math.isnan(one.r)
    face = colour_of((one.r + 1) / 2) if one is not None and defined else ("white" if itself and one is None else EMPTY)
    hatch = None if defined or (itself and one is None) else "////"
    axes.add_patch(
        Rectangle(
            (x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="#BBBBBB" if hatch else "white", hatch=hatch, lw=0.5
        )
    )
    if one is None or not defined:
        return
    sure = not math.isnan(one.low) and (one.low > 0 or one.high < 0)
    dark = abs(one.r) > 0.75
    text = _shown(one.r)
    axes.text(
        x, y, f"{text}\n{one.n}", ha="center", va="center", fontsize=size - 1.5, color="white" if dark else INK,
        fontweight="bold" if sure else "normal", linespacing=0.95,
    )  # fmt: skip


def _shown(r: float) -> str:
    """Return a coefficient with two decimals, without the 0 before them, and with a real minus sign."""
    rounded = round(r, 2)
    whole = abs(rounded) in (0.0, 1.0)
    text = f"{abs(rounded):.0f}" if whole else f"{abs(rounded):.2f}".lstrip("0")
    return ("\u2212" if rounded < 0 else "") + text


def save(figure: Any, path: Path) -> None:
    """Write a figure as `.svg`, `.png` or `.pdf`, whole or not at all.

    Raises:
        UserError: If it cannot be written.
    """
    from matplotlib import rc_context

    # Texts that can be searched, and no dates or random names, so that equal figures give equal files.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "lm_eval_healthcare", "pdf.fonttype": 42}
    dates: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        with whole_file(path) as part, rc_context(settings), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks
            figure.savefig(part, dpi=160, metadata=dates.get(path.suffix))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error}); choose another folder") from error


def matplotlib_figure(width: float, height: float) -> Any:
    """Return an empty figure of so many inches.

    Raises:
        UserError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            "pictures need matplotlib: pip install 'lm-eval-healthcare[figures]', or leave them out with --no-figures"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")
