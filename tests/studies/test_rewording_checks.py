from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.studies.rewording.checks import Fault, Limits, check, cleaned
from lm_eval_healthcare.studies.rewording.drugs import drugs
from lm_eval_healthcare.studies.rewording.quantity_reader import quantities


def faults(*args, **kwargs):
    return {finding.fault for finding in check(*args, **kwargs)}


@pytest.mark.parametrize(
    ("reply", "left"),
    [
        ('Here is a rewording:\n"Aspirin helps."', "Aspirin helps."),
        ("Sure! Here's the reworded version:\n\nAspirin helps.\n\nI hope this helps!", "Aspirin helps."),
        ("**Reworded answer:** Aspirin helps.", "Aspirin helps."),
        ("```text\nAspirin helps.\n```", "Aspirin helps."),
        ("Aquí tienes una versión reformulada: La aspirina ayuda.", "La aspirina ayuda."),
        ("Here is a rewording:", ""),
        ("“Aspirin” helps, and so does “rest”", "“Aspirin” helps, and so does “rest”"),
        ("Note: here is the artery.", "Note: here is the artery."),
        ("Sure signs are fever and pain.", "Sure signs are fever and pain."),
    ],
)
def test_cleaned_leaves_the_rewording(reply, left):
    assert cleaned(reply) == left


def test_number_and_medicine_of_the_question_are_not_new():
    question = "Can I take 400 mg of ibuprofen?"
    assert check("Yes, that is a safe dose.", "Yes, 400 mg of ibuprofen is safe.", question=question) == []
    assert faults("Yes, that is a safe dose.", "Yes, 400 mg of ibuprofen is safe.") == {
        Fault.NUMBER_ADDED,
        Fault.DRUG_ADDED,
    }


def test_question_repeated_is_a_fault():
    question = "Which nerve is most often injured in a fracture of the humeral shaft?"
    assert Fault.ANSWERS_QUESTION in faults("The radial nerve.", question, question=question)


def test_cut_and_repeated_are_faults():
    text, new = "The wound is clean and dry.", "The wound is dry and clean."
    assert faults(text, new, finish="length") == {Fault.CUT}
    assert faults(text, new, finish="stop") == set()
    assert faults(text, new, others=["The wound  is dry and clean. "]) == {Fault.REPEATED}


def test_refusal_that_is_the_original_is_no_fault():
    original = "I'm sorry, but I cannot help with that."
    assert Fault.REFUSAL not in faults(original, "I apologise, but I cannot help with that.")


def test_limits_are_ratios_of_characters():
    original = "a b c d " * 20  # 160 characters, 159 without the last blank
    twice = "a b c d " * 40  # 319: 2.006 times as long
    assert Fault.TOO_LONG in faults(original, twice)
    assert Fault.TOO_LONG not in faults(original, twice, limits=Limits(longest=2.1))


def test_language_that_cannot_be_checked_is_an_error():
    with pytest.raises(JudgeError, match="xx"):
        check("The wound is clean.", "Clean is the wound.", language="xx")


def test_unit_change_says_what_became_what():
    (finding,) = check("Give 5 mg now.", "Now give 5 mcg.")
    assert finding.detail == "'5 mg' became '5 mcg'"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2 g", "mass", 2e6),  # micrograms
        ("two hundred and fifty milligrams", "mass", 250e3),
        ("3.5 L", "volume", 3.5e6),  # microlitres
        ("2 weeks", "time", 14 * 86400),
        ("100 mg/dL", "mass/volume", 100e3 / 1e5),
        ("1,234.5 mg", "mass", 1234.5e3),
        ("1 000 mg", "mass", 1e6),
        ("every 6 hours", "per", 4 / 86400),  # four times a day
        ("dos veces al día", "per", 2 / 86400),
        ("½ g", "mass", 5e5),
    ],
)
def test_quantity_is_read(text, kind, value):
    (one,) = quantities(text)
    assert one.kind == kind
    assert one.value == pytest.approx(value)


def test_ordinary_words_are_no_medicines():
    text = (
        "In April the control of cholesterol and alcohol is a technique; somatostatin, peptide, concept, magazine, "
        "cephalic, routine, vaccine, spine, uricase, profile and masculine are words."
    )
    assert drugs(text) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tylenol", "acetaminofeno"),
        ("hidroclorotiazida", "hydrochlorothiazide"),
        ("co-amoxiclav", "amoxicillin with clavulanate"),
        ("ácido acetilsalicílico", "Aspirin"),
        ("fenitoína", "phenytoin"),
        ("levotiroxina", "Synthroid"),
        ("cyclosporine", "ciclosporina"),
        ("tacrolimús", "tacrolimus"),
        ("insulins", "insulin"),
    ],
)
def test_names_of_one_medicine_are_one(one, other):
    assert drugs(one)
    assert drugs(one).keys() == drugs(other).keys()


@pytest.mark.parametrize(
    "text", ["(" * 30_000, "5 mg " * 20_000, "\ud800", "😀" * 50, "no " * 30_000, "\u200b", "9" * 999]
)
def test_hostile_text_is_survived(text):
    check(text, "Give 5 mg.")
    check("Give 5 mg.", text)
    cleaned(text)


_PIECES = st.sampled_from(
    ["5", "mg", "no", "not", "give", "1/2", "1,000", "-", "every", "8", "hours", "twice", "daily", "x", "^", "10",
     "/", "a",
     "two", "hundred", "and", ".", ",", ":", "\n", "aspirin", "°C", "⁹", "%", "II", "type", "\ud800", "una", "mil"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=14), st.sampled_from(["", " "]))
def test_no_text_differs_from_itself(pieces, joint):
    text = joint.join(pieces)
    meaning = {"number_lost", "number_added", "unit_changed", "drug_lost", "drug_added", "negation_changed"}
    assert not meaning & {finding.fault.value for finding in check(text, text + " .\u200b.")} or "daily" in text
    assert check(text, text)[0].fault in (Fault.EMPTY, Fault.UNCHANGED)
