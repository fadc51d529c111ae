"""The numbers of a study of self-consistency: which runs, which metrics, and what is made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.discovery import find
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.scoring.saved_facts import KnownTasks
from lm_eval_healthcare.scoring.saved_samples import Wishes
from lm_eval_healthcare.scoring.score_cache import ScoreCache
from lm_eval_healthcare.studies import consistency, consistency_runs
from lm_eval_healthcare.studies.consistency_runs import Studied, Wanted
from repeated_runs import GREEDY, row, write

B58 = [
    [0.2, 0.3, 0.25, 0.2, 0.3, 0.25, 0.2, 0.3, 0.25, 0.2, 0.3],
    [-0.02, 0.03, 0.01, -0.03, 0.02, 0.0, -0.01, 0.02, -0.02, 0.01, -0.01],
    [0.0] * 11,
    [-1.1, -0.9, -1.0, -1.2, -0.8, -1.0, -1.0, -1.1, -0.9, -1.0, -1.0],
]


def scored(values: Sequence[Sequence[Any]], metric: str = "rougeL", **more: Any) -> list[dict[str, Any]]:
    """Rows with logged scores; every answer is another text."""
    return [
        row(n, [f"answer {n} {place}" for place in range(len(own))], **{f"{metric}_per_answer": list(own)}, **more)
        for n, own in enumerate(values)
    ]


def studied(folder: Path, wanted: Wanted | None = None, wishes: Wishes | None = None) -> tuple[Studied, dict[str, Any]]:
    wanted, wishes = wanted or Wanted(), wishes or Wishes()
    found = consistency_runs.read(find([folder]).runs, wishes)
    consistency_runs.plan(found, wanted, wishes, KnownTasks([folder]))
    with ScoreCache.open("off") as cache:
        for one in found.tasks:
            consistency_runs.score(one, wanted, cache, lambda *_: None)
    content = consistency.study(found.tasks, wanted, {"seed": 0})
    return found, json.loads(json.dumps(content, allow_nan=False))


def test_case_b58(tmp_path: Path) -> None:
    write(tmp_path, scored(B58))
    found, content = studied(tmp_path)
    one = content["metrics"]["rougeL"]
    assert one["cvs"] == [pytest.approx(0.170561, abs=5e-7), None, None, None]
    assert one["variances"] == pytest.approx([0.00181818, 0.00034545, 0.0, 0.01090909], abs=5e-9)
    assert one["mean_variance"] == pytest.approx(0.1438 / 11 / 4)  # see test_repeated_scores
    assert one["mean_cv"] == pytest.approx(0.170561, abs=5e-7)
    assert (one["n_prompts"], one["n_undefined"], one["repeats"]) == (4, 3, 11)
    assert one["undefined"] == {"mean_near_zero": 1, "negative_value": 2}
    assert one["range"] == [-1.2, 0.3]
    assert one["scaled_mean_variance"] == pytest.approx(0.1438 / 11 / 4 / 1.5**2)
    assert one["flags"] == ["signature_unknown"]
    assert content["runs"][0]["distinct_answers"] == {"mean": 11.0, "identical_prompts": 0}
    assert content["runs"][0]["settings"] == {"do_sample": True, "temperature": 1.0, "top_p": 0.9}
    assert content["runs"][0]["metrics"]["rougeL"]["noise"]["se"] == pytest.approx(
        np.std([np.mean(own) for own in B58], ddof=1) / 2
    )
    lines = list(consistency.prompt_rows(found.tasks, Wanted(), content))
    assert [line["reason"] for line in lines] == ["", "negative_value", "mean_near_zero", "negative_value"]
    head, first, *_ = consistency.prompt_table(lines)
    assert dict(zip(head, first, strict=True))["variance"] == pytest.approx(0.00181818, abs=5e-9)
    assert first[head.index("score_1") :] == B58[0]


def test_table_has_room_for_the_most_answers(tmp_path: Path) -> None:
    write(tmp_path, scored([[0.5, 0.7, 0.9], [0.4, 0.6]]))
    found, content = studied(tmp_path)
    head, first, second = consistency.prompt_table(consistency.prompt_rows(found.tasks, Wanted(), content))
    assert head[-3:] == ["score_1", "score_2", "score_3"]
    assert first[-3:] == [0.5, 0.7, 0.9]
    assert second[-3:-1] == [0.4, 0.6]
    assert second[-1] is None or np.isnan(second[-1])


def test_no_range_is_no_division_by_zero(tmp_path: Path) -> None:
    write(tmp_path, scored([[0.5] * 3, [0.5] * 3]))
    one = studied(tmp_path)[1]["metrics"]["rougeL"]
    assert one["mean_variance"] == 0.0
    assert one["scaled_mean_variance"] is None
    assert one["scaled_variances"] == [None, None]
    assert "no_range" in one["flags"]


@pytest.mark.parametrize(
    ("metric", "scale"), [("bleurt", "linear"), ("mover_score", "similarity"), ("bert_score", "rescaled")]
)
def test_metrics_without_a_zero_have_no_coefficient(tmp_path: Path, metric: str, scale: str) -> None:
    """Rescaled BERTScore, (s - b) / (1 - b) with the baseline b, is below 0 for texts worse than random pairs."""
    write(tmp_path, scored([[0.5, 0.7], [0.4, 0.6]], metric), signatures={metric: f"{metric}|impl:x|scale:{scale}"})
    one = studied(tmp_path)[1]["metrics"][metric]
    assert "scale_below_zero" in one["flags"]
    assert one["mean_cv"] is None
    assert one["undefined"] == {"scale_below_zero": 2}
    assert one["mean_variance"] == pytest.approx(0.01)


def test_plain_bert_score_has_a_coefficient(tmp_path: Path) -> None:
    """0.5 and 0.7: sd 0.1, mean 0.6; 0.4 and 0.6: sd 0.1, mean 0.5."""
    rows = scored([[0.5, 0.7], [0.4, 0.6]], "bert_score")
    write(tmp_path, rows, signatures={"bert_score": "bert_score|impl:x|scale:cosine"})
    assert studied(tmp_path)[1]["metrics"]["bert_score"]["mean_cv"] == pytest.approx((1 / 6 + 1 / 5) / 2)


def test_several_models_and_their_pairs(tmp_path: Path) -> None:
    """Variances 0.01 and 0.04 of question 0; question 2 only the second model has, and the first lacks nothing there.

    The range over both is 0 to 1. Differences of means 0.3 and 0.2: SE sqrt(0.005 / 2) = 0.05.
    """
    signatures = {"rougeL": "same"}
    write(tmp_path, scored([[0.5, 0.7], [0.4, 0.6]]), model="org/one", signatures=signatures)
    write(tmp_path, scored([[0.1, 0.5], [0.2, 0.4], [0.0, 1.0]]), model="org/two", signatures=signatures)
    one = (content := studied(tmp_path)[1])["metrics"]["rougeL"]
    assert one["variances"] == pytest.approx([(0.01 + 0.04) / 2, 0.01, 0.25])
    assert one["scaled_variances"] == pytest.approx(one["variances"])
    assert (one["n_prompts"], one["n_undefined"], one["n_no_variance"]) == (3, 0, 0)
    assert one["flags"] == []
    assert one["signature"] == "same"
    assert [run["metrics"]["rougeL"]["n_prompts"] for run in content["runs"]] == [2, 3]
    (pair,) = content["pairs"]
    assert pair["models"] == ["org/one", "org/two"]
    assert pair["difference"] == pytest.approx(0.25)
    assert pair["se"] == pytest.approx(0.05)
    assert pair["n"] == 2
    # Unbiased variances: 0.02 + 0.08 and 0.02 + 0.02; half of their mean is chance in the differences.
    assert pair["prediction"] == pytest.approx(0.07)
    assert pair["data"] == pytest.approx(0.005 - 0.035)


def test_metrics_that_mean_other_things_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path, scored([[0.5, 0.7], [0.4, 0.6]]), model="org/one", signatures={"rougeL": "old"})
    write(tmp_path, scored([[0.1, 0.5], [0.2, 0.4]]), model="org/two", signatures={"rougeL": "new"})
    content = studied(tmp_path)[1]
    assert content["pairs"] == []
    assert content["metrics"]["rougeL"]["flags"] == ["signatures_differ"]
    assert content["metrics"]["rougeL"]["signature"] is None


def test_answers_that_were_not_drawn_have_no_statistics(tmp_path: Path) -> None:
    """Also if some questions only were answered greedily."""
    rows = scored([[0.5, 0.7], [0.4, 0.6]])
    rows[0]["arguments"]["gen_args_0"]["arg_1"] = GREEDY
    write(tmp_path, rows)
    one = studied(tmp_path)[1]["metrics"]["rougeL"]
    assert one["variances"] == [None, pytest.approx(0.01)]
    assert one["undefined"] == {"not_sampled": 1}
    assert one["n_no_variance"] == 1
    assert one["range"] == [0.4, 0.6]
    assert "not_sampled" in one["flags"]
    all_of_them = studied(tmp_path, Wanted(not_sampled_too=True))[1]["metrics"]["rougeL"]
    assert all_of_them["n_undefined"] == 0
    assert all_of_them["variances"] == pytest.approx([0.01, 0.01])


def test_one_answer_is_never_a_variance_of_zero(tmp_path: Path) -> None:
    write(tmp_path, [row(0, ["a"], rougeL_per_answer=[0.5])], repeats=3)
    found, content = studied(tmp_path)
    assert found.tasks == []
    assert content["metrics"] == {}
    ((_, why),) = found.left_out
    assert "single_answer" in why
    assert "repeats 3" in why


def test_ragged_answers_and_odd_scores(tmp_path: Path) -> None:
    """A question with one answer, one whose scores are no numbers, one with two of three."""
    values = [[0.5, 0.7, 0.6], [0.4], [None, "0.3", math.nan], [0.2, None, 0.4]]
    write(tmp_path, scored(values), repeats=3)
    one = studied(tmp_path)[1]["metrics"]["rougeL"]
    assert one["variances"] == [pytest.approx(0.02 / 3), None, None, pytest.approx(0.01)]
    assert one["undefined"] == {"no_score": 1, "single_score": 1}
    assert (one["n_prompts"], one["repeats"]) == (4, 3)
    assert "repeats_mismatch" in one["flags"]


def test_the_same_question_twice_is_two_questions(tmp_path: Path) -> None:
    rows = scored([[0.5, 0.7], [0.4, 0.6], [0.1, 0.2]])
    rows[1]["doc_hash"] = rows[0]["doc_hash"]
    write(tmp_path, rows, model="org/one")
    write(tmp_path, rows, model="org/two")
    one = studied(tmp_path)[1]["metrics"]["rougeL"]
    assert one["n_prompts"] == 3
    assert one["variances"] == pytest.approx([0.01, 0.01, 0.0025])


def test_names_with_commas_and_what_is_no_metric(tmp_path: Path) -> None:
    """`rougeL_coverage` tells of rougeL, and is no score of its own."""
    more = {"a,b": [1.0, 3.0], "rougeL": [0.1, 0.2], "rougeL_coverage": [1.0, 1.0]}
    write(tmp_path, [row(0, ["a", "b"], **{f"{name}_per_answer": own for name, own in more.items()})])
    assert list(studied(tmp_path)[1]["metrics"]) == ["a,b", "rougeL"]


def test_without_logged_scores_n_gram_metrics_are_computed(tmp_path: Path) -> None:
    write(tmp_path, [row(0, ["halve the dose", "halve"], first_only=True), row(1, ["the dose", "x"], first_only=True)])
    content = studied(tmp_path)[1]
    assert list(content["metrics"]) == metrics.resolve("ngram")
    # F1 1 and 1/2; 4/5 and 0: variances 1/16 and 4/25.
    assert content["metrics"]["rouge1"]["variances"] == pytest.approx([1 / 16, 0.16])
    assert content["metrics"]["rouge1"]["signature"] == metrics.signature("rouge1")


def test_which_metrics_are_taken_from_the_log(tmp_path: Path) -> None:
    """Equal signatures: taken. Others: computed. Unsigned: taken and flagged. Not known here: taken from the log."""
    logged = {"rouge1": [0.9, 0.1], "rouge2": [0.9, 0.1], "rougeL": [0.9, 0.1], "own_score": [0.9, 0.1]}
    rows = [row(0, ["halve the dose", "halve"], **{f"{name}_per_answer": own for name, own in logged.items()})]
    write(tmp_path, rows, signatures={"rouge1": metrics.signature("rouge1"), "rouge2": "rouge2|another"})
    wanted = Wanted(["rouge1", "rouge2", "rougeL", "own_score"])
    found, content = studied(tmp_path, wanted)
    assert found.tasks[0].taken == ["rouge1", "rougeL", "own_score"]
    means = {name: one["mean"] for name, one in content["metrics"].items()}
    # Of rouge2 by hand: both word pairs, and none of them.
    assert means == pytest.approx({"rouge1": 0.5, "rougeL": 0.5, "own_score": 0.5, "rouge2": 0.5})
    assert content["metrics"]["rouge2"]["variances"] == pytest.approx([0.25])
    assert content["metrics"]["rouge1"]["variances"] == pytest.approx([0.16])
    assert [name for name, one in content["metrics"].items() if "signature_unknown" in one["flags"]] == [
        "rougeL", "own_score",
    ]  # fmt: skip
    again = studied(tmp_path, Wanted(["rouge1", "own_score"], recompute=True))[1]["metrics"]
    assert again["rouge1"]["variances"] == pytest.approx([1 / 16])
    assert again["own_score"]["variances"] == pytest.approx([0.16])


def test_what_nobody_knows_is_refused(tmp_path: Path) -> None:
    write(tmp_path, scored([[0.5, 0.7]]))
    with pytest.raises(ResultsError, match=r"unknown metric 'rogueL'.*Logged for single answers: rougeL"):
        studied(tmp_path, Wanted(["rogueL"]))
    with pytest.raises(ResultsError, match="needs a judge"):
        studied(tmp_path, Wanted(["prometheus"]))


def test_logged_verdicts_need_no_judge(tmp_path: Path) -> None:
    write(tmp_path, scored([[5, 3], [4, None]], "prometheus"))
    one = studied(tmp_path, Wanted(["prometheus"]))[1]["metrics"]["prometheus"]
    assert one["variances"] == [1.0, None]


def test_the_newest_whole_run_of_a_model_counts(tmp_path: Path) -> None:
    write(tmp_path / "a", scored([[0.1, 0.1], [0.1, 0.3]]), stamp="2026-01-01T10-00-00.000000")
    write(tmp_path / "b", scored([[0.5, 0.7], [0.4, 0.6]]), stamp="2026-02-01T10-00-00.000000")
    part = {"n-samples": {"asked_again": {"original": 2, "effective": 1}}}
    write(tmp_path / "c", scored([[0.0, 1.0]]), stamp="2026-03-01T10-00-00.000000", **part)
    found, content = studied(tmp_path)
    assert content["metrics"]["rougeL"]["variances"] == pytest.approx([0.01, 0.01])
    assert len(found.left_out) == 2
    assert all("newer or more complete" in why for _, why in found.left_out)


def test_rewordings_are_another_study(tmp_path: Path) -> None:
    write(tmp_path, scored([[0.5, 0.7]]), rephrased={"n": 1})
    found, _ = studied(tmp_path)
    assert found.tasks == []
    assert "lm-eval-healthcare resilience" in found.left_out[0][1]


def test_files_that_cannot_be_used_cost_themselves(tmp_path: Path) -> None:
    write(tmp_path / "a", scored([[0.5, 0.7]]))
    path = write(tmp_path / "b", scored([[0.5, 0.7]]), model="org/two")
    path.write_text("no json\n" * 3)
    found, content = studied(tmp_path)
    assert len(found.faults) == 1
    assert [run["model"] for run in content["runs"]] == ["org/one"]


def test_answers_needed_for_wanted_errors(tmp_path: Path) -> None:
    """By default for a half and a quarter of the present standard error."""
    rng = np.random.default_rng(5)
    values = 0.5 + rng.normal(0, 0.2, (40, 4)) + rng.normal(0, 0.02, (40, 1))
    write(tmp_path, scored(values.tolist()))
    own = studied(tmp_path)[1]["runs"][0]["metrics"]["rougeL"]
    assert [need["se"] for need in own["repeats_needed"]] == pytest.approx(
        [own["noise"]["se"] / 2, own["noise"]["se"] / 4]
    )
    need = studied(tmp_path, Wanted(precision=[0.012]))[1]["runs"][0]["metrics"]["rougeL"]["repeats_needed"][0]
    room = 40 * 0.012**2 - max(0.0, own["noise"]["data"])
    assert need["repeats"] == math.ceil(own["noise"]["prediction"] / room)
