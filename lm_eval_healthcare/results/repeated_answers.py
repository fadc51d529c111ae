"""Reading sample files with several answers to each question: a model that was asked again, or rewordings of an answer.

In every shape: the pack's repeated tasks and `rephrase` keep all answers after the filter; the harness's own `repeats`
scores the first and keeps the others among the raw replies only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.answer_flags import Flag, flags_of, sampled
from lm_eval_healthcare.results.discovery import RunFiles
from lm_eval_healthcare.results.questions import question_reader
from lm_eval_healthcare.results.reasoning import without_reasoning
from lm_eval_healthcare.results.results_file import REPHRASED, SECTION, task_config, task_metadata, values_by_filter
from lm_eval_healthcare.results.samples_file import SampleFile, arguments, document_hash
from lm_eval_healthcare.results.texts import NO_FILTER, TextRow, read_texts

PER_ANSWER = "_per_answer"
"""What stands behind a metric's name where the log has one value for each answer to a question."""
REWORDINGS = "rewordings"
"""The key of a row that says where each of its answers comes from, if they are versions of one."""


@dataclass(slots=True)
class RepeatedRow:
    """One question with its answers.

    Attributes:
        doc_id: The number that the harness gave the document.
        document: The hash of the document.
        question: What was asked.
        answers: The answers, reasoning taken out, in their order; None where there is none, such as a rewording that
            was never accepted.
        references: What they are compared with, or None.
        logged: Scores of single answers by metric, as far as the run logged them: as many as there are answers, NaN
            where one is missing.
        settings: The arguments of generation that went with the request.
        rewordings: Where each answer comes from, if they are rewordings.
    """

    doc_id: Any
    document: str
    question: str
    answers: list[str | None]
    references: str | list[str] | None
    logged: dict[str, list[float]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rewordings: list[dict[str, Any]] | None = None

    @property
    def sampled(self) -> bool | None:
        """Whether the answers were drawn at random; None if the settings do not say."""
        return sampled(self.settings)


@dataclass
class RepeatedTask:
    """One task of one run.

    Attributes:
        run: The files of the run.
        task: The task's name.
        path: Its sample file.
        filter: The filter after which the answers are read.
        rows: One for each question, in the order of the file.
        declared: The number of answers that the task says.
        flags: What is to be known of the answers.
        cut: What was skipped of the file, or None.
    """

    run: RunFiles
    task: str
    path: Path
    filter: str
    rows: list[RepeatedRow]
    declared: int | None = None
    flags: list[Flag] = field(default_factory=list)
    cut: str | None = None

    @property
    def repeats(self) -> int:
        """The largest number of answers to a question."""
        return max((len(row.answers) for row in self.rows), default=0)

    @property
    def logged(self) -> list[str]:
        """The metrics of which scores of single answers were logged, for any question."""
        return list(dict.fromkeys(name for row in self.rows for name in row.logged))

    @property
    def signatures(self) -> dict[str, str]:
        """The signatures of metrics, as far as the results file has them."""
        section = task_metadata(self.run.content, self.task).get(SECTION)
        found = section.get("signatures") if isinstance(section, dict) else None
        return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}

    @property
    def is_reworded(self) -> bool:
        """Whether the answers are rewordings of one."""
        return REPHRASED in self.run.content or any(row.rewordings is not None for row in self.rows)


def read_repeated(run: RunFiles, task: str, path: Path, known: dict[str, str] | None = None) -> RepeatedTask:
    """Read a sample file.

    If it holds several filters, one is taken that keeps all answers, else the first, with the raw replies.

    Args:
        run: The files of the run.
        task: The task's name.
        path: Its sample file.
        known: References of other files, and of this one from now on, so that equal ones are in memory once.

    Raises:
        lm_eval_healthcare.results.texts.NoText: If there is no text: choices, texts that are not logged, no targets.
        ResultsError: If the file cannot be read, or holds several runs.
    """
    config = task_config(run.content, task)
    target = config.get("doc_to_target")
    texts = read_texts(
        path,
        config.get("output_type"),
        target if isinstance(target, str) else None,
        recorded=values_by_filter(run.content, task),
        known=known,
    )
    question = question_reader(config)
    read: dict[str, _Filtered] = {}
    for text, row in zip(texts.rows, SampleFile(path), strict=False):
        read.setdefault(text.filter, _Filtered()).add(text, row, question(row))
    name, chosen = max(read.items(), key=lambda item: (item[1].complete, item[1].logged, item[0] == NO_FILTER))
    found = RepeatedTask(run, task, path, name, chosen.rows, _whole(config.get("repeats")), cut=texts.cut)
    if not found.is_reworded:
        found.flags = flags_of(
            [row.answers for row in chosen.rows],
            [row.settings for row in chosen.rows],
            declared=found.declared,
            wanted=_wanted(run.content, config),
            raw=(name, chosen.raw),
            cut_logs=chosen.cut_logs,
        )
    return found


@dataclass
class _Filtered:
    """The rows of one filter.

    Attributes:
        rows: The rows.
        complete: Whether the filter kept all answers to each question.
        logged: Whether there are scores of single answers.
        raw: Rows whose raw replies are read although the filter changed the first of them.
        cut_logs: Rows in which the number of scores is not that of answers.
    """

    rows: list[RepeatedRow] = field(default_factory=list)
    complete: bool = True
    logged: bool = False
    raw: int = 0
    cut_logs: int = 0

    def add(self, text: TextRow, row: Mapping[str, Any], question: str) -> None:
        """Take a row."""
        filtered, replies = _texts(row.get("filtered_resps")), _texts(row.get("resps"))
        answers = filtered
        if len(replies) > len(filtered):
            answers, self.complete = replies, False
            self.raw += bool(filtered and filtered[0] != replies[0])
        kept = [None if one is None else without_reasoning(one).text for one in answers]
        logged = {
            key.removesuffix(PER_ANSWER): _numbers(values)
            for key, values in row.items()
            if key.endswith(PER_ANSWER) and len(key) > len(PER_ANSWER) and isinstance(values, list)
        }
        self.cut_logs += any(len(values) != len(kept) for values in logged.values())
        logged = {key: _of_length(values, len(kept)) for key, values in logged.items()}
        self.logged |= bool(logged)
        settings = next((one[1] for one in arguments(row) if len(one) > 1 and isinstance(one[1], dict)), {})
        versions = row.get(REWORDINGS)
        self.rows.append(
            RepeatedRow(
                text.doc_id, document_hash(row), question, kept, text.references, logged, settings,
                [one if isinstance(one, dict) else {} for one in versions] if isinstance(versions, list) else None,
            )
        )  # fmt: skip


def _texts(value: Any) -> list[str | None]:
    """Return the answers in `resps` or `filtered_resps`, where those to one request are a list of their own."""
    if not isinstance(value, list):
        return []
    flat = [one for part in value for one in (part if isinstance(part, list) else [part])]
    return [one if isinstance(one, str) else None for one in flat]


def _numbers(values: Iterable[Any]) -> list[float]:
    """Return values of a row as numbers: NaN for what is none, or not finite."""
    found = [float(one) if isinstance(one, int | float) and not isinstance(one, bool) else math.nan for one in values]
    return [one if math.isfinite(one) else math.nan for one in found]


def _of_length(values: list[float], length: int) -> list[float]:
    return [*values[:length], *[math.nan] * (length - len(values))]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _wanted(content: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of generation that the results file says: the task's, and the command's, which win."""
    run = content.get("config")
    found: dict[str, Any] = {}
    for given in (config.get("generation_kwargs"), run.get("gen_kwargs") if isinstance(run, dict) else None):
        if isinstance(given, str):  # as commands had it before they parsed it
            given = dict(part.partition("=")[::2] for part in given.split(",") if "=" in part)
        found.update(given if isinstance(given, dict) else {})
    return found
