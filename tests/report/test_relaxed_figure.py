"""The figure of Relaxed Perplexity: what is drawn is what was measured."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from known_matrices import LOG, first, second
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Target
from lm_eval_healthcare.report import relaxed_figure
from lm_eval_healthcare.report.relaxed_figure import Panel, draw, figure, summarise


def one_target(*values: float, size: int = 1) -> Matrix:
    """A document whose target has -log P of these values after 0, 8, 16, ... tokens."""
    prefixes = tuple(Prefix(8 * place, 0, 0.0, 1) for place in range(len(values)))
    return Matrix(prefixes, (Target(1, size, -np.asarray(values, dtype=np.float64)),), (8,), (0.0,), 1, 1)


def panel(*matrices: Matrix, title: str = "task, model") -> Panel:
    made = Panel(title)
    for matrix in matrices:
        made.add(matrix, ["answer"] * len(matrix.targets))
    return made


def test_values_by_hand() -> None:
    """A document's value: the sum over the targets of a list, over the sum of their bytes."""
    made = Panel("x")
    groups = ["must_have", "must_have", "nice_to_have"]
    made.add(first(), groups)
    made.add(second(), ["must_have", "nice_to_have"])
    at_first = pytest.approx([-LOG(1 / 2 * 1 / 4) / 40, LOG(16) / 20])
    assert made.values == {"must_have": {0: at_first, 4: [pytest.approx(-LOG(3 / 8 * 5 / 8) / 40)]}}
    assert (made.targets, made.documents) == ({"must_have": 3, "nice_to_have": 1}, {"must_have": 2, "nice_to_have": 1})
    assert made.infinite == 1  # the model rules the target of document 1 out
    averaged = Panel("x")
    averaged.add(first(), groups, "_averaged")
    assert averaged.values["must_have"][4] == [pytest.approx(-LOG(3 / 16 * 5 / 16) / 40)]


def test_mean_and_quartiles_by_hand() -> None:
    found = summarise({8: [5.0], 0: [1.0, 2.0, 3.0, 4.0, 10.0]})
    assert found == {"position": [0, 8], "mean": [4.0, 5.0], "low": [2.0, 5.0], "high": [4.0, 5.0], "n": [5, 1]}


def test_lines_bands_and_ring() -> None:
    pytest.importorskip("matplotlib")
    made = panel(one_target(6, 2, 4), one_target(8, 4, 6))
    drawn = figure([made], "Source: a file")
    (axes,) = drawn.axes
    line, _, ring = axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 8, 16], [7, 3, 5])
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([8], [3])
    assert [text.get_text() for text in axes.texts] == ["8"]
    (band,) = axes.collections
    edges = {(x, y) for x, y in band.get_paths()[0].vertices.tolist()}
    assert {(0.0, 6.5), (0.0, 7.5), (8.0, 2.5), (8.0, 3.5)} <= edges  # quartiles of two values
    assert axes.get_title() == "task, model"
    assert "nats per byte" in axes.get_ylabel()
    assert "Tokens" in axes.get_xlabel()
    assert "Source: a file" in drawn.get_supxlabel()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["answer: 2 targets of 2 documents"]


def test_where_most_documents_have_ended_the_line_is_dotted_and_has_no_ring() -> None:
    pytest.importorskip("matplotlib")
    made = panel(one_target(6, 5, 1), one_target(6, 5), one_target(6, 5))
    (axes,) = figure([made], "x").axes
    line, rest, ring = axes.lines
    assert list(line.get_xdata()) == [0, 8]
    assert (list(rest.get_xdata()), list(rest.get_ydata()), rest.get_linestyle()) == ([8, 16], [5, 1], ":")
    assert list(ring.get_xdata()) == [8]
    assert axes.get_legend().get_texts()[0].get_text() == "answer: 3 targets of 3 documents, 1 at 16 tokens"


def test_a_target_that_is_mostly_ruled_out() -> None:
    pytest.importorskip("matplotlib")
    made = panel(one_target(math.inf, 3), one_target(math.inf, 4), one_target(2, math.inf))
    drawn = figure([made], "x")
    assert list(drawn.axes[0].lines[0].get_ydata()) == [2]
    assert "without 3 values of targets that the model rules out" in drawn.get_supxlabel()


def test_several_panels_share_their_scale() -> None:
    pytest.importorskip("matplotlib")
    drawn = figure([panel(one_target(n, n + 1), title=f"t{n}") for n in (1, 5, 9)], "x")
    assert [axes.get_title() for axes in drawn.axes] == ["t1", "t5", "t9"]
    assert len({axes.get_ylim() for axes in drawn.axes}) == 1


@pytest.mark.parametrize(("name", "begin"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml")])
def test_files(tmp_path: Path, name: str, begin: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = draw(tmp_path / "new" / name, [panel(one_target(3, 2)), Panel("nothing in it")], "x")
    assert path.read_bytes().startswith(begin)
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_faults_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UserError, match=r"expected a name that ends in .png or .svg"):
        draw(tmp_path / "x.jpg", [panel(one_target(1))], "x")
    unscored = replace(first(), targets=first().targets[2:])
    with pytest.raises(UserError, match="0 tasks with scored targets; expected 1 to 8"):
        draw(tmp_path / "x.png", [panel(unscored)], "x")
    with pytest.raises(UserError, match="9 tasks with scored targets"):
        draw(tmp_path / "x.png", [panel(one_target(1))] * 9, "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        draw(tmp_path / "file" / "x.png", [panel(one_target(1))], "x")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match="figures need matplotlib: pip install"):
        relaxed_figure.check(tmp_path / "x.png")
