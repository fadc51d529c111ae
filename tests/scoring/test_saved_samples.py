"""Which samples are scored again, with what; and what is written of them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue
from lm_eval_healthcare.metrics.base import Measured, Metric
from lm_eval_healthcare.results.discovery import answered_tasks, find
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.scoring.rescoring import Rescoring
from lm_eval_healthcare.scoring.saved_facts import KnownTasks
from lm_eval_healthcare.scoring.saved_samples import Plan, Wishes, plan
from lm_eval_healthcare.scoring.score_cache import ScoreCache
from lm_eval_healthcare.scoring.unscored_answers import wanted, with_samples
from support import write_jsonl

STAMP = "2026-03-01T10-00-00.000001"


class Length(Metric):
    """A stand-in for a neural metric: the number of letters, of which it sees the first ten."""

    name, description, maximum = "length", "letters", math.inf
    heavy = limited = True
    family: str | None = None
    options: tuple[str, ...] = ("report", "bert_score_layer", "corpus")
    asked: list[tuple[str, tuple[str, ...]]]
    of_corpus = False

    def __init__(self) -> None:
        self.asked = []

    def missing(self, **options: Any) -> str | None:
        return "length: no model; get one" if options.get("bert_score_layer") == "99" else None

    def measure(self, names: Sequence[str], predictions: Any, references: Any, **options: Any) -> Measured:
        self.asked += [(text, tuple(one)) for text, one in zip(predictions, references, strict=True)]
        scores = np.array([min(len(text), 10) for text in predictions], dtype=float)
        cuts = np.array([len(text) > 10 for text in predictions])
        for place, (score, cut) in enumerate(zip(scores, cuts, strict=True)):
            options["report"](self.name, place, float(score), bool(cut))
        return Measured({self.name: scores}, {self.name: cuts})

    def signature(self, **options: Any) -> str:
        corpus = f"|of:{sorted(options['corpus'].predictions)}" if self.of_corpus and "corpus" in options else ""
        return f"length|layer:{options.get('bert_score_layer', 'default')}{corpus}"


@pytest.fixture
def length() -> Iterator[Length]:
    metric = Length()
    metrics.register(metric)
    yield metric
    del metrics.AVAILABLE["length"]


def row(number: int, answer: str, reference: str | None = None, **more: Any) -> dict[str, Any]:
    reference = f"answer {number}" if reference is None else reference
    return {
        "doc_id": number,
        "doc": {"question": f"Question {number}?", "answer": reference},
        "target": reference,
        "arguments": {"gen_args_0": {"arg_0": f"Question {number}?", "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["bleu"],
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target_hash": f"t{number}",
        "bleu": 0.5,
        "prometheus": 3,
        **more,
    }


def put(folder: Path, answers: Sequence[str], task: str = "mine", stamp: str = STAMP, **content: Any) -> Path:
    """The files of a run of one task."""
    write_jsonl(folder / f"samples_{task}_{stamp}.jsonl", [row(n, answer) for n, answer in enumerate(answers)])
    results = {
        "results": {task: {"alias": task, "bleu,none": 0.5, "bleu_stderr,none": 0.0}},
        "configs": {task: {"task": task, "output_type": "generate_until", "metadata": {"version": 1.0}}},
        "versions": {task: 1.0}, "n-shot": {task: 2}, "n-samples": {task: {"original": 50, "effective": 3}},
        "config": {"model": "hf", "model_args": {"pretrained": f"org/{folder.name}"}, "limit": 3.0},
        "group_subtasks": {"all": [task]}, "groups": {"all": {}}, "model_name": f"org/{folder.name}",
        "model_name_sanitized": f"org__{folder.name}", "lm_eval_version": "0.4.13", "chat_template": "x", **content,
    }  # fmt: skip
    path = folder / f"results_{stamp}.json"
    path.write_text(json.dumps(results))
    return path


def planned(*paths: Path, **wishes: Any) -> Plan:
    return plan(find(paths).runs, Wishes(**wishes), KnownTasks([tasks_path()]))


def rescored(tmp_path: Path, done: Plan, cache: ScoreCache | None = None) -> tuple[list[dict[str, Any]], Rescoring]:
    """Score and return the contents of the results files that were written, in order."""
    rescoring = Rescoring(done.tasks, cache or ScoreCache.in_memory(), tmp_path / "out")
    contents = [json.loads(written.results.read_text()) for _, written in rescoring.run(lambda *_: None)]
    return contents, rescoring


def test_results_carry_over_what_the_run_says_of_itself(tmp_path: Path, length: Length) -> None:
    source = put(tmp_path / "a", ["four", "", "more than ten letters"])
    (content,), _ = rescored(tmp_path, planned(tmp_path / "a", metrics="length"))
    # Letters: 4, then the worst score for the blank one, then 10 of 21: mean 14 / 3, squares 16 + 0 + 100.
    mean, squares = 14 / 3, 116.0
    values = content["results"]["mine"]
    assert values["length,none"] == pytest.approx(mean, abs=1e-12)
    assert values["length_stderr,none"] == pytest.approx(math.sqrt((squares - 3 * mean**2) / 2 / 3), abs=1e-12)
    assert (values["length_coverage,none"], values["sample_len"]) == (1.0, 3)
    assert values["length_truncated,none"] == pytest.approx(1 / 3)
    assert values["empty_prediction,none"] == pytest.approx(1 / 3)
    assert values["very_short_prediction,none"] == pytest.approx(1 / 3)
    assert "bleu,none" not in values  # only what was computed now
    for key in ("versions", "n-shot", "lm_eval_version", "chat_template", "model_name", "model_name_sanitized"):
        assert content[key] == json.loads(source.read_text())[key]
    assert content["config"]["scored_from"] == source.name
    assert content["config"]["limit"] == 3.0
    assert content["n-samples"]["mine"] == {"original": 50, "effective": 3}
    assert "groups" not in content
    section = content["configs"]["mine"]["metadata"]["healthcare"]
    assert section["signatures"] == {"length": "length|layer:default"}
    assert section["reasons"] == {"empty_prediction": 1, "truncated:length": 1}
    assert content["higher_is_better"]["mine"] == {
        "length": True, "length_coverage": True, "length_truncated": False, "empty_prediction": False,
        "very_short_prediction": False,
    }  # fmt: skip


def test_sample_rows_keep_their_texts_and_get_new_values(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four", "x" * 12])
    rescored(tmp_path, planned(tmp_path / "a", metrics="length"))
    (file,) = (tmp_path / "out" / "org__a").glob("samples_mine_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().split("\n") if line]
    old = row(1, "x" * 12)
    new = {"length": 10.0, "length_coverage": 1.0, "length_truncated": 1.0, "empty_prediction": 0.0,
           "very_short_prediction": 1.0}  # fmt: skip
    kept = {key: value for key, value in old.items() if key not in ("bleu", "prometheus")}
    assert rows[1] == {**kept, "metrics": list(new), **new}
    assert list(rows[1])[-5:] == list(new)


def test_one_document_has_no_standard_error(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four"])
    (content,), _ = rescored(tmp_path, planned(tmp_path / "a", metrics="length"))
    assert content["results"]["mine"]["length_stderr,none"] == "N/A"


def test_samples_without_results(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "org__b", ["four", "five5"]).unlink()
    (content,), _ = rescored(tmp_path, planned(tmp_path / "org__b", metrics="length"))
    assert content["results"]["mine"]["length,none"] == 4.5
    assert (content["model_name"], content["config"]["scored_from"]) == ("org__b", f"samples_mine_{STAMP}.jsonl")


def test_every_filter_is_scored_by_itself(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", [])
    rows = [row(n, "x" * size, filter=name) for name, size in (("strict", 2), ("k,all", 4)) for n in range(3)]
    write_jsonl(tmp_path / "a" / f"samples_mine_{STAMP}.jsonl", rows)
    (content,), _ = rescored(tmp_path, planned(tmp_path / "a", metrics="length"))
    values = content["results"]["mine"]
    assert (values["length,strict"], values["length,k,all"], values["sample_len"]) == (2.0, 4.0, 3)


def test_metrics_are_those_of_the_run_unless_others_are_asked_for(tmp_path: Path) -> None:
    def names(**wishes: Any) -> list[str]:
        return planned(tmp_path, **wishes).tasks[0].names

    put(tmp_path, ["a"])
    assert names() == ["bleu"]  # prometheus is none of ours
    assert names(metrics="rouge1,bleu") == ["rouge1", "bleu"]
    results = json.loads((tmp_path / f"results_{STAMP}.json").read_text())
    results["results"]["mine"] = {"exact_match,none": 1.0}
    (tmp_path / f"results_{STAMP}.json").write_text(json.dumps(results))
    assert names(default_metrics="rouge2") == ["rouge2"]
    (tmp_path / f"results_{STAMP}.json").unlink()
    assert names() == ["bleu"]  # from the rows


def test_metrics_that_a_run_left_for_later_are_computed_with_its_models(tmp_path: Path, length: Length) -> None:
    metadata = {"bert_score_layer": "7", "metrics_device": "later", "metrics_long": "windows"}
    results = {"mine": {"length,none": float("nan"), "bleu,none": 0.1}}
    put(tmp_path / "a", ["four"], results=results, configs={"mine": {"metadata": metadata}})
    (task,) = planned(tmp_path / "a", defaults={"bert_score_layer": "1", "metrics_device": "auto"}).tasks
    assert task.names == ["length", "bleu"]
    assert task.options == {
        "bert_score_layer": "7", "metrics_device": "auto", "metrics_long": "windows", "languages": ("en",)
    }  # fmt: skip
    (task,) = planned(tmp_path / "a", options={"bert_score_layer": "8"}).tasks
    assert task.options["bert_score_layer"] == "8"
    (content,), _ = rescored(tmp_path, planned(tmp_path / "a"))
    assert content["configs"]["mine"]["metadata"]["healthcare"]["signatures"]["length"] == "length|layer:7"
    assert "metrics_device" not in content["configs"]["mine"]["metadata"]


def test_options_of_the_runs_environment_win_over_its_metadata_and_are_carried_over(
    tmp_path: Path, length: Length
) -> None:
    given = {"bert_score_layer": "3", "metrics_long": "windows", "metrics_batch_tokens": "9"}
    metadata = {"bert_score_layer": 7, "healthcare": {"metric_options": given}}
    put(tmp_path / "a", ["four"], configs={"mine": {"metadata": metadata}})

    def options(**wishes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        done = planned(tmp_path / "a", metrics="length", **wishes)
        (task,) = done.tasks
        (content,), _ = rescored(tmp_path, done)
        metadata = content["configs"]["mine"]["metadata"]
        assert "bert_score_layer" not in metadata  # one place, so that no two can differ
        return task.options, metadata["healthcare"]["metric_options"]

    kept = {"bert_score_layer": "3", "metrics_long": "windows"}
    assert options(defaults={"bert_score_layer": "1"}) == ({**kept, "languages": ("en",)}, kept)
    asked = {**kept, "bert_score_layer": "8"}
    assert options(options={"bert_score_layer": 8})[1] == asked
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "out" / "org__a").rename(tmp_path / "a")  # what was written last, and first: both say their own
    for file, expected in zip(sorted((tmp_path / "a").glob("results_*")), (kept, asked), strict=True):
        (task,) = planned(file, metrics="length").tasks
        assert task.options == {**expected, "languages": ("en",)}


def test_what_only_the_environment_says_is_told(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four"])
    defaults = {"bert_score_layer": "1", "bleurt_model": "x", "metrics_device": "auto"}
    told = "bert_score_layer=1 is taken from the environment, since runs do not say it"
    assert planned(tmp_path / "a", metrics="length", defaults=defaults).remarks == [told]
    assert planned(tmp_path / "a", metrics="length", defaults=defaults, options={"bert_score_layer": 2}).remarks == []
    assert planned(tmp_path / "a", metrics="bleu", defaults=defaults).remarks == []


def test_a_metric_that_cannot_be_computed_is_told_before_anything_is(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four"])
    with pytest.raises(ResultsError, match=r"length: no model; get one.*--metrics-missing skip"):
        planned(tmp_path, metrics="length", options={"bert_score_layer": "99"})
    done = planned(tmp_path, metrics="length+bleu", options={"bert_score_layer": "99"}, skip_missing=True)
    (content,), _ = rescored(tmp_path, done)
    values = content["results"]["mine"]
    assert (values["length_coverage,none"], values["bleu_coverage,none"]) == (0.0, 1.0)
    assert content["configs"]["mine"]["metadata"]["healthcare"]["reasons"] == {"metric_missing:length": 1}
    assert length.asked == []


@pytest.mark.parametrize(
    ("wishes", "told"),
    [({"metrics": "blue"}, "Did you mean 'bleu'"), ({"options": {"colour": 1}}, "unknown option 'colour'")],
)
def test_wishes_that_cannot_be(tmp_path: Path, wishes: dict[str, Any], told: str) -> None:
    put(tmp_path, ["a"])
    with pytest.raises(ResultsError, match=told):
        planned(tmp_path, **wishes)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, {"a/mine", "a/other", "b/mine"}),
        ({"model": ["org/a"]}, {"a/mine", "a/other"}),
        ({"model": ["org__*"]}, {"a/mine", "a/other", "b/mine"}),
        ({"task": ["oth*"]}, {"a/other"}),
        ({"task": ["oth*", "m*"], "model": ["*b"]}, {"b/mine"}),
        ({"task": ["none"]}, set()),
    ],
)
def test_where(tmp_path: Path, where: dict[str, list[str]], expected: set[str]) -> None:
    put(tmp_path / "a", ["x"])
    write_jsonl(tmp_path / "a" / f"samples_other_{STAMP}.jsonl", [row(0, "x")])
    put(tmp_path / "b", ["x"])
    done = planned(tmp_path, where=where, metrics="bleu")
    assert {f"{task.run.folder.name}/{task.task}" for task in done.tasks} == expected
    assert done.unmatched == 3 - len(expected)


def test_what_has_no_texts_is_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path / "a", ["x"], results={"mine": {}, "lost": {}, "choices": {}, "group": {}},
        configs={"mine": {}, "lost": {"output_type": "generate_until"}, "choices": {"output_type": "multiple_choice"}},
        group_subtasks={"group": ["mine"]})  # fmt: skip
    samples = [row(0, "A")]
    write_jsonl(tmp_path / "a" / f"samples_choices_{STAMP}.jsonl", samples)
    write_jsonl(tmp_path / "a" / f"samples_medqa_4options_gen_{STAMP}.jsonl", samples)  # choices that a model writes
    write_jsonl(tmp_path / "a" / f"samples_untold_{STAMP}.jsonl", [row(0, "x", target=None)])
    done = planned(tmp_path, metrics="bleu")
    assert [task.task for task in done.tasks] == ["mine"]
    assert {why[:30]: sorted(tasks) for why, tasks in done.left_out.items()} == {
        "its answers are log-likelihood": ["choices"],
        "its answers are choices or cla": ["medqa_4options_gen"],
        "its rows have no target to com": ["untold"],
        "their samples were not logged;": ["lost"],
    }


def test_choices_of_a_users_task_are_known_by_their_signatures(tmp_path: Path) -> None:
    section = {"benchmark": "Quiz", "signatures": {"acc": "acc|impl:x"}}
    put(tmp_path, ["A"], configs={"mine": {"metadata": {"healthcare": section}}})
    assert planned(tmp_path, metrics="bleu").tasks == []


def test_categories_of_the_packs_tasks(tmp_path: Path) -> None:
    rows = [row(n, "a note", doc={"note": "a note", "subset": "test1", "dataset": name}, target="a note")
            for n, name in enumerate(["aci", "virtscribe", "virtscribe"])]  # fmt: skip
    recorded = {"aci_bench": {"bleu,none": 0.0, "bleu_subset_test1,none": 0.0}}
    put(tmp_path, [], task="aci_bench", results=recorded)
    write_jsonl(tmp_path / f"samples_aci_bench_{STAMP}.jsonl", rows)
    (content,), _ = rescored(tmp_path, planned(tmp_path, metrics="rouge1"))
    values = content["results"]["aci_bench"]
    assert values["rouge1_dataset_virtscribe,none"] == 1.0
    assert values["rouge1_subset_test1,none"] == 1.0  # one value only, but the run had it among its metrics
    table = content["configs"]["aci_bench"]["metadata"]["healthcare"]["breakdown"]
    assert {name: cell["n"] for name, cell in table["dataset"].items()} == {"aci": 1, "virtscribe": 2}


def test_languages_of_the_packs_tasks(tmp_path: Path) -> None:
    (folder,) = {entry.file.parent for entry in catalogue(tasks_path()) if entry.name == "careqa_es"}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text(
        f"include: {folder / 'careqa_open.yaml'}\ntask: mine\nhealthcare_changes: {{languages: [es]}}\n"
    )
    put(tmp_path / "a", ["x"])
    known = KnownTasks([tmp_path / "tasks", tasks_path()])
    (task,) = plan(find([tmp_path / "a"]).runs, Wishes(metrics="ngram"), known).tasks
    assert task.options["languages"] == ("es",)
    assert "rouge1_unicode" in task.names


def test_counts_that_are_not_about_scores_are_the_runs(tmp_path: Path, length: Length) -> None:
    reasons = {"short_note": 4, "empty_prediction": 9, "scored_later:length": 2, "metric_error:bleu": 1}
    section = {"benchmark": "B", "signatures": {"bleu": "x"}, "prompt": "pack", "reasons": reasons}
    put(tmp_path, ["four"], configs={"mine": {"metadata": {"healthcare": section}}})
    (content,), _ = rescored(tmp_path, planned(tmp_path, metrics="length"))
    new = content["configs"]["mine"]["metadata"]["healthcare"]
    assert (new["reasons"], new["prompt"]) == ({"short_note": 4}, "pack")


def test_replies_cut_in_their_reasoning_stay_counted(tmp_path: Path, length: Length) -> None:
    put(tmp_path, [])
    rows = [row(n, answer, cut_reasoning=cut) for n, (answer, cut) in enumerate([("", 1.0), ("four", 0.0)])]
    write_jsonl(tmp_path / f"samples_mine_{STAMP}.jsonl", rows)
    (content,), _ = rescored(tmp_path, planned(tmp_path, metrics="length"))
    assert content["results"]["mine"]["cut_reasoning,none"] == 0.5
    reasons = content["configs"]["mine"]["metadata"]["healthcare"]["reasons"]
    assert reasons == {"empty_prediction": 1, "cut_reasoning": 1}


def test_each_pair_is_computed_once_for_all_models(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four", "same answer"])
    put(tmp_path / "b", ["letters", "same answer"])
    contents, rescoring = rescored(tmp_path, planned(tmp_path, metrics="length"))
    assert sorted(length.asked) == [
        ("four", ("answer 0",)), ("letters", ("answer 0",)), ("same answer", ("answer 1",))
    ]  # fmt: skip
    assert [content["results"]["mine"]["length,none"] for content in contents] == [7.0, 8.5]
    tally = rescoring.tally
    assert (tally.pairs, tally.computed, tally.cached) == (4, 3, 1)
    assert contents[0]["config"]["scored_from"] == f"results_{STAMP}.json"


def test_a_metric_of_the_evaluated_set_is_computed_model_by_model(
    tmp_path: Path, length: Length, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Length, "of_corpus", True)
    monkeypatch.setattr(Length, "needs_corpus", True)
    put(tmp_path / "a", ["four", "same answer"])
    put(tmp_path / "b", ["letters", "same answer"])
    contents, rescoring = rescored(tmp_path, planned(tmp_path, metrics="length"))
    assert rescoring.tally.computed == 4
    signatures = [c["configs"]["mine"]["metadata"]["healthcare"]["signatures"]["length"] for c in contents]
    assert signatures == [
        "length|layer:default|of:['four', 'same answer']", "length|layer:default|of:['letters', 'same answer']"
    ]  # fmt: skip


def test_what_does_not_depend_on_the_evaluated_set_is_computed_for_all_models(
    tmp_path: Path, length: Length, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(Length):
        name = "other"
        of_corpus = True

    other = Other()
    monkeypatch.setitem(metrics.AVAILABLE, "other", other)
    put(tmp_path / "a", ["four", "same answer"])
    put(tmp_path / "b", ["letters", "same answer"])
    rescored(tmp_path, planned(tmp_path, metrics="length+other"))
    assert (len(length.asked), len(other.asked)) == (3, 4)


def test_what_the_cache_knows_is_not_computed(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four", "x" * 12, ""])
    outputs = []
    for _ in range(2):
        with ScoreCache.open(tmp_path / "cache") as cache:
            (content,), rescoring = rescored(tmp_path, planned(tmp_path / "a", metrics="length"), cache)
        outputs.append(content)
    assert (len(length.asked), rescoring.tally.computed, rescoring.tally.cached) == (2, 0, 2)
    assert outputs[0]["results"] == outputs[1]["results"]
    assert outputs[0]["task_hashes"] == outputs[1]["task_hashes"]


def test_a_file_that_changes_meanwhile_costs_its_task(
    tmp_path: Path, length: Length, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Length.measure

    def meanwhile(self: Length, names: Sequence[str], predictions: Any, references: Any, **options: Any) -> Measured:
        write_jsonl(tmp_path / "a" / f"samples_mine_{STAMP}.jsonl", [row(0, "four")])
        return measure(self, names, predictions, references, **options)

    monkeypatch.setattr(Length, "measure", meanwhile)
    put(tmp_path / "a", ["four", "five5"])
    put(tmp_path / "b", ["letters"])
    (content,), rescoring = rescored(tmp_path, planned(tmp_path, metrics="length"))
    assert content["model_name"] == "org/b"
    assert ["has changed" in fault for fault in rescoring.faults] == [True]
    assert [path.name for path in (tmp_path / "out" / "org__a").iterdir()] == []


def test_unwritable_output_is_told_before_scoring(tmp_path: Path, length: Length) -> None:
    put(tmp_path / "a", ["four"])
    (tmp_path / "out").write_text("")
    with pytest.raises(ResultsError, match="cannot write there"):
        rescored(tmp_path, planned(tmp_path / "a", metrics="length"))
    assert length.asked == []


def test_answers_with_samples_of_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "answers" / "2026-01-01T00-00-00_1"
    write_jsonl(folder / "mine.jsonl", [])
    write_jsonl(folder / "mine.rank1.jsonl", [])
    write_jsonl(folder / "a%2Fb.jsonl", [])
    described = {"date": "2026-03-01T10:00:00+00:00", "arguments": {"model_args": {"pretrained": "org/a"}}}
    (folder / "run.json").write_text(json.dumps(described))
    assert answered_tasks(folder) == ["a/b", "mine"]
    assert wanted(folder, ["a/b", "mine"], Wishes(where={"model": ["org__a"], "task": ["m*"]})) == ["mine"]
    saved = 1772359200.0  # 2026-03-01 10:00 UTC

    def logged(**content: Any) -> list[str]:
        put(tmp_path / "m", ["x"], model_name="org/a", **content)
        return with_samples(folder, ["a/b", "mine"], find([tmp_path / "m"]).runs)

    assert logged(date=saved - 500, total_evaluation_time_seconds="600.5") == ["mine"]
    assert logged(date=saved - 5000, total_evaluation_time_seconds="600.5") == []  # ended before
    assert logged(date=saved + 5000, total_evaluation_time_seconds="600.5") == []
    assert logged() == []
    assert logged(config={"scored_from": folder.name}) == ["mine"]
    (folder / "run.json").write_text(json.dumps({**described, "arguments": {"model_args": {"pretrained": "org/z"}}}))
    assert logged(date=saved - 500, total_evaluation_time_seconds="600.5") == []  # another model at the same time


@pytest.mark.parametrize(
    ("task", "texts"),
    [("careqa_open", True), ("careqa_open_consistency", True), ("careqa_open_relaxed_perplexity", False),
     ("careqa_en", False), ("careqa_open_perplexity", False)],
)  # fmt: skip
def test_which_tasks_of_the_pack_have_texts_where_the_results_name_no_metric(task: str, texts: bool) -> None:
    known = KnownTasks([tasks_path()])
    assert known.has_texts(task, {"healthcare": {"benchmark": "CareQA"}}, ["bleu"]) is texts
