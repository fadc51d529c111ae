"""Which columns of a document hold the question, the options, the answer, the category and the year.

Every benchmark names its columns in its own way. `LAYOUTS` lists the ways; the first one whose columns a document has
is taken, so that a user's own file in the columns of a known benchmark is understood too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.schema import MISSING, field_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BARE = re.compile(r"^\s*(?:\{\{\s*)?(?P<name>[\w.]+)(?:\s*\}\})?\s*$")


@dataclass(frozen=True)
class Question:
    """One document, whatever its columns are called.

    Attributes:
        text: What is asked: a question, a dialogue to summarise, a text to classify.
        options: The options of a multiple-choice question, in order.
        gold: The place of the right option, from 0; None if there are no options, or the row does not say.
        answers: The reference answers; of a multiple-choice question the text of the right option.
        category: The category, or None.
        year: The year, or None.
    """

    text: str
    options: tuple[str, ...] = ()
    gold: int | None = None
    answers: tuple[str, ...] = ()
    category: str | None = None
    year: str | None = None


@dataclass(frozen=True)
class Layout:
    """Names of columns; a dot reaches into a struct.

    Attributes:
        question: The column of the question.
        also: Further columns that are part of the question.
        options: The columns of the options, one an option.
        option_list: One column that holds all options, in place of `options`.
        labels: Options that are the same in every row, in place of both.
        gold: The column of the right option: its number, or one of `labels`.
        first: The number of the first option in that column.
        answer: The column of the reference answer, a text or a list of texts; for open-ended questions.
        category: The column of the category; left out where a document has none.
        year: The column of the year; left out where a document has none.
    """

    question: str
    options: tuple[str, ...] = ()
    option_list: str | None = None
    labels: tuple[str, ...] = ()
    gold: str | None = None
    first: int = 0
    answer: str | None = None
    category: str | None = None
    year: str | None = None
    also: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without which a document has another layout."""
        return tuple(
            name
            for name in (self.question, *self.also, *self.options, self.option_list, self.gold, self.answer)
            if name is not None
        )


_OPTIONS = ("option_a", "option_b", "option_c", "option_d", "option_e")
_DECISIONS = ("yes", "no", "maybe")
LAYOUTS: tuple[Layout, ...] = (
    Layout("question", options=("op1", "op2", "op3", "op4"), gold="cop", first=1, category="category", year="year"),
    Layout("question", options=("opa", "opb", "opc", "opd"), gold="cop", category="subject_name"),
    Layout("sent1", options=("ending0", "ending1", "ending2", "ending3"), gold="label"),
    Layout("question", option_list="choices", gold="answer", category="subject"),
    Layout("question", labels=_DECISIONS, gold="final_decision", year="year"),
    Layout("QUESTION", labels=_DECISIONS, gold="final_decision", year="YEAR"),
    Layout("question", answer="answer", category="category", year="year"),
    Layout("Prompt", answer="Completion"),
    Layout("Question", answer="Free_form_answer", category="source"),
    Layout("dialogue", answer="section_text", category="section_header"),
    Layout("dialogue", answer="note", category="dataset"),
    Layout("title", answer="relation", category="relation", also=("entity1", "entity2", "abstract")),
    Layout("complaint", options=_OPTIONS[:4], gold="answer"),
    Layout("medical_abstract", options=_OPTIONS, gold="answer", category="condition"),
    Layout("transcription", answer="specialties"),
    Layout("extractive_notes_summ", answer="target_text"),
    Layout("CHQ", answer="Summary"),
    Layout("src", answer="tgt"),
)


def layout_of(
    document: Mapping[str, Any],
    task: str,
    templates: Mapping[str, Any] | None = None,
    chosen: Mapping[str, str] | None = None,
) -> Layout:
    """Find out which columns of a document hold what.

    Args:
        document: Any document of the task.
        task: The task's name, for messages.
        templates: The task's `doc_to_text` and `doc_to_target`; used where they are nothing but a column's name.
        chosen: Columns that the user names for `question`, `answer`, `category` and `year`; they win.

    Raises:
        DataError: If no layout fits, or the document lacks a column that the user names.
    """
    given: dict[str, Any] = {key: name for key, name in (chosen or {}).items() if name}
    for name in given.values():
        if _get(document, name) is MISSING:
            raise DataError(f"{task}: there is no column '{name}'; the documents have {', '.join(document)}")
    found = _known(document) or _from_templates(document, templates or {})
    if found is None and "question" in given:
        found = Layout(given["question"])
    if found is None:
        raise DataError(
            f"{task}: it is not known which columns hold the question and the answer; the documents have "
            f"{', '.join(map(str, document))}. Name them with --question COLUMN and --answer COLUMN"
        )
    return replace(found, **given)


def questions(documents: Sequence[Mapping[str, Any]], layout: Layout) -> list[Question]:
    """Read every document in a layout; whatever is null becomes an empty text, or None where that is allowed."""
    return [_question(document, layout) for document in documents]


def option_label(layout: Layout, place: int) -> str:
    """Return what the option at a place is called: its fixed text, or a letter."""
    if layout.labels:
        return layout.labels[place]
    return chr(ord("A") + place) if place < 26 else str(place + 1)


def _known(document: Mapping[str, Any]) -> Layout | None:
    for layout in LAYOUTS:
        if all(_get(document, name) is not MISSING for name in layout.required):
            return layout
    return None


def _from_templates(document: Mapping[str, Any], templates: Mapping[str, Any]) -> Layout | None:
    names = {}
    for key in ("doc_to_text", "doc_to_target"):
        match = _BARE.match(str(templates.get(key)))
        if match and _get(document, match["name"]) is not MISSING:
            names[key] = match["name"]
    if "doc_to_text" not in names:
        return None
    return Layout(names["doc_to_text"], answer=names.get("doc_to_target"), category="category", year="year")


def _question(document: Mapping[str, Any], layout: Layout) -> Question:
    options = layout.labels or tuple(_text(_get(document, name)) for name in layout.options)
    if layout.option_list:
        options = _texts(_get(document, layout.option_list))
    gold = _gold(_get(document, layout.gold), layout, len(options)) if layout.gold else None
    answers = _texts(_get(document, layout.answer)) if layout.answer else ()
    if gold is not None:
        answers = (options[gold],)
    category, year = (_text(_get(document, name)).strip() if name else "" for name in (layout.category, layout.year))
    text = "\n".join(_text(_get(document, name)) for name in (layout.question, *layout.also))
    return Question(text, options, gold, answers, category or None, year or None)


def _gold(value: Any, layout: Layout, n_options: int) -> int | None:
    if layout.labels:
        return layout.labels.index(value) if value in layout.labels else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    place = value - layout.first
    return place if 0 <= place < n_options else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in value) if isinstance(value, list | tuple) else (_text(value),)


def _text(value: Any) -> str:
    return "" if value is None or value is MISSING or value != value else str(value)


def _get(document: Mapping[str, Any], name: str) -> Any:
    return document[name] if name in document else field_at(document, name)
