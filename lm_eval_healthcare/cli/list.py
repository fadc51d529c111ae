"""`lm-eval-healthcare list`: what the pack has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    import argparse

COLUMNS = ("task", "kind", "rows", "lang", "source", "licence", "also")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--format`."""
    add_format(parser)
    parser.epilog = "example:\n  lm-eval-healthcare list --format json"


def execute(args: argparse.Namespace) -> int:
    """Print the tasks, groups and tags."""
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.data.listing import by_tag, describe_pack, with_variants

    tasks, groups = describe_pack(tasks_path(), os.environ.get("LM_EVAL_HEALTHCARE_DATA"))
    chosen = os.environ.get("LM_EVAL_HEALTHCARE_METRICS") or "default"
    for task in tasks:
        task["metrics"] = task["metrics"] or metrics.resolve(chosen, languages=tuple(task["languages"]))
    if args.format == "json":
        print_json({"tasks": tasks, "groups": groups, "tags": by_tag(tasks)})
        return 0
    rows: list[dict[str, Any]] = [
        {**task, "task": task["name"], "lang": task["languages"], "also": task["variants"]}
        for task in with_variants(tasks)
    ]
    print(table(rows, COLUMNS, wrap=("licence", "also")))
    print("\n`also`: the task's variants. rows -: not published.\n")
    print(table([{**g, "group": g["name"]} for g in groups], ("group", "tasks"), wrap=("tasks",)))
    print()
    print(
        table(
            [{"tag": tag["name"], "tasks": _shown(tag["tasks"])} for tag in by_tag(tasks)],
            ("tag", "tasks"),
            wrap=("tasks",),
        )
    )
    print("\nEach task can also read a local folder (--metadata data=FOLDER) or the packaged sample (data=sample).")
    return 0


def _shown(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{len(names)} tasks, such as {', '.join(names[:3])}"
