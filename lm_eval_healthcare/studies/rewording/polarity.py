"""Which words of a clinical text are denied and which affirmed: what stands after "no", before "is contraindicated"."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from lm_eval_healthcare.studies.rewording.negation_words import (
    AND_NO,
    BACKWARD,
    CUES,
    EMPTY,
    END_AT,
    EXCLUDED,
    FORWARD,
    LISTS,
    NO_NEGATION,
    NOT_EXCLUDED,
    NOT_MALIGNANT,
    ONLY,
    OPPOSITES,
    STOP_AT,
    UNLESS,
    WEAK,
    WEAK_FORM,
)
from lm_eval_healthcare.studies.rewording.number_words import plain, word_set

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|[.;:!?,\n()]")
_NEAR = 4


@dataclass
class Polarity:
    """Stems by how a text says them, and its negations."""

    denied: dict[str, str] = field(default_factory=dict)
    affirmed: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    strong: list[str] = field(default_factory=list)
    weak: int = 0
    weak_words: set[str] = field(default_factory=set)
    only: bool = False
    unless: bool = False
    double: bool = False
    exclusion: set[bool] = field(default_factory=set)


def denies(text: str) -> bool:
    """Return whether anything is denied in a text."""
    found = polarity(text)
    return bool(found.strong or found.weak)


def not_denied(text: str) -> str:
    """Return a text in small letters with "benign" for "not malignant"."""
    return NOT_MALIGNANT.sub("benign", text)


def content_stems(words: list[str]) -> list[str]:
    """Return the stems of those words that are no function words.

    Args:
        words: In small letters without accents.
    """
    return [stem_of(word) for word in words if len(word) > 2 and word not in EMPTY and word not in STOP_AT]


def polarity(text: str) -> Polarity:
    """Return every content word of a text with whether it is denied."""
    found = Polarity()
    simple = plain(text).replace("’", "'")
    rest = NOT_EXCLUDED.sub(" ", simple)
    found.exclusion = {False} if rest != simple else set()
    if EXCLUDED.search(rest):
        found.exclusion.add(True)
    simple = NO_NEGATION.sub(" ", not_denied(rest))
    simple = re.sub(r"\b(?:negative|negativ[oa]s?) (?:for|para)\b", " without ", simple)
    simple = re.sub(r"\b(?:ruled out|rules? out|free of|free from|libre de)\b", " without ", simple)
    simple = AND_NO.sub(", ; ", simple).replace("can not", "cannot")
    clause: list[str] = []
    aside: list[str] | None = None  # what stands in brackets, while they are open
    asides: list[list[str]] = []
    for token in [*_TOKEN.findall(simple), "."]:
        found.only |= token in ONLY
        found.unless |= token in UNLESS
        if token == "(" and aside is None:
            aside = []
        elif token == ")" and aside is not None:
            asides.append(aside)
            aside = None
        elif (token in END_AT and aside is None) or (len(token) == 1 and token in ".:;!?\n()"):
            if token in WEAK:
                _weaken(found, token)
            _read_all(clause, [*asides, aside or []], found)
            clause, aside, asides = [], None, []
        else:
            (clause if aside is None else aside).append(token.replace("'", ""))
    return found


def _read_all(clause: list[str], asides: list[list[str]], found: Polarity) -> None:
    """Sort the words of a clause and of what stands in brackets in it, which may explain what is denied."""
    _read(clause, found)
    for aside in asides:
        if _has_cue(clause):
            found.open.update(stem_of(word) for word in aside if len(word) > 2 and word not in EMPTY)
        else:
            _read(aside, found)


def _weaken(found: Polarity, word: str) -> None:
    found.weak += 1
    found.weak_words.add(stem_of(word))


def _has_cue(clause: list[str]) -> bool:
    return any(
        word in CUES or (word.endswith("nt") and word[:-2] in _AUXILIARIES) or WEAK_FORM.fullmatch(word)
        for word in clause
    )


def _read(clause: list[str], found: Polarity) -> None:
    """Sort the words of a clause."""
    cue, near, listed = "", 0, False
    nested, backward = False, False
    own: list[str] = []  # stems that are denied in this clause and were not before
    has_cue = _has_cue(clause)
    or_list = any(word in ("or", "nor", "ni", "o") for word in clause)
    for place, word in enumerate(clause):
        if word in FORWARD or (word.endswith("nt") and word[:-2] in _AUXILIARIES):
            if word in ("without", "sin") and (cue or backward):
                nested = True
                if cue and near < _NEAR and found.strong:  # "never operate without gloves" denies nothing
                    _leave_open(own, found)
                    continue
            cue, near, listed = word, 0, word in LISTS and or_list
            if not (place == 0 and word == "no" and len(clause) > 1 and clause[1] == ","):
                found.strong.append(word)
            continue
        if word in BACKWARD:
            found.strong.append(word)
            cue, backward = "", True
            continue
        if word == "," or word in STOP_AT:
            if cue and not (listed and (word in (",", "or", "nor", "ni", "o"))):
                near = _NEAR
            continue
        if near and word in ("is", "are", "was", "were", "es", "son", "it") and cue in ("no", "without", "sin"):
            near = _NEAR  # "without treatment it is fatal" denies the treatment only
        if word in WEAK or word in OPPOSITES or WEAK_FORM.fullmatch(word):
            _weaken(found, word)
        positive = OPPOSITES.get(word)
        if positive is not None:  # "unsafe" denies "safe"; "not unsafe" leaves it open
            if cue and near < _NEAR:
                found.open.add(stem_of(positive))
            else:
                found.denied.setdefault(stem_of(positive), word)
            continue
        if word in EMPTY or len(word) < 3:
            continue
        stem = stem_of(word)
        if nested:
            found.open.add(stem)
        elif cue and near < (_NEAR if not listed else 3 * _NEAR):
            if stem not in found.denied:
                found.denied[stem] = word
                own.append(stem)
            near += 1
        elif has_cue:
            found.open.add(stem)
        else:
            found.affirmed.setdefault(stem, word)


def _leave_open(stems: list[str], found: Polarity) -> None:
    """Take the last negation back, which another one turned, and with it what it denied."""
    found.open.update(stems)
    for stem in stems:
        del found.denied[stem]
    stems.clear()
    found.strong.pop()
    found.weak += 1
    found.double = True


_AUXILIARIES = word_set("is are was were do does did should must could would have has had need wo ca might")


@functools.lru_cache(maxsize=20_000)
def stem_of(word: str) -> str:
    """The beginning of a word, so that "give" and "giving", "fracture" and "fractures" are one."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:7].replace("ae", "e").replace("oe", "e")
