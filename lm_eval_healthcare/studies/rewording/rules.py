"""Rewordings by fixed rules, without a model.

* `case`: the first letter of each sentence becomes small; where none is large, large. Only ordinary words change, so
  units, symbols, genes and names with large letters inside (mg, pH, Na, BRCA1) stay.
* `punctuation`: semicolons become full stops, dashes between words commas, the comma before "and" at the end of a
  list goes, curly apostrophes become straight; a full stop at the very end is taken away or, if missing, added.
* `spelling`: British to American; text without British words American to British. English only.
* `abbreviations`: clinical abbreviations of one meaning are written out. English only.
* `prose`: the items of a list are joined into one paragraph.

Text in quotation marks or marked as code is never changed, and no rule touches a digit that is content.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

from lm_eval_healthcare.studies.rewording.abbreviations import expanded
from lm_eval_healthcare.studies.rewording.number_words import UNITS, word_set
from lm_eval_healthcare.studies.rewording.spellings import TO_AMERICAN, TO_BRITISH

RULES = ("case", "punctuation", "spelling", "abbreviations", "prose")
"""The names of the rules."""

_ORDER = ("prose", "abbreviations", "spelling", "punctuation", "case")
"""In which order the rules of a combination act: each finds what it looks for before others change it."""
_ENGLISH_ONLY = frozenset({"spelling", "abbreviations"})
_KEPT = re.compile(r'```.*?(?:```|\Z)|`[^`\n]{1,300}`|"[^"\n]{1,300}"|“[^”\n]{1,300}”|«[^»\n]{1,300}»', re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE = re.compile(r"(?:\A|(?<=[.!?])[ \t]+|\n[ \t]*(?:[-*•]\s+|\d{1,2}[.)]\s+)?)\s*([^\W\d_]+)(?![\w'’°/-])")
_ABBREVIATED = re.compile(
    r"(?:\b(?:Drs?|Mrs?|Ms|Prof|Sr|Sra|Dra|St|vs|cf|No|Nos|Figs?|approx|ca|al|e\.g|i\.e|p\. ?ej|etc|[A-Z])\."
    r"|\.{3}|…)[ \t]+\Z"
)
"""A full stop that may end no sentence."""
_SHORT = word_set("a an in it if on to he we is as at by do no of or so up be my el la lo de en es al un se su si y o")
_ITEM = re.compile(r"[ \t]*(?:[-*•–·▪]|\(?\d{1,2}[.)]|\(?[a-z]\))[ \t]+(?=\S)")
_OXFORD = re.compile(r"(?<=[^\W\d_]), (?=(?:and|or) [^,.;:()\n]{1,60}[.;:\n)])")
_DASH = re.compile(r"(?<=[^\W\d_]{2}) ?— ?(?=[^\W\d_]{2}|[ay] )|(?<=[^\W\d_]{2}) (?:–|--?) (?=[^\W\d_]{2}|[ay] )")
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bapprox)(?<!\betc)[.!?](?:\s+[^\Wa-z\d_]|\Z)")
_LIST_WORD = re.compile(r"(?:and|or|y|e|o|u)\Z", re.IGNORECASE)
_SEMICOLON = re.compile(r";[ \t]+([^\W\d_]+)")


@dataclass(frozen=True)
class Reworded:
    """What a rule made of a text.

    Attributes:
        rule: A name of `RULES`, or several joined by `+`.
        text: The rewording; None if the rule changes nothing in this text.
    """

    rule: str
    text: str | None


def reword(text: str, n: int, language: str = "en") -> list[Reworded]:
    """Return up to `n` rewordings of a text, all different from each other and from the text.

    Single rules come first, in the order of `RULES`, then combinations of two, three and so on. Rules that change
    nothing in this text are passed over, so that a text gets as many rewordings as there are.

    Args:
        text: The text.
        n: The most rewordings wanted.
        language: ISO 639-1 code of the text; outside English only the rules that need no table act.

    Raises:
        ValueError: If `n` is negative.
    """
    if n < 0:
        raise ValueError(f"n = {n} rewordings: a number from 0 is needed")
    done: list[Reworded] = []
    seen = {_folded(text)}
    working = [rule for rule in RULES if apply_rule(text, rule, language).text is not None]
    for size in range(1, len(working) + 1):
        for rules in itertools.combinations(working, size):
            if len(done) >= n:
                return done
            made = apply_rule(text, "+".join(rules), language)
            if made.text is not None and _folded(made.text) not in seen:
                seen.add(_folded(made.text))
                done.append(made)
    return done[:n]


def apply_rule(text: str, rule: str, language: str = "en") -> Reworded:
    """Return what one rule, or several joined by `+`, make of a text.

    Args:
        text: The text.
        rule: A name of `RULES`, or several joined by `+`.
        language: ISO 639-1 code of the text.

    Raises:
        ValueError: If there is no rule of that name.
    """
    names = rule.split("+")
    unknown = [name for name in names if name not in RULES]
    if unknown:
        raise ValueError(f"rule '{unknown[0]}': there is none of that name; expected one of {', '.join(RULES)}")
    english = language.strip().lower().replace("_", "-").split("-")[0] == "en"
    changed = text
    for name in _ORDER:
        if name in names and (english or name not in _ENGLISH_ONLY):
            changed = _MAKERS[name](changed)
    return Reworded(rule, changed if _folded(changed) != _folded(text) else None)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _outside_kept(text: str, change: Callable[[str], str]) -> str:
    """Change a text outside quotation marks and code."""
    parts, end = [], 0
    for match in _KEPT.finditer(text):
        parts += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, change(text[end:])])


def _case(text: str) -> str:
    """Change the first letter of sentences: to small ones, or to large ones where there are no large ones."""
    kept = [match.span() for match in _KEPT.finditer(text)]
    starts = [
        match
        for match in _SENTENCE.finditer(text)
        if not any(a <= match.start(1) < b for a, b in kept[:200])
        and not _ABBREVIATED.search(text[max(0, match.start(1) - 10) : match.start(1)])
    ]
    starts = [match for match in starts if _ordinary(match[1]) and (len(match[1]) > 1 or _article(text, match.end(1)))]
    large = [match.start(1) for match in starts if match[1][0].isupper()]
    places = large or [match.start(1) for match in starts]
    letters = list(text)
    for place in places:
        changed = letters[place].lower() if large else letters[place].upper()
        if len(changed) == 1:
            letters[place] = changed
    return "".join(letters)


def _article(text: str, end: int) -> bool:
    """Whether a single letter is a word of its own: "A" in "A cough", not in "A. Yes" or "A - B"."""
    return text[end : end + 1] == " " and text[end + 1 : end + 2].isalpha()


def _ordinary(word: str) -> bool:
    """Whether a word means the same with its first letter small or large: no symbol, unit or Greek letter."""
    small = word.lower()
    if word[1:] != small[1:] or not ("a" <= small[0] <= "z" or "à" <= small[0] <= "ÿ"):
        return False
    return small in _SHORT or (len(word) > 2 and small not in UNITS)


def _punctuation(text: str) -> str:
    last = text.rstrip()[-1:]
    changed = _outside_kept(text, _marks)
    if not last.isalnum() and last not in ".)":
        return changed
    body, blank = changed.rstrip(), changed[len(changed.rstrip()) :]
    if (
        body.endswith(".")
        and not body.endswith("..")
        and not re.search(r"[A-Za-z]\.[A-Za-z]\.\Z|\b(?:etc|approx|vs)\.\Z", body[-12:])
    ):
        return body[:-1] + blank
    address = re.search(r"(?:://|www\.)\S*\Z", body[-300:])
    return changed if body.endswith(".") or address else f"{body}.{blank}"


def _marks(text: str) -> str:
    text = _OXFORD.sub(" ", _DASH.sub(", ", text.replace("’", "'")))
    return _SEMICOLON.sub(lambda match: f". {_capital(match[1])}" if _ends_sentence(match) else match[0], text)


def _ends_sentence(match: re.Match[str]) -> bool:
    """Whether a semicolon stands between two statements: not in brackets, nor in a list with several of them."""
    before = match.string[max(0, match.start() - 400) : match.start()]
    after = match.string[match.end(1) : match.end(1) + 400]
    if re.search(r"&#?\w{1,8}\Z", before) or _LIST_WORD.match(match[1]):
        return False
    start = max(before.rfind(mark) for mark in (". ", "! ", "? ", "\n", ": ")) + 1
    end = min((place for place in map(after.find, (". ", "! ", "? ", "\n")) if place >= 0), default=len(after))
    if ";" in before[start:] or ";" in after[:end]:
        return False
    return before.count("(") <= before.count(")") and before.count("[") <= before.count("]")


def _capital(word: str) -> str:
    return word[0].upper() + word[1:] if _ordinary(word) else word


def _spelling(text: str) -> str:
    british = any(match[0].lower() in TO_AMERICAN for match in _WORD.finditer(text))
    table = TO_AMERICAN if british else TO_BRITISH

    def other(match: re.Match[str]) -> str:
        word = match[0]
        found = table.get(word.lower())
        if found is None:
            return word
        if word[0].isupper() and not word.isupper() and not _at_begin(match.string, match.start()):
            return word  # "Dr. Grey" and "Centers for Disease Control" are names
        if word.isupper() and len(word) > 1:
            return found.upper()
        return found[0].upper() + found[1:] if word[0].isupper() else found if word.islower() else word

    return _outside_kept(text, lambda part: _WORD.sub(other, part))


def _at_begin(text: str, place: int) -> bool:
    """Whether a word begins a sentence, a line or the item of a list."""
    before = text[max(0, place - 12) : place]
    if _ABBREVIATED.search(before):
        return False
    return not before.strip() or re.search(r"[.!?:]\s+\W*\Z|\n\W*(?:\d{1,2}[.)]\s+)?\W*\Z|^\W*\Z", before) is not None


def _prose(text: str) -> str:
    """Join the items of lists; text without two items in a row stays."""
    if "```" in text:
        return text
    done: list[str] = []
    items: list[str] = []
    for line in [*text.split("\n"), None]:
        if line is not None and _ITEM.match(line):
            items.append(line)
            continue
        if line is not None and items and items[-1].strip() and line[:1] in " \t" and line.strip():
            items[-1] = f"{items[-1].rstrip()} {line.strip()}"  # an item of several lines
            continue
        if line is not None and items and not line.strip():
            items.append(line)  # items may stand apart
            continue
        if items:
            _join(items, done)
            items = []
        if line is not None:
            done.append(line)
    return "\n".join(done)


def _join(items: list[str], done: list[str]) -> None:
    """Add the items of a list to the line before them."""
    lines, items = items, [item for item in items if item.strip()]
    if len(items) < 2:
        done.extend(lines)
        return
    while len(done) > 1 and not done[-1].strip() and done[-2].rstrip().endswith(":"):
        done.pop()
    items = _with_parts(items)
    sentences = any(_SENTENCE_END.search(item) for item in items)
    joined = " ".join(_stopped(i) for i in items) if sentences else "; ".join(i.rstrip(" ;,") for i in items) + "."
    if done and done[-1].rstrip().endswith(":"):
        done[-1] = f"{done[-1].rstrip()} {joined}"
    else:
        done.append(joined)
    done.extend(lines[-1:] if not lines[-1].strip() else [])


def _with_parts(lines: list[str]) -> list[str]:
    """The items of a list without their marks; items that stand further in belong to the one before them."""
    outer = min(_indent(line) for line in lines)
    items: list[str] = []
    parts: list[list[str]] = []
    for line in lines:
        item = _ITEM.sub("", line, count=1).strip()
        if items and _indent(line) > outer + 1:
            parts[-1].append(item.rstrip(" .;,"))
        else:
            items.append(item)
            parts.append([])
    return [
        f"{item.rstrip(' .:;,')}: {', '.join(inner)}" if inner else item
        for item, inner in zip(items, parts, strict=True)
    ]


def _indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _stopped(item: str) -> str:
    item = item.rstrip(" ;,")
    return item if item.endswith((".", "!", "?", ":")) else f"{item}."


_MAKERS: dict[str, Callable[[str], str]] = {
    "case": _case,
    "punctuation": _punctuation,
    "spelling": _spelling,
    "abbreviations": lambda text: _outside_kept(text, expanded),
    "prose": _prose,
}
