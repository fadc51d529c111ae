"""Reading the harness's command line the way the harness reads it, and showing its help and tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from lm_eval._cli import HarnessCLI
from lm_eval._cli.utils import MergeDictAction
from lm_eval.utils import make_table, setup_logging

from lm_eval_healthcare.harness.logs import join_harness_log
from lm_eval_healthcare.harness.options import OptionError


def start_logging() -> None:
    """Set up the harness's log, with the pack's records in it."""
    setup_logging()
    join_harness_log()


def print_run_help() -> None:
    """Print the help of the harness's `run`."""
    sys.argv = ["lm-eval", "run", "--help"]
    HarnessCLI().parse_args()


def results_tables(results: dict[str, Any]) -> list[str]:
    """Return the tables that the harness prints: tasks, and groups if there are any."""
    return [make_table(results), *([make_table(results, "groups")] if "groups" in results else [])]


def metadata_from_arguments(values: Sequence[str]) -> dict[str, Any]:
    """Parse the values of `--metadata`: `key=value` items or one JSON object.

    Raises:
        OptionError: If a value is neither.
    """
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--metadata", nargs="*", action=MergeDictAction, default=None)
    parser.error = _raise  # type: ignore[method-assign]
    try:
        parsed = parser.parse_args(["--metadata", *values]).metadata
    except (argparse.ArgumentError, ValueError) as error:
        raise OptionError(f"--metadata: {error}. Write key=value, or one JSON object") from error
    return dict(parsed or {})


def take_out(argv: Sequence[str], flag: str, several: bool = False) -> tuple[list[str], list[str]]:
    """Take every occurrence of a flag out of a command line.

    Args:
        argv: The arguments.
        flag: Such as `--include_path`; `--include_path=x` is found too.
        several: Whether all values up to the next flag belong to it.

    Returns:
        The flag's values in order, and the other arguments.

    Raises:
        OptionError: If a value is missing.
    """
    values: list[str] = []
    rest: list[str] = []
    place = 0
    while place < len(argv):
        argument = argv[place]
        place += 1
        if argument.startswith(f"{flag}="):
            values.append(argument.partition("=")[2])
        elif argument == flag:
            start = place
            while place < len(argv) and not argv[place].startswith("-") and (several or place == start):
                values.append(argv[place])
                place += 1
            if place == start:
                raise OptionError(f"{flag} needs a value, and none was given")
        else:
            rest.append(argument)
    return values, rest


def output_path_of_command(argv: Sequence[str]) -> str | None:
    """Return the `--output_path` of the harness's own command, if this process is one.

    Args:
        argv: The process's arguments, the program first.
    """
    if Path(argv[0]).stem not in ("lm_eval", "lm-eval", "__main__"):
        return None
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--output_path", "-o")
    parser.add_argument("--config", "-C")
    try:
        known, _ = parser.parse_known_args(list(argv[1:]))
        if known.output_path or not known.config:
            return known.output_path
        content = yaml.safe_load(Path(known.config).read_text(encoding="utf-8"))
        return content.get("output_path") if isinstance(content, dict) else None
    except (argparse.ArgumentError, OSError, ValueError, yaml.YAMLError, SystemExit):
        return None


def _raise(message: str) -> Any:
    raise OptionError(f"--metadata: {message}")
