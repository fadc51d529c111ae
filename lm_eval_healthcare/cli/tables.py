"""Plain text tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `--format table|json`."""
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="how to print (default: %(default)s)"
    )


def print_json(content: Any) -> None:
    """Print one JSON object."""
    print(json.dumps(content, indent=2, ensure_ascii=False, default=str))


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], wrap: Sequence[str] = ()) -> str:
    """Lay rows out in columns, as wide as their contents; columns named in `wrap` share what the terminal leaves.

    Args:
        rows: One mapping per row.
        columns: Keys to show, also the headings.
        wrap: Columns whose text may be broken over several lines.
    """
    cells = [{c: _text(row.get(c)) for c in columns} for row in rows]
    width = {c: max([len(c), *(len(row[c]) for row in cells)]) for c in columns}
    free = shutil.get_terminal_size((160, 24)).columns - sum(w + 2 for c, w in width.items() if c not in wrap)
    for column in wrap:
        longest_word = max((len(word) for row in cells for word in row[column].split()), default=0)
        share = max(24, free // max(1, len(wrap)) - 2)
        width[column] = max(len(column), longest_word, min(width[column], share))
    lines = ["  ".join(c.ljust(width[c]) for c in columns).rstrip(), "  ".join("-" * width[c] for c in columns)]
    for row in cells:
        parts = {
            c: textwrap.wrap(row[c], width[c], break_long_words=False, break_on_hyphens=False) or [""] for c in columns
        }
        for place in range(max(len(part) for part in parts.values())):
            line = [(parts[c][place] if place < len(parts[c]) else "").ljust(width[c]) for c in columns]
            lines.append("  ".join(line).rstrip())
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
