"""ACI-Bench: a whole clinical note from the transcript of a visit, or one of its four divisions.

The divisions are the corpus's own: subjective, objective exam, objective results, assessment and plan. They are found
by the headings that notes have; each heading belongs to one division, and a division is everything under its headings.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.prepared import SCORED, Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TESTS = ("test1", "test2", "test3")
CORPORA = ("aci", "virtassist", "virtscribe")
OWN = "own"  # rows of a plain `test` file, of which nothing is known
NO_HEADING = "note_without_headings"

SUBJECTIVE, EXAM, RESULTS, PLAN = "subjective", "objective_exam", "objective_results", "assessment_and_plan"
DIVISIONS = (SUBJECTIVE, EXAM, RESULTS, PLAN)
WORDING = {
    "full": "Clinical note",
    SUBJECTIVE: "Subjective part of the note (complaint, history, medications, review of systems)",
    EXAM: "Objective part of the note: vital signs and physical examination",
    RESULTS: "Objective part of the note: results of tests and imaging",
    PLAN: "Assessment and plan of the note",
}
HEADINGS = {
    SUBJECTIVE: (
        "chief complaint", "cc", "reason for visit", "history of present illness", "hpi", "present illness", "history",
        "interval history", "subjective", "past history", "past medical history", "medical history", "pmh",
        "past surgical history", "surgical history", "psh", "family history", "past family history", "social history",
        "birth history", "obstetric history", "medications", "current medications", "home medications", "allergies",
        "review of systems", "review of symptoms", "ros",
    ),
    EXAM: (
        "physical exam", "physical examination", "exam", "examination", "objective", "vitals", "vital signs",
        "vitals reviewed",
    ),
    RESULTS: (
        "results", "result", "labs", "laboratory", "laboratory results", "lab results", "imaging", "diagnostic results",
        "diagnostics", "studies", "test results", "procedure", "procedures",
    ),
    PLAN: (
        "assessment and plan", "assessment", "plan", "assessment & plan", "assessment/plan", "a&p", "a/p", "impression",
        "impression and plan", "instructions", "patient instructions", "orders", "recommendations", "follow up",
        "follow-up", "diagnosis", "diagnoses",
    ),
}  # fmt: skip
_DIVISION_OF = {heading: division for division, headings in HEADINGS.items() for heading in headings}
_HEADING_LINE = re.compile(r"^[ \t]*(?P<name>[A-Za-z][A-Za-z /&\-]{0,40}?)[ \t]*(?P<colon>:?)[ \t]*$")
_HEADING_WITH_TEXT = re.compile(r"^[ \t]*(?P<name>[A-Z][A-Z /&\-]{1,40}?)[ \t]*:[ \t]*\S")


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Merge the three test sets, and divide the notes if asked to.

    Args:
        splits: Rows with `dialogue`, `note` and perhaps `dataset` and `encounter_id`, by raw split: `test1` of all
            corpora, or `aci_test1` of one, as the hub has them.
        options: `note`: `full` for the whole note, `sections` for one document a division.

    Returns:
        Documents with `encounter_id`, `dialogue`, `note` (the reference: the note or the division), `request` (what is
        asked for), `subset` (the test set), and `dataset` (`aci`, `virtassist` or `virtscribe`) if every row has it.
        Under `sections` also `section`. Examples from `train` and `valid` are made in the same way.

    Raises:
        DataError: If a test set is there as a whole and by corpus too.
    """
    sections = options.get("note", "full") == "sections"
    prepared = Prepared({SCORED: []})
    named = {name: _corpus_and_split(name) for name in splits}
    with_dataset = all(named[name][0] or row.get("dataset") for name, rows in splits.items() for row in rows)
    _refuse_twice(named)
    for name, rows in splits.items():
        corpus, split = named[name]
        scored = split in TESTS or split == SCORED
        made: list[dict[str, Any]] = []
        for row in rows:
            parts = divide(row["note"]) if sections else {"full": row["note"]}
            if not parts and scored:
                prepared.left_out[NO_HEADING] += 1
            dataset = str(row.get("dataset") or corpus) if with_dataset else ""
            made += [_document(row, split, part, text, dataset, sections) for part, text in parts.items()]
        if scored:
            prepared.splits[SCORED] += made
        else:
            prepared.splits.setdefault(split, []).extend(made)
    return prepared


def divide(note: str) -> dict[str, str]:
    """Divide a note by its headings.

    Returns:
        The text of every division that the note has, headings included, in the order of `DIVISIONS`. What stands before
        the first heading belongs to the division of that heading. Empty if there is no heading that is known.
    """
    parts: dict[str, list[str]] = {division: [] for division in DIVISIONS}
    here: str | None = None
    before: list[str] = []
    for line in note.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        division = division_of(line)
        # Within a plan `Imaging:` is about what will be done; only capitals end it.
        if division is not None and (here != PLAN or line.isupper()):
            if here is None:
                parts[division] += before
            here = division
        (before if here is None else parts[here]).append(line)
    if here is None:
        return {}
    texts = {division: "\n".join(lines).strip() for division, lines in parts.items()}
    return {division: text for division, text in texts.items() if text}


def division_of(line: str) -> str | None:
    """Return the division that a line begins, None if it is no heading.

    A heading stands on a line of its own, in capitals or with a colon, or in capitals with a colon before its text.
    """
    match = _HEADING_LINE.match(line)
    if match and not (match["colon"] or match["name"].isupper()):
        return None
    match = match or _HEADING_WITH_TEXT.match(line)
    return _DIVISION_OF.get(" ".join(match["name"].lower().split())) if match else None


def counts(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Return how many notes have each division."""
    return Counter(division for row in rows for division in divide(row["note"]))


def _corpus_and_split(name: str) -> tuple[str, str]:
    """Take a raw split's name apart: `aci_test1` is `test1` of the corpus `aci`; without a corpus it is blank."""
    corpus, _, split = name.partition("_")
    return (corpus, split) if corpus in CORPORA and split else ("", name)


def _refuse_twice(named: Mapping[str, tuple[str, str]]) -> None:
    twice = {name: split for name, (corpus, split) in named.items() if corpus and split in named}
    if twice:
        whole = ", ".join(dict.fromkeys(twice.values()))
        raise DataError(
            f"aci_bench: the rows of {', '.join(twice)} are also in {whole}; keep the files of all corpora together or "
            "those of each, else rows are scored twice"
        )


def _document(row: Mapping[str, Any], split: str, part: str, text: str, dataset: str, sections: bool) -> dict[str, Any]:
    return {
        "encounter_id": str(row.get("encounter_id") or ""),
        "dialogue": row["dialogue"],
        "note": text,
        "request": WORDING[part],
        "subset": OWN if split == SCORED else split,
        **({"dataset": dataset} if dataset else {}),
        **({"section": part} if sections else {}),
    }
