"""MIMIC-III: the hospital course from a stay's notes, and the impression of a radiology report from its findings.

Documents hold only the text that is asked about and its reference: no ids of patients or stays, and no further notes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.prepared import Prepared, scored_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_NOTES, NO_HOSPITAL_COURSE = "no_notes", "no_hospital_course"
NO_FINDINGS, NO_IMPRESSION = "no_findings", "no_impression"
FINDINGS, IMPRESSION = "findings", "impression"

_LIKE_IMPRESSION = ("conclusion", "conclusions", "interpretation")
_OTHER_HEADINGS = (
    "addendum", "allergies", "assessment", "assessment and plan", "chief complaint", "clinical history",
    "clinical indication", "clinical information", "comparison", "comparisons", "comparison study", "conclusion",
    "conclusions", "contrast", "discharge condition", "discharge diagnosis", "discharge disposition",
    "discharge instructions", "discharge medications", "electronically signed by", "exam", "examination",
    "family history", "final report", "history", "history of present illness", "hospital course", "indication",
    "indications", "interpretation", "medical condition", "medications", "medications on admission", "notification",
    "past medical history", "physical exam", "physical examination", "plan", "procedure", "procedures",
    "provisional findings impression", "reason", "reason for exam", "reason for examination",
    "reason for this examination", "recommendation", "recommendations", "review of systems", "social history",
    "technique", "underlying medical condition", "wet read",
)  # fmt: skip


def _pattern(names: Sequence[str]) -> str:
    return "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(names, key=len, reverse=True))


# A heading stands at the beginning of a line or after a wide gap (reports are often kept in one line), or it is in
# capitals, or it begins with one after a sentence; a colon follows, or the end of the line.
_HEADING = re.compile(
    r"(?P<lead>(?:^|\n)[ \t]*|(?<![ \t\n])[ \t]+)(?=[a-z])"
    rf"(?P<name>findings?|impressions?|{_pattern(_OTHER_HEADINGS)})"
    r"(?:[ \t]*\([^()\n]{0,20}\))?[ \t]*(?P<end>:|(?=\n|$))",
    re.IGNORECASE,
)
_RULE = re.compile(r"[_=]{5,}|-{8,}")
# The title of the next note, such as "NURSING NOTE.": a sentence in capitals where the section is not in capitals.
_TITLE = re.compile(r"(?<=[.!?)\]])\s+(?=[A-Z][A-Z ,/&\-]{5,60}\.(?:\s|$))")


def hospital_course_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Ask for the hospital course (`target_text`) from the extracted notes (`extractive_notes_summ`)."""
    prepared, scored = Prepared({}), scored_split(splits)
    for split, rows in splits.items():
        prepared.splits[split] = []
        for row in rows:
            notes, course = row["extractive_notes_summ"].strip(), row["target_text"].strip()
            if notes and course:
                prepared.splits[split].append({"extractive_notes_summ": notes, "target_text": course})
            elif split == scored:
                prepared.left_out[NO_HOSPITAL_COURSE if notes else NO_NOTES] += 1
    return prepared


def repsum_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Ask for the impression of the first report in the extracted notes that has findings and an impression.

    Returns:
        Documents with `findings` and `impression`; rows without one of them are left out, counted by what is missing.
    """
    prepared, scored = Prepared({}), scored_split(splits)
    for split, rows in splits.items():
        prepared.splits[split] = []
        for row in rows:
            findings, impression = report(row["extractive_notes_summ"])
            if findings and impression:
                prepared.splits[split].append({"findings": findings, "impression": impression})
            elif split == scored:
                prepared.left_out[NO_IMPRESSION if findings else NO_FINDINGS] += 1
    return prepared


def report(text: str) -> tuple[str, str]:
    """Return findings and impression of a text, each blank if it is not there; headings are not part of them.

    An impression belongs to the findings before it; where findings follow without one, the next report is looked at.
    Only if no impression follows any findings is one that stands before them taken. A text without any impression has
    its conclusion or interpretation in its place.
    """
    parts = sections(text)
    if not any(name == IMPRESSION and content for name, content in parts):
        parts = [(IMPRESSION if name in _LIKE_IMPRESSION else name, content) for name, content in parts]
    findings = ""
    for name, content in parts:
        if name == FINDINGS and content:
            findings = content
        elif name == IMPRESSION and content and findings:
            return findings, content
    first = next((content for name, content in parts if name == FINDINGS and content), "")
    return first, next((content for name, content in parts if name == IMPRESSION and content), "")


def sections(text: str) -> list[tuple[str, str]]:
    """Divide notes by their headings.

    Returns:
        Name (`findings`, `impression`, or the heading in lower case) and content of every section. A section ends at
        the next heading, at a drawn rule or at the title of another note, not at a gap.
    """
    found = [match for match in _HEADING.finditer(text) if _is_heading(match)]
    if not found:
        return []
    ends = [match.start() for match in found[1:]] + [len(text)]
    out = []
    for match, end in zip(found, ends, strict=True):
        name = " ".join(match["name"].lower().split())
        name = name.rstrip("s") + ("s" if name.startswith("finding") else "") if _asked(name) else name
        out.append((name, _without_next_note(text[match.end() : end])))
    return out


def _without_next_note(text: str) -> str:
    text = _RULE.split(text, maxsplit=1)[0]
    small = re.search("[a-z]", text)
    title = _TITLE.search(text, small.end()) if small else None
    return (text[: title.start()] if title else text).strip()


def _asked(name: str) -> bool:
    return name.startswith(("finding", "impression"))


def _is_heading(match: re.Match[str]) -> bool:
    """In the middle of a sentence only capitals with a colon are a heading; at a line's end a colon is not needed.

    Where a sentence ends, a capital and a colon are enough.
    """
    begins_line = match.start() == 0 or match["lead"].startswith("\n")
    if match["end"] == ":":
        after_sentence = match.string[match.start() - 1] in ".!?" and match["name"][0].isupper()
        return begins_line or len(match["lead"]) > 1 or match["name"].isupper() or after_sentence
    return begins_line and match["name"].isupper()
