"""LaTeX and markdown tables: marks, ties, gaps, escaping."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from lm_eval_healthcare.report.export_tables import Grid, Look, escape_latex, escape_markdown, grid, latex, markdown
from lm_eval_healthcare.report.exports import ExportError
from lm_eval_healthcare.results.cell import Cell


def cell(model: str, value: float, task: str = "medmcqa", metric: str = "acc", **changes: Any) -> Cell:
    given = {"n": 100, "n_total": 100, "stderr": 0.01}
    return Cell(model, task, metric, "none", value, **{**given, **changes})


def marks(values: list[float], look: Look | None = None, **changes: Any) -> list[str]:
    models = [chr(ord("a") + n) for n in range(len(values))]
    table = grid([cell(model, value, **changes) for model, value in zip(models, values, strict=True)], look or Look())
    return [entry.mark + ("~" if entry.close else "") for _, entry in sorted(table.entries.items())]


def rows_of(text: str) -> list[list[str]]:
    """Read a markdown table: the cells of each row, escaped bars being no borders."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.3, 0.2], ["", "best", "second"]),
        ([0.3, 0.3, 0.2], ["best", "best", ""]),  # both are first, the next one is third
        ([0.3, 0.2, 0.2], ["best", "second", "second"]),
        ([0.3, 0.3, 0.3], ["best", "best", "best"]),
        ([0.30001, 0.30002, 0.2], ["best", "best", ""]),  # both are shown as 0.300
        ([0.3], [""]),  # nobody to be better than
    ],
)
def test_best_and_second_and_ties(values: list[float], expected: list[str]) -> None:
    assert marks(values) == expected


def test_more_digits_part_what_fewer_tie() -> None:
    assert marks([0.30001, 0.30002], Look(digits=5)) == ["second", "best"]


def test_lower_is_better_where_it_is_and_nothing_where_it_is_not_known() -> None:
    assert marks([14.0, 13.0, 15.0], metric="word_perplexity") == ["second", "best", ""]
    assert marks([1.0, 2.0], metric="of_someone_else") == ["", ""]
    assert marks([1.0, 2.0], metric="of_someone_else", higher_is_better=False) == ["best", "second"]


def test_within_the_error_of_the_difference() -> None:
    # Errors of 0.01 each: the difference has one of 0.01 * sqrt(2) = 0.01414.
    look = Look(within_error=True, digits=4)
    assert marks([0.5, 0.486, 0.4858], look) == ["best", "second~", ""]
    assert marks([0.5, 0.49], look, stderr=math.nan) == ["best", "second"]
    assert marks([0.5, 0.499], Look(digits=4)) == ["best", "second"]


def test_numbers_as_they_are_shown() -> None:
    assert Look().text(0.5739130434, True) == "0.574"
    assert Look(in_percent=True).text(0.5739130434, True) == "57.4"
    assert Look(in_percent=True, digits=0).text(0.57, True) == "57"
    assert Look(in_percent=True).text(3.4, False) == "3.400"
    assert Look().text(-0.0001, False) == "0.000"
    assert Look().text(-1.5, False) == "-1.500"
    assert Look().text(12345678.9, False) == "1.235e+07"


CELLS = [
    cell("org/a_1", 0.61, n_shot=0), cell("b|c", 0.58, n_shot=0),
    cell("org/a_1", 13.9, "medtext_perplexity", "word_perplexity", stderr=math.nan),
]  # fmt: skip


def test_markdown_shows_values_marks_gaps_and_errors() -> None:
    (document,) = markdown(CELLS, Look(stderr=True, n=True), "t.md").documents
    assert str(document.path) == "t.md"
    assert rows_of(document.text) == [
        ["Model", "medmcqa/acc ↑", "medtext\\_perplexity/word\\_perplexity ↓"],
        ["---", "---:", "---:"],
        ["b\\|c", "<ins>0.580</ins> ± 0.010 (n=100)", "–"],
        ["org/a\\_1", "**0.610** ± 0.010 (n=100)", "13.900 (n=100)"],
    ]
    assert "–: no value." in document.text


def test_transposed_and_in_percent() -> None:
    (document,) = markdown(CELLS, Look(transpose=True, in_percent=True, stderr=True), "t.md").documents
    assert rows_of(document.text) == [
        ["Model", "b\\|c", "org/a\\_1"],
        ["---", "---:", "---:"],
        ["medmcqa/acc ↑", "<ins>58.0</ins> ± 1.0", "**61.0** ± 1.0"],
        ["medtext\\_perplexity/word\\_perplexity ↓", "–", "13.900"],
    ]


def test_latex_shows_the_same() -> None:
    (document,) = latex(CELLS, Look(stderr=True), "t.tex").documents
    lines = document.text.splitlines()
    assert lines[2] == r"\begin{tabular}{lrr}"
    assert lines[4] == r"Model & medmcqa/acc $\uparrow$ & medtext\_perplexity/word\_perplexity $\downarrow$ \\"
    assert lines[6] == (
        r"b\textbar{}c & \underline{0.580} {\scriptsize $\pm$\,0.010} & \textendash{} \\"
    )  # fmt: skip
    assert lines[7] == r"org/a\_1 & \textbf{0.610} {\scriptsize $\pm$\,0.010} & 13.900 \\"
    for rule in ("toprule", "midrule", "bottomrule", "end{tabular}", "end{table}"):
        assert document.text.count(f"\\{rule}") == 1


HOSTILE = [
    r"\input{/etc/passwd}", "a & b \\\\ c", "100%", "$x^2$", "#1", "~", "{", "}", "[5pt]", "*", "<script>", "a|b",
    "--x", "`rm`", "line\nbreak", "\u202e", "名前", "www.example.org", "https://x.y", "@someone", "![x](y)", "<!--",
    "**b**",
]  # fmt: skip


def test_latex_of_hostile_names_is_plain_text() -> None:
    (document,) = latex([cell(name, 0.1 + n / 100) for n, name in enumerate(HOSTILE)], Look(), "t.tex").documents
    body = document.text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = body.splitlines()
    assert len(rows) == len(HOSTILE)
    for row in rows:
        name, value = re.split(r"(?<!\\) & ", row.removesuffix(r" \\"))
        assert re.fullmatch(r"(\\(textbf|underline)\{)?0\.\d{3}\}?", value)
        bare = re.sub(r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|`)\{\}", "", name)
        bare = re.sub(r"\\[{}$&#_%]|\{[\[\]*]\}|\{\\char34\}|\{\}", "", bare)
        assert not re.search(r"[\\{}$&#_%^~]", bare), name
        assert not name.startswith(("[", "*"))
    assert "\\input" not in document.text
    assert escape_latex("---") == "-{}-{}-"


def test_markdown_of_hostile_names_is_one_cell_of_plain_text() -> None:
    (document,) = markdown([cell(name, 0.1 + n / 100) for n, name in enumerate(HOSTILE)], Look(), "t.md").documents
    rows = rows_of(document.text)
    assert len(rows) == len(HOSTILE) + 2
    assert {len(row) for row in rows} == {2}
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False}).enable("table")
    shown = []
    for name in HOSTILE:
        (token,) = (one for one in parser.parse(escape_markdown(name)) if one.type == "inline")
        assert {child.type for child in token.children} <= {"text", "text_special"}, name
        shown.append("".join(child.content for child in token.children))
    assert [text.strip() for text in shown] == [re.sub(r"\s", " ", name) for name in HOSTILE]
    for trap in ("www.example.org", "https://x.y", "@someone"):
        assert trap not in document.text


def test_mixed_protocols_are_refused_by_name_or_marked() -> None:
    cells = [cell("a", 0.5, n_shot=0), cell("b", 0.6, n_shot=5), cell("a", 0.5, "pubmedqa"), cell("b", 0.6, "pubmedqa")]
    with pytest.raises(ExportError, match=r"medmcqa/acc: n_shot 0 \(a\), 5 \(b\)") as caught:
        grid(cells, Look())
    assert "pubmedqa" not in str(caught.value)
    table = grid(cells, Look(allow_mixed=True))
    assert [key for key, entry in table.entries.items() if entry.doubtful] == [
        ("a", "medmcqa/acc"), ("b", "medmcqa/acc"),
    ]  # fmt: skip
    assert "†" in markdown(cells, Look(allow_mixed=True), "t.md").documents[0].text
    assert r"$^{\dagger}$" in latex(cells, Look(allow_mixed=True), "t.tex").documents[0].text


def test_flaws_that_were_allowed_stay_visible() -> None:
    cells = [cell("a", 0.5, n=20), cell("b", 0.6)]
    table = grid(cells, Look())
    assert [entry.doubtful for entry in table.entries.values()] == [True, False]
    assert "†: a, medmcqa/acc: only 20 of 100 documents." in table.notes


def test_filters_are_columns_of_their_own() -> None:
    one = Cell("m", "t", "acc", "strict", 0.5)
    other = Cell("m", "t", "acc", "k,all", 0.6)
    table: Grid = grid([one, other], Look())
    assert list(table.columns) == ["t/acc[k,all]", "t/acc[strict]"]
