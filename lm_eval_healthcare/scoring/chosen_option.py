"""Which option a free text chooses: the letter (or the word) that it gives as its answer, or none.

Small rules are tried in order (`_RULES`); the first that finds something decides. It may find several options, and then
the text chooses none. A text that cannot be read is never guessed at: `hepatitis B`, `C. difficile` and a sentence that
begins with `A` are no answers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lm_eval_healthcare.scoring import option_phrases as phrases
from lm_eval_healthcare.scoring.option_phrases import label_patterns, plain, words
from lm_eval_healthcare.scoring.option_question import Question, begins_list, labelled, plainly, told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_BRIEF = 300  # characters; in a longer text an option that is merely mentioned is no answer


def chosen_option(text: str, labels: Sequence[str], options: Mapping[str, str] | None = None) -> int | None:
    """Return the place of the option that a text chooses.

    Args:
        text: The model's answer, without reasoning.
        labels: The labels in order, such as `A` to `D`, or `yes`, `no`, `maybe`.
        options: The options' texts by label, if they are known.

    Returns:
        The place in `labels`; None if the text names no option, or more than one.
    """
    text, options = told_apart(text, labels, options or {})
    known = [words(plain(options.get(label, ""))) for label in labels]
    unique = tuple("" if known.count(option) > 1 else option for option in known)
    question, tidy = Question(tuple(labels), unique, label_patterns(tuple(labels))), plain(text)
    for rule in _RULES:
        if found := rule(tidy, question):
            return min(found) if len(found) == 1 else None
    return None


def options_of_prompt(prompt: str, labels: Sequence[str]) -> dict[str, str]:
    """Return the texts behind `A.`, `B.` ... in a prompt, one line each; of several, the last."""
    return {
        label: matches[-1].strip()
        for label in labels
        if (matches := re.findall(rf"^{re.escape(label)}\. (.*)$", prompt, re.MULTILINE))
    }


def _reconsidered(text: str, question: Question) -> set[int]:
    """What is stated after the last `Wait, no` or `Espera`."""
    begins = [match.end() for match in phrases.RECONSIDERED.finditer(text)]
    rest = text[begins[-1] :].lstrip(" .,:;–—-") if begins else ""
    return _anchored(rest, question) or _stated(rest, question) or _opening(rest, question)


def _anchored(text: str, question: Question) -> set[int]:
    r"""The last `Answer: B`, `Respuesta final: B`, `<answer>B</answer>`, `\boxed{B}`; two in a row count together."""
    found = plainly(text, question.all_at(phrases.ANCHORED, text))
    if not found:
        return set()
    start, end, named = found[-1]
    hedged = question.patterns.label.match(text, end)
    if hedged and question.patterns.hedged.match(text, hedged.end()):
        return question.every
    if len(found) > 1:
        first, last, before = found[-2]
        same = text[first:last].strip() == text[start:end].strip() and "\n" not in text[last : start - 1]
        named = named | before if start - last <= 4 or (same and text[start - 1] == "\n") else named
    return named


def _labels_only(text: str, question: Question) -> set[int]:
    """Every label of a text that holds nothing else, if there are several."""
    known, every = [label.casefold() for label in question.labels], set(words(text).split())
    several = len(every) > 1 and every.issubset(known) and not _whole_line(text, question)
    return {known.index(one) for one in every} if several else set()


def _opening(text: str, question: Question) -> set[int]:
    """A first line that is a label, a label and its option, or an option; with `the correct answer is`, if any."""
    several = begins_list(text, question) or len(question.begun(_before_explanation(text))) > 1
    opens = set() if several else _whole_line(text.partition("\n")[0], question)
    stated = question.all_at(phrases.STATED, _before_explanation(text)) if opens else []
    return opens.union(*(named for start, end, named in stated if phrases.FIRM.search(text[max(0, start - 12) : end])))


def _stated(text: str, question: Question) -> set[int]:
    """The last `the answer is B`, `I choose B`, `B is the correct answer`, `thus, B`; best before an explanation."""
    for part in (_before_explanation(text), text):
        if found := question.all_at(phrases.STATED, part) + question.claims(part, "answer"):
            return max(plainly(part, found), key=lambda one: one[:2])[2]
    return set()


def _led_by(text: str, question: Question) -> set[int]:
    """A text that begins with a label and a mark, or with an option's sentence: `B: since ...`, `Yes, ...`."""
    match = question.patterns.line.match(text)
    if match and not begins_list(text, question) and len(question.begun(_before_explanation(text))) < 2:
        listed = phrases.LISTED.match(text, match.end())
        hedged = question.patterns.hedged.match(text, match.end())
        if hedged or question.joins(text, match) or (listed and listed["other"] != match["label"]):
            return question.every
        says_more = phrases.VERB.match(text, match.end()) or phrases.REJECTED.match(text, match.end())
        return {question.place(match)} if question.ends(text, match) and not says_more else set()
    first, second, *_ = [words(part) for part in re.split(r"[.\n](?=\s|$)", text, maxsplit=2)] + [""]
    known = bool(first) and first in question.options and (not second or second not in question.options)
    return {question.options.index(first)} if known else set()


def _claimed(text: str, question: Question) -> set[int]:
    """Every `B is right` and `C: correct`; in a question for the exception there are several."""
    return set().union(*(places for _, _, places in question.claims(text, "label")))


def _closing(text: str, question: Question) -> set[int]:
    """A last line that is a label, a label and its option, or an option, unless it ends a list."""
    lines = text.split("\n")
    before, found = " ".join(lines[-2:-1]), _whole_line(lines[-1], question)
    goes_on = len(words(lines[-1]).split()) == 1 and before[-1:].isalnum() and not phrases.HEADED.search(before)
    in_list = labelled(before, question) is not None or len(question.begun(lines[-1])) > 1
    own = any(words(before) == question.options[place] for place in found)
    return set() if in_list or (goes_on and not own) else found


def _discussed(text: str, question: Question) -> set[int]:
    """What is discussed, if it is more than one option: then none is chosen."""
    found = question.begun(_before_explanation(text))
    return found if len(found) > 1 else set()


def _marked(text: str, question: Question) -> set[int]:
    """In a brief text: what stands in marks or behind `option`, and is not rejected."""
    found = set()
    for match in question.patterns.mark.finditer(text if len(text) <= _BRIEF else ""):
        ends = match["option"] or question.ends(text, match)
        if ends and not phrases.NEGATION.search(phrases.clause(text, match.start(), match.end())):
            found.add(question.place(match))
    return found


def _quoted(text: str, question: Question) -> set[int]:
    """In a brief text: the options whose whole texts occur outside a negated clause."""
    spans = []
    for place, option in enumerate(question.options):
        if len(text) > _BRIEF + len(option) or (len(option) < 4 and words(text) != option) or not option:
            continue
        pattern = r"(?<![\w/])" + r"\W{1,4}".join(re.escape(word) for word in option.split()) + r"(?![\w/])"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            spans.append((match.start(), match.end(), place))
            if re.search(r"\w\ ?(?:\b(?:or|o)\ (?:an?\ )?|/\ ?)$", text[max(0, match.start() - 8) : match.start()]):
                return question.every  # `positive or negative correlation`
    # An option inside another that is meant (`asthma` in `cardiac asthma`) is not meant.
    outer = [a for a in spans if not any(b[0] <= a[0] and a[1] <= b[1] and b[:2] != a[:2] for b in spans)]
    return {place for start, end, place in outer if not phrases.NEGATION.search(phrases.clause(text, start, end))}


_RULES: tuple[Callable[[str, Question], set[int]], ...] = (
    _labels_only, _reconsidered, _anchored, _opening, _stated, _led_by, _claimed, _closing, _discussed, _marked,
    _quoted,
)  # fmt: skip


def _whole_line(line: str, question: Question) -> set[int]:
    if (whole := words(line)) and whole in question.options:
        return {question.options.index(whole)}
    match = question.patterns.line.match(line)
    if match is None:
        return set()
    rest = line[match.end() :].lstrip(" .:)]>'!–—-")
    own = question.options[question.place(match)]
    agrees = own and f"{words(rest)} ".startswith(f"{own} ") and question.ends(line, match)
    if not (not rest or agrees or phrases.EXPLANATION.match(rest)):
        return set()
    return question.every if question.joins(line, match) else {question.place(match)}


def _before_explanation(text: str) -> str:
    heading = phrases.EXPLANATION.search(text)
    return text[: heading.start()] if heading else text
