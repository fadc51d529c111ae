"""What a benchmark's rows look like: how many by category and year, how long, how varied, how balanced, how clean.

Pure statistics over `Question`s. A word is a run of letters, digits and combining marks of any script; apostrophes and
hyphens inside it belong to it (`patient's`, `beta-blocker` are one word each). The vocabulary counts distinct words of
questions, options and answers, upper and lower case taken as one. Two texts are equal if they are the same up to white
space. A number that does not exist, such as the mean length of no answers, is None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from lm_eval_healthcare.data.questions import Layout, Question, option_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    CountTexts = Callable[[Sequence[str]], list[int]]

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*")
NO_CATEGORY = "(none)"
_MAX_LISTED = 20
_MAX_SHOWN = 80


def count_words(texts: Sequence[str]) -> list[int]:
    """Return the number of words of each text."""
    return [len(WORD.findall(text)) for text in texts]


def describe(
    questions: Sequence[Question],
    layout: Layout,
    documents: Sequence[Mapping[str, Any]] = (),
    count: CountTexts = count_words,
    unit: str = "words",
    show_text: bool = True,
) -> dict[str, Any]:
    """Describe the rows of one benchmark.

    Args:
        questions: The rows.
        layout: Where they were read from; gives the names of the options.
        documents: The same rows with all columns, for the count of blank cells.
        count: Gives the length of each text.
        unit: What `count` counts.
        show_text: Whether repeated questions may be quoted; not for credentialed data.

    Returns:
        A JSON-ready dict without NaN: `rows`, `unit`, `length` (of `question`, `answer` and `option`: n, mean, median,
        longest, and the row of the longest, counted from 1), `vocabulary` (distinct words), `by_category` (the same for
        each category), `by_year`, `by_category_and_year`, `gold_positions`, `duplicate_questions`,
        `identical_options`, `blank` (cells that are null, empty or white space, by column).
    """
    rows = np.arange(len(questions))
    lengths = measure(questions, count)
    words = [_vocabulary(question) for question in questions]
    out: dict[str, Any] = {"rows": len(questions), "unit": unit, **_sizes(rows, lengths, words)}
    out["by_category"], out["by_year"], out["by_category_and_year"] = {}, {}, {}
    categories, years = [q.category for q in questions], [q.year for q in questions]
    if any(categories):
        groups = _groups(categories)
        out["by_category"] = {
            name: {"rows": len(places), "share": len(places) / len(questions), **_sizes(places, lengths, words)}
            for name, places in groups.items()
        }
    if any(years):
        out["by_year"] = {year: len(places) for year, places in _groups(years).items()}
    if any(categories) and any(years):
        out["by_category_and_year"] = {
            name: {year: sum(years[place] == _none(year) for place in places) for year in out["by_year"]}
            for name, places in groups.items()
        }
    out["gold_positions"] = _gold_positions(questions, layout)
    out["duplicate_questions"] = _duplicates(questions, show_text)
    out["identical_options"] = _identical_options(questions) if not layout.labels else None
    out["blank"] = blank_cells(documents)
    return out


def measure(questions: Sequence[Question], count: CountTexts = count_words) -> dict[str, list[list[int]]]:
    """Return the lengths of the texts of every row.

    Returns:
        For `question`, `answer` and `option`, one list a row with the length of each text: one question, as many
        answers and options as the row has.
    """
    out = {}
    for part, texts in (
        ("question", [(q.text,) for q in questions]),
        ("answer", [q.answers for q in questions]),
        ("option", [q.options for q in questions]),
    ):
        counted = iter(count([text for row in texts for text in row]))
        out[part] = [[next(counted) for _ in row] for row in texts]
    return out


def blank_cells(documents: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many cells of each column are null, empty or nothing but white space; columns without any are 0."""
    blank: Counter[str] = Counter()
    names: dict[str, None] = {}
    total: Counter[str] = Counter()
    n = 0
    for document in documents:
        n += 1
        for name, value in document.items():
            names[name] = None
            total[name] += 1
            blank[name] += _is_blank(value)
    return {name: blank[name] + n - total[name] for name in names}


def _sizes(
    rows: Iterable[int], lengths: Mapping[str, list[list[int]]], words: Sequence[frozenset[str]]
) -> dict[str, Any]:
    places = [int(row) for row in rows]
    vocabulary: set[str] = set().union(*(words[place] for place in places))
    return {"length": {part: _length(places, lengths[part]) for part in lengths}, "vocabulary": len(vocabulary)}


def _length(places: Sequence[int], lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
    pairs = [(length, place) for place in places for length in lengths[place]]
    if not pairs:
        return {"n": 0, "mean": None, "median": None, "longest": None, "longest_row": None}
    values = np.array([length for length, _ in pairs], dtype=np.float64)
    longest, place = max(pairs, key=lambda pair: (pair[0], -pair[1]))
    return {
        "n": len(pairs),
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "longest": longest,
        "longest_row": place + 1,
    }


def _vocabulary(question: Question) -> frozenset[str]:
    texts = (question.text, *question.options, *question.answers)
    return frozenset(word.casefold() for text in texts for word in WORD.findall(text))


def _groups(values: Sequence[str | None]) -> dict[str, list[int]]:
    """Places of each value: values in order, rows without one last."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        groups[NO_CATEGORY if value is None else value].append(place)
    return dict(sorted(groups.items(), key=lambda item: (item[0] == NO_CATEGORY, item[0])))


def _none(value: str) -> str | None:
    return None if value == NO_CATEGORY else value


def _gold_positions(questions: Sequence[Question], layout: Layout) -> dict[str, Any] | None:
    if layout.gold is None:
        return None
    width = max((len(q.options) for q in questions), default=0)
    counts = Counter(q.gold for q in questions)
    known = sum(counts[place] for place in range(width))
    return {
        "counts": {option_label(layout, place): counts[place] for place in range(width)},
        "unknown": counts[None],
        "largest_share": max(counts[place] for place in range(width)) / known if known else None,
    }


def _duplicates(questions: Sequence[Question], show_text: bool) -> dict[str, Any]:
    places: dict[str, list[int]] = defaultdict(list)
    items: Counter[Any] = Counter()
    for place, question in enumerate(questions):
        text = _plain(question.text)
        places[text].append(place + 1)
        items[(text, tuple(map(_plain, question.options)), tuple(map(_plain, question.answers)))] += 1
    repeated = {text: rows for text, rows in places.items() if len(rows) > 1}
    most = sorted(repeated.items(), key=lambda item: (-len(item[1]), item[1]))
    return {
        "surplus": len(questions) - len(places),
        "questions": len(repeated),
        "surplus_with_same_options_and_answer": len(questions) - len(items),
        "most_frequent": [
            {**({"question": _short(text)} if show_text else {}), "times": len(rows), "row_numbers": rows[:_MAX_LISTED]}
            for text, rows in most[:5]
        ],
    }


def _identical_options(questions: Sequence[Question]) -> dict[str, Any] | None:
    if not any(q.options for q in questions):
        return None
    rows, with_gold = [], 0
    for number, question in enumerate(questions, start=1):
        plain = [_plain(option) for option in question.options]
        if len(set(plain)) < len(plain):
            rows.append(number)
            with_gold += question.gold is not None and plain.count(plain[question.gold]) > 1
    return {"rows": len(rows), "right_one_among_them": with_gold, "row_numbers": rows[:_MAX_LISTED]}


def _is_blank(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, list | tuple | dict):
        return not value
    return value is None or value != value


def _plain(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
