"""One task of one run: found below a path, and what its results file says of how it was run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lm_eval_healthcare.results.discovery import RunFiles, find
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.results_file import SECTION, ResultsError, task_metadata

_PROTOCOL = {
    "versions": "version of the task", "n-shot": "number of few-shot examples", "chat_template_sha": "chat template",
    "system_instruction_sha": "system instruction",
}  # fmt: skip


@dataclass(frozen=True)
class TaskRun:
    """One task of one run.

    Attributes:
        run: Its files.
        task: The task.
        notes: What to know of how it was chosen.
    """

    run: RunFiles
    task: str
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """The sample file."""
        return self.run.samples[self.task]

    @property
    def hidden_note(self) -> str:
        """What to say where a run of credentialed data did not log its documents."""
        return (
            f"{printable(self.task)}: the documents of this credentialed data set are not in the log (keep_text=yes in "
            "the run keeps them)"
        )


def choose_run(path: Path, task: str | None) -> TaskRun:
    """Return the run below a path that has samples of a task: the newest complete one, if one model has several.

    Args:
        path: A folder, a results file or a sample file.
        task: The task; None if there is only one.

    Raises:
        ResultsError: If there is none, several tasks to choose from, or several models.
    """
    found = find([path])
    tasks = sorted({name for run in found.runs for name in run.samples})
    if not tasks:
        why = f" ({'; '.join(found.faults)})" if found.faults else ""
        raise ResultsError(f"{printable(path)}: no samples_*.jsonl there; run with --log_samples{why}")
    if task is None and len(tasks) > 1:
        raise ResultsError(
            f"{printable(path)}: name one task with --task; there are {', '.join(map(printable, tasks))}"
        )
    task = task or tasks[0]
    runs = [run for run in found.runs if task in run.samples]
    if not runs:
        raise ResultsError(
            f"{printable(path)}: no samples of {printable(task)}; there are {', '.join(map(printable, tasks))}"
        )
    models = sorted({run.model for run in runs})
    if len(models) > 1:
        names = ", ".join(map(printable, models))
        raise ResultsError(
            f"{printable(path)}: {printable(task)} was run with several models there ({names}); name the folder or the "
            "sample file of one"
        )
    chosen = max(runs, key=lambda run: (not _partial(run, task), run.stamp))
    notes = list(found.faults)
    if len(runs) > 1:
        notes.append(
            f"{printable(path)}: {len(runs)} runs of {printable(task)}; {chosen.stamp} is taken, the newest (of the "
            "complete ones, if there are any)"
        )
    return TaskRun(chosen, task, tuple(notes))


def _partial(run: RunFiles, task: str) -> bool:
    counts = (run.content.get("n-samples") or {}).get(task)
    effective, original = (counts.get(key) if isinstance(counts, dict) else None for key in ("effective", "original"))
    return isinstance(effective, int | float) and isinstance(original, int | float) and effective < original


def protocol_notes(a: TaskRun, b: TaskRun) -> list[str]:
    """Say in what the two runs of one task differ besides the model, so that a difference may not be the model's."""
    if a.task != b.task or not a.run.content or not b.run.content:
        return []
    notes = []
    for key, name in _PROTOCOL.items():
        found = []
        for one in (a, b):
            value = one.run.content.get(key)
            found.append(value.get(one.task) if isinstance(value, dict) else value)
        if found[0] != found[1]:
            shown = "" if key.endswith("_sha") else f": {printable(found[0])} in A, {printable(found[1])} in B"
            notes.append(f"the {name} differs{shown}")
    return notes


def signatures(of: TaskRun) -> Mapping[str, str]:
    """Return the signatures of a task's metrics, as far as the results file has them."""
    section = task_metadata(of.run.content, of.task).get(SECTION)
    found = section.get("signatures") if isinstance(section, dict) else None
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def directions(of: TaskRun) -> Mapping[str, bool]:
    """Return which metrics of a task are better when higher, as far as the results file says so."""
    found = (of.run.content.get("higher_is_better") or {}).get(of.task)
    found = found if isinstance(found, dict) else {}
    return {str(name): value for name, value in found.items() if isinstance(value, bool)}
