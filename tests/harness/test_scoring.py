"""What a number in the results means: coverage, standard error, reasons; through the harness's own evaluator."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from lm_eval import simple_evaluate
from rouge_score.rouge_scorer import RougeScorer

from lm_eval_healthcare import metrics, task_manager, tasks_path
from lm_eval_healthcare.metrics import Metric
from lm_eval_healthcare.sample import rows_path
from scripted import ScriptedModel, evaluate, open_rows
from support import STRING_METRICS, write_jsonl

REFERENCES = [
    "renal colic with haematuria on the left",
    "acute appendicitis",
    "iron deficiency anaemia",
    "opioid withdrawal",
]


def rouge1(prediction: str, reference: str) -> float:
    return RougeScorer(["rouge1"]).score(reference, prediction)["rouge1"].fmeasure


def test_mean_and_standard_error_over_the_scored_documents(tmp_path: Path) -> None:
    """Four references, one of them blank: three documents count, and the blank answer counts as 0."""
    data = open_rows(tmp_path, [*REFERENCES[:3], "  "])
    answers = ["renal colic on the left", "\u200b", "iron deficiency anaemia", "anything"]
    out = evaluate("careqa_open", ScriptedModel(answers), data, metadata={"metrics": "rouge1"})
    values = [rouge1(answers[0], REFERENCES[0]), 0.0, 1.0]
    row = out["results"]["careqa_open"]
    assert row["rouge1,none"] == pytest.approx(statistics.fmean(values), abs=1e-15)
    assert row["rouge1_stderr,none"] == pytest.approx(statistics.stdev(values) / math.sqrt(3), abs=1e-15)
    assert row["rouge1_coverage,none"] == 0.75
    assert row["empty_prediction,none"] == 0.25
    assert row["sample_len"] == 4
    details = out["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert details["reasons"] == {"blank_reference": 1, "empty_prediction": 1}
    assert details["signatures"] == {"rouge1": metrics.signature("rouge1")}
    samples = out["samples"]["careqa_open"]
    assert [s["rouge1_coverage"] for s in samples] == [1.0, 1.0, 1.0, 0.0]
    assert [s["rouge1"] for s in samples[:3]] == pytest.approx(values)
    assert math.isnan(samples[3]["rouge1"])


def test_every_metric_has_a_numeric_error_and_full_coverage() -> None:
    out = evaluate(
        "careqa_open", ScriptedModel(["The answer is this.", "It is that one."]), metadata={"metrics": STRING_METRICS}
    )
    row = out["results"]["careqa_open"]
    for name in metrics.resolve(STRING_METRICS):
        assert row[f"{name}_coverage,none"] == 1.0
        assert isinstance(row[f"{name},none"], float)
        assert isinstance(row[f"{name}_stderr,none"], float)
        assert not math.isnan(row[f"{name}_stderr,none"])
    assert "N/A" not in row.values()


def test_only_the_metrics_asked_for() -> None:
    out = evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu+rouge1"})
    names = {key.split(",")[0] for key in out["results"]["careqa_open"] if ",none" in key and "_stderr" not in key}
    assert names == {
        "bleu", "bleu_coverage", "rouge1", "rouge1_coverage", "empty_prediction", "very_short_prediction",
        "cut_reasoning",
    }  # fmt: skip


def test_process_results_gives_plain_floats_and_the_same_keys(tmp_path: Path) -> None:  # cases b10, b27
    data = open_rows(tmp_path, [*REFERENCES, "", None])
    answers = ["a b", None, "", "\x00", "x", "y"]
    out = evaluate("careqa_open", ScriptedModel(answers), data, metadata={"metrics": "ngram"})
    samples = out["samples"]["careqa_open"]
    (keys,) = {tuple(sample["metrics"]) for sample in samples}
    for sample in samples:
        assert all(type(sample[key]) is float for key in keys)
    assert sum(sample["bleu_coverage"] for sample in samples) == 4
    assert out["results"]["careqa_open"]["bleu_coverage,none"] == pytest.approx(4 / 6)


def test_no_document_can_be_scored(tmp_path: Path) -> None:
    out = evaluate(
        "careqa_open", ScriptedModel(["x"]), open_rows(tmp_path, ["", " ", "\f"]), metadata={"metrics": "bleu"}
    )
    row = out["results"]["careqa_open"]
    assert math.isnan(row["bleu,none"])
    assert math.isnan(row["bleu_stderr,none"])
    assert row["bleu_coverage,none"] == 0.0


def test_blank_pairs_of_the_public_report(tmp_path: Path) -> None:  # case b11
    pairs = [
        ("mild fever", "\f"),
        ("", "renal colic"),
        ("   ", "renal colic"),
        ("\u200b", "renal colic"),
        ("...", "..."),
    ]
    data = open_rows(tmp_path, [reference for _, reference in pairs])
    out = evaluate("careqa_open", ScriptedModel([p for p, _ in pairs]), data, metadata={"metrics": "ngram"})
    for name in ("bleu", "rouge1", "rouge2", "rougeL", "sacrebleu"):
        values = [sample[name] for sample in out["samples"]["careqa_open"]]
        assert math.isnan(values[0])
        assert values[1:4] == [0.0, 0.0, 0.0]
        assert out["results"]["careqa_open"][f"{name}_coverage,none"] == 0.8
    reasons = out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"]
    assert reasons == {"blank_reference": 1, "empty_prediction": 3}


def test_a_failing_metric_costs_only_itself(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(type(metrics.AVAILABLE["bleu"])):  # type: ignore[misc]
        """A metric whose model is gone in the middle of a run."""

        name = "broken"

        def score(self, predictions: object, references: object, **options: object) -> None:
            raise MemoryError("no room left")

    assert issubclass(Broken, Metric)
    monkeypatch.setitem(metrics.AVAILABLE, "broken", Broken())  # type: ignore[index]
    out = evaluate("careqa_open", ScriptedModel(["an answer of some words"]), metadata={"metrics": "broken+rouge1"})
    row = out["results"]["careqa_open"]
    assert math.isnan(row["broken,none"])
    assert row["broken_coverage,none"] == 0.0
    assert row["rouge1_coverage,none"] == 1.0
    details = out["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert details["metric_errors"] == {"broken": "MemoryError: no room left"}
    assert details["reasons"] == {"metric_error:broken": 10}
    assert "metric broken failed" in caplog.text


def test_chat_models_are_not_cut_at_a_blank_line(tmp_path: Path) -> None:  # case b63
    """The report's replies before the cut; a chat model keeps them whole, leading blanks stripped."""
    replies = ["\n\nLikely...", "Diagnosis:\n\n1. ...", "Likely diagnosis: appendicitis.", "\n\n..."]
    data = open_rows(tmp_path, REFERENCES)
    model = ScriptedModel(replies)
    out = evaluate("careqa_open", model, data, metadata={"metrics": "rouge1"}, apply_chat_template=True)
    assert all(arguments["until"] == [] and arguments["max_gen_toks"] > 0 for _, arguments in model.seen)
    assert [s["filtered_resps"] for s in out["samples"]["careqa_open"]] == [[reply.lstrip()] for reply in replies]
    assert out["results"]["careqa_open"]["empty_prediction,none"] == 0.0
    assert out["configs"]["careqa_open"]["generation_kwargs"]["until"] == []


def test_base_models_keep_the_blank_line_and_the_report_shows_the_share(tmp_path: Path) -> None:  # case b63
    logged = ["", "Diagnosis:", "Likely diagnosis: appendicitis.", ""]
    model = ScriptedModel(logged)
    out = evaluate("careqa_open", model, open_rows(tmp_path, REFERENCES), metadata={"metrics": "rouge1"})
    assert all(arguments["until"] == ["\n\n"] for _, arguments in model.seen)
    row = out["results"]["careqa_open"]
    assert (row["empty_prediction,none"], row["very_short_prediction,none"]) == (0.5, 0.25)
    assert out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"]["empty_prediction"] == 2


def test_answers_are_greedy_unless_the_user_asks_to_sample() -> None:
    """Without do_sample the harness's vLLM back end falls back to vLLM's own temperature of 1."""
    for name in ("careqa_open", "medtext"):
        model = ScriptedModel(["x"])
        evaluate(name, model, metadata={"metrics": "bleu"})
        assert all(arguments["do_sample"] is False for _, arguments in model.seen)
        assert all("temperature" not in arguments for _, arguments in model.seen)
    for given, sampled in (({"temperature": 0.7}, True), ({"temperature": 0}, False), ({"max_gen_toks": 9}, False)):
        model = ScriptedModel(["x"])
        evaluate("careqa_open", model, metadata={"metrics": "bleu"}, gen_kwargs=dict(given))
        assert all(arguments["do_sample"] is sampled for _, arguments in model.seen)


def test_a_users_stop_string_wins_under_a_chat_template() -> None:
    model = ScriptedModel(["x"])
    evaluate(
        "careqa_open", model, metadata={"metrics": "bleu"}, apply_chat_template=True, gen_kwargs={"until": ["END"]}
    )  # fmt: skip
    assert all(arguments["until"] == ["END"] for _, arguments in model.seen)


def test_hostile_and_huge_answers(tmp_path: Path) -> None:
    answers = ["word " * 20_000, "\ud83d lone", "\x00\x1b[31m{{ 7*7 }}</s>", "مرحبا 🩺", 'score: [RESULT] 5 "}]']
    data = open_rows(tmp_path, ["a word", "lone", "49", "🩺 مرحبا", "result 5"])
    out = evaluate("careqa_open", ScriptedModel(answers), data, metadata={"metrics": STRING_METRICS})
    assert out["results"]["careqa_open"]["bleu_coverage,none"] == 1.0
    json.dumps(out["samples"], ensure_ascii=False, default=str).encode("utf-8")  # what the harness writes


def test_order_and_batch_do_not_matter(tmp_path: Path) -> None:
    answers = [f"{reference} and more of it" for reference in REFERENCES]
    together = evaluate(
        "careqa_open",
        ScriptedModel(answers),
        open_rows(tmp_path / "a", REFERENCES),
        metadata={"metrics": STRING_METRICS},
    )
    reverse = evaluate(
        "careqa_open",
        ScriptedModel(answers[::-1]),
        open_rows(tmp_path / "b", REFERENCES[::-1]),
        metadata={"metrics": STRING_METRICS},
    )
    alone = [
        evaluate(
            "careqa_open", ScriptedModel([a]), open_rows(tmp_path / str(i), [r]), metadata={"metrics": STRING_METRICS}
        )
        for i, (a, r) in enumerate(zip(answers, REFERENCES, strict=True))
    ]
    for name in metrics.resolve(STRING_METRICS):
        values = [sample[name] for sample in together["samples"]["careqa_open"]]
        assert values == [sample[name] for sample in reverse["samples"]["careqa_open"]][::-1]
        assert values == [out["samples"]["careqa_open"][0][name] for out in alone]
        key = f"{name},none"
        assert together["results"]["careqa_open"][key] == reverse["results"]["careqa_open"][key]


def test_requests_cached_for_other_rows_are_not_taken(tmp_path: Path) -> None:
    """The harness's request cache is named by task and shots: after a run on the sample it would serve these rows."""
    evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu"}, cache_requests=True)
    model = ScriptedModel(["x"])
    evaluate("careqa_open", model, open_rows(tmp_path, REFERENCES), metadata={"metrics": "bleu"}, cache_requests=True)
    assert ["Question 0?" in prompt for prompt, _ in model.seen] == [True, False, False, False]


def test_predict_only_gives_no_scores() -> None:
    out = evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu"}, predict_only=True)
    assert out["results"]["careqa_open"]["bypass,none"] == 999
    assert len(out["samples"]["careqa_open"]) == 10


# Multiple choice


def prefer(letter: str) -> ScriptedModel:
    return ScriptedModel(likelihood=lambda context, choice: 0.0 if choice.strip() == letter else -1.0)


def test_accuracy_by_category_and_year() -> None:
    out = evaluate("careqa_en", prefer("A"))
    samples = out["samples"]["careqa_en"]
    right = [(s["doc"]["category"], s["doc"]["year"], float(s["doc"]["cop"] == 1)) for s in samples]
    row = out["results"]["careqa_en"]
    assert row["acc,none"] == pytest.approx(statistics.fmean(v for *_, v in right))
    table = out["configs"]["careqa_en"]["metadata"]["healthcare"]["breakdown"]
    for column, place in (("category", 0), ("year", 1)):
        for value in {r[place] for r in right}:
            values = [r[2] for r in right if r[place] == value]
            error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            cell = table[column][str(value)]
            assert cell["n"] == len(values)
            assert cell["acc"] == pytest.approx(statistics.fmean(values))
            assert cell["acc_stderr"] == pytest.approx(error, nan_ok=True)
            key = f"{column}_{str(value).lower()}"
            assert row[f"acc_{key},none"] == cell["acc"]
            assert row[f"acc_{key}_stderr,none"] == pytest.approx(error, nan_ok=True)
        assert sum(cell["n"] for cell in table[column].values()) == len(samples)
    assert samples[0]["metrics"] == ["acc", "acc_coverage"], "the log is not filled with other categories' NaN"
    json.loads(json.dumps(samples, default=str), parse_constant=lambda name: pytest.fail(f"{name} in a sample"))


def test_categories_in_any_script_stay_apart(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (rows_path() / "careqa_en" / "test.jsonl").open(encoding="utf-8")]
    names = ["内科", "外科", "Psicología", "psicologia", "A/B", "A B"]
    write_jsonl(tmp_path / "careqa_en.jsonl", [{**row, "category": names[i % 6]} for i, row in enumerate(rows)])
    out = evaluate("careqa_en", prefer("A"), tmp_path)
    table = out["configs"]["careqa_en"]["metadata"]["healthcare"]["breakdown"]["category"]
    assert set(table) == set(names)
    assert sum(cell["n"] for cell in table.values()) == 12
    keys = {k for k in out["results"]["careqa_en"] if k.startswith("acc_category") and "_stderr" not in k}
    assert len(keys) == 6


def test_reasons_are_counted_once_under_several_filters(tmp_path: Path) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    filters = "".join(
        f"  - {{name: {name}, filter: [{{function: take_first}}]}}\n" for name in ("plain", "again")
    )  # fmt: skip
    (folder / "two.yaml").write_text(
        f"include: {tasks_path() / 'careqa' / 'careqa_open.yaml'}\ntask: two\nfilter_list:\n{filters}"
    )
    write_jsonl(tmp_path / "two.jsonl", [{"question": "q", "answer": "a"}, {"question": "r", "answer": "b"}])
    manager = task_manager(
        include_path=folder,
        metadata={"data": str(tmp_path), "metrics": "bleu", "answers": "off"},
        include_defaults=False,
    )
    out = simple_evaluate(model=ScriptedModel(["", "b"]), tasks=["two"], task_manager=manager)
    assert out["configs"]["two"]["metadata"]["healthcare"]["reasons"] == {"empty_prediction": 1}
    assert {"bleu,plain", "bleu,again"} <= set(out["results"]["two"])


def test_an_unusable_log_likelihood_is_no_answer() -> None:
    """NaN for one choice, or minus infinity for all: the harness would take the first choice as the answer."""
    gone = {"B": math.nan}
    out = evaluate("careqa_en", ScriptedModel(likelihood=lambda c, choice: gone.get(choice.strip(), -1.0)))
    row = out["results"]["careqa_en"]
    assert math.isnan(row["acc,none"])
    assert row["acc_coverage,none"] == 0.0
    assert out["configs"]["careqa_en"]["metadata"]["healthcare"]["reasons"] == {"nan_loglikelihood": 12}
    out = evaluate("careqa_en", ScriptedModel(likelihood=lambda context, choice: -math.inf))
    assert out["results"]["careqa_en"]["acc_coverage,none"] == 0.0


def test_mcqa_average_is_weighted_by_size_over_distinct_leaves() -> None:
    out = evaluate("healthcare_mcqa", prefer("A"))
    names = out["group_subtasks"]["healthcare_mcqa"]
    rows = [out["results"][name] for name in names]
    total = sum(row["sample_len"] for row in rows)
    assert len(names) == len(set(names)) == 10
    assert out["groups"]["healthcare_mcqa"]["acc,none"] == pytest.approx(
        sum(row["acc,none"] * row["sample_len"] for row in rows) / total
    )
    assert isinstance(out["groups"]["healthcare_mcqa"]["acc_stderr,none"], float)
    assert out["groups"]["healthcare_mcqa"]["acc_coverage,none"] == 1.0


def test_a_column_of_many_values_gives_a_table_and_no_metrics_however_few_rows_are_scored() -> None:
    out = evaluate("mts_dialog", ScriptedModel(["The patient has no allergy."]), limit=4)
    results, config = out["results"]["mts_dialog"], out["configs"]["mts_dialog"]
    assert not [key for key in results if "section_header" in key]
    table = config["metadata"]["healthcare"]["breakdown"]["section_header"]
    assert sum(row["n"] for row in table.values()) == 4


def test_metrics_that_have_no_value_for_a_document_are_refused(tmp_path: Path) -> None:
    include = f"include: {tasks_path() / 'careqa' / 'careqa_en.yaml'}\n"
    (tmp_path / "mine.yaml").write_text(
        include + "task: mine\nmetric_list: [{metric: acc}, {metric: f1}]\n", encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"names f1.*choose from acc"):
        task_manager(str(tmp_path), {"data": "sample"}, include_defaults=False).load(["mine"])
