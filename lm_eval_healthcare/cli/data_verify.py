"""`lm-eval-healthcare data verify`: is a data folder what it should be."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.data_arguments import add_include_path, refuse_unknown_options, roots
from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lm_eval_healthcare.data.verify import TaskReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the tasks."""
    parser.add_argument("folder", type=Path, help="the data folder")
    parser.add_argument(
        "--tasks", nargs="+", default=[], metavar="TASK", help="tasks that must be there (default: those that are)"
    )
    add_include_path(parser)
    add_format(parser)
    parser.epilog = "example:\n  lm-eval-healthcare data verify /data/benchmarks --tasks healthcare_mcqa"


def execute(args: argparse.Namespace) -> int:
    """Print what was found; exit code 1 if something is wrong."""
    from lm_eval_healthcare.data.selection import every_task, select
    from lm_eval_healthcare.data.verify import verify
    from lm_eval_healthcare.harness.options import task_options

    logging.getLogger("lm_eval_healthcare").setLevel(logging.ERROR)  # warnings are in the report
    folders = roots(args.include_path)
    tasks = select(args.tasks, folders) if args.tasks else every_task(folders)
    refuse_unknown_options([], args.include_path)
    found = verify(
        args.folder,
        [task.facts for task in tasks],
        expected=[task.facts.name for task in tasks] if args.tasks else [],
        named=[task.facts.name for task in tasks if task.named],
        options={task.facts.name: task_options(task.facts, {}) for task in tasks},
    )
    if args.format == "json":
        print_json({"ok": found.ok, **asdict(found)})
        return int(not found.ok)
    if found.files:
        rows = [{"file": f.path, "rows": f.rows, "state": f.state, "origin": f.origin or None} for f in found.files]
        print(table(rows, ("file", "rows", "state", "origin"), wrap=("origin",)) + "\n")
    if found.tasks:
        results = [
            {
                "task": t.task,
                "rows": t.rows,
                "published": " or ".join(map(str, t.published)) or None,
                "result": _result(t),
            }
            for t in found.tasks
        ]
        print(table(results, ("task", "rows", "published", "result")))
    for label, lines in (
        ("note", found.notes + _by_text([(t.task, note) for t in found.tasks for note in t.notes])),
        ("problem", found.problems + [f"{f.path}: {f.problem}" for f in found.files if f.problem]),
        ("problem", _by_text([(t.task, problem) for t in found.tasks for problem in t.problems])),
    ):
        for line in lines:
            print(f"\n{label}: {line}")
    print("\nEverything is as it should be." if found.ok else "\nThere are problems.")
    return int(not found.ok)


def _by_text(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """One line for each text, with all tasks that it is about: tasks that share rows share what is said of them."""
    tasks: dict[str, list[str]] = {}
    for task, text in pairs:
        tasks.setdefault(text, []).append(task)
    return [f"{', '.join(names)}: {text}" for text, names in tasks.items()]


def _result(report: TaskReport) -> str:
    if report.problems:
        return "PROBLEM"
    if report.missing:
        return "not there (your own files)"
    return f"{len(report.notes)} note(s)" if report.notes else "ok"
