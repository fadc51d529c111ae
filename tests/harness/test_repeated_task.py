"""The task that asks each question K times, through the harness's real evaluator."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import metrics, task_manager, tasks_path
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.plan import PlanOptions, plan
from lm_eval_healthcare.harness.repeated_options import RepeatedOptions, refuse_greedy, sampled
from lm_eval_healthcare.harness.run import prepare
from scripted import ScriptedModel, evaluate, open_rows
from scripted_server import ScriptedJudge
from support import results_of, samples_of, write_jsonl
from token_models import tiny_llama

TASK = "careqa_open_consistency"
ANSWERS = ["rest and water", "rest", "", "water water water"]


def run(folder: Path, texts: list[str] = ANSWERS, references: Any = ("rest and water", "rest"), **kwargs: Any) -> Any:
    metadata = {"metrics": "rouge1+rougeL", "repeats": 4, "repeats_cache": "off", **kwargs.pop("metadata", {})}
    return evaluate(TASK, ScriptedModel(texts), open_rows(folder, list(references)), metadata=metadata, **kwargs)


def section(out: Any, task: str = TASK) -> dict[str, Any]:
    return out["configs"][task]["metadata"]["healthcare"]


class TestScores:
    def test_every_answer_is_scored_and_the_value_is_their_mean(self, tmp_path: Path) -> None:
        """ROUGE-1 by hand: "rest" against "rest and water" has precision 1 and recall 1/3, F1 = 0.5."""
        out = run(tmp_path)
        first, second = out["samples"][TASK]
        # "water water water": one of three words matches on both sides, F1 = 1/3.
        assert first["rouge1_per_answer"] == pytest.approx([1.0, 0.5, 0.0, 1 / 3])
        assert first["rouge1"] == pytest.approx((1 + 0.5 + 0 + 1 / 3) / 4)
        assert second["rouge1_per_answer"] == pytest.approx([0.5, 1.0, 0.0, 0.0])
        assert out["results"][TASK]["rouge1,none"] == pytest.approx((11 / 24 + 0.375) / 2)
        assert out["results"][TASK]["empty_prediction,none"] == 0.25
        assert out["results"][TASK]["very_short_prediction,none"] == 0.25
        assert out["results"][TASK]["rouge1_coverage,none"] == 1.0

    def test_the_log_has_all_answers_and_the_table_no_lists(self, tmp_path: Path) -> None:
        out = run(tmp_path)
        row = out["samples"][TASK][0]
        assert row["resps"] == row["filtered_resps"] == [ANSWERS]
        assert row["filter"] == "none"
        assert not any("per_answer" in name for name in [*row["metrics"], *out["results"][TASK]])
        assert out["configs"][TASK]["repeats"] == 4
        assert len(row["arguments"]) == 1

    def test_scores_are_those_of_the_same_pairs_alone(self, tmp_path: Path) -> None:
        out = run(tmp_path)
        alone = metrics.score(ANSWERS, ["rest and water"] * 4, metrics=["rougeL"])["rougeL"]
        assert out["samples"][TASK][0]["rougeL_per_answer"] == list(alone)

    def test_a_blank_reference_gives_nan_for_every_answer(self, tmp_path: Path) -> None:
        out = run(tmp_path, references=["rest", None])
        row = out["samples"][TASK][1]
        assert all(math.isnan(value) for value in [row["rouge1"], *row["rouge1_per_answer"]])
        assert row["rouge1_coverage"] == 0.0
        assert out["results"][TASK]["rouge1,none"] == pytest.approx(0.375)  # the first row's alone
        assert section(out)["reasons"]["blank_reference"] == 4  # reasons count answers
        assert section(out)["repeated"]["reasons_count"] == "answers"

    def test_replies_are_cleaned_one_by_one(self, tmp_path: Path) -> None:
        replies = ["<think>hm\n\nno</think>rest", "  rest\n\nQuestion: next", "<think>never ends", "rest \ud800"]
        out = run(tmp_path, replies, apply_chat_template=True, metadata={"reasoning": "auto"})
        (answers,) = out["samples"][TASK][0]["filtered_resps"]
        assert answers[0] == "rest"
        assert answers[1] == "rest\n\nQuestion: next"  # a chat model is not cut at a blank line
        assert answers[2] == ""
        assert "\ud800" not in answers[3]
        assert out["results"][TASK]["cut_reasoning,none"] == 0.25

    def test_identical_answers_are_counted_and_told(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        out = run(tmp_path, ["rest"])
        told = section(out)["repeated"]
        assert (told["questions"], told["identical_answers"], told["distinct_answers_mean"]) == (2, 2, 1.0)
        assert "2 of 2 questions have 4 identical answers" in caplog.text
        told = section(run(tmp_path))["repeated"]
        assert (told["identical_answers"], told["distinct_answers_mean"]) == (0, 4.0)
        assert (told["repeats"], told["seed"]) == (4, 0)

    def test_the_harness_cache_never_gives_one_answer_k_times(self, tmp_path: Path) -> None:
        """The harness's key has no number of the draw: a second run would find one answer for all."""
        for _ in range(2):
            out = run(tmp_path, use_cache=str(tmp_path / "cache"))
            assert [row["resps"] for row in out["samples"][TASK]] == [[ANSWERS]] * 2

    def test_predict_only(self, tmp_path: Path) -> None:
        out = run(tmp_path, predict_only=True)
        assert out["samples"][TASK][0]["filtered_resps"] == [ANSWERS]
        assert "rouge1" not in out["samples"][TASK][0]


class TestSampling:
    def test_the_papers_sampling_reaches_the_model(self, tmp_path: Path) -> None:
        lm = ScriptedModel(ANSWERS)
        evaluate(TASK, lm, open_rows(tmp_path, ["rest"]), metadata={"metrics": "rouge1"})
        assert len(lm.seen) == 11
        assert all(
            (kwargs["do_sample"], kwargs["temperature"], kwargs["top_p"]) == (True, 1.0, 0.9) for _, kwargs in lm.seen
        )

    def test_gen_kwargs_win(self, tmp_path: Path) -> None:
        out = run(tmp_path, gen_kwargs={"temperature": 0.3, "top_k": 7})
        (arguments,) = out["samples"][TASK][0]["arguments"]
        assert (arguments[1]["temperature"], arguments[1]["top_k"], arguments[1]["top_p"]) == (0.3, 7, 0.9)
        assert arguments[2] == {"repeats": 4, "seed": 0, "cache": "off"}

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("do_sample=false", "do_sample=false gives the same answer"),
            ("temperature=0", "temperature=0.* gives the same answer"),
            ("do_sample=true,temperature=0.0", "temperature=0.0 gives"),
            ("top_k=1", "top_k=1 gives"),
            ("top_p=0", "top_p=0.* gives"),
            ("seed=3", "repeats_seed"),
            ("n=5", "repeats=N"),
        ],
    )
    def test_one_answer_k_times_is_refused_before_a_model_is_loaded(self, given: str, said: str) -> None:
        with pytest.raises(OptionError, match=said):
            prepare(["--model", "hf", "--model_args", "pretrained=absent", "--tasks", TASK, "--gen_kwargs", given,
                     "--metadata", "data=sample", "metrics=ngram"])  # fmt: skip

    def test_it_is_refused_in_the_harness_own_run_too(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="gives the same answer"):
            run(tmp_path, gen_kwargs={"do_sample": False})

    def test_an_included_tasks_greedy_setting_is_replaced_and_an_own_temperature_kept(self) -> None:
        assert sampled({"until": ["x"], "do_sample": False}) == {
            "until": ["x"], "do_sample": True, "temperature": 1.0, "top_p": 0.9
        }  # fmt: skip
        assert sampled({"temperature": 0.6, "do_sample": True}) == {"temperature": 0.6, "do_sample": True}
        refuse_greedy("t", {"do_sample": True})


class TestOptions:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"repeats": 1}, "no variance"),
            ({"repeats": "many"}, "whole number"),
            ({"repeats_seed": -1}, "whole number"),
        ],
    )
    def test_bad_values_are_refused(self, given: dict[str, Any], said: str) -> None:
        with pytest.raises(OptionError, match=said):
            RepeatedOptions.from_metadata(given)

    def test_the_yaml_then_the_environment_then_the_flag(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert RepeatedOptions.from_metadata({}, declared=5).repeats == 5
        assert RepeatedOptions.from_metadata({}, declared=1).repeats == 11
        monkeypatch.setenv("LM_EVAL_HEALTHCARE_REPEATS", "6")
        assert RepeatedOptions.from_metadata({}, declared=5).repeats == 6
        assert RepeatedOptions.from_metadata({"repeats": 7}, declared=5).repeats == 7

    def test_a_users_task_of_five_lines(self, tmp_path: Path) -> None:
        from lm_eval import simple_evaluate

        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "medtext_consistency.yaml").write_text(
            f"include: {tasks_path() / 'medtext' / 'medtext.yaml'}\n"
            "task: medtext_consistency\n"
            "class: !function lm_eval_healthcare.harness.repeated_answers.RepeatedAnswersTask\n"
            "tag: [healthcare_consistency]\n"
            "repeats: 3\n",
            encoding="utf-8",
        )
        options = {"data": "sample", "metrics": "rouge1", "answers": "off"}
        manager = task_manager(metadata=options, include_path=str(tmp_path / "own"), include_defaults=False)
        lm = ScriptedModel(["a", "b", "c"])
        out = simple_evaluate(model=lm, tasks=["medtext_consistency"], task_manager=manager, limit=2)
        assert [row["filtered_resps"] for row in out["samples"]["medtext_consistency"]] == [[["a", "b", "c"]]] * 2
        assert lm.seen[0][1]["temperature"] == 1.0
        assert lm.seen[0][1]["do_sample"] is True

    def test_a_filter_of_the_users_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.yaml").write_text(
            f"include: {tasks_path() / 'careqa' / 'careqa_open_consistency.yaml'}\ntask: x\n"
            "filter_list: [{name: none, filter: [{function: take_first}]}]\n",
            encoding="utf-8",
        )
        manager = task_manager(metadata={"data": "sample"}, include_path=str(tmp_path), include_defaults=False)
        with pytest.raises(OptionError, match="sets filter_list"):
            manager.load(["x"])


class TestSavedAnswers:
    def test_score_gives_what_the_run_gave(self, tmp_path: Path, cli: Any) -> None:
        out = run(tmp_path, metadata={"answers": str(tmp_path / "kept")})
        (folder,) = (tmp_path / "kept").iterdir()
        done = cli("score", str(folder), "--output_path", str(tmp_path / "again"))
        assert done.returncode == 0, done.stderr[-3000:]
        again = samples_of(tmp_path / "again", TASK)
        for before, after in zip(out["samples"][TASK], again, strict=True):
            for key in ("resps", "filtered_resps", "rouge1", "rouge1_per_answer", "rougeL_per_answer"):
                assert before[key] == after[key], key
        config = results_of(tmp_path / "again")["configs"][TASK]
        assert config["repeats"] == 4
        assert config["metadata"]["healthcare"]["repeated"]["sampler"] == "saved answers"


def test_the_judge_grades_every_answer(tmp_path: Path) -> None:
    """The scripted judge gives the number behind `worth-`; the blank answer has the rubric's lowest, 1, unasked."""
    replies = ["Stop. worth-5", "Keep. worth-2", "", "Wait. worth-4"]
    with ScriptedJudge() as server:
        given = {"judge": server.base_url, "verdict_cache": "off"}
        out = run(tmp_path, replies, ["Stop."], metadata=given, log_samples=True)
        assert sum(server.counts.values()) == 3
    row = out["samples"][TASK][0]
    assert row["prometheus_per_answer"] == [5, 2, 1, 4]
    assert row["prometheus"] == out["results"][TASK]["prometheus,none"] == 3.0
    assert [len(texts) for texts in row["judge_per_answer"]] == [1, 1, 0, 1]
    assert "[RESULT] 2" in row["judge_per_answer"][1][0]["text"]


def test_texts_of_credentialed_data_are_neither_kept_nor_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval import simple_evaluate

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "own" / "x.yaml"
    own.parent.mkdir()
    (source,) = tasks_path().glob("**/mimic_hospital_course.yaml")
    own.write_text(
        f"include: {source}\ntask: mimic_consistency\n"
        "class: !function lm_eval_healthcare.harness.repeated_answers.RepeatedAnswersTask\nrepeats: 2\n",
        encoding="utf-8",
    )
    row = {"extractive_notes_summ": "No effusion.", "target_text": "Normal."}
    write_jsonl(tmp_path / "rows" / "mimic.jsonl", [row])
    options = {"data": str(tmp_path / "rows"), "metrics": "rouge1", "answers": "off"}
    manager = task_manager(metadata=options, include_path=str(own.parent), include_defaults=False)
    lm = ScriptedModel(["Normal.", "Secret."])
    out = simple_evaluate(model=lm, tasks=["mimic_consistency"], task_manager=manager)
    (row,) = out["samples"]["mimic_consistency"]
    assert row["rouge1_per_answer"] == [1.0, 0.0]
    assert row["rouge1"] == 0.5
    text = json.dumps(row)
    assert not any(secret in text for secret in ("Secret", "effusion", "Normal"))
    assert row["arguments"][0][2]["cache"] == "off"
    assert not list((tmp_path / "cache").rglob("*.sqlite3"))


def test_plan_probes_a_model_with_single_answers_and_counts_k_for_the_judge(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    model, data = tiny_llama(tmp_path / "m", adds_bos=False), open_rows(tmp_path, ["rest", "water"])
    command = ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu", "--tasks", TASK,
               "--metadata", f"data={data}", "metrics=ngram", "repeats=3", f"judge={model}", "judge_backend=hf",
               "--gen_kwargs", "max_gen_toks=4"]  # fmt: skip
    found = plan(command, PlanOptions(probe=2.0))
    assert found.probed is not None
    assert found.probed.output_rate
    assert found.tasks[0].requests == 6
    assert found.judge[0].answers == 6


def test_plan_counts_k_answers(tmp_path: Path) -> None:
    data = open_rows(tmp_path, ["rest", "water"])
    command = ["--model", "vllm", "--model_args", "pretrained=absent", "--metadata", f"data={data}", "metrics=ngram",
               "repeats=5", "--gen_kwargs", "max_gen_toks=40"]  # fmt: skip
    several = plan([*command, "--tasks", TASK], PlanOptions(answer_tokens=10)).tasks[0]
    once = plan([*command, "--tasks", "careqa_open"], PlanOptions(answer_tokens=10)).tasks[0]
    assert (several.documents, several.requests) == (2, 10)
    assert several.output_tokens == 2 * 5 * 10
    assert several.output_tokens_most == 2 * 5 * 40
    assert several.prompt_tokens_computed == once.prompt_tokens_computed  # vLLM reads a prompt once for all answers
