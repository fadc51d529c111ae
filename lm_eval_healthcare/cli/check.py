"""`lm-eval-healthcare check`: what would stop a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a run would be given."""
    parser.add_argument(
        "--tasks", "-t", required=True, nargs="+", help="tasks, groups or patterns, separated by commas or spaces"
    )
    parser.add_argument(
        "--metadata", nargs="+", action="append", default=[], metavar="key=value", help="options as for `run`"
    )
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.add_argument("--num_fewshot", type=int, default=None, help="number of examples that the run would use")
    add_format(parser)
    parser.epilog = (
        "example:\n  lm-eval-healthcare check --tasks careqa_open,medtext --metadata data=FOLDER metrics=ngram"
    )


def execute(args: argparse.Namespace) -> int:
    """Print what was found; exit code 1 if anything would stop the run."""
    from lm_eval_healthcare.harness.check import check
    from lm_eval_healthcare.harness.command_line import metadata_from_arguments

    names = [name for item in args.tasks for name in item.split(",") if name]
    metadata = metadata_from_arguments([item for group in args.metadata for item in group])
    reports, problems = check(names, metadata, args.include_path, args.num_fewshot)
    failed = bool(problems) or any(report.problems for report in reports)
    if args.format == "json":
        print_json({"ok": not failed, "problems": problems, "tasks": [asdict(report) for report in reports]})
        return int(failed)
    rows: list[dict[str, Any]] = [
        {
            "task": r.name,
            "rows": r.rows,
            "from": r.source,
            "prompt": r.prompt,
            "metrics": r.metrics,
            "result": _result(r),
        }
        for r in reports
    ]
    print(table(rows, ("task", "rows", "from", "prompt", "metrics", "result"), wrap=("metrics",)))
    for label, found in (
        ("warning", [(r.name, text) for r in reports for text in r.warnings]),
        ("problem", [(r.name, text) for r in reports for text in r.problems] + [("", text) for text in problems]),
    ):
        for text, names in _by_text(found).items():
            print(f"\n{label}: {', '.join(names) + ': ' if any(names) else ''}{text}")
    print("\nThis would not run." if failed else "\nReady to run.")
    return int(failed)


def _by_text(found: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return each text once, with the tasks of which it is said."""
    texts: dict[str, list[str]] = {}
    for name, text in found:
        texts.setdefault(text.replace(f"{name}: ", "", 1) if name else text, []).append(name)
    return texts


def _result(report: Any) -> str:
    if report.problems:
        return "FAILS"
    return f"{len(report.warnings)} warning(s)" if report.warnings else "ok"
