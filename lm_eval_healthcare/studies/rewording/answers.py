"""Finding and reading what `rephrase` wrote: runs whose answers stand beside their rewordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.judge.saved import takes
from lm_eval_healthcare.results.discovery import RunFiles, files_below, find
from lm_eval_healthcare.results.names import parse_results_name, printable
from lm_eval_healthcare.results.repeated_answers import REPHRASED, RepeatedTask, read_repeated
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.texts import NoText
from lm_eval_healthcare.studies.rewording.outcome import ORIGINAL
from lm_eval_healthcare.studies.rewording.outcome import RULES as BY_RULES

if TYPE_CHECKING:
    from lm_eval_healthcare.results.repeated_answers import RepeatedRow

NO_REWORDINGS = (
    "no rewordings: make them with `lm-eval-healthcare rephrase PATH -o OUT`, and give OUT; several answers of a model "
    "to one question are for `lm-eval-healthcare consistency`"
)
OLDER = "newer rewordings of the same answers, by the same model or rules, are here"


@dataclass
class Reworded:
    """What was read.

    Attributes:
        tasks: Tasks with their rewordings.
        left_out: Tasks that are not used, each with the reason.
        faults: What cannot be read.
    """

    tasks: list[RepeatedTask] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read_reworded(paths: Sequence[Path], where: Mapping[str, Sequence[str]], versions: int | None = None) -> Reworded:
    """Read every task with rewordings below some paths.

    Args:
        paths: Folders, results files, or sample files.
        where: Patterns by `model` and `task`; what matches none of a kind is left alone.
        versions: How many rewordings of each answer are taken, the first ones; None for all.

    Raises:
        ResultsError: If a path does not exist.
    """
    found = Reworded()
    references: dict[str, str] = {}
    for run in _runs(paths, found.faults):
        name = printable(run.results or run.folder)
        if not run.samples and REPHRASED in run.content:
            found.faults.append(f"{name}: its samples_*.jsonl is not beside it; copy both")
        for task, path in run.samples.items():
            if not takes(where, {run.model, run.model_folder}, task):
                continue
            if run.content and REPHRASED not in run.content:
                found.left_out.append((f"{run.model}, {task}", NO_REWORDINGS))
                continue
            try:
                one = read_repeated(run, task, path, references)
            except NoText as error:
                found.left_out.append((f"{run.model}, {task}", str(error)))
            except ResultsError as error:
                found.faults.append(str(error))
            else:
                _take(one, versions, found)
    found.tasks = _newest(found)
    return found


def _runs(paths: Sequence[Path], faults: list[str]) -> list[RunFiles]:
    """Return the runs, also those that are made from others which are here as well, as rewordings are."""
    named: list[Path] = []
    for path in paths:
        below = files_below(path, (".json",), faults) if path.is_dir() else ()
        results = [file for file in below if parse_results_name(file.name) is not None]
        named += results or [path]
    found = find(list(dict.fromkeys(named)))
    faults += found.faults
    return found.runs


def _take(task: RepeatedTask, versions: int | None, found: Reworded) -> None:
    if task.cut:
        found.faults.append(task.cut)
    if not task.is_reworded:
        found.left_out.append((f"{task.run.model}, {task.task}", NO_REWORDINGS))
        return
    if versions is not None:
        for row in task.rows:
            row.answers = row.answers[: versions + 1]
            row.rewordings = row.rewordings[: versions + 1] if row.rewordings is not None else None
    found.tasks.append(task)


def _newest(found: Reworded) -> list[RepeatedTask]:
    newest: dict[tuple[Any, ...], RepeatedTask] = {}
    for task in found.tasks:
        about = facts(task)
        key = (task.run.model, task.task, about.get("from"), about.get("by"), str(about.get("signature")))
        other = newest.get(key)
        if other is not None:
            old = min(other, task, key=lambda one: one.run.stamp)
            found.left_out.append((f"{old.run.model}, {old.task}, {old.run.stamp}", OLDER))
            task = max(other, task, key=lambda one: one.run.stamp)
        newest[key] = task
    return list(newest.values())


def facts(task: RepeatedTask) -> Mapping[str, Any]:
    """Return what a results file says of its rewordings; nothing if it is missing."""
    about = task.run.content.get(REPHRASED)
    return about if isinstance(about, dict) else {}


def version_names(row: RepeatedRow) -> list[str]:
    """Return a name for each answer of a row: `original`, `v1`, `v2`, or `rules:` with the rule's name.

    Args:
        row: A question with its rewordings. A place for which there was no further rule has no name.
    """
    names = [ORIGINAL]
    told = row.rewordings or []
    for place in range(1, len(row.answers)):
        by = str(told[place].get("by")) if place < len(told) else ""
        if by.partition(":")[0] != BY_RULES:
            names.append(f"v{place}")
        elif row.answers[place] is None:
            names.append("")
        else:
            names.append(by if by != BY_RULES and by not in names else f"{BY_RULES}:{place}")
    return names


def counts(task: RepeatedTask) -> dict[str, Any]:
    """Return how many rewordings are there and missing, and how many texts were turned down, by reason.

    Equal answers to one question share their texts, which count once.

    Args:
        task: The task, whose rows may have been cut to the first rewordings.
    """
    accepted = missing = asked = 0
    rejected: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for row in task.rows:
        if not (row.answers and row.answers[0] and row.answers[0].strip()):
            continue
        there = sum(text is not None for text in row.answers[1:])
        accepted, missing = accepted + there, missing + len(row.answers) - 1 - there
        if (row.question, row.answers[0]) in seen:
            continue
        seen.add((row.question, row.answers[0]))
        for version in (row.rewordings or [])[1:]:
            attempts = version.get("attempts")
            asked += attempts if isinstance(attempts, int) else 0
            turned_down = version.get("rejected")
            for one in turned_down if isinstance(turned_down, list) else []:
                rejected[str(one[0] if isinstance(one, list) and one else one)] += 1
    return {
        "accepted": accepted, "missing": missing, "asked": asked,
        "rejected_by_reason": dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0]))),
    }  # fmt: skip
