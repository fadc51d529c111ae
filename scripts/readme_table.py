"""Write README's table of tasks from the task YAMLs.

python scripts/readme_table.py          rewrites the table
python scripts/readme_table.py --check  says whether it is what the YAMLs say (exit status 1 if not)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lm_eval_healthcare.data.listing import by_tag, describe_pack, with_variants  # noqa: E402

README = ROOT / "README.md"
BEGIN, END = "<!-- tasks: made by scripts/readme_table.py -->", "<!-- tasks: end -->"


def section() -> str:
    """Return the text between the two marks."""
    tasks, groups = describe_pack(ROOT / "tasks")
    lines = ["| task | benchmark | kind | rows | source | licence |", "|---|---|---|---|---|---|"]
    lines += [_row(task) for task in with_variants(tasks)]
    lines += ["", "| group or tag | tasks |", "|---|---|"]
    lines += [f"| `{group['name']}` | {_names(group['tasks'])} |" for group in groups]
    lines += [f"| `{tag['name']}` (tag) | {_names(tag['tasks'])} |" for tag in by_tag(tasks)]
    return "\n".join(lines)


def _row(task: dict[str, Any]) -> str:
    card = f"tasks/{Path(task['file']).parent.name}/README.md"
    names = ", ".join(f"`{name}`" for name in [task["name"], *task["variants"]])
    rows = f"{task['rows']:,}" if task["rows"] else "-"
    cells = [names, f"[{task['benchmark']}]({card})", task["kind"], rows, task["hub"], task["licence"]]
    return f"| {' | '.join(cells)} |"


def _names(names: list[str]) -> str:
    if len(names) > 20:
        return f"{len(names)} tasks"
    return ", ".join(f"`{name}`" for name in names)


def updated(text: str) -> str:
    """Return README's text with the table as the YAMLs have it.

    Raises:
        ValueError: If the marks are missing.
    """
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"README.md lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section()}\n\n{END}{after}"


def main() -> int:
    """Rewrite or check the table."""
    parser = argparse.ArgumentParser(description="Write README's table of tasks from the task YAMLs.")
    parser.add_argument("--check", action="store_true", help="only say whether the table is up to date")
    check = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    new = updated(text)
    if check:
        print("README's table of tasks is " + ("up to date" if new == text else "out of date"))
        return int(new != text)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
