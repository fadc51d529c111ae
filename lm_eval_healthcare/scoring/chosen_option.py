"""Which option a free text chooses: the letter (or the word) that it gives as its answer, or none.

A text that cannot be read is never guessed at: `hepatitis B`, `vitamin C` and a sentence that begins with `A` are no
answers.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARKS = re.compile(r"[*_`$#]+|\\(?:boxed|text|mathrm|mathbf)\b|[{}]")
_IS = r"(?:is|es|would\s+be|ser[ií]a|should\s+be|must\s+be)"
_THE = r"(?:(?:the\s+)?(?:option|letter|opci[oó]n)|la(?:\s+(?:opci[oó]n|letra))?)"
_SAYS = (
    rf"\b(?:(?:answer|response|respuesta)(?:\s+correcta)?(?:\s+{_IS}|\s*[:=])?"
    rf"|(?:option|choice|opci[oó]n|alternativa)(?:\s+correcta)?(?:\s+{_IS}|\s*[:=]))(?:\s+{_THE})?\s*[:=]?\s*"
)
_IS_RIGHT = rf"[)\]]?\s+{_IS}\s+(?:the\s+|la\s+)?(?:correct|right|best|correcta)\b"
_OR = r"(?:\s*(?:,|/|&|\bor\b|\band\b|\by\b|\bo\b)\s*[(\[]?(?:option\s+)?)"
_END = r"(?=\s*(?:$|[\n.,;:!?)\]\"'’”]|[-–—]\s))"


def chosen_option(text: str, labels: Sequence[str], options: Mapping[str, str] | None = None) -> int | None:
    """Return the place of the option that a text chooses.

    In this order: the last statement such as `the answer is B`, `Respuesta: B` or `B is correct`; a text that is the
    label or begins with it and a mark (`B.`, `(B) ...`, `yes, since`); the only label that stands in marks, at the
    beginning of a line or behind `option` (`(B)`, `B)`); the only option whose whole text occurs.

    Args:
        text: The model's answer, without reasoning.
        labels: The labels in order, such as `A` to `D`, or `yes`, `no`, `maybe`.
        options: The options' texts by label, if they are known.

    Returns:
        The place in `labels`; None if the text names no option, or more than one.
    """
    plain = _MARKS.sub(" ", unicodedata.normalize("NFKC", text)).strip()
    for found in (_stated(plain, tuple(labels)), _leading(plain, tuple(labels)), _marked(plain, tuple(labels))):
        if found:
            return found.pop() if len(found) == 1 else None
    return _quoted(plain, labels, options or {})


def options_of_prompt(prompt: str, labels: Sequence[str]) -> dict[str, str]:
    """Return the texts behind `A.`, `B.` ... in a prompt, one line each; of several, the last."""
    return {
        label: matches[-1].strip()
        for label in labels
        if (matches := re.findall(rf"^{re.escape(label)}\. (.*)$", prompt, re.MULTILINE))
    }


@lru_cache(maxsize=64)
def _patterns(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    any_label = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    upper = "|".join(re.escape(label.upper()) for label in labels)
    one = rf"(?:(?:{upper})\b|(?i:{any_label}){_END})"
    stated = (
        rf"(?i:{_SAYS})[(\[\"'“]?(?P<label>{one})(?P<more>{_OR}{one})?"
        rf"|(?:^|(?<=[\s(\[]))(?P<label2>{upper})(?i:{_IS_RIGHT})"
    )
    leading = rf"^[(\[\"'“]?(?P<label>(?i:{any_label})){_END}(?P<more>[)\]]?{_OR}{one})?"
    marked = (
        rf"[(\[](?P<label>{upper})[)\]]|(?:^|(?<=\s))(?P<label2>{upper})\)|^\s*(?P<label3>{upper})[.:]\s"
        rf"|\b(?i:option|opci[oó]n)\s+(?P<label4>{upper})\b(?!\s+(?i:is|es)\s+(?i:not|wrong|incorrect|false|incorrecta))"
    )
    return re.compile(stated), re.compile(leading), re.compile(marked, re.MULTILINE)


def _place(label: str, labels: tuple[str, ...]) -> int:
    return [known.casefold() for known in labels].index(label.casefold())


def _stated(text: str, labels: tuple[str, ...]) -> set[int]:
    last = None
    for match in _patterns(labels)[0].finditer(text):
        last = match
    if last is None:
        return set()
    return set(range(len(labels))) if last["more"] else {_place(last["label"] or last["label2"], labels)}


def _leading(text: str, labels: tuple[str, ...]) -> set[int]:
    match = _patterns(labels)[1].match(text)
    if match is None:
        return set()
    return set(range(len(labels))) if match["more"] else {_place(match["label"], labels)}


def _marked(text: str, labels: tuple[str, ...]) -> set[int]:
    found = _patterns(labels)[2].finditer(text)
    return {_place(str(match[match.lastgroup or 0]), labels) for match in found}


def _quoted(text: str, labels: Sequence[str], options: Mapping[str, str]) -> int | None:
    words = f" {_words(text)} "
    found = [place for place, label in enumerate(labels) if _words(options.get(label, ""))]
    found = [place for place in found if f" {_words(options[labels[place]])} " in words]
    # An option that is part of another that occurs too (`asthma`, `cardiac asthma`) is not meant.
    texts = {place: _words(options[labels[place]]) for place in found}
    found = [p for p in found if not any(p != q and f" {texts[p]} " in f" {texts[q]} " for q in found)]
    return found[0] if len(found) == 1 else None


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
