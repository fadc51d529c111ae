"""Prescriptions: which of four medicines was prescribed for a complaint.

Gold, options and their order are drawn once per row, from a generator seeded by the row's content: they do not depend
on the order of rows, on calls or on the process. Distractors are medicines of other rows. A distractor is never the
gold medicine, another medicine of the row, or one that may be the same as one of these under another spelling; where
the data allow it, it is none that was prescribed anywhere for a complaint that shares a word with the row's.

* easy: three other medicines as they were prescribed.
* hard: three other medicines of the gold one's form (tablet, syrup, ...), all four options with the gold one's
  frequency and duration, so that nothing but the medicine itself tells them apart.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lm_eval_healthcare.data.prepared import SCORED, Prepared, scored_split
from lm_eval_healthcare.data.prescription_cells import (
    Medicine,
    Prescription,
    UnusableCellError,
    form,
    read_prescription,
    same_medicine,
)

TOO_FEW_OPTIONS = "too_few_options"
LETTERS = ("A", "B", "C", "D")

_SEED = 250206666
_FIRST_LOOK = 64
_LISTED = 5
_COMMON = (
    "a an and as at but by for from has have in is of on or since the to with without no not known case cases history "
    "day days week weeks month months year years old male female patient patients complaint complaints complains "
    "chief diagnosis symptoms acute chronic mild moderate severe left right both type new newly follow up review "
    "stage grade over under after before last two three four five one"
)
_COMMON_WORDS = frozenset(_COMMON.split())


@dataclass
class _Candidate:
    """A medicine of the data set, and the words of all complaints for which it was prescribed."""

    medicine: Medicine
    identity: str
    words: set[str] = field(default_factory=set)


class _Pool:
    """All medicines of a split, one entry for each identity, in sorted order."""

    def __init__(self, prescriptions: Sequence[Prescription]) -> None:
        by_identity: dict[str, _Candidate] = {}
        for prescription in prescriptions:
            words = _words(prescription.complaint)
            for medicine in prescription.medicines:
                found = by_identity.setdefault(medicine.identity, _Candidate(medicine, medicine.identity))
                found.medicine = min(found.medicine, medicine, key=lambda m: m.text)
                found.words |= words
        self.all = [by_identity[name] for name in sorted(by_identity)]
        self.by_form: dict[str, list[_Candidate]] = defaultdict(list)
        for candidate in self.all:
            self.by_form[form(candidate.medicine.name)].append(candidate)


def row(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring a raw row to the hub's form: `results` as text, also where a file holds it as a struct."""
    cell = raw.get("results")
    return [{**raw, "results": repr(cell)}] if isinstance(cell, Mapping) else [dict(raw)]


def easy_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make questions whose distractors are any other medicines; see `documents`."""
    return documents(splits, options, hard=False)


def hard_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make questions whose options share form, frequency and duration; see `documents`."""
    return documents(splits, options, hard=True)


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str], *, hard: bool) -> Prepared:
    """Make one question of every row that has a complaint and a medicine.

    Args:
        splits: Rows with the column `results`. `test` is scored; without it `train` is, under the name `test`.
        options: `scored` says what is scored as continuations: `letters` or the options' `text`.
        hard: Which of the two kinds of distractors is drawn.

    Returns:
        Documents with `id`, `complaint`, `option_a` to `option_d`, `choices` (what is scored) and `answer` (the place
        of the gold option).
    """
    scored = scored_split(splits)
    prepared = Prepared({})
    for name, rows in splits.items():
        made, places = _questions(rows, hard, letters=options.get("scored", "letters") == "letters")
        prepared.splits[SCORED if name == scored else name] = made
        if name == scored:
            prepared.left_out = Counter({reason: len(numbers) for reason, numbers in places.items()})
            prepared.warnings = _report(places, len(rows))
    return prepared


def _questions(
    rows: Sequence[Mapping[str, Any]], hard: bool, letters: bool
) -> tuple[list[dict[str, Any]], dict[str, list[int]]]:
    """Questions of one split, and the numbers of the rows that give none by reason."""
    found: list[tuple[int, Prescription]] = []
    places: dict[str, list[int]] = defaultdict(list)
    for number, raw in enumerate(rows, start=1):
        try:
            found.append((number, read_prescription(raw["results"])))
        except UnusableCellError as error:
            places[error.reason].append(number)
    pool = _Pool([prescription for _, prescription in found])
    made = []
    for number, prescription in found:
        document = _question(prescription, pool, hard, letters)
        if document is None:
            places[TOO_FEW_OPTIONS].append(number)
        else:
            made.append(document)
    return made, places


def _question(prescription: Prescription, pool: _Pool, hard: bool, letters: bool) -> dict[str, Any] | None:
    content = json.dumps([prescription.complaint, [medicine.text for medicine in prescription.medicines]])
    gold = prescription.medicines[int(_generator("gold", content).integers(len(prescription.medicines)))]
    rng = _generator("hard" if hard else "easy", content)
    chosen = _distractors(prescription, gold, pool, hard, rng)
    if len(chosen) < len(LETTERS) - 1:
        return None
    answer = int(rng.integers(len(LETTERS)))
    texts = [Medicine(c.medicine.name, gold.details).text if hard else c.medicine.text for c in chosen]
    texts.insert(answer, gold.text)
    return {
        "id": hashlib.sha256(content.encode()).hexdigest()[:16],
        "complaint": prescription.complaint,
        **{f"option_{letter.lower()}": text for letter, text in zip(LETTERS, texts, strict=True)},
        "choices": list(LETTERS) if letters else texts,
        "answer": answer,
    }


def _distractors(
    prescription: Prescription, gold: Medicine, pool: _Pool, hard: bool, rng: np.random.Generator
) -> list[_Candidate]:
    """Three medicines, or fewer if there are no more; the rules are relaxed in order, never the one of identity."""
    words = _words(prescription.complaint)
    alike = pool.by_form[form(gold.name)] if hard else pool.all
    taken = [medicine.identity for medicine in prescription.medicines]
    chosen: list[_Candidate] = []
    for candidates, may_share_words in ((alike, False), (pool.all, False), (alike, True), (pool.all, True)):
        for place in _order(len(candidates), rng):
            candidate = candidates[place]
            if not may_share_words and candidate.words & words:
                continue
            if any(same_medicine(candidate.identity, other) for other in taken):
                continue
            chosen.append(candidate)
            taken.append(candidate.identity)
            if len(chosen) == len(LETTERS) - 1:
                return chosen
    return chosen


def _order(n: int, rng: np.random.Generator) -> Iterator[int]:
    """Places from 0 to n in random order; few of them are needed as a rule, so the first ones are drawn first."""
    first = rng.choice(n, size=min(n, _FIRST_LOOK), replace=False) if n else ()
    yield from map(int, first)
    if n > _FIRST_LOOK:
        seen = set(map(int, first))
        yield from (place for place in map(int, rng.permutation(n)) if place not in seen)


def _generator(purpose: str, content: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{_SEED}|{purpose}|{content}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _words(complaint: str) -> frozenset[str]:
    words = "".join(c if c.isalpha() else " " for c in complaint.casefold()).split()
    return frozenset(word for word in words if len(word) > 1) - _COMMON_WORDS


def _report(places: Mapping[str, Sequence[int]], total: int) -> list[str]:
    if not places:
        return []
    told = []
    for reason, numbers in sorted(places.items()):
        more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
        told.append(f"{reason}: row {', '.join(map(str, numbers[:_LISTED]))}{more}")
    text = f"med_prescriptions: {sum(map(len, places.values()))} of {total} rows give no question ({'; '.join(told)})"
    if TOO_FEW_OPTIONS in places:
        text += ". Distractors come from the medicines of other rows: there must be four distinct ones at least"
    return [text]
