"""Scoring every answer of every question: the same scores as one by one, each reference encoded once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.options import JudgeOptions
from lm_eval_healthcare.judge.store import VerdictStore
from lm_eval_healthcare.results.discovery import find
from lm_eval_healthcare.results.repeated_answers import RepeatedTask, read_repeated
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.scoring.saved_facts import KnownTasks
from lm_eval_healthcare.scoring.saved_samples import Wishes
from lm_eval_healthcare.scoring.score_cache import ScoreCache
from lm_eval_healthcare.studies.answer_scores import judge_answers, plan_metrics, score_answers
from repeated_runs import row, write
from scripted_server import ScriptedJudge
from tiny_encoders import tiny_bert

REFERENCES = ["halve the dose", "stop the drug", "wait for a day"]
ANSWERS = [["halve the dose", "stop", "the dose"], ["stop the drug now", " ", "drug"], ["a day", "wait", "halve it"]]


def task_of(folder: Path, rows: list[dict[str, Any]], **more: Any) -> RepeatedTask:
    write(folder, rows, **more)
    (run,) = find([folder]).runs
    ((task, path),) = run.samples.items()
    return read_repeated(run, task, path)


@pytest.fixture
def task(tmp_path: Path) -> RepeatedTask:
    rows = [row(n, own, text) for n, (own, text) in enumerate(zip(ANSWERS, REFERENCES, strict=True))]
    return task_of(tmp_path / "run", rows)


def test_every_answer_has_the_score_that_it_has_alone(task: RepeatedTask) -> None:
    found = score_answers(task, ["rouge1", "sacrebleu"], {}, ScoreCache.open("off"))
    for name in ("rouge1", "sacrebleu"):
        alone = [
            [metrics.score([text], [reference], name)[name][0] for text in own]
            for own, reference in zip(ANSWERS, REFERENCES, strict=True)
        ]
        np.testing.assert_allclose(found.scores[name], alone, rtol=0, atol=1e-12)
    # By hand: 2 of 3 words of the reference, so precision 1, recall 2/3, F1 4/5; and 1 for the same text.
    assert found.scores["rouge1"][0] == pytest.approx([1.0, 0.0, 0.8])
    assert found.signatures["rouge1"] == metrics.signature("rouge1")


def test_missing_answers_have_no_score_and_blank_ones_the_worst(tmp_path: Path) -> None:
    rows = [row(0, ["halve the dose", None, " "]), row(1, ["x", "y"]), row(2, ["x", "y", "z"], " ")]
    found = score_answers(task_of(tmp_path, rows), ["rouge1"], {}, ScoreCache.open("off"))
    nan = math.nan
    assert found.scores["rouge1"].tolist() == pytest.approx(
        [pytest.approx([1.0, nan, 0.0], nan_ok=True), pytest.approx([0.0, 0.0, nan], nan_ok=True),
         pytest.approx([nan, nan, nan], nan_ok=True)]
    )  # fmt: skip
    assert found.reasons == {"empty_prediction": 1, "blank_reference": 3}


def test_progress_counts_all_answers(task: RepeatedTask) -> None:
    seen: list[float] = []
    score_answers(task, ["rouge1"], {}, ScoreCache.open("off"), lambda _, n: seen.append(n))
    assert sum(seen) == 9


def test_each_reference_is_encoded_once_for_all_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """130 questions make three blocks; no text goes through the encoder twice, and scores are those of one call."""
    pytest.importorskip("transformers")
    from lm_eval_healthcare.metrics.encoding.encoder import Encoder

    words = ["halve", "the", "dose", "stop", "drug", "wait", "day", "a"]
    texts = [f"{a} {b} {c}" for a in words for b in words for c in words][:130]
    rows = [row(n, [text.split()[0], " ".join(text.split()[::-1])], text) for n, text in enumerate(texts)]
    task = task_of(tmp_path / "run", rows)
    options = {"bert_score_model": str(tiny_bert(tmp_path / "m")), "bert_score_layer": "2", "metrics_device": "cpu"}
    encoded: list[int] = []
    encode = Encoder.encode

    def counting(self: Any, batch: Any, layers: Any) -> Any:
        encoded.append(len(batch))
        return encode(self, batch, layers)

    monkeypatch.setattr(Encoder, "encode", counting)
    with ScoreCache.in_memory() as cache:
        found = score_answers(task, ["bert_score"], options, cache)
    monkeypatch.undo()
    pairs = [(answer, text) for text in texts for answer in (text.split()[0], " ".join(text.split()[::-1]))]
    whole = metrics.score([one for one, _ in pairs], [one for _, one in pairs], "bert_score", **options)["bert_score"]
    np.testing.assert_allclose(found.scores["bert_score"].ravel(), whole, atol=1e-5)
    assert sum(encoded) <= len(texts) + len(pairs)  # pair by pair it would be 2 * len(pairs)


def test_what_cannot_be_computed_is_told_before_anything_is(task: RepeatedTask, tmp_path: Path) -> None:
    known = KnownTasks([tmp_path])
    with pytest.raises(ResultsError, match=r"bert_score"):
        plan_metrics(task, "bert_score", Wishes(options={"bert_score_model": str(tmp_path / "none")}), known)
    with pytest.raises(ResultsError, match="unknown metric"):
        plan_metrics(task, "rogue1", Wishes(), known)
    planned, _ = plan_metrics(task, "rouge1+bleu", Wishes(), known)
    assert planned.names == ("rouge1", "bleu")
    assert planned.signatures["bleu"] == metrics.signature("bleu")


def judge_options(server: ScriptedJudge) -> JudgeOptions:
    return JudgeOptions.of(("scripted",), {"backend": "openai", "base_url": server.base_url})


def test_judges_grade_every_answer_once(tmp_path: Path) -> None:
    """On a real socket; equal answers to one question are one request, and a second command asks nothing."""
    rows = [
        row(0, ["worth-5", "worth-3", "worth-5"]),
        row(1, ["worth-1", " ", "worth-9"]),
        row(2, ["worth-2", "worth-2 too", None], "wait"),
        row(3, ["worth-4", "worth-4", "worth-4"], " "),
    ]
    task, known, nan = task_of(tmp_path / "run", rows), KnownTasks([tmp_path]), math.nan
    with ScriptedJudge() as server, VerdictStore.open(tmp_path / "verdicts") as store:
        options = judge_options(server)
        (found,) = judge_answers([task], options, store, known)
        asked = sum(server.counts.values())
        (again,) = judge_answers([task], options, store, known)
        assert sum(server.counts.values()) == asked
    expected = [[5, 3, 5], [1, 1, nan], [2, 2, nan], [nan, nan, nan]]
    np.testing.assert_array_equal(found.scores["prometheus"], expected)
    np.testing.assert_array_equal(again.scores["prometheus"], expected)
    assert found.reasons["blank_reference:prometheus"] == 3
    assert sum(found.reasons.values()) == 4
    # Two of the first question, worth-1, two of the third; and ten attempts at the one without a verdict.
    assert asked == 5 + 10
    assert "judge:scripted" in found.signatures["prometheus"]


def test_credentialed_texts_are_not_sent_away(tmp_path: Path) -> None:
    from lm_eval_healthcare import tasks_path

    task = task_of(tmp_path / "run", [row(0, ["a", "b"])], task="mimic_hospital_course")
    known = KnownTasks([Path(tasks_path())])
    facts = known.facts("mimic_hospital_course", {})
    assert facts is not None
    assert facts.credentialed
    options = JudgeOptions.of(("far",), {"backend": "openai", "base_url": "http://judge.example.org/v1"})
    with VerdictStore.open("off") as store, pytest.raises(JudgeError, match="may not leave this machine"):
        judge_answers([task], options, store, known)
