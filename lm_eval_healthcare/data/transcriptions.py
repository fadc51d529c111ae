"""Medical transcriptions: the specialty of a dictated note.

The data set lists a note once for each specialty that it stands under, most of them two or more times. Here a note is
one document, and any of its specialties is right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_healthcare.data.prepared import SCORED, Prepared, scored_split

NULL_TRANSCRIPTION = "null_transcription"
UNKNOWN_SPECIALTY = "unknown_specialty"
# The 40 names that the data set uses, in alphabetical order.
SPECIALTIES = (
    "Allergy / Immunology",
    "Autopsy",
    "Bariatrics",
    "Cardiovascular / Pulmonary",
    "Chiropractic",
    "Consult - History and Phy.",
    "Cosmetic / Plastic Surgery",
    "Dentistry",
    "Dermatology",
    "Diets and Nutritions",
    "Discharge Summary",
    "ENT - Otolaryngology",
    "Emergency Room Reports",
    "Endocrinology",
    "Gastroenterology",
    "General Medicine",
    "Hematology - Oncology",
    "Hospice - Palliative Care",
    "IME-QME-Work Comp etc.",
    "Lab Medicine - Pathology",
    "Letters",
    "Nephrology",
    "Neurology",
    "Neurosurgery",
    "Obstetrics / Gynecology",
    "Office Notes",
    "Ophthalmology",
    "Orthopedic",
    "Pain Management",
    "Pediatrics - Neonatal",
    "Physical Medicine - Rehab",
    "Podiatry",
    "Psychiatry / Psychology",
    "Radiology",
    "Rheumatology",
    "SOAP / Chart / Progress Notes",
    "Sleep Medicine",
    "Speech - Language",
    "Surgery",
    "Urology",
)
_PLACES = {name: place for place, name in enumerate(SPECIALTIES)}
_LISTED = 5


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make one question of every distinct note.

    Args:
        splits: Rows with `transcription` and `medical_specialty`. `test` is scored; without it the first split is,
            under the name `test`.
        options: None are used.

    Returns:
        Documents with `transcription`, `specialties` (names, in the order of `SPECIALTIES`), `targets` (their places,
        all of which are right), `choices` (the 40 names) and `specialty_count` (`1`, `2` or `3 or more`).
        `left_out` counts rows without a text, and rows whose specialty is not one of the 40.
    """
    scored = scored_split(splits)
    prepared = Prepared({})
    for name, rows in splits.items():
        notes, left_out, warnings = _notes(rows)
        prepared.splits[SCORED if name == scored else name] = notes
        if name == scored:
            prepared.left_out, prepared.warnings = left_out, warnings
    return prepared


def _notes(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Counter[str], list[str]]:
    texts: dict[str, str] = {}
    places: dict[str, set[int]] = defaultdict(set)
    left_out: Counter[str] = Counter()
    unknown: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows, start=1):
        text, specialty = row["transcription"], " ".join(row["medical_specialty"].split())
        key = " ".join(text.split())
        if not key:
            left_out[NULL_TRANSCRIPTION] += 1
        elif specialty not in _PLACES:
            left_out[UNKNOWN_SPECIALTY] += 1
            unknown[specialty].append(number)
        else:
            # Of texts that differ in white space alone, one is shown, whatever the order of rows.
            texts[key] = min(text, texts.get(key, text))
            places[key].add(_PLACES[specialty])
    return [_document(text, sorted(places[key])) for key, text in texts.items()], left_out, _report(unknown)


def _document(text: str, targets: list[int]) -> dict[str, Any]:
    return {
        "transcription": text,
        "specialties": [SPECIALTIES[place] for place in targets],
        "targets": targets,
        "choices": list(SPECIALTIES),
        "specialty_count": str(len(targets)) if len(targets) < 3 else "3 or more",
    }


def _report(unknown: Mapping[str, Sequence[int]]) -> list[str]:
    if not unknown:
        return []
    told = [f"'{name}' (row {', '.join(map(str, found[:_LISTED]))})" for name, found in sorted(unknown.items())]
    more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    return [
        f"med_transcriptions: {sum(map(len, unknown.values()))} rows have a specialty that is not one of the "
        f"{len(SPECIALTIES)} and are left out: {', '.join(told[:_LISTED])}{more}"
    ]
