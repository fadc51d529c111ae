"""Figures of a benchmark's rows: categories by year, lengths by category, places of the right option.

Each figure is a PNG file. Colours are Okabe and Ito's, which people with any colour vision can tell apart; where there
are more categories than colours, hatching tells the repeated ones apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.describe import NO_CATEGORY
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.questions import Question

# Okabe and Ito, Color Universal Design (2008), without black and yellow, which carry text badly.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_DARK = tuple(int(PALETTE[0][place : place + 2], 16) / 255 for place in (1, 3, 5))  # carries white text
_HATCHES = ("", "//", "..", "xx")
_MAX_CATEGORIES = len(PALETTE) * len(_HATCHES)
OTHERS = "(others)"


def draw(
    folder: Path,
    task: str,
    described: Mapping[str, Any],
    questions: Sequence[Question],
    lengths: Mapping[str, Sequence[Sequence[int]]],
) -> list[Path]:
    """Draw what there is to draw of one task.

    Args:
        folder: Where the PNG files go; made if needed.
        task: The task's name, for titles and file names.
        described: The result of `data.describe.describe`.
        questions: The rows.
        lengths: The result of `data.describe.measure`.

    Returns:
        The files: `<task>_categories_by_year.png`, `<task>_lengths.png`, `<task>_gold_positions.png`; a figure for
        which a task has no numbers is left out.

    Raises:
        UserError: If matplotlib is not installed, or the folder cannot be written.
    """
    _matplotlib()
    made = []
    for name, make in (
        ("categories_by_year", lambda: categories_by_year(task, described)),
        ("lengths", lambda: length_figure(task, described["unit"], questions, lengths)),
        ("gold_positions", lambda: gold_figure(task, described)),
    ):
        figure = make()
        if figure is not None:
            path = folder / f"{task.replace('/', '_')}_{name}.png"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, dpi=160)
            except OSError as error:
                raise UserError(
                    f"--figures {folder}: cannot write {path.name} ({error}); give a folder that is yours"
                ) from error
            made.append(path)
    return made


def categories_by_year(task: str, described: Mapping[str, Any]) -> Any:
    """Return a stacked bar chart of rows by year and category; by category alone where rows have no year.

    Returns:
        A matplotlib figure, or None if rows have no category.
    """
    counts = described["by_category_and_year"]
    if not counts:
        return _category_bars(task, described["by_category"]) if described["by_category"] else None
    counts, years = _few(counts), list(described["by_year"])
    figure, axes = _axes(min(16.0, max(7.0, 0.75 * len(years) + 4.0)), height=max(4.4, 1.3 + 0.22 * len(counts)))
    floor = [0] * len(years)
    for place, (name, found) in enumerate(counts.items()):
        heights = [found[year] for year in years]
        bars = axes.bar(range(len(years)), heights, bottom=floor, width=0.72, label=name, **_style(place))
        if len(counts) <= len(PALETTE) and len(years) <= 10:
            _label_segments(axes, bars, heights, max(described["by_year"].values()))
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    for place, total in enumerate(floor):
        axes.annotate(f"{total:,}", (place, total), (0, 3), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(len(years)), years, **_turned(years))
    axes.set(xlabel="Year", ylabel="Questions")
    _title(figure, f"{task}: questions by year and category")
    axes.set_ylim(0, 1.1 * max(floor))  # room for the totals
    handles, labels = axes.get_legend_handles_labels()  # as they are stacked, from the top
    axes.legend(
        handles[::-1], labels[::-1], title="Category", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False
    )
    return figure


def length_figure(
    task: str, unit: str, questions: Sequence[Question], lengths: Mapping[str, Sequence[Sequence[int]]]
) -> Any:
    """Return box plots of the lengths of questions and answers by category.

    Boxes hold the middle half of the rows, the line in them is the median, whiskers reach from the 5th to the 95th
    percentile, a diamond is the mean. The scale is logarithmic where lengths differ much.

    Returns:
        A matplotlib figure, or None if there are no rows.
    """
    parts = [part for part in ("question", "answer", "option") if any(lengths[part])]
    if not parts or not questions:
        return None
    names = _category_names(questions)
    groups = {name: [p for p, q in enumerate(questions) if _name(q, names) == name] for name in names}
    if len(groups) != 1:
        groups = {**groups, "All": list(range(len(questions)))}
    else:
        groups = {"All": list(range(len(questions)))}
    figure, all_axes = _axes(
        width=3.6 * len(parts) + 1.6, height=1.6 + 0.42 * max(3, len(groups)), columns=len(parts), share=True
    )
    for axes, part in zip(all_axes if len(parts) > 1 else [all_axes], parts, strict=True):
        values = [[length for place in places for length in lengths[part][place]] for places in groups.values()]
        _boxes(axes, values)
        axes.set_yticks(range(len(groups)), list(groups))
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set(xlabel=f"Length ({unit})", title=part.capitalize() + "s")
        if part != parts[0]:
            axes.tick_params(left=False)
    _title(figure, f"{task}: lengths")
    figure.supxlabel("line: median; diamond: mean; box: middle half; whiskers: 5th to 95th percentile", fontsize=8)
    return figure


def gold_figure(task: str, described: Mapping[str, Any]) -> Any:
    """Return a bar chart of how often each place holds the right option, with the line of perfect balance.

    Returns:
        A matplotlib figure, or None for tasks without options.
    """
    found = described["gold_positions"]
    total = sum(found["counts"].values()) if found else 0
    if not total:
        return None
    names, counts = list(found["counts"]), list(found["counts"].values())
    figure, axes = _axes(width=max(5.0, 0.6 * len(names) + 2.5))
    axes.bar(range(len(names)), counts, width=0.68, color=PALETTE[0])
    for place, n in enumerate(counts):
        axes.annotate(
            f"{n:,}\n{100 * n / total:.1f} %", (place, n), (0, 3), textcoords="offset points", ha="center", fontsize=9
        )
    axes.axhline(total / len(names), color="#444444", linewidth=1.2, linestyle="--", label="equal share")
    axes.set_xticks(range(len(names)), names, **_turned(names))
    axes.set(xlabel="Right option", ylabel="Questions")
    _title(figure, f"{task}: place of the right option")
    axes.margins(y=0.16)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def _category_bars(task: str, by_category: Mapping[str, Any]) -> Any:
    counts = dict(sorted(((name, found["rows"]) for name, found in by_category.items()), key=lambda item: -item[1]))
    figure, axes = _axes(width=7.0, height=max(2.6, 1.4 + 0.28 * len(counts)))
    axes.barh(range(len(counts)), list(counts.values()), height=0.7, color=PALETTE[0])
    for place, n in enumerate(counts.values()):
        axes.annotate(f"{n:,}", (n, place), (3, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(counts)), list(counts))
    axes.set_ylim(len(counts) - 0.4, -0.6)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(_whole_numbers())
    axes.set(xlabel="Questions")
    _title(figure, f"{task}: questions by category")
    axes.margins(x=0.1)
    return figure


def _boxes(axes: Any, values: Sequence[Sequence[int]]) -> None:
    for place, row in enumerate(values):
        if row:
            axes.boxplot(
                [row], positions=[place], widths=0.55, orientation="horizontal", whis=(5, 95), showfliers=False,
                showmeans=True, patch_artist=True, manage_ticks=False,
                boxprops={"facecolor": PALETTE[4], "edgecolor": "#333333"},
                medianprops={"color": "#111111", "linewidth": 1.6},
                meanprops={"marker": "D", "markerfacecolor": PALETTE[5], "markeredgecolor": "white", "markersize": 5},
            )  # fmt: skip
    flat = sorted(length for row in values for length in row)
    high, middle = flat[min(len(flat) - 1, int(0.95 * len(flat)))], flat[len(flat) // 2]
    if middle > 0 and high > 20 * middle:
        axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.03)  # room for a mean at the very edge
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(_whole_numbers())
    axes.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes.grid(axis="y", visible=False)


def _few(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """Keep as many categories as can be told apart, the largest; the rest is one."""
    if len(counts) <= _MAX_CATEGORIES:
        return dict(counts)
    largest = sorted(counts, key=lambda name: -sum(counts[name].values()))[: _MAX_CATEGORIES - 1]
    years = next(iter(counts.values()))
    rest = {year: sum(found[year] for name, found in counts.items() if name not in largest) for year in years}
    return {**{name: found for name, found in counts.items() if name in largest}, OTHERS: rest}


def _category_names(questions: Sequence[Question]) -> list[str]:
    """Categories in order, the largest ones if there are very many, and a last one for the rest."""
    sizes: dict[str, int] = {}
    for question in questions:
        name = question.category or NO_CATEGORY
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) <= _MAX_CATEGORIES:
        return sorted(sizes, key=lambda name: (name == NO_CATEGORY, name))
    return [*sorted(sorted(sizes, key=lambda name: -sizes[name])[: _MAX_CATEGORIES - 1]), OTHERS]


def _name(question: Question, names: Sequence[str]) -> str:
    name = question.category or NO_CATEGORY
    return name if name in names else OTHERS


def _label_segments(axes: Any, bars: Any, heights: Sequence[int], tallest: int) -> None:
    for bar, height in zip(bars, heights, strict=True):
        if height > 0.035 * tallest:
            x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + height / 2
            ink = "white" if bar.get_facecolor()[:3] == _DARK else "#111111"
            axes.text(x, y, f"{height:,}", ha="center", va="center", fontsize=8, color=ink)


def _style(place: int) -> dict[str, Any]:
    hatch = _HATCHES[(place // len(PALETTE)) % len(_HATCHES)]
    return {"color": PALETTE[place % len(PALETTE)], "hatch": hatch, "edgecolor": "white", "linewidth": 0.8}


def _turned(names: Sequence[str]) -> dict[str, Any]:
    """Turn long tick labels so that they do not run into each other."""
    return {"rotation": 40, "ha": "right"} if max(map(len, names), default=0) * math.sqrt(len(names)) > 24 else {}


def _title(figure: Any, text: str) -> None:
    figure.suptitle(text, fontsize=12 if len(text) < 9 * figure.get_figwidth() else 9, wrap=True)


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=7, integer=True, min_n_ticks=1)


def _axes(width: float, height: float = 4.4, columns: int = 1, share: bool = False) -> tuple[Any, Any]:
    """Make a figure that no global state knows, so that drawing needs no display and leaves nothing open."""
    _matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, sharey=share)
    for one in axes if columns > 1 else [axes]:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", color="#dddddd", linewidth=0.7)
        one.set_axisbelow(True)
        one.yaxis.set_major_locator(_whole_numbers())
    return figure, axes


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError("figures need matplotlib: pip install 'lm_eval_healthcare[figures]'") from error
