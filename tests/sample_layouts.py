"""The files of the packaged sample: how many rows each holds, in which columns; and reading them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
ROWS = REPOSITORY / "lm_eval_healthcare" / "sample" / "rows"
REAL_ROWS = REPOSITORY.parent / "shared" / "data" / "rows"

MMLU = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)

CAREQA = {
    **{"exam_id": int, "question": str, "op1": str, "op2": str, "op3": str, "op4": str},
    **{"cop": int, "year": int, "category": str, "unique_id": str},
}
CAREQA_OPEN = {"exam_id": int, "question": str, "answer": str, "year": int, "category": str, "unique_id": str}
MEDTEXT = {"Prompt": str, "Completion": str}
MEDMCQA = {
    **{"id": str, "question": str, "opa": str, "opb": str, "opc": str, "opd": str, "cop": int, "choice_type": str},
    **{"exp": str | None, "subject_name": str, "topic_name": str | None},
}
MEDQA = {
    **{"id": str, "sent1": str, "sent2": str, "ending0": str, "ending1": str, "ending2": str, "ending3": str},
    "label": int,
}
PUBMEDQA = {"pubid": int, "question": str, "context": dict, "long_answer": str, "final_decision": str}
MMLU_COLUMNS = {"question": str, "subject": str, "choices": list, "answer": int}
MEDIQA = {"QUESTION": dict}
MEDDIALOG = {"description": str, "utterances": dict}
QSUMM = {"id": int, "src": str, "tgt": str}
MTS = {"ID": int, "section_header": str, "section_text": str, "dialogue": str}
ACI = {"dataset": str, "encounter_id": str, "dialogue": str, "note": str}
OLAPH = {"Question": str, "Free_form_answer": str, "Must_have": list, "Nice_to_have": list}
MIMIC = {
    **{"subject_id": int, "hadm_id": int, "target_text": str, "extractive_notes_summ": str},
    **{"n_notes": int, "notes": list},
}
PRESCRIPTION = {"results": str}
ABSTRACT = {"condition_label": int, "medical_abstract": str}
TRANSCRIPTION = {
    **{"Unnamed: 0": int, "description": str, "medical_specialty": str, "sample_name": str},
    **{"transcription": str | None, "keywords": str},
}
BIORED = {"pmid": str, "passages": list, "entities": list, "relations": list}

FILES: dict[str, tuple[int, dict[str, Any]]] = {
    "careqa_en/test": (12, CAREQA),
    "careqa_es/test": (12, CAREQA),
    "careqa_open/test": (10, CAREQA_OPEN),
    "medtext/train": (10, MEDTEXT),
    "medmcqa/validation": (10, MEDMCQA),
    "medmcqa/train": (4, MEDMCQA),
    "medqa_4options/test": (10, MEDQA),
    "medqa_4options/train": (4, MEDQA),
    "pubmedqa/test": (9, PUBMEDQA),
    "pubmedqa/train": (4, PUBMEDQA),
    **{f"mmlu_{subject}/test": (8, MMLU_COLUMNS) for subject in MMLU},
    **{f"mmlu_{subject}/dev": (5, MMLU_COLUMNS) for subject in MMLU},
    "mediqa_qa2019/test": (8, MEDIQA),
    "mediqa_qa2019/validation": (2, MEDIQA),
    "mediqa_qa2019/train_live_qa_med": (4, MEDIQA),
    "meddialog_raw_dialogues/test": (8, MEDDIALOG),
    "meddialog_raw_dialogues/train": (4, MEDDIALOG),
    "meddialog_qsumm/test": (8, QSUMM),
    "meddialog_qsumm/train": (4, QSUMM),
    "mts_dialog/test1": (5, MTS),
    "mts_dialog/test2": (5, MTS),
    "mts_dialog/train": (4, MTS),
    "aci_bench/test1": (3, ACI),
    "aci_bench/test2": (3, ACI),
    "aci_bench/test3": (3, ACI),
    "aci_bench/train": (2, ACI),
    "olaph/healthsearch_qa": (2, OLAPH),
    "olaph/kqa_golden": (3, OLAPH),
    "olaph/kqa_silver_wogold": (2, OLAPH),
    "olaph/live_qa": (2, OLAPH),
    "olaph/medication_qa": (2, OLAPH),
    "mimic/test": (8, MIMIC),
    "mimic/train": (4, MIMIC),
    "med_prescriptions/train": (12, PRESCRIPTION),
    "med_text_classification_easy/test": (10, ABSTRACT),
    "med_text_classification_easy/train": (5, ABSTRACT),
    "med_transcriptions/train": (14, TRANSCRIPTION),
    "biored/test": (4, BIORED),
    "biored/train": (2, BIORED),
}
FEW_QUESTIONS = [name.removesuffix("/test") for name in FILES if name.endswith("/test") and name != "biored/test"]
SPOKEN = {"dialogue", "note"}  # columns whose texts have line breaks

_ASKED = (
    *("question", "sent1", "Prompt", "src", "dialogue", "Question", "target_text", "results", "medical_abstract"),
    "description",
)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one file, such as `biored/test`."""
    text = (ROWS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def rows_of(benchmark: str) -> list[dict[str, Any]]:
    """The rows of all files of one benchmark."""
    return [row for name in FILES if name.startswith(f"{benchmark}/") for row in rows(name)]


def question(row: dict[str, Any]) -> str:
    """The text that tells a row from all others."""
    if "QUESTION" in row:
        return row["QUESTION"]["QuestionText"]
    if "passages" in row:
        return row["passages"][1]["text"][0]
    return next(row[column] for column in _ASKED if column in row)


def normal(text: str) -> str:
    """The text without regard to case and white space."""
    return " ".join(text.casefold().split())


def sentences(text: str) -> list[str]:
    """The sentences of a text, normalised, without their last sign."""
    return [normal(part) for part in re.split(r"[.?!]+(?:\s|$|,)|\n", text) if part.strip()]


def texts(value: Any) -> list[str]:
    """All strings in a value, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []
