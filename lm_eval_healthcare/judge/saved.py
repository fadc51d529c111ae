"""Which saved answers are judged, and reading them: question, answer without reasoning, references."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.judge.cases import Case, Graded
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.near import is_loopback
from lm_eval_healthcare.results.discovery import RunFiles
from lm_eval_healthcare.results.questions import question_reader
from lm_eval_healthcare.results.reasoning import without_reasoning
from lm_eval_healthcare.results.results_file import (
    REPHRASED,
    ResultsError,
    task_config,
    task_metadata,
    values_by_filter,
)
from lm_eval_healthcare.results.samples_file import SampleFile
from lm_eval_healthcare.results.texts import NoText, TextRow, look_into, read_texts

if TYPE_CHECKING:
    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.judge.rubric import Rubric

REWORDINGS = "they hold rewordings of one answer; `lm-eval-healthcare resilience` lets a judge see each"
NO_SAMPLES = "their samples were not logged; a run logs them with --log_samples"
NO_TEXT = "their answers are choices or classes, which need no judge"
OVERRIDE = "--send-credentialed-texts-to-a-remote-judge"


@dataclass
class SavedTask:
    """One task of one run.

    Attributes:
        run: The files of the run.
        task: The task's name.
        path: Its sample file.
        rubric: What its answers are graded by.
        credentialed: Whether its texts may not leave the machine.
    """

    run: RunFiles
    task: str
    path: Path
    rubric: Rubric
    credentialed: bool = False

    def read(self) -> TaskAnswers:
        """Read the texts.

        Raises:
            NoText: If there is nothing to judge.
            ResultsError: If the file cannot be read.
        """
        config = task_config(self.run.content, self.task)
        target = config.get("doc_to_target")
        column = target if isinstance(target, str) else None
        read = read_texts(
            self.path, config.get("output_type"), column, recorded=values_by_filter(self.run.content, self.task)
        )
        question = question_reader(config)
        questions = [question(row) for _, row in zip(read.rows, SampleFile(self.path), strict=False)]
        remarks = [read.cut] if read.cut else []
        if read.repeats > 1:
            remarks.append(
                f"{self.path.name}: the first of {read.repeats} answers to each question is judged; "
                "`lm-eval-healthcare consistency` lets a judge see all"
            )
        return TaskAnswers(self, read.rows, questions, remarks)


@dataclass
class TaskAnswers:
    """The texts of a task.

    Attributes:
        saved: The task.
        rows: Its rows, in the order of the file.
        questions: What was asked, row by row.
        remarks: What a user should know.
    """

    saved: SavedTask
    rows: list[TextRow]
    questions: list[str]
    remarks: list[str] = field(default_factory=list)

    @property
    def answers(self) -> list[str | None]:
        """The answers without reasoning, row by row."""
        return [None if row.prediction is None else without_reasoning(row.prediction).text for row in self.rows]

    def cases(self) -> list[Case]:
        """Return what the judge is asked, row by row."""
        return [
            Graded(question, answer, _several(row.references), self.saved.rubric)
            for question, answer, row in zip(self.questions, self.answers, self.rows, strict=True)
        ]


@dataclass
class Plan:
    """What is judged, and what is not.

    Attributes:
        tasks: What is judged.
        left_out: Tasks that have nothing to judge, by reason, each with the number of its runs.
        faults: Files that cannot be used, each with the reason.
        unmatched: How many tasks the patterns leave alone.
    """

    tasks: list[SavedTask] = field(default_factory=list)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    unmatched: int = 0


def plan(
    runs: Sequence[RunFiles],
    where: Mapping[str, Sequence[str]],
    facts_of: Callable[[str, Mapping[str, Any]], TaskFacts | None],
    is_open_ended: Callable[[str, Mapping[str, Any]], bool],
    rubric_of: Callable[[str, str], Rubric],
) -> Plan:
    """Look into the sample files of runs.

    Args:
        runs: The runs.
        where: Patterns by `model` and `task`; what matches none of a kind is left alone.
        facts_of: Returns what is known of a task by its name and its metadata in the results.
        is_open_ended: Says of the same whether its answers are texts that a judge can grade.
        rubric_of: Returns the rubric of a task in a language.
    """
    planned = Plan()
    for run in runs:
        if not run.samples and run.results is not None:
            planned.left_out.setdefault(NO_SAMPLES, Counter()).update(_text_tasks(run))
        for task, path in run.samples.items():
            if not takes(where, {run.model, run.model_folder}, task):
                planned.unmatched += 1
                continue
            if REPHRASED in run.content:
                planned.left_out.setdefault(REWORDINGS, Counter())[task] += 1
                continue
            config, metadata = task_config(run.content, task), task_metadata(run.content, task)
            target = config.get("doc_to_target")
            if not is_open_ended(task, metadata):
                planned.left_out.setdefault(NO_TEXT, Counter())[task] += 1
                continue
            try:
                look_into(path, config.get("output_type"), target if isinstance(target, str) else None)
            except NoText as error:
                planned.left_out.setdefault(str(error), Counter())[task] += 1
                continue
            except ResultsError as error:
                planned.faults.append(str(error))
                continue
            facts = facts_of(task, metadata)
            language = facts.languages[0] if facts is not None and facts.languages else "en"
            credentialed = facts is not None and facts.credentialed
            planned.tasks.append(SavedTask(run, task, path, rubric_of(task, language), credentialed))
    return planned


def takes(where: Mapping[str, Sequence[str]], models: Iterable[str], task: str) -> bool:
    """Say whether a task of a model, known by several names, is asked for."""
    names = {"model": list(models), "task": [task]}
    return all(
        any(fnmatch.fnmatchcase(name, pattern) for name in names[kind] for pattern in patterns)
        for kind, patterns in where.items()
    )


def refuse_to_send(tasks: Iterable[SavedTask], base_url: str | None, allowed: bool) -> None:
    """Refuse to send texts of credentialed data to a judge that is not on this machine.

    Raises:
        JudgeError: If that would happen and was not allowed.
    """
    private = sorted({task.task for task in tasks if task.credentialed})
    if private and base_url is not None and not allowed and not is_loopback(base_url):
        raise JudgeError(
            f"{', '.join(private)}: texts of credentialed data may not leave this machine, and the judge's server is "
            f"not on it. Use a judge here, leave the tasks out (--where), or, if your agreement for the data allows "
            f"it, give {OVERRIDE}"
        )


def _several(texts: str | list[str] | None) -> list[str]:
    return [] if texts is None else [texts] if isinstance(texts, str) else texts


def _text_tasks(run: RunFiles) -> list[str]:
    results = run.content.get("results")
    return [
        task
        for task in (results if isinstance(results, dict) else {})
        if task_config(run.content, task).get("output_type") == "generate_until"
    ]
