"""Figures and tables of a benchmark's rows: what is drawn is what was counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.describe import describe, measure
from lm_eval_healthcare.data.questions import LAYOUTS, Question, questions
from lm_eval_healthcare.data.selection import select
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.report import data_figures
from lm_eval_healthcare.report.data_description import describe_task
from lm_eval_healthcare.report.data_tables import markdown, note
from lm_eval_healthcare.sample import rows_path

CAREQA = LAYOUTS[0]


def careqa() -> tuple[list[Question], dict[str, Any]]:
    text = (rows_path() / "careqa_en" / "test.jsonl").read_text("utf-8")
    documents = [json.loads(line) for line in text.split("\n") if line]
    rows = questions(documents, CAREQA)
    return rows, describe(rows, CAREQA, documents)


def test_bars_are_as_high_as_the_counts() -> None:
    pytest.importorskip("matplotlib")
    rows, described = careqa()
    figure = data_figures.categories_by_year("careqa_en", described)
    (axes,) = figure.axes
    heights: dict[tuple[str, str], int] = {}
    for container in axes.containers:
        for year, bar in zip(described["by_year"], container, strict=True):
            heights[container.get_label(), year] = int(bar.get_height())
    wanted = {(category, year): 0 for category in described["by_category"] for year in described["by_year"]}
    for row in rows:
        wanted[str(row.category), str(row.year)] += 1
    assert heights == wanted
    top = [max(bar.get_y() + bar.get_height() for bar in bars) for bars in zip(*axes.containers, strict=True)]
    assert top == [sum(row.year == year for row in rows) for year in described["by_year"]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Year", "Questions")
    assert "careqa_en" in figure.get_suptitle()


def test_boxes_are_where_the_quartiles_are() -> None:
    pytest.importorskip("matplotlib")
    rows = [Question("w " * n) for n in (1, 2, 3, 4, 100)]
    figure = data_figures.length_figure("t", "words", rows, measure(rows))
    (axes,) = figure.axes
    (box,) = axes.patches
    edges = box.get_path().vertices[:, 0]
    assert (edges.min(), edges.max()) == (2, 4)  # of 1, 2, 3, 4, 100 the quartiles are 2 and 4, the mean is 22
    assert 22 in [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert axes.get_xlabel() == "Length (words)"


def test_gold_bars() -> None:
    pytest.importorskip("matplotlib")
    _, described = careqa()
    (axes,) = data_figures.gold_figure("careqa_en", described).axes
    assert [int(bar.get_height()) for bar in axes.patches] == list(described["gold_positions"]["counts"].values())


def test_files_are_drawn_and_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (task,) = select(["careqa_en"], [tasks_path()])
    found = describe_task(task, "sample", figures=tmp_path / "new" / "figures")
    names = [Path(path).name for path in found["figures"]]
    assert names == ["careqa_en_categories_by_year.png", "careqa_en_lengths.png", "careqa_en_gold_positions.png"]
    for path in found["figures"]:
        assert Path(path).read_bytes().startswith(b"\x89PNG")
    json.dumps(found, allow_nan=False)
    assert (found["source"], found["split"], found["rows"], found["licence"]) == ("sample", "test", 12, "Apache-2.0")


def test_no_figure_where_there_is_nothing_to_draw() -> None:
    pytest.importorskip("matplotlib")
    described = describe([], CAREQA)
    assert data_figures.categories_by_year("t", described) is None
    assert data_figures.gold_figure("t", described) is None
    assert data_figures.length_figure("t", "words", [], measure([])) is None


def test_very_many_categories_stay_apart(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [Question("q " * (n % 7), category=f"Category {n % 60:02}", year=str(1990 + n % 30)) for n in range(900)]
    described = describe(rows, CAREQA)
    (axes,) = data_figures.categories_by_year("t", described).axes
    labels = [container.get_label() for container in axes.containers]
    styles = {(c[0].get_facecolor(), c[0].get_hatch()) for c in axes.containers}
    assert labels[-1] == data_figures.OTHERS
    assert len(styles) == len(labels) == 24
    assert sum(bar.get_height() for container in axes.containers for bar in container) == 900
    assert len(data_figures.draw(tmp_path, "own/task", described, rows, measure(rows))) == 2
    assert (tmp_path / "own_task_lengths.png").is_file()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    rows, described = careqa()
    with pytest.raises(UserError, match="--figures"):
        data_figures.draw(tmp_path / "file", "careqa_en", described, rows, measure(rows))


def test_without_matplotlib_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rows, described = careqa()
    with pytest.raises(UserError, match=r"pip install 'lm_eval_healthcare\[figures\]'"):
        data_figures.draw(tmp_path, "careqa_en", described, rows, measure(rows))


def test_markdown_holds_the_numbers() -> None:
    text = markdown("careqa_en", careqa()[1])
    assert "12 rows" in text
    lines = [line for line in text.split("\n") if line.startswith("|")]
    assert len({line.count("|") for line in lines if "Biology" in line}) == 2  # sizes, and counts by year
    assert any(line.startswith("| All | 12 |") for line in lines)
    assert "NaN" not in text
    assert "words" in note("words")


def test_markdown_of_hostile_texts() -> None:
    rows = [Question("a | b\n# c", category="x|y\nz", year="2020")] * 2
    text = markdown("t|\n", describe(rows, CAREQA, [{"a|b": None}]))
    assert "| x\\|y z | 2 |" in text
    assert "\n# c" not in text
    assert "a\\|b 1" in text


def test_markdown_of_nothing() -> None:
    assert "0 rows" in markdown("t", describe([], CAREQA))
