from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.studies.rewording.checks import meaning_findings
from lm_eval_healthcare.studies.rewording.rules import RULES, apply_rule, reword
from lm_eval_healthcare.studies.rewording.spellings import TO_AMERICAN, TO_BRITISH


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("case", "The pH is 7.35. Give 5 mg.", "the pH is 7.35. give 5 mg."),
        ("case", "BRCA1 and mRNA", None),
        ("case", "Na rises. mg is a unit.", None),
        ("case", "fever is common.", "Fever is common."),
        ("punctuation", "Rest; cool it", "Rest. Cool it."),
        ("punctuation", "Fever, cough, and pain.", "Fever, cough and pain"),
        ("punctuation", "The drug — a diuretic — acts in 2–3 h.", "The drug, a diuretic, acts in 2–3 h"),
        ("punctuation", "Give 0.5 mg (2; then 3)", "Give 0.5 mg (2; then 3)."),
        ("spelling", "Anaemia and OEDEMA of the oesophagus", "Anemia and EDEMA of the esophagus"),
        ("spelling", "The tumor was hospitalized for diarrhea", "The tumour was hospitalised for diarrhoea"),
        ("spelling", "several analyses in practice", None),
        ("abbreviations", "BP is 120/80 in an MI.", "Blood pressure is 120/80 in a myocardial infarction."),
        ("abbreviations", "Give 5 mg PO BID.", "Give 5 mg by mouth twice a day."),
        ("abbreviations", "COPD (chronic obstructive pulmonary disease)", None),
        ("abbreviations", "Stage IV, MS, PE and HIV-1", None),
        ("abbreviations", "NSAIDs help in an STI.",
         "Non-steroidal anti-inflammatory drugs help in a sexually transmitted infection."),
        ("abbreviations", 'She wrote "BP" here.', None),
        ("prose", "Treat with:\n1. rest\n2. 5 mg of morphine", "Treat with: rest; 5 mg of morphine."),
        ("prose", "- Rest for 2 days.\n- Cool it", "Rest for 2 days. Cool it."),
        ("prose", "No list\nat all", None),
        ("prose", "1. One item\n\nand text", None),
        ("prose", "1. Rest.\n\n2. Ice.\n\nThen walk.", "Rest. Ice.\n\nThen walk."),
    ],
)  # fmt: skip
def test_rule_by_hand(rule, text, expected):
    assert apply_rule(text, rule).text == expected


def test_single_rules_come_first_and_all_differ():
    text = "Anaemia and a low BP; give iron."
    made = reword(text, 9)
    assert [one.rule for one in made[:4]] == ["case", "punctuation", "spelling", "abbreviations"]
    assert made[4].rule == "case+punctuation"
    assert len({one.text for one in made} | {text}) == 10
    assert reword(text, 3) == made[:3]
    assert reword(text, 9) == made


def test_text_without_anything_to_change_gets_fewer():
    assert [one.rule for one in reword("90°", 6)] == []
    assert [one.rule for one in reword("BRCA1", 6)] == ["punctuation"]


def test_tables_of_other_languages_are_not_used():
    text = "El tumor del centro; dar 5 mg."
    assert {rule for one in reword(text, 20, language="es") for rule in one.rule.split("+")} == {"case", "punctuation"}


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match=r"rule 'rhyme'.*case, punctuation"):
        apply_rule("text", "case+rhyme")


def test_spelling_tables_agree():
    assert all(TO_AMERICAN[british] == american for american, british in TO_BRITISH.items())
    assert not TO_AMERICAN.keys() & TO_BRITISH.keys()


_SENTENCES = st.sampled_from(
    [
        "Give 0.5 mg of adrenaline IM at once; repeat after 5 minutes.",
        "The BP is 120/80, the HR is 72 bpm, and the SpO2 is 98%.",
        "Do not give NSAIDs in CKD, heart failure, or peptic ulcer.",
        "Anaemia, oedema — and no haemorrhage — were seen.",
        "Causes:\n- anaemia\n- 2 units of blood lost\n- no iron",
        "1. Amoxicillin 500 mg TID for 7 days.\n2. No alcohol.",
        "Paracetamol 1 g QID PRN, at most 4 g a day.",
        "Type II diabetes; HbA1c 7.5 % (58 mmol/mol).",
        "She denies fever, chills or SOB.",
        "Vitamin B12 of 150 pg/mL isn't normal",
        "Hospitalized with pediatric diarrhea; 1,000 mL of fluid IV.",
    ]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(_SENTENCES, min_size=1, max_size=4), st.sampled_from([" ", "\n", "\n\n"]))
def test_rules_never_change_the_meaning(sentences, joint):
    text = joint.join(sentences)
    for one in reword(text, 31):
        assert meaning_findings(text, one.text) == [], one


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_survived_and_rules_are_fixed(text):
    assert reword(text, 8) == reword(text, 8)
    assert all(apply_rule(text, rule).rule == rule for rule in RULES)
