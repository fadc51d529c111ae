"""Pictures of studies: every metric is in them with its counts, and odd data give a right picture or none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.report.study_numbers import (
    Distribution,
    decades,
    distributions,
    noises,
    place_labels,
    shortened,
)
from reworded_files import consistency_study, resilience_study

pytest.importorskip("matplotlib")

MIXED = {"rougeL": [0.01, 0.02, 0.04, None], "bleu": [0.0, 0.0, 0.0001, 0.0003], "prometheus": [None] * 4}


def texts(figure: Any) -> list[str]:
    (axes,) = figure.axes
    labels = [*axes.get_yticklabels(), *axes.get_xticklabels(), *axes.texts]
    return [one.get_text() for one in labels if one.get_text()]


def test_rows_are_sorted_and_say_how_many_values_are_missing() -> None:
    from lm_eval_healthcare.report.study_figures import variance_figure

    figure = variance_figure(resilience_study(**MIXED))
    (axes,) = figure.axes
    assert [one.get_text() for one in axes.get_yticklabels()] == ["bleu", "rougeL", "prometheus"]
    found = texts(figure)
    assert {"n = 4", "n = 3 of 4, 1 undefined", "n = 0 of 4, 4 undefined", "undefined"} <= set(found)
    # Two zeros of bleu are told beside the axis, which begins at 0.0001.
    assert {"0", "2", "$10^{-4}$"} <= set(found)


def test_means_and_medians_stand_where_they_are() -> None:
    """0.01, 0.02 and 0.04 have the mean 0.07/3 and the median 0.02."""
    from lm_eval_healthcare.report.study_figures import variance_figure

    (axes,) = variance_figure(resilience_study(rougeL=[0.01, 0.02, 0.04])).axes
    places = {line.get_marker(): line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("D", "|")}
    assert places["D"] == pytest.approx(math.log10(0.07 / 3))
    assert places["|"] == pytest.approx(math.log10(0.02))


def test_a_quartile_between_zero_and_the_least_value_stays_inside() -> None:
    """The first quartile of 0, 0.001, 0.01, 0.1 is 0.00075, left of an axis that begins at 0.001."""
    from lm_eval_healthcare.report.study_figures import variance_figure

    (axes,) = variance_figure(resilience_study(a=[0.0, 0.001, 0.01, 0.1])).axes
    (line,) = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.6]
    assert line.get_xdata()[0] == -3.0


def test_rounding_is_no_variance() -> None:
    """A sum of seven 0.1, divided by seven, is not 0.1 in binary; a variance of 1e-34 would make the axis useless."""
    from lm_eval_healthcare.report.study_figures import variance_figure

    (one,) = distributions(resilience_study(a=[1e-34, 0.01, 0.02]))
    assert one.zeros == 1
    (axes,) = variance_figure(resilience_study(a=[1e-34, 0.01, 0.02])).axes
    assert axes.get_xlim()[0] > -4


def test_one_labelled_point_for_each_metric_above_zero() -> None:
    from lm_eval_healthcare.report.study_figures import metric_figure

    figure = metric_figure(resilience_study(a=[0.01, 0.02], b=[0.0, 0.0], c=[None, None], d=[0.1, 0.2]))
    assert {"a", "d"} <= set(texts(figure))
    assert not {"b", "c"} & set(texts(figure))
    assert "b, c" in figure.get_supxlabel()
    (axes,) = figure.axes
    points = [line for line in axes.lines if line.get_marker() in "os^Dv*PX"]
    assert len(points) == 2
    assert len({line.get_color() for line in points}) == 2  # 0.015 and 0.15 are a decade apart
    assert metric_figure(resilience_study(b=[0.0, 0.0], c=[None])) is None


@pytest.mark.parametrize("ending", [".png", "svg", ".pdf"])
def test_files_of_each_kind(tmp_path: Path, ending: str) -> None:
    from lm_eval_healthcare.report.study_figures import draw

    made = draw(consistency_study(**MIXED), tmp_path / "new", ending)
    names = [f"consistency_{kind}.{ending.lstrip('.')}" for kind in ("variances", "metrics", "cv", "noise")]
    assert [path.name for path in made] == names
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending.lstrip(".")]
    assert all(path.read_bytes().startswith(begins) for path in made)
    if ending == "svg":
        assert ">rougeL<" in made[0].read_text(encoding="utf-8")  # text that can be searched
        again = draw(consistency_study(**MIXED), tmp_path / "again", ending)
        assert again[0].read_bytes() == made[0].read_bytes()


def test_nothing_defined_gives_no_picture_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from lm_eval_healthcare.report.study_figures import draw

    assert draw(resilience_study(a=[None, None]), tmp_path, ".png") == []
    assert "no picture resilience_variances: no metric has a scaled variance" in caplog.text
    assert not list(tmp_path.iterdir())
    assert draw({"study": "resilience"}, tmp_path, ".png") == []


def test_another_ending_is_refused(tmp_path: Path) -> None:
    from lm_eval_healthcare.report.study_figures import draw

    with pytest.raises(UserError, match=r"expected one of \.svg, \.png, \.pdf"):
        draw(resilience_study(a=[0.1]), tmp_path, ".gif")


def test_odd_names_and_many_metrics_are_drawn(tmp_path: Path) -> None:
    """A dollar sign begins a formula in matplotlib, and an unfinished one would stop the drawing."""
    from lm_eval_healthcare.report.study_figures import draw, variance_figure

    names = [r"$\frac{$", "a\nb\x00", "x" * 200, "<b>&amp;", *(f"metric_{number}" for number in range(26))]
    found = {name: [0.001 * (place + 1), 0.002, 0.004] for place, name in enumerate(names)}
    study = resilience_study(**found)
    assert len(draw(study, tmp_path, ".svg")) == 2
    labels = [one.get_text() for one in variance_figure(study).axes[0].get_yticklabels()]
    assert len(labels) == 30
    assert max(map(len, labels)) <= 46


def test_many_questions_become_a_shape() -> None:
    from lm_eval_healthcare.report.study_figures import variance_figure

    (axes,) = variance_figure(resilience_study(a=[10 ** (-place / 300) for place in range(1, 1000)])).axes
    assert len(axes.collections) == 1
    assert len(axes.collections[0].get_paths()[0].vertices) < 300


def test_noise_shares() -> None:
    """0.03^2 and 0.04^2: 9/25 of the squared error is prediction noise."""
    found = noises(consistency_study(rougeL=[0.1, 0.2]))
    assert [one.name for one in found] == ["rougeL, one", "rougeL, two"]
    assert found[0].share == pytest.approx(9 / 25)


def test_odd_files_are_read_as_far_as_they_go() -> None:
    study: dict[str, Any] = {"study": "resilience", "metrics": {"a": {"variances": [0.1, "x", None, True, 1e999]}}}
    (one,) = distributions(study)
    assert one.values == (0.1,)
    assert distributions({"study": "resilience", "metrics": [1]}) == []
    assert distributions({"study": "resilience", "metrics": {"a": 3}})[0].values == ()
    assert noises({"runs": [{"metrics": {"a": {"noise": 4}}}, 7]}) == []


def test_quantiles() -> None:
    """Linear between values: of 1 2 3 10 the median is 2.5, and the third quartile 3 + 0.25 * 7."""
    one = Distribution("a", (1.0, 2.0, 3.0, 10.0), 4, 0, 4.0, 1.0)
    assert one.quantile(0.5) == 2.5
    assert one.quantile(0.75) == 4.75


def test_labels_lie_on_nothing() -> None:
    points = [(10.0 * place, 10.0 * place) for place in range(12)]
    boxes = place_labels(points, [60.0] * 12, 9.0, (0.0, 0.0, 400.0, 300.0))
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert one[0] >= 0
        assert one[3] <= 300


def test_decades_and_names() -> None:
    assert decades([0.002, 0.5]) == (-3, 0)
    assert decades([0.01]) == (-3, -1)
    assert shortened("a" * 50 + "z", 11) == "aaaaa\u2026aaaaz"
