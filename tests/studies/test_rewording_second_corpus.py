"""A second set of rewordings, written without a look at the checks or at the first set.

How the checks did on it before anything was mended for it stands in `FIRST_RUN`. What they still get wrong is listed
as such and checked too, so that a list of known gaps cannot grow old unseen.
"""

from __future__ import annotations

import pytest

from lm_eval_healthcare.studies.rewording.checks import check
from lm_eval_healthcare.studies.rewording.rules import apply_rule


def faults(original: str, rewording: str, language: str = "en") -> list[str]:
    return [f"{finding.fault.value}: {finding.detail}" for finding in check(original, rewording, language=language)]


def _language(name: str) -> str:
    return "es" if name.startswith("es_") or "spanish" in name else "en"


ACCEPTABLE_ENGLISH = {
    "cap": (
        "For community-acquired pneumonia, amoxicillin 1 g three times daily for 5 days is recommended. If the "
        "patient is allergic to penicillin, doxycycline 100 mg twice daily is an alternative.",
        "Community-acquired pneumonia should be treated with amoxicillin at a dose of 1 g TID over five days. In "
        "people with a penicillin allergy, doxycycline 100 mg BID may be used instead.",
    ),
    "metformin": (
        "Metformin is contraindicated when the eGFR is below 30 mL/min/1.73 m2. Between 30 and 45, the dose should "
        "be halved.",
        "Patients whose eGFR is under 30 mL/min/1.73 m² should not receive metformin, and the dose ought to be "
        "reduced by half at values of 30-45.",
    ),
    "hyperkalemia": (
        "A potassium of 6.8 mEq/L with peaked T waves is an emergency. Give 10 mL of 10% calcium gluconate IV over 3 "
        "minutes, then 10 units of regular insulin with 25 g of dextrose.",
        "When potassium is 6.8 mEq/L and the T waves are peaked, this is an emergency: administer calcium gluconate "
        "10% (10 mL intravenously in 3 minutes), followed by regular insulin, 10 units, together with 25 g dextrose.",
    ),
    "fever": (
        "Any infant younger than 28 days with a rectal temperature of 38.0 °C or higher needs a full sepsis work-up.",
        "A complete sepsis evaluation is required for every baby under 28 days of age who has a rectal temperature "
        "of at least 38 °C.",
    ),
    "hba1c": (
        "An HbA1c of 6.5% or more on two occasions is diagnostic of diabetes, whereas 5.7 to 6.4% indicates "
        "prediabetes.",
        "Diabetes is diagnosed by two HbA1c readings at or above 6.5%; values from 5.7% to 6.4% point to prediabetes.",
    ),
    "warfarin_brand": (
        "Coumadin should be stopped 5 days before surgery and the INR checked the day before.",
        "Warfarin ought to be discontinued five days prior to the operation, with an INR measured on the preceding "
        "day.",
    ),
    "ibuprofen_brand": (
        "You can take Advil 400 mg every 6 to 8 hours with food, but do not exceed 1200 mg in 24 hours without "
        "medical advice.",
        "Ibuprofen may be taken with food at 400 mg every 6-8 hours. Without advice from a doctor, the daily total "
        "should not be more than 1,200 mg.",
    ),
    "negation_moved": (
        "There is no evidence that antibiotics shorten the course of acute bronchitis.",
        "Antibiotics have not been shown to shorten the course of acute bronchitis.",
    ),
    "negation_to_word": (
        "The drug is not effective against Pseudomonas and should not be used alone in septic patients.",
        "The drug is ineffective against Pseudomonas and must not be given as monotherapy to patients with sepsis.",
    ),
    "absent": (
        "The patient has no fever, no cough and no shortness of breath.",
        "The patient denies fever, cough, and dyspnea.",
    ),
    "without": (
        "The mass was removed without complications, and margins were negative.",
        "Removal of the mass was uncomplicated, with negative margins.",
    ),
    "active_passive": (
        "The surgeon removed the inflamed appendix laparoscopically and closed the port sites with absorbable sutures.",
        "The inflamed appendix was taken out by laparoscopy, and absorbable sutures were used to close the port sites.",
    ),
    "list_to_prose": (
        "Common side effects of lisinopril include:\n1. Dry cough (about 10% of patients)\n2. Hyperkalemia\n3. "
        "Dizziness\n4. Angioedema (rare)",
        "Lisinopril frequently causes a dry cough, seen in roughly 10% of patients, as well as hyperkalemia and "
        "dizziness; angioedema is a rare side effect.",
    ),
    "prose_to_list": (
        "The management of DKA consists of fluids, insulin at 0.1 units/kg/h, and replacement of potassium once it "
        "falls below 5.3 mEq/L.",
        "DKA is managed as follows:\n- Intravenous fluids\n- Insulin infusion at 0.1 units/kg/hour\n- Potassium "
        "replacement when the level drops under 5.3 mEq/L",
    ),
    "abbreviations": (
        "A pt with COPD and a hx of MI presents with SOB; BP 150/95 mmHg, HR 110 bpm, SpO2 88% on RA.",
        "A patient with chronic obstructive pulmonary disease and a prior myocardial infarction comes in with "
        "shortness of breath. Blood pressure is 150/95 mmHg, heart rate 110 beats per minute, and oxygen saturation "
        "88% on room air.",
    ),
    "age": (
        "The most likely diagnosis in this 65-year-old man is temporal arteritis, given the ESR of 95 mm/h.",
        "Given an erythrocyte sedimentation rate of 95 mm/hour, temporal arteritis is the likeliest diagnosis in "
        "this man aged 65.",
    ),
    "pediatric_dose": (
        "Give paracetamol 15 mg/kg every 4 to 6 hours, up to a maximum of four doses per day.",
        "Acetaminophen should be given at 15 mg per kg every 4–6 hours, with no more than 4 doses in a day.",
    ),
    "half_life": (
        "Amiodarone has a half-life of about 58 days, so its effects persist for weeks to months after it is stopped.",
        "Because amiodarone's half-life is around 58 days, its effects last for weeks or even months once treatment "
        "ends.",
    ),
    "aspirin": (
        "Low-dose aspirin, 81 mg once a day, should be started at 12 weeks of gestation in women at high risk of "
        "preeclampsia.",
        "Women with a high preeclampsia risk should begin aspirin 81 mg daily from the 12th week of pregnancy.",
    ),
    "vaccine": (
        "The MMR vaccine is given at 12-15 months and again at 4-6 years. It is a live vaccine, so pregnant women "
        "cannot receive it.",
        "Children receive the MMR vaccine between 12 and 15 months of age, with a second dose at age 4 to 6 years. "
        "Being live, it must not be given during pregnancy.",
    ),
    "mechanism": (
        "Omeprazole irreversibly inhibits the H+/K+ ATPase of parietal cells, which reduces acid secretion.",
        "By irreversibly blocking the H+/K+ ATPase in parietal cells, omeprazole lowers the secretion of acid.",
    ),
    "stroke_window": (
        "Alteplase (0.9 mg/kg, maximum 90 mg) can be given up to 4.5 hours after symptom onset. Ten percent is given "
        "as a bolus over 1 minute and the rest over 60 minutes.",
        "Within 4.5 hours of the onset of symptoms, tPA may be administered at 0.9 mg/kg (max. 90 mg): 10% as a "
        "1-minute bolus, the remainder infused over an hour.",
    ),
    "unless": (
        "Antibiotics are not needed unless symptoms last longer than 10 days.",
        "Antibiotics are only needed if symptoms persist for more than 10 days.",
    ),
    "thyroid": (
        "Start levothyroxine at 1.6 mcg/kg per day and recheck TSH in 6 weeks.",
        "Levothyroxine is begun at 1.6 µg/kg/day, and the TSH is measured again after six weeks.",
    ),
    "fraction": (
        "Roughly one third of patients relapse within 2 years.",
        "About a third of patients have a relapse in the first two years.",
    ),
    "percentage_words": (
        "About 50% of carriers develop the disease by the age of 70.",
        "Approximately half of all carriers will have developed the disease by age 70.",
    ),
    "sepsis": (
        "Give 30 mL/kg of crystalloid within the first 3 hours and aim for a MAP of at least 65 mmHg. Norepinephrine "
        "is the first-line vasopressor.",
        "Within the first three hours, crystalloid should be infused at 30 ml/kg, targeting a mean arterial pressure "
        "of ≥65 mm Hg. Noradrenaline is the vasopressor of first choice.",
    ),
    "smoking": (
        "He has smoked 1 pack per day for 30 years, so he qualifies for annual low-dose CT screening until age 80.",
        "With a history of one pack a day over 30 years, he is eligible for low-dose CT screening each year until he "
        "is 80.",
    ),
    "contra": (
        "Beta blockers are contraindicated in cocaine-induced chest pain; benzodiazepines are first line.",
        "In chest pain caused by cocaine, beta-blockers should be avoided, and benzodiazepines are the treatment of "
        "choice.",
    ),
    "epinephrine": (
        "Inject 0.3 mg of epinephrine intramuscularly into the lateral thigh; repeat every 5-15 minutes if there is "
        "no response.",
        "Adrenaline 0.3 mg is injected into the outer thigh muscle, and the dose is repeated every 5 to 15 minutes "
        "when the patient fails to respond.",
    ),
    "anatomy": (
        "The left recurrent laryngeal nerve hooks around the aortic arch, while the right one loops under the "
        "subclavian artery.",
        "Whereas the right recurrent laryngeal nerve passes beneath the subclavian artery, the left one curves "
        "around the arch of the aorta.",
    ),
    "weight": (
        "She weighs 70 kg and is 1.65 m tall, giving a BMI of 25.7 kg/m2.",
        "Her BMI is 25.7 kg/m², as she weighs 70 kilograms and measures 165 cm.",
    ),
    "lab_list": (
        "Laboratory values: Na 128 mmol/L, K 3.2 mmol/L, glucose 110 mg/dL, creatinine 0.9 mg/dL.",
        "The lab results show sodium at 128 mmol/L, potassium at 3.2 mmol/L, glucose of 110 mg/dL and a creatinine "
        "of 0.9 mg/dL.",
    ),
    "patient_talk": (
        "I'm sorry to hear about your headaches. They don't sound dangerous, but if you develop a stiff neck or a "
        "fever above 101 °F, please see a doctor right away.",
        "I am sorry you have been having headaches. Although they do not appear to be dangerous, see a doctor "
        "immediately if your neck becomes stiff or your temperature goes over 101 °F.",
    ),
    "uncertain": (
        "I cannot diagnose you without an examination, but this rash is most likely not contagious.",
        "Without examining you, I am unable to make a diagnosis; however, this rash is probably not contagious.",
    ),
    "type2": (
        "In type 2 diabetes with stage 3 chronic kidney disease, an SGLT2 inhibitor such as empagliflozin 10 mg "
        "daily slows progression.",
        "Progression is slowed by an SGLT2 inhibitor, for example empagliflozin 10 mg once daily, in patients who "
        "have type 2 diabetes and CKD stage 3.",
    ),
    "gcs": (
        "A GCS of 8 or less means the airway should be secured by intubation.",
        "Intubation to protect the airway is advised when the Glasgow Coma Scale score is ≤ 8.",
    ),
    "b12": (
        "Vitamin B12 deficiency is treated with 1000 mcg of cyanocobalamin IM daily for 1 week, then weekly for 4 "
        "weeks.",
        "For vitamin B12 deficiency, give intramuscular cyanocobalamin 1 mg every day for a week, followed by "
        "once-weekly injections for four weeks.",
    ),
    "double_negation": (
        "It is not uncommon for patients to experience nausea during the first days.",
        "Patients commonly experience nausea in the first few days.",
    ),
    "rarely": (
        "Febrile seizures rarely cause long-term harm and do not require anticonvulsants.",
        "Long-term harm from febrile seizures is rare, and anticonvulsant treatment is not required.",
    ),
    "trial": (
        "In the trial, mortality fell from 26% to 21% (p = 0.001), with a number needed to treat of 20.",
        "Mortality in the trial dropped from 26% to 21% (p=0.001), so 20 patients need to be treated to save one.",
    ),
    "heparin": (
        "Enoxaparin 40 mg SC once daily should be continued for up to 35 days after hip replacement.",
        "After a hip replacement, subcutaneous enoxaparin (40 mg/day) is to be kept up for as long as 35 days.",
    ),
    "pregnancy": (
        "ACE inhibitors must be avoided in pregnancy because they cause fetal renal damage; labetalol or methyldopa "
        "are safe options.",
        "Since ACE inhibitors damage the fetal kidneys, they should not be used in pregnant women, for whom "
        "labetalol and methyldopa are safe choices.",
    ),
    "eye": (
        "Acute angle-closure glaucoma presents with a painful red eye and a mid-dilated pupil that does not react to "
        "light.",
        "A painful, red eye with a mid-dilated pupil unreactive to light is how acute angle-closure glaucoma presents.",
    ),
    "time": (
        "Symptoms usually resolve in 1 to 2 weeks without treatment, although fatigue may last for 3 months.",
        "Even untreated, symptoms generally clear up within one to two weeks, but tiredness can go on for three "
        "months.",
    ),
}

ACCEPTABLE_SPANISH = {
    "paracetamol": (
        "Se recomienda paracetamol 500 mg cada 8 horas durante 3 días, sin superar los 4 g al día.",
        "La recomendación es tomar 500 mg de paracetamol cada ocho horas a lo largo de tres días; no se deben "
        "sobrepasar 4 g diarios.",
    ),
    "metformina": (
        "La metformina está contraindicada si el filtrado glomerular es inferior a 30 ml/min.",
        "No debe usarse metformina cuando el filtrado glomerular está por debajo de 30 ml/min.",
    ),
    "amoxicilina": (
        "El tratamiento de elección es la amoxicilina-ácido clavulánico 875/125 mg cada 12 horas durante 7 días.",
        "Se trata de elección con amoxicilina y ácido clavulánico, 875/125 mg cada doce horas, una semana.",
    ),
    "edad": (
        "Mujer de 45 años con una hemoglobina de 9,5 g/dl y un VCM de 70 fl: lo más probable es una anemia "
        "ferropénica.",
        "En una mujer de 45 años cuya hemoglobina es de 9,5 g/dL y cuyo VCM es de 70 fL, la anemia ferropénica es lo "
        "más probable.",
    ),
    "sin_fiebre": (
        "El paciente no presenta fiebre ni tos, y la auscultación es normal.",
        "El paciente está sin fiebre y sin tos, con una auscultación normal.",
    ),
    "vacuna": (
        "La vacuna de la gripe se administra una vez al año a los mayores de 65 años y a las embarazadas.",
        "Las embarazadas y las personas de más de 65 años reciben anualmente la vacuna de la gripe.",
    ),
    "ibuprofeno": (
        "El ibuprofeno (600 mg cada 8 horas) no se debe tomar con el estómago vacío.",
        "Conviene no tomar ibuprofeno en ayunas; la dosis es de 600 mg cada 8 h.",
    ),
    "porcentaje": (
        "Aproximadamente el 20 % de los pacientes presenta recaídas en los dos primeros años.",
        "Cerca de un 20% de los pacientes recae durante los 2 primeros años.",
    ),
    "insulina": (
        "Se inicia insulina glargina a 0,2 UI/kg/día y se ajusta cada 3 días hasta lograr una glucemia en ayunas de "
        "80 a 130 mg/dl.",
        "La insulina glargina se comienza con 0,2 UI/kg al día, con ajustes cada tres días hasta una glucemia en "
        "ayunas entre 80 y 130 mg/dL.",
    ),
    "lista": (
        "Los signos de alarma son:\n1. Fiebre superior a 38 °C\n2. Rigidez de nuca\n3. Vómitos persistentes",
        "Son signos de alarma la fiebre de más de 38 °C, la rigidez de nuca y los vómitos que persisten.",
    ),
    "hta": (
        "El objetivo de presión arterial es inferior a 140/90 mmHg en la mayoría de los pacientes hipertensos.",
        "En la mayor parte de los hipertensos se busca una tensión arterial menor de 140/90 mmHg.",
    ),
    "negacion_evidencia": (
        "No hay evidencia de que los antibióticos sean útiles en el resfriado común.",
        "La utilidad de los antibióticos en el resfriado común no está demostrada.",
    ),
    "enfermera": (
        "La enfermera debe cambiar el apósito cada 48 horas y vigilar la aparición de eritema.",
        "El apósito será cambiado por la enfermera cada 48 h, y se vigilará si aparece eritema.",
    ),
    "ineficaz": (
        "Este fármaco no es eficaz frente a los virus y puede causar diarrea en 1 de cada 10 pacientes.",
        "Frente a los virus este medicamento es ineficaz, y uno de cada diez pacientes puede tener diarrea.",
    ),
    "psico": (
        "La terapia cognitivo-conductual consta de 12 a 16 sesiones semanales de una hora.",
        "Una terapia cognitivo-conductual comprende entre 12 y 16 sesiones, de 60 minutos cada semana.",
    ),
}

FAULTY = {
    "dose_tenfold": (
        "Start with digoxin 0.125 mg once daily in elderly patients.",
        "In older patients, digoxin should be begun at 1.25 mg once a day.",
    ),
    "dose_tenfold_morphine": (
        "Morphine 2.5 mg IV may be repeated every 10 minutes.",
        "Intravenous morphine can be repeated every ten minutes at 25 mg.",
    ),
    "dose_tenfold_spanish": (
        "Se administran 0,5 mg de adrenalina por vía intramuscular.",
        "La adrenalina se administra por vía intramuscular a dosis de 5 mg.",
    ),
    "dose_doubled": (
        "Prednisone 40 mg daily for 5 days is the usual course for a COPD exacerbation.",
        "A COPD exacerbation is usually treated with a 5-day course of prednisone, 80 mg per day.",
    ),
    "mg_to_mcg": (
        "Levothyroxine 100 mcg each morning before breakfast.",
        "Every morning before breakfast, take levothyroxine 100 mg.",
    ),
    "mg_to_g": (
        "Vancomycin 125 mg orally four times daily for 10 days is first line.",
        "First-line therapy is oral vancomycin 125 g four times a day over 10 days.",
    ),
    "celsius_fahrenheit": (
        "Seek care if the temperature exceeds 39 °C.",
        "Medical care is needed if the temperature goes above 39 °F.",
    ),
    "mmol_mgdl": (
        "A fasting glucose of 7.0 mmol/L or higher is diagnostic.",
        "The diagnosis is made when fasting glucose is at least 7.0 mg/dL.",
    ),
    "hours_days": (
        "Repeat the troponin after 3 hours.",
        "Troponin should be measured again after 3 days.",
    ),
    "per_kg_lost": (
        "Gentamicin 5 mg/kg is given once daily.",
        "Once a day, gentamicin 5 mg is administered.",
    ),
    "per_hour_per_day": (
        "Run maintenance fluid at 100 mL per hour.",
        "Maintenance fluid should run at 100 mL per day.",
    ),
    "frequency_weekly_daily": (
        "Methotrexate 15 mg is taken once weekly.",
        "Methotrexate is taken at 15 mg once daily.",
    ),
    "frequency_bid_tid": (
        "Take cephalexin 500 mg BID for a week.",
        "For one week, cephalexin 500 mg is taken three times daily.",
    ),
    "frequency_every_hours": (
        "Oxycodone 5 mg every 6 hours as needed for pain.",
        "For pain, oxycodone 5 mg can be used every 4 hours when needed.",
    ),
    "frequency_spanish": (
        "Tome enalapril 10 mg una vez al día.",
        "El enalapril de 10 mg se toma dos veces al día.",
    ),
    "duration": (
        "Treat streptococcal pharyngitis with penicillin V for 10 days.",
        "Streptococcal pharyngitis is treated with penicillin V over 5 days.",
    ),
    "range_end": (
        "The normal potassium range is 3.5 to 5.0 mmol/L.",
        "Normally, potassium is between 3.5 and 6.0 mmol/L.",
    ),
    "percent": (
        "The sensitivity of the test is 95% and its specificity 90%.",
        "The test is 95% sensitive and 80% specific.",
    ),
    "percent_swapped": (
        "The sensitivity of the test is 95% and its specificity 80%.",
        "The test has a sensitivity of 80% and a specificity of 95%.",
    ),
    "age_changed": (
        "Screening colonoscopy should begin at age 45.",
        "Colonoscopy for screening ought to start at the age of 54.",
    ),
    "lookalike_hydroxyzine": (
        "Hydroxyzine 25 mg at bedtime can relieve the itching.",
        "The itching can be relieved with hydralazine 25 mg at bedtime.",
    ),
    "lookalike_celebrex": (
        "Celebrex 200 mg daily may be used for her osteoarthritis.",
        "For her osteoarthritis, Celexa 200 mg a day may be used.",
    ),
    "lookalike_clonidine": (
        "Clonidine is an option for refractory hypertension.",
        "For refractory hypertension, clonazepam is one option.",
    ),
    "lookalike_prednisone": (
        "Give prednisolone 1 mg/kg to children with a severe exacerbation.",
        "Children having a severe exacerbation should get propranolol 1 mg/kg.",
    ),
    "lookalike_lamictal": (
        "Lamotrigine must be titrated slowly to prevent a severe rash.",
        "To prevent a severe rash, terbinafine must be titrated slowly.",
    ),
    "lookalike_vin": (
        "Vincristine is fatal if given intrathecally.",
        "Intrathecal vinblastine is fatal.",
    ),
    "drug_spanish": (
        "Se recomienda tratar con losartán 50 mg diarios.",
        "El tratamiento recomendado es lorazepam, 50 mg al día.",
    ),
    "drug_added": (
        "Treat the urinary tract infection with nitrofurantoin.",
        "The urinary tract infection should be treated with nitrofurantoin or ciprofloxacin.",
    ),
    "number_moved": (
        "Combine amlodipine 5 mg with ramipril 10 mg daily.",
        "Amlodipine 10 mg should be combined with ramipril 5 mg daily.",
    ),
    "number_moved_labs": (
        "Sodium is 130 mmol/L and chloride is 95 mmol/L.",
        "The chloride is 130 mmol/L and the sodium 95 mmol/L.",
    ),
    "negation_dropped": (
        "Patients on MAO inhibitors should not take meperidine.",
        "Patients taking MAO inhibitors should take meperidine.",
    ),
    "negation_added": (
        "Breastfeeding is safe while taking sertraline.",
        "Breastfeeding is not safe while sertraline is taken.",
    ),
    "negation_dropped_evidence": (
        "There is no evidence of metastasis on the CT scan.",
        "The CT scan shows evidence of metastasis.",
    ),
    "negation_dropped_without": (
        "She has chest pain without radiation to the arm.",
        "She has chest pain radiating to the arm.",
    ),
    "negation_never": (
        "Potassium chloride must never be given as an IV bolus.",
        "Potassium chloride must always be given as an IV bolus.",
    ),
    "negation_spanish": (
        "No se debe administrar aspirina a niños con varicela.",
        "Se debe administrar aspirina a los niños con varicela.",
    ),
    "negation_spanish_added": (
        "La lactancia materna es compatible con este tratamiento.",
        "La lactancia materna no es compatible con este tratamiento.",
    ),
    "negation_un": (
        "The fracture is stable and can be treated with a cast.",
        "The fracture is unstable and can be treated with a cast.",
    ),
    "negation_moved_wrongly": (
        "The rash is not dangerous, but it is contagious.",
        "The rash is dangerous, but it is not contagious.",
    ),
    "contraindicated": (
        "Thrombolysis is contraindicated in patients with recent intracranial surgery.",
        "In patients with recent intracranial surgery, thrombolysis is indicated.",
    ),
    "contraindicated_spanish": (
        "Los betabloqueantes están contraindicados en el asma grave.",
        "En el asma grave están indicados los betabloqueantes.",
    ),
    "left_right": (
        "The effusion is in the left lung, so the drain was placed on the left side.",
        "As the effusion is in the right lung, a drain was put in on the right side.",
    ),
    "left_right_spanish": (
        "Presenta dolor en la fosa ilíaca derecha con rebote positivo.",
        "Hay dolor con rebote positivo en la fosa ilíaca izquierda.",
    ),
    "increase_decrease": (
        "Rifampicin increases the clearance of oral contraceptives.",
        "The clearance of oral contraceptives is decreased by rifampicin.",
    ),
    "lower_higher": (
        "Patients in the statin group had a lower risk of stroke.",
        "The risk of stroke was higher in the statin group.",
    ),
    "at_least_at_most": (
        "Drink at least 2 liters of fluid per day.",
        "You should drink at most 2 liters of fluid a day.",
    ),
    "above_below": (
        "Transfuse when hemoglobin falls below 7 g/dL.",
        "Transfusion is needed when hemoglobin is above 7 g/dL.",
    ),
    "more_less_spanish": (
        "Se indica cirugía si el aneurisma mide más de 5,5 cm.",
        "La cirugía está indicada cuando el aneurisma mide menos de 5,5 cm.",
    ),
    "benign_malignant": (
        "The biopsy showed a benign lesion that needs no further treatment.",
        "A malignant lesion that needs no further treatment was found on biopsy.",
    ),
    "before_after": (
        "Take the tablet 30 minutes before meals.",
        "The tablet is taken 30 minutes after meals.",
    ),
    "answered_anew": (
        "Iron deficiency is the most likely cause of her anemia.",
        "The answer is B. Thalassemia minor usually presents with microcytosis and a normal iron level, which is why "
        "hemoglobin electrophoresis is the next step.",
    ),
    "answered_anew_short": (
        "The next step is an MRI of the spine, because cauda equina syndrome must be ruled out quickly.",
        "The best answer to this question is a lumbar puncture, since meningitis has to be excluded first.",
    ),
    "refusal": (
        "Take two tablets of ibuprofen 200 mg every six hours.",
        "I'm sorry, but I can't help with rewriting medical advice. Please consult a healthcare professional.",
    ),
    "refusal_spanish": (
        "El tratamiento consiste en reposo, hielo y analgésicos.",
        "Lo siento, no puedo ayudarte con esa solicitud porque soy un modelo de lenguaje.",
    ),
    "commentary": (
        "Hydrate well and rest until the fever is gone.",
        "Rest and drink plenty until the fever has passed.\n\nNote: I have kept the meaning of the text and changed "
        "only its wording.",
    ),
    "preamble": (
        "The treatment of choice for anaphylaxis is intramuscular epinephrine.",
        "Sure! Here is a reworded version of the text: Intramuscular epinephrine is the treatment of choice for "
        "anaphylaxis.",
    ),
    "options": (
        "Gout is caused by the deposition of urate crystals in joints.",
        "Option 1: Urate crystals that settle in joints cause gout.\nOption 2: Gout arises when urate crystals are "
        "deposited in joints.",
    ),
    "translated": (
        "The patient should rest for two weeks and avoid lifting heavy objects.",
        "El paciente debe descansar durante dos semanas y evitar levantar objetos pesados.",
    ),
    "translated_spanish": (
        "El diagnóstico más probable es una apendicitis aguda, por lo que se debe consultar con cirugía.",
        "The most likely diagnosis is acute appendicitis, so surgery should be consulted.",
    ),
    "cut": (
        "Lithium levels should be checked five days after each change of dose, and thyroid and renal function every "
        "six months.",
        "After every dose change, lithium levels ought to be measured at five days, while thyroid and kidney "
        "function are checked every six months by means of",
    ),
}


# Longer answers, written before the first change as well.
LONG_ACCEPTABLE = {
    "copd": (
        "Your symptoms are consistent with an exacerbation of COPD. I would suggest using your salbutamol inhaler, 2 "
        "puffs every 4 hours, and starting prednisone 40 mg once daily for 5 days. If you are not better within 48 "
        "hours, or if your lips turn blue, go to the emergency department. Do not smoke.",
        "What you describe fits a COPD exacerbation. My suggestion is to take two puffs of albuterol every four "
        "hours and to begin a 5-day course of prednisone at 40 mg daily. Please go to the emergency department if "
        "there is no improvement after 48 hours or your lips become blue, and refrain from smoking.",
    ),
    "preeclampsia": (
        "This woman has preeclampsia with severe features because her blood pressure is 168/112 mmHg and her "
        "platelets are 88,000/µL. Magnesium sulfate should be given as a 4 g loading dose over 20 minutes followed "
        "by 1 g per hour. Labetalol 20 mg IV lowers the blood pressure. Methylergonovine must not be used. Delivery "
        "is indicated at 34 weeks or later.",
        "With a blood pressure of 168/112 mmHg and a platelet count of 88 000 per µL, this patient meets criteria "
        "for severe preeclampsia. She needs magnesium sulfate: 4 g to load over 20 min, then 1 g/h. Intravenous "
        "labetalol, 20 mg, is used to bring the pressure down, whereas methylergonovine should be avoided. From 34 "
        "weeks onwards, delivery is recommended.",
    ),
    "warfarin": (
        "Warfarin inhibits vitamin K epoxide reductase, which lowers the levels of factors II, VII, IX and X. "
        "Because factor VII has the shortest half-life, the INR rises first, but full anticoagulation takes about 5 "
        "days. Heparin is therefore continued until the INR has been above 2 for 24 hours.",
        "By blocking vitamin K epoxide reductase, warfarin reduces factors II, VII, IX, and X. The INR goes up "
        "early, since factor VII is the one with the shortest half-life; complete anticoagulation, however, is only "
        "reached after roughly five days. That is why heparin is kept going until the INR has stayed over 2 for 24 h.",
    ),
    "kid_fever": (
        "Thanks for your question. A temperature of 38.5 °C in a 3-year-old is not dangerous in itself. You can give "
        "150 mg of ibuprofen every 8 hours if she is uncomfortable, but there is no need to wake her for it. See "
        "your doctor if the fever lasts more than 3 days, or if she has a rash that does not fade when pressed.",
        "Thank you for asking. In a child of 3 years, 38.5 °C is by itself no danger. If she feels unwell, ibuprofen "
        "150 mg may be given every eight hours; waking her up for it isn't necessary. Please have her seen by a "
        "doctor when the fever goes on for over three days or a rash appears which doesn't blanch on pressure.",
    ),
    "anemia": (
        "The patient has a hemoglobin of 8.2 g/dL, an MCV of 72 fL and a ferritin of 6 ng/mL. These findings "
        "indicate iron deficiency anemia. Since he is 62 years old and has no obvious source of bleeding, "
        "colonoscopy is needed to exclude colorectal cancer. Start ferrous sulfate 325 mg every other day.",
        "Hemoglobin is 8.2 g/dL, MCV 72 fL, and ferritin 6 ng/mL, so the anemia is due to iron deficiency. As this "
        "62-year-old man has no apparent bleeding source, colorectal cancer must be ruled out by colonoscopy. "
        "Ferrous sulfate 325 mg on alternate days should be begun.",
    ),
    "renal": (
        "In renal impairment, reduce the dose of enoxaparin to 1 mg/kg once daily when the creatinine clearance is "
        "below 30 mL/min. No adjustment is needed above this value. Monitor platelets, as heparin-induced "
        "thrombocytopenia typically appears 5 to 10 days after starting treatment.",
        "When creatinine clearance falls under 30 mL/min, enoxaparin must be lowered to 1 mg/kg once a day; above "
        "that level, the dose need not be changed. Platelet counts should be followed because heparin-induced "
        "thrombocytopenia usually develops between day 5 and day 10 of therapy.",
    ),
    "mdd": (
        "Sertraline 50 mg once daily is a reasonable first choice for major depression. It may take 4-6 weeks before "
        "you notice any benefit, so please don't stop it early. Common side effects are nausea, insomnia and sexual "
        "dysfunction. It must not be combined with an MAOI, and at least 14 days should pass between the two.",
        "For major depression, a sensible first option is sertraline at 50 mg per day. Please keep taking it even if "
        "you feel no benefit for the first four to six weeks. Frequent adverse effects include nausea, "
        "sleeplessness, and sexual problems. Never combine it with a monoamine oxidase inhibitor; an interval of no "
        "less than 14 days is required.",
    ),
    "acetaminophen": (
        "For an adult with acetaminophen overdose, give N-acetylcysteine 150 mg/kg IV over 60 minutes, then 50 mg/kg "
        "over 4 hours and 100 mg/kg over 16 hours. It is most effective if started within 8 hours of ingestion.",
        "Adults who overdosed on paracetamol should receive intravenous acetylcysteine: 150 mg/kg in the first hour, "
        "50 mg/kg over the next 4 h, and 100 mg/kg over the following 16 h. The benefit is greatest when treatment "
        "begins within eight hours of ingestion.",
    ),
    "stemi": (
        "A 58-year-old man with ST elevation in II, III and aVF has an inferior STEMI. Right-sided leads should be "
        "recorded, because nitroglycerin can cause severe hypotension if the right ventricle is involved. Give "
        "aspirin 325 mg and ticagrelor 180 mg, and take him to the cath lab within 90 minutes.",
        "ST elevation in leads II, III, and aVF in a man aged 58 means inferior STEMI. Because nitroglycerin may "
        "lead to profound hypotension when the right ventricle is affected, a right-sided ECG is required. He should "
        "get 325 mg of aspirin plus 180 mg of ticagrelor and reach the catheterization laboratory in under 90 "
        "minutes.",
    ),
    "pcr": (
        "The test is negative, so you are unlikely to be infected. However, a negative result within the first 3 "
        "days does not rule out infection, and it should be repeated on day 5. Until then, avoid close contact with "
        "anyone older than 65.",
        "Since your test came back negative, infection is unlikely. Still, infection cannot be excluded by a "
        "negative result in the first three days; repeat the test on day 5. In the meantime, keep away from people "
        "over 65.",
    ),
    "osteo": (
        "1. Calcium 1200 mg per day\n2. Vitamin D 800 IU per day\n3. Alendronate 70 mg once weekly, taken with a "
        "full glass of water at least 30 minutes before breakfast\nAlendronate is not recommended if the eGFR is "
        "less than 35 mL/min.",
        "She should take calcium (1,200 mg daily), vitamin D (800 units a day), and alendronate 70 mg once a week, "
        "swallowed with a full glass of water no less than half an hour before breakfast. With an eGFR under 35 "
        "mL/min, alendronate is not advised.",
    ),
    "rcc": (
        "The most common cause of painless hematuria in a smoker over 50 is bladder cancer. Cystoscopy is the test "
        "of choice. Urine cytology has a low sensitivity (about 40%) for low-grade tumors, so a normal result does "
        "not exclude it.",
        "In smokers older than 50 with painless hematuria, bladder cancer is the leading cause, and cystoscopy is "
        "the preferred investigation. Because urine cytology detects only some 40% of low-grade tumors, it cannot be "
        "excluded by a normal finding.",
    ),
    "meniere": (
        "You do not need antibiotics for this. Most ear infections with effusion go away on their own in 3 months. "
        "If hearing is still reduced after that, or if she has had more than 3 infections in 6 months, tubes may be "
        "considered.",
        "Antibiotics aren't necessary here. Within three months, most ear effusions resolve by themselves. Tubes are "
        "an option when hearing remains impaired beyond that time or when there have been over three infections in "
        "half a year.",
    ),
    "genetics": (
        "Cystic fibrosis is inherited in an autosomal recessive manner. If both parents are carriers, each child has "
        "a 25% chance of being affected and a 50% chance of being a carrier. The most common mutation is F508del in "
        "the CFTR gene on chromosome 7.",
        "Inheritance of cystic fibrosis is autosomal recessive: where both parents carry the mutation, every child "
        "has a 1 in 4 risk of disease and a 50% probability of being a carrier. F508del in CFTR, a gene on "
        "chromosome 7, is the commonest mutation.",
    ),
    "hbv": (
        "HBsAg positive, anti-HBc IgM positive and anti-HBs negative indicates acute hepatitis B. A person who is "
        "only anti-HBs positive has been vaccinated. No antiviral treatment is needed in most adults, since more "
        "than 95% clear the virus.",
        "Acute hepatitis B is shown by positive HBsAg and anti-HBc IgM with negative anti-HBs, whereas isolated "
        "anti-HBs means vaccination. As over 95% of adults clear the virus, most do not require antivirals.",
    ),
    "es_dm": (
        "El paciente de 58 años tiene una diabetes tipo 2 mal controlada, con una HbA1c de 9,2 %. Se recomienda "
        "añadir empagliflozina 10 mg una vez al día a la metformina 850 mg cada 12 horas. No se debe usar si el "
        "filtrado es menor de 20 ml/min. Control en 3 meses.",
        "Este varón de 58 años presenta una diabetes tipo 2 con mal control (HbA1c 9,2%). A la metformina, 850 mg "
        "dos veces al día, conviene añadir 10 mg diarios de empagliflozina, que está contraindicada con un filtrado "
        "inferior a 20 mL/min. Se le revisará a los tres meses.",
    ),
    "es_lumbalgia": (
        "La lumbalgia aguda suele resolverse en 4 a 6 semanas. No es necesario hacer una radiografía si no hay "
        "signos de alarma, como pérdida de peso o fiebre. Puede tomar naproxeno 500 mg cada 12 horas con alimentos y "
        "debe evitar el reposo en cama.",
        "En la mayoría de los casos, la lumbalgia aguda desaparece entre las 4 y las 6 semanas. Si no existen signos "
        "de alarma (fiebre, pérdida de peso), la radiografía no hace falta. Se aconseja naproxeno 500 mg, con "
        "comida, dos veces al día y no permanecer en la cama.",
    ),
    "es_preop": (
        "Se debe suspender el clopidogrel 5 días antes de la cirugía y la aspirina se puede mantener. La enoxaparina "
        "40 mg se administra 12 horas antes de la intervención. El ayuno será de 6 horas para sólidos y 2 horas para "
        "líquidos claros.",
        "El clopidogrel se suspenderá cinco días antes de la intervención quirúrgica, mientras que el ácido "
        "acetilsalicílico puede continuar. Se ponen 40 mg de enoxaparina 12 h antes de operar. Hay que estar en "
        "ayunas 6 horas de sólidos y dos de líquidos claros.",
    ),
}
LONG_FAULTY = {
    "swap": (
        "For hypertension with heart failure, start lisinopril 10 mg daily and carvedilol 3.125 mg twice daily. "
        "Check potassium in 2 weeks.",
        "In hypertension with heart failure, begin lisinopril 3.125 mg twice daily and carvedilol 10 mg daily. "
        "Potassium is checked in two weeks.",
    ),
    "hypo_hyper": (
        "Hypokalemia is the most dangerous side effect of this diuretic, so potassium should be checked after 1 week "
        "and again after 4 weeks.",
        "This diuretic's most dangerous side effect is hyperkalemia; potassium should therefore be measured after "
        "one week and again at four weeks.",
    ),
    "side": (
        "The CT shows a 3 cm mass in the left kidney and simple cysts in the right one. Nephrectomy on the left is "
        "planned.",
        "On CT, the right kidney has a 3 cm mass and the left one has simple cysts. Nephrectomy on the right is "
        "planned.",
    ),
    "brady": (
        "Overdose of beta blockers causes bradycardia and hypotension; glucagon 5 mg IV is the antidote.",
        "Taking too many beta blockers leads to tachycardia and hypotension, for which glucagon 5 mg IV is the "
        "antidote.",
    ),
    "neg_in_long": (
        "The lesion is small and well defined. It does not enhance with contrast and has no calcifications. There "
        "are no enlarged lymph nodes. Follow-up in 6 months is enough.",
        "The lesion is small with clear borders. It enhances with contrast and has no calcifications. There are no "
        "enlarged lymph nodes. A follow-up in six months suffices.",
    ),
    "risk": (
        "Smokers have a higher risk of fracture after menopause, and smoking also delays healing by about 30%.",
        "After menopause, smokers have a lower risk of fracture, and smoking also delays healing by some 30%.",
    ),
    "dose_one_of_many": (
        "Rifampicin 600 mg, isoniazid 300 mg, pyrazinamide 1.5 g and ethambutol 1.2 g are given daily for 2 months.",
        "For two months, rifampicin 600 mg, isoniazid 300 mg, pyrazinamide 1.5 g and ethambutol 2.1 g are given "
        "every day.",
    ),
    "freq_one": (
        "Take cefuroxime 250 mg twice daily and paracetamol 1 g four times daily.",
        "Take cefuroxime 250 mg four times daily and paracetamol 1 g twice daily.",
    ),
    "es_hiper": (
        "La hiponatremia grave se corrige con suero salino al 3 %, sin subir más de 8 mmol/l en 24 horas.",
        "La hipernatremia grave se corrige con suero salino al 3 %, sin subir más de 8 mmol/l en 24 horas.",
    ),
    "es_izq": (
        "Se palpa una masa en la mama izquierda de 2 cm y se solicita una mamografía.",
        "Se solicita una mamografía por una masa de 2 cm en la mama derecha.",
    ),
    "es_aumenta": (
        "La furosemida aumenta la excreción de calcio y potasio por el riñón.",
        "La furosemida disminuye la excreción renal de calcio y potasio por el riñón.",
    ),
    "benign": (
        "The nodule is most likely benign, and ultrasound in 12 months is sufficient.",
        "Most likely the nodule is malignant, and an ultrasound in 12 months is sufficient.",
    ),
    "recessive": (
        "Wilson disease is autosomal recessive and caused by a mutation in ATP7B.",
        "Wilson disease, caused by a mutation in ATP7B, is autosomal dominant.",
    ),
    "arterial": (
        "A venous ulcer typically lies above the medial malleolus and is treated with compression.",
        "An arterial ulcer typically lies above the medial malleolus and is treated with compression.",
    ),
    "cut_long": (
        "Acute cholecystitis is treated with fasting, fluids, ceftriaxone 1 g daily and early cholecystectomy within "
        "72 hours. If the patient is unfit for surgery, drainage is an option.",
        "Treatment of acute cholecystitis consists of fasting, fluids, ceftriaxone 1 g daily and early "
        "cholecystectomy within 72 hours. In patients who are unfit for",
    ),
}

# Written after most changes had been made.
LAST_ACCEPTABLE = {
    "gout": (
        "For an acute gout flare, colchicine 1.2 mg followed by 0.6 mg one hour later is effective if begun within "
        "36 hours. NSAIDs are an alternative but should be avoided in patients with an eGFR below 60. Allopurinol "
        "should not be started for the first time without prophylaxis.",
        "An acute attack of gout responds to 1.2 mg of colchicine and a further 0.6 mg after an hour, provided it is "
        "started in the first 36 hours. When the eGFR is under 60, NSAIDs, which are the alternative, are best "
        "avoided. Do not initiate allopurinol unless prophylaxis is given.",
    ),
    "asthma": (
        "Your daughter's asthma does not seem to be well controlled, since she needs her rescue inhaler more than "
        "twice a week and wakes up at night. I would add a low-dose inhaled steroid, such as budesonide 200 mcg "
        "twice a day, and see her again in 4 weeks.",
        "Because your daughter uses her reliever over two times per week and wakes at night, her asthma appears "
        "poorly controlled. My advice is to add an inhaled corticosteroid in low dose, for instance 200 µg of "
        "budesonide BID, with a review in four weeks.",
    ),
    "pe": (
        "The Wells score is 4.5, so pulmonary embolism is likely and a D-dimer test would not help. CT pulmonary "
        "angiography is the next step. If it is contraindicated because of renal failure, a V/Q scan can be done "
        "instead. Start anticoagulation while waiting.",
        "With a Wells score of 4.5, pulmonary embolism is probable; D-dimer testing is therefore of no use, and CT "
        "pulmonary angiography should follow. A V/Q scan is the substitute when renal failure rules out CT. "
        "Anticoagulation is begun in the meantime.",
    ),
    "appendix": (
        "Appendicitis is the most common surgical emergency in children older than 5 years. Pain begins around the "
        "umbilicus and moves to the right lower quadrant within 12 to 24 hours. Perforation occurs in about 30% of "
        "cases, and in up to 80% of children younger than 3.",
        "In children over the age of 5, the commonest surgical emergency is appendicitis. Periumbilical pain shifts "
        "to the right lower quadrant over 12-24 hours. Some 30% of patients perforate, and as many as 80% of those "
        "under 3 years.",
    ),
    "statin": (
        "No, you should not stop your statin because of mild muscle aches. Check the CK first; if it is less than 4 "
        "times the upper limit of normal, the drug can be continued. Grapefruit juice raises the level of "
        "simvastatin and is best avoided.",
        "No. Mild muscle aches are not a reason to discontinue your statin. CK should be measured first, and "
        "treatment can go on when the value is under four times the upper normal limit. Avoid grapefruit juice, "
        "since it increases simvastatin levels.",
    ),
    "meningitis": (
        "Empirical therapy for bacterial meningitis in adults over 50 is vancomycin plus ceftriaxone 2 g every 12 "
        "hours plus ampicillin 2 g every 4 hours. Dexamethasone 10 mg every 6 hours should be given before or with "
        "the first dose of antibiotics. Lumbar puncture must not delay treatment.",
        "In adults above 50 years with suspected bacterial meningitis, empirical treatment consists of ceftriaxone "
        "(2 g q12h), ampicillin (2 g q4h) and vancomycin. Prior to, or together with, the first antibiotic dose, "
        "dexamethasone 10 mg is administered every six hours. Treatment must not be delayed by lumbar puncture.",
    ),
    "melanoma": (
        "The Breslow thickness is 0.8 mm without ulceration, so this is a stage IA melanoma. Wide excision with a "
        "margin of 1 cm is sufficient. Five-year survival is greater than 95%. Sentinel node biopsy is not routinely "
        "needed.",
        "This melanoma is stage IA: its Breslow thickness is 0.8 mm and it is not ulcerated. It is enough to excise "
        "it with 1 cm margins, and there is no routine need for sentinel node biopsy. More than 95% of patients are "
        "alive after five years.",
    ),
    "contraception": (
        "Combined oral contraceptives are contraindicated in women over 35 who smoke 15 or more cigarettes a day. A "
        "progestin-only pill or an IUD does not raise the risk of thrombosis. If a pill is missed by more than 24 "
        "hours, condoms should be used for 7 days.",
        "Women older than 35 years who smoke at least 15 cigarettes daily must not use combined oral contraceptives. "
        "Neither an intrauterine device nor a progestin-only pill increases thrombotic risk. After a delay of over "
        "24 hours in taking a pill, use condoms for one week.",
    ),
    "neonate": (
        "Physiologic jaundice appears after the first 24 hours of life, peaks on day 3 to 5, and never exceeds 15 "
        "mg/dL of total bilirubin. Jaundice within the first day is always pathologic.",
        "After the first 24 hours of life physiologic jaundice becomes visible; it is maximal on days 3-5 and total "
        "bilirubin does not go above 15 mg/dL. When jaundice is seen on the first day, it is always pathological.",
    ),
    "afib": (
        "His CHA2DS2-VASc score is 3 (hypertension, diabetes, age 68), so he should take apixaban 5 mg twice daily "
        "rather than aspirin. Rate control with metoprolol to fewer than 110 beats per minute is reasonable. There "
        "is no need for bridging before his dental work.",
        "Since he scores 3 on the CHA2DS2-VASc (68 years old, hypertension, diabetes), apixaban 5 mg BID is "
        "preferable to aspirin. It is reasonable to control the rate to under 110/min using metoprolol. Bridging is "
        "unnecessary before dental treatment.",
    ),
    "es_neumonia": (
        "La neumonía adquirida en la comunidad sin criterios de gravedad se trata con amoxicilina 1 g cada 8 horas "
        "durante 5 a 7 días. Si no hay mejoría en 72 horas, debe repetirse la radiografía. No es preciso el ingreso "
        "si el CURB-65 es de 0 o 1.",
        "En la neumonía de la comunidad que no cumple criterios de gravedad se da 1 g de amoxicilina tres veces al "
        "día, de 5 a 7 días. La radiografía se repetirá si a las 72 h el paciente no ha mejorado. Con un CURB-65 de "
        "0-1 puede evitarse el ingreso.",
    ),
    "es_tiroides": (
        "El hipotiroidismo subclínico con TSH menor de 10 mUI/l no suele requerir tratamiento en mayores de 70 años. "
        "La levotiroxina debe tomarse en ayunas, al menos 30 minutos antes del desayuno.",
        "En personas de más de 70 años, un hipotiroidismo subclínico con TSH inferior a 10 mUI/L habitualmente no "
        "necesita tratarse. La toma de levotiroxina se hace en ayunas, como mínimo media hora antes de desayunar.",
    ),
}
LAST_FAULTY = {
    "insulin": (
        "Insulin glargine 10 units at bedtime is a safe start; increase it by 2 units every 3 days.",
        "Starting with insulin glargine 100 units at bedtime is safe; it is raised by 2 units every 3 days.",
    ),
    "mcg": (
        "Fentanyl 50 mcg IV can be given before the procedure.",
        "Before the procedure, IV fentanyl 50 mg can be given.",
    ),
    "stop": (
        "Metformin need not be stopped before this CT, as no contrast is used. Drink plenty of water.",
        "Metformin needs to be stopped before this CT, as contrast is used. Drink plenty of water.",
    ),
    "drug": (
        "Carbamazepine is the drug of choice for trigeminal neuralgia and works in most patients.",
        "Carbimazole is the drug of choice in trigeminal neuralgia and works for most patients.",
    ),
    "knee": (
        "The pain is in her right knee and gets worse when she climbs stairs.",
        "The pain is located in her left knee and worsens when climbing stairs.",
    ),
    "threshold": (
        "Treat if the LDL is above 190 mg/dL or the patient is older than 40.",
        "Treatment is indicated with an LDL below 190 mg/dL or if the patient is older than 40.",
    ),
    "risk": (
        "Smoking increases the risk of postoperative infection and delays healing.",
        "The risk of infection after surgery is decreased by smoking, and healing is delayed.",
    ),
    "doses": (
        "She takes metoprolol 50 mg in the morning and atorvastatin 20 mg at night.",
        "In the morning she takes 20 mg of metoprolol, at night 50 mg of atorvastatin.",
    ),
    "es_dosis": (
        "La dosis habitual de digoxina es de 0,25 mg al día por vía oral.",
        "La digoxina se da habitualmente por vía oral a 25 mg al día.",
    ),
    "es_no": (
        "El paciente no es alérgico a la penicilina y puede recibir amoxicilina.",
        "El paciente es alérgico a la penicilina y puede recibir amoxicilina.",
    ),
}

KNOWN_MISSES = {"side"}
"""Two sides that changed places: both words stand in both texts."""
FIRST_RUN = {
    "short": {"false alarms": "7 of 60", "missed": "11 of 60"},
    "longer": {"false alarms": "6 of 18", "missed": "14 of 15, nearly all of kinds that were not looked for then"},
    "last": {"false alarms": "3 of 12", "missed": "1 of 10"},
}
"""What the checks got wrong on each set when they first saw it; afterwards they were mended with it in view."""

_ACCEPTABLE = [
    *((f"en {name}", *pair, "en") for name, pair in ACCEPTABLE_ENGLISH.items()),
    *((f"es {name}", *pair, "es") for name, pair in ACCEPTABLE_SPANISH.items()),
    *((name, *pair, _language(name)) for name, pair in (LONG_ACCEPTABLE | LAST_ACCEPTABLE).items()),
]
_FAULTY = [
    (f"{place} {name}", *pair, _language(name))
    for place, pairs in enumerate((FAULTY, LONG_FAULTY, LAST_FAULTY))
    for name, pair in pairs.items()
    if name not in KNOWN_MISSES
]


@pytest.mark.parametrize(("name", "original", "rewording", "language"), _ACCEPTABLE)
def test_rewording_is_accepted(name, original, rewording, language):
    assert faults(original, rewording, language) == [], name


@pytest.mark.parametrize(("name", "original", "rewording", "language"), _FAULTY)
def test_faulty_rewording_is_turned_down(name, original, rewording, language):
    assert faults(original, rewording, language) != [], name


@pytest.mark.parametrize("name", sorted(KNOWN_MISSES))
def test_what_is_known_to_be_missed(name):
    assert faults(*LONG_FAULTY[name]) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("number_moved", "number_moved"),
        ("percent_swapped", "number_moved"),
        ("left_right", "opposite"),
        ("increase_decrease", "opposite"),
        ("before_after", "opposite"),
        ("cut", "cut"),
        ("answered_anew_short", "answers_question"),
    ],
)
def test_fault_has_its_name(name, fault):
    assert [found.split(":")[0] for found in faults(*FAULTY[name])] == [fault]


@pytest.mark.parametrize(
    ("original", "rewording"),
    [
        ("A is higher in men than in women after treatment.", "After treatment A is lower in women than in men."),
        ("Wash the hands before touching the wound.", "The wound is touched after washing the hands."),
        ("Take at least 3 tablets of iron.", "Take 3 or more tablets of iron."),
        ("The tumor is benign.", "The tumor is not malignant."),
        ("The left lung is affected, not the right.", "It is not the right lung but the left that is affected."),
        ("Never operate without gloves.", "Always wear gloves when you operate."),
    ],
)
def test_opposite_words_may_say_the_same(original, rewording):
    assert faults(original, rewording) == []


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("punctuation", "Epstein–Barr virus causes it", "Epstein–Barr virus causes it."),
        ("punctuation", "Give rest; ice; and time.", "Give rest; ice; and time"),
        ("punctuation", "See https://example.org/a", None),
        ("case", "He saw Dr. Jones. Then he left.", "he saw Dr. Jones. then he left."),
        ("case", "A. Yes\nB. No", None),
        ("spelling", "Dr. Grey saw the tumour.", "Dr. Grey saw the tumor."),
        ("abbreviations", "All was well. IV fluids were given.", "All was well. Intravenous fluids were given."),
        ("abbreviations", "An MRI is needed.", None),
        (
            "prose",
            "Plan:\n- Stop these\n  - one drug\n  - another\n- Rest",
            "Plan: Stop these: one drug, another; Rest.",
        ),
        ("prose", "1. Wash\n   and dry\n2. Cover", "Wash and dry; Cover."),
    ],
)
def test_rule_keeps_names_lists_and_addresses(rule, text, expected):
    assert apply_rule(text, rule).text == expected
