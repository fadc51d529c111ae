"""Whether a rewording gave a number to another medicine or value: "A 5 mg and B 10 mg" as "A 10 mg and B 5 mg".

In each sentence a number belongs to what is named before it, or after it, if that holds for the whole sentence.
Sentences in which it cannot be told are passed over, and only a full exchange between two names is reported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from lm_eval_healthcare.studies.rewording.drugs import drugs_with_places
from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.number_words import plain
from lm_eval_healthcare.studies.rewording.quantity_reader import quantities

_VALUES = """
sodium|na|sodio; potassium|k|potasio; chloride|cl|cloro; calcium|ca|calcio; magnesium|mg2|magnesio; phosphate|fosfato;
glucose|glucosa|glucemia; creatinine|creatinina; urea; bun; albumin|albumina; bilirubin|bilirrubina; lactate|lactato;
hemoglobin|haemoglobin|hb|hgb|hemoglobina; hematocrit|haematocrit|hematocrito; platelets|platelet|plaquetas;
leukocytes|leucocytes|wbc|leucocitos; ferritin|ferritina; tsh; t4; t3; ldl; hdl; triglycerides|trigliceridos;
ast; alt; alp; ggt; ldh; crp|pcr; esr|vsg; inr; troponin|troponina; bicarbonate|hco3|bicarbonato; pco2|paco2; po2|pao2;
sensitivity|sensitive|sensibilidad; specificity|specific|especificidad; height|tall|talla; weight|weighs|peso;
systolic|sistolica; diastolic|diastolica; pulse|pulso; men|males|hombres|varones; women|females|mujeres;
boys|ninos; girls|ninas; adults|adultos; children|ninos; placebo; solids|solidos; liquids|fluids|liquidos
"""
_NAMED = {name.strip(): names.split("|")[0].strip() for names in _VALUES.split(";") for name in names.split("|")}
_TIMES_OF_DAY = """
morning|mornings|breakfast|manana|mananas|desayuno; noon|midday|lunch|mediodia|almuerzo|comida;
afternoon|afternoons|tarde; evening|evenings|night|nights|bedtime|dinner|supper|noche|noches|cena
"""
_AT = {name.strip(): names.split("|")[0].strip() for names in _TIMES_OF_DAY.split(";") for name in names.split("|")}
_SYMBOLS = frozenset({"na", "k", "cl", "ca", "hb", "ast", "alt", "pcr"})
_WORD = re.compile(r"[^\W_]+")
_MOST_SENTENCES = 200
_LONGEST_SENTENCE = 1_000  # characters
_MOST_NAMES = 60
_NOT_DOSES = frozenset({"time", "months", "ordinal", "name", ""})
Amount = tuple[str, float]
"""What a number measures, and its value in the smallest unit of that."""


def moved_findings(original: str, rewording: str, spanish: bool = False) -> list[Finding]:
    """Return which two numbers changed places.

    Args:
        original: The text that was reworded.
        rewording: What it became.
        spanish: Whether "1.000" is a thousand.

    Returns:
        At most one finding.
    """
    before = _owned(original, spanish)
    if len(before) < 2:
        return []
    after = _owned(rewording, spanish)
    kinds = {kind for amounts in before.values() for kind, _ in amounts}
    shared = [name for name in before if name in after]
    for kind in sorted(kinds):
        was, now = ({name: _of_kind(texts[name], kind) for name in shared} for texts in (before, after))
        for one, other in itertools.combinations(shared[:_MOST_NAMES], 2):
            if was[one] & now[one] or was[other] & now[other]:
                continue
            if was[one] & now[other] and was[other] & now[one]:
                return [Finding(Fault.NUMBER_MOVED, f"the numbers of '{one}' and '{other}' changed places")]
    return []


def _of_kind(amounts: set[Amount], kind: str) -> set[Amount]:
    return {amount for amount in amounts if amount[0] == kind}


def _owned(text: str, spanish: bool) -> dict[str, set[Amount]]:
    """The amounts that belong to each name of a text."""
    found: dict[str, set[Amount]] = {}
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", text, maxsplit=_MOST_SENTENCES)[:_MOST_SENTENCES]:
        for name, amounts in _in_sentence(sentence[:_LONGEST_SENTENCE], spanish):
            found.setdefault(name, set()).update(amounts)
    return found


def _in_sentence(sentence: str, spanish: bool) -> Iterable[tuple[str, set[Amount]]]:
    places = _names(sentence)
    if not places or not re.search(r"\d", sentence):
        return []
    edges = [0, *(edge for _, start, end in places for edge in (start, end)), len(sentence)]
    between = [_amounts(sentence[a:b], spanish) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    names = [name for name, _, _ in places]
    if not between[0] and between[-1]:
        between = between[1:]
    elif between[0] and not between[-1]:
        between = between[:-1]
    else:
        return []
    if len(set(names)) < len(names):
        return []
    return [(name, amounts) for name, amounts in zip(names, between, strict=True) if amounts]


def _names(sentence: str) -> list[tuple[str, int, int]]:
    """What a sentence names that may have a number, with its place."""
    found = drugs_with_places(sentence)
    for match in _WORD.finditer(sentence):
        word = plain(match[0])
        if word in _NAMED and not (word in _SYMBOLS and match[0].islower()):
            found.append((_NAMED[word], match.start(), match.end()))
    if not found:  # one medicine, or none that is named, at different times of the day
        words = ((plain(match[0]), match) for match in _WORD.finditer(sentence))
        found = [(_AT[word], match.start(), match.end()) for word, match in words if word in _AT]
    found.sort(key=lambda one: one[1])
    return [one for place, one in enumerate(found) if not place or one[1] >= found[place - 1][2]]


def _amounts(part: str, spanish: bool) -> set[Amount]:
    return {
        (one.kind, float(f"{one.value:.6g}"))
        for one in quantities(part, spanish)
        if one.kind not in _NOT_DOSES and not one.name and not (one.soft and not one.is_frequency)
    }
