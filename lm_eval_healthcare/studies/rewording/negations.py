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

import re
from collections import Counter
from dataclasses import dataclass

from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.negation_words import (
    DEFICIENCY,
    LACK,
    VERBS_DENIED,
)
from lm_eval_healthcare.studies.rewording.number_words import plain
from lm_eval_healthcare.studies.rewording.polarity import Polarity, polarity

_MOST_SENTENCES = 80
_FEWEST_WORDS = 3
_ALIKE = 0.8
_YES, _NO = frozenset({True}), frozenset({False})


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
    before, after = polarity(_deficient(original, rewording)), polarity(_deficient(rewording, original))
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


def _deficient(text: str, other: str) -> str:
    """Return a text with "deficiency of" for "lack of" where the other one calls it a deficiency."""
    if DEFICIENCY.search(plain(other)) and not LACK.search(plain(other)):
        return LACK.sub("deficiency of", plain(text))
    return text


def _said(found: Polarity) -> str:
    return "affirmed" if True in found.exclusion else "denied"


def _also(found: Polarity, stem: str, how: str) -> bool:
    """Whether a text also says a stem the other way, or in a place where it may be either."""
    other = found.affirmed if how == "denied" else found.denied
    return stem in other or stem in found.open


def _turned_sentences(original: str, rewording: str) -> list[str]:
    """Say which sentence stands in both texts, once with a negation and once without."""
    before, after = _sentences(original), _sentences(rewording)
    for one in before:
        near = [other for other in after if _alike(one.words, other.words) >= _ALIKE]
        if near and all(_turned(one, other) for other in near):
            lost = sum(one.strong.values()) > sum(near[0].strong.values())
            return [f"the rewording {'lost its' if lost else 'got a'} negation in '{one.shown}'"]
        if near and all(_exchanged(one, other) for other in near):
            return [f"the rewording denies something else in '{one.shown}'"]
    return []


def _turned(one: _Sentence, other: _Sentence) -> bool:
    """Whether two sentences of nearly the same words differ in one negation of a verb, or in all they have."""
    if one.weak != other.weak:
        return False
    if bool(one.strong) != bool(other.strong):
        return True
    more, fewer = (one, other) if sum(one.strong.values()) > sum(other.strong.values()) else (other, one)
    extra = more.strong - fewer.strong
    if fewer.strong - more.strong or sum(extra.values()) != 1 or fewer.joined > more.joined:
        return False  # "not A or B" is "not A and not B"
    (cue,) = extra
    return cue in VERBS_DENIED and cue not in fewer.strong and fewer.denied != more.denied


def _exchanged(one: _Sentence, other: _Sentence) -> bool:
    """Whether two sentences of the same words have as many negations, but deny quite different things."""
    if one.words != other.words or one.strong != other.strong or one.weak != other.weak:
        return False
    return bool(one.denied) and bool(other.denied) and not one.denied & other.denied


@dataclass(frozen=True)
class _Sentence:
    words: set[str]
    denied: frozenset[str]
    strong: Counter[str]
    weak: int
    joined: int
    shown: str


def _sentences(text: str) -> list[_Sentence]:
    """What each sentence of a text denies, and with which words."""
    found = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", text, maxsplit=_MOST_SENTENCES)[:_MOST_SENTENCES]:
        sorted_out = polarity(sentence)
        words = {*sorted_out.denied, *sorted_out.affirmed, *sorted_out.open}
        if len(words) >= _FEWEST_WORDS:
            joined = len(re.findall(r"\b(?:n?or|neither|ni|o)\b", sentence))
            strong = Counter(sorted_out.strong)
            denied = frozenset(sorted_out.denied)
            found.append(_Sentence(words, denied, strong, sorted_out.weak, joined, sentence[:60]))
    return found


def _alike(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)


def _lost(having: Polarity, other: Polarity, what: str) -> list[str]:
    """Say that only one of two texts denies anything, and that over words which both have."""
    if not having.strong or other.strong or other.weak_words - having.weak_words:
        return []
    if other.double and len(having.strong) > 1:  # the same two negations in another order
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
