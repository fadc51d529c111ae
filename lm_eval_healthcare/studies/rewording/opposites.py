"""Whether a rewording turned a word into its opposite: left and right, high and low, before and after.

Some pairs have no second way to say them: the left kidney is never the right one, hyperkalaemia never hypokalaemia. One
of those is turned if one text has only the one, and the other text only its opposite. Others are said either way, such
as "A is higher than B" and "B is lower than A": those are turned only in a sentence whose other words stand in both
texts, without a negation, and with the same words after "than", "before" or "after".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.number_words import plain, word_set
from lm_eval_healthcare.studies.rewording.polarity import content_stems, denies, not_denied

_WORD = re.compile(r"[^\W\d_]+")
_MOST_SENTENCES = 80
_LONGEST_SENTENCE = 1_000  # characters
_ALIKE = 0.7
_NEAR = 30  # characters
_DENIED_AFTER = re.compile(
    r"(?: [a-z]+){0,3} (?:excluded|ruled out|unlikely|absent|(?:is|are|was|were) (?:not|never)|descartad[oa]s?"
    r"|improbable|ausentes?)\b"
)
_FEWEST_WORDS = 2

_FIXED = (
    (
        r"left(?:-sided)?(?! (?:untreated|alone|out|over|with|behind|unchecked|in place|open|unsaid|to|unattended))"
        r"|izquierd[oa]s?",
        r"right(?:-sided)?(?! (?:away|now|before|after|amount|dose|time|choice|to|angles?|answer|thing|people|one"
        r"|treatment|medication|diagnosis|balance|track|for|decision))|derech[oa]s?(?! a\b)",
    ),
    (r"benign\w*", r"malignan\w*|malign[oa]s?"),
    (r"systolic|sistolic[oa]s?", r"diastolic|diastolic[oa]s?"),
    (r"proximal\w*|proximales", r"distal\w*"),
    (r"medial(?:ly)?|mediales", r"lateral(?:ly)?|laterales"),
    (r"anterior(?:ly|es)?", r"posterior(?:ly|es)?"),
    (r"ventral(?:ly|es)?", r"dorsal(?:ly|es)?"),
    (r"supine|supino", r"prone(?! to)|prono"),
    (r"afferent|aferentes?", r"efferent|eferentes?"),
    (r"ipsilateral\w*", r"contralateral\w*"),
    (r"agonist\w*|agonistas?", r"antagonist\w*|antagonistas?"),
    (r"recessive\w*|recesiv\w*", r"dominant\w*|dominante\w*"),
    (r"arterial\w*", r"venous|venos[oa]s?"),
    (
        r"upper|superior(?:es)? del",
        r"lower(?= (?:limb|extremit|leg|eyelid|lobe|abdom|back|lip|respiratory|GI|quadrant"
        r"|airway|esophag|oesophag|motor|jaw|arm|pole))",
    ),
    (r"gram[- ]positiv\w*", r"gram[- ]negativ\w*"),
    (r"preoperativ\w*", r"postoperativ\w*"),
    (r"inspirat\w+|inspirator\w+", r"expirat\w+(?<!date)|espirat\w+|espirator\w+"),
    (r"obstructive|obstructiv[oa]s?", r"restrictive|restrictiv[oa]s?"),
    (r"macrocytic|macrocitic[oa]s?", r"microcytic|microcitic[oa]s?"),
    (r"vasodilat\w*", r"vasoconstrict\w*|vasoconstric\w*"),
    (r"abduct\w*|abducc\w*", r"adduct\w*|aducc\w*"),
    (r"sympathetic|simpatic[oa]s?", r"parasympathetic|parasimpatic[oa]s?"),
)
"""Both ends of what has no second way to be said, as patterns for whole words without accents."""
_COMPILED = tuple(tuple(re.compile(rf"\b(?:{side})\b") for side in pair) for pair in _FIXED)
_PREFIXES = re.compile(r"\b(hyper|hypo|hiper|hipo|tachy|brady|taqui|bradi)([a-z]{4,})")
_PREFIX_SIDE = {"hyper": 1, "hiper": 1, "tachy": 1, "taqui": 1, "hypo": -1, "hipo": -1, "brady": -1, "bradi": -1}

_AXES = (
    (
        "increas.* raise raises raised raising rise rises rising risen rose elevated? elevates elevating elevation "
        "high higher highest greater greatest more larger aument.* elevad.* eleva elevan alt[oa]s? mayor mayores mas "
        "sube suben",
        "decreas.* reduc.* lowers? lowered lowering lowest low falls? falling fallen fell drops? dropped declin.* "
        "diminish.* less fewer smaller dismin.* baj[ae]s? bajan bajos menor menores menos descien.*",
    ),
    ("before prior preced.* antes", "after following despues tras"),
    ("safe safely harmless segur[oa]s?", "dangerous harmful risky peligros[oa]s?"),
    ("common commonly frequent frequently often frecuentes? frecuentemente", "rare rarely seldom rar[oa]s? raramente"),
    ("positive positiv[oa]s?", "negative negativ[oa]s?"),
    ("maximum maximal maxim[oa]", "minimum minimal minim[oa]"),
    ("acute acutely agud[oa]s?", "chronic chronically cronic[oa]s?"),
    ("superior", "inferior"),
    ("improv.* better mejor.*", "worse worsen.* deteriorat.* peor.* empeor.*"),
    ("stimulat.* activat.* estimul.* activan?", "inhibit.* suppress.* blocks? blocking inhib.* suprim.*"),
    ("prolong.* lengthen.* longer alarg.*", "shorten.* shorter acort.*"),
    ("early earlier earliest tempran.*", "late later latest tardi.*"),
    ("faster accelerat.* rapid rapidly acelera.*", "slower slows? slowly slowing lento lenta lentamente"),
    ("always siempre", "never nunca jamas"),
    ("gain gains gained", "loss lose loses lost"),
)
_LOOSE = tuple(
    tuple(re.compile(rf"(?:{'|'.join(side.split())})\Z".replace(".*", r"\w*")) for side in axis) for axis in _AXES
)
"""Both ends of what may be said either way, as patterns for one word."""
_LIMITS = re.compile(
    r"\bat (?:the )?(?:least|most|latest|earliest)\b"
    r"|\bor (?:more|less|higher|lower|greater|above|below|later|earlier)\b"
    r"|\b(?:no|not|nor) (?:more|less|higher|lower|greater|fewer|later|earlier|longer) than\b|\bmore or less\b"
    r"|\bo (?:mas|menos)\b|\bno mas de\b|\bno menos de\b|\bno longer\b|\b(?:mas|menos) de\b"
    r"|\bmore than(?= [\d\w])|\bless than\b"
)
"""Limits of numbers, which are compared with the numbers, and what sounds like them."""
_THAN = word_set("than versus vs compared que frente")
_BEFORE_AFTER = 1  # place in `_LOOSE`


@dataclass(frozen=True)
class _Sentence:
    words: list[str]
    stems: frozenset[str]
    denied: bool
    sides: tuple[int, ...]  # of each pair of `_LOOSE`: 1, -1, 0 for none or both


def opposite_findings(original: str, rewording: str) -> list[Finding]:
    """Return which word a rewording turned into its opposite.

    Args:
        original: The text that was reworded.
        rewording: What it became.

    Returns:
        At most one finding.
    """
    before, after = not_denied(plain(original)), not_denied(plain(rewording))
    turned = _fixed(before, after) or _prefixed(before, after) or _loose(before, after)
    return [Finding(Fault.OPPOSITE, turned)] if turned else []


def _fixed(before: str, after: str) -> str:
    for first, second in _COMPILED:
        for one, other in ((first, second), (second, first)):
            was, now = one.search(before), other.search(after)
            if not was or not now or other.search(before) or one.search(after):
                continue
            if not _in_denial(before, was) and not _in_denial(after, now):
                return f"'{was[0]}' became '{now[0]}'"
    return ""


def _in_denial(text: str, match: re.Match[str]) -> bool:
    """Whether a match is what is denied: "not malignant", "malignancy was excluded"."""
    start = max(text.rfind(mark, 0, match.start()) for mark in ".!?;:\n") + 1
    if denies(text[max(start, match.start() - _NEAR) : match.end()]):
        return True
    return _DENIED_AFTER.match(text[match.end() : match.end() + 2 * _NEAR]) is not None


def _prefixed(before: str, after: str) -> str:
    """Say which word changed the beginning that says too much or too little."""
    was, now = _with_prefix(before), _with_prefix(after)
    for stem, sides in was.items():
        others = now.get(stem)
        if others and len(sides) == len(others) == 1 and sides.keys() != others.keys():
            return f"'{next(iter(sides.values()))}' became '{next(iter(others.values()))}'"
    return ""


def _with_prefix(text: str) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for match in _PREFIXES.finditer(text):
        stem = match[2].replace("ae", "e").replace("oe", "e")[:6]
        found.setdefault(stem, {}).setdefault(_PREFIX_SIDE[match[1]], match[0])
    return found


def _loose(before: str, after: str) -> str:
    """Say which word was turned in a sentence that otherwise has the same words."""
    theirs = _sentences(after)
    for one in _sentences(before):
        for place, side in enumerate(one.sides):
            if not side or one.denied:
                continue
            near = [other for other in theirs if _alike(one, other, place) >= _ALIKE]
            if near and all(
                other.sides[place] == -side and not other.denied and _same_way(one, other, place) for other in near
            ):
                return f"'{_turning(one, place)[0]}' became '{_turning(near[0], place)[0]}'"
    return ""


def _sentences(text: str) -> list[_Sentence]:
    found = []
    for raw in re.split(r"(?<=[.!?;])\s+|\n+", text, maxsplit=_MOST_SENTENCES)[:_MOST_SENTENCES]:
        part = raw[:_LONGEST_SENTENCE]
        words = _WORD.findall(_LIMITS.sub(" ", part))
        ups, downs = ([any(map(axis[end].match, words)) for axis in _LOOSE] for end in (0, 1))
        sides = tuple(int(up) - int(down) for up, down in zip(ups, downs, strict=True))
        found.append(_Sentence(words, frozenset(content_stems(words)), denies(part), sides))
    return found


def _turning(sentence: _Sentence, place: int) -> list[str]:
    """The words of a sentence that are one end of a pair."""
    up, down = _LOOSE[place]
    return [word for word in sentence.words if up.match(word) or down.match(word)]


def _alike(one: _Sentence, other: _Sentence, place: int) -> float:
    """Which share of their content words two sentences have both, but for those that may have been turned."""
    first, second = (s.stems - {*content_stems(_turning(s, place))} for s in (one, other))
    if min(len(first), len(second)) < _FEWEST_WORDS:
        return 0.0
    return len(first & second) / len(first | second)


def _same_way(one: _Sentence, other: _Sentence, place: int) -> bool:
    """Whether both sentences compare with the same thing, or with nothing."""
    if place == _BEFORE_AFTER:
        first, second = (
            _following(s.words, lambda word: bool(_LOOSE[place][0].match(word) or _LOOSE[place][1].match(word)), 1)
            for s in (one, other)
        )
        return bool(first & second)
    than = [_following(s.words, _THAN.__contains__, 3) for s in (one, other)]
    return not any(than) or bool(than[0] & than[1])


def _following(words: list[str], wanted: Callable[[str], bool], most: int) -> frozenset[str]:
    """The first content words after the first word that is wanted."""
    for place, word in enumerate(words):
        if wanted(word):
            return frozenset(_first(words[place + 1 :], most))
    return frozenset()


def _first(words: list[str], most: int) -> list[str]:
    found: list[str] = []
    for word in words:
        found += content_stems([word])
        if len(found) >= most:
            break
    return found[:most]
