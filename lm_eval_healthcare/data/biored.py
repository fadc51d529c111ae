"""BioRED: which relation an abstract states between two entities, and whether it is a new finding.

The corpus annotates relations between concepts of whole abstracts. Here every annotated pair is one document, so the
task is to name the relation of a given pair; finding the pairs is no part of it.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval_healthcare.data.prepared import SCORED, Prepared, scored_split
from lm_eval_healthcare.data.pubtator import parse_pubtator

UNKNOWN_RELATION = "unknown_relation"
UNKNOWN_NOVELTY = "unknown_novelty"
UNKNOWN_ENTITY = "unknown_entity"
RELATIONS = (
    "Association",
    "Bind",
    "Comparison",
    "Conversion",
    "Cotreatment",
    "Drug_Interaction",
    "Negative_Correlation",
    "Positive_Correlation",
)
NOVELTY = ("Novel", "No")
_ENTITY_TYPES = {
    "GeneOrGeneProduct": "gene or gene product",
    "DiseaseOrPhenotypicFeature": "disease or phenotypic feature",
    "ChemicalEntity": "chemical",
    "SequenceVariant": "sequence variant",
    "OrganismTaxon": "organism",
    "CellLine": "cell line",
}
_TEXT_COLUMNS = ("pmid", "title", "abstract", "entity1", "type1", "entity2", "type2", "relation", "novel")
_ASKED = ("title", "abstract", "entity1", "kind1", "entity2", "kind2")
_LISTED = 5
_ADVICE = (
    "expected pairs (title, abstract, entity1, entity2, relation), BigBIO source documents (passages, entities, "
    "relations), or one column `data` with JSON or PubTator text. The authors' own files can be read as they are: put "
    "Test.PubTator and Train.PubTator of BIORED.zip into a folder biored/ as test.pubtator and train.pubtator, and "
    "name the folder above it: --metadata data=FOLDER"
)


def pairs(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring one row of any accepted layout into pair rows.

    Args:
        row: A pair row, a document in BigBIO's source layout (structs, or JSON in cells), or a row with a column
            `data` that holds either of them as JSON, or PubTator text.

    Returns:
        One row for each annotated relation: `pmid`, `title`, `abstract`, `entity1`, `type1`, `entity2`, `type2`,
        `relation`, `novel`. An entity that the document never mentions has an empty name.

    Raises:
        ValueError: If the row is in none of these layouts.
    """
    if {"entity1", "entity2", "relation"} <= set(row):
        return [{name: _as_text(row.get(name)) for name in _TEXT_COLUMNS}]
    if {"passages", "entities", "relations"} <= set(row):
        return _document_pairs(row)
    text = row.get("data")
    if isinstance(text, str):
        return [pair for part in _parsed(text) for pair in pairs(part)]
    raise ValueError(f"found the columns {', '.join(map(str, row)) or 'none'}; {_ADVICE}")


def relation_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make one question of every pair: which of the eight relations the abstract states.

    Args:
        splits: Pair rows. `test` is scored; without it the first split is, under the name `test`.
        options: None are used.

    Returns:
        Documents with the columns of `pairs`, `kind1` and `kind2` (the entities' types in words) and `answer` (the
        place in `RELATIONS`).
    """
    return _documents(splits, "relation", RELATIONS, UNKNOWN_RELATION)


def novelty_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make one question of every pair: whether its relation is a new finding (`answer` 0) or known before (1)."""
    return _documents(splits, "novel", NOVELTY, UNKNOWN_NOVELTY)


def _documents(
    splits: Mapping[str, Sequence[dict[str, Any]]], column: str, values: Sequence[str], unknown: str
) -> Prepared:
    scored = scored_split(splits)
    prepared = Prepared({})
    for name, rows in splits.items():
        made: list[dict[str, Any]] = []
        left_out: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if not row["entity1"].strip() or not row["entity2"].strip():
                left_out[UNKNOWN_ENTITY].append(f"document {row['pmid'] or '?'}")
            elif row[column] not in values:
                left_out[unknown].append(f"'{row[column]}' in document {row['pmid'] or '?'}")
            else:
                made.append(_document(row, values.index(row[column])))
        prepared.splits[SCORED if name == scored else name] = made
        if name == scored:
            prepared.left_out = Counter({reason: len(found) for reason, found in left_out.items()})
            prepared.warnings = [_report(reason, found) for reason, found in left_out.items()]
            prepared.warnings += _repeated(made, (*_ASKED, "relation_in_words") if column == "novel" else _ASKED)
    return prepared


def _document(row: Mapping[str, Any], answer: int) -> dict[str, Any]:
    return {
        **{name: row[name] for name in _TEXT_COLUMNS},
        "kind1": _ENTITY_TYPES.get(row["type1"], row["type1"]) or "entity",
        "kind2": _ENTITY_TYPES.get(row["type2"], row["type2"]) or "entity",
        "relation_in_words": row["relation"].replace("_", " ").lower(),
        "answer": answer,
    }


def _repeated(documents: Sequence[Mapping[str, Any]], asked: Sequence[str]) -> list[str]:
    """Say how many questions read the same, and what that costs where their answers differ.

    They are of different concepts with one name, such as the two viruses of "co-infected with HIV and hepatitis B". All
    are scored: the corpus counts each as a relation of its own, and the published numbers are of all of them.
    """
    answers: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    for document in documents:
        answers[tuple(document[name] for name in asked)][document["answer"]] += 1
    alike = [counts for counts in answers.values() if counts.total() > 1]
    if not alike:
        return []
    told = (
        f"biored: {sum(c.total() for c in alike)} of {len(documents)} questions read the same as another one, since a "
        f"mention may name several concepts; there are {len(answers)} different questions, each scored as often as the "
        "corpus has it"
    )
    best = sum(max(counts.values()) for counts in answers.values())
    if best < len(documents):
        told += f". Some have different answers, so that no model can score more than {best / len(documents):.1%}"
    return [told]


def _report(reason: str, found: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(found))
    more = f" and {len(distinct) - _LISTED} more" if len(distinct) > _LISTED else ""
    return f"biored: {len(found)} pairs are left out ({reason}): {', '.join(distinct[:_LISTED])}{more}"


def _document_pairs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    passages, entities, relations = (_list(document, name) for name in ("passages", "entities", "relations"))
    texts = {str(passage.get("type")): _joined(passage.get("text")) for passage in passages}
    name_of = _names(entities)
    common = {
        "pmid": _as_text(document.get("pmid", document.get("id"))),
        "title": texts.get("title", ""),
        "abstract": texts.get("abstract", ""),
    }
    out = []
    for relation in relations:
        (first, type1), (second, type2) = (name_of(_as_text(relation.get(f"concept_{i}"))) for i in (1, 2))
        out.append(
            {
                **common,
                **{"entity1": first, "type1": type1, "entity2": second, "type2": type2},
                "relation": _as_text(relation.get("type")),
                "novel": _as_text(relation.get("novel")),
            }
        )
    return out


def _names(entities: Sequence[Mapping[str, Any]]) -> Callable[[str], tuple[str, str]]:
    """Return a look-up from an identifier to the text and type of its first mention.

    A mention may name several concepts ("MMP-2/9", identifiers `4313,4318`). A concept has its name from the first
    mention of its own, and from such a shared one only if there is no other: two pairs would look the same otherwise.
    """
    own: dict[str, tuple[str, str]] = {}
    shared: dict[str, tuple[str, str]] = {}
    for entity in sorted(entities, key=_start):
        found = _joined(entity.get("text")), _as_text(entity.get("semantic_type_id"))
        identifiers = _as_text(entity.get("concept_id"))
        own.setdefault(identifiers, found)
        for identifier in identifiers.replace(";", ",").split(","):
            shared.setdefault(identifier.strip(), found)

    def name_of(identifier: str) -> tuple[str, str]:
        candidates = [identifier, *(part.strip() for part in identifier.replace(";", ",").split(","))]
        for names in (own, shared):
            for candidate in filter(None, candidates):
                if candidate in names:
                    return names[candidate]
        return "", ""

    return name_of


def _start(entity: Mapping[str, Any]) -> int:
    try:
        return int(entity["offsets"][0][0])
    except (KeyError, IndexError, TypeError, ValueError):
        return 0


def _list(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A column of structs; a CSV can hold it as JSON only."""
    value = document[name]
    if isinstance(value, str):
        value = _literal(value, f"column '{name}'")
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"column '{name}': expected a list of structs, got {type(value).__name__}; {_ADVICE}")
    return list(value)


def _parsed(text: str) -> list[Mapping[str, Any]]:
    """The rows that a cell of the column `data` holds."""
    if text.lstrip().startswith(("{", "[")):
        content = _literal(text, "column 'data'")
        parts = content if isinstance(content, list) else [content]
        if all(isinstance(part, Mapping) and "data" not in part for part in parts):
            return parts
        raise ValueError(f"column 'data': JSON of another kind; {_ADVICE}")
    documents, problems = parse_pubtator(text)
    if not documents or problems:
        found = f"column 'data', {problems[0]}" if documents else f"column 'data' holds {text[:40]!r}..."
        raise ValueError(f"{found}; {_ADVICE}")
    return list(documents)


def _literal(text: str, where: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise ValueError(f"{where}: not valid JSON; {_ADVICE}")


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "" if value is None or value != value else str(value)
