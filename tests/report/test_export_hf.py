"""Files for `.eval_results`, read back by the hub's own library."""

from __future__ import annotations

from typing import Any

import huggingface_hub
import pytest
import yaml

from lm_eval_healthcare.report.export_hf import HubOptions, export
from lm_eval_healthcare.report.exports import ExportError
from lm_eval_healthcare.results.cell import Cell


def cell(**changes: Any) -> Cell:
    given = {
        "model": "org/model", "task": "medmcqa", "metric": "acc", "filter": "none", "value": 0.5739130434782609,
        "stderr": 0.0076, "n": 4183, "n_total": 4183, "n_shot": 0, "template": "", "date": 1772359200.0,
    }  # fmt: skip
    return Cell(**{**given, **changes})


def entries(*cells: Cell, options: HubOptions | None = None) -> dict[str, dict[str, Any]]:
    found = {}
    for document in export(cells, options or HubOptions()).documents:
        (found[str(document.path)],) = yaml.safe_load(document.text)
    return found


def test_a_value_arrives_unrounded_with_the_hub_s_keys() -> None:
    (path, entry), *none = entries(cell()).items()
    assert not none
    assert path == "org__model/.eval_results/medmcqa.yaml"
    assert entry["dataset"] == {"id": "openlifescienceai/medmcqa", "task_id": "default"}
    assert entry["value"] == 0.5739130434782609
    assert entry["date"] == "2026-03-01T10:00:00Z"  # date -u -d @1772359200
    assert set(entry) == {"dataset", "value", "date", "notes"}
    assert "4183" in entry["notes"]
    assert "0-shot" in entry["notes"]


def test_the_hub_s_library_reads_what_we_write() -> None:
    parse = getattr(huggingface_hub, "parse_eval_result_entries", None)
    if parse is None:
        pytest.skip("this huggingface_hub does not know .eval_results")
    source = {"url": "https://example.org/run", "name": "run", "user": "me"}
    options = HubOptions(in_percent=True, task_ids={"mmlu_anatomy": "anatomy_mcq"}, source=source)
    (document,) = export([cell(task="mmlu_anatomy", value=0.57)], options).documents
    (read,) = parse(yaml.safe_load(document.text))
    assert (read.dataset_id, read.task_id, read.value) == ("cais/mmlu", "anatomy_mcq", 57.0)
    assert (read.source_url, read.source_name, read.source_user) == tuple(source.values())
    assert read.date == "2026-03-01T10:00:00Z"
    assert [read.notes] == [yaml.safe_load(document.text)[0]["notes"]]
    assert huggingface_hub.eval_result_entries_to_yaml([read]) == yaml.safe_load(document.text)


def test_the_configuration_is_the_task_id_unless_told() -> None:
    found = entries(cell(task="careqa_es"), cell(task="pubmedqa"))
    assert [one["dataset"]["task_id"] for one in found.values()] == ["CareQA_es", "pqa_labeled"]


def test_only_shares_are_told_in_percent() -> None:
    options = HubOptions(any_metric=True, in_percent=True)
    judged = cell(task="medtext", metric="prometheus", value=3.4)
    found = entries(judged, cell(task="medtext", metric="rougeL", value=0.21), options=options)
    assert [one["value"] for one in found.values()] == [3.4, 21.0]
    assert list(found) == [f"org__model/.eval_results/medtext-{metric}.yaml" for metric in ("prometheus", "rougeL")]


def test_what_the_hub_cannot_hold_is_named() -> None:
    others = [
        cell(task="mimic_repsum", metric="acc"), cell(task="my_own_task"), cell(task="medtext", metric="rougeL"),
    ]  # fmt: skip
    found = export([cell(), *others], HubOptions())
    assert len(found.documents) == 1
    assert [one.cell.task for one in found.refused] == ["mimic_repsum", "my_own_task", "medtext"]
    assert "credentialed" in found.refused[0].reason


def test_of_several_filters_one_must_be_chosen() -> None:
    with pytest.raises(ExportError, match="filter=NAME"):
        export([cell(filter="strict"), cell(filter="flexible")], HubOptions())
    assert "filter strict" in next(iter(entries(cell(filter="strict")).values()))["notes"]


def test_a_source_needs_an_address() -> None:
    with pytest.raises(ExportError, match="--source-url"):
        export([cell()], HubOptions(source={"name": "run"}))


def test_flaws_that_were_allowed_stay_visible() -> None:
    (entry,) = entries(cell(n=20)).values()
    assert "only 20 of 4183 documents" in entry["notes"]


def test_hostile_names_stay_data() -> None:
    name = "a: [b]\n- c: !!python/object 'd' # e \u202e"
    (path, entry), *_ = entries(cell(model=name, filter=name)).items()
    assert path.count("/") == 2
    assert "\n" not in path
    assert entry["value"] == cell().value
    assert "\\n- c: !!python/object" in entry["notes"]
