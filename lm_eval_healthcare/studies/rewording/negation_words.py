"""The words and phrases by which a clinical text denies, in English and Spanish, in small letters without accents."""

from __future__ import annotations

import re

from lm_eval_healthcare.studies.rewording.number_words import word_set

NO_NEGATION = re.compile(
    r"\bnot only\b|\bno solo\b|\bno solamente\b|\bnot just\b|\bwhether or not\b|\bno matter\b|\bno doubt\b|\bif not\b"
    r"|\b(?:no|not) (?:more|less|later|longer|fewer|earlier|sooner|greater|higher|lower) than\b|\bwhy not\b"
    r"|\bno (?:mas|menos|antes) de\b|\bwithout (?:delay|doubt|fail)\b|\bsin (?:demora|duda|embargo)\b|\bnot uncommon\w*"
    r"|\b(?:not|never) (?:be )?(?:forget|forgotten|hesitate)\b|\bno obstante\b|\bno\. ?\d|\bnon?[- ]hodgkin\b"
)
NOT_EXCLUDED = re.compile(
    r"\b(?:cannot|not|never|can't|couldn't|doesn't|no) (?:be |se |puede |permite |se puede )?"
    r"(?:(?:exclude|rule)[sd]?(?: out)?|ruled out|descart\w+|exclu\w+)\b"
)
EXCLUDED = re.compile(r"\b(?:exclude[sd]?|rule[sd]? out|descarta\w*|excluye\w*)\b")
AND_NO = re.compile(
    r"\b(?:and|y) (?=(?:(?:has|have|had|hay|tiene|presenta|shows?|with) )?(?:no|without|sin)\b(?! (?:se|debe)))"
)
"""Where a second statement begins: what stands before it is not denied."""
LACK = re.compile(
    r"\b(?:(?:a |the |una |la )?(?:lack|absence|carencia|falta|ausencia) (?:of|de)|lack(?:s|ing)?|carece[n]? de)\b"
)
DEFICIENCY = re.compile(r"\b(?:deficien\w+|deficits?|shortages?|insufficien\w+|carencial\w*)\b")
"""Two ways to say that there is too little of something, of which only the first looks like a negation."""
VERBS_DENIED = word_set(
    "not never cannot cant wont dont doesnt didnt isnt arent wasnt werent shouldnt mustnt couldnt wouldnt havent hasnt "
    "hadnt neednt"
)
"""Words that deny a verb; in English they are not repeated in a list as "no" and "without" are."""
NOT_MALIGNANT = re.compile(r"\b(?:not|non|no es|no son)[- ]malign(?:ant|[oa]s?)\b")
ONLY = word_set("only solo solamente unicamente")
UNLESS = word_set("unless salvo")
FORWARD = word_set(
    "no not never without neither nor none cannot cant wont dont doesnt didnt isnt arent wasnt werent shouldnt mustnt "
    "couldnt wouldnt havent hasnt hadnt neednt denies denied deny denying avoid avoids avoiding lack lacks lacking "
    "refrain absence contraindicates nobody nothing sin nunca jamas ni ningun ninguno ninguna nada tampoco niega "
    "niegan evitar evite evita evitando carece ausencia"
)
LISTS = word_set("no without denies denied deny absence neither nor sin niega niegan ni")
BACKWARD = word_set(
    "avoided contraindicated absent excluded prohibited forbidden inadvisable evitarse evitado evitada contraindicado "
    "contraindicada contraindicados contraindicadas ausente ausentes descartado descartada negative negativo negativa "
    "unremarkable discouraged disadvised"
)
WEAK = word_set(
    "non rarely seldom hardly unable fail fails failed instead rather except unless stop stopped stopping discontinue "
    "discontinued withhold withheld free unlikely against refuse refuses exclude excludes nil false untrue incorrect "
    "minimal descartar excepto salvo incapaz rara raramente lieu exclusion incorrecto falso little few limit limited "
    "restrict restricted omit omitted forgo skip missing before only cease worse ineffective inappropriate unsafe "
    "suspender suspenda retirar cuidado caution prevent prevents preventing poor poorly badly barely scarcely mal "
    "insufficiently inadequately contraindication contraindications contraindicacion contraindicaciones"
)
WEAK_FORM = re.compile(
    r"(?:un(?!der|it|ti|cl|iq|io|iv|if)|non|in(?:eff|app|cap|suff|act|com)|ir(?:reg|rel)|a(?:febr|sympt|nuri"
    r"|typ))[a-z]{3,}|[a-z]{3,}less"
)
STOP_AT = word_set(
    "in with if when until during who which that because due before after by unless than as while but however although "
    "though except so then since from en con si cuando hasta durante que porque debido antes despues por pero sino "
    "aunque salvo excepto como mientras for para at on where on or and y o"
)
END_AT = word_set("but however although though except unless pero sino aunque salvo excepto yet whereas instead rather")
EMPTY = word_set(
    "the a an of to be is are was were been being and or it its this that these those there here have has had do does "
    "did done should must may might can could will would shall he she they them his her their you your we our i any "
    "some all also only very more most much many such as at by for from in into on with than then so if when but not "
    "no evidence sign signs symptom symptoms history clear need any patient patients person people case cases "
    "el la los las un una unos unas de "
    "del al y o a en con por para que se su sus es son fue esta este esto hay ha han debe deben puede pueden lo le les "
    "muy mas como si no ser haber estar paciente pacientes evidencia signos sintomas other recommended "
    "advised used use "
    "using given give take taken taking seen present found shown show considered usually often generally one "
    "receive receives received receiving get gets getting got undergo perform performed make made start started begin "
    "begun keep kept recibir recibe reciben tomar toma tomado realizar"
)
_WITH_OPPOSITES = (
    "un safe|un stable|un common|un likely|un able|un necessary|un controlled|un treated|un complicated|un protected|"
    "un related|un known|un usual|un clear|un conscious|un responsive|un affected|un changed|un desirable|un reliable|"
    "ab normal|in effective|in appropriate|in sufficient|in adequate|in active|in complete|in correct|in frequent|"
    "in operable|in curable|im possible|im mobile|ir reversible|ir regular|ir relevant|a symptomatic|a febrile|"
    "in seguro|a normal|in eficaz|in adecuado|in suficiente|im posible|ir reversible|a sintomatico|in frecuente|"
    "in necesario|in segura|in adecuada|in necesaria"
)
OPPOSITES = {pair.replace(" ", ""): pair.split()[1] for pair in _WITH_OPPOSITES.split("|")}
"""Words that deny another one by their beginning."""
CUES = FORWARD | BACKWARD | WEAK | frozenset(OPPOSITES)
