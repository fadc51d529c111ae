"""The study of resilience: from files of rewordings to its numbers, checked by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lm_eval_healthcare.results.repeated_answers import RepeatedTask
from lm_eval_healthcare.studies.answer_scores import AnswerScores
from lm_eval_healthcare.studies.resilience import ResilienceStudy
from lm_eval_healthcare.studies.rewording.answers import NO_REWORDINGS, OLDER, counts, read_reworded, version_names
from reworded_files import FULL, NONE, THREE, TWO, reworded, row

NAN = math.nan


def tasks_of(*paths: Path, versions: int | None = None) -> list[RepeatedTask]:
    return read_reworded(list(paths), {}, versions).tasks


def study(tasks: list[RepeatedTask], *scores: list[list[float]], **options: bool) -> ResilienceStudy:
    return ResilienceStudy(tasks, [AnswerScores({"m": np.array(one, dtype=float)}) for one in scores], **options)


def test_numbers_of_two_models(tmp_path: Path) -> None:
    """Two models, three questions, two rewordings; scores from 0 to 2, so variances are divided by 4.

    Model one: 0 1 2: variance 2/3, scaled 1/6. Question 1: 1 1 NaN: 0. Question 2: 1 NaN NaN: none.
    Model two (questions 0 and 1): 0 0 0: 0; 0 2 2: variance 8/9, scaled 2/9.
    Questions: (1/6 + 0)/2 = 1/12; (0 + 2/9)/2 = 1/9; none. Mean (1/12 + 1/9)/2 = 7/72; each is 1/72 from it.
    """
    reworded(tmp_path, [row(0, [FULL, THREE, TWO]), row(1, [FULL, THREE, None]), row(2, [FULL, None, None])])
    reworded(tmp_path, [row(0, [FULL, THREE, TWO]), row(1, [FULL, THREE, TWO])], model="org/two")
    one, two = tasks_of(tmp_path)
    assert (one.run.model, two.run.model) == ("org/one", "org/two")
    content = study([one, two], [[0, 1, 2], [1, 1, NAN], [1, NAN, NAN]], [[0, 0, 0], [0, 2, 2]]).content({})
    found = content["metrics"]["m"]
    assert found["variances"] == pytest.approx([1 / 12, 1 / 9, None])
    assert found["mean_variance"] == pytest.approx(7 / 72)
    assert found["variance_of_variance"] == pytest.approx(1 / 72**2)
    assert found["raw_mean_variance"] == pytest.approx(4 * 7 / 72)
    assert (found["n_prompts"], found["n_undefined"], found["versions"]) == (3, 1, 3)
    assert found["undefined"] == {"fewer_than_two_versions": 1}
    assert found["n_unmoved"] == 2
    assert found["range"] == [0.0, 2.0]
    # Rewordings less original: 1.5, 0; 0, 2; the mean is 3.5/4. Version 1: 1-0, 0, 0-0, 2-0: 3/4; version 2: 2, 0, 2.
    assert found["mean_change"] == pytest.approx(3.5 / 4)
    assert found["by_version"] == {
        "v1": {"mean": 1.0, "mean_change": 0.75, "n": 4}, "v2": {"mean": 4 / 3, "mean_change": 4 / 3, "n": 3},
    }  # fmt: skip
    assert found["original_mean"] == pytest.approx(2 / 5)
    assert found["flags"] == ["few_questions", "versions_differ"]
    # In a run of its own the range is still that of the study: (1/6 + 0)/2.
    assert content["runs"][0]["metrics"]["m"]["mean_variance"] == pytest.approx(1 / 12)
    assert content["runs"][1]["metrics"]["m"]["n_undefined"] == 0
    assert content["clusters"] == [["m"]]
    assert found["cluster"] == 1
    json.dumps(content, allow_nan=False)


def test_without_the_original_and_with_fewer_versions(tmp_path: Path) -> None:
    reworded(tmp_path, [row(0, [FULL, THREE, TWO])])
    (task,) = tasks_of(tmp_path)
    # Rewordings 1 and 2 alone: variance 1/4, divided by 2 * 2.
    content = study([task], [[0.0, 1.0, 2.0]], with_original=False).content({})
    assert content["metrics"]["m"]["mean_variance"] == pytest.approx(1 / 16)
    assert content["with_original"] is False
    (task,) = tasks_of(tmp_path, versions=1)
    assert task.rows[0].answers == [FULL, THREE]
    # Original and version 1: 0 and 1, variance 1/4; the range of what is left is 1.
    assert study([task], [[0.0, 1.0]]).content({})["metrics"]["m"]["mean_variance"] == pytest.approx(1 / 4)


def test_rules_are_told_by_name_whatever_their_place(tmp_path: Path) -> None:
    """The first rule of one answer may be the second of another, where it changed nothing; none is left for a third."""
    rows = [
        row(0, [FULL, THREE, TWO, None], by=["rules:case", "rules:spelling", "rules"]),
        row(1, [FULL, TWO, THREE, None], by=["rules:spelling", "rules:case", "rules"]),
    ]
    reworded(tmp_path, rows)
    (task,) = tasks_of(tmp_path)
    assert version_names(task.rows[1]) == ["original", "rules:spelling", "rules:case", ""]
    by_version = study([task], [[1, 2, 4, NAN], [1, 4, 2, NAN]]).content({})["metrics"]["m"]["by_version"]
    assert set(by_version) == {"rules:case", "rules:spelling"}
    assert by_version["rules:case"] == {"mean": 2.0, "mean_change": 1.0, "n": 2}
    assert by_version["rules:spelling"] == {"mean": 4.0, "mean_change": 3.0, "n": 2}


def test_a_constant_metric_is_undefined_and_no_cluster(tmp_path: Path) -> None:
    reworded(tmp_path, [row(0, [FULL, THREE, TWO])])
    found = study(tasks_of(tmp_path), [[0.5, 0.5, 0.5]])
    one = found.content({})["metrics"]["m"]
    assert (one["mean_variance"], one["cluster"], one["n_undefined"]) == (None, None, 1)
    assert one["undefined"] == {"no_range": 1}
    assert one["raw_mean_variance"] == 0.0
    assert not found.is_empty
    assert study(tasks_of(tmp_path), [[0.5, NAN, NAN]]).is_empty


def test_counts_of_rewordings(tmp_path: Path) -> None:
    """Of 3 answers with words 6 rewordings were wanted; the blank answer has none and none is missing."""
    turned_down = [["number_lost", "5 mg"], ["refusal", "I cannot"], ["number_lost", "7"]]
    rows = [row(0, [FULL, None, TWO], rejected=turned_down), row(1, [FULL, THREE, TWO]), row(2, [FULL, None, None]),
            row(3, [" ", None, None])]  # fmt: skip
    reworded(tmp_path, rows)
    (task,) = tasks_of(tmp_path)
    found = counts(task)
    assert (found["accepted"], found["missing"]) == (3, 3)
    assert found["rejected_by_reason"] == {"number_lost": 2, "refusal": 1}
    assert found["asked"] == 4 + 5  # 1 + 3 for the first, 1 each for the other five


def test_texts_of_equal_answers_to_one_question_count_once(tmp_path: Path) -> None:
    """They were drawn once; the rewordings that came of them stand with each answer. Other questions are others."""
    first = row(0, [FULL, THREE, None], rejected=[["cut", "x"]])
    again = {**first, "doc_id": 1, "doc_hash": f"{1:064x}"}
    reworded(tmp_path, [first, again, row(2, [FULL, THREE, None], rejected=[["too_long", "y"]])])
    (task,) = tasks_of(tmp_path)
    assert counts(task) == {
        "accepted": 3, "missing": 3, "asked": 6, "rejected_by_reason": {"cut": 1, "too_long": 1},
    }  # fmt: skip


def test_the_rows_of_the_table(tmp_path: Path) -> None:
    reworded(tmp_path, [row(0, [FULL, THREE, TWO]), row(1, [FULL, None, None])])
    head, first, second = study(tasks_of(tmp_path), [[0, 1, 2], [1, NAN, NAN]]).prompt_rows()
    assert head[5:] == ["metric", "original", "v1", "v2", "variance", "scaled_variance"]
    assert first[5:] == ["m", 0.0, 1.0, 2.0, pytest.approx(2 / 3), pytest.approx(1 / 6)]
    assert second[6:] == [1.0, "", "", "", ""]
    assert FULL not in map(str, [*first, *second])


def test_metrics_that_were_computed_in_two_ways_are_flagged(tmp_path: Path) -> None:
    reworded(tmp_path, [row(0, [FULL, TWO])])
    reworded(tmp_path, [row(0, [FULL, TWO])], model="org/two")
    scores = [AnswerScores({"m": np.array([[1.0, 0.5]])}, {"m": f"m|layer:{layer}"}) for layer in (10, 17)]
    found = ResilienceStudy(tasks_of(tmp_path), scores).content({})
    assert "signatures_differ" in found["metrics"]["m"]["flags"]
    assert "signatures_differ" not in found["runs"][0]["metrics"]["m"]["flags"]
    same = ResilienceStudy(tasks_of(tmp_path), [scores[0], scores[0]]).content({})
    assert "signatures_differ" not in same["metrics"]["m"]["flags"]


def test_rewordings_beside_what_they_were_made_from(tmp_path: Path) -> None:
    """The run itself is no rewording; that it is here does not hide its rewordings, which were made from it."""
    source = "results_2026-01-01T00-00-00.000000.json"
    path = reworded(tmp_path / "old", [row(0, [FULL])], stamp="2026-01-01T00-00-00.000000")
    content = json.loads(path.read_text())
    del content["rephrased"], content["config"]["scored_from"]
    path.write_text(json.dumps(content))
    (samples,) = path.parent.glob("samples_*")
    plain = json.loads(samples.read_text())
    del plain["rewordings"]
    samples.write_text(json.dumps(plain) + "\n")
    reworded(tmp_path / "new", [row(0, [FULL, TWO])], source=source)
    found = read_reworded([tmp_path], {})
    assert [len(task.rows[0].answers) for task in found.tasks] == [2]
    assert found.left_out == [("org/one, medtext", NO_REWORDINGS)]


def test_only_the_newest_rewordings_by_one_model_count(tmp_path: Path) -> None:
    """Rewordings by rules of the same answers are other ones, and stay."""
    reworded(tmp_path / "a", [row(0, [FULL, TWO])])
    reworded(tmp_path / "b", [row(0, [FULL, THREE])], stamp="2026-02-02T03-04-05.000006")
    reworded(tmp_path / "c", [row(0, [FULL, NONE], by=["rules:case"])], by="rules")
    found = read_reworded([tmp_path], {})
    assert [task.rows[0].answers[1] for task in found.tasks] == [THREE, NONE]
    assert [why for _, why in found.left_out] == [OLDER]


def test_where(tmp_path: Path) -> None:
    reworded(tmp_path, [row(0, [FULL, TWO])])
    reworded(tmp_path, [row(0, [FULL, TWO])], model="org/two")
    assert [task.run.model for task in read_reworded([tmp_path], {"model": ["org/two"]}).tasks] == ["org/two"]


def test_several_sets_of_rewordings_of_the_same_answers_are_told(tmp_path: Path) -> None:
    reworded(tmp_path / "a", [row(0, [FULL, TWO])])
    reworded(tmp_path / "b", [row(0, [FULL, NONE], by=["rules:case"])], by="rules")
    reworded(tmp_path / "c", [row(0, [FULL, TWO])], model="org/two")
    reworded(tmp_path / "d", [row(0, [FULL, TWO])], source="results_2026-01-09T00-00-00.000000.json")
    tasks = tasks_of(tmp_path)
    runs = study(tasks, *[[[1, 0]]] * len(tasks)).content({})["runs"]
    told = [[flag["n"] for flag in run["flags"] if flag["flag"] == "several_rewordings"] for run in runs]
    assert sorted((run["model"], run["by"], *n) for run, n in zip(runs, told, strict=True)) == [
        ("org/one", "hf:small-model"), ("org/one", "hf:small-model", 2), ("org/one", "rules", 2),
        ("org/two", "hf:small-model"),
    ]  # fmt: skip
