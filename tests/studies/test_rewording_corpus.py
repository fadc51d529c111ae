"""Pairs written for these tests: which are rewordings, and what is wrong with those that are not.

The list holds what the checks get wrong as well, under `MISSED` and `FALSE_ALARMS`: a pair that is got right one day
has to move.
"""

from __future__ import annotations

import pytest

from lm_eval_healthcare.studies.rewording.checks import check

ACCEPTABLE = [
    ("Give 5 mg of morphine.", "Five milligrams of morphine should be given."),
    ("The dose is 0.5 g of amoxicillin.", "Amoxicillin is dosed at 500 mg."),
    ("Amoxicillin 500 mg three times daily for 7 days.", "Take amoxicillin 500mg every 8 hours for one week."),
    ("Metformin 850 mg twice daily with meals.", "With meals, 850 mg of metformin BID."),
    ("Take 1,000 mg of paracetamol.", "A dose of 1000 mg acetaminophen is taken."),
    ("The fever lasts for 2-3 days.", "Fever usually persists two to three days."),
    ("Give adrenaline 0.5 mg into the thigh muscle.", "Epinephrine 500 µg is injected into the muscle of the thigh."),
    ("His temperature was 38.5 °C.", "He had a temperature of 38.5 degrees Celsius."),
    ("Her blood pressure is 120/80 mmHg.", "She has a blood pressure of 120/80."),
    ("A 45-year-old man with chest pain.", "A man aged 45 who has chest pain."),
    ("About 50% of the patients recover.", "Roughly half of the patients recover."),
    ("There is no evidence of fracture.", "No signs of a fracture are visible."),
    ("Aspirin should not be given to children.", "Do not give aspirin to children."),
    ("Avoid ibuprofen in renal failure.", "Ibuprofen is contraindicated in renal failure."),
    ("She denies fever, cough or chest pain.", "She has no fever, no cough and no chest pain."),
    ("The culture was negative for tuberculosis.", "Tuberculosis was not found in the culture."),
    ("You shouldn't stop the tablets suddenly.", "The tablets should not be stopped suddenly."),
    ("Type II diabetes is treated with diet first.", "Diet is the first treatment of type 2 diabetes."),
    ("Vitamin B12 is absorbed in the terminal ileum.", "The terminal ileum absorbs vitamin B-12."),
    ("1. Rest the leg.\n2. Cool it for 10 minutes.", "Rest the leg, and cool it for ten minutes."),
    ("One of the causes is smoking.", "Smoking is a cause."),
    ("The wound heals in 14 days.", "It takes two weeks for the wound to heal."),
    ("Start treatment without delay.", "Start treatment immediately."),
    ("Salbutamol relieves the wheeze.", "The wheeze is relieved by albuterol."),
    ("Furosemide 40 mg once daily was started.", "She was started on frusemide 40 mg every day."),
    ("White cells were 12 × 10⁹/L.", "There were 12 x 10^9/L white cells."),
    ("The heart rate is 72 beats per minute.", "A heart rate of 72 bpm."),
    ("No more than 4 g of paracetamol a day.", "At most 4 g of paracetamol per day."),
    ("Acute myocardial infarction", "Acute MI"),
    ("The rash does not itch.", "There is no itching of the rash."),
    ("It occurs in 1 in 1,000 births.", "One in a thousand births is affected."),
    ("Give 2 L of saline over 30 min.", "Over half an hour, 2 litres of saline are given."),
    ("On 12 May 2020", "In May 2020, on the 12th"),
    ("He has never smoked.", "He is a non-smoker."),
    ("Without treatment it is fatal.", "Untreated, it is fatal."),
    ("A dose of 1.5 mg/kg/day.", "1.5 mg/kg per day."),
    ("A mass of 3 cm.", "A mass of 30 mm."),
    ("The INR target is 2.0 to 3.0.", "The target INR is 2–3."),
    ("Se administran 0,5 mg de adrenalina.", "Hay que administrar 0.5 mg de epinefrina."),
    ("Amoxicilina 500 mg cada 8 horas.", "500 mg de amoxicilina tres veces al día."),
    ("Paciente de treinta y cinco años sin fiebre.", "Paciente de 35 años que no tiene fiebre."),
    ("No hay signos de fractura.", "Sin evidencia de fractura."),
    ("La aspirina está contraindicada en niños.", "Evite la aspirina en niños."),
    ("El tratamiento dura una semana.", "La duración del tratamiento es de 7 días."),
    ("Dosis de 1.000 mg de paracetamol.", "Una dosis de 1000 mg de paracetamol."),
]

FAULTY = [
    ("Give 5 mg of morphine.", "Give 5 mcg of morphine.", "unit_changed"),
    ("Give 5 mg of morphine.", "Give 50 mg of morphine.", "number_lost"),
    ("Give 5 mg of morphine.", "Give 5 of morphine.", "unit_changed"),
    ("Give 5 mg of morphine.", "Give morphine.", "number_lost"),
    ("Take ibuprofen twice daily.", "Take ibuprofen three times daily.", "number_added"),
    ("Take ibuprofen every 6 hours.", "Take ibuprofen every 8 hours.", "number_lost"),
    ("Take methotrexate once weekly.", "Take methotrexate once daily.", "number_lost"),
    ("Take ibuprofen.", "Take 400 mg of ibuprofen.", "number_added"),
    ("It lasts 5 days.", "It lasts 5 weeks.", "unit_changed"),
    ("It lasts 2-3 days.", "It lasts 2-4 days.", "number_lost"),
    ("Dilute adrenaline 1:1000.", "Dilute adrenaline 1:10,000.", "number_lost"),
    ("Treat above 7 mmol/L.", "Treat above 7 mg/dL.", "unit_changed"),
    ("Give it if the level is more than 5 mg/L.", "Give it if the level is less than 5 mg/L.", "number_lost"),
    ("Vitamin B12 is lacking.", "Vitamin B6 is lacking.", "number_lost"),
    ("Fifteen percent die.", "Fifty percent die.", "number_lost"),
    ("Type 2 diabetes.", "Type 1 diabetes.", "number_lost"),
    ("Give ramipril.", "Give bisoprolol.", "drug_lost"),
    ("Give ramipril.", "Give ramipril and aspirin.", "drug_added"),
    ("Treat it with an NSAID.", "Treat it with an NSAID such as naproxen.", "drug_added"),
    ("Zanubrutinib is an option.", "A kinase inhibitor is an option.", "drug_lost"),
    ("Aspirin should be given to children.", "Aspirin should not be given to children.", "negation_changed"),
    ("Do not stop the tablets suddenly.", "Stop the tablets suddenly.", "negation_changed"),
    ("Propranolol is contraindicated in asthma.", "Propranolol is indicated in asthma.", "negation_changed"),
    ("There was fever but no cough.", "There was cough but no fever.", "negation_changed"),
    ("Yes. It is safe in pregnancy.", "No. It is safe in pregnancy.", "negation_changed"),
    ("She denies chest pain.", "She reports chest pain.", "negation_changed"),
    ("The rash is not contagious. It itches a lot.", "The rash is contagious. It itches a lot.", "negation_changed"),
    ("It is safe in pregnancy.", "It is unsafe in pregnancy.", "negation_changed"),
    ("The result is abnormal.", "The result is normal.", "negation_changed"),
    ("Take 20 mg daily.", "Take 20 mg weekly.", "unit_changed"),
    ("Take 20 mg daily.", "Take 20 mg twice daily.", "number_added"),
    ("Give hydroxyzine 25 mg.", "Give hydralazine 25 mg.", "drug_added"),
    ("The wound is clean.", "I'm sorry, but I can't help with that.", "refusal"),
    ("La herida está limpia.", "Lo siento, no puedo ayudar con eso.", "refusal"),
    ("The wound is clean.", "The question asks about the wound.", "answers_question"),
    ("The wound is clean.", "Please provide the text that I should reword.", "answers_question"),
    ("The wound is clean.", "Here is a rewording: the wound is not dirty.", "preamble"),
    ("The wound is clean.", " The  wound is clean.\n", "unchanged"),
    ("The wound is clean.", "\u200b \n", "empty"),
    (
        "The kidney filters the blood, and the urine flows through the ureter into the bladder.",
        "Los riñones filtran la sangre, y la orina pasa por los uréteres hasta la vejiga.",
        "language",
    ),
    (
        "The kidney filters the blood, and the urine flows through the ureter into the bladder.",
        "Kidneys filter blood.",
        "too_short",
    ),
    ("The wound is clean.", "The wound is clean, " * 6, "too_long"),
    ("Se administran 5 mg de morfina.", "Se administran 5 g de morfina.", "unit_changed"),
    ("Una dosis cada 8 horas.", "Una dosis cada 6 horas.", "number_lost"),
    ("No se debe dar aspirina.", "Se debe dar aspirina.", "negation_changed"),
    ("Dar enalapril.", "Dar losartán.", "drug_added"),
    ("A high potassium is dangerous.", "A low potassium is dangerous.", "opposite"),
    ("The left kidney is enlarged.", "The right kidney is enlarged.", "opposite"),
]

MISSED = [
    ("The wound is wet.", "The wound is dry.", "an opposite that is not listed"),
    ("It is treated with Zypadhera.", "It is treated with Xeplion.", "rare brand names"),
]

FALSE_ALARMS = [
    ("Stay in bed.", "Do not leave your bed.", "the same said by its opposite"),
    ("Give 500 mg twice daily.", "Give 1 g a day in two doses.", "sums of doses are not worked out"),
]


@pytest.mark.parametrize(("original", "rewording"), ACCEPTABLE)
def test_rewording_is_accepted_in_both_directions(original, rewording):
    assert check(original, rewording) == []
    assert check(rewording, original) == []


@pytest.mark.parametrize(("original", "rewording", "fault"), FAULTY)
def test_fault_is_found(original, rewording, fault):
    assert fault in {finding.fault.value for finding in check(original, rewording)}


@pytest.mark.parametrize(("original", "rewording", "why"), MISSED)
def test_what_is_known_to_be_missed(original, rewording, why):
    assert check(original, rewording) == [], why


@pytest.mark.parametrize(("original", "rewording", "why"), FALSE_ALARMS)
def test_what_is_known_to_be_reported_wrongly(original, rewording, why):
    assert check(original, rewording) != [], why
