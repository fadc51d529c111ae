"""Where rows come from: hub, folder, sample; and everything that can be wrong with a folder."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import TaskFacts, catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.folder import find_files
from lm_eval_healthcare.data.pubmedqa import official_test_ids
from lm_eval_healthcare.data.source import Source, load, parse_source
from lm_eval_healthcare.sample import rows_path
from support import write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.kind == "task"}
OPEN = FACTS["careqa_open"]


def rows(task: str, split: str) -> list[dict[str, Any]]:
    text = (rows_path() / task / f"{split}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def folder(path: Path) -> Source:
    return Source("folder", path)


@pytest.mark.parametrize("facts", FACTS.values(), ids=lambda facts: facts.name)
def test_the_sample_serves_every_task(facts: TaskFacts) -> None:
    data = load(facts, parse_source("sample"))
    assert data.warnings == []
    assert len(data.splits[data.eval_split]) >= 6
    assert data.provenance["source"] == "sample"
    for file in data.provenance["files"]:
        assert len(file["sha256"]) == 64


def test_flat_file_of_every_kind(tmp_path: Path) -> None:
    wanted = rows("careqa_open", "test")
    for kind in ("jsonl", "json", "csv", "parquet"):
        place = tmp_path / kind
        place.mkdir()
        if kind == "jsonl":
            write_jsonl(place / "careqa_open.jsonl", wanted)
        elif kind == "json":
            (place / "careqa_open.json").write_text(json.dumps(wanted))
        elif kind == "csv":
            datasets.Dataset.from_list(wanted).to_csv(place / "careqa_open.csv", index=False)
        else:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(wanted), place / "careqa_open.parquet")
        found = load(OPEN, folder(place)).splits["test"]
        assert [(r["question"], r["answer"]) for r in found] == [(r["question"], r["answer"]) for r in wanted]


def test_csv_brings_numbers_back(tmp_path: Path) -> None:
    wanted = rows("careqa_en", "test")
    datasets.Dataset.from_list(wanted).to_csv(tmp_path / "careqa_en.csv", index=False)
    found = load(FACTS["careqa_en"], folder(tmp_path)).splits["test"]
    assert [(r["cop"], r["year"]) for r in found] == [(r["cop"], r["year"]) for r in wanted]


def test_structs_in_a_csv(tmp_path: Path) -> None:
    wanted = rows("pubmedqa", "test")
    for header, cell in (
        ("context.contexts", lambda row: json.dumps(row["context"]["contexts"])),
        ("context", lambda row: json.dumps(row["context"])),
    ):
        with (tmp_path / "pubmedqa.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["pubid", "question", header, "final_decision"])
            writer.writerows([r["pubid"], r["question"], cell(r), r["final_decision"]] for r in wanted)
        found = load(FACTS["pubmedqa"], folder(tmp_path)).splits["test"]
        assert [r["context"]["contexts"] for r in found] == [r["context"]["contexts"] for r in wanted]


def test_one_file_a_split_and_shards(tmp_path: Path) -> None:
    test, dev = rows("mmlu_anatomy", "test"), rows("mmlu_anatomy", "dev")
    place = tmp_path / "mmlu_anatomy"
    write_jsonl(place / "test-00000-of-00002.jsonl", test[:5])
    write_jsonl(place / "test-00001-of-00002.jsonl", test[5:])
    write_jsonl(place / "dev.jsonl", dev)
    (place / "README.md").write_text("not data")
    data = load(FACTS["mmlu_anatomy"], folder(tmp_path))
    assert data.splits["test"] == test
    assert (data.eval_split, data.fewshot_split) == ("test", "dev")


def test_examples_in_a_flat_file_beside(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "careqa_open.jsonl", rows("careqa_open", "test")[:6])
    write_jsonl(tmp_path / "careqa_open_train.jsonl", rows("careqa_open", "test")[6:])
    data = load(OPEN, folder(tmp_path))
    assert (len(data.splits["test"]), data.fewshot_split, len(data.splits["train"])) == (6, "train", 4)


def test_where_the_hub_scores_train_a_local_test_file_is_meant(tmp_path: Path) -> None:
    wanted = rows("medtext", "train")
    write_jsonl(tmp_path / "medtext" / "test.jsonl", wanted[:4])
    write_jsonl(tmp_path / "medtext" / "train.jsonl", wanted[4:])
    data = load(FACTS["medtext"], folder(tmp_path))
    assert (data.eval_split, data.splits["test"], data.fewshot_split) == ("test", wanted[:4], "train")


def test_hidden_test_labels_of_medmcqa_are_not_scored(tmp_path: Path) -> None:
    wanted = rows("medmcqa", "validation")
    write_jsonl(tmp_path / "medmcqa" / "validation.jsonl", wanted)
    write_jsonl(tmp_path / "medmcqa" / "test.jsonl", [{**row, "cop": -1} for row in wanted])
    data = load(FACTS["medmcqa"], folder(tmp_path))
    assert (data.eval_split, data.splits["validation"]) == ("validation", wanted)


def test_pubmedqa_official_split_of_one_file(tmp_path: Path) -> None:
    wanted = rows("pubmedqa", "test")
    official = sorted(official_test_ids())[:5]
    unsplit = [{**row, "pubid": int(official[i]) if i < 5 else row["pubid"]} for i, row in enumerate(wanted)]
    write_jsonl(tmp_path / "pubmedqa.jsonl", unsplit)
    data = load(FACTS["pubmedqa"], folder(tmp_path))
    assert [str(r["pubid"]) for r in data.splits["test"]] == official
    assert len(data.splits["train"]) == len(wanted) - 5


def test_pubmedqa_of_a_users_own_questions(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "pubmedqa.jsonl", rows("pubmedqa", "test"))
    data = load(FACTS["pubmedqa"], folder(tmp_path))
    assert len(data.splits["test"]) == 9
    assert "none of the 9 rows has an official test id" in " ".join(data.warnings)


def test_there_are_500_official_ids() -> None:
    assert len(official_test_ids()) == 500


def test_real_pubmedqa_rows(shared_rows: Path, tmp_path: Path) -> None:
    shutil.copy(shared_rows / "pubmedqa_qiaojin.jsonl", tmp_path / "pubmedqa.jsonl")
    data = load(FACTS["pubmedqa"], folder(tmp_path))
    assert len(data.splits["test"]) == 100  # all of them are official test rows
    assert "train" not in data.splits


# What can be wrong


@pytest.mark.parametrize("value", ["nowhere/at/all", "file.jsonl"])
def test_a_source_that_is_no_folder(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"expected 'hub', 'sample' or an existing folder"):
        parse_source(value)


def test_nothing_for_the_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no rows in .*Put careqa_open\.jsonl there.*question, answer"):
        load(OPEN, folder(tmp_path))


def test_two_files_that_could_be_meant(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "careqa_open.jsonl", [{}])
    write_jsonl(tmp_path / "careqa_open" / "test.jsonl", [{}])
    with pytest.raises(DataError, match="not clear which is meant"):
        find_files(OPEN, tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("test.jsonl", "test.csv"),
        ("test-00000-of-00003.jsonl",),
        ("test-00000-of-00002.jsonl", "test.jsonl"),
        ("test-00000-of-00002.jsonl", "test-00001-of-00002.parquet"),
    ],
)
def test_files_of_one_split_that_are_not_one_set(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        write_jsonl(tmp_path / "careqa_open" / name, [{}])
    with pytest.raises(DataError, match="not clear which rows of split 'test' are meant"):
        find_files(OPEN, tmp_path)


def test_a_folder_without_the_scored_split(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        write_jsonl(tmp_path / "careqa_open" / f"{split}.jsonl", [{}])
    with pytest.raises(DataError, match=r"no file for the scored split; expected test\.jsonl .*found dev, train"):
        find_files(OPEN, tmp_path)


def test_faults_name_file_row_and_column(tmp_path: Path) -> None:
    good = rows("careqa_en", "test")
    bad = [
        *good[:2],
        {**good[2], "cop": 7},
        {k: v for k, v in good[3].items() if k != "op2"},
        {**good[4], "question": None},
    ]
    write_jsonl(tmp_path / "careqa_en.jsonl", bad)
    with pytest.raises(DataError) as caught:
        load(FACTS["careqa_en"], folder(tmp_path))
    text = str(caught.value)
    assert "careqa_en.jsonl, row 3: column 'cop': expected int 1..4, got 7, outside 1..4" in text
    assert "careqa_en.jsonl, row 4: column 'op2' is missing" in text
    assert "careqa_en.jsonl, row 5: column 'question'" in text


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "careqa_open.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"careqa_open\.jsonl: no rows; the scored split 'test'"):
        load(OPEN, folder(tmp_path))


def test_a_duplicated_id_is_told_and_scored(tmp_path: Path) -> None:
    good = rows("careqa_en", "test")
    write_jsonl(tmp_path / "careqa_en.jsonl", [*good, good[0]])
    data = load(FACTS["careqa_en"], folder(tmp_path))
    (told,) = [w for w in data.warnings if "duplicated id" in w]
    assert "careqa_en.jsonl" in told
    assert "column 'unique_id'" in told
    assert f"rows 1 and {len(good) + 1} share" in told
    assert len(data.splits["test"]) == len(good) + 1


def test_another_number_of_rows_is_told(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "careqa_open.jsonl", rows("careqa_open", "test"))
    (told,) = load(OPEN, folder(tmp_path)).warnings
    assert "careqa_open.jsonl gives 10 rows" in told
    assert "2769" in told


def test_null_and_blank_references_are_rows(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "careqa_open.jsonl", [{"question": "a", "answer": None}, {"question": "b", "answer": " "}])
    assert [r["answer"] for r in load(OPEN, folder(tmp_path)).splits["test"]] == ["", " "]


def test_faulty_examples_are_told_and_left_out(tmp_path: Path) -> None:
    test, train = rows("medmcqa", "validation"), rows("medmcqa", "train")
    write_jsonl(tmp_path / "medmcqa.jsonl", test)
    write_jsonl(tmp_path / "medmcqa_train.jsonl", [*train, {**train[0], "cop": 9}])
    data = load(FACTS["medmcqa"], folder(tmp_path))
    assert data.splits["train"] == train
    (told,) = [w for w in data.warnings if "left out" in w]
    assert "medmcqa_train.jsonl, row 5: column 'cop'" in told


# The hub


def test_a_few_faulty_rows_of_the_hub_are_told_and_counted() -> None:
    good = rows("careqa_en", "test")
    many = [{**good[i % 12], "unique_id": str(i)} for i in range(200)]
    for faulty, works in ((2, True), (3, False)):
        table = [{**row, "question": None} if i < faulty else row for i, row in enumerate(many)]
        hub = datasets.DatasetDict(test=datasets.Dataset.from_list(table))
        with mock.patch("datasets.load_dataset", return_value=hub):
            if not works:
                with pytest.raises(DataError, match="row 1: column 'question'"):
                    load(FACTS["careqa_en"], parse_source("hub"))
                continue
            data = load(FACTS["careqa_en"], parse_source("hub"))
        assert len(data.splits["test"]) == 198
        assert data.provenance["left_out"] == {"unusable_row": 2} == data.left_out
        assert any("row 1: column 'question'" in warning for warning in data.warnings)


def test_hub_rows_are_checked_and_counted() -> None:
    split = datasets.Dataset.from_list(rows("careqa_open", "test"))
    with mock.patch("datasets.load_dataset", return_value=datasets.DatasetDict(test=split)) as called:
        data = load(OPEN, parse_source("hub"), {"revision": "abc", "trust_remote_code": True})
    called.assert_called_once_with("HPAI-BSC/CareQA", "CareQA_en_open", revision="abc")
    assert (data.provenance["revision"], data.provenance["asked_revision"]) == (None, "abc"), "a tag is no commit"
    assert "2769" in data.warnings[0]
    broken = split.rename_column("answer", "Answer")
    with (
        mock.patch("datasets.load_dataset", return_value=datasets.DatasetDict(test=broken)),
        pytest.raises(DataError, match=r"HPAI-BSC/CareQA .* row 1: column 'answer' is missing"),
    ):
        load(OPEN, parse_source("hub"))


def test_hub_out_of_reach_says_what_to_do() -> None:
    with pytest.raises(DataError, match=r"careqa_open: .*could not be loaded from the hub.*data=FOLDER.*data=sample"):
        load(OPEN, parse_source("hub"))


def test_pubmedqa_from_the_hub_is_split_officially() -> None:
    official = sorted(official_test_ids())[:3]
    unsplit = [
        {**r, "pubid": int(official[i]) if i < 3 else r["pubid"]} for i, r in enumerate(rows("pubmedqa", "test"))
    ]
    hub = datasets.DatasetDict(train=datasets.Dataset.from_list(unsplit))
    with mock.patch("datasets.load_dataset", return_value=hub):
        data = load(FACTS["pubmedqa"], parse_source("hub"))
    assert len(data.splits["test"]) == 3
    assert (data.fewshot_split, len(data.splits["train"])) == ("train", 6)


def test_an_option_that_is_not_allowed_is_told() -> None:
    with pytest.raises(DataError, match=r"mts_dialog: subset=nonsense: expected one of auto, harness, official"):
        load(FACTS["mts_dialog"], parse_source("sample"), options={"subset": "nonsense"})
