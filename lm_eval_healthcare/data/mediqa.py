"""MEDIQA 2019, question answering: the answer that experts ranked first is the reference.

Every question comes with answers that a retrieval system found. `SystemRank` is the system's order, `ReferenceRank` the
experts' order and `ReferenceScore` their judgement: 4 excellent, 3 correct but incomplete, 2 related, 1 incorrect.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from lm_eval_healthcare.data.files import DataError, read_utf8
from lm_eval_healthcare.data.prepared import Prepared, scored_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

GOOD = 3  # the challenge counts the scores 3 and 4 as correct
NO_EXPERT_ANSWER = "no_expert_answer"

_ANSWER_FIELDS = {
    "answer_id": "AID",
    "system_rank": "SystemRank",
    "reference_rank": "ReferenceRank",
    "reference_score": "ReferenceScore",
    "text": "AnswerText",
}
_DECLARATION = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
_NAMED_IN_WARNING = 5


def question(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring one question of any layout into the columns `question_id`, `question` and `answers`.

    Args:
        row: `QUESTION` as a struct (the hub) or as JSON text (a CSV cell), or its fields `QID`, `QuestionText` and
            `AnswerList` at the top. The answers may be a list of `{"Answer": {...}}`, a list of answers, or the dict of
            lists that some versions of Parquet readers make of it.

    Returns:
        One row; an answer has the fields `answer_id`, `system_rank`, `reference_rank`, `reference_score` and `text`.

    Raises:
        ValueError: If the question, its id or the list of answers is missing or of the wrong type.
    """
    inner = _parsed(row.get("QUESTION", row), "QUESTION")
    if not isinstance(inner, dict) and inner is not row:
        raise ValueError(f"column 'QUESTION': expected a struct, got {type(inner).__name__}")
    missing = [name for name in ("QID", "QuestionText", "AnswerList") if inner.get(name) is None]
    if missing:
        found = ", ".join(map(str, inner)) or "none"
        raise ValueError(f"{', '.join(missing)} missing or null in the question (found: {found})")
    text = inner["QuestionText"]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"QuestionText: expected text, got {text!r:.60}")
    answers = [_answer(answer) for answer in _answer_structs(_parsed(inner["AnswerList"], "AnswerList"))]
    return [{"question_id": str(inner["QID"]), "question": text, "answers": answers}]


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Give every question its reference answers.

    Args:
        splits: Rows as `question` shapes them.
        options: `references`: `expert` takes the answer that experts ranked first; `good` takes all answers that they
            scored 3 or 4 as equally good references, the one ranked first in front.

    Returns:
        Documents with `question_id`, `question`, `answer` (ranked first) and `references`. Questions without an answer
        of rank 1 are left out.
    """
    good = options.get("references", "expert") == "good"
    prepared, scored = Prepared({}), scored_split(splits)
    for split, rows in splits.items():
        made = [_document(row, good) for row in rows]
        prepared.splits[split] = [document for document in made if document is not None]
        if split == scored:
            without = [row["question_id"] for row, document in zip(rows, made, strict=True) if document is None]
            if without:
                prepared.left_out = Counter({NO_EXPERT_ANSWER: len(without)})
                prepared.warnings.append(_without_expert_answer(without))
    return prepared


def read_xml(path: Path) -> list[dict[str, Any]]:
    """Read an original file of the challenge into rows of the hub's shape.

    Raises:
        DataError: If the file is not UTF-8 or not XML, declares a document type or entities, or holds no question.
    """
    text = read_utf8(path)
    # Entities can make a small file unfold into gigabytes, or read other files; the challenge's files have none.
    declared = _DECLARATION.search(text)
    if declared:
        line = text.count("\n", 0, declared.start()) + 1
        raise DataError(
            f"{path}, line {line}: declares <!{declared[1].upper()}, which is not read; the challenge's files have none"
        )
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, column = error.position
        raise DataError(f"{path}, line {line}, column {column}: not readable as XML ({error})") from error
    rows = [{"QUESTION": _question_of(element)} for element in root.iter("Question")]
    if not rows:
        raise DataError(f"{path}: no <Question> in it; expected a file such as MEDIQA2019-Task3-QA-TestSet-wLabels.xml")
    return rows


def _question_of(element: ElementTree.Element) -> dict[str, Any]:
    answers = []
    for answer in element.iter("Answer"):
        fields: dict[str, Any] = dict(answer.attrib)
        fields.update({name: _text(answer.find(name)) for name in ("AnswerURL", "AnswerText")})
        answers.append({"Answer": fields})
    return {
        "QID": element.get("QID"),
        "QuestionText": _text(element.find("QuestionText")),
        "AnswerList": answers,
    }


def _text(element: ElementTree.Element | None) -> str | None:
    return None if element is None else "".join(element.itertext())


def _answer_structs(value: Any) -> list[Any]:
    """List the answers, whatever the nesting."""
    if isinstance(value, dict):
        inner = value.get("Answer", value)
        if isinstance(inner, list | tuple):
            return list(inner)
        if isinstance(inner, dict) and all(isinstance(column, list | tuple) for column in inner.values()):
            lengths = {len(column) for column in inner.values()}
            if len(lengths) > 1:
                raise ValueError(f"AnswerList: its columns have different lengths {sorted(lengths)}")
            return [dict(zip(inner, values, strict=True)) for values in zip(*inner.values(), strict=True)]
        return [inner]
    if not isinstance(value, list | tuple):
        raise ValueError(f"AnswerList: expected a list of answers, got {type(value).__name__}")
    return [item.get("Answer", item) if isinstance(item, dict) else item for item in value]


def _answer(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"AnswerList: expected answers as structs, got {type(value).__name__}")
    text = value.get("AnswerText")
    if text is not None and not isinstance(text, str):
        raise ValueError(f"AnswerText: expected text, got {type(text).__name__}")
    answer: dict[str, Any] = {ours: value.get(theirs) for ours, theirs in _ANSWER_FIELDS.items()}
    answer["text"] = text or ""
    answer["answer_id"] = str(answer["answer_id"] or "")
    for name in ("system_rank", "reference_rank", "reference_score"):
        answer[name] = _whole(answer[name], _ANSWER_FIELDS[name])
    return answer


def _whole(value: Any, name: str) -> int | None:
    """Return a rank or a score; None where the experts gave none."""
    if value is None or value == "" or (isinstance(value, float) and value != value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.5
    if isinstance(value, bool) or not number.is_integer():
        raise ValueError(f"{name}: expected a whole number, got {value!r:.60}")
    return int(number)


def _document(row: Mapping[str, Any], good: bool) -> dict[str, Any] | None:
    ranked = sorted(
        (answer for answer in row["answers"] if answer["text"].strip() and answer["reference_rank"] is not None),
        key=lambda answer: answer["reference_rank"],
    )
    if not ranked or ranked[0]["reference_rank"] != 1:
        return None
    first = ranked[0]["text"]
    several = [answer["text"] for answer in ranked if (answer["reference_score"] or 0) >= GOOD] if good else []
    return {
        "question_id": row["question_id"],
        "question": row["question"],
        "answer": first,
        "references": list(dict.fromkeys(several)) or [first],
    }


def _without_expert_answer(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED_IN_WARNING} more" if len(ids) > _NAMED_IN_WARNING else ""
    return (
        f"{len(ids)} questions are left out, since none of their answers has the experts' rank 1: "
        f"{', '.join(ids[:_NAMED_IN_WARNING])}{more}"
    )


def _parsed(value: Any, name: str) -> Any:
    """Parse a struct or list that a CSV can only hold as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"column '{name}': expected a struct, got text that is not JSON ({error})") from error
