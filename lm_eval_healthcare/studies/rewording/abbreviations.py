"""Clinical abbreviations that mean one thing only, and what they stand for."""

from __future__ import annotations

import functools
import re

from lm_eval_healthcare.studies.rewording.number_words import word_set

EXPANSIONS = {
    "BP": "blood pressure", "HR": "heart rate", "SOB": "shortness of breath",
    "NSAID": "non-steroidal anti-inflammatory drug",
    "COPD": "chronic obstructive pulmonary disease", "DVT": "deep vein thrombosis", "UTI": "urinary tract infection",
    "CHF": "congestive heart failure", "CKD": "chronic kidney disease", "AKI": "acute kidney injury",
    "GERD": "gastro-esophageal reflux disease", "GORD": "gastro-oesophageal reflux disease",
    "ECG": "electrocardiogram", "EKG": "electrocardiogram", "EEG": "electroencephalogram", "EMG": "electromyography",
    "CT": "computed tomography", "MRI": "magnetic resonance imaging", "ICU": "intensive care unit",
    "BMI": "body mass index", "CSF": "cerebrospinal fluid", "CBC": "complete blood count", "FBC": "full blood count",
    "ESR": "erythrocyte sedimentation rate", "CRP": "C-reactive protein", "TSH": "thyroid-stimulating hormone",
    "LDL": "low-density lipoprotein", "HDL": "high-density lipoprotein",
    "SSRI": "selective serotonin reuptake inhibitor",
    "PPI": "proton pump inhibitor", "IBS": "irritable bowel syndrome", "IBD": "inflammatory bowel disease",
    "ARDS": "acute respiratory distress syndrome", "SLE": "systemic lupus erythematosus",
    "STEMI": "ST-elevation myocardial infarction", "NSTEMI": "non-ST-elevation myocardial infarction",
    "CPR": "cardiopulmonary resuscitation", "TIA": "transient ischaemic attack",
    "INR": "international normalised ratio",
    "GFR": "glomerular filtration rate", "eGFR": "estimated glomerular filtration rate",
    "CNS": "central nervous system",
    "HIV": "human immunodeficiency virus", "HPV": "human papillomavirus", "CMV": "cytomegalovirus",
    "EBV": "Epstein-Barr virus", "RSV": "respiratory syncytial virus",
    "MRSA": "methicillin-resistant Staphylococcus aureus",
    "STI": "sexually transmitted infection", "DKA": "diabetic ketoacidosis",
    "SIADH": "syndrome of inappropriate antidiuresis",
    "PCOS": "polycystic ovary syndrome", "ADHD": "attention deficit hyperactivity disorder",
    "OCD": "obsessive-compulsive disorder", "PTSD": "post-traumatic stress disorder", "OSA": "obstructive sleep apnea",
    "CAD": "coronary artery disease", "CABG": "coronary artery bypass grafting", "LVH": "left ventricular hypertrophy",
    "ARB": "angiotensin receptor blocker", "SpO2": "oxygen saturation", "BUN": "blood urea nitrogen",
    "LFT": "liver function test", "HRT": "hormone replacement therapy", "IUD": "intrauterine device",
    "IVF": "in vitro fertilisation", "LMWH": "low-molecular-weight heparin",
    "URTI": "upper respiratory tract infection",
    "URI": "upper respiratory infection", "PRN": "as needed", "prn": "as needed", "BID": "twice a day",
    "b.i.d.": "twice a day", "TID": "three times a day", "t.i.d.": "three times a day", "tid": "three times a day",
    "QID": "four times a day", "q.i.d.": "four times a day", "qid": "four times a day", "NPO": "nothing by mouth",
}  # fmt: skip
"""Left out are abbreviations with several usual meanings, such as MS, PE, RA, PT, AF, MR, OD and ED, and all that
would put a number into the text or take one out."""
for _missing in ("NPO",):  # "nothing" would be a negation that the abbreviation hides
    del EXPANSIONS[_missing]
_MI_BEFORE = r"(?:acute|an|previous|prior|old|inferior|anterior|of|after|recent|post|an acute|suspected)"
_PATTERN = re.compile(
    r"(?<![\w/.-])(?:(?P<article>[Aa]n?) )?(?P<name>"
    + "|".join(re.escape(name) for name in sorted(EXPANSIONS, key=len, reverse=True))
    + r")(?P<plural>s)?(?![\w/'’-]|\.\w)"
)
_MI = re.compile(rf"\b({_MI_BEFORE}) MI(?![\w/.-]|-)|\b({_MI_BEFORE}) MI(?=\.(?:\s|\Z))")
_ROUTES = (
    (
        re.compile(r"(?<=[a-zµ] )PO(?= (?:BID|TID|QID|q\d|once|twice|three|four|daily|every|for|as|PRN|prn)\b|[.,;])"),
        "by mouth",
    ),
    (
        re.compile(
            r"(?<![\w-])IV(?= (?:fluids?|antibiotics?|access|lines?|infusions?|bolus|drip|cannula|administration"
            r"|therapy"
            r"|route|injections?|contrast|iron|steroids?|corticosteroids?|immunoglobulins?|saline|hydration)\b)"
        ),
        "intravenous",
    ),
    (re.compile(r"(?<=(?:mg|mL|ml|µg| g|cg) )IV(?![\w/-])|(?<=given )IV(?![\w/-])"), "intravenously"),
    (re.compile(r"(?<=(?:mg|mL|ml|µg| g|cg) )IM(?![\w/-])|(?<=given )IM(?![\w/-])"), "intramuscularly"),
)
_UNCOUNTABLE = word_set("BP HR SOB CT MRI CSF CRP TSH CNS CPR HIV HPV PRN prn BID TID QID SpO2 BUN")
_IMAGING = word_set("CT MRI")
"""Nobody says "a magnetic resonance imaging"."""


def expanded(text: str) -> str:
    """Return a text with its clinical abbreviations written out.

    An abbreviation that the text explains itself stays, and so does one joined to other signs, such as "HIV-1".
    In text written in capitals nothing is changed, since there abbreviations cannot be told from words.

    Args:
        text: English text.
    """
    letters = [c for c in text if c.isalpha()]
    if sum(c.isupper() for c in letters) * 2 > len(letters) and len(letters) > 20:
        return text
    small = text.lower()

    def written_out(match: re.Match[str]) -> str:
        full = EXPANSIONS[match["name"]]
        if full.lower() in small or (match["plural"] and match["name"] in _UNCOUNTABLE):
            return match[0]
        if match["article"] and match["name"] in _IMAGING and not text.startswith(" scan", match.end()):
            return match[0]
        if match["plural"]:
            full = f"{full[:-1]}ies" if full.endswith("y") and full[-2] not in "aeo" else f"{full}s"
        if match["article"]:
            right = "an" if full[0].lower() in "aeio" else "a"
            return f"{right.capitalize() if match['article'][0] == 'A' else right} {full}"
        return full[0].upper() + full[1:] if _begins(text, match.start()) else full

    changed = _PATTERN.sub(written_out, text)
    if "myocardial infarction" not in small:
        changed = _MI.sub(lambda match: _infarction(match[1] or match[2]), changed)
    for pattern, full in _ROUTES:
        changed = pattern.sub(functools.partial(_route, full), changed)
    return changed


def _route(full: str, match: re.Match[str]) -> str:
    return full[0].upper() + full[1:] if _begins(match.string, match.start()) else full


def _infarction(before: str) -> str:
    return f"{'a' if before == 'an' else before} myocardial infarction"


def _begins(text: str, place: int) -> bool:
    """Whether a sentence begins there."""
    before = text[max(0, place - 8) : place].rstrip(' "“(')
    return not before or before[-1] in ".!?\n"
