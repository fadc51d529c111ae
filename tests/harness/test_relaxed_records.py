"""What is told and written of Relaxed Perplexity: signatures of saved answers, matrices of this run, what is odd."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.harness.options import OptionError, options_of_others
from lm_eval_healthcare.harness.relaxed_options import RelaxedOptions
from lm_eval_healthcare.harness.replay import score_saved_run
from lm_eval_healthcare.relaxed_perplexity.matrix_file import read
from lm_eval_healthcare.results.relaxed_matrices import find
from support import write_jsonl
from token_models import BigramModel

OPEN = "careqa_open_relaxed_perplexity"
TABLE = {"aa": 0.25, "ab": 0.75, "ba": 0.5, "bb": 0.5, "?b": 0.1, "?a": 0.9}
SMALL = {"relaxed_samples": 2, "relaxed_keep": 2, "relaxed_length": 2, "relaxed_stride": 1}


def questions(folder: Path, *pairs: tuple[str, str]) -> Path:
    write_jsonl(folder / "careqa_open.jsonl", [{"question": question, "answer": answer} for question, answer in pairs])
    return folder


def run(folder: Path, rows: Path, model: Any = None, name: str = OPEN, include: Any = None, **kwargs: Any) -> Any:
    """Run a task and save its answers below `folder`; options are in `metadata`."""
    metadata = {"data": str(rows), "answers": str(folder / "answers"), **SMALL, **kwargs.pop("metadata", {})}
    manager = task_manager(include, metadata=metadata, include_defaults=False)
    model = model or BigramModel(["ba", "bb"], TABLE)
    return simple_evaluate(model=model, tasks=[name], task_manager=manager, **kwargs)


def own_task(folder: Path, text: str, name: str = "mine") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    included = tasks_path() / "careqa" / f"{OPEN}.yaml"
    (folder / "mine.yaml").write_text(f"include: {included}\ntask: {name}\n{text}")
    return folder


def section(out: Any, task: str = OPEN) -> dict[str, Any]:
    return out["configs"][task]["metadata"]["healthcare"]


def saved(out: Any, folder: Path, **content: Any) -> EvaluationTracker:
    """Let the harness write results, as its own command does."""
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.model_name_sanitized = "toy"
    for name, value in content.items():
        setattr(tracker.general_config_tracker, name, value)
    samples = out.get("samples")
    tracker.save_results_aggregated({key: value for key, value in out.items() if key != "samples"}, samples)
    for name in samples or ():
        tracker.save_results_samples(name, samples[name])
    return tracker


class TestScoredAgain:
    @pytest.mark.parametrize("template", ["on", "off"])
    def test_signature_with_a_chat_template(self, tmp_path: Path, template: str) -> None:
        options = {"relaxed_chat_template": template, "relaxed_delimiter": "none"}
        rows = questions(tmp_path / "rows", ("Q?", "b"))
        out = run(tmp_path, rows, metadata=options, apply_chat_template=True)
        (folder,) = (tmp_path / "answers").iterdir()
        output, again = score_saved_run(folder, tmp_path / "again", {})
        signatures = section(out)["signatures"]
        assert f"|delimiter:none|chat:{template}|" in signatures["relaxed_perplexity"]
        assert section(again)["signatures"] == signatures
        assert section(again)["relaxed_perplexity"] == section(out)["relaxed_perplexity"]
        (path,) = output.glob("**/relaxed_*.parquet")
        assert read(path).about.chat is (template == "on")

    def test_options_from_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = questions(tmp_path / "rows", ("Q?", "b"), ("R?", "ab"))
        given = {"READINGS": "relaxed_cross_entropy_any", "DELIMITER": "none", "TEMPERATURE": "0.5", "KEEP": "all"}
        with monkeypatch.context() as patch:
            for name, value in given.items():
                patch.setenv(f"LM_EVAL_HEALTHCARE_RELAXED_{name}", value)
            out = run(tmp_path, rows)
        (folder,) = (tmp_path / "answers").iterdir()
        _, again = score_saved_run(folder, tmp_path / "again", {})
        assert "relaxed_cross_entropy_any,none" in out["results"][OPEN]
        assert again["results"][OPEN] == pytest.approx(out["results"][OPEN], nan_ok=True)
        assert section(again)["signatures"] == section(out)["signatures"]
        told = section(again)["relaxed_perplexity"]
        assert (told["delimiter"], told["readings"]) == ("none", ["relaxed_cross_entropy_any"])
        assert told["temperature"] == 0.5
        # Readings may still be chosen anew; how it was measured may not.
        changed = {"relaxed_readings": "relaxed_perplexity", "relaxed_delimiter": "space"}
        _, other = score_saved_run(folder, tmp_path / "other", changed)
        assert "relaxed_perplexity,none" in other["results"][OPEN]
        assert "|delimiter:none|" in section(other)["signatures"]["relaxed_perplexity"]

    def test_options_as_metadata_give_the_same_options(self) -> None:
        given = {
            "relaxed_keep": "all", "relaxed_top_p": "1", "relaxed_memory": "2.5", "relaxed_delimiter": "none",
            "relaxed_chat_template": "off", "relaxed_readings": "relaxed_nats_per_byte+relaxed_perplexity",
        }  # fmt: skip
        for metadata in (given, {}):
            options = RelaxedOptions.from_metadata(metadata)
            assert RelaxedOptions.from_metadata(options.as_metadata()) == options
        assert RelaxedOptions.from_metadata(given).as_metadata()["relaxed_keep"] == "all"

    def test_each_task_with_its_own_readings(self, tmp_path: Path) -> None:
        text = "metadata: {relaxed_readings: relaxed_nats_per_byte}\n"
        tasks = str(own_task(tmp_path / "tasks", text))
        rows = questions(tmp_path / "rows", ("Q?", "b"))
        options = {"data": str(rows), "answers": str(tmp_path / "answers"), **SMALL}
        manager = task_manager(tasks, metadata=options, include_defaults=False)
        model = BigramModel(["ba", "bb"], TABLE)
        out = simple_evaluate(model=model, tasks=["mine", OPEN], task_manager=manager)
        (folder,) = (tmp_path / "answers").iterdir()
        _, again = score_saved_run(folder, tmp_path / "again", {}, include_path=[tasks])
        for name in ("mine", OPEN):
            assert again["results"][name] == pytest.approx(out["results"][name], nan_ok=True)
        assert "relaxed_perplexity,none" not in out["results"]["mine"]
        assert "relaxed_perplexity,none" in out["results"][OPEN]


class TestMatricesWritten:
    def test_never_those_of_an_earlier_run(self, tmp_path: Path) -> None:
        rows = questions(tmp_path / "rows", ("Q?", "b"))
        run(tmp_path, rows)  # scored, and nobody saves its results
        out = run(tmp_path, rows, predict_only=True)
        saved(out, tmp_path / "out")
        assert list((tmp_path / "out").rglob("results_*.json"))
        assert not list((tmp_path / "out").rglob("*.parquet"))

    def test_a_task_whose_name_has_a_slash(self, tmp_path: Path) -> None:
        tasks = own_task(tmp_path / "tasks", "", name="my/task")
        out = run(tmp_path, questions(tmp_path / "rows", ("Q?", "b")), name="my/task", include=str(tasks))
        saved(out, tmp_path / "out")
        (path,) = (tmp_path / "out").rglob("*.parquet")
        assert path.parent == tmp_path / "out" / "toy"
        assert read(path).about.task == "my/task"

    def test_a_task_without_the_runs_chat_template(self, tmp_path: Path) -> None:
        """The results file speaks of the run: what the task did is in its signature."""
        rows = questions(tmp_path / "rows", ("Q?", "b"))
        for option in ("on", "off"):
            options = {"relaxed_chat_template": option}
            out = run(tmp_path, rows, metadata=options, apply_chat_template=True, log_samples=True)
            saved(out, tmp_path / option, chat_template="{{ messages }}")
            for path in (tmp_path / option).rglob("*.parquet"):
                path.unlink()
            (source,) = find([tmp_path / option]).sources
            assert source.path.suffix == ".jsonl"
            assert source.about.chat is (option == "on")


def test_an_extreme_value_is_told_with_its_cause(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # case b40
    """Without completions N is the target's length: P(b|?) = 1e-6 gives RP = 1e6, P(a|?) = 0.9 gives 1 / 0.9.

    Together exp((ln 1e6 - ln 0.9) / 2), about 1054, is not extreme; with two of the first it is
    exp((2 ln 1e6 - ln 0.9) / 3) = 10358.
    """
    table = {**TABLE, "?b": 1e-6}
    options = {"relaxed_length": 0, "relaxed_delimiter": "none"}
    rows = [("Q?", "b"), ("R?", "a"), ("S?", "b")]
    with caplog.at_level(logging.WARNING):
        out = run(tmp_path, questions(tmp_path / "two", *rows[:2]), BigramModel(["x"], table), metadata=options)
    assert out["results"][OPEN]["relaxed_perplexity,none"] == pytest.approx(math.sqrt(1e6 / 0.9))
    assert "extreme_relaxed_perplexity" not in section(out)["reasons"]
    assert section(out)["relaxed_perplexity"]["extreme"] == []
    assert "1e+04" not in caplog.text
    with caplog.at_level(logging.WARNING):
        out = run(tmp_path, questions(tmp_path / "three", *rows), BigramModel(["x"], table), metadata=options)
    assert out["results"][OPEN]["relaxed_perplexity,none"] == pytest.approx((1e12 / 0.9) ** (1 / 3))
    assert section(out)["reasons"]["extreme_relaxed_perplexity"] == 2
    assert section(out)["relaxed_perplexity"]["extreme"] == ["relaxed_perplexity"]
    (told,) = [record.getMessage() for record in caplog.records if "1e+04" in record.getMessage()]
    assert "long targets" in told
    assert "prompt in another form" in told
    assert "log_relaxed_perplexity, relaxed_nats_per_byte" in told


class TestOddTasks:
    def refused(self, tmp_path: Path, targets: str, match: str, rows: Any = "sample") -> None:
        tasks = own_task(tmp_path / "tasks", f"healthcare_changes:\n  targets: {targets}\n")
        metadata = {"data": str(rows), "answers": "off"}
        with pytest.raises(OptionError, match=match):
            task_manager(str(tasks), metadata=metadata, include_defaults=False).load(["mine"])

    @pytest.mark.parametrize(
        "name", ["averaged", "weighted", "sampled", "median", "coverage", "corrected", "any", "sum", "mean"]
    )
    def test_a_list_named_like_a_reading(self, tmp_path: Path, name: str) -> None:
        self.refused(tmp_path, f"{{{name}: answer}}", f"has a list {name}, and names of readings end so")

    def test_lists_whose_metrics_would_have_one_name(self, tmp_path: Path) -> None:
        """The list `weighted_facts` has a metric `relaxed_perplexity_weighted_facts`, and so has `facts`."""
        self.refused(tmp_path, "{facts: answer, weighted_facts: answer}", "weighted_facts|facts")
        self.refused(tmp_path, "{facts: answer, facts_coverage: answer}", "facts")

    def test_a_column_of_texts_and_lists(self, tmp_path: Path) -> None:
        rows = [{"question": f"{n}?", "answer": "b", "facts": facts} for n, facts in enumerate(["b", ["a", "b"]])]
        write_jsonl(tmp_path / "rows" / "careqa_open.jsonl", rows)
        self.refused(tmp_path, "{facts: facts}", "the column facts.*texts in some rows and lists", tmp_path / "rows")


class TestOptions:
    def test_a_stride_beyond_the_completion(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            RelaxedOptions.from_metadata({"relaxed_length": "0"})
            RelaxedOptions.from_metadata({"relaxed_length": "8", "relaxed_stride": "8"})
            assert not caplog.records
            RelaxedOptions.from_metadata({"relaxed_length": "4"})
        (told,) = [record.getMessage() for record in caplog.records]
        assert "relaxed_stride=8 is more than relaxed_length=4" in told
        assert "position 0 alone" in told

    def test_readings_joined_by_commas(self) -> None:
        with pytest.raises(OptionError, match="join names by \\+"):
            RelaxedOptions.from_metadata({"relaxed_readings": "relaxed_perplexity,relaxed_nats_per_byte"})

    def test_metrics_change_nothing_here(self) -> None:
        (told,) = options_of_others(["metrics"], [OPEN])
        assert "'metrics' changes nothing" in told
        assert "relaxed_readings" in told
        assert options_of_others(["metrics"], [OPEN, "careqa_open"]) == []
        assert options_of_others(["relaxed_readings"], [OPEN]) == []
        (told,) = options_of_others(["relaxed_readings"], ["careqa_open"])
        assert OPEN in told

    @pytest.mark.parametrize("name", ["nonexist", "file.txt"])
    def test_a_path_that_cannot_hold_matrices(self, tmp_path: Path, name: str) -> None:
        if "." in name:
            (tmp_path / name).write_text(json.dumps({}))
        with pytest.raises(UserError, match=r"relaxed_\*\.parquet.*folder of results"):
            find([tmp_path / name])
