"""BioRED: every layout gives the same pairs; what is malformed is named."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.biored import NOVELTY, RELATIONS, novelty_documents, pairs, relation_documents
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.pubtator import parse_pubtator, read_pubtator
from lm_eval_healthcare.data.source import Source, load
from support import write_jsonl

FACTS = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.name.startswith("biored")}
BIORED = FACTS["biored"]

TITLE, ABSTRACT = "Zorvatin and the QRX2 gene in gingival fever.", "Zorvatin lowered QRX2/3. QRX3 did not bind it."
PUBTATOR = "\n".join(
    [
        f"90000001|t|{TITLE}",
        f"90000001|a|{ABSTRACT}",
        "90000001\t0\t8\tZorvatin\tChemicalEntity\tD900001",
        "90000001\t17\t21\tQRX2\tGeneOrGeneProduct\t77",
        "90000001\t30\t44\tgingival fever\tDiseaseOrPhenotypicFeature\tD900002",
        "90000001\t63\t69\tQRX2/3\tGeneOrGeneProduct\t77,78",
        "90000001\t71\t75\tQRX3\tGeneOrGeneProduct\t78",
        "90000001\tNegative_Correlation\tD900001\t77\tNovel",
        "90000001\tBind\t78\tD900001\tNo",
        "90000001\tAssociation\tD900002\t77\tNovel",
        "",
        "90000002|t|Second.",
        "90000002|a|",
        "90000002\t0\t6\tSecond\tCellLine\tCVCL_1",
        "",
    ]
)
COMMON = {"pmid": "90000001", "title": TITLE, "abstract": ABSTRACT}
GENE, CHEMICAL, DISEASE = "GeneOrGeneProduct", "ChemicalEntity", "DiseaseOrPhenotypicFeature"
# Written down by hand from the lines above. QRX3 has its own mention, so it is not called QRX2/3.
PAIRS = [
    {**COMMON, "entity1": "Zorvatin", "type1": CHEMICAL, "entity2": "QRX2", "type2": GENE,
     "relation": "Negative_Correlation", "novel": "Novel"},
    {**COMMON, "entity1": "QRX3", "type1": GENE, "entity2": "Zorvatin", "type2": CHEMICAL,
     "relation": "Bind", "novel": "No"},
    {**COMMON, "entity1": "gingival fever", "type1": DISEASE, "entity2": "QRX2", "type2": GENE,
     "relation": "Association", "novel": "Novel"},
]  # fmt: skip
SOURCE, _ = parse_pubtator(PUBTATOR)
LAYOUTS: dict[str, list[dict[str, Any]]] = {
    "pairs": PAIRS,
    "source": SOURCE,
    "source in cells": [{k: v if k == "pmid" else json.dumps(v) for k, v in d.items()} for d in SOURCE],
    "source as literals": [{k: v if k == "pmid" else repr(v) for k, v in d.items()} for d in SOURCE],
    "data: PubTator": [{"data": PUBTATOR}],
    "data: a source document": [{"data": json.dumps(d)} for d in SOURCE],
    "data: pairs": [{"data": json.dumps(PAIRS)}],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs(layout: str) -> None:
    assert [pair for row in LAYOUTS[layout] for pair in pairs(row)] == PAIRS


def test_a_concept_that_only_a_shared_mention_names() -> None:
    text = PUBTATOR.replace("90000001\t71\t75\tQRX3\tGeneOrGeneProduct\t78\n", "")
    assert [p["entity1"] for p in pairs({"data": text})] == ["Zorvatin", "QRX2/3", "gingival fever"]


def test_the_first_mention_counts_whatever_the_order_of_annotations() -> None:
    document = json.loads(json.dumps(SOURCE[0]))
    document["entities"] = document["entities"][::-1]
    assert pairs(document) == PAIRS


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x", "label": 1}, "found the columns text, label"),
        ({}, "found the columns none"),
        ({"data": "### Instruction: which relation?"}, "holds '### Instruction"),
        ({"data": "{broken"}, "column 'data': not valid JSON"),
        ({"data": "[1, 2]"}, "JSON of another kind"),
        ({"data": json.dumps({"data": "{}"})}, "JSON of another kind"),
        ({"data": PUBTATOR + "90000001 no tabs"}, "column 'data', line 15"),
        ({"passages": 3, "entities": [], "relations": []}, "column 'passages': expected a list of structs"),
        ({"passages": "[", "entities": [], "relations": []}, "column 'passages': not valid JSON"),
    ],
)
def test_other_layouts_are_refused_with_advice(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"Test\.PubTator") as caught:
        pairs(row)
    assert message in str(caught.value)


def test_questions() -> None:
    prepared = relation_documents({"test": PAIRS, "train": PAIRS[:1]}, {})
    first, second, third = prepared.splits["test"]
    assert [RELATIONS[d["answer"]] for d in (first, second, third)] == ["Negative_Correlation", "Bind", "Association"]
    assert (first["kind1"], first["kind2"]) == ("chemical", "gene or gene product")
    assert first["relation_in_words"] == "negative correlation"
    assert len(prepared.splits["train"]) == 1
    novelty = novelty_documents({"test": PAIRS}, {}).splits["test"]
    assert [NOVELTY[d["answer"]] for d in novelty] == ["Novel", "No", "Novel"]
    assert len(set(RELATIONS)) == 8


def test_what_is_left_out_is_counted_and_named() -> None:
    odd = [
        {**PAIRS[0], "relation": "Friendship"},
        {**PAIRS[0], "entity2": ""},
        {**PAIRS[0], "novel": "Perhaps"},
    ]
    prepared = relation_documents({"test": [*PAIRS, *odd]}, {})
    assert len(prepared.splits["test"]) == 4
    assert prepared.left_out == Counter({"unknown_relation": 1, "unknown_entity": 1})
    assert "biored: 1 pairs are left out (unknown_relation): 'Friendship' in document 90000001" in prepared.warnings
    novelty = novelty_documents({"test": [*PAIRS, *odd]}, {})
    assert novelty.left_out == Counter({"unknown_novelty": 1, "unknown_entity": 1})


# Files


def test_pubtator_file_as_the_authors_give_it(tmp_path: Path) -> None:
    place = tmp_path / "biored"
    place.mkdir()
    (place / "test.PubTator").write_bytes(("\ufeff" + PUBTATOR).replace("\n", "\r\n").encode())
    (place / "train.txt").write_text(PUBTATOR, encoding="utf-8")
    for facts in FACTS.values():
        data = load(facts, Source("folder", tmp_path))
        assert (data.eval_split, data.fewshot_split) == ("test", "train")
        assert [{key: d[key] for key in PAIRS[0]} for d in data.splits["test"]] == PAIRS


def test_malformed_lines_are_named(tmp_path: Path) -> None:
    lines = PUBTATOR.split("\n")
    lines[3] = "90000001\t17\t21"
    lines[7] = "90000001\tBind\t78"
    lines.append("90000009\t0\t4\tQRX2\tGeneOrGeneProduct\t77")
    lines.append("90000001|t|Again")
    path = tmp_path / "biored.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pubtator(path)
    told = str(caught.value).split("\n")
    assert [line.split(": ")[0] for line in told] == [f"{path}, line {number}" for number in (4, 8, 16, 17)]
    assert "neither a mention" in told[0]
    assert "a second title of document 90000001" in told[3]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        read_pubtator(path)
    with pytest.raises(DataError, match="no such file"):
        read_pubtator(tmp_path / "nothing.txt")


def test_tables(tmp_path: Path) -> None:
    nested, table = tmp_path / "nested" / "biored", tmp_path / "table"
    nested.mkdir(parents=True)
    table.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(SOURCE), nested / "test.parquet")
    write_jsonl(nested / "train.jsonl", SOURCE)
    with (table / "biored.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, PAIRS[0])
        writer.writeheader()
        writer.writerows(PAIRS)
    for folder, examples in ((nested.parent, "train"), (table, None)):
        data = load(BIORED, Source("folder", folder))
        assert data.fewshot_split == examples
        assert [{key: d[key] for key in PAIRS[0]} for d in data.splits["test"]] == PAIRS


def test_rows_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "biored.jsonl", [*PAIRS, {"text": "x"}])
    with pytest.raises(DataError, match=r"biored.jsonl, row 4: found the columns text; expected pairs"):
        load(BIORED, Source("folder", tmp_path))
    write_jsonl(tmp_path / "biored.jsonl", [{**PAIRS[0], "abstract": None, "relation": None}, *PAIRS])
    data = load(BIORED, Source("folder", tmp_path))
    assert data.left_out == Counter({"unknown_relation": 1})
    assert len(data.splits["test"]) == 3


def test_real_documents_give_the_pairs_that_were_derived_from_them(shared_rows: Path) -> None:
    """An independent conversion calls a concept by the first mention that names it, shared or not."""
    documents = [json.loads(line) for line in (shared_rows / "biored.jsonl").read_text("utf-8").splitlines()]
    wanted = [json.loads(line) for line in (shared_rows / "biored_pairs.jsonl").read_text("utf-8").splitlines()]
    derived = [pair for document in documents for pair in pairs(document)]
    assert len(derived) == sum(len(document["relations"]) for document in documents)
    shared = {(d["pmid"], " ".join(e["text"])) for d in documents for e in d["entities"] if "," in e["concept_id"]}
    checked = 0
    for pair in wanted:
        if pair["pmid"] not in {document["pmid"] for document in documents}:
            continue
        if pair not in derived:  # then it must be one that a shared mention names
            assert {(pair["pmid"], pair["entity1"]), (pair["pmid"], pair["entity2"])} & shared
            continue
        checked += 1
    assert checked >= 50
    prepared = relation_documents({"test": derived}, {})
    assert len(prepared.splits["test"]) == len(derived)
    assert not prepared.left_out


def test_questions_that_read_the_same_are_counted_and_scored() -> None:
    """Two concepts of one abstract are both called HIV, so their pairs with a drug read the same."""
    names = {"pmid": "1", "title": "T", "abstract": "A", "type1": DISEASE, "type2": CHEMICAL}
    hiv = {**names, "entity1": "HIV", "entity2": "Zorvatin", "relation": "Association", "novel": "Novel"}
    other = {**hiv, "entity1": "fever"}
    same = relation_documents({"test": [hiv, hiv, other], "train": [hiv, hiv]}, {})
    assert len(same.splits["test"]) == 3
    (told,) = same.warnings
    assert "2 of 3 questions read the same as another one" in told
    assert "there are 2 different questions" in told
    assert "score more than" not in told
    # Of three alike one has another answer: at best 2 of them are right, with the fourth 3 of 4.
    differ = relation_documents({"test": [hiv, hiv, {**hiv, "relation": "Bind"}, other]}, {})
    assert "3 of 4 questions" in differ.warnings[0]
    assert "no model can score more than 75.0%" in differ.warnings[0]
    # Novelty is asked about a relation that the question states, so these three are two questions.
    novelty = novelty_documents({"test": [hiv, {**hiv, "novel": "No"}, {**hiv, "relation": "Bind"}]}, {})
    assert "2 of 3 questions" in novelty.warnings[0]
    assert "no model can score more than 66.7%" in novelty.warnings[0]
    assert relation_documents({"test": [hiv, other], "train": [hiv, hiv]}, {}).warnings == []
