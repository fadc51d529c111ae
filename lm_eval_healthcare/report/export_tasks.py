"""What leaderboards and other formats call the tasks and the metrics: one table for all exports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_eval_healthcare.results.cell import Cell


@dataclass(frozen=True)
class Benchmark:
    """One benchmark as others know it.

    Attributes:
        shown: Its name as people write it.
        dataset: The hub's id of its data; None where the hub has none that may be used.
        config: The hub's name of the part; None where there is one part only.
        credentialed: Whether the data need a data use agreement.
        chosen: Whether the task compares likelihoods of given answers, so that generation settings play no part.
    """

    shown: str
    dataset: str | None = None
    config: str | None = None
    credentialed: bool = False
    chosen: bool = False


def _choice(shown: str, dataset: str, config: str | None = None) -> Benchmark:
    return Benchmark(shown, dataset, config, chosen=True)


BENCHMARKS: dict[str, Benchmark] = {
    "careqa_en": _choice("CareQA", "HPAI-BSC/CareQA", "CareQA_en"),
    "careqa_es": _choice("CareQA", "HPAI-BSC/CareQA", "CareQA_es"),
    "medmcqa": _choice("MedMCQA", "openlifescienceai/medmcqa"),
    "medqa_4options": _choice("MedQA", "GBaker/MedQA-USMLE-4-options-hf"),
    "mmlu_anatomy": _choice("MMLU (anatomy)", "cais/mmlu", "anatomy"),
    "mmlu_clinical_knowledge": _choice("MMLU (clinical knowledge)", "cais/mmlu", "clinical_knowledge"),
    "mmlu_college_biology": _choice("MMLU (college biology)", "cais/mmlu", "college_biology"),
    "mmlu_college_medicine": _choice("MMLU (college medicine)", "cais/mmlu", "college_medicine"),
    "mmlu_medical_genetics": _choice("MMLU (medical genetics)", "cais/mmlu", "medical_genetics"),
    "mmlu_professional_medicine": _choice("MMLU (professional medicine)", "cais/mmlu", "professional_medicine"),
    "pubmedqa": _choice("PubMedQA", "qiaojin/PubMedQA", "pqa_labeled"),
    "biored": _choice("BioRED", "YufeiHFUT/BioRED_all_info"),
    "biored_novelty": _choice("BioRED", "YufeiHFUT/BioRED_all_info"),
    "med_prescriptions_easy": _choice("Prescription", "devlocalhost/prescription-full"),
    "med_prescriptions_hard": _choice("Prescription", "devlocalhost/prescription-full"),
    "med_text_classification_easy": _choice("Medical Text for classification", "TimSchopf/medical_abstracts"),
    "med_text_classification_hard": _choice("Medical Transcriptions", "harishnair04/mtsamples"),
    "med_transcriptions": _choice("Medical Transcriptions", "harishnair04/mtsamples"),
    "careqa_open": Benchmark("CareQA-Open", "HPAI-BSC/CareQA", "CareQA_en_open"),
    "medtext": Benchmark("MedText", "BI55/MedText"),
    "mediqa_qa2019": Benchmark("MEDIQA 2019", "bigbio/mediqa_qa", "mediqa_qa_source"),
    "meddialog_qsumm": Benchmark("MedDialog (question summaries)", "lighteval/med_dialog", "icliniq"),
    "meddialog_raw": Benchmark("MedDialog (raw)"),
    "meddialog_raw_dialogues": Benchmark("MedDialog (raw)"),
    "mts_dialog": Benchmark("MTS-Dialog", "har1/MTS_Dialogue-Clinical_Note"),
    "aci_bench": Benchmark("ACI-Bench", "mkieffer/ACI-Bench"),
    "olaph": Benchmark("OLAPH (MedLFQA)", "dmis-lab/MedLFQA"),
    "mimic_repsum": Benchmark("MIMIC-III (report summarization)", credentialed=True),
    "mimic_hospital_course": Benchmark("MIMIC-III (hospital course)", credentialed=True),
}
"""The pack's and the harness's names of tasks; those that end in one of `VARIANTS` ask about the same data."""

VARIANTS = ("_conditional_perplexity", "_relaxed_perplexity", "_perplexity", "_gen", "_consistency")
GENERATED = "_gen"

OPEN_MEDICAL = {
    "medmcqa": "MedMCQA",
    "medqa_4options": "MedQA",
    "mmlu_anatomy": "MMLU Anatomy",
    "mmlu_clinical_knowledge": "MMLU Clinical Knowledge",
    "mmlu_college_biology": "MMLU College Biology",
    "mmlu_college_medicine": "MMLU College Medicine",
    "mmlu_medical_genetics": "MMLU Medical Genetics",
    "mmlu_professional_medicine": "MMLU Professional Medicine",
    "pubmedqa": "PubMedQA",
}
"""The nine keys of the Open Medical-LLM leaderboard's result files, with the names of its columns."""

OLD_NAMES = {f"hendrycksTest-{task.removeprefix('mmlu_')}": task for task in OPEN_MEDICAL if task.startswith("mmlu_")}
"""What the harness called a task before 0.4."""

_CREDENTIALED_NAMES = "mimic"
_ACCURACIES = frozenset({"acc", "acc_norm", "acc_parsed", "exact_match", "f1", "macro_f1", "f1_macro", "micro_f1"})
_ONLY_LOWER = frozenset({"bits_per_byte", "nats_per_byte"})


def benchmark_of(task: str) -> Benchmark | None:
    """Return what is known of a task's data; None for a task that the pack does not have."""
    name = OLD_NAMES.get(task, task)
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    base = next((name.removesuffix(ending) for ending in VARIANTS if name.endswith(ending)), name)
    return BENCHMARKS.get(base)


def is_credentialed(task: str) -> bool:
    """Return whether a task's data need a data use agreement, as far as names tell."""
    known = benchmark_of(task)
    return task.startswith(_CREDENTIALED_NAMES) or (known is not None and known.credentialed)


def generates(task: str) -> bool:
    """Return whether a model writes answers, so that scores depend on the settings of generation."""
    known = benchmark_of(task)
    if task.endswith(GENERATED) or known is None:
        return True
    return not known.chosen and not task.endswith("_perplexity")


@cache
def bounds(metric: str) -> tuple[float, float] | None:
    """Return the lowest and the highest value that a metric can have; None if one of them is not known or infinite."""
    from lm_eval_healthcare.metrics.suite import AVAILABLE

    if metric in _ACCURACIES:
        return 0.0, 1.0
    if metric == "prometheus":
        return 1.0, 5.0
    found = AVAILABLE.get(metric)
    if found is None or not (math.isfinite(found.minimum) and math.isfinite(found.maximum)):
        return None
    return found.minimum, found.maximum


def is_share(cell: Cell) -> bool:
    """Return whether a value is one between 0 and 1 that may as well be told in percent."""
    return bounds(cell.metric) == (0.0, 1.0) and 0.0 <= cell.value <= 1.0


def higher_is_better(cell: Cell) -> bool | None:
    """Return the direction that a file tells, else that of the metric's name; None if neither tells it."""
    if cell.higher_is_better is not None:
        return cell.higher_is_better
    if "perplexity" in cell.metric or cell.metric in _ONLY_LOWER:
        return False
    return True if bounds(cell.metric) is not None else None
