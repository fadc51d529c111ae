"""The first benchmarks' sets as the hub lays them out, read by `datasets` itself; and what is wrong with some rows.

The rows are the packaged sample, written in the hub's file format, with its class labels, structs and configurations.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError, read_rows
from lm_eval_healthcare.data.pubmedqa import official_test_ids
from lm_eval_healthcare.data.source import load, parse_source
from lm_eval_healthcare.sample import rows_path

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.kind == "task"}
Rows = list[dict[str, Any]]


def sample(task: str, split: str) -> Rows:
    return read_rows(rows_path() / task / f"{split}.jsonl")


def write_json(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def write_json_lines(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_csv(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Rows, labels: dict[str, list[str]] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = datasets.Dataset.from_list(rows)
    for column, names in (labels or {}).items():
        table = table.cast_column(column, datasets.ClassLabel(names=names))
    table.to_parquet(str(path))


def configurations(root: Path, files: dict[str, dict[str, str]]) -> None:
    """The head of a set's README, where the hub keeps which file belongs to which configuration and split."""
    lines = ["---", "configs:"]
    for name, splits in files.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        lines += [line for s, path in splits.items() for line in (f"  - split: {s}", f"    path: {path}")]
    (root / "README.md").write_text("\n".join([*lines, "---", ""]), encoding="utf-8")


def careqa(root: Path, rows: Rows) -> None:
    write_json(root / "CareQA_en.json", rows)
    write_json(root / "CareQA_es.json", sample("careqa_es", "test"))
    write_json(root / "CareQA_en_open.json", sample("careqa_open", "test"))
    names = ("CareQA_en", "CareQA_es", "CareQA_en_open")
    configurations(root, {name: {"test": f"{name}.json"} for name in names})


def medmcqa(root: Path, rows: Rows) -> None:
    letters = {"cop": ["a", "b", "c", "d"]}
    write_parquet(root / "data" / "validation-00000-of-00001.parquet", rows, letters)
    write_parquet(root / "data" / "train-00000-of-00001.parquet", sample("medmcqa", "train"), letters)
    hidden = [{**row, "cop": -1} for row in sample("medmcqa", "train")]
    write_parquet(root / "data" / "test-00000-of-00001.parquet", hidden, letters)


def medqa(root: Path, rows: Rows) -> None:
    write_json_lines(root / "test.json", rows)
    write_json_lines(root / "train.json", sample("medqa_4options", "train"))
    write_json_lines(root / "dev.json", sample("medqa_4options", "train"))
    configurations(root, {"default": {"train": "train.json", "validation": "dev.json", "test": "test.json"}})


def pubmedqa(root: Path, rows: Rows) -> None:
    ids = sorted(official_test_ids())
    rows = [{**row, "pubid": int(number)} for row, number in zip(rows, ids, strict=False)]
    every = [*rows, *sample("pubmedqa", "train")]
    write_parquet(root / "pqa_labeled" / "train-00000-of-00001.parquet", every)
    configurations(root, {"pqa_labeled": {"train": "pqa_labeled/train-*"}})


def mmlu(root: Path, rows: Rows) -> None:
    columns = list(rows[0])
    examples = [{name: row[name] for name in columns} for row in sample("mmlu_anatomy", "dev")]
    for split, content in (("test", rows), ("validation", rows), ("dev", examples)):
        path = root / "anatomy" / f"{split}-00000-of-00001.parquet"
        write_parquet(path, content, {"answer": ["A", "B", "C", "D"]})
    configurations(root, {"anatomy": {s: f"anatomy/{s}-*" for s in ("test", "validation", "dev")}})


def medtext(root: Path, rows: Rows) -> None:
    write_csv(root / "medtext_2.csv", rows)


@dataclass(frozen=True)
class Layout:
    """A set on the hub: where it lies, how it is written, which column is needed, and a value that is none of its."""

    task: str
    split: str
    folder: str
    write: Callable[[Path, Rows], None]
    column: str
    strange: Any
    examples: str | None = None

    @property
    def rows(self) -> Rows:
        return sample(self.task, self.split)


LAYOUTS = [
    Layout("careqa_en", "test", "HPAI-BSC/CareQA", careqa, "cop", 7),
    Layout("medmcqa", "validation", "openlifescienceai/medmcqa", medmcqa, "opb", None, "train"),
    Layout("medqa_4options", "test", "GBaker/MedQA-USMLE-4-options-hf", medqa, "label", 4, "train"),
    Layout("pubmedqa", "test", "qiaojin/PubMedQA", pubmedqa, "final_decision", "perhaps", "train"),
    Layout("mmlu_anatomy", "test", "cais/mmlu", mmlu, "choices", ["one", "two"], "dev"),
    Layout("medtext", "train", "BI55/MedText", medtext, "Prompt", None),
]
parametrized = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.task)


@parametrized
def test_as_the_hub_has_it(layout: Layout, hub_copy: Path) -> None:
    layout.write(hub_copy / layout.folder, layout.rows)
    data = load(FACTS[layout.task], parse_source("hub"))
    assert len(data.splits[data.eval_split]) == len(layout.rows)
    assert data.fewshot_split == layout.examples
    first = data.splits[data.eval_split][0]
    wanted = [row[layout.column] for row in layout.rows]
    assert first[layout.column] in wanted
    assert data.provenance["source"] == "hub"


@parametrized
def test_a_missing_column(layout: Layout, hub_copy: Path) -> None:
    layout.write(
        hub_copy / layout.folder, [{k: v for k, v in row.items() if k != layout.column} for row in layout.rows]
    )
    with pytest.raises(DataError) as caught:
        load(FACTS[layout.task], parse_source("hub"))
    # Where splits no longer agree, `datasets` itself refuses.
    assert layout.column in str(caught.value) or "could not be loaded from the hub" in str(caught.value)


@parametrized
def test_a_null_or_a_value_that_is_none_of_its(layout: Layout, hub_copy: Path) -> None:
    rows = layout.rows
    rows[0] = {**rows[0], layout.column: layout.strange}
    layout.write(hub_copy / layout.folder, rows)
    with pytest.raises(DataError, match=rf"row 1: column '{layout.column}'"):
        load(FACTS[layout.task], parse_source("hub"))


@pytest.mark.parametrize("layout", [one for one in LAYOUTS if one.task != "pubmedqa"], ids=lambda layout: layout.task)
def test_one_such_row_in_a_hundred_is_left_out(layout: Layout, hub_copy: Path) -> None:
    many = [row for _ in range(15) for row in layout.rows]
    layout.write(hub_copy / layout.folder, [{**many[0], layout.column: layout.strange}, *many])
    data = load(FACTS[layout.task], parse_source("hub"))
    assert data.left_out == {"unusable_row": 1}
    assert len(data.splits[data.eval_split]) == len(many)
    assert f"row 1: column '{layout.column}'" in " ".join(data.warnings)


def test_pictures_that_no_task_reads_are_not_decoded(hub_copy: Path) -> None:
    rows = sample("med_prescriptions", "train")
    picture = {"bytes": b"no picture", "path": None}
    table = datasets.Dataset.from_list([{**row, "Image": picture} for row in rows])
    table = table.cast_column("Image", datasets.Image())
    path = hub_copy / "devlocalhost" / "prescription-full" / "data" / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    table.to_parquet(str(path))
    data = load(FACTS["med_prescriptions_easy"], parse_source("hub"))
    assert len(data.splits["test"]) == len(rows)
