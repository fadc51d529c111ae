"""MedDialog: consultations between patients and doctors, and consultations with a question that sums them up.

Speakers are told apart by their labels, never by position: a consultation may begin with the doctor, and a speaker may
have several turns in a row.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError, read_utf8
from lm_eval_healthcare.data.prepared import Prepared, scored_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

NO_DOCTOR_TURN, NO_QUESTION = "no_doctor_turn", "no_question"
PATIENT, DOCTOR = "patient", "doctor"

# The hub's class labels are 0 and 1; pandas writes them as 0.0 and 1.0 where one is missing.
_SPEAKERS = {"patient": PATIENT, "doctor": DOCTOR, "0": PATIENT, "1": DOCTOR, "0.0": PATIENT, "1.0": DOCTOR}
_RECORD = re.compile(r"^\s*id\s*=\s*(\S+)\s*$")
_SECTION = re.compile(r"^\s*(Description|Dialogue)\s*:?\s*$")
_TURN = re.compile(r"^\s*(Patient|Doctor)\s*:\s*(.*)$")
_LABEL = re.compile(r"\b(Patient|Doctor)\s?:")
_LABEL_OF_A_LINE = re.compile(r"^[ \t]*(patient|doctor)[ \t]?:", re.IGNORECASE | re.MULTILINE)
# "Hello Doctor: I have ..." is a greeting and "my doctor: ..." a mention; neither begins a turn. Such words before
# the patient's label end what the doctor says.
_NO_LABEL_AFTER = frozenset({"hi", "hello", "hey", "dear", "my", "the", "a", "our", "your", "his", "her"})


def dialogue(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring one consultation of any layout into the columns `description`, `speakers` and `utterances`.

    Args:
        row: `description`, and `utterances` (or `dialogue_turns`) as a struct of the lists `speaker` and `utterance`,
            as a list of such structs, or as a list of texts such as `patient: ...`. A speaker is a name or the hub's
            class label, 0 for the patient and 1 for the doctor.

    Returns:
        One row; speakers are `patient` or `doctor`.

    Raises:
        ValueError: If there are no turns, or one has no speaker of these two.
    """
    name = "dialogue_turns" if row.get("utterances") is None and "dialogue_turns" in row else "utterances"
    if row.get(name) is None:
        raise ValueError(f"column 'utterances' is missing or null (found: {', '.join(map(str, row)) or 'none'})")
    turns = list(_turns(row[name], name))
    description = row.get("description")
    if description is not None and not isinstance(description, str):
        raise ValueError(f"column 'description': expected text, got {type(description).__name__}")
    return [
        {
            "description": description or "",
            "speakers": [speaker for speaker, _ in turns],
            "utterances": [text for _, text in turns],
        }
    ]


def raw_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Make a question and a reference of every consultation.

    The reference is what the doctor says after the patient's first turns, up to the patient's next turn; several turns
    in a row are joined by a line break. Where the patient says nothing before it, it answers the description.

    Returns:
        Documents with `description` (the patient's turns where it is blank), `patient` (the patient's turns before the
        reference), `question` (description and turns, nothing said twice) and `answer`. Consultations without a
        doctor's turn, or without anything that it could answer, are left out.
    """
    prepared, scored = Prepared({}), scored_split(splits)
    for split, rows in splits.items():
        made = [_consultation(row) for row in rows]
        prepared.splits[split] = [document for document in made if isinstance(document, dict)]
        if split == scored:
            prepared.left_out = Counter(reason for reason in made if isinstance(reason, str))
    return prepared


def qsumm_documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Keep the whole consultation as the text to sum up, or the patient's part of it.

    Args:
        splits: Rows with `src` (`Patient: ... Doctor: ...`) and `tgt` (the question).
        options: `dialogue`: `whole` or `patient`.
    """
    prepared, scored = Prepared({}), scored_split(splits)
    for split, rows in splits.items():
        if options.get("dialogue", "whole") == "whole":
            prepared.splits[split] = [{"src": row["src"], "tgt": row["tgt"]} for row in rows]
            continue
        parts = [patient_part(row["src"]) for row in rows]
        prepared.splits[split] = [
            {"src": row["src"] if part is None else part, "tgt": row["tgt"]}
            for row, part in zip(rows, parts, strict=True)
        ]
        unlabelled = sum(part is None for part in parts)
        if split == scored and unlabelled:
            prepared.warnings.append(
                f"{unlabelled} of {len(rows)} consultations do not say who speaks; their whole text is used"
            )
    return prepared


def patient_part(text: str) -> str | None:
    """Return what the patient says before the doctor's first reply, without labels; None where nobody is labelled.

    A doctor who speaks before the patient is passed over.
    """
    labels = [
        match
        for match in _LABEL.finditer(text)
        if match[1] == "Patient" or _word_before(text, match.start()) not in _NO_LABEL_AFTER
    ]
    labels = labels or list(_LABEL_OF_A_LINE.finditer(text))
    if not labels:
        return None
    parts = [("", text[: labels[0].start()])]
    ends = [match.start() for match in labels[1:]] + [len(text)]
    parts += [(match[1].lower(), text[match.end() : end]) for match, end in zip(labels, ends, strict=True)]
    spoken = [(speaker, part.strip()) for speaker, part in parts if part.strip()]
    if not any(speaker == PATIENT for speaker, _ in spoken):
        # What stands before the doctor's label is the patient's, if anything does.
        return next((part for speaker, part in spoken if speaker == ""), None)
    out: list[str] = []
    for speaker, part in spoken:
        if speaker == DOCTOR and out:
            break
        if speaker == PATIENT:
            out.append(part)
    return "\n".join(out)


def read_text(path: Path) -> list[dict[str, Any]]:
    """Read an original text file (`id=`, an address, `Description`, `Dialogue`) into rows of the hub's shape.

    Raises:
        DataError: If the file is not UTF-8, or holds no consultation.
    """
    rows = [_record(identity, block) for identity, block in _blocks(read_utf8(path).splitlines())]
    if not rows:
        raise DataError(
            f"{path}: no consultation in it; each begins with a line 'id=NUMBER', followed by the lines 'Description' "
            "and 'Dialogue'"
        )
    return rows


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the id and the lines of every record."""
    identity, block = None, []  # type: str | None, list[str]
    for line in lines:
        begins = _RECORD.match(line)
        if not begins:
            block.append(line)
            continue
        if identity is not None:
            yield identity, block
        identity, block = begins[1], []
    if identity is not None:
        yield identity, block


def _record(identity: str, lines: Sequence[str]) -> dict[str, Any]:
    sections: dict[str, list[str]] = {"": [], "Description": [], "Dialogue": []}
    here = ""
    for line in lines:
        heading = _SECTION.match(line)
        # Within the dialogue a line "Description" is something that is said.
        if heading and here != "Dialogue":
            here = heading[1]
        else:
            sections[here].append(line)
    turns: list[tuple[str, list[str]]] = []
    for line in sections["Dialogue"]:
        label = _TURN.match(line)
        if label:
            turns.append((label[1].lower(), [label[2]]))
        elif turns:
            turns[-1][1].append(line)
    return {
        "id": identity,
        "url": " ".join(sections[""]).strip(),
        "description": "\n".join(sections["Description"]).strip(),
        "utterances": {
            "speaker": [speaker for speaker, _ in turns],
            "utterance": ["\n".join(text).strip() for _, text in turns],
        },
    }


def _turns(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield speaker and text of every turn."""
    if isinstance(value, dict):
        speakers, texts = value.get("speaker"), value.get("utterance")
        if not isinstance(speakers, list | tuple) or not isinstance(texts, list | tuple) or len(speakers) != len(texts):
            raise ValueError(f"column '{name}': expected the lists 'speaker' and 'utterance' of one length")
        value = [{"speaker": speaker, "utterance": text} for speaker, text in zip(speakers, texts, strict=True)]
    if not isinstance(value, list | tuple):
        raise ValueError(f"column '{name}': expected a list of turns, got {type(value).__name__}")
    for turn in value:
        if isinstance(turn, str):
            label, _, text = turn.partition(":")
            yield _speaker(label), text.strip()
        elif isinstance(turn, dict):
            said = turn.get("utterance")
            if said is not None and not isinstance(said, str):
                raise ValueError(f"column '{name}': expected an utterance as text, got {type(said).__name__}")
            yield _speaker(turn.get("speaker")), (said or "").strip()
        else:
            raise ValueError(f"column '{name}': expected turns as structs or texts, got {type(turn).__name__}")


def _speaker(value: Any) -> str:
    speaker = _SPEAKERS.get(str(value).strip().rstrip(":").strip().lower())
    if speaker is None:
        raise ValueError(f"speaker {value!r:.60}: expected patient or doctor (or the labels 0 and 1)")
    return speaker


def _consultation(row: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the document of a consultation, or why there is none."""
    turns = [(s, text) for s, text in zip(row["speakers"], row["utterances"], strict=True) if text.strip()]
    if not any(speaker == DOCTOR for speaker, _ in turns):
        return NO_DOCTOR_TURN
    begin = next((place for place, (speaker, _) in enumerate(turns) if speaker == PATIENT), len(turns))
    if not any(speaker == DOCTOR for speaker, _ in turns[begin:]):
        begin = 0  # the doctor speaks only before the patient does, so the reply is to the description
    patient, begin = _run(turns, begin, PATIENT)
    answer, _ = _run(turns, begin, DOCTOR)
    description = row["description"].strip()
    if not description and not patient:
        return NO_QUESTION
    told = [description] if description and _plain(description) not in _plain(patient) else []
    return {
        "description": description or patient,
        "patient": patient,
        "question": "\n".join([*told, patient]).strip(),
        "answer": answer,
    }


def _run(turns: Sequence[tuple[str, str]], begin: int, speaker: str) -> tuple[str, int]:
    """Join the turns that one speaker has in a row from `begin` on; also return where they end."""
    end = begin
    while end < len(turns) and turns[end][0] == speaker:
        end += 1
    return "\n".join(text for _, text in turns[begin:end]), end


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".?! ")


def _word_before(text: str, place: int) -> str:
    words = re.findall(r"[^\s]+", text[max(0, place - 40) : place])
    return words[-1].lower() if words else ""
