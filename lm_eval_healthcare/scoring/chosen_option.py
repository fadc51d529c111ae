"""Which option a free text chooses: the letter (or the word) that it gives as its answer, or none.

Small rules are tried in order (`_RULES`); the first that finds something decides. It may find several options, and then
the text chooses none. A text that cannot be read is never guessed at: `hepatitis B`, `C. difficile` and a sentence that
begins with `A` are no answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_eval_healthcare.scoring import option_phrases as phrases
from lm_eval_healthcare.scoring.option_phrases import LabelPatterns, label_patterns, plain, words

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
    known = [words((options or {}).get(label, "")) for label in labels]
    unique = tuple("" if known.count(option) > 1 else option for option in known)
    question, tidy = _Question(tuple(labels), unique, label_patterns(tuple(labels))), plain(text)
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


@dataclass(frozen=True)
class _Question:
    """The labels, and the options' words by place (empty where unknown, or where two options have the same)."""

    labels: tuple[str, ...]
    options: tuple[str, ...]
    patterns: LabelPatterns

    @property
    def every(self) -> set[int]:
        return set(range(len(self.labels)))

    def place(self, match: re.Match[str]) -> int:
        return [known.casefold() for known in self.labels].index(match["label"].casefold())

    def option_at(self, text: str, start: int) -> set[int]:
        """Return the option whose whole text begins at `start`, an article aside; every one if another is joined."""
        rest = words(text[start : start + max(map(len, self.options), default=0) + 40]) + " "
        for begin in (rest, re.sub(r"^(?:an?|the|el|la|los|las|una?) ", "", rest)):
            found = [place for place, option in enumerate(self.options) if option and begin.startswith(option + " ")]
            if found:
                longest = max(found, key=lambda place: len(self.options[place]))
                more = re.match(r"(?:or|and|o|y) ", begin[len(self.options[longest]) + 1 :])
                return self.every if more else {longest}
        return set()

    def ends(self, text: str, match: re.Match[str]) -> bool:
        """Say whether a label is one, by what follows: a mark, a function word, or the option's own text."""
        end, option = match.end(), self.options[self.place(match)]
        if phrases.END.match(text, end):
            return True
        rest = words(text[end : end + len(option) + 40])
        if text[end : end + 1] == ".":
            return rest.split(" ")[0] in option.split()
        return bool(option) and text[end : end + 1] in {" ", "-", "–", ":"} and f"{rest} ".startswith(f"{option} ")

    def at(self, text: str, start: int) -> set[int]:
        """Return the options named at a place: one, every one for `A or B`, or none."""
        filler = phrases.FILLER.match(text, start)
        filled = filler.end() if filler else start
        if match := self.patterns.label.match(text, filled):
            whole = self.option_at(text, match.start("label"))
            if any(self.options[place].startswith(f"{match['label'].casefold()} ") for place in whole):
                return whole  # `B cells`, where this is an option
            joined = self.patterns.joined.match(text, match.end())
            if joined and self.place(joined) != self.place(match):
                return self.every
            if self.ends(text, match):
                return {self.place(match)}
        return self.option_at(text, start) or self.option_at(text, filled)

    def all_at(self, cue: re.Pattern[str], text: str) -> list[tuple[int, int, set[int]]]:
        """Return beginning, end and named options for every cue that stands before some, but not before a list."""
        found = []
        for match in cue.finditer(text):
            start, end = match.span()
            if (named := self.at(text, end)) and not _unstated(text, start):
                in_list = text[end - 1] == "\n" and named == {0} and _begins_list(text[end : end + 2000], self)
                found += [] if in_list else [(start, end, named)]
        return found

    def claims(self, text: str, group: str) -> list[tuple[int, int, set[int]]]:
        """Return beginning, end and option for every claim that an option is right (`label`) or the answer."""
        found = [match for match in self.patterns.claim.finditer(text) if match[group]]
        return [
            (match.start(), match.end(), {self.place(match)})
            for match in found
            if not _unstated(text, match.start("label"))
        ]


def _reconsidered(text: str, question: _Question) -> set[int]:
    """What is stated after the last `Wait, no` or `Espera`."""
    begins = [match.end() for match in phrases.RECONSIDERED.finditer(text)]
    rest = text[begins[-1] :].lstrip(" .,:;–—-") if begins else ""
    return _anchored(rest, question) or _stated(rest, question) or _opening(rest, question)


def _anchored(text: str, question: _Question) -> set[int]:
    r"""The last `Answer: B`, `Respuesta final: B`, `<answer>B</answer>`, `\boxed{B}`; two in a row count together."""
    found = question.all_at(phrases.ANCHORED, text)
    in_a_row = len(found) > 1 and found[-1][0] - found[-2][1] <= 4
    return (found[-1][2] | (found[-2][2] if in_a_row else set())) if found else set()


def _opening(text: str, question: _Question) -> set[int]:
    """A first line that is a label, a label and its option, or an option; with `the correct answer is`, if any."""
    opens = set() if _begins_list(text, question) else _whole_line(text.partition("\n")[0], question)
    stated = question.all_at(phrases.STATED, _before_explanation(text)) if opens else []
    return opens.union(*(named for start, end, named in stated if phrases.FIRM.search(text[max(0, start - 12) : end])))


def _stated(text: str, question: _Question) -> set[int]:
    """The last `the answer is B`, `I choose B`, `B is the correct answer`, `thus, B`; best before an explanation."""
    for part in (_before_explanation(text), text):
        if found := question.all_at(phrases.STATED, part) + question.claims(part, "answer"):
            return max(found, key=lambda one: one[:2])[2]
    return set()


def _led_by(text: str, question: _Question) -> set[int]:
    """A text that begins with a label and a mark, or with an option's sentence: `B: since ...`, `Yes, ...`."""
    match = question.patterns.line.match(text)
    if match and not _begins_list(text, question):
        joined = question.patterns.joined.match(text, match.end())
        if joined and question.place(joined) != question.place(match):
            return question.every
        says_more = phrases.VERB.match(text, match.end()) or phrases.REJECTED.match(text, match.end())
        return {question.place(match)} if question.ends(text, match) and not says_more else set()
    first, second, *_ = [words(part) for part in re.split(r"[.\n](?=\s|$)", text, maxsplit=2)] + [""]
    known = bool(first) and first in question.options and (not second or second not in question.options)
    return {question.options.index(first)} if known else set()


def _claimed(text: str, question: _Question) -> set[int]:
    """Every `B is right` and `C: correct`; in a question for the exception there are several."""
    return set().union(*(places for _, _, places in question.claims(text, "label")))


def _closing(text: str, question: _Question) -> set[int]:
    """A last line that is a label, a label and its option, or an option, unless it ends a list."""
    lines = text.split("\n")
    in_list = _labelled(" ".join(lines[-2:-1]), question) is not None
    return set() if in_list else _whole_line(lines[-1], question)


def _marked(text: str, question: _Question) -> set[int]:
    """In a brief text: what stands in marks or behind `option`, and is not rejected."""
    found = set()
    for match in question.patterns.mark.finditer(text if len(text) <= _BRIEF else ""):
        ends = match["option"] or question.ends(text, match)
        if ends and not phrases.NEGATION.search(phrases.clause(text, match.start(), match.end())):
            found.add(question.place(match))
    return found


def _quoted(text: str, question: _Question) -> set[int]:
    """In a brief text: the options whose whole texts occur outside a negated clause."""
    spans = []
    for place, option in enumerate(question.options):
        if len(text) > _BRIEF + len(option) or (len(option) < 4 and words(text) != option) or not option:
            continue
        pattern = r"(?<![\w/])" + r"\W{1,4}".join(re.escape(word) for word in option.split()) + r"(?![\w/])"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            spans.append((match.start(), match.end(), place))
    # An option inside another that is meant (`asthma` in `cardiac asthma`) is not meant.
    outer = [a for a in spans if not any(b[0] <= a[0] and a[1] <= b[1] and b[:2] != a[:2] for b in spans)]
    return {place for start, end, place in outer if not phrases.NEGATION.search(phrases.clause(text, start, end))}


_RULES: tuple[Callable[[str, _Question], set[int]], ...] = (
    _reconsidered, _anchored, _opening, _stated, _led_by, _claimed, _closing, _marked, _quoted,
)  # fmt: skip


def _whole_line(line: str, question: _Question) -> set[int]:
    if (whole := words(line)) and whole in question.options:
        return {question.options.index(whole)}
    match = question.patterns.line.match(line)
    if match is None:
        return set()
    rest = line[match.end() :].lstrip(" .:)]>'!–—-")
    own = question.options[question.place(match)]
    agrees = own and f"{words(rest)} ".startswith(f"{own} ") and question.ends(line, match)
    return {question.place(match)} if not rest or agrees or phrases.EXPLANATION.match(rest) else set()


def _before_explanation(text: str) -> str:
    heading = phrases.EXPLANATION.search(text)
    return text[: heading.start()] if heading else text


def _labelled(line: str, question: _Question) -> int | None:
    match = question.patterns.label.match(line)
    return question.place(match) if match and re.match(r"[.:)\]]| ?[-–—] |$", line[match.end() :]) else None


def _begins_list(text: str, question: _Question) -> bool:
    """Say whether a text goes through the options: labels alone on two lines, or the next label on a later line."""
    lines = text.split("\n")
    first = _labelled(lines[0], question)
    for line in lines[1:] if first is not None else ():
        if phrases.EXPLANATION.match(line):
            return False
        if (label := _labelled(line, question)) is not None:
            alone = len(words(lines[0]).split()) == len(words(line).split()) == 1
            return label == (first or 0) + 1 or (alone and label != first)
    return False


def _unstated(text: str, start: int) -> bool:
    """Say whether what begins at `start` is no statement: `if the answer is`, `I do not think that B is`."""
    return phrases.UNSTATED.search(text[max(0, start - 60) : start]) is not None
