"""A question's labels and options, and where a text names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_eval_healthcare.scoring import option_phrases as phrases
from lm_eval_healthcare.scoring.option_phrases import LabelPatterns, plain, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Question:
    """The labels, and the options' words by place (empty where unknown, or where two options have the same)."""

    labels: tuple[str, ...]
    options: tuple[str, ...]
    patterns: LabelPatterns

    @property
    def every(self) -> set[int]:
        """The places of all options."""
        return set(range(len(self.labels)))

    def place(self, match: re.Match[str]) -> int:
        """Return the place of a matched label."""
        return [known.casefold() for known in self.labels].index(match["label"].casefold())

    def option_at(self, text: str, start: int) -> set[int]:
        """Return the option whose whole text begins at `start`, an article aside; every one if another is joined."""
        rest = words(text[start : start + max(map(len, self.options), default=0) + 40]) + " "
        for begin in (rest, re.sub(r"^(?:an?|the|el|la|los|las|una?) ", "", rest)):
            found = [place for place, option in enumerate(self.options) if option and begin.startswith(option + " ")]
            if found:
                longest = max(found, key=lambda place: len(self.options[place]))
                behind = begin[len(self.options[longest]) + 1 :]
                if re.match(
                    r"(?:(?:is|was|es|seems|can be) )?(?:not|excluded|ruled out|wrong|incorrect|unlikely)\b", behind
                ):
                    return set()
                return self.every if re.match(r"(?:or|and|o|y|as well as) ", behind) else {longest}
        return set()

    def joins(self, text: str, match: re.Match[str]) -> bool:
        """Say whether a label, or a label and its option, is joined with another: `A or B`, `A. Asthma or B. ...`."""
        joined = self.patterns.joined.match(text, match.end())
        if joined and self.place(joined) != self.place(match):
            return True
        own, rest = self.options[self.place(match)], words(text[match.end() : match.end() + 400])
        if not own or not rest.startswith(f"{own} "):
            return False
        behind = rest[len(own) + 1 :]
        more = re.match(r"(?:or|and|o|y|as well as) (?:(?:the|la|option) )?", behind)
        others = [*(label.casefold() for label in self.labels), *filter(None, self.options)]
        return more is not None and f"{behind[more.end() :]} ".startswith(tuple(f"{other} " for other in others))

    def begun(self, text: str) -> set[int]:
        """Return the options that are discussed: those whose labels begin sentences or lines, and are not rejected."""
        found = self.patterns.begun.finditer(text)
        return {self.place(match) for match in found if not phrases.REJECTED.match(text, match.end("label"))}

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
            if self.joins(text, match):
                return self.every
            if phrases.TAKEN_BACK.match(text, match.end()):
                return set()
            if self.ends(text, match):
                return {self.place(match)}
        return self.option_at(text, start) or self.option_at(text, filled)

    def all_at(self, cue: re.Pattern[str], text: str) -> list[tuple[int, int, set[int]]]:
        """Return beginning, end and named options for every cue that stands before some, but not before a list."""
        found = []
        for match in cue.finditer(text):
            start, end = match.span()
            if (named := self.at(text, end)) and not _unstated(text, start, end):
                in_list = text[end - 1] == "\n" and named == {0} and begins_list(text[end : end + 2000], self)
                found += [] if in_list else [(start, end, named)]
        return found

    def claims(self, text: str, group: str) -> list[tuple[int, int, set[int]]]:
        """Return beginning, end and option for every claim that an option is right (`label`) or the answer."""
        found = [match for match in self.patterns.claim.finditer(text) if match[group]]
        return [
            (match.start(), match.end(), {self.place(match)})
            for match in found
            if not _unstated(text, match.start("label"), match.end())
        ]


def told_apart(text: str, labels: Sequence[str], options: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Replace options that differ only in case (`AA`, `Aa`; not `Aspirin`, `aspirin`) by words of their own."""
    tidy = {label: plain(options.get(label, "")).rstrip(".") for label in labels}
    caseless = [option.casefold() for option in tidy.values()]
    keys = {label: option if len(option) < 5 else option[0].lower() + option[1:] for label, option in tidy.items()}
    alike = [
        label
        for label, option in tidy.items()
        if caseless.count(option.casefold()) > 1
        and list(keys.values()).count(keys[label]) == 1
        and option.casefold() not in {other.casefold() for other in labels}
    ]
    text = plain(text) if alike else text
    for label in alike:
        option = tidy[label]
        first = re.escape(option[0]) if len(option) < 5 else f"(?i:{re.escape(option[0])})"
        text = re.sub(rf"(?<!\w){first}{re.escape(option[1:])}(?!\w)", f"casedoption{labels.index(label)}", text)
    return text, {**options, **{label: f"casedoption{labels.index(label)}" for label in alike}}


def labelled(line: str, question: Question) -> int | None:
    """Return the place of the label that begins a line, with a mark behind it."""
    match = question.patterns.label.match(line)
    return question.place(match) if match and re.match(r"[.:)\]]| ?[-–—] |$", line[match.end() :]) else None


def begins_list(text: str, question: Question) -> bool:
    """Say whether a text goes through the options: labels alone on two lines, or the next label on a later line."""
    lines = text.split("\n")
    first = labelled(lines[0], question)
    for line in lines[1:] if first is not None else ():
        if phrases.EXPLANATION.match(line):
            return False
        if (label := labelled(line, question)) is not None:
            alone = len(words(lines[0]).split()) == len(words(line).split()) == 1
            return label == (first or 0) + 1 or (alone and label != first)
    return False


def _unstated(text: str, start: int, end: int) -> bool:
    """Say whether what begins at `start` is no statement: `if the answer is`, `I do not think that B is`."""
    before = text[max(0, start - 160) : start]
    for_others = phrases.LED.search(before) and phrases.WOULD.search(text, start, end)
    return phrases.UNSTATED.search(before) is not None or for_others is not None


def plainly(text: str, found: list[tuple[int, int, set[int]]]) -> list[tuple[int, int, set[int]]]:
    """Return the statements that are not of another case (`For smokers, ...`, `would be`); if all are, all of them."""
    return [
        one
        for one in found
        if not phrases.WOULD.search(text, *one[:2]) and not phrases.LED.search(text[max(0, one[0] - 160) : one[0]])
    ] or found
