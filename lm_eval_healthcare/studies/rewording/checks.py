"""Is a text an acceptable rewording of another one.

A rewording says the same in other words: the same numbers with their units for the same things, the same medicines, the
same things denied, nothing turned into its opposite, in the same language and at about the same length. What is checked
is only what can be seen without understanding; a rewording without a finding may still say something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lm_eval_healthcare.judge.language import LANGUAGES, language_of, mismatch
from lm_eval_healthcare.studies.rewording.abbreviations import expanded
from lm_eval_healthcare.studies.rewording.drugs import drug_findings
from lm_eval_healthcare.studies.rewording.faults import Fault, Finding
from lm_eval_healthcare.studies.rewording.negations import negation_findings
from lm_eval_healthcare.studies.rewording.opposites import opposite_findings
from lm_eval_healthcare.studies.rewording.pairings import moved_findings
from lm_eval_healthcare.studies.rewording.quantities import quantity_findings
from lm_eval_healthcare.studies.rewording.replies import (
    breaks_off,
    cleaned,
    declines,
    repeats_question,
    talk_about_task,
    unrelated,
)

__all__ = ["Fault", "Finding", "Limits", "check", "cleaned", "meaning_findings"]

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_CUT = frozenset({"length", "max_tokens", "model_length"})
_SPANISH = re.compile(r"\b(?:el|la|los|las|de|del|que|con|por|una|para|cada|veces|al)\b", re.IGNORECASE)
_ENGLISH = re.compile(r"\b(?:the|of|and|is|are|with|for|to|in|every|times|daily)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """How short and how long a rewording may be.

    Attributes:
        shortest: Least ratio of its length in characters to the original's.
        longest: Greatest ratio.
        slack: Characters by which a rewording may always be longer; originals up to this length may be shortened at
            will, since "myocardial infarction" and "MI" say the same.
    """

    shortest: float = 0.5
    longest: float = 2.0
    slack: int = 60


_LIMITS = Limits()
_LOOKED_AT = 20_000  # characters: far beyond any answer, and a check stays under a second


def check(
    original: str,
    rewording: str,
    *,
    question: str = "",
    language: str | None = None,
    others: Sequence[str] = (),
    finish: str | None = None,
    limits: Limits = _LIMITS,
) -> list[Finding]:
    """Return what is wrong with a rewording.

    Args:
        original: The text that was reworded.
        rewording: What came of it; best what `cleaned` left.
        question: What both answer: a number or medicine taken from it is not new, and repeating it is a fault.
        language: ISO 639-1 code of the original; without it, that of the original if it can be told.
        others: Rewordings of the same text that were accepted before.
        finish: Why the model stopped, as servers say it; `length` is a cut.
        limits: How short and long it may be.

    Returns:
        Findings, several for one text if several things are wrong; none if it is acceptable.

    Raises:
        JudgeError: If the language is not one of those that can be told apart.
    """
    visible = _folded(rewording)
    if not visible:
        return [Finding(Fault.EMPTY, "nothing was written")]
    findings: list[Finding] = []
    if finish in _CUT:
        findings.append(Finding(Fault.CUT, f"the model stopped at its limit: finish is '{finish}'"))
    elif breaks_off(visible, original):
        findings.append(Finding(Fault.CUT, f"it ends with '{breaks_off(visible, original)}'"))
    if visible == _folded(original):
        return [*findings, Finding(Fault.UNCHANGED, "it is the original")]
    if any(visible == _folded(other) for other in others):
        findings.append(Finding(Fault.REPEATED, "it is an earlier rewording"))
    findings += _reply_findings(original[:_LOOKED_AT], rewording[:_LOOKED_AT], question[:_LOOKED_AT])
    findings += _language_findings(original, rewording, language)
    findings += _length_findings(original, rewording, limits)
    return findings + meaning_findings(original, rewording, question=question, language=language)


def meaning_findings(
    original: str, rewording: str, *, question: str = "", language: str | None = None
) -> list[Finding]:
    """Return where a rewording says something else: numbers, units, medicines, negations, opposites.

    Of each text the first 20,000 characters are looked at.

    Args:
        original: The text that was reworded.
        rewording: What came of it.
        question: What both answer.
        language: ISO 639-1 code; decides what "1.000" is.
    """
    original, rewording = original[:_LOOKED_AT], rewording[:_LOOKED_AT]
    spanish = _is_spanish(original, language)
    return [
        *quantity_findings(original, rewording, question, spanish),
        *drug_findings(original, rewording, question),
        *moved_findings(original, rewording, spanish),
        *negation_findings(original, rewording),
        *opposite_findings(original, rewording),
    ]


def _folded(text: str) -> str:
    """A text whose blanks are all alike, without invisible characters."""
    return " ".join(_INVISIBLE.sub("", text).split())


def _is_spanish(text: str, language: str | None) -> bool:
    if language:
        return language.strip().lower().replace("_", "-").split("-")[0] == "es"
    start = text[:4000]
    return len(_SPANISH.findall(start)) > len(_ENGLISH.findall(start))


def _reply_findings(original: str, rewording: str, question: str) -> list[Finding]:
    """What a model wrote in place of a rewording."""
    findings = []
    declined = declines(rewording, original)
    if declined:
        findings.append(Finding(Fault.REFUSAL, f"'{declined}'"))
    if cleaned(rewording) != rewording.strip() and cleaned(original) == original.strip():
        findings.append(Finding(Fault.PREAMBLE, f"more than the rewording: it begins '{rewording.strip()[:40]}'"))
    talk = talk_about_task(rewording, original)
    if talk:
        findings.append(Finding(Fault.ANSWERS_QUESTION, f"talks about the task: '{talk}'"))
    elif question and repeats_question(rewording, original, question):
        findings.append(Finding(Fault.ANSWERS_QUESTION, "repeats the question"))
    elif unrelated(original, rewording):
        findings.append(Finding(Fault.ANSWERS_QUESTION, "has next to no word of the original"))
    return findings


def _language_findings(original: str, rewording: str, language: str | None) -> list[Finding]:
    expected = language or language_of(original).code
    if expected is None or (language is None and expected not in LANGUAGES):
        return []
    if mismatch(rewording, expected) != 1.0:
        return []
    other = language_of(rewording).code or "another"
    return [Finding(Fault.LANGUAGE, f"language '{other}', expected '{expected}'")]


def _length_findings(original: str, rewording: str, limits: Limits) -> list[Finding]:
    before, after = len(_folded(original)), len(_folded(rewording))
    written_out = len(_folded(expanded(original)))  # "pt with SOB, BP 150/95" has many more letters when written out
    if after > max(limits.longest * max(before, written_out), before + limits.slack):
        return [Finding(Fault.TOO_LONG, f"{after} characters for {before}; at most {limits.longest:g} times as many")]
    if before > limits.slack and after < limits.shortest * before:
        return [
            Finding(Fault.TOO_SHORT, f"{after} characters for {before}; at least {limits.shortest:g} times as many")
        ]
    return []
