"""Records of Every Eval Ever against its schema 0.2.2, restated here as a small checker."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.report.export_every_eval import RecordOptions, export
from lm_eval_healthcare.report.exports import ExportError
from lm_eval_healthcare.results.cell import Cell

NOW = 1772400000.25
PATH = re.compile(r"data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json")

# What every_eval_ever/schemas/eval.schema.json (version 0.2.2) asks for: required keys, then kinds of all keys.
RECORD = {
    "schema_version!": str, "evaluation_id!": str, "retrieved_timestamp!": str, "source_metadata!": dict,
    "model_info!": dict, "eval_library!": dict, "evaluation_results!": list, "evaluation_timestamp": str,
}  # fmt: skip
SOURCE = {
    "source_name": str, "source_type!": ("documentation", "evaluation_run"), "source_organization_name!": str,
    "evaluator_relationship!": ("first_party", "third_party", "collaborative", "other"),
}  # fmt: skip
LIBRARY = {"name!": str, "version!": str, "additional_details": "texts"}
MODEL = {"name!": str, "id!": str, "developer": str, "additional_details": "texts"}
RESULT = {
    "evaluation_result_id": str, "evaluation_name!": str, "source_data!": dict, "metric_config!": dict,
    "score_details!": dict, "evaluation_timestamp": str, "generation_config": dict,
}  # fmt: skip
METRIC = {
    "evaluation_description": str, "metric_id": str, "metric_name": str, "metric_unit": str, "metric_parameters": dict,
    "lower_is_better!": bool, "score_type": ("binary", "continuous", "levels"), "min_score": float, "max_score": float,
}  # fmt: skip
SCORE = {"score!": float, "details": "texts", "uncertainty": dict}
UNCERTAINTY = {"standard_error": dict, "num_samples": int}
DATA = {
    "hf_dataset": {"dataset_name!": str, "source_type!": str, "hf_repo!": str, "hf_config": str, "samples_number": int},
    "other": {"dataset_name!": str, "source_type!": str, "additional_details": "texts"},
}
ARGUMENTS = {"temperature": float, "top_p": float, "top_k": float, "max_tokens": int}


def check(part: dict[str, Any], shape: dict[str, Any]) -> None:
    kinds = {key.rstrip("!"): kind for key, kind in shape.items()}
    assert {key[:-1] for key in shape if key.endswith("!")} <= set(part) <= set(kinds)
    for key, value in part.items():
        kind = kinds[key]
        if kind == "texts":
            assert all(isinstance(one, str) for one in value.values()), key
        elif isinstance(kind, tuple):
            assert value in kind, key
        elif kind is float:
            assert isinstance(value, int | float), key
            assert not isinstance(value, bool), key
            assert math.isfinite(value), key
        else:
            assert type(value) is kind, key


def check_record(record: dict[str, Any]) -> None:
    check(record, RECORD)
    check(record["source_metadata"], SOURCE)
    check(record["eval_library"], LIBRARY)
    check(record["model_info"], MODEL)
    assert record["evaluation_results"]
    for result in record["evaluation_results"]:
        check(result, RESULT)
        check(result["source_data"], DATA[result["source_data"]["source_type"]])
        metric, score = result["metric_config"], result["score_details"]
        check(metric, METRIC)
        check(score, SCORE)
        check(score.get("uncertainty", {}), UNCERTAINTY)
        check(result.get("generation_config", {}).get("generation_args", {}), ARGUMENTS)
        if metric.get("score_type") == "continuous":
            assert metric["min_score"] <= score["score"] <= metric["max_score"]
        else:
            assert "score_type" not in metric


def cell(**changes: Any) -> Cell:
    given = {
        "model": "org/model", "task": "medmcqa", "metric": "acc", "filter": "none", "value": 0.5739130434782609,
        "stderr": 0.0076, "n": 4183, "n_total": 4183, "n_shot": 0, "template": "", "date": 1772359200.5,
        "file": Path("/home/someone/results_1.json"), "extra": {"lm_eval_version": "0.4.13"},
    }  # fmt: skip
    return Cell(**{**given, **changes})


def records(*cells: Cell, **options: Any) -> dict[str, dict[str, Any]]:
    documents = export(cells, RecordOptions(NOW, **options)).documents
    found = {str(document.path): json.loads(document.text) for document in documents}
    assert len(found) == len(documents)
    for path, record in found.items():
        assert PATH.fullmatch(path), path
        check_record(record)
    return found


def test_a_record_holds_the_value_and_what_it_is_of() -> None:
    (path, record), *_ = records(cell(), organization="My Hospital", relationship="third_party").items()
    assert path.startswith("data/lm-eval-healthcare/org/model/")
    assert record["schema_version"] == "0.2.2"
    assert record["evaluation_id"] == "lm-eval-healthcare/org/model/1772400000.25"
    assert record["eval_library"]["version"] == "0.4.13"
    assert record["evaluation_timestamp"] == "1772359200.5"
    assert record["source_metadata"]["source_organization_name"] == "My Hospital"
    assert (record["model_info"]["id"], record["model_info"]["developer"]) == ("org/model", "org")
    (result,) = record["evaluation_results"]
    assert result["score_details"]["score"] == 0.5739130434782609
    assert result["score_details"]["uncertainty"] == {"standard_error": {"value": 0.0076}, "num_samples": 4183}
    assert result["metric_config"]["metric_unit"] == "proportion"
    assert result["source_data"]["hf_repo"] == "openlifescienceai/medmcqa"


def test_values_of_one_run_are_one_record_and_of_two_runs_two() -> None:
    found = records(cell(), cell(task="pubmedqa"), cell(task="medtext", metric="rougeL", file=Path("b.json")))
    assert sorted(len(record["evaluation_results"]) for record in found.values()) == [1, 2]


def test_the_same_results_give_the_same_file_name() -> None:
    assert list(records(cell())) == list(records(cell(value=0.1)))
    assert list(records(cell())) != list(records(cell(date=1.0)))
    assert list(records(cell())) != list(records(cell(model="org/other")))


def test_bounds_are_told_only_where_there_are_both_and_the_value_keeps_them() -> None:
    cells = [
        cell(task="medtext_perplexity", metric="word_perplexity", value=14.2),
        cell(task="medtext", metric="bleu", value=31.0),  # the harness's own goes to 100, the pack's to 1
        cell(task="medtext", metric="prometheus", value=3.4),
    ]
    (record,) = records(*cells).values()
    metrics = [result["metric_config"] for result in record["evaluation_results"]]
    assert [one["lower_is_better"] for one in metrics] == [True, False, False]
    assert [one.get("max_score") for one in metrics] == [None, None, 5.0]
    assert "metric_unit" not in metrics[1]


def test_an_unknown_direction_is_refused_not_guessed() -> None:
    found = export([cell(), cell(metric="of_someone_else")], RecordOptions(NOW))
    assert [one.cell.metric for one in found.refused] == ["of_someone_else"]
    assert len(json.loads(found.documents[0].text)["evaluation_results"]) == 1
    assert records(cell(metric="of_someone_else", higher_is_better=False))


def test_missing_facts_are_left_out_never_invented() -> None:
    bare = Cell("model", "my_task", "acc", "none", 0.5)
    (record,) = records(bare).values()
    assert record["eval_library"]["version"] == "unknown"
    assert "developer" not in record["model_info"]
    assert "evaluation_timestamp" not in record
    (result,) = record["evaluation_results"]
    assert "uncertainty" not in result["score_details"]
    assert result["source_data"] == {"dataset_name": "my_task", "source_type": "other"}


def test_settings_of_generation_are_numbers_of_tasks_that_generate() -> None:
    settings = {"gen_kwargs": '{"temperature": 0.7, "until": ["secret"], "do_sample": true, "max_gen_toks": 256}'}
    open_ended = cell(task="medtext", metric="rougeL", value=0.2, extra=settings)
    (record,) = records(open_ended, cell(extra=settings)).values()
    generated, chosen = record["evaluation_results"]
    assert generated["generation_config"] == {"generation_args": {"temperature": 0.7, "max_tokens": 256}}
    assert "generation_config" not in chosen
    assert "secret" not in json.dumps(record)


@pytest.mark.parametrize(
    "model",
    ["../../x", "/data/models/x", "a/b/c", "C:\\models\\x", "..", "", "~/x", "名/型", "\ud800", "x" * 500, "a\nb"],
)
def test_hostile_names_stay_one_folder_deep(model: str) -> None:
    (path, record), *_ = records(cell(model=model)).items()
    assert ".." not in path.split("/")
    assert all(len(part.encode()) <= 255 for part in path.split("/"))
    assert "\n" not in record["model_info"]["name"]


def test_the_relationship_is_one_of_the_schema_s() -> None:
    with pytest.raises(ExportError, match="first_party"):
        export([cell()], RecordOptions(NOW, relationship="friend"))


def test_flaws_that_were_allowed_stay_visible() -> None:
    (record,) = records(cell(n=20)).values()
    assert "only 20 of 4183" in record["evaluation_results"][0]["score_details"]["details"]["flaws"]
