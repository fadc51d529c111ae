"""A benchmark's description as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PARTS = ("question", "answer", "option")


def markdown(task: str, described: Mapping[str, Any]) -> str:
    """Lay out what `data.describe.describe` found out about one task.

    Args:
        task: The heading.
        described: The result of `describe`, with `source` and `split` if they are known.
    """
    origin = ", ".join(str(described[key]) for key in ("source", "split") if described.get(key))
    lead = f"{described['rows']:,} rows" + (f" ({_cell(origin)})" if origin else "")
    blocks = [f"## {_cell(task)}", f"{lead}; lengths in {_cell(described['unit'])}", _size_table(described)]
    for key, title in (("by_year", "Year"), ("gold_positions", "Right option")):
        found = described.get(key)
        counts = found["counts"] if found and "counts" in found else found
        if counts:
            total = sum(counts.values())
            rows = [[name, f"{n:,}", _share(n, total)] for name, n in counts.items()]
            blocks.append(_table([title, "rows", "share"], rows))
    if described.get("by_category_and_year"):
        blocks.append(_year_table(described["by_category_and_year"], described["by_year"]))
    blocks.append("\n".join(_remarks(described)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def note(unit: str) -> str:
    """Return how lengths and words are counted, as one paragraph."""
    return (
        f"Lengths are in {unit}. A word is a run of letters, digits and combining marks; apostrophes and hyphens "
        "inside it belong to it. The vocabulary is the number of distinct words of questions, options and answers, "
        "upper and lower case taken as one. Texts that differ only in white space are equal."
    )


def _size_table(described: Mapping[str, Any]) -> str:
    parts = [part for part in _PARTS if described["length"][part]["n"]]
    header = ["Category", "rows"]
    header += [f"{part}: {what}" for part in parts for what in ("mean", "longest")]
    header.append("vocabulary")
    rows = [[name, *_sizes(found, parts)] for name, found in (described.get("by_category") or {}).items()]
    rows.append(["All", *_sizes(described, parts)])
    return _table(header, rows)


def _sizes(found: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
    cells = [f"{found['rows']:,}"]
    for part in parts:
        length = found["length"][part]
        cells += ["-", "-"] if length["mean"] is None else [f"{length['mean']:,.1f}", f"{length['longest']:,}"]
    return [*cells, f"{found['vocabulary']:,}"]


def _year_table(counts: Mapping[str, Mapping[str, int]], years: Mapping[str, int]) -> str:
    rows = [
        [name, *(f"{found[year]:,}" for year in years), f"{sum(found.values()):,}"] for name, found in counts.items()
    ]
    rows.append(["All", *(f"{n:,}" for n in years.values()), f"{sum(years.values()):,}"])
    return _table(["Category", *years, "all years"], rows)


def _remarks(described: Mapping[str, Any]) -> list[str]:
    lines = []
    gold = described.get("gold_positions")
    if gold and gold["largest_share"] is not None:
        lines.append(
            f"* Always choosing the most frequent place would be right in {100 * gold['largest_share']:.1f} % of rows."
        )
    if gold and gold["unknown"]:
        lines.append(f"* {gold['unknown']:,} rows do not say which option is right.")
    repeated = described["duplicate_questions"]
    lines.append(
        f"* Repeated questions: {repeated['surplus']:,} rows repeat the question of an earlier one, "
        f"{repeated['surplus_with_same_options_and_answer']:,} of them with the same options and answer."
    )
    lines += [
        f"  * {found['times']} times: {_cell(found['question']) or '(blank)'}"
        for found in repeated["most_frequent"]
        if "question" in found
    ]
    identical = described.get("identical_options")
    if identical:
        numbers = ", ".join(map(str, identical["row_numbers"]))
        more = ", ..." if identical["rows"] > len(identical["row_numbers"]) else ""
        lines.append(
            f"* Rows with two identical options: {identical['rows']:,}, the right one among them in "
            f"{identical['right_one_among_them']:,}" + (f" (rows {numbers}{more})" if numbers else "") + "."
        )
    blank = {name: n for name, n in described["blank"].items() if n}
    cells = ", ".join(f"{_cell(name)} {n:,}" for name, n in blank.items()) or "none"
    lines.append(f"* Null or blank cells by column: {cells}.")
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in [header, ruler, *rows])


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _share(n: int, total: int) -> str:
    return f"{100 * n / total:.1f} %" if total else "-"
