"""What may be exported, under which names, and that nothing is overwritten."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from lm_eval_healthcare.report.exports import (
    Document,
    ExportError,
    admitted,
    differences,
    percent,
    renamed,
    safe_names,
    utc,
    write,
)
from lm_eval_healthcare.results.cell import GROUP, PRE_04, Cell, Rules, SetAside, Table

HOSTILE = [
    "../../etc/passwd", "..", ".", "", "/abs/path", "a/b", "a__b", "A/B", "C:\\x", 'q"<>|?*', "line\nbreak", "nul\0",
    "名前/モデル", "\u202egpj.exe", "\ud800", "x" * 400, "x" * 400 + "y", " ", "-rf", "~", "$(touch x)",
]  # fmt: skip


def cell(**changes: Any) -> Cell:
    given = {"model": "m", "task": "medmcqa", "metric": "acc", "filter": "none", "value": 0.5, "n": 100, "n_total": 100}
    return Cell(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "rules", "words"),
    [
        ({"n": 20}, Rules(allow_partial=True), "20 of 100"),
        ({"n": None, "n_total": None, "extra": {"partial": True}}, Rules(allow_partial=True), "a part"),
        ({"coverage": 0.9}, Rules(min_coverage=0.9), "90.0%"),
        ({"dialect": PRE_04}, Rules(allow_legacy=True), "before 0.4"),
        ({"unusable": "judge failed"}, Rules(allow_unusable=True), "its own run"),
    ],
)
def test_each_flaw_is_refused_named_and_passes_with_its_own_option(
    changes: dict[str, Any], rules: Rules, words: str
) -> None:
    table = Table(cells=[cell(model="org/good"), cell(model="org/bad", **changes)])
    passed, refused = admitted(table, Rules())
    assert [one.model for one in passed] == ["org/good"]
    (one,) = refused
    assert "org/bad medmcqa acc" in one.line()
    assert words in one.line()
    assert "--" in one.remedy
    assert len(admitted(table, rules)[0]) == 2


def test_sample_questions_are_no_benchmark() -> None:
    table = Table(cells=[cell(extra={"data": "sample"}), cell(task="pubmedqa", extra={"data": "folder"})])
    passed, (one,) = admitted(table, Rules(True, True, True, 0.0))
    assert [one.task for one in passed] == ["pubmedqa"]
    assert one.remedy == "--allow-sample-data"
    assert len(admitted(table, Rules(), sample=True)[0]) == 2


def test_two_flaws_need_two_options() -> None:
    table = Table(cells=[cell(n=20, unusable="x")])
    assert admitted(table, Rules(allow_partial=True))[0] == []
    assert admitted(table, Rules(allow_unusable=True))[0] == []
    assert len(admitted(table, Rules(allow_partial=True, allow_unusable=True))[0]) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_passes(value: float) -> None:
    everything = Rules(True, True, True, 0.0, True)
    passed, refused = admitted(Table(cells=[cell(value=value)]), everything)
    assert passed == []
    assert len(refused) == 1


def test_set_aside_is_named_only_where_nothing_was_chosen() -> None:
    chosen, older, partial = cell(), cell(value=0.4, date=1.0), cell(task="pubmedqa", n=3)
    table = Table(cells=[chosen], set_aside=[SetAside(older, "superseded"), SetAside(partial, "partial: 3 of 100")])
    passed, refused = admitted(table, Rules())
    assert passed == [chosen]
    assert [one.cell for one in refused] == [partial]


def test_helpers_groups_and_parts_are_no_scores_of_their_own() -> None:
    others = [
        cell(metric="acc_coverage"), cell(metric="prometheus_unparsed"), cell(metric="bypass", value=999),
        cell(task="healthcare_mcqa", kind=GROUP), cell(metric="acc_year_2020", extra={"part_of": "acc"}),
    ]  # fmt: skip
    assert admitted(Table(cells=[cell(), *others]), Rules()) == ([cell()], [])
    assert len(admitted(Table(cells=others), Rules(groups=True))[0]) == 1
    assert len(admitted(Table(cells=others), Rules(), parts=True)[0]) == 1


def test_differences_are_those_that_the_files_tell() -> None:
    assert differences([cell(n_shot=0), cell(model="b", n_shot=None)]) == []
    assert differences([cell(template="x"), cell(model="b", template="y")]) == []  # each model has its own template
    assert differences([cell(version="1"), cell(model="b", version="1.0")]) == []
    (shots,) = differences([cell(n_shot=0), cell(model="b", n_shot=5)])
    assert shots == "n_shot 0 (m), 5 (b)"
    (template,) = differences([cell(template=""), cell(model="b", template="y")])
    assert template.startswith("chat template")
    assert len(differences([cell(version="1"), cell(model="b", version="2", extra={"gen_kwargs": "{}"})])) == 1


def test_hostile_names_give_separate_names_that_stay_in_their_folder(tmp_path: Path) -> None:
    names = safe_names(HOSTILE)
    assert len({name.casefold() for name in names.values()}) == len(HOSTILE)
    documents = [Document(PurePosixPath(name, "results.json"), "{}") for name in names.values()]
    paths = write(documents, tmp_path / "out")
    inside = (tmp_path / "out").resolve()
    for path in paths:
        assert path.resolve().parent.parent == inside
        assert path.read_text(encoding="utf-8") == "{}"
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine", encoding="utf-8")
    documents = [Document(PurePosixPath("a"), "new a"), Document(PurePosixPath("b"), "new b")]
    with pytest.raises(ExportError, match="--force"):
        write(documents, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
    assert (tmp_path / "b").read_text(encoding="utf-8") == "mine"
    write(documents, tmp_path, force=True)
    assert (tmp_path / "b").read_text(encoding="utf-8") == "new b"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_link_is_not_followed_and_a_folder_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ExportError, match="is there"):
        write([Document(PurePosixPath("link"), "x")], tmp_path)
    write([Document(PurePosixPath("link"), "x")], tmp_path, force=True)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(ExportError, match="is a folder"):
        write([Document(PurePosixPath("folder"), "x")], tmp_path, force=True)
    with pytest.raises(ExportError, match="cannot be written"):
        write([Document(PurePosixPath("x"), "x")], tmp_path / "link")


def test_percent_moves_the_point_and_rounds_nothing() -> None:
    assert 0.57 * 100 != 57.0  # what multiplying gives
    assert percent(0.57) == 57.0
    assert percent(0.5739130434782609) == 57.39130434782609
    assert percent(1e-7) == 1e-05


def test_times_are_told_in_utc() -> None:
    assert utc(0.0) == "1970-01-01T00:00:00Z"
    assert utc(951782400.0) == "2000-02-29T00:00:00Z"
    assert utc(math.nan) is None


def test_renaming_keeps_models_apart() -> None:
    cells = [cell(model="/models/a"), cell(model="b")]
    assert [one.model for one in renamed(cells, {"/models/a": "org/a"})] == ["org/a", "b"]
    with pytest.raises(ExportError, match="no such model"):
        renamed(cells, {"c": "d"})
    with pytest.raises(ExportError, match="one name"):
        renamed(cells, {"/models/a": "b"})
