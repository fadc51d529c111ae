"""Rows as the harness wants them, keys of their content, and the examples that may be shown to a model."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import datasets

from lm_eval_healthcare.data.holdout import question_columns, question_key
from lm_eval_healthcare.data.schema import check_row, without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.data.catalogue import TaskFacts

logger = logging.getLogger(__name__)


def as_dataset(rows: datasets.Dataset | Sequence[Mapping[str, Any]], facts: TaskFacts) -> datasets.Dataset:
    """Return rows as a `datasets.Dataset`; columns that mix types, which it cannot hold, are left out."""
    if isinstance(rows, datasets.Dataset):
        return rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return datasets.Dataset.from_list([{name: row.get(name) for name in names} for row in rows])
    except (TypeError, ValueError, OverflowError):  # pyarrow's ArrowInvalid is a ValueError
        pass
    columns, mixed = {}, []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            datasets.Dataset.from_dict({name: values})
            columns[name] = values
        except (TypeError, ValueError, OverflowError):
            mixed.append(name)
    logger.warning("%s: the columns %s hold mixed types; they are not kept", facts.name, ", ".join(mixed))
    return datasets.Dataset.from_dict(columns)


def document_key(doc: Mapping[str, Any]) -> str:
    """Return a key of a row's content."""
    text = json.dumps(doc, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_key(doc: Mapping[str, Any], results: Sequence[Any]) -> str:
    """Return a key of a row and the model's answers to it: equal keys have equal scores."""
    text = document_key(doc) + json.dumps(list(results), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def by_document(instances: Iterable[Instance] | None, filter_name: str) -> list[tuple[dict[str, Any], list[Any]]]:
    """Return every document with its answers after one filter, in document order."""
    grouped: dict[int, list[Instance]] = {}
    for instance in instances or []:
        grouped.setdefault(instance.doc_id, []).append(instance)
    ordered = [sorted(group, key=lambda instance: instance.idx) for group in grouped.values()]
    return [(group[0].doc, [instance.filtered_resps[filter_name] for instance in group]) for group in ordered]


def usable_examples(
    candidates: datasets.Dataset,
    scored: datasets.Dataset,
    facts: TaskFacts,
    asked: Callable[[dict[str, Any]], Any],
) -> list[dict[str, Any]]:
    """Return the rows that may be shown as examples: checked, and none that is scored.

    Args:
        candidates: The split from which examples are taken.
        scored: The split that is scored.
        facts: The declared columns, and which of them make up the question.
        asked: Gives the text that is asked about a document, for tasks whose question a function makes.
    """
    columns = [name.partition(".")[0] for name in question_columns(facts)]
    if columns and {*columns} <= {*candidates.column_names} & {*scored.column_names}:
        keys, taken = _questions(candidates, columns, facts), set(_questions(scored, columns, facts))
    else:
        keys, taken = [repr(asked(row)) for row in candidates], {repr(asked(row)) for row in scored}
    places = [place for place, key in enumerate(keys) if key not in taken]
    if len(places) < len(keys):
        logger.warning("%s: %d examples are also scored rows; they are not used", facts.name, len(keys) - len(places))
    rows = candidates.select(places) if len(places) < len(keys) else candidates
    if facts.prepare or facts.shape:  # checked when they were read
        return list(rows)
    examples, faulty = [], 0
    for row in rows:
        row, faults = check_row(without_lone_surrogates(row), facts.columns)
        faulty += bool(faults)
        if not faults:
            examples.append(row)
    if faulty:
        logger.warning("%s: %d examples lack what a question needs; they are not used", facts.name, faulty)
    return examples


def _questions(dataset: datasets.Dataset, columns: Sequence[str], facts: TaskFacts) -> list[str]:
    names = list(dict.fromkeys(columns))
    values = zip(*(dataset[:][name] for name in names), strict=True)
    return [question_key(dict(zip(names, row, strict=True)), facts) for row in values]
