"""A third set of rewordings, as a paraphrasing model writes them, made without a look at the checks or the other sets.

How the checks did on it before anything was mended for it stands in `FIRST_RUN`. What they still get wrong is listed
as such and checked too. The last part has texts that were written while mending: what else a mend must, or must not,
turn down.
"""

from __future__ import annotations

import re

import pytest

from lm_eval_healthcare.studies.rewording.checks import Fault, check, cleaned
from lm_eval_healthcare.studies.rewording.rules import reword

ACCEPTABLE = [
    (
        "short",
        "BP 150/95 mmHg, HR 88 bpm, afebrile.",
        "Blood pressure is 150/95 mmHg with a heart rate of 88 bpm; no fever.",
    ),
    (
        "short",
        "Likely viral URTI. Fluids, paracetamol prn, return if SOB.",
        "This is probably a viral upper respiratory tract infection. Drink fluids, use paracetamol as "
        "needed, and come back if you become short of breath.",
    ),
    (
        "short",
        "The first-line drug is metformin.",
        "Metformin is the drug of first choice.",
    ),
    (
        "short",
        "No, antibiotics are not indicated.",
        "Antibiotics are not indicated here.",
    ),
    (
        "short",
        "The most likely diagnosis is Graves disease.",
        "Graves disease is the diagnosis that fits best.",
    ),
    (
        "short",
        "Vitamin B12 deficiency causes it.",
        "It is caused by a lack of vitamin B12.",
    ),
    (
        "short",
        "Give IV fluids and recheck lactate in 2 hours.",
        "Intravenous fluids should be given, with lactate measured again after two hours.",
    ),
    (
        "short",
        "Stop the ACE inhibitor because of hyperkalaemia.",
        "Because of the high potassium, the ACE inhibitor should be discontinued.",
    ),
    (
        "brand",
        "Take Tylenol 500 mg every 6 hours for the pain.",
        "For the pain, take acetaminophen 500 mg every 6 hours.",
    ),
    (
        "brand",
        "She was switched from warfarin to Eliquis 5 mg twice a day.",
        "Her warfarin was replaced with apixaban, 5 mg two times per day.",
    ),
    (
        "brand",
        "Lipitor 40 mg at night lowers LDL cholesterol by about half.",
        "Taking atorvastatin 40 mg at bedtime cuts LDL cholesterol by roughly 50%.",
    ),
    (
        "brand",
        "Use an albuterol inhaler, 2 puffs every 4 hours as needed.",
        "A salbutamol inhaler can be used when needed: two puffs every four hours.",
    ),
    (
        "brand",
        "Zofran 4 mg may help the nausea, but it can prolong the QT interval.",
        "Ondansetron at a dose of 4 mg can ease the nausea, although it may lengthen the QT interval.",
    ),
    (
        "brand",
        "Adrenaline 0.5 mg IM is the treatment of anaphylaxis.",
        "Anaphylaxis is treated with intramuscular epinephrine at a dose of 0.5 mg.",
    ),
    (
        "brand",
        "Aspirin 81 mg daily reduces the risk of pre-eclampsia.",
        "The risk of pre-eclampsia falls with 81 mg of acetylsalicylic acid once a day.",
    ),
    (
        "units",
        "Amoxicillin 0.5 g three times a day for 7 days.",
        "Take 500 mg of amoxicillin three times daily for one week.",
    ),
    (
        "units",
        "Levothyroxine 0.1 mg daily, on an empty stomach.",
        "Levothyroxine should be taken on an empty stomach at 100 micrograms per day.",
    ),
    (
        "units",
        "Ceftriaxone 2 g IV every 12 hours is started without delay.",
        "Ceftriaxone 2000 mg intravenously BID is begun immediately.",
    ),
    (
        "units",
        "Naproxen 500 mg BID with food.",
        "Naproxen 500 mg is taken with food every 12 hours.",
    ),
    (
        "units",
        "Drink at least 2 litres of water a day and repeat the test in 3 months.",
        "Have no less than 2000 mL of water each day, and the test should be done again after three months.",
    ),
    (
        "units",
        "Enoxaparin 1 mg/kg q12h subcutaneously.",
        "Subcutaneous enoxaparin at one milligram per kilogram twice a day.",
    ),
    (
        "units",
        "The lesion measures 15 mm and has grown in the last 12 months.",
        "Over the past year the lesion has grown; it now measures 1.5 cm.",
    ),
    (
        "units",
        "Cephalexin 500 mg QID for 10 days.",
        "Cephalexin, 500 mg every 6 hours, for ten days.",
    ),
    (
        "units",
        "Digoxin 125 mcg once daily.",
        "Digoxin 0.125 mg every day.",
    ),
    (
        "units",
        "Observe the patient for 48 hours after the procedure.",
        "The patient should be watched for two days following the procedure.",
    ),
    (
        "words",
        "About 30% of patients relapse within 2 years.",
        "Within two years, roughly thirty percent of patients have a relapse.",
    ),
    (
        "words",
        "A quarter of patients will need surgery.",
        "Surgery will be needed in 25% of patients.",
    ),
    (
        "words",
        "Half of all cases resolve within a week.",
        "50% of cases go away in 7 days.",
    ),
    (
        "words",
        "Two doses of the vaccine are given, four weeks apart.",
        "The vaccine is given as 2 doses with 4 weeks between them.",
    ),
    (
        "words",
        "Children under five years of age have the highest risk.",
        "The risk is greatest in children younger than 5 years.",
    ),
    (
        "words",
        "A 65-year-old man with chest pain lasting 20 minutes needs an ECG within 10 minutes.",
        "An ECG within ten minutes is needed for a man aged 65 whose chest pain has lasted twenty minutes.",
    ),
    (
        "words",
        "The incidence is 1 in 1,000 births, or 0.1%.",
        "It occurs in one of every 1000 births (0.1%).",
    ),
    (
        "negation",
        "There is no evidence that vitamin C prevents the common cold.",
        "Evidence that vitamin C prevents colds is lacking.",
    ),
    (
        "negation",
        "Do not stop the medication without talking to your doctor.",
        "You should speak with your doctor before you stop the medication.",
    ),
    (
        "negation",
        "The patient denies fever, chills or weight loss.",
        "No fever, chills, or weight loss are reported by the patient.",
    ),
    (
        "negation",
        "It is not contagious and cannot be passed from person to person.",
        "It cannot spread between people, so it isn't contagious.",
    ),
    (
        "negation",
        "Biopsy was negative for malignancy.",
        "The biopsy showed no malignancy.",
    ),
    (
        "negation",
        "CT of the head without contrast shows no bleeding and no fracture.",
        "Neither bleeding nor a fracture is seen on the non-contrast head CT.",
    ),
    (
        "negation",
        "Patients who don't respond to statins may need ezetimibe.",
        "Ezetimibe may be required in people in whom statins do not work.",
    ),
    (
        "negation",
        "Surgery is unnecessary unless the hernia becomes painful.",
        "There is no need for surgery unless the hernia starts to hurt.",
    ),
    (
        "negation",
        "He has never smoked and has no known drug allergies.",
        "He is a lifelong non-smoker without any known allergies to drugs.",
    ),
    (
        "negation",
        "The cause of the disease is unknown.",
        "It is not known what causes the disease.",
    ),
    (
        "negation",
        "Ibuprofen must be avoided in the third trimester.",
        "Ibuprofen should not be used during the third trimester.",
    ),
    (
        "long",
        "Type 2 diabetes develops when the body becomes resistant to insulin and the pancreas can no "
        "longer keep up. Risk factors include obesity, a sedentary lifestyle and a family history. "
        "Treatment starts with diet and exercise, and metformin is the usual first drug. An HbA1c below 7% "
        "is the target for most adults. If the target is not reached after 3 months, a second drug such as "
        "an SGLT2 inhibitor is added.",
        "In type 2 diabetes the pancreas is no longer able to compensate for the body's resistance to "
        "insulin. People who are obese, inactive or have relatives with the disease are at greater risk. "
        "The first steps are changes in diet and physical activity, together with metformin, which is "
        "normally the first medication. For most adults the goal is an HbA1c of less than 7%. When that "
        "goal has not been met after three months, another agent, for example an SGLT2 inhibitor, is added.",
    ),
    (
        "long",
        "Migraine is a common neurological disorder that causes attacks of moderate to severe headache "
        "lasting 4 to 72 hours. The pain is often on one side and gets worse with activity. Nausea and "
        "sensitivity to light are typical. Acute attacks are treated with ibuprofen or sumatriptan. "
        "Propranolol or topiramate can be taken every day to prevent attacks.",
        "A frequent disorder of the nervous system, migraine brings attacks of moderate to severe headache "
        "that last between 4 and 72 hours. Pain tends to affect one side of the head, and activity makes "
        "it worse. Typically, people also feel sick and are bothered by light. For acute attacks, "
        "ibuprofen or sumatriptan is used, while daily propranolol or topiramate serves to prevent them.",
    ),
    (
        "long",
        "Community-acquired pneumonia in an otherwise healthy adult is usually treated with amoxicillin 1 "
        "g three times a day for 5 days. Doxycycline 100 mg twice a day is an alternative for those who "
        "are allergic to penicillin. A chest X-ray is not needed again if the patient recovers. Smokers "
        "over 50 years should have one after 6 weeks.",
        "For an adult who is otherwise well, community-acquired pneumonia is generally treated for five "
        "days with amoxicillin 1 g TID. If there is a penicillin allergy, doxycycline 100 mg BID can be "
        "used instead. No repeat chest radiograph is required when the patient gets better. After 6 weeks, "
        "however, one should be done in smokers older than 50.",
    ),
    (
        "long",
        "Appendicitis usually begins with pain around the navel that moves to the right lower abdomen "
        "within 24 hours. Loss of appetite, nausea and a low fever are common. The white cell count is "
        "often above 10,000 per microlitre. Ultrasound or CT confirms the diagnosis. The treatment is "
        "removal of the appendix, and antibiotics are given before the operation.",
        "Appendicitis typically starts with periumbilical pain, which shifts within a day to the lower "
        "right side of the abdomen. Patients often lose their appetite, feel nauseated and run a mild "
        "fever. Commonly, the white blood cell count exceeds 10 000 per microlitre. An ultrasound or CT "
        "scan makes the diagnosis certain. The appendix is taken out surgically, with antibiotics "
        "administered beforehand.",
    ),
    (
        "long",
        "Vaccines do not cause autism. This has been shown in large studies of more than 1 million "
        "children. The original 1998 report was withdrawn, and its author lost his licence. Parents should "
        "not delay the MMR vaccine, because measles can be fatal.",
        "Autism is not caused by vaccines. Large studies including over 1 million children have "
        "demonstrated this. The first report, published in 1998, was retracted and its author was struck "
        "off. Because measles can kill, the MMR vaccine should not be put off by parents.",
    ),
    (
        "long",
        "Gout is caused by crystals of uric acid in the joints. Colchicine or naproxen relieves an acute "
        "attack. Allopurinol is started at 100 mg a day and increased every 4 weeks until uric acid is "
        "below 6 mg/dL. It must not be stopped during an attack.",
        "Gout comes from uric acid crystallising in joints. An acute attack is eased by naproxen or "
        "colchicine. The starting dose of allopurinol is 100 mg daily, raised every four weeks until the "
        "uric acid level drops under 6 mg/dL. During an attack it should not be discontinued.",
    ),
    (
        "list",
        "Symptoms:\n- Fever above 38.5 °C\n- Stiff neck\n- Severe headache\n- Photophobia",
        "The symptoms are a fever of more than 38.5 °C, a stiff neck, a bad headache and photophobia.",
    ),
    (
        "list",
        "1. Stop the infusion.\n2. Give 20 mL of 50% dextrose.\n3. Check glucose again after 15 minutes.",
        "First stop the infusion, then give 20 mL of dextrose 50%, and finally recheck the glucose after "
        "fifteen minutes.",
    ),
    (
        "list",
        "**Management**\n1) Rest and ice\n2) Ibuprofen 400 mg TID\n3) Physiotherapy after 2 weeks",
        "Management consists of rest and ice, ibuprofen 400 mg three times a day, and physiotherapy "
        "starting two weeks later.",
    ),
    (
        "list",
        "The patient should take lisinopril, amlodipine and chlorthalidone, and come back in 4 weeks.",
        "Plan:\n1. Lisinopril\n2. Amlodipine\n3. Chlorthalidone\n4. Return in 4 weeks",
    ),
    (
        "list",
        "Causes include: a) infection; b) malignancy; c) autoimmune disease.",
        "Infection, malignancy and autoimmune disease are among the causes.",
    ),
    (
        "abbr",
        "Pt with CHF and CKD stage 3; avoid NSAIDs.",
        "This patient has congestive heart failure and stage 3 chronic kidney disease; non-steroidal "
        "anti-inflammatory drugs should be avoided.",
    ),
    (
        "abbr",
        "PE suspected; get a CTPA and start LMWH.",
        "Pulmonary embolism is suspected, so a CT pulmonary angiogram should be obtained and "
        "low-molecular-weight heparin started.",
    ),
    (
        "abbr",
        "UTI treated with TMP-SMX DS 1 tab PO BID x 3 days.",
        "The urinary tract infection is treated with trimethoprim-sulfamethoxazole double strength, one "
        "tablet by mouth twice daily for 3 days.",
    ),
    (
        "abbr",
        "HTN, DM2, s/p CABG in 2015, NKDA.",
        "Hypertension, type 2 diabetes mellitus, previous coronary artery bypass grafting in 2015, no "
        "known drug allergies.",
    ),
    (
        "abbr",
        "HCTZ 25 mg PO QD.",
        "Hydrochlorothiazide 25 mg by mouth once daily.",
    ),
    (
        "abbr",
        "GERD improves with omeprazole 20 mg qd before breakfast.",
        "Gastro-oesophageal reflux disease gets better with omeprazole 20 mg every morning before breakfast.",
    ),
    (
        "voice",
        "The surgeon removed the gallbladder on 12 March.",
        "On March 12 the gallbladder was removed by the surgeon.",
    ),
    (
        "voice",
        "Insulin lowers blood glucose by moving it into cells.",
        "By moving it into the cells, blood glucose is lowered by insulin.",
    ),
    (
        "voice",
        "Clinicians should monitor potassium when they prescribe spironolactone.",
        "When spironolactone is prescribed, potassium should be monitored.",
    ),
    (
        "voice",
        "High blood pressure damages the arteries of the kidney.",
        "The renal arteries are damaged by high blood pressure.",
    ),
    (
        "spanish",
        "El paciente debe tomar ibuprofeno 400 mg cada 8 horas durante 5 días.",
        "Durante cinco días, el paciente ha de tomar 400 mg de ibuprofeno tres veces al día.",
    ),
    (
        "spanish",
        "No se recomienda el uso de antibióticos en el resfriado común.",
        "El uso de antibióticos no está recomendado en el resfriado común.",
    ),
    (
        "spanish",
        "La hipertensión arterial se trata con enalapril 10 mg al día y una dieta baja en sal.",
        "El tratamiento de la presión arterial alta consiste en enalapril, 10 mg diarios, y una dieta con poca sal.",
    ),
    (
        "spanish",
        "El fármaco de elección es la metformina, salvo que exista insuficiencia renal grave.",
        "La metformina es el fármaco de primera elección, excepto en caso de insuficiencia renal grave.",
    ),
    (
        "spanish",
        "No hay fiebre ni dolor torácico. La saturación es del 97%.",
        "El paciente no tiene fiebre ni dolor en el pecho; satura al 97%.",
    ),
    (
        "spanish",
        "El paracetamol, 1 g cada 8 horas, alivia el dolor sin dañar el estómago.",
        "El dolor se alivia con 1000 mg de paracetamol cada ocho horas, que no daña el estómago.",
    ),
    (
        "spanish",
        "Está causada por la bacteria Helicobacter pylori y aumenta el riesgo de úlcera.",
        "La causa la bacteria Helicobacter pylori, y eleva el riesgo de úlcera.",
    ),
    (
        "spanish",
        "El embarazo es una contraindicación absoluta de la isotretinoína.",
        "La isotretinoína está absolutamente contraindicada durante el embarazo.",
    ),
]
"""Kind, original and rewording."""

FAULTY = [
    (
        "dose",
        "Amoxicillin 500 mg three times a day for 7 days is the usual treatment of otitis media in adults.",
        "The usual treatment of otitis media in adults is amoxicillin 250 mg three times a day for 7 days.",
        "",
    ),
    (
        "dose",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks.",
        "Treatment begins with lisinopril 20 mg once daily; after 4 weeks the dose is doubled if blood "
        "pressure remains above 140/90 mmHg. It must not be used in pregnancy. After 2 weeks, potassium "
        "should be checked.",
        "",
    ),
    (
        "dose",
        "Take two tablets of paracetamol at night.",
        "At night, three tablets of paracetamol should be taken.",
        "",
    ),
    (
        "dose",
        "Fever above 38 °C needs a blood culture.",
        "A blood culture is needed when the fever is higher than 39 °C.",
        "",
    ),
    (
        "dose",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "El paciente tiene que tomar 750 mg de amoxicilina cada 8 horas durante 7 días y no debe beber alcohol.",
        "",
    ),
    (
        "decimal",
        "Give 0.5 mg of adrenaline into the thigh.",
        "Adrenaline 5 mg is given into the thigh.",
        "",
    ),
    (
        "decimal",
        "The potassium level was 5.9 mmol/L on admission.",
        "On admission, potassium was 59 mmol/L.",
        "",
    ),
    (
        "decimal",
        "Methotrexate 7.5 mg is taken once a week.",
        "Once a week, 75 mg of methotrexate is taken.",
        "",
    ),
    (
        "decimal",
        "The dose of digoxin is 0.125 mg daily.",
        "Digoxin is dosed at 1.25 mg per day.",
        "",
    ),
    (
        "unit",
        "Levothyroxine 50 mcg is taken each morning, 30 minutes before breakfast.",
        "Every morning, 30 minutes before breakfast, levothyroxine 50 mg is taken.",
        "",
    ),
    (
        "unit",
        "Fentanyl 100 micrograms was injected.",
        "An injection of fentanyl 100 mg was given.",
        "",
    ),
    (
        "unit",
        "Heparin 5000 units are given under the skin.",
        "Heparin 5000 mg is administered subcutaneously.",
        "",
    ),
    (
        "unit",
        "Wait 6 weeks before the scan is repeated.",
        "The scan should be repeated after 6 days.",
        "",
    ),
    (
        "unit",
        "The infusion runs at 50 mL per hour.",
        "An infusion rate of 50 mL per minute is used.",
        "",
    ),
    (
        "unit dropped",
        "Amoxicillin 500 mg three times a day for 7 days is the usual treatment of otitis media in adults.",
        "Adults with otitis media usually get amoxicillin 500 three times a day for 7 days.",
        "",
    ),
    (
        "unit dropped",
        "A glucose of 126 mg/dL or more on two occasions means diabetes.",
        "Diabetes is present when glucose is 126 or higher on two occasions.",
        "",
    ),
    (
        "number dropped",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks.",
        "Lisinopril is started once a day, and doubled after 4 weeks if blood pressure stays above 140/90 "
        "mmHg. Pregnant women must not take it. Check potassium after 2 weeks.",
        "",
    ),
    (
        "number dropped",
        "The survival rate after 5 years is 85%.",
        "Most patients survive for 5 years.",
        "",
    ),
    (
        "number dropped",
        "Levothyroxine 50 mcg is taken each morning, 30 minutes before breakfast.",
        "Take 50 mcg of levothyroxine each morning, a while before breakfast.",
        "",
    ),
    (
        "number added",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Exercising regularly for 150 minutes a week lowers blood pressure and makes weight control easier "
        "for people with diabetes.",
        "",
    ),
    (
        "number added",
        "Paracetamol is safe in pregnancy when used as directed.",
        "When used as directed, up to 4 g a day, paracetamol is safe during pregnancy.",
        "",
    ),
    (
        "number added",
        "The vaccine is given in early childhood.",
        "In early childhood, at 12 months, the vaccine is administered.",
        "",
    ),
    (
        "frequency",
        "Amoxicillin 500 mg three times a day for 7 days is the usual treatment of otitis media in adults.",
        "Otitis media in adults is usually treated with amoxicillin 500 mg twice a day for 7 days.",
        "",
    ),
    (
        "frequency",
        "Metoprolol 25 mg BID.",
        "Metoprolol 25 mg three times daily.",
        "",
    ),
    (
        "frequency",
        "Alendronate 70 mg is taken once a week.",
        "Alendronate 70 mg is taken once a day.",
        "",
    ),
    (
        "frequency",
        "Apply the cream every 12 hours.",
        "The cream is to be applied every 2 hours.",
        "",
    ),
    (
        "frequency",
        "Take ibuprofen 400 mg every 8 hours.",
        "Ibuprofen 400 mg should be taken four times daily.",
        "",
    ),
    (
        "frequency",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Durante 7 días, el paciente tomará amoxicilina 500 mg cada 12 horas, y no debe consumir alcohol.",
        "",
    ),
    (
        "other drug",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks.",
        "Enalapril 10 mg once a day is begun; after 4 weeks the dose is doubled if blood pressure is still "
        "over 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after 2 weeks.",
        "",
    ),
    (
        "other drug",
        "Atorvastatin lowers LDL cholesterol.",
        "LDL cholesterol is lowered by rosuvastatin.",
        "",
    ),
    (
        "other drug",
        "Omeprazole 20 mg daily heals the ulcer.",
        "The ulcer is healed by pantoprazole 20 mg daily.",
        "",
    ),
    (
        "other drug",
        "Sertraline is a good first choice in depression.",
        "A good first choice for depression is citalopram.",
        "",
    ),
    (
        "other drug",
        "La metformina es el tratamiento de elección.",
        "El tratamiento de elección es la glibenclamida.",
        "",
    ),
    (
        "other drug",
        "Hydroxyzine relieves itching at night.",
        "Hydralazine eases itching during the night.",
        "",
    ),
    (
        "drug dropped",
        "Bacterial meningitis is treated with ceftriaxone and vancomycin. Do not wait for the lumbar "
        "puncture if there is any delay.",
        "Ceftriaxone is the treatment of bacterial meningitis. If there is any delay, do not wait for the "
        "lumbar puncture.",
        "",
    ),
    (
        "drug dropped",
        "Aspirin and clopidogrel are both needed after a stent.",
        "After a stent, clopidogrel is needed.",
        "",
    ),
    (
        "drug added",
        "Bacterial meningitis is treated with ceftriaxone and vancomycin. Do not wait for the lumbar "
        "puncture if there is any delay.",
        "Ceftriaxone, vancomycin and dexamethasone are used for bacterial meningitis. Do not wait for the "
        "lumbar puncture if there is any delay.",
        "",
    ),
    (
        "drug added",
        "Oral antihistamines help with hay fever.",
        "Hay fever responds to oral antihistamines such as loratadine.",
        "",
    ),
    (
        "negation dropped",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks.",
        "Lisinopril 10 mg once daily is started, with the dose doubled after 4 weeks if blood pressure is "
        "still above 140/90 mmHg. It may be given in pregnancy. Check potassium after 2 weeks.",
        "",
    ),
    (
        "negation dropped",
        "Antibiotics are not useful for viral bronchitis.",
        "Antibiotics are useful for bronchitis caused by viruses.",
        "",
    ),
    (
        "negation dropped",
        "The patient has no history of asthma.",
        "The patient has a history of asthma.",
        "",
    ),
    (
        "negation dropped",
        "El paciente no es alérgico a la penicilina.",
        "El paciente es alérgico a la penicilina.",
        "",
    ),
    (
        "negation dropped",
        "The test cannot exclude a pulmonary embolism.",
        "The test can exclude a pulmonary embolism.",
        "",
    ),
    (
        "negation added",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Regular exercise does not lower blood pressure, but helps people with diabetes to control their weight.",
        "",
    ),
    (
        "negation added",
        "Breastfeeding is safe during treatment.",
        "During treatment, breastfeeding is not safe.",
        "",
    ),
    (
        "negation added",
        "Patients should fast before the test.",
        "Before the test, patients need not fast.",
        "",
    ),
    (
        "negation added",
        "La lactancia es segura durante el tratamiento.",
        "Durante el tratamiento, la lactancia no es segura.",
        "",
    ),
    (
        "negation moved",
        "The patient has fever but no cough.",
        "The patient has a cough but no fever.",
        "",
    ),
    (
        "opposite",
        "The disease lowers blood calcium.",
        "Blood calcium is raised by the disease.",
        "",
    ),
    (
        "opposite",
        "The tumour is benign.",
        "The tumour is malignant.",
        "",
    ),
    (
        "number moved",
        "Aspirin 300 mg and clopidogrel 75 mg are given.",
        "Clopidogrel 300 mg and aspirin 75 mg are given.",
        "",
    ),
    (
        "number moved",
        "Take 10 mg in the morning and 5 mg in the evening.",
        "Take 5 mg in the morning and 10 mg in the evening.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "I'm sorry, but I can't help with rewording medical advice.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "As an AI language model, I am unable to provide medical recommendations about blood pressure and diabetes.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "I cannot assist with that request.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Unfortunately, I'm not comfortable rephrasing this text since it contains health information.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "I won't be able to paraphrase this answer. Please consult a qualified healthcare professional.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "My guidelines don't allow me to reword statements about weight and blood pressure.",
        "",
    ),
    (
        "refusal",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Sorry, no rewording is possible for this text about exercise and diabetes.",
        "",
    ),
    (
        "refusal",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Lo siento, pero no puedo ayudar con esa solicitud.",
        "",
    ),
    (
        "refusal",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Como modelo de lenguaje, no me es posible reformular consejos médicos. Consulte a su médico.",
        "",
    ),
    (
        "refusal",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Disculpa, no estoy autorizado para reescribir este tipo de textos médicos.",
        "",
    ),
    (
        "answers",
        "Start an ACE inhibitor and check creatinine after two weeks.",
        "The answer is correct: an ACE inhibitor is what the guidelines recommend, and creatinine should "
        "indeed be checked.",
        "What is the first-line treatment of hypertension in a patient with diabetes?",
    ),
    (
        "answers",
        "Start an ACE inhibitor and check creatinine after two weeks.",
        "What is the first-line treatment of hypertension in a patient with diabetes? Start an ACE "
        "inhibitor and check creatinine after two weeks.",
        "What is the first-line treatment of hypertension in a patient with diabetes?",
    ),
    (
        "answers",
        "Start an ACE inhibitor and check creatinine after two weeks.",
        "Great question! Hypertension in people with diabetes is usually treated with drugs that block the "
        "renin system.",
        "What is the first-line treatment of hypertension in a patient with diabetes?",
    ),
    (
        "answers",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "The text is accurate and well written, so there is nothing that I would change in it.",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Here is a rewording:\n\nExercising regularly lowers blood pressure and helps people with diabetes "
        "keep their weight under control.",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Sure! Exercising regularly lowers blood pressure and helps people with diabetes keep their weight "
        "under control.",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Certainly, here's the rephrased version: Exercising regularly lowers blood pressure and helps "
        "people with diabetes keep their weight under control.",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Exercising regularly lowers blood pressure and helps people with diabetes keep their weight under "
        "control.\n\nNote: I kept the meaning of the original.",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Exercising regularly lowers blood pressure and helps people with diabetes keep their weight in "
        "check. Let me know if you'd like another version!",
        "",
    ),
    (
        "preamble",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Version 1: Exercising regularly lowers blood pressure and helps people with diabetes with their "
        "weight.\nVersion 2: Physical activity reduces blood pressure and helps diabetics control weight.",
        "",
    ),
    (
        "preamble",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Aquí tienes una versión reformulada: El paciente tomará amoxicilina 500 mg cada 8 horas durante 7 "
        "días. No debe beber alcohol.",
        "",
    ),
    (
        "preamble",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "Claro, aquí está el texto: El paciente tomará amoxicilina 500 mg cada 8 horas durante 7 días, sin "
        "beber alcohol.",
        "",
    ),
    (
        "language",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "El ejercicio regular reduce la presión arterial y ayuda a las personas con diabetes a controlar su peso.",
        "",
    ),
    (
        "language",
        "El paciente debe tomar amoxicilina 500 mg cada 8 horas durante 7 días. No debe consumir alcohol.",
        "The patient should take amoxicillin 500 mg every 8 hours for 7 days. Alcohol must not be consumed.",
        "",
    ),
    (
        "language",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "L'exercice régulier abaisse la tension artérielle et aide les personnes diabétiques à contrôler leur poids.",
        "",
    ),
    (
        "language",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Regelmäßige Bewegung senkt den Blutdruck und hilft Menschen mit Diabetes, ihr Gewicht zu halten.",
        "",
    ),
    (
        "language",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "规律运动可以降低血压,并帮助糖尿病患者控制体重。",
        "",
    ),
    (
        "language",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Regular exercise lowers blood pressure. Además, ayuda a las personas con diabetes a controlar su peso.",
        "",
    ),
    (
        "too long",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Regular exercise lowers blood pressure. It makes the heart stronger, improves sleep, lifts the "
        "mood and keeps joints supple. It makes the heart stronger, improves sleep, lifts the mood and "
        "keeps joints supple. It makes the heart stronger, improves sleep, lifts the mood and keeps joints "
        "supple. It also helps people with diabetes to control their weight.",
        "",
    ),
    (
        "too short",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks. Bacterial meningitis is treated with ceftriaxone and vancomycin. Do not wait for the "
        "lumbar puncture if there is any delay.",
        "Lisinopril 10 mg daily.",
        "",
    ),
    (
        "too short",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Exercise helps.",
        "",
    ),
    (
        "unchanged",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "",
    ),
    (
        "empty",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "",
        "",
    ),
    (
        "empty",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        " \n- \n",
        "",
    ),
    (
        "cut",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight. It "
        "also improves sleep and mood in most people.",
        "Exercising regularly lowers blood pressure and helps people with diabetes keep their weight under "
        "control. It also improves sleep and",
        "",
    ),
    (
        "cut",
        "Lisinopril 10 mg once a day is started, and the dose is doubled after 4 weeks if blood pressure "
        "is still above 140/90 mmHg. It must not be given in pregnancy. Potassium should be checked after "
        "2 weeks.",
        "Lisinopril is started at 10 mg once a day and doubled after 4 weeks if blood pressure is still "
        "above 140/90 mmHg. In pregnancy it must not be given. After 2 weeks, the",
        "",
    ),
]
"""What is wrong, original, rewording and the question."""

KNOWN_MISSES = [
    (
        "negation moved",
        "Give fluids and do not give diuretics.",
        "Do not give fluids, and give diuretics.",
        "",
    ),
    (
        "negation moved",
        "Warfarin is not safe in pregnancy, whereas heparin is.",
        "Heparin is not safe in pregnancy, whereas warfarin is.",
        "",
    ),
    (
        "unchanged",
        "Regular exercise lowers blood pressure and helps people with diabetes to control their weight.",
        "regular exercise lowers blood pressure, and helps people with diabetes to control their weight",
        "",
    ),
]
"""Which of two things is denied, by grammar alone; and a text that differs by a comma, as those by rules may."""

MORE_ACCEPTABLE = [
    ("Measure it every 3 months until it is stable.", "Until stable, it is measured at 3-month intervals."),
    (
        "Screening is advised from 50 years of age.",
        "From age 50, screening is advised.",
    ),
    (
        "A 45-year-old woman has a breast lump.",
        "The woman, 45, has a lump in her breast.",
    ),
    (
        "Adults 65 years and older need it.",
        "It is needed by those 65+.",
    ),
    (
        "Children between 2 and 5 years of age are at risk.",
        "Children aged between 2 and 5 are at risk.",
    ),
    (
        "Treat for 5 to 7 days, or 10 to 14 days in severe cases.",
        "Treatment lasts 5 to 7 days, or 10 to 14 if severe.",
    ),
    (
        "Symptoms peak 3 days after infection.",
        "Symptoms peak on day 3 after infection.",
    ),
    (
        "The anomaly scan is done at 20 weeks.",
        "The anomaly scan takes place in week 20.",
    ),
    (
        "Treatment lasts for 7 days and not 10 days.",
        "Treatment lasts 7 days rather than 10.",
    ),
    (
        "People older than 60 years should be vaccinated.",
        "Vaccination is for people over 60.",
    ),
    (
        "El cribado se recomienda en mujeres de 50 a 69 años.",
        "Se recomienda el cribado en mujeres de 50 a 69 años de edad.",
    ),
    (
        "Las personas mayores de 65 años deben vacunarse.",
        "Deben vacunarse los mayores de 65.",
    ),
    (
        "At 6 months, 12 months and 24 months the scan is repeated.",
        "The scan is repeated at 6, 12 and 24 months.",
    ),
    (
        "A 30 year old man fell 2 weeks ago.",
        "Two weeks ago, a man aged 30 had a fall.",
    ),
    (
        "He has no fever and does not cough.",
        "He has no fever or cough.",
    ),
    (
        "He cannot walk and does not eat.",
        "He cannot walk or eat.",
    ),
    (
        "He does not smoke and does not drink.",
        "He does not smoke or drink.",
    ),
    (
        "He has no fever, and is not in pain.",
        "He has neither fever nor pain.",
    ),
    (
        "No surgery is needed, and antibiotics are not helpful.",
        "Surgery is not needed and antibiotics are not helpful.",
    ),
    (
        "The doctor does not recommend surgery without a scan.",
        "Surgery without a scan is not recommended by the doctor.",
    ),
    (
        "There is a lack of evidence for vitamin C deficiency.",
        "Evidence for vitamin C deficiency is lacking.",
    ),
    (
        "Let me know if you need a refill.",
        "Tell me if you need a refill, please.",
    ),
    (
        "The statement is false.",
        "This statement is incorrect.",
    ),
    (
        "A lack of insulin causes it.",
        "Insulin deficiency is the cause.",
    ),
    (
        "The response to treatment is good.",
        "Treatment response is good.",
    ),
    (
        "Start LMWH now, as planned.",
        "Low-molecular-weight heparin is started now, as planned.",
    ),
    (
        "It is due to a deficiency of alpha galactosidase A.",
        "Deficiency of alpha galactosidase A",
    ),
    (
        "He belongs to blood group O",
        "His blood group is O",
    ),
    (
        "Take 10 mg in the morning and 5 mg at night.",
        "The dose is 10 mg each morning and 5 mg in the evening.",
    ),
]
"""Original and rewording."""

MORE_FAULTY = [
    ("preamble", "Rest and drink plenty.", "Here's another way to say it: Take rest and drink a lot."),
    ("number_lost", "Measure it every 3 months until stable.", "Until stable, measure it at 6-month intervals."),
    (
        "unit_changed",
        "Treat for 7 days.",
        "The treatment is given for 7.",
    ),
    (
        "unit_changed",
        "The cure rate is 36%.",
        "The rate of cure is 36.",
    ),
    (
        "unit_changed",
        "Wait 6 weeks before running.",
        "You should wait 6 before running.",
    ),
    (
        "number_lost",
        "He is in his 50s and has angina.",
        "He has angina and is in his 60s.",
    ),
    (
        "number_lost",
        "It binds the 30S subunit of the ribosome.",
        "The 40S subunit of the ribosome is bound by it.",
    ),
    (
        "negation_changed",
        "If the tissue cannot be reduced, an emergency operation is required.",
        "If the tissue cannot be reduced, an emergency operation is not required.",
    ),
    (
        "negation_changed",
        "The resection can safely be done without a diverting stoma.",
        "The resection cannot safely be done without a diverting stoma.",
    ),
    (
        "negation_changed",
        "Give oral fluids and do not give loop diuretics.",
        "Do not give oral fluids, and give loop diuretics.",
    ),
    (
        "number_moved",
        "Toma 10 mg por la mañana y 5 mg por la noche.",
        "Toma 5 mg por la mañana y 10 mg por la noche.",
    ),
    (
        "drug_lost",
        "Start LMWH now.",
        "Start heparin now.",
    ),
    (
        "refusal",
        "Rest and fluids help most people with a cold.",
        "I must decline to rephrase medical statements of this kind.",
    ),
    (
        "refusal",
        "Rest and fluids help most people with a cold.",
        "A rewording is not possible, because this contains medical advice.",
    ),
    (
        "refusal",
        "El reposo y los líquidos ayudan a la mayoría de las personas.",
        "Mis normas no permiten cambiar textos sobre las personas y el reposo.",
    ),
    (
        "answers_question",
        "Rest and fluids help most people with a cold.",
        "Your answer is very clear and helps most people with a cold.",
    ),
    (
        "answers_question",
        "Rest and fluids help most people with a cold.",
        "Most people with a cold are helped by rest and fluids. I hope this helps!",
    ),
    (
        "answers_question",
        "El reposo y los líquidos ayudan a la mayoría de las personas.",
        "El texto es correcto y está bien escrito, con reposo y líquidos para las personas.",
    ),
    (
        "preamble",
        "Rest and fluids help most people with a cold.",
        "Sure, here is the text: Most people with a cold are helped by rest and fluids.",
    ),
]
"""Fault, original and rewording."""

FIRST_RUN = {
    "false alarms": "7 of 72: abbreviated drug names 2, past year, within a day, one of every 1000, a lack of, "
    "contraindicación",
    "missed": "10 of 92: negation moved 2 of 3, number moved 1 of 2, refusal 1 of 10, answer 1 of 4, preamble 2 of 8, "
    "language 1 of 6 (not told which it is), unchanged 1 of 2 and repeated 1 of 1 (but for a comma)",
}
"""What the checks got wrong when they first saw this set; afterwards they were mended with it in view."""


def _language(text: str) -> str:
    return "es" if re.search(r"\b(?:el|los|las|del|una|por|está)\b", text, re.IGNORECASE) else "en"


def faults(original: str, rewording: str, question: str = "") -> list[str]:
    return [one.fault.value for one in check(original, rewording, question=question, language=_language(original))]


@pytest.mark.parametrize(("kind", "original", "rewording"), ACCEPTABLE)
def test_rewording_is_accepted(kind, original, rewording):
    assert faults(original, rewording) == [], kind


@pytest.mark.parametrize(("kind", "original", "rewording", "question"), FAULTY)
def test_faulty_rewording_is_turned_down(kind, original, rewording, question):
    assert faults(original, rewording, question) != [], kind


@pytest.mark.parametrize(("kind", "original", "rewording", "question"), KNOWN_MISSES)
def test_what_is_known_to_be_missed(kind, original, rewording, question):
    assert faults(original, rewording, question) == [], kind


@pytest.mark.parametrize(("kind", "original", "rewording"), ACCEPTABLE)
def test_rewordings_by_rules_pass(kind, original, rewording):
    """No false alarm on any version that the rules make of a text, or of several after each other."""
    for version in reword(original + "\n\n" + rewording, 20, _language(original)):
        assert version.text is not None
        assert faults(original + "\n\n" + rewording, version.text) == [], version.rule


@pytest.mark.parametrize(("original", "rewording"), MORE_ACCEPTABLE)
def test_mends_raise_no_alarm(original, rewording):
    assert faults(original, rewording) == []


@pytest.mark.parametrize(("fault", "original", "rewording"), MORE_FAULTY)
def test_mends_name_the_fault(fault, original, rewording):
    assert fault in faults(original, rewording)


@pytest.mark.parametrize(
    "text",
    [
        *("7" * 50_000, "," * 50_000, "no " * 30_000, "(" * 25_000 + "a" + ")" * 25_000, "1-" * 45_000, "5/" * 40_000),
        *(
            "5% " * 30_000,
            "." * 90_000,
            "twenty-" * 12_000,
            "no a or " * 12_000,
            "5 mg/kg/day " * 8_000,
            "a\n" * 40_000,
        ),
    ],
    ids=lambda text: text[:6].strip(),
)
@pytest.mark.timeout(60)
def test_no_text_makes_a_pattern_explode(text):
    """A pattern that tries all ways to divide such a text takes hours."""
    assert Fault.UNCHANGED.value in [one.fault.value for one in check(text, cleaned(text))]
    assert Fault.UNCHANGED.value not in [
        one.fault.value for one in check(text, text + " end", question=text, others=[text])
    ]
