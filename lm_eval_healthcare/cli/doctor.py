"""`lm-eval-healthcare doctor`: the state of the installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.tables import add_format, print_json, table

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--format`."""
    add_format(parser)
    parser.epilog = "example:\n  lm-eval-healthcare doctor --format json"


def execute(args: argparse.Namespace) -> int:
    """Print the diagnosis; exit code 1 if there is a problem."""
    print("reading the harness's task index, a few seconds ...", file=sys.stderr)
    from lm_eval_healthcare.harness.doctor import diagnose

    found = diagnose()
    if args.format == "json":
        print_json(found)
        return int(bool(found["problems"]))
    versions = {"lm_eval_healthcare": found["lm_eval_healthcare"], "python": found["python"], **found["versions"]}
    print(table([{"package": name, "version": version} for name, version in versions.items()], ("package", "version")))
    print(f"\nTask YAMLs of the pack: {found['tasks_path']}")
    print(f"Tasks of the harness:   {found['harness_tasks']}")
    state = (
        "the pack's tasks" if found["enabled"] else "the harness's own tasks (`lm-eval-healthcare enable` changes that)"
    )
    print(f"Plain `lm_eval` takes:  {state}\n")
    print(table(found["tasks"], ("name", "kind", "owner", "file")))
    print(f"\nData source: {found['data']['source']}", end="")
    print(f" {found['data'].get('folder') or ''}" + (f"; offline: {found['offline']}" if found["offline"] else ""))
    for name, where in found["data"].get("tasks", {}).items():
        print(f"  {name}: {where}")
    print(
        "\nMetrics: "
        + ", ".join(f"{name} ({'ready' if m['available'] else 'missing'})" for name, m in found["metrics"].items())
    )
    lacking: dict[str, list[str]] = {}
    for name, metric in found["metrics"].items():
        if not metric["available"]:
            lacking.setdefault(metric["missing"].removeprefix(f"{name}: "), []).append(name)
    for text, names in lacking.items():
        print(f"  {', '.join(names)}: {text}")
    for name, folder in found["cache"].items():
        print(f"{name}: {folder['path']} ({'writable' if folder['writable'] else 'NOT writable'})")
    for problem in found["problems"]:
        print(f"\nproblem: {problem}")
    if not found["problems"]:
        hint = "; runs without the missing metrics: --metadata metrics=ngram" if lacking else ""
        print(f"\nNo problems found{hint}.")
    return int(bool(found["problems"]))
