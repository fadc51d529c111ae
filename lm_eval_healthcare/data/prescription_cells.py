"""Reading one prescription: a cell that holds a Python literal whose shape varies from row to row.

The cells look as if a model had read photographed prescriptions: names are misspelt, fields are missing or say that
they are, and a name may be a clinic's address. `read_prescription` finds the complaint and the medicines wherever the
known shapes keep them, and says why a cell gives none.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MALFORMED_ROW = "malformed_row"
NO_COMPLAINT = "no_complaint"
NO_MEDICINE = "no_medicine"
INDIC_SCRIPT = "indic_script"

_LONGEST_CELL = 100_000
_LONGEST_NAME = 80
_LONGEST_DETAIL = 120
_FORMS = {
    "tablet": ("tablets", "tablet", "tabs", "tab", "teb", "tb", "t"),
    "capsule": ("capsules", "capsule", "caps", "cap", "c"),
    "liquid": ("syrup", "syp", "syr", "syf", "suspension", "susp", "liquid", "solution", "sol"),
    "injection": ("injections", "injection", "inj", "i"),
    "drops": ("drops", "drop"),
    "skin": ("cream", "ointment", "oint", "gel", "lotion"),
    "inhaled": ("inhaler", "inhalation", "inh", "rotacaps", "rotacap", "respules", "spray"),
    "powder": ("sachets", "sachet", "powder", "granules"),
}
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words}
_UNITS = "mg|mcg|ug|µg|gm|gms|g|kg|ml|l|iu|units?|k|lac|lakh|m|mm|cc|%|percent|w/w|w/v"
_DOSE = re.compile(rf"\d+(?:[.,/x×+\-]\d+)*\s*(?:(?:{_UNITS})(?![^\W\d_]))?(?:\s*/\s*\d*\s*(?:{_UNITS})(?![^\W\d_]))?")
_LETTERS = re.compile(r"[^\W\d_]+")
# Devanagari to Sinhala: the nine blocks of Brahmic scripts of South Asia.
_INDIC = re.compile("[\u0900-\u0dff]")
_SAYS_NOTHING = re.compile(
    r"(?:n ?a|nil|none|null|nan|no|unknown|unclear|illegible|unreadable|missing|blank|as directed by physician"
    r"|(?:medicine|medication|drug) ?name|name of (?:the )?(?:medicine|drug)|course duration|medicine frequency"
    r"|not (?:specified|provided|available|mentioned|applicable|legible|readable|clear|given|known|stated|found)\b.*)"
)
_PLACEHOLDER = re.compile(r"\s*[\[<{].*[\]>}]\s*", re.DOTALL)
_TITLES = "dr|prof|mr|mrs|ms|smt|shri|sri"
_PERSONAL = re.compile(
    rf"(?:^|[\s,;(:])(?:{_TITLES})\.\s*[^\W\d_]"  # a title with its full stop before a name
    rf"|^\s*(?:{_TITLES}|doctor|professor|miss)\s+[^\W\d_]"  # or at the start; `Rabeprazole DR` is no person
    r"|\bm\.?b\.?b\.?s\b|\bm\.d\b\.?|\breg(?:istration|d)?\.? ?no\b"
    r"|\b(?:clinic|hospital|road|floor|street|nagar|phone|mobile|timings?)\b"
    r"|\S@\S+\.\S|(?:\d[\s\-]?){7,}",
    re.IGNORECASE,
)
_NO_MEDICINE_NAME = re.compile(
    r"\b(?:usg|x-?ray|mri|ct scan|ecg|follow[ -]?up|review after|surgery|advice)\b", re.IGNORECASE
)


class UnusableCellError(ValueError):
    """A cell gives no question; `reason` is one of the constants of this module."""

    def __init__(self, reason: str, detail: str) -> None:
        """Keep the reason and say what was found."""
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Medicine:
    """A prescribed medicine: its name as written, and what is said of frequency, duration or dosage."""

    name: str
    details: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The medicine as one option of a question."""
        return ", ".join((self.name, *self.details))

    @property
    def identity(self) -> str:
        """What the name says of the substance or brand, see `identity`."""
        return identity(self.name)


@dataclass(frozen=True)
class Prescription:
    """What a patient complains of, and what was prescribed; never empty."""

    complaint: str
    medicines: tuple[Medicine, ...]


def read_prescription(cell: str) -> Prescription:
    """Read one cell of the column `results`.

    Raises:
        UnusableCellError: If it cannot be read, or lacks a complaint or a medicine that can be an option.
    """
    content = _literal(cell)
    complaint = _complaint(content)
    if not complaint:
        raise UnusableCellError(NO_COMPLAINT, "no complaint or diagnosis")
    medicines = _medicines(content)
    if _INDIC.search(complaint) or any(_INDIC.search(medicine.text) for medicine in medicines):
        raise UnusableCellError(INDIC_SCRIPT, "written in an Indic script")
    usable = tuple(dict.fromkeys(medicine for medicine in medicines if _is_option(medicine)))
    if not usable:
        raise UnusableCellError(NO_MEDICINE, "no medicine that can be an option")
    return Prescription(complaint, usable)


@functools.lru_cache(maxsize=65536)
def identity(name: str) -> str:
    """Return a medicine's name without case, spaces, punctuation, form and dose: `Tab. PAN-D 40mg` gives `pand`."""
    plain = _DOSE.sub(" ", unicodedata.normalize("NFKC", name).casefold())
    words = _LETTERS.findall(plain)
    # One-letter abbreviations of a form stand in front only: the D of `PAN D` is part of the name.
    return "".join(word for place, word in enumerate(words) if word not in _FORM_OF or (place > 0 and len(word) == 1))


def form(name: str) -> str:
    """Return the form that a name states, such as `tablet`, or an empty text."""
    words = _LETTERS.findall(_DOSE.sub(" ", name.casefold()))
    return next((_FORM_OF[w] for place, w in enumerate(words) if w in _FORM_OF and (place == 0 or len(w) > 1)), "")


def same_medicine(first: str, second: str) -> bool:
    """Say whether two identities may be the same medicine: equal, one within the other, or spelt nearly alike.

    Spellings are compared by their pairs of neighbouring letters (Dice coefficient of at least 0.75), since many names
    are misread. Two medicines that are taken for one are only never offered side by side.
    """
    short, long = sorted((first, second), key=len)
    if short == long or (len(short) >= 4 and short in long):
        return True
    pairs, others = _pairs(first), _pairs(second)
    return bool(pairs and others) and 2 * len(pairs & others) >= 0.75 * (len(pairs) + len(others))


@functools.lru_cache(maxsize=65536)
def _pairs(text: str) -> frozenset[str]:
    return frozenset(text[place : place + 2] for place in range(len(text) - 1))


def _literal(cell: str) -> Mapping[str, Any]:
    if len(cell) > _LONGEST_CELL:
        raise UnusableCellError(MALFORMED_ROW, f"a cell of {len(cell):,} characters; the limit is {_LONGEST_CELL:,}")
    content: Any = None
    for parse in (ast.literal_eval, json.loads):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a backslash that escapes nothing
                content = parse(cell.strip())
            break
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    if not isinstance(content, Mapping):
        raise UnusableCellError(MALFORMED_ROW, "not a Python literal of a dict")
    try:
        return _with_plain_keys(content)
    except RecursionError as error:
        raise UnusableCellError(MALFORMED_ROW, "nested too deeply") from error


def _with_plain_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            re.sub(r"[^a-z]+", "_", str(key).lower()).strip("_"): _with_plain_keys(item) for key, item in value.items()
        }
    return [_with_plain_keys(item) for item in value] if isinstance(value, list | tuple) else value


def _complaint(content: Mapping[str, Any]) -> str:
    procedure, details = _mapping(content.get("procedure")), _mapping(content.get("prescription_details"))
    both = _text(procedure.get("chief_complaints")), _text(procedure.get("diagnosis"))
    candidates = (
        _text(procedure.get("chief_complaints_diagnosis")),
        "; diagnosis: ".join(both) if all(both) else both[0] or both[1],
        _text(details.get("disease_diagnosis")),
        _text(content.get("symptoms_complaints")),
    )
    return next((text for text in candidates if text), "")


def _medicines(content: Mapping[str, Any]) -> list[Medicine]:
    entries = content.get("medicine_details") or content.get("medicines_prescribed") or []
    medicines = []
    for entry in entries if isinstance(entries, list) else [entries]:
        fields = entry if isinstance(entry, Mapping) else {"name": entry}
        name = _text(fields.get("medicine_name")) or _text(fields.get("name"))
        often = next((t for key in ("medicine_frequency", "frequency") if (t := _text(fields.get(key)))), "")
        dosage = next((t for key in ("medicine_dosage", "dosage") if (t := _text(fields.get(key)))), "")
        duration = next((t for key in ("course_duration", "duration") if (t := _text(fields.get(key)))), "")
        if name:
            medicines.append(Medicine(name, tuple(t.lower() for t in (often or dosage, duration) if t)))
    return medicines


def _is_option(medicine: Medicine) -> bool:
    name = medicine.name
    return (
        len(identity(name)) >= 3
        and len(name) <= _LONGEST_NAME
        and all(len(detail) <= _LONGEST_DETAIL for detail in medicine.details)
        and not _PERSONAL.search(medicine.text)
        and not _NO_MEDICINE_NAME.search(name)
    )


def _text(value: Any) -> str:
    """One line of text; empty if the value says nothing."""
    if isinstance(value, list | tuple):
        return ", ".join(text for item in value if (text := _text(item)))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = " ".join(str(value).replace("\x00", "").split()).strip(" ,;")
    bare = re.sub(r"[^\w]+", " ", text).strip().lower()
    nothing = not bare or _SAYS_NOTHING.fullmatch(bare) or _PLACEHOLDER.fullmatch(text)
    return "" if nothing or (len(bare) == 1 and not bare.isdigit()) else text


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
