"""British and American spellings of words that clinical answers use."""

from __future__ import annotations

from lm_eval_healthcare.studies.rewording.number_words import word_set

_SAME_BOTH_WAYS = """
haemoglobin hemoglobin; haemorrhage hemorrhage; haemorrhagic hemorrhagic; haemorrhaging hemorrhaging;
haemorrhoid hemorrhoid; haemorrhoidal hemorrhoidal; haematoma hematoma; haematuria hematuria; haematology hematology;
haematologist hematologist; haematological hematological; haematologic hematologic; haematocrit hematocrit;
haematemesis hematemesis; haematopoietic hematopoietic; haemolysis hemolysis; haemolytic hemolytic;
haemophilia hemophilia; haemophiliac hemophiliac; haemodialysis hemodialysis; haemodynamic hemodynamic;
haemodynamically hemodynamically; haemostasis hemostasis; haemostatic hemostatic; haemothorax hemothorax;
haemoptysis hemoptysis; haemochromatosis hemochromatosis; haemosiderin hemosiderin; haem heme; anaemia anemia;
anaemic anemic; leukaemia leukemia; leukaemic leukemic; bacteraemia bacteremia; septicaemia septicemia;
ischaemia ischemia; ischaemic ischemic; hypoglycaemia hypoglycemia; hypoglycaemic hypoglycemic;
hyperglycaemia hyperglycemia; hyperglycaemic hyperglycemic; glycaemia glycemia; glycaemic glycemic;
hyperkalaemia hyperkalemia; hypokalaemia hypokalemia; hypokalaemic hypokalemic; hypernatraemia hypernatremia;
hyponatraemia hyponatremia; hypercalcaemia hypercalcemia; hypocalcaemia hypocalcemia;
hypomagnesaemia hypomagnesemia; hypophosphataemia hypophosphatemia; hyperphosphataemia hyperphosphatemia;
uraemia uremia; uraemic uremic; viraemia viremia; toxaemia toxemia; polycythaemia polycythemia;
thalassaemia thalassemia; hypoxaemia hypoxemia; hypoxaemic hypoxemic; hypovolaemia hypovolemia;
hypovolaemic hypovolemic; hyperlipidaemia hyperlipidemia; dyslipidaemia dyslipidemia; lipidaemia lipidemia;
hypercholesterolaemia hypercholesterolemia; hypertriglyceridaemia hypertriglyceridemia; hyperuricaemia hyperuricemia;
hyperbilirubinaemia hyperbilirubinemia; methaemoglobin methemoglobin; methaemoglobinaemia methemoglobinemia;
carboxyhaemoglobin carboxyhemoglobin; hypoalbuminaemia hypoalbuminemia; acidaemia acidemia;
oedema edema; oedematous edematous; lymphoedema lymphedema; papilloedema papilledema; angioedema angioedema;
myxoedema myxedema; oesophagus esophagus; oesophageal esophageal; oesophagitis esophagitis;
oesophagogastric esophagogastric; gastrooesophageal gastroesophageal; oestrogen estrogen; oestradiol estradiol;
diarrhoea diarrhea; diarrhoeal diarrheal; dyspnoea dyspnea; dyspnoeic dyspneic; apnoea apnea; orthopnoea orthopnea;
tachypnoea tachypnea; tachypnoeic tachypneic; bradypnoea bradypnea; gonorrhoea gonorrhea; amenorrhoea amenorrhea;
dysmenorrhoea dysmenorrhea; rhinorrhoea rhinorrhea; galactorrhoea galactorrhea; steatorrhoea steatorrhea;
seborrhoeic seborrheic; seborrhoea seborrhea; pyorrhoea pyorrhea; logorrhoea logorrhea; coeliac celiac; coelom celom;
caecum cecum; caecal cecal; faeces feces; faecal fecal; faecally fecally; aetiology etiology;
aetiological etiological; anaesthesia anesthesia; anaesthetic anesthetic; anaesthetist anesthetist;
anaesthetised anesthetized; paraesthesia paresthesia; hyperaesthesia hyperesthesia; gynaecology gynecology;
gynaecologist gynecologist; gynaecological gynecological; gynaecomastia gynecomastia; paediatric pediatric;
paediatrician pediatrician; paediatrics pediatrics; orthopaedic orthopedic; orthopaedics orthopedics;
foetus fetus; foetal fetal; caesarean cesarean; haemangioma hemangioma; synaesthesia synesthesia;
leucocyte leukocyte; leucocytosis leukocytosis; leucopenia leukopenia; manoeuvre maneuver; aeroplane airplane;
tumour tumor; behaviour behavior; behavioural behavioral; colour color; coloured colored; colouring coloring;
discoloured discolored; favour favor; favourable favorable; favourably favorably; unfavourable unfavorable;
labour labor; odour odor; vapour vapor; neighbouring neighboring; neighbour neighbor; harbour harbor; flavour flavor;
honour honor; endeavour endeavor; litre liter; millilitre milliliter; decilitre deciliter; microlitre microliter;
femtolitre femtoliter; centimetre centimeter; millimetre millimeter; kilometre kilometer; micrometre micrometer;
nanometre nanometer; centre center; centred centered; fibre fiber; titre titer; goitre goiter; calibre caliber;
sulphate sulfate; sulphur sulfur; sulphonamide sulfonamide; sulphonylurea sulfonylurea; sulphide sulfide;
sulphasalazine sulfasalazine; aluminium aluminum; analyse analyze; analysed analyzed; analysing analyzing;
paralyse paralyze; paralysed paralyzed; catalyse catalyze; catalysed catalyzed; dialysed dialyzed;
hydrolyse hydrolyze; hydrolysed hydrolyzed; labelled labeled; labelling labeling; travelled traveled;
travelling traveling; traveller traveler; counselling counseling; counselled counseled; counsellor counselor;
signalling signaling; modelling modeling; channelled channeled; tranquilliser tranquilizer; fulfil fulfill;
enrol enroll; enrolment enrollment; ageing aging; mould mold; mouldy moldy; sceptical skeptical; pyjamas pajamas;
defence defense; offence offense; pretence pretense; homoeopathic homeopathic; homoeopathy homeopathy;
ultrafilter ultrafilter; practised practiced; practising practicing; licence license; kerb curb
"""

_AMERICAN_ONLY_IF_BRITISH = """
practise practice; programme program; metre meter; grey gray; greyish grayish; judgement judgment; learnt learned;
whilst while; amongst among; humour humor; rigour rigor; cheque check; dependant dependent; towards toward;
afterwards afterward
"""
"""The American word is British as well, or something else: it is never changed back."""

_ISE = """
stabil hospital immun organ recogn minim maxim character categor priorit optim util visual neutral normal local
general special summar standard steril steriliz sensit desensit symptomat metabol oxid carbox polar mobil immobil
catheter anticoagul random mesmer moistur emphas crystall crystal fertil hydrol ion ideal individual internal
ligh mechan motor neutr pasteur penal real revascular social synthes tranquil vapor vascular victim caps anaesthet
apolog author central colon cauter digit econom energ epithelial equal familiar final harmon hybrid legal magnet
modern monopol opson pressur rational scrutin subsid terror traumat verbal lateral keratin demyelin arterial
"""
_NOT_STEMS = word_set("anticoagul mesmer steriliz ligh neutr caps hydrol anaesthet")
_ENDINGS = ("ise ize", "ises izes", "ised ized", "ising izing", "isation ization", "isations izations", "iser izer")


def _pairs(listed: str) -> list[tuple[str, str]]:
    pairs = [tuple(pair.split()) for pair in listed.replace("\n", " ").split(";")]
    return [(pair[0], pair[1]) for pair in pairs if pair[0] != pair[1]]


def _plural(word: str) -> str | None:
    """The plural of a noun or third person of a verb in the table; none where its end says that there is none."""
    if word.endswith(("s", "ed", "ing", "ic", "al", "ly", "ous", "able")):
        return None
    return word[:-1] + "ies" if word.endswith("y") else word + "s"


def _tables() -> tuple[dict[str, str], dict[str, str]]:
    both = _pairs(_SAME_BOTH_WAYS)
    for stem in _ISE.split():
        if stem not in _NOT_STEMS:
            both += [(stem + british, stem + american) for british, american in (e.split() for e in _ENDINGS)]
    one_way = _pairs(_AMERICAN_ONLY_IF_BRITISH)
    for listed in (both, one_way):
        for british, american in list(listed):
            plural, plural_american = _plural(british), _plural(american)
            # "analyses" is the plural of "analysis" on both sides
            if plural and plural_american and plural not in ("analyses", "whilsts", "amongsts", "towardss"):
                listed.append((plural, plural_american))
    american_of = {british: american for british, american in [*one_way, *both]}
    british_of = {american: british for british, american in both}
    return american_of, {word: british for word, british in british_of.items() if word not in ("license", "curb")}


TO_AMERICAN, TO_BRITISH = _tables()
"""Whole words in small letters. What is one word in one country and two in the other goes one way only."""
