"""Neural metrics in a run: options, where scores are kept, what is left for later, what they did not see."""

from __future__ import annotations

import json
import logging
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.data.catalogue import TaskFacts
from lm_eval_healthcare.harness import rescue
from lm_eval_healthcare.harness.options import OptionError, Options
from lm_eval_healthcare.harness.text_metrics import TextMetrics
from lm_eval_healthcare.metrics import Measured, Metric
from scripted import ScriptedModel, evaluate, open_rows
from tiny_encoders import tiny_bert

REFERENCES = ["mild fever and a dry cough", "blood pressure is high", "no pain in chest"]
ANSWERS = ["the patient has mild fever", "high blood pressure", "pain in chest"]
pytest.importorskip("torch")


class Letters(Metric):
    """Stands for a neural metric: counts what it is asked, sees five letters, depends on the evaluated set if told."""

    name = "letters"
    description = "Number of letters, in the evaluated set's longest prediction."
    heavy = limited = needs_corpus = True
    maximum = math.inf
    options = ("corpus", "report")

    def __init__(self) -> None:
        self.asked: list[str] = []

    def measure(self, names: Any, predictions: Any, references: Any, **options: Any) -> Measured:
        self.asked += predictions
        longest = max(map(len, options["corpus"].predictions))
        scores = np.array([len(text) / longest for text in predictions])
        cut = np.array([len(text) > 5 for text in predictions])
        for row, text in enumerate(predictions):
            options["report"](self.name, row, scores[row], cut[row])
            if text == "stop":
                raise KeyboardInterrupt
        return Measured({self.name: scores}, {self.name: cut})

    def signature(self, **options: Any) -> str:
        texts = [] if options.get("corpus") is None else sorted(options["corpus"].predictions)
        return f"letters|corpus:{texts}"


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    metric = Letters()
    monkeypatch.setitem(metrics.AVAILABLE, "letters", metric)
    return metric


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_bert(tmp_path_factory.mktemp("encoder") / "tiny"))


def test_in_the_run_and_from_python_the_numbers_are_the_same(tmp_path: Path, encoder: str) -> None:
    options = {"bert_score_model": encoder, "bert_score_layer": "2"}
    out = evaluate(
        "careqa_open", ScriptedModel(ANSWERS), open_rows(tmp_path, REFERENCES),
        metadata={"metrics": "rouge1+bert_score", **options},
    )  # fmt: skip
    expected = metrics.score(ANSWERS, REFERENCES, "bert_score", bert_score_model=encoder, bert_score_layer=2)
    row = out["results"]["careqa_open"]
    assert row["bert_score,none"] == pytest.approx(expected["bert_score"].mean(), abs=1e-12)
    assert row["bert_score_coverage,none"] == 1.0
    assert row["bert_score_truncated,none"] == 0.0
    assert isinstance(row["bert_score_stderr,none"], float)
    assert "rouge1_truncated,none" not in row
    signature = out["configs"]["careqa_open"]["metadata"]["healthcare"]["signatures"]["bert_score"]
    assert signature == metrics.signature("bert_score", **options)
    assert "|layer:2|" in signature


def test_what_a_metric_did_not_see_is_counted(tmp_path: Path, encoder: str, caplog: pytest.LogCaptureFixture) -> None:
    """The tiny encoder takes 64 tokens; two answers that differ only behind them have one score, but not in silence."""
    same = "fever and cough " * 40
    answers = [f"{same} no pain", f"{same} high pressure", "fever"]
    out = evaluate(
        "careqa_open", ScriptedModel(answers), open_rows(tmp_path, ["fever"] * 3),
        metadata={"metrics": "bert_score", "bert_score_model": encoder},
    )  # fmt: skip
    scores = [sample["bert_score"] for sample in out["samples"]["careqa_open"]]
    assert scores[0] == scores[1]
    assert [sample["bert_score_truncated"] for sample in out["samples"]["careqa_open"]] == [1.0, 1.0, 0.0]
    assert out["results"]["careqa_open"]["bert_score_truncated,none"] == pytest.approx(2 / 3)
    assert out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"] == {"truncated:bert_score": 2}
    assert "bert_score did not see the ends of 2 of 3 documents" in caplog.text
    windows = evaluate(
        "careqa_open", ScriptedModel(answers), open_rows(tmp_path, ["fever"] * 3),
        metadata={"metrics": "bert_score", "bert_score_model": encoder, "metrics_long": "windows"},
    )  # fmt: skip
    whole = [sample["bert_score"] for sample in windows["samples"]["careqa_open"]]
    assert whole[0] != whole[1]
    assert whole[2] == pytest.approx(scores[2], abs=1e-6)
    assert windows["results"]["careqa_open"]["bert_score_truncated,none"] == 0.0


def test_a_missing_model_ends_the_run_before_the_model_is_asked(tmp_path: Path) -> None:
    model = ScriptedModel(ANSWERS)
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(OptionError, match=r"(?s)careqa_open: .*nowhere.*metrics=ngram.*metrics_missing=skip"):
        evaluate("careqa_open", model, metadata={"metrics": "bleu+bert_score", "bert_score_model": nowhere})
    assert model.seen == []


def test_check_tells_what_metrics_lack_and_what_is_wrong_with_rows(tmp_path: Path) -> None:
    from lm_eval_healthcare.harness.check import check

    open_rows(tmp_path, REFERENCES)
    (tmp_path / "medtext.jsonl").write_text('{"Prompt": "x"}\n')
    asked = {"data": str(tmp_path), "metrics": "bleu+bert_score", "bert_score_model": "/no/such/folder"}
    (sound, faulty), problems = check(["careqa_open", "medtext"], asked)
    assert problems == []
    assert sound.rows == 3
    (text,) = sound.problems
    assert "metrics that cannot be computed here" in text
    assert "/no/such/folder" in text
    assert "medtext.jsonl, row 1: column 'Completion' is missing" in faulty.problems[0]
    (skipped,), _ = check(["careqa_open"], {**asked, "metrics_missing": "skip"})
    assert skipped.problems == []
    assert any("bert_score is left out" in text for text in skipped.warnings)


def test_the_default_set_needs_models_and_says_so() -> None:
    with pytest.raises(OptionError, match=r"(?s)roberta-large.*distilbert-base-uncased.*bleurt"):
        evaluate("careqa_open", ScriptedModel(ANSWERS), metadata={"metrics": "default"})


def test_a_missing_metric_may_be_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Case b68: NaN for that metric and one warning, everything else as ever."""
    with caplog.at_level(logging.WARNING):
        out = evaluate(
            "careqa_open", ScriptedModel(ANSWERS), open_rows(tmp_path, REFERENCES),
            metadata={"metrics": "rouge1+bert_score", "metrics_missing": "skip", "bert_score_model": "no/such"},
        )  # fmt: skip
    row = out["results"]["careqa_open"]
    assert math.isnan(row["bert_score,none"])
    assert row["bert_score_coverage,none"] == 0.0
    assert row["rouge1_coverage,none"] == 1.0
    assert out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"] == {"metric_missing:bert_score": 3}
    told = [record.getMessage() for record in caplog.records if "bert_score is left out" in record.getMessage()]
    assert len(told) == 1
    assert "no/such" in told[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics_device": "gpu"}, "metrics_device=gpu: expected auto, cpu, cuda"),
        ({"metrics_dtype": "int8"}, "metrics_dtype=int8: expected one of float32, bfloat16"),
        ({"metrics_batch_tokens": "many"}, "metrics_batch_tokens=many: expected a whole number"),
        ({"metrics_missing": "ignore"}, "metrics_missing=ignore: expected one of fail, skip"),
        ({"metrics_long": "drop"}, "metrics_long=drop: expected one of truncate, windows"),
        ({"bert_score_layer": "first", "metrics": "bert_score"}, "bert_score_layer=first: expected a whole number"),
        ({"metrics_device": "later", "metrics": "bert_score"}, "answers=off saves none"),
    ],
)
def test_values_that_cannot_be_used(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        evaluate("careqa_open", ScriptedModel(ANSWERS), metadata=options)


def test_options_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch, encoder: str) -> None:
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_BERT_SCORE_MODEL", encoder)
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS_MISSING", "skip")
    options = Options.from_metadata({"bert_score_layer": 1})
    assert options.for_metrics == {"bert_score_model": encoder, "bert_score_layer": "1", "metrics_device": "auto"}
    assert Options.from_metadata(options.as_metadata()) == options


def test_left_for_later_and_scored_later(
    tmp_path: Path, encoder: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run needs no encoder; the command that it names gives what the run would have given."""
    data = open_rows(tmp_path / "rows", REFERENCES)
    asked = {"metrics": "rouge1+bert_score", "bert_score_model": encoder}
    answers = str(tmp_path / "answers")
    with caplog.at_level(logging.WARNING):
        out = evaluate(
            "careqa_open", ScriptedModel(ANSWERS), data,
            metadata={**asked, "metrics_device": "later", "answers": answers},
        )  # fmt: skip
    row = out["results"]["careqa_open"]
    assert math.isnan(row["bert_score,none"])
    assert row["rouge1_coverage,none"] == 1.0
    assert out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"] == {"scored_later:bert_score": 3}
    (told,) = [r.getMessage() for r in caplog.records if "left for later;" in r.getMessage()]
    command = shlex.split(told.partition("lm-eval-healthcare ")[2])
    assert main([*command, "-o", str(tmp_path / "out")]) == 0
    assert "bert_score" in capsys.readouterr().out
    in_run = evaluate("careqa_open", ScriptedModel(ANSWERS), data, metadata=asked)["results"]["careqa_open"]
    (file,) = (tmp_path / "out").rglob("results_*.json")
    later = json.loads(file.read_text("utf-8"))["results"]["careqa_open"]
    for name in ("rouge1,none", "bert_score,none", "bert_score_stderr,none", "bert_score_coverage,none"):
        assert later[name] == in_run[name]


def test_the_command_ends_with_what_is_left_to_do(
    tmp_path: Path, encoder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["lm-eval"])
    monkeypatch.setattr(rescue, "_context", rescue.RunContext())  # what a command knows of itself ends with the test
    monkeypatch.chdir(Path(encoder).parent)
    asked = ["metrics=bert_score", "metrics_device=later", "bert_score_model=tiny"]
    run = ["run", "--model", "dummy", "--tasks", "careqa_open,medtext", "--limit", "2", "--metadata", "data=sample"]
    assert main([*run, *asked, "--output_path", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (command,) = [line.strip() for line in out.splitlines() if line.strip().startswith("lm-eval-healthcare score")]
    assert out.rstrip().endswith(command)
    monkeypatch.chdir(tmp_path)  # the model was given by a relative path
    assert main([*shlex.split(command)[1:], "-o", str(tmp_path / "scored")]) == 0
    (file,) = (tmp_path / "scored").rglob("results_*.json")
    results = json.loads(file.read_text("utf-8"))["results"]
    assert [results[task]["bert_score_coverage,none"] for task in ("careqa_open", "medtext")] == [1.0, 1.0]


def test_a_model_for_later_that_is_not_there_is_told_now() -> None:
    options = Options.from_metadata(
        {"metrics": "bert_score+mover_score", "metrics_device": "later", "bert_score_model": "/no/such/folder"}
    )
    (warning,) = TextMetrics(TaskFacts("careqa_open", "CareQA"), options).warnings
    assert "for scoring later" in warning
    assert "/no/such/folder" in warning


def test_scores_are_kept_and_not_computed_again(tmp_path: Path, letters: Letters) -> None:
    asked = {"metrics": "letters", "score_cache": str(tmp_path / "cache")}
    answers = ["abc", "abcdefgh", "abc"]
    data = open_rows(tmp_path, ["x", "y", "x"])
    first = evaluate("careqa_open", ScriptedModel(answers), data, metadata=asked)["results"]["careqa_open"]
    assert sorted(letters.asked) == ["abc", "abcdefgh"]  # equal pairs once
    second = evaluate("careqa_open", ScriptedModel(answers), data, metadata=asked)["results"]["careqa_open"]
    assert len(letters.asked) == 2
    assert first["letters,none"] == second["letters,none"] == pytest.approx((3 / 8 + 1 + 3 / 8) / 3)
    assert second["letters_truncated,none"] == pytest.approx(1 / 3)
    evaluate("careqa_open", ScriptedModel(["abc", "ab", "abc"]), data, metadata=asked)  # another evaluated set
    assert sorted(letters.asked[2:]) == ["ab", "abc"]


def test_a_run_that_is_stopped_keeps_what_it_has_computed(tmp_path: Path, letters: Letters) -> None:
    asked = {"metrics": "letters", "score_cache": str(tmp_path / "cache")}
    data = open_rows(tmp_path, ["w", "x", "y"])
    answers = ["abc", "stop", "abcdefgh"]
    with pytest.raises(KeyboardInterrupt):
        evaluate("careqa_open", ScriptedModel(answers), data, metadata=asked)
    letters.asked.clear()
    evaluate("careqa_open", ScriptedModel(answers), data, metadata=asked)
    assert letters.asked == ["abcdefgh"]


def test_the_evaluated_set_is_that_of_all_ranks(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another rank answered belongs to the set; its longest answer has sixteen letters."""

    def with_another_rank(value: Any, world_size: int) -> list[Any]:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], list):
            return [value, (["abcdefghijklmnop"], [["z"]])]
        return [value]

    monkeypatch.setattr("lm_eval_healthcare.harness.open_ended.gather", with_another_rank)
    out = evaluate("careqa_open", ScriptedModel(["abcd"]), open_rows(tmp_path, ["x"]), metadata={"metrics": "letters"})
    assert out["results"]["careqa_open"]["letters,none"] == 4 / 16


def test_a_metric_for_other_texts_is_told(letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "domain", "radiology", raising=False)
    options = Options.from_metadata({"metrics": "letters"})
    other = TextMetrics(TaskFacts("careqa_open", "CareQA"), options)
    assert other.warnings == ["careqa_open: letters is made for radiology texts, which these are not"]
    assert TextMetrics(TaskFacts("mimic_repsum", "MIMIC-III", domain="radiology"), options).warnings == []


class Absent(Letters):
    """A metric whose model is on a hub: its signature names no weights before it has been fetched."""

    fetched = False

    def prepare(self, **options: Any) -> None:
        self.asked.append("<prepare>")

    def signature(self, **options: Any) -> str:
        return f"letters|model:some-model@{'0123456789ab' if self.fetched else 'absent'}"


def test_a_model_is_fetched_before_the_evaluated_model_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = Absent()
    monkeypatch.setitem(metrics.AVAILABLE, "letters", metric)
    model = ScriptedModel(["abc"])

    def generate(requests: list[Any]) -> list[str]:
        metric.asked.append("<model>")
        return ["abc"] * len(requests)

    monkeypatch.setattr(model, "generate_until", generate)
    evaluate("careqa_open", model, open_rows(tmp_path, ["x"]), metadata={"metrics": "letters"})
    assert metric.asked == ["<prepare>", "<model>", "abc"]


def test_scores_of_unknown_weights_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tomorrow another model may lie there under the same name."""
    metric = Absent()
    monkeypatch.setitem(metrics.AVAILABLE, "letters", metric)
    asked = {"metrics": "letters", "score_cache": str(tmp_path / "cache")}
    data = open_rows(tmp_path, ["x"])
    for _ in range(2):
        evaluate("careqa_open", ScriptedModel(["abc"]), data, metadata=asked)
    assert metric.asked.count("abc") == 2
    metric.fetched = True
    for _ in range(2):
        evaluate("careqa_open", ScriptedModel(["abc"]), data, metadata=asked)
    assert metric.asked.count("abc") == 3


def test_no_cache_is_opened_where_nothing_would_be_kept(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    metadata = {"metrics": "bleu", "score_cache": str(cache)}
    evaluate("careqa_open", ScriptedModel(ANSWERS), open_rows(tmp_path, REFERENCES), metadata=metadata)
    assert not cache.exists()


def test_a_score_that_is_no_number_has_a_reason(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(names: Any, predictions: Any, references: Any, **options: Any) -> Measured:
        return Measured({"letters": np.array([0.5 if text == "fine" else np.nan for text in predictions])})

    monkeypatch.setattr(letters, "measure", measure)
    answers = ["fine", "not", "", "not"]
    out = evaluate(
        "careqa_open",
        ScriptedModel(answers),
        open_rows(tmp_path, ["a", "b", "c", "d"]),
        metadata={"metrics": "letters"},
    )
    row = out["results"]["careqa_open"]
    assert row["letters,none"] == 0.25  # 0.5 and the blank answer's 0
    assert row["letters_coverage,none"] == 0.5
    reasons = out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"]
    assert reasons == {"empty_prediction": 1, "not_finite:letters": 2}


def test_a_metric_may_be_asked_about_blank_answers(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "blank", lambda **options: None)
    out = evaluate(
        "careqa_open", ScriptedModel(["abcd", " ", "ab"]), open_rows(tmp_path, ["a", "b", "  "]),
        metadata={"metrics": "letters"},
    )  # fmt: skip
    assert letters.asked == ["abcd", ""]
    assert [s["letters"] for s in out["samples"]["careqa_open"][:2]] == [1.0, 0.0]
    assert math.isnan(out["samples"]["careqa_open"][2]["letters"])


def test_options_of_the_environment_are_in_the_results(
    tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_BERT_SCORE_MODEL", encoder)
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS_LONG", "windows")
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS_BATCH_TOKENS", "128")
    out = evaluate(
        "careqa_open", ScriptedModel(ANSWERS), open_rows(tmp_path, REFERENCES), metadata={"metrics": "bert_score"}
    )
    section = out["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert section["metric_options"] == {"bert_score_model": encoder, "metrics_long": "windows"}


def test_after_the_last_task_the_memory_is_free_again(tmp_path: Path, encoder: str) -> None:
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager
    from lm_eval_healthcare.metrics.encoding import encoder as encoders

    held = []

    class Watched(ScriptedModel):
        def generate_until(self, requests: list[Any]) -> list[str]:
            held.append(len(encoders._warm._models))
            return super().generate_until(requests)

    metadata = {"data": "sample", "answers": "off", "metrics": "bert_score", "bert_score_model": encoder}
    for _ in range(2):
        manager = task_manager(metadata=metadata, include_defaults=False)
        simple_evaluate(model=Watched(ANSWERS), tasks=["careqa_open", "medtext"], task_manager=manager, limit=2)
    assert held == [0, 0]
    assert len(encoders._warm._models) == 0
