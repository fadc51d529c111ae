"""A matrix as a picture: one text a cell that has a number, empty cells visibly empty."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lm_eval_healthcare.analysis.scores import Correlation

pytest.importorskip("matplotlib")


def correlation(x: str, y: str, r: float, low: float = math.nan, high: float = math.nan) -> Correlation:
    return Correlation(x, y, "spearman", r, 0.01, low, high, 12, "constant" if math.isnan(r) else None)


def test_every_number_is_written_once() -> None:
    """3 x 3 with 9 coefficients (those of a column with itself given too) has 9 texts; b59 knew of libraries with 3."""
    from lm_eval_healthcare.report.heatmap import heatmap

    names = ["a", "b", "c"]
    found = {(x, y): correlation(x, y, 1.0 if x == y else 0.5) for x in names for y in names}
    (axes,) = heatmap(names, names, found, "title").axes
    assert len(axes.texts) == 9
    assert {text.get_text() for text in axes.texts} == {"1\n12", ".50\n12"}


def test_undefined_cells_are_hatched_and_have_no_number() -> None:
    from lm_eval_healthcare.report.heatmap import heatmap

    found = {("a", "b"): correlation("a", "b", math.nan), ("a", "c"): correlation("a", "c", -0.25, -0.6, -0.1)}
    (axes,) = heatmap(["a"], ["b", "c", "d"], found, "title").axes
    assert [text.get_text() for text in axes.texts] == ["\u2212.25\n12"]
    assert axes.texts[0].get_fontweight() == "bold"
    assert [patch.get_hatch() for patch in axes.patches] == ["////", None, "////"]


def test_colours_do_not_depend_on_the_other_cells() -> None:
    from lm_eval_healthcare.report.heatmap import heatmap

    def colour(others: float) -> object:
        found = {("a", "b"): correlation("a", "b", 0.4), ("a", "c"): correlation("a", "c", others)}
        (axes,) = heatmap(["a"], ["b", "c"], found, "title").axes
        return axes.patches[0].get_facecolor()

    assert colour(0.1) == colour(-0.9)


def test_ranks_have_a_text_for_each_model_that_has_one() -> None:
    import numpy as np

    from lm_eval_healthcare.analysis.ranks import Ranks
    from lm_eval_healthcare.report.rank_figure import rank_figure

    nan = math.nan
    ranks = Ranks(
        ("a", "b"), ("x", "y"), np.array([[1.0, 1.5], [nan, 1.5]]), np.array([[1.0, nan], [nan, nan]]),
        np.array([[2.0, nan], [nan, nan]]), (1, 2), ((), ()),
    )  # fmt: skip
    (axes,) = rank_figure(ranks, "title").axes
    assert sorted(text.get_text() for text in axes.texts) == ["1\n1 to 2", "1.5", "1.5"]
    assert [patch.get_hatch() for patch in axes.patches].count("////") == 1


def test_files_are_the_same_every_time(tmp_path: Path) -> None:
    from lm_eval_healthcare.report.heatmap import heatmap, save

    found = {("a", "b"): correlation("a", "b", 0.4)}
    for name in ("one.png", "two.png"):
        save(heatmap(["a"], ["b"], found, "title"), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
