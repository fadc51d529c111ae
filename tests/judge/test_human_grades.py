"""A judge held against people: the file, matching, and every number against hand calculations and other libraries."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.grade_file import document_key
from lm_eval_healthcare.judge.human_grades import (
    Grade,
    JudgedDocument,
    MetaEvaluation,
    meta_evaluation,
    read_grades,
)
from lm_eval_healthcare.judge.paired import NO_VARIATION, TOO_FEW
from support import write_jsonl

_ = math.nan


def written(folder: Path, text: str, name: str = "grades.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_same_grades_from_every_format(tmp_path: Path) -> None:
    rows = [("7", "4", "medtext", "ana"), ("8", "2.5", "medtext", "ana"), ("7", "", "medtext", "ben")]
    files = [
        written(tmp_path, text=name_mark + "\n".join(sep.join(row) for row in [head, *rows]) + "\n", name=name)
        for name, sep, name_mark, head in [
            ("a.csv", ",", "", ("doc_id", "grade", "task", "rater")),
            ("b.csv", ";", "\ufeff", (" Doc_ID", "Grade ", "TASK", "rater")),
            ("c.tsv", "\t", "", ("doc_id", "grade", "task", "rater")),
        ]
    ]
    files.append(
        write_jsonl(
            tmp_path / "d.jsonl",
            [
                {"doc_id": int(d), "grade": float(g) if g else None, "task": t, "rater": r, "answer": "x"}
                for d, g, t, r in rows
            ],
        )
    )
    for path in files:
        first, second, third = read_grades(path)
        assert (first.doc_id, first.grade, first.task, first.model, first.rater) == ("7", 4.0, "medtext", None, "ana")
        assert (second.doc_id, second.grade) == ("8", 2.5)
        assert math.isnan(third.grade)
        assert third.rater == "ben"


def test_quoted_cells_and_line_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, 'doc_id,answer,grade\n1,"two\nlines, and a ""quote""",3\n\n2,plain,4\n')
    assert [(g.doc_id, g.grade) for g in read_grades(path)] == [("1", 3), ("2", 4)]


@pytest.mark.parametrize(
    ("given", "key"), [(7, "7"), ("7", "7"), (7.0, "7"), (" 7.0 ", "7"), ("q-7.5", "q-7.5"), ("007", "007")]
)
def test_document_key(given: object, key: str) -> None:
    assert document_key(given) == key


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("g.csv", "id,grade\n1,3\n", r"no column doc_id \(found: id, grade\)"),
        ("g.csv", "", "no column doc_id and no column grade .found: none"),
        ("g.csv", "doc_id,grade\n", "no grades in it"),
        ("g.csv", "doc_id,grade,grade\n1,2,3\n", "two columns grade"),
        ("g.csv", "doc_id,grade\n1,6\n", r"line 2: grade 6 is off the scale; expected a number from 1 to 5"),
        ("g.csv", "doc_id,grade\n1,0.5\n", "line 2: grade 0.5 is off the scale"),
        ("g.csv", "doc_id,grade\n1,inf\n", "line 2: grade inf is off the scale"),
        ("g.csv", "doc_id,grade\n1,good\n", "line 2: grade 'good' is no number"),
        ("g.csv", 'doc_id,grade\n1,3\n2,"3,5"\n', "line 3: grade '3,5' is no number"),
        ("g.csv", "doc_id,grade\n,3\n", "line 2: no doc_id"),
        ("g.csv", "grade,doc_id\n3\n", "line 2: no doc_id"),
        ("g.csv", "doc_id,grade\n1,3,4\n", "line 2: 3 cells under 2 columns"),
        ("g.csv", 'doc_id,grade\n1,"3\n', "cells with line breaks quoted"),
        ("g.csv", "doc_id,grade\n1,3\n1.0,4\n", r"line 3: document 1 was graded in line 2 already \(no rater named\)"),
        ("g.csv", "doc_id,grade,rater\n1,3,x\n1,4,x\n", "rater 'x'"),
        ("g.jsonl", '{"doc_id": 1, "grade": 3}\n{"doc_id": 2}\n', "line 2: no column grade"),
        ("g.jsonl", '{"doc_id": 1, "grade": true}\n', "line 1: grade True is no number"),
        ("g.jsonl", '{"doc_id": null, "grade": 3}\n', "line 1: no doc_id"),
        ("g.jsonl", "[1, 2]\n", "line 1: list; expected one JSON object"),
        ("g.jsonl", "{broken\n", "line 1: no valid JSON"),
        ("g.xlsx", "", "are read from .csv, .tsv or .jsonl"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(JudgeError, match=said):
        read_grades(written(tmp_path, text, name))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="cannot be read"):
        read_grades(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("doc_id,grade,nota\n1,3,\xf1\n".encode("latin-1"))
    with pytest.raises(JudgeError, match="UTF-8"):
        read_grades(tmp_path / "latin.csv")


def test_another_scale(tmp_path: Path) -> None:
    assert read_grades(written(tmp_path, "doc_id,grade\n1,0\n2,10\n"), scale=(0, 10))[1].grade == 10


JUDGE = {0: 5, 1: 4, 2: 3, 3: 3, 4: 1, 5: _, 6: 2, 9: 4}
HUMAN = {0: 5, 1: 3, 2: 3, 3: 5, 4: 1, 5: 2, 6: 2, 20: 4}


def evaluated(judge: dict[int, float], grades: list[Grade], **options: object) -> MetaEvaluation:
    documents = [JudgedDocument("medtext", doc_id, score, "m") for doc_id, score in judge.items()]
    return meta_evaluation(documents, grades, np.random.default_rng(1), **options)  # type: ignore[arg-type]


def one_rater(human: dict[int, float]) -> list[Grade]:
    return [Grade(str(doc_id), grade) for doc_id, grade in human.items()]


def test_every_number() -> None:
    stats = pytest.importorskip("scipy.stats")
    metrics = pytest.importorskip("sklearn.metrics")
    found = evaluated(JUDGE, one_rater(HUMAN), resamples=200)
    assert len(found.documents) == 7
    assert found.no_verdict == 1
    assert found.unmatched_grades == (("medtext", "m", "20"),)
    assert found.unmatched_documents == (("medtext", "m", "9"),)
    judge, human = [5, 4, 3, 3, 1, 2], [5, 3, 3, 5, 1, 2]  # documents 0 1 2 3 4 6
    assert (found.exact.value, found.exact.n) == (pytest.approx(4 / 6), 6)
    assert found.within_one.value == pytest.approx(5 / 6)
    assert found.kappa.value == pytest.approx(
        metrics.cohen_kappa_score(judge, human, labels=[1, 2, 3, 4, 5], weights="quadratic")
    )
    assert (found.spearman.value, found.spearman.p) == pytest.approx(tuple(stats.spearmanr(judge, human)))
    assert (found.kendall.value, found.kendall.p) == pytest.approx(tuple(stats.kendalltau(judge, human)))
    assert found.error.value == pytest.approx((1 - 2) / 6)
    difference, draws = np.subtract(judge, human), np.random.default_rng(1)
    means = [np.mean(difference[draws.integers(6, size=6)]) for _ in range(200)]
    assert (found.error.low, found.error.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    # Rows: human 1 to 5. Columns: judge 1 to 5, then no verdict.
    assert found.confusion.tolist() == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 1],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 0],
    ]
    theirs = metrics.confusion_matrix(human, judge, labels=[1, 2, 3, 4, 5])
    np.testing.assert_array_equal(found.confusion[:, :5], theirs)
    assert found.rows()[1] == {"human": "2", "1": 0, "2": 1, "3": 0, "4": 0, "5": 0, "no verdict": 1}
    text = "\n".join(found.lines())
    assert "7 answers both judged and graded by people, 1 of them without a verdict" in text
    assert "1 judged answers have no grade: 9 of medtext by m" in text
    assert "nan" not in text


def test_several_raters() -> None:
    grades = [
        *(Grade(str(i), g, rater="ana") for i, g in enumerate([1, 2, 3, 4])),
        *(Grade(str(i), g, rater="ben") for i, g in enumerate([1, 2, 4, 4])),
        *(Grade(str(i), g, rater="cat") for i, g in enumerate([2, 2, _, 1])),
    ]
    judge = {0: 1, 1: 2, 2: 4, 3: 4}
    found = evaluated(judge, grades)
    assert [one.human for one in found.documents] == [1, 2, 3.5, 4]
    assert [one.raters for one in found.documents] == [3, 3, 2, 3]
    assert found.exact.value == 0.75
    assert found.rounded == 1
    assert found.confusion[3, 3] == 2  # 3.5 is counted as 4
    assert (found.raters, found.empty_grades) == (("ana", "ben", "cat"), 1)
    means = evaluated(judge, grades, combine="mean")
    assert [one.human for one in means.documents] == pytest.approx([4 / 3, 2, 3.5, 3])
    # Alpha by hand, ordinal. Pairable: 1 1 2 | 2 2 2 | 3 4 | 4 4 1, n = 11.
    # Counts 3, 4, 1, 3 and so mid-ranks 1.5, 5, 7.5, 9.5.
    # Observed, 2 / (m - 1) for each unordered pair: 2 * 12.25, 0, 2 * 4, 2 * 64.
    observed = (24.5 + 8 + 128) / 11
    products = [(3, 1.5), (4, 5.0), (1, 7.5), (3, 9.5)]
    expected = sum(m * n * (p - q) ** 2 for m, p in products for n, q in products) / (11 * 10)
    assert found.raters_alpha.value == pytest.approx(1 - observed / expected)
    assert "3 raters, their grades combined by median" in found.lines()


def test_matching_by_task_and_model() -> None:
    judged = [
        JudgedDocument(task, 1, score, model)
        for task, model, score in [("a", "m", 1), ("a", "n", 2), ("b", "m", 3), ("b", "n", 4)]
    ]
    grades = [Grade("1", 5, "a", "n"), Grade("1", 3, "b", "m"), Grade("1", 4, "c", "m")]
    found = meta_evaluation(judged, grades, np.random.default_rng(0))
    assert {one.key: (one.human, one.judge) for one in found.documents} == {
        ("a", "n", "1"): (5, 2),
        ("b", "m", "1"): (3, 3),
    }
    assert found.unmatched_grades == (("c", "m", "1"),)
    assert len(found.unmatched_documents) == 2
    with pytest.raises(JudgeError, match=r"of which task it is, and 2 were judged \(a, b\)"):
        meta_evaluation(judged, [Grade("1", 5, model="m")], np.random.default_rng(0))
    with pytest.raises(JudgeError, match="of which model it is, and 2 were judged"):
        meta_evaluation(judged, [Grade("1", 5, task="a")], np.random.default_rng(0))
    # A grade that names the only task and one that leaves it out are of the same answer.
    with pytest.raises(JudgeError, match="two grades without a rater"):
        evaluated({1: 3}, [Grade("1", 5, "medtext", "m"), Grade("1", 4)])


def test_refused_input() -> None:
    with pytest.raises(JudgeError, match="expected median or mean"):
        evaluated({1: 3}, one_rater({1: 3}), combine="max")
    with pytest.raises(JudgeError, match="1 of medtext by m was judged twice"):
        meta_evaluation(
            [JudgedDocument("medtext", 1, 3, "m"), JudgedDocument("medtext", "1", 3, "m")], [], np.random.default_rng(0)
        )
    with pytest.raises(JudgeError, match="expected 1 to 5"):
        evaluated({1: 7}, one_rater({1: 3}))


def test_undefined_is_never_a_number() -> None:
    nothing = evaluated({1: 3}, one_rater({2: 3}))
    assert (len(nothing.documents), nothing.exact.reason) == (0, TOO_FEW)
    assert math.isnan(nothing.kappa.value)
    assert not nothing.confusion.any()
    constant = evaluated({1: 3, 2: 3, 3: 3}, one_rater({1: 3, 2: 3, 3: 3}))
    assert constant.exact.value == 1
    assert constant.kappa.reason == constant.spearman.reason == constant.kendall.reason == NO_VARIATION
    silent = evaluated({1: _, 2: _}, one_rater({1: 3, 2: 4}))
    assert (silent.no_verdict, silent.exact.reason) == (2, TOO_FEW)
    assert silent.confusion[:, 5].tolist() == [0, 0, 1, 1, 0]
    for found in (nothing, constant, silent):
        assert "nan" not in "\n".join(found.lines())
        json.dumps([found.rows(), found.error.row()], allow_nan=False)
