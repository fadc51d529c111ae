"""A second set of rewordings, written without a look at the checks or at the first set.

How the checks did on it before anything was mended for it stands in `FIRST_RUN`. What they still get wrong is listed as such and
checked too, so that a list of known gaps cannot grow old unseen.
"""

from __future__ import annotations

from lm_eval_healthcare.studies.rewording.checks import check

ACCEPTABLE_ENGLISH = {
    "cap": (
        "For community-acquired pneumonia, amoxicillin 1 g three times daily for 5 days is recommended. If the patient is allergic "
        "to penicillin, doxycycline 100 mg twice daily is an alternative.",
        "Community-acquired pneumonia should be treated with amoxicillin at a dose of 1 g TID over five days. In people with a "
        "penicillin allergy, doxycycline 100 mg BID may be used instead.",
    ),
    "metformin": (
        "Metformin is contraindicated when the eGFR is below 30 mL/min/1.73 m2. Between 30 and 45, the dose should be halved.",
        "Patients whose eGFR is under 30 mL/min/1.73 m² should not receive metformin, and the dose ought to be reduced by half at "
        "values of 30-45.",
    ),
    "hyperkalemia": (
        "A potassium of 6.8 mEq/L with peaked T waves is an emergency. Give 10 mL of 10% calcium gluconate IV over 3 minutes, then "
        "10 units of regular insulin with 25 g of dextrose.",
        "When potassium is 6.8 mEq/L and the T waves are peaked, this is an emergency: administer calcium gluconate 10% (10 mL "
        "intravenously in 3 minutes), followed by regular insulin, 10 units, together with 25 g dextrose.",
    ),
    "fever": (
        "Any infant younger than 28 days with a rectal temperature of 38.0 °C or higher needs a full sepsis work-up.",
        "A complete sepsis evaluation is required for every baby under 28 days of age who has a rectal temperature of at least 38 °C.",
    ),
    "hba1c": (
        "An HbA1c of 6.5% or more on two occasions is diagnostic of diabetes, whereas 5.7 to 6.4% indicates prediabetes.",
        "Diabetes is diagnosed by two HbA1c readings at or above 6.5%; values from 5.7% to 6.4% point to prediabetes.",
    ),
    "warfarin_brand": (
        "Coumadin should be stopped 5 days before surgery and the INR checked the day before.",
        "Warfarin ought to be discontinued five days prior to the operation, with an INR measured on the preceding day.",
    ),
    "ibuprofen_brand": (
        "You can take Advil 400 mg every 6 to 8 hours with food, but do not exceed 1200 mg in 24 hours without medical advice.",
        "Ibuprofen may be taken with food at 400 mg every 6-8 hours. Without advice from a doctor, the daily total should not be "
        "more than 1,200 mg.",
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
        "Common side effects of lisinopril include:\n1. Dry cough (about 10% of patients)\n2. Hyperkalemia\n3. Dizziness\n"
        "4. Angioedema (rare)",
        "Lisinopril frequently causes a dry cough, seen in roughly 10% of patients, as well as hyperkalemia and dizziness; "
        "angioedema is a rare side effect.",
    ),
    "prose_to_list": (
        "The management of DKA consists of fluids, insulin at 0.1 units/kg/h, and replacement of potassium once it falls below "
        "5.3 mEq/L.",
        "DKA is managed as follows:\n- Intravenous fluids\n- Insulin infusion at 0.1 units/kg/hour\n- Potassium replacement when the "
        "level drops under 5.3 mEq/L",
    ),
    "abbreviations": (
        "A pt with COPD and a hx of MI presents with SOB; BP 150/95 mmHg, HR 110 bpm, SpO2 88% on RA.",
        "A patient with chronic obstructive pulmonary disease and a prior myocardial infarction comes in with shortness of breath. "
        "Blood pressure is 150/95 mmHg, heart rate 110 beats per minute, and oxygen saturation 88% on room air.",
    ),
    "age": (
        "The most likely diagnosis in this 65-year-old man is temporal arteritis, given the ESR of 95 mm/h.",
        "Given an erythrocyte sedimentation rate of 95 mm/hour, temporal arteritis is the likeliest diagnosis in this man aged 65.",
    ),
    "pediatric_dose": (
        "Give paracetamol 15 mg/kg every 4 to 6 hours, up to a maximum of four doses per day.",
        "Acetaminophen should be given at 15 mg per kg every 4–6 hours, with no more than 4 doses in a day.",
    ),
    "half_life": (
        "Amiodarone has a half-life of about 58 days, so its effects persist for weeks to months after it is stopped.",
        "Because amiodarone's half-life is around 58 days, its effects last for weeks or even months once treatment ends.",
    ),
    "aspirin": (
        "Low-dose aspirin, 81 mg once a day, should be started at 12 weeks of gestation in women at high risk of preeclampsia.",
        "Women with a high preeclampsia risk should begin aspirin 81 mg daily from the 12th week of pregnancy.",
    ),
    "vaccine": (
        "The MMR vaccine is given at 12-15 months and again at 4-6 years. It is a live vaccine, so pregnant women cannot receive it.",
        "Children receive the MMR vaccine between 12 and 15 months of age, with a second dose at age 4 to 6 years. Being live, it "
        "must not be given during pregnancy.",
    ),
    "mechanism": (
        "Omeprazole irreversibly inhibits the H+/K+ ATPase of parietal cells, which reduces acid secretion.",
        "By irreversibly blocking the H+/K+ ATPase in parietal cells, omeprazole lowers the secretion of acid.",
    ),
    "stroke_window": (
        "Alteplase (0.9 mg/kg, maximum 90 mg) can be given up to 4.5 hours after symptom onset. Ten percent is given as a bolus over "
        "1 minute and the rest over 60 minutes.",
        "Within 4.5 hours of the onset of symptoms, tPA may be administered at 0.9 mg/kg (max. 90 mg): 10% as a 1-minute bolus, the "
        "remainder infused over an hour.",
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
        "Give 30 mL/kg of crystalloid within the first 3 hours and aim for a MAP of at least 65 mmHg. Norepinephrine is the "
        "first-line vasopressor.",
        "Within the first three hours, crystalloid should be infused at 30 ml/kg, targeting a mean arterial pressure of ≥65 mm Hg. "
        "Noradrenaline is the vasopressor of first choice.",
    ),
    "smoking": (
        "He has smoked 1 pack per day for 30 years, so he qualifies for annual low-dose CT screening until age 80.",
        "With a history of one pack a day over 30 years, he is eligible for low-dose CT screening each year until he is 80.",
    ),
    "contra": (
        "Beta blockers are contraindicated in cocaine-induced chest pain; benzodiazepines are first line.",
        "In chest pain caused by cocaine, beta-blockers should be avoided, and benzodiazepines are the treatment of choice.",
    ),
    "epinephrine": (
        "Inject 0.3 mg of epinephrine intramuscularly into the lateral thigh; repeat every 5-15 minutes if there is no response.",
        "Adrenaline 0.3 mg is injected into the outer thigh muscle, and the dose is repeated every 5 to 15 minutes when the patient "
        "fails to respond.",
    ),
    "anatomy": (
        "The left recurrent laryngeal nerve hooks around the aortic arch, while the right one loops under the subclavian artery.",
        "Whereas the right recurrent laryngeal nerve passes beneath the subclavian artery, the left one curves around the arch of the "
        "aorta.",
    ),
    "weight": (
        "She weighs 70 kg and is 1.65 m tall, giving a BMI of 25.7 kg/m2.",
        "Her BMI is 25.7 kg/m², as she weighs 70 kilograms and measures 165 cm.",
    ),
    "lab_list": (
        "Laboratory values: Na 128 mmol/L, K 3.2 mmol/L, glucose 110 mg/dL, creatinine 0.9 mg/dL.",
        "The lab results show sodium at 128 mmol/L, potassium at 3.2 mmol/L, glucose of 110 mg/dL and a creatinine of 0.9 mg/dL.",
    ),
    "patient_talk": (
        "I'm sorry to hear about your headaches. They don't sound dangerous, but if you develop a stiff neck or a fever above 101 °F, "
        "please see a doctor right away.",
        "I am sorry you have been having headaches. Although they do not appear to be dangerous, see a doctor immediately if your "
        "neck becomes stiff or your temperature goes over 101 °F.",
    ),
    "uncertain": (
        "I cannot diagnose you without an examination, but this rash is most likely not contagious.",
        "Without examining you, I am unable to make a diagnosis; however, this rash is probably not contagious.",
    ),
    "type2": (
        "In type 2 diabetes with stage 3 chronic kidney disease, an SGLT2 inhibitor such as empagliflozin 10 mg daily slows "
        "progression.",
        "Progression is slowed by an SGLT2 inhibitor, for example empagliflozin 10 mg once daily, in patients who have type 2 "
        "diabetes and CKD stage 3.",
    ),
    "gcs": (
        "A GCS of 8 or less means the airway should be secured by intubation.",
        "Intubation to protect the airway is advised when the Glasgow Coma Scale score is ≤ 8.",
    ),
    "b12": (
        "Vitamin B12 deficiency is treated with 1000 mcg of cyanocobalamin IM daily for 1 week, then weekly for 4 weeks.",
        "For vitamin B12 deficiency, give intramuscular cyanocobalamin 1 mg every day for a week, followed by once-weekly "
        "injections for four weeks.",
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
        "ACE inhibitors must be avoided in pregnancy because they cause fetal renal damage; labetalol or methyldopa are safe options.",
        "Since ACE inhibitors damage the fetal kidneys, they should not be used in pregnant women, for whom labetalol and methyldopa "
        "are safe choices.",
    ),
    "eye": (
        "Acute angle-closure glaucoma presents with a painful red eye and a mid-dilated pupil that does not react to light.",
        "A painful, red eye with a mid-dilated pupil unreactive to light is how acute angle-closure glaucoma presents.",
    ),
    "time": (
        "Symptoms usually resolve in 1 to 2 weeks without treatment, although fatigue may last for 3 months.",
        "Even untreated, symptoms generally clear up within one to two weeks, but tiredness can go on for three months.",
    ),
}

ACCEPTABLE_SPANISH = {
    "paracetamol": (
        "Se recomienda paracetamol 500 mg cada 8 horas durante 3 días, sin superar los 4 g al día.",
        "La recomendación es tomar 500 mg de paracetamol cada ocho horas a lo largo de tres días; no se deben sobrepasar 4 g diarios.",
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
        "Mujer de 45 años con una hemoglobina de 9,5 g/dl y un VCM de 70 fl: lo más probable es una anemia ferropénica.",
        "En una mujer de 45 años cuya hemoglobina es de 9,5 g/dL y cuyo VCM es de 70 fL, la anemia ferropénica es lo más probable.",
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
        "Se inicia insulina glargina a 0,2 UI/kg/día y se ajusta cada 3 días hasta lograr una glucemia en ayunas de 80 a 130 mg/dl.",
        "La insulina glargina se comienza con 0,2 UI/kg al día, con ajustes cada tres días hasta una glucemia en ayunas entre 80 y "
        "130 mg/dL.",
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
        "The answer is B. Thalassemia minor usually presents with microcytosis and a normal iron level, which is why hemoglobin "
        "electrophoresis is the next step.",
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
        "Rest and drink plenty until the fever has passed.\n\nNote: I have kept the meaning of the text and changed only its wording.",
    ),
    "preamble": (
        "The treatment of choice for anaphylaxis is intramuscular epinephrine.",
        "Sure! Here is a reworded version of the text: Intramuscular epinephrine is the treatment of choice for anaphylaxis.",
    ),
    "options": (
        "Gout is caused by the deposition of urate crystals in joints.",
        "Option 1: Urate crystals that settle in joints cause gout.\nOption 2: Gout arises when urate crystals are deposited in joints.",
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
        "Lithium levels should be checked five days after each change of dose, and thyroid and renal function every six months.",
        "After every dose change, lithium levels ought to be measured at five days, while thyroid and kidney function are checked "
        "every six months by means of",
    ),
}


def faults(original: str, rewording: str, language: str = "en") -> list[str]:
    return [f"{finding.fault.value}: {finding.detail}" for finding in check(original, rewording, language=language)]
