"""Finding runs below folders: results files, the sample files of the same moment, and folders of saved answers."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lm_eval_healthcare.results.names import (
    folder_name,
    model_name,
    parse_results_name,
    parse_samples_name,
    printable,
)
from lm_eval_healthcare.results.results_file import ResultsError, read_results, scored_from

ANSWERS_FILE = "run.json"
ANSWERS_FORMAT = "lm_eval_healthcare answers"
# Folders of tools, in which copies of results may lie; a model's folder may well begin with a dot.
_NOT_ENTERED = re.compile(
    r"\.(git|hg|svn|venv.*|env|tox|nox|conda|ipynb_checkpoints|cache|local|Trash.*|.*_cache|idea|vscode)|__pycache__|"
    "node_modules"
)


@dataclass
class RunFiles:
    """The files of one run of the harness.

    Attributes:
        folder: Where they lie.
        stamp: The time in their names; empty where a file has none.
        results: The results file, if there is one.
        content: What it holds; empty if it is missing or cannot be read.
        samples: The sample file of each task.
        named: Whether the user named one of the files, rather than a folder above it.
        one_of_several: Whether the user named sample files, so that others of the run may have been left out.
    """

    folder: Path
    stamp: str
    results: Path | None = None
    content: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Path] = field(default_factory=dict)
    named: bool = False
    one_of_several: bool = False

    @property
    def model(self) -> str:
        """The model's name; that of the folder if no results file says it."""
        return model_name(self.content) or self.folder.name

    @property
    def model_folder(self) -> str:
        """The name of the model's folder in an output folder."""
        return folder_name(str(self.content.get("model_name_sanitized") or self.model))

    @property
    def name(self) -> str:
        """The name by which later files say what they were made from."""
        first = self.results or next(iter(self.samples.values()))
        return first.name


@dataclass
class Found:
    """What lies below some paths.

    Attributes:
        runs: Runs, in the order of their paths.
        answers: Folders of saved answers.
        answered: The tasks of the folders of which the user named single files; of others all count.
        faults: What cannot be read, each with the reason.
        scored_again: How many results were left out because they were made from others that are here.
        outdated: How many were left out because newer ones were made from the same answers, which are not here.
    """

    runs: list[RunFiles] = field(default_factory=list)
    answers: list[Path] = field(default_factory=list)
    answered: dict[Path, list[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    scored_again: int = 0
    outdated: int = 0


def find(paths: Sequence[Path]) -> Found:
    """Find the runs and the saved answers below folders, or to which files belong.

    Args:
        paths: Folders, at any depth above the files; results files; sample files.

    Raises:
        ResultsError: If a path does not exist, or is a file of another kind.
    """
    found = Found()
    runs: dict[tuple[str, str], RunFiles] = {}
    for path in paths:
        if path.is_dir():
            _scan(path, runs, found)
        elif path.is_file():
            _take_named(path, runs, found)
        else:
            raise ResultsError(
                f"{printable(path)}: no such file or folder. Give folders that hold results_*.json and "
                "samples_*.jsonl, such files, or folders of saved answers"
            )
    found.answers = list(dict.fromkeys(found.answers))
    found.runs = list(runs.values())
    for run in found.runs:
        _read(run, found)
    _leave_out_what_was_scored_again(found)
    found.runs = [run for run in found.runs if run.samples or run.content]
    return found


def _scan(folder: Path, runs: dict[tuple[str, str], RunFiles], found: Found) -> None:
    if _is_answers(folder / ANSWERS_FILE):
        found.answers.append(folder)
        return
    before = len(runs), len(found.answers)
    for file in files_below(folder, (".json", ".jsonl"), found.faults):
        if file.name == ANSWERS_FILE and _is_answers(file):
            found.answers.append(file.parent)
        elif (samples := parse_samples_name(file.name)) is not None:
            _run_of(file.parent, samples[1], runs).samples[samples[0]] = file
        elif (stamp := parse_results_name(file.name)) is not None:
            run = _run_of(file.parent, stamp, runs)
            if run.results is None or file.name.startswith("results_"):
                run.results = file
    if (len(runs), len(found.answers)) == before and (folder / ANSWERS_FILE).is_file():
        found.answers.append(folder)  # whoever reads them says what is wrong with them


def files_below(folder: Path, endings: tuple[str, ...], faults: list[str]) -> Iterator[Path]:
    """Yield every file below a folder in order; links are followed once, folders of tools are not entered.

    Args:
        folder: The folder.
        endings: How the names of the wanted files end.
        faults: Takes the folders that cannot be looked into.
    """
    seen: set[str] = set()

    def tell(error: OSError) -> None:
        faults.append(f"{printable(error.filename)}: cannot be looked into ({error.strerror})")

    for base, folders, files in os.walk(folder, onerror=tell, followlinks=True):
        real = os.path.realpath(base)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not _NOT_ENTERED.fullmatch(name))
        for name in sorted(files):
            if name.endswith(endings) and os.path.isfile(os.path.join(base, name)):  # no pipe, no device
                yield Path(base, name)


def answered_tasks(folder: Path) -> list[str]:
    """Return the tasks whose answers lie in a folder."""
    return list(dict.fromkeys(_answered_task(file) for file in sorted(folder.glob("*.jsonl"))))


def _answered_task(file: Path) -> str:
    return unquote(file.stem).partition(".rank")[0]


def _take_named(path: Path, runs: dict[tuple[str, str], RunFiles], found: Found) -> None:
    """Take one file that the user named, and what belongs to it."""
    if path.suffix in (".json", ".jsonl") and _is_answers(path.parent / ANSWERS_FILE):
        found.answers.append(path.parent)
        if path.suffix == ".jsonl":
            found.answered.setdefault(path.parent, []).append(_answered_task(path))
        return
    if path.suffix not in (".json", ".jsonl"):
        raise ResultsError(f"{printable(path)}: expected results_*.json, samples_*.jsonl or a folder that holds them")
    samples = parse_samples_name(path.name)
    if samples is None and path.suffix == ".jsonl":
        samples = path.stem.removeprefix("samples_"), ""
    if samples is not None:
        task, stamp = samples
        run = _run_of(path.parent, stamp, runs)
        run.named, run.one_of_several, run.samples[task] = True, True, path
        beside = [file for file in sorted(path.parent.glob("*.json")) if parse_results_name(file.name) == stamp]
        run.results = run.results or next(iter(sorted(beside, key=lambda f: not f.name.startswith("results_"))), None)
        return
    stamp = parse_results_name(path.name) or ""
    run = _run_of(path.parent, stamp, runs)
    run.named, run.results = True, path
    for file in sorted(path.parent.glob("samples_*")) if stamp else ():
        other = parse_samples_name(file.name)
        if other is not None and other[1] == stamp:
            run.samples[other[0]] = file


def _run_of(folder: Path, stamp: str, runs: dict[tuple[str, str], RunFiles]) -> RunFiles:
    return runs.setdefault((os.path.realpath(folder), stamp), RunFiles(folder, stamp))


def _read(run: RunFiles, found: Found) -> None:
    if run.results is None:
        return
    try:
        run.content = read_results(run.results)
    except ResultsError as error:
        found.faults.append(str(error))


def _leave_out_what_was_scored_again(found: Found) -> None:
    """Leave the tasks out of runs that were made from others: from some that are here, or from the same as newer ones.

    Runs whose files the user named stay whole.
    """
    sources = _sources(found)
    newest: dict[tuple[str | None, str, str], str] = {}
    for run in found.runs:
        for task in run.samples:
            made_from = scored_from(run.content), run.model, task
            newest[made_from] = max(newest.get(made_from, ""), run.stamp)
    kept = []
    for run in found.runs:
        source = scored_from(run.content)
        if source is None or run.named:
            kept.append(run)
            continue
        here = {task for task in run.samples if _is_made_from(run, sources[source, task])}
        old = {task for task in run.samples if newest[source, run.model, task] > run.stamp} - here
        run.samples = {task: file for task, file in run.samples.items() if task not in here | old}
        found.scored_again += bool(here)
        found.outdated += bool(old)
        kept += [run] if run.samples else []
    found.runs = kept


def _sources(found: Found) -> dict[tuple[str, str], list[str | None]]:
    """Return the models of what is here by the names and tasks by which results say what they were made from.

    A folder of answers has a name of its own, so its model, None, does not matter.
    """
    sources: dict[tuple[str, str], list[str | None]] = defaultdict(list)
    for run in found.runs:
        for task, file in run.samples.items():
            for name in {file.name, run.name}:
                sources[name, task].append(run.model)
    for folder in found.answers:
        for task in answered_tasks(folder):
            sources[folder.name, task].append(None)
    return sources


def _is_made_from(run: RunFiles, models: list[str | None]) -> bool:
    """Say whether one of these models is the run's; files of several models may have the same name."""
    own = model_name(run.content)
    return any(own is None or model is None or model == own for model in models)


def _is_answers(file: Path) -> bool:
    try:
        content = json.loads(file.read_bytes()) if file.is_file() else None  # a pipe would never end
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and str(content.get("format")).startswith(ANSWERS_FORMAT)
