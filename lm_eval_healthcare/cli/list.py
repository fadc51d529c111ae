"""`lm-eval-healthcare list`: what the pack has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    import argparse

COLUMNS = ("task", "benchmark", "rows", "languages", "metrics", "licence", "gated", "source")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--format`."""
    add_format(parser)
    parser.epilog = "example:\n  lm-eval-healthcare list --format json"


def execute(args: argparse.Namespace) -> int:
    """Print the tasks and groups."""
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.data.listing import describe_pack

    tasks, groups = describe_pack(tasks_path(), os.environ.get("LM_EVAL_HEALTHCARE_DATA"))
    for task in tasks:
        chosen = os.environ.get("LM_EVAL_HEALTHCARE_METRICS") or "default"
        task["metrics"] = task["metrics"] or metrics.resolve(chosen, languages=tuple(task["languages"]))
    if args.format == "json":
        print_json({"tasks": tasks, "groups": groups})
        return 0
    rows: list[dict[str, Any]] = [{**task, "task": task["name"]} for task in tasks]
    print(table(rows, COLUMNS, wrap=("metrics",)))
    print()
    print(table([{**g, "group": g["name"]} for g in groups], ("group", "tasks"), wrap=("tasks",)))
    print("\nEach task can also read a local folder (--metadata data=FOLDER) or the packaged sample (data=sample).")
    return 0
