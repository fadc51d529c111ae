"""In which language an answer is: sure of whole sentences, silent about names, lists and short answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lm_eval_healthcare.judge.errors import JudgeError
from support import SHARED

pytest.importorskip("py3langid")
from lm_eval_healthcare.judge.language import LANGUAGES, language_of, mismatch

SPANISH = [
    "El diagnóstico más probable es una apendicitis aguda.",
    "La paciente presenta dolor en fosa ilíaca derecha con fiebre.",
    "Hay que realizar una tomografía computarizada abdominal urgente.",
    "El tratamiento de elección es la amoxicilina con ácido clavulánico.",
    "Infarto agudo de miocardio con elevación del segmento ST",
    "Paracetamol 1 g cada 8 horas si hay dolor.",
    "Los inhibidores de la enzima convertidora de angiotensina estan contraindicados en el embarazo.",
]
ENGLISH = [
    "The most likely diagnosis is acute appendicitis.",
    "She should be given intravenous ceftriaxone and vancomycin without delay.",
    "No antibiotic is indicated; rest and fluids are enough.",
    "Consult https://www.ejemplo.es/guia-de-tratamiento-de-la-apendicitis-aguda before you operate on this patient.",
]
OTHERS = {
    "zh": "最可能的诊断是急性阑尾炎。",
    "fr": "Le diagnostic le plus probable est une appendicite aiguë.",
    "de": "Die wahrscheinlichste Diagnose ist eine akute Appendizitis.",
    "it": "Il diagnostico più probabile è un'appendicite acuta.",
    "ca": "El diagnòstic més probable és una apendicitis aguda.",
    "ru": "Наиболее вероятный диагноз — острый аппендицит.",
    "ja": "虫垂炎の可能性が最も高い。",
    "ar": "التشخيص الأكثر احتمالا هو التهاب الزائدة الدودية الحاد.",
    "ko": "가장 가능성 있는 진단은 급성 충수염입니다.",
    "el": "Η πιο πιθανή διάγνωση είναι η οξεία σκωληκοειδίτιδα.",
}
UNSURE = [
    None, "", "   \n", "5", "120/80 mmHg", "3.5 - 4.2 (95% CI)", "N/A", "B", "?!", "\ud800",
    "Apendicitis aguda", "Septic arthritis", "Acute appendicitis", "Tuberculosis pulmonar", "Carcinoma in situ",
    "Staphylococcus aureus", "Henoch-Schönlein Purpura", "CDK4, CDK6, SLC34A3",
    "Plasmodium falciparum, Plasmodium vivax, Plasmodium ovale, Plasmodium malariae",
    "Sertraline, fluoxetine, paroxetine, citalopram, escitalopram, venlafaxine, duloxetine, mirtazapine.",
    "Escherichia coli O157:H7, Klebsiella pneumoniae, Pseudomonas aeruginosa, Acinetobacter baumannii",
    "Pt c/o SOB x 3d, h/o COPD, HTN. O2 sat 88% RA.",
]  # fmt: skip


@pytest.mark.parametrize("text", SPANISH)
def test_spanish_is_not_english(text: str) -> None:
    assert mismatch(text, "en") == 1.0
    assert mismatch(text, "es-MX") == 0.0


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_not_spanish(text: str) -> None:
    assert language_of(text).code == "en"
    assert mismatch(text, "en") == 0.0
    assert mismatch(text, "ES") == 1.0


@pytest.mark.parametrize("code", OTHERS)
def test_other_languages(code: str) -> None:
    assert language_of(OTHERS[code]).code == code
    assert mismatch(OTHERS[code], "en") == 1.0
    assert mismatch(OTHERS[code], code) == 0.0


@pytest.mark.parametrize("text", UNSURE)
def test_not_called_wrong_unless_sure(text: str | None) -> None:
    found = language_of(text)
    assert found.code is None
    assert 0 <= found.confidence <= 1
    for expected in ("en", "es"):
        assert math.isnan(mismatch(text, expected))


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the folder of cases is not there")
def test_case_b51() -> None:
    lines = (SHARED / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    (case,) = (c for c in map(json.loads, lines) if c["id"] == "b51-judge-language")
    given = case["input"]
    assert language_of(given["answer"]).code == "es"
    assert mismatch(given["answer"], given["question_lang"]) == 1.0


def test_long_texts_are_judged_by_their_beginning() -> None:
    assert mismatch(ENGLISH[0] + " " + "The patient recovered well. " * 4000, "en") == 0.0
    beginning = "The patient recovered well and went home. " * 120
    assert language_of(beginning + OTHERS["zh"] * 5000) == language_of(beginning[:4000])
    assert mismatch("\n" * 100_000 + SPANISH[0], "en") == 1.0


def test_the_shared_identifier_is_left_alone() -> None:
    import py3langid

    language_of(ENGLISH[0])
    codes = {code for code, _share in py3langid.rank(ENGLISH[0])}
    assert "an" in codes  # Aragonese: all languages of the package are still there
    assert set(LANGUAGES) <= codes


def test_unknown_language_is_refused() -> None:
    with pytest.raises(JudgeError, match=r"expected language 'klingon'.*one of ar, bg"):
        mismatch(ENGLISH[0], "klingon")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


@pytest.mark.skipif(not (SHARED / "data" / "rows").is_dir(), reason="the folder of rows is not there")
def test_hardly_ever_wrong_on_real_english() -> None:
    texts: set[str] = set()
    for path in (SHARED / "data" / "rows").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines()[:15]:
            texts.update(strings(json.loads(line)))
    # Every text of every field but addresses and identifiers: questions, references, options, notes, names of genes.
    texts = {text for text in texts if re.search(r"[^\W\d_]{3}", text) and not re.search(r"^\S*(/|\d-)\S*$", text)}
    found = {text: mismatch(text, "en") for text in texts}
    wrong = [text[:80] for text, value in found.items() if value == 1.0]
    told = sum(not math.isnan(value) for value in found.values())
    sentences = [value for text, value in found.items() if len(text) >= 60]
    print(f"{len(found)} English texts: {told} told, {len(wrong)} called another language: {wrong}")
    assert len(found) > 1000
    assert len(wrong) < 0.01 * told
    assert sum(value == 0.0 for value in sentences) > 0.95 * len(sentences)
