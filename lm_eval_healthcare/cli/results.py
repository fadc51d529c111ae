"""`lm-eval-healthcare results`: one table from result files of any age."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.results_options import add_table_options, exit_code, table_of
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.whole_file import whole_file

if TYPE_CHECKING:
    import argparse

    from lm_eval_healthcare.results.cell import Table

FORMATS = ("table", "json", "csv", "markdown", "parquet")
_EPILOG = """\
Files are known by their content, whichever version of the harness from 0.3 on wrote them and whatever they are called.
Of several values of one model, task, metric and filter the one of the newest complete run is taken. All others are
listed with the reason: see --format json, or --set-aside.

examples:
  lm-eval-healthcare results results
  lm-eval-healthcare results results old/results --where task=careqa* metric=acc --format markdown
  lm-eval-healthcare results results --format parquet -o table.parquet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the rules, and how the table is written."""
    add_table_options(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to write (default: %(default)s)")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--set-aside", action="store_true", help="table: also list what was left out, with the reasons")
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Read, choose, write.

    Returns:
        1 with `--strict` if a file is broken, else 0.

    Raises:
        UserError: If a path does not exist, or the output cannot be written.
    """
    from lm_eval_healthcare.results import table_rows

    if args.format == "parquet" and args.output is None:
        raise UserError("--format parquet: it is no text; give the file with -o, such as -o table.parquet")
    table = table_of(args)
    try:
        if args.format == "parquet":
            table_rows.write_parquet(table, args.output)
        elif args.output is None:
            _print(_text(args, table))
        else:
            with whole_file(args.output) as part:
                part.write_bytes(_text(args, table).encode("utf-8", "backslashreplace"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{args.output}: cannot be written ({error.strerror or error}); give another file") from error
    if args.format == "table":
        _tell(args, table)
    return exit_code(args, table)


def _text(args: argparse.Namespace, table: Table) -> str:
    from lm_eval_healthcare.results import table_rows

    if args.format == "json":
        return json.dumps(table_rows.as_json(table), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if args.format == "csv":
        return table_rows.as_csv(table)
    if args.format == "markdown":
        return table_rows.as_markdown(table)
    return _for_people(args, table)


def _print(text: str) -> None:
    """Print a text in which there may be letters that the terminal, or UTF-8, does not have."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _for_people(args: argparse.Namespace, table: Table) -> str:
    from lm_eval_healthcare.cli.tables import table as lay_out
    from lm_eval_healthcare.results import table_rows

    parts = []
    if table.cells:
        rows = [table_rows.shown(cell) for cell in table.cells]
        parts.append(lay_out(rows, [c for c in table_rows.SHOWN if any(row.get(c) not in (None, "") for row in rows)]))
    if averages := table_rows.averages(table):
        shown: list[dict[str, Any]] = [
            {"model": one["model"], "acc over all": f"{one['value']:.4f}", "stderr": _rounded(one["stderr"]),
             "n": one["n"], "tasks": len(one["tasks"])}
            for one in averages
        ]  # fmt: skip
        title = "multiple choice, all questions of distinct tasks together"
        if len({tuple(one["tasks"]) for one in averages}) > 1:
            title += "; the models ran different tasks, so these are not comparable"
        parts.append(f"{title}\n{lay_out(shown, list(shown[0]))}")
    if args.set_aside and table.set_aside:
        rows = [{**table_rows.shown(one.cell), "reason": one.reason} for one in table.set_aside]
        parts.append("set aside\n" + lay_out(rows, ["model", "task", "metric", "filter", "value", "reason"]))
    return "\n\n".join(parts or ["no values"]) + "\n"


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _tell(args: argparse.Namespace, table: Table) -> None:
    from collections import Counter

    for note in table.notes:
        print(f"note: {note}", file=sys.stderr)
    reasons = Counter(one.reason.partition(":")[0].partition(" by ")[0] for one in table.set_aside)
    if reasons:
        shown = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        how = "" if args.set_aside else "; --set-aside lists them"
        print(f"{sum(reasons.values())} values set aside ({shown}){how}", file=sys.stderr)
