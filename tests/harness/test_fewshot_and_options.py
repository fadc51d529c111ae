"""Examples are never scored rows; options come from the flag or the environment, and a wrong one is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval_healthcare import metrics, task_manager
from lm_eval_healthcare.harness.options import OptionError, Options, unknown_options
from lm_eval_healthcare.sample import rows_path
from scripted import ScriptedModel, evaluate, open_rows
from support import write_jsonl


def test_no_split_for_examples_is_told_before_the_model_runs() -> None:
    model = ScriptedModel(["x"])
    with pytest.raises(OptionError, match=r"careqa_open: num_fewshot=2.*examples must never be rows that are scored"):
        evaluate("careqa_open", model, metadata={"metrics": "bleu"}, num_fewshot=2)
    assert model.seen == []


def test_too_few_examples_are_told() -> None:
    with pytest.raises(OptionError, match="mmlu_anatomy: num_fewshot=9, but split 'dev' holds only 5"):
        evaluate("mmlu_anatomy", ScriptedModel(likelihood=lambda c, x: 0.0), num_fewshot=9)


def test_a_later_and_larger_number_is_refused_too() -> None:
    task = task_manager(metadata={"data": "sample"}, include_defaults=False).load(["medmcqa"])["tasks"]["medmcqa"]
    task.set_config("num_fewshot", 2)
    with pytest.raises(OptionError, match="holds only 4"):
        task.set_config("num_fewshot", 5)


def test_faulty_examples_of_the_hub_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def rows(split: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (rows_path() / "medmcqa" / f"{split}.jsonl").open(encoding="utf-8")]

    train = [{**row, "question": None} if i < 2 else row for i, row in enumerate(rows("train"))]
    hub = {"validation": datasets.Dataset.from_list(rows("validation")), "train": datasets.Dataset.from_list(train)}
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **kwargs: datasets.DatasetDict(hub))
    task = task_manager(include_defaults=False).load(["medmcqa"])["tasks"]["medmcqa"]
    task.set_config("num_fewshot", 2)
    task.set_fewshot_seed(1)
    assert "None" not in task.fewshot_context(task.eval_docs[0], 2)
    with pytest.raises(OptionError, match="holds only 2"):
        task.set_config("num_fewshot", 3)


def test_examples_that_are_scored_rows_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_rows(tmp_path, ["one", "two"])
    scored = [json.loads(line) for line in (tmp_path / "careqa_open.jsonl").read_text().splitlines()]
    write_jsonl(tmp_path / "careqa_open_train.jsonl", [*scored, {"question": "Example?", "answer": "example answer"}])
    model = ScriptedModel(["x"])
    evaluate("careqa_open", model, tmp_path, metadata={"metrics": "bleu"}, num_fewshot=1)
    assert all("example answer" in prompt for prompt, _ in model.seen)
    assert "2 examples are also scored rows" in caplog.text


@pytest.mark.parametrize("name", ["medmcqa", "medqa_4options", "pubmedqa", "mmlu_college_medicine"])
def test_examples_come_from_the_other_split(name: str) -> None:
    task = task_manager(metadata={"data": "sample"}, include_defaults=False).load([name])["tasks"][name]
    task.set_config("num_fewshot", 2)
    task.set_fewshot_seed(7)
    scored = [task.doc_to_text(doc) for doc in task.eval_docs]
    for doc in task.eval_docs:
        prompt = task.fewshot_context(doc, 2)
        others = [text for text in scored if text != task.doc_to_text(doc)]
        assert not any(text in prompt for text in others)


def test_flag_wins_over_environment_over_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LM_EVAL_HEALTHCARE_METRICS", raising=False)
    monkeypatch.delenv("LM_EVAL_HEALTHCARE_SCORE_CACHE", raising=False)
    assert Options.from_metadata({}) == Options("hub", None, "default", "harness", None)
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_DATA", "sample")
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS", "bleu")
    options = Options.from_metadata({"metrics": "rouge1", "pretrained": "some/model"})
    assert (options.data, options.metrics) == ("sample", "rouge1")
    assert Options.from_metadata({"metrics": ["bleu", "rouge1"]}).metrics == "bleu+rouge1"
    assert Options.from_metadata({"answers": False}).answers == "off"  # how YAML reads `off`


def test_environment_reaches_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_DATA", "sample")
    monkeypatch.setenv("LM_EVAL_HEALTHCARE_METRICS", "rouge2")
    task = task_manager(include_defaults=False).load(["medtext"])["tasks"]["medtext"]
    assert task.metric_names == ["rouge2"]
    assert task.provenance["source"] == "sample"


def test_unknown_metric_names_what_there_is() -> None:
    with pytest.raises(OptionError) as caught:
        evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu+rogue1"})
    assert "rogue1" in str(caught.value)
    assert all(name in str(caught.value) for name in metrics.AVAILABLE)


def test_a_metric_whose_package_is_gone_is_told_before_the_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(metrics.AVAILABLE["rouge1"]), "requires", ("no_such_package",))
    model = ScriptedModel(["x"])
    with pytest.raises(
        OptionError, match=r"(?s)careqa_open: .*rouge1 needs no-such-package: pip install no-such-package"
    ):
        evaluate("careqa_open", model, metadata={"metrics": "bleu+rouge1"})
    assert model.seen == []


def test_unknown_prompt() -> None:
    with pytest.raises(OptionError, match="prompt=ours: expected one of harness, pack"):
        Options.from_metadata({"prompt": "ours"})


def test_misspelt_options() -> None:
    assert unknown_options(["data", "metrics"], strict=True) == []
    assert "did you mean 'metrics'?" in unknown_options(["metric"], strict=False)[0]
    assert unknown_options(["pretrained", "dtype", "tokenizer", "revision", "device"], strict=False) == []
    assert len(unknown_options(["tokenizer"], strict=True)) == 1


def test_the_pinned_revision_reaches_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    seen: dict[str, object] = {}

    def load(path: str, name: str, **kwargs: object) -> datasets.DatasetDict:
        seen.update(kwargs, path=path, name=name)
        rows = [json.loads(line) for line in (rows_path() / "careqa_en" / "test.jsonl").open(encoding="utf-8")]
        return datasets.DatasetDict(test=datasets.Dataset.from_list(rows))

    monkeypatch.setattr(datasets, "load_dataset", load)
    manager = task_manager(metadata={"data_revision": "0123abc"}, include_defaults=False)
    task = manager.load(["careqa_en"])["tasks"]["careqa_en"]
    assert seen == {"path": "HPAI-BSC/CareQA", "name": "CareQA_en", "revision": "0123abc"}
    assert task.provenance["asked_revision"] == "0123abc"
    assert task.provenance["revision"] is None, "no commit is known of a set that was not loaded"
