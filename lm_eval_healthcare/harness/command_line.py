"""Reading the harness's command line the way the harness reads it, and showing its help and tables."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from lm_eval._cli import HarnessCLI
from lm_eval._cli.utils import MergeDictAction
from lm_eval.utils import make_table, setup_logging

from lm_eval_healthcare.harness.logs import join_harness_log
from lm_eval_healthcare.harness.options import OptionError

_SHORTEST = len("--inc")  # shorter forms of the flags that are taken out could mean others of the harness


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
        given = " ".join(values)
        listed = any(value.startswith("metrics=") and "," in value for value in values)
        hint = "; the harness splits at commas, so join metrics by +: metrics=bleu+rouge1" if listed else ""
        raise OptionError(f"--metadata {given}: write key=value items, or one JSON object ({error}){hint}") from error
    return dict(parsed or {})


def take_out(argv: Sequence[str], flag: str, several: bool = False) -> tuple[list[str], list[str]]:
    """Take every occurrence of a flag out of a command line.

    Args:
        argv: The arguments.
        flag: Such as `--include_path`; `--include_path=x` is found too, and shorter forms that the harness takes.
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
        name, equals, value = argument.partition("=")
        if not (flag.startswith(name) and len(name) >= _SHORTEST):
            rest.append(argument)
        elif equals:
            values.append(value)
        else:
            start = place
            while place < len(argv) and not argv[place].startswith("-") and (several or place == start):
                values.append(argv[place])
                place += 1
            if place == start:
                raise OptionError(f"{flag} needs a value, and none was given")
    return values, rest


def arguments_of_command(argv: Sequence[str]) -> dict[str, Any]:
    """Return what the harness's own command was given, as far as scoring its answers again needs it.

    Args:
        argv: The process's arguments, the program first.

    Returns:
        `output_path`, `include_path`, `tasks` and `model`, each only if given; nothing if this is another program.
    """
    if Path(argv[0]).stem not in ("lm_eval", "lm-eval", "__main__"):
        return {}
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for long, short in (("output_path", "o"), ("include_path", None), ("tasks", "t"), ("model", "M"), ("config", "C")):
        parser.add_argument(f"--{long}", *([f"-{short}"] if short else []), nargs="+" if long == "tasks" else None)
    try:
        known = vars(parser.parse_known_args(list(argv[1:]))[0])
        if known["config"]:
            content = yaml.safe_load(Path(known["config"]).read_text(encoding="utf-8"))
            known = {**(content if isinstance(content, dict) else {}), **{k: v for k, v in known.items() if v}}
    except (argparse.ArgumentError, OSError, ValueError, yaml.YAMLError, SystemExit):
        return {}
    found = {key: known[key] for key in ("output_path", "include_path", "tasks", "model") if known.get(key)}
    if "tasks" in found:
        found["tasks"] = split_names(found["tasks"])
    if "include_path" in found:
        found["include_path"] = [os.path.abspath(str(found["include_path"]))]
    return found


def split_names(tasks: str | Sequence[str] | None) -> list[str]:
    """Return the task names in a value of `--tasks`, blanks taken off."""
    given = [tasks] if isinstance(tasks, str) else list(tasks or [])
    return [name.strip() for item in given for name in item.split(",") if name.strip()]


def refuse_unwritable(path: Path) -> None:
    """Make the folder of an output path and try to write there.

    Raises:
        OptionError: If that cannot be done; after a run it would be too late.
    """
    folder = path.parent if path.suffix == ".json" else path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(f"--output_path {path}: cannot write there ({error}); give a folder that is yours") from error


def refuse_half_written(path: Path, since: float) -> None:
    """Look whether the files that a run has written are whole; the harness goes on when a disk is full.

    Args:
        path: The run's output path.
        since: When the run began, in seconds since the epoch; older files are not looked at.

    Raises:
        OptionError: If a file of results or samples is cut. It gets another name, under which nobody takes it for
            whole.
    """
    folder = path.parent if path.suffix == ".json" else path
    cut = []
    for file in [*folder.glob("**/*results_*.json"), *folder.glob("**/samples_*.jsonl")]:
        if file.stat().st_mtime >= since - 1 and not _is_whole(file):
            cut.append(file.rename(file.with_name(f"{file.name}.incomplete")).name)
    if cut:
        raise OptionError(
            f"the disk took only a part of {', '.join(sorted(cut))} in {folder}. Free space there or choose another "
            "folder; if the log above says where the answers are saved: lm-eval-healthcare score FOLDER -o ANOTHER"
        )


def _is_whole(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8")
        lines = [text] if file.suffix == ".json" else text.split("\n")
        for line in lines if file.suffix == ".json" else lines[:-1]:
            json.loads(line)
    except ValueError:
        return False
    return bool(text) and (file.suffix == ".json" or lines[-1] == "")


def _raise(message: str) -> Any:
    raise ValueError(message.removeprefix("argument --metadata: "))
