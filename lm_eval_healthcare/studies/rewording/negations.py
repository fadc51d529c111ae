"""Whether a rewording denies what the original affirms, or the other way round.

A sentence's words after "no", "not", "without", "deny" or "avoid" are denied, those before "is contraindicated" as
well. A word that one text only denies and the other only affirms was turned; so was a sentence that
stands in both texts, in one with a negation, and a text that lost all its negations, or got one where the original has
none, over the same words.

What this cannot see: opposites ("high" for "low", "worse" for "better"), a negation that is lost while all its words
are replaced and others remain, which of two denied things "except" takes out, and irony. Forms that deny by an
opposite ("stay in bed", "do not leave your bed") may be reported although they agree.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
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
_MOST_SENTENCES = 80
_FEWEST_WORDS = 3
_ALIKE = 0.8
_YES, _NO = frozenset({True}), frozenset({False})


@dataclass
class _Polarity:
    """Stems by how a text says them, and its negations."""

    denied: dict[str, str] = field(default_factory=dict)
    affirmed: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    strong: list[str] = field(default_factory=list)
    weak: int = 0
    weak_words: set[str] = field(default_factory=set)
    only: bool = False
    unless: bool = False
    exclusion: set[bool] = field(default_factory=set)


def negation_findings(original: str, rewording: str) -> list[Finding]:
    """Return what one text denies and the other affirms.

    Args:
        original: The text that was reworded.
        rewording: What it became.

    Returns:
        At most one finding, with the first words that were turned.
    """
    first = _answer(original), _answer(rewording)
    if set(first) == {"yes", "no"}:
        return [Finding(Fault.NEGATION_CHANGED, f"the answer was '{first[0]}' and became '{first[1]}'")]
    before, after = _polarity(original), _polarity(rewording)
    turned = [
        f"'{here[stem]}' was {was} and is {now}"
        for here, there, was, now in (
            (before.denied, after.affirmed, "denied", "affirmed"),
            (before.affirmed, after.denied, "affirmed", "denied"),
        )
        for stem in here
        if stem in there and not _also(before, stem, was) and not _also(after, stem, now)
    ]
    if not turned:
        turned = _turned_sentences(original, rewording)
    if not turned:
        turned = _lost(before, after, "lost its") or _lost(after, before, "got a")
    if not turned and {frozenset(before.exclusion), frozenset(after.exclusion)} == {_YES, _NO}:
        turned = [f"'exclude' was {_said(before)} and is {_said(after)}"]
    return [Finding(Fault.NEGATION_CHANGED, "; ".join(turned[:3]))] if turned else []


def denies(text: str) -> bool:
    """Return whether anything is denied in a text."""
    found = _polarity(text)
    return bool(found.strong or found.weak)


def not_denied(text: str) -> str:
    """Return a text in small letters with "benign" for "not malignant"."""
    return NOT_MALIGNANT.sub("benign", text)


def content_stems(words: list[str]) -> list[str]:
    """Return the stems of those words that are no function words.

    Args:
        words: In small letters without accents.
    """
    return [_stem(word) for word in words if len(word) > 2 and word not in EMPTY and word not in STOP_AT]


def _said(found: _Polarity) -> str:
    return "affirmed" if True in found.exclusion else "denied"


def _also(found: _Polarity, stem: str, how: str) -> bool:
    """Whether a text also says a stem the other way, or in a place where it may be either."""
    other = found.affirmed if how == "denied" else found.denied
    return stem in other or stem in found.open


def _turned_sentences(original: str, rewording: str) -> list[str]:
    """Say which sentence stands in both texts, once with a negation and once without."""
    before, after = _sentences(original), _sentences(rewording)
    for words, cues, shown in before:
        near = [theirs for other, theirs, _ in after if _alike(words, other) >= _ALIKE]
        if near and all(cues[1] == theirs[1] and bool(cues[0]) != bool(theirs[0]) for theirs in near):
            return [f"the rewording {'lost its' if cues[0] else 'got a'} negation in '{shown}'"]
    return []


def _sentences(text: str) -> list[tuple[set[str], tuple[int, int], str]]:
    """The words of each sentence, how many strong and weak negations it has, and its beginning."""
    found = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", text, maxsplit=_MOST_SENTENCES)[:_MOST_SENTENCES]:
        sorted_out = _polarity(sentence)
        words = {*sorted_out.denied, *sorted_out.affirmed, *sorted_out.open}
        if len(words) >= _FEWEST_WORDS:
            found.append((words, (len(sorted_out.strong), sorted_out.weak), sentence[:60]))
    return found


def _alike(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)


def _lost(having: _Polarity, other: _Polarity, what: str) -> list[str]:
    """Say that only one of two texts denies anything, and that over words which both have."""
    if not having.strong or other.strong or other.weak_words - having.weak_words:
        return []
    if having.unless and other.only:  # "not needed unless" is "only needed if"
        return []
    shared = (having.denied.keys() | having.open) & (other.affirmed.keys() | other.open)
    alone = what.startswith("lost") and not having.weak
    if not shared and not alone:
        return []
    return [f"the rewording {what} '{having.strong[0]}'"]


def _answer(text: str) -> str:
    """The "yes" or "no" that a text begins with."""
    match = re.match(r"\W{0,5}(yes|no|si|sí|true|false)\b\s*(?=[.,;:!\n—–-]|\Z)", text[:40], re.IGNORECASE)
    if not match:
        return ""
    return "yes" if plain(match[1]) in ("yes", "si", "true") else "no"


def _polarity(text: str) -> _Polarity:
    """Every content word of a text with whether it is denied."""
    found = _Polarity()
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


def _read_all(clause: list[str], asides: list[list[str]], found: _Polarity) -> None:
    """Sort the words of a clause and of what stands in brackets in it, which may explain what is denied."""
    _read(clause, found)
    for aside in asides:
        if _has_cue(clause):
            found.open.update(_stem(word) for word in aside if len(word) > 2 and word not in EMPTY)
        else:
            _read(aside, found)


def _weaken(found: _Polarity, word: str) -> None:
    found.weak += 1
    found.weak_words.add(_stem(word))


def _has_cue(clause: list[str]) -> bool:
    return any(
        word in CUES or (word.endswith("nt") and word[:-2] in _AUXILIARIES) or WEAK_FORM.fullmatch(word)
        for word in clause
    )


def _read(clause: list[str], found: _Polarity) -> None:
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
                found.open.add(_stem(positive))
            else:
                found.denied.setdefault(_stem(positive), word)
            continue
        if word in EMPTY or len(word) < 3:
            continue
        stem = _stem(word)
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


def _leave_open(stems: list[str], found: _Polarity) -> None:
    """Take the last negation back, which another one turned, and with it what it denied."""
    found.open.update(stems)
    for stem in stems:
        del found.denied[stem]
    stems.clear()
    found.strong.pop()
    found.weak += 1


_AUXILIARIES = word_set("is are was were do does did should must could would have has had need wo ca might")


@functools.lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """The beginning of a word, so that "give" and "giving", "fracture" and "fractures" are one."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:7].replace("ae", "e").replace("oe", "e")
