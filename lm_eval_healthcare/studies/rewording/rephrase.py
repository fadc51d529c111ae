"""Rewording the saved answers of runs, by a model or by rules."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval_healthcare.judge.saved import NO_TEXT, SavedTask, plan
from lm_eval_healthcare.metrics import is_blank
from lm_eval_healthcare.results.questions import question_reader
from lm_eval_healthcare.results.reasoning import without_reasoning
from lm_eval_healthcare.results.results_file import ResultsError, task_config, task_metadata, values_by_filter
from lm_eval_healthcare.results.samples_file import SampleFile
from lm_eval_healthcare.results.texts import NoText, TextRow, read_texts
from lm_eval_healthcare.results.writing import RunWriter, place_of, refuse_unwritable
from lm_eval_healthcare.studies.rewording import results as reworded_results
from lm_eval_healthcare.studies.rewording.outcome import BLANK, CHANGES_NOTHING, NO_MORE_RULES, RULES, Passage, Version
from lm_eval_healthcare.studies.rewording.results import RewordedTask, is_reworded
from lm_eval_healthcare.studies.rewording.settings import RephraseError

if TYPE_CHECKING:
    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.judge.rubric import Rubric
    from lm_eval_healthcare.judge.saved import Plan
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.studies.rewording.session import RewordingSession

logger = logging.getLogger(__name__)

ALREADY = "they are rewordings already"
_NO_TEXT = "their answers are choices or classes, which cannot be reworded"
Facts = Callable[[str, Mapping[str, Any]], "TaskFacts | None"]


class Rewriter(Protocol):
    """Who rewords: a session with a model, or the rules.

    Attributes:
        by: The model's identity, or `rules`.
        signature: What the rewordings depend on.
    """

    @property
    def by(self) -> str: ...  # noqa: D102
    @property
    def signature(self) -> str: ...  # noqa: D102
    def versions(self, passages: Sequence[Passage]) -> Iterator[tuple[bytes | None, list[Version]]]: ...  # noqa: D102


@dataclass(frozen=True)
class RulesRewriter:
    """Rewords by rules alone.

    Attributes:
        n: Most rewordings of each answer.
    """

    n: int
    by = RULES

    @property
    def signature(self) -> str:
        """What the rewordings depend on."""
        from lm_eval_healthcare.studies.rewording.rules import RULES as NAMES

        return f"rephrase|rules:{'+'.join(NAMES)}|n:{self.n}|version:1"

    def versions(self, passages: Sequence[Passage]) -> Iterator[tuple[bytes | None, list[Version]]]:
        """Yield the rewordings of each answer, in order."""
        from lm_eval_healthcare.judge.language import language_of
        from lm_eval_healthcare.studies.rewording.rules import reword

        for passage in passages:
            if is_blank(passage.answer):
                yield None, [Version(n, self.by, None, reason=BLANK) for n in range(1, self.n + 1)]
                continue
            answer = passage.answer or ""
            made = reword(answer, self.n, passage.spoken or language_of(answer).code or "en")[: self.n]
            versions = [
                Version(n, f"{RULES}:{one.rule}", one.text, reason=CHANGES_NOTHING if one.text is None else None)
                for n, one in enumerate(made, 1)
            ]
            left = range(len(made) + 1, self.n + 1)
            yield None, [*versions, *(Version(n, self.by, None, reason=NO_MORE_RULES) for n in left)]


@dataclass
class Forecast:
    """What a model is about to be asked.

    Attributes:
        by: Its name.
        answers: Number of answers.
        distinct: Different ones that can be reworded.
        known: Texts that the store has.
        to_ask: Texts that have to be asked for; more if some are turned down.
        blank: Answers without words.
        too_long: Answers that do not fit.
    """

    by: str
    answers: int = 0
    distinct: int = 0
    known: int = 0
    to_ask: int = 0
    blank: int = 0
    too_long: int = 0

    def line(self) -> str:
        """Say it in a line."""
        parts = [f"{self.by}: {self.answers:,} answers"]
        parts += [f"{self.distinct:,} different ones"] if self.distinct < self.answers else []
        parts.append(f"{self.to_ask:,} rewordings to ask for")
        for n, text in (
            (self.known, "texts known from before"),
            (self.blank, "blank answers, which are not reworded"),
            (self.too_long, "too long for the model and left out"),
        ):
            parts += [f"{n:,} {text}"] if n else []
        return ", ".join(parts)


@dataclass
class WrittenRun:
    """What came of one run.

    Attributes:
        run: The run.
        tasks: Its tasks.
        results: The results file; None if there was nothing to write.
        new: Whether it was written now.
    """

    run: RunFiles
    tasks: list[RewordedTask]
    results: Path | None
    new: bool


def plan_rewording(
    runs: Sequence[RunFiles],
    where: Mapping[str, Sequence[str]],
    facts_of: Facts,
    is_open_ended: Callable[[str, Mapping[str, Any]], bool],
    rubric_of: Callable[[str, str], Rubric],
) -> Plan:
    """Say which tasks of runs are reworded; rewordings are not reworded again.

    The arguments are those of `judge.saved.plan`.
    """
    own = [run for run in runs if not is_reworded(run.content)]
    planned = plan(own, where, facts_of, is_open_ended, rubric_of)
    if NO_TEXT in planned.left_out:
        planned.left_out[_NO_TEXT] = planned.left_out.pop(NO_TEXT)
    for run in runs:
        if is_reworded(run.content):
            planned.left_out.setdefault(ALREADY, Counter()).update(list(run.samples))
    return planned


def refuse_private(tasks: Sequence[SavedTask], keep_text: bool) -> None:
    """Refuse credentialed data unless the user says that its texts may be kept.

    Raises:
        RephraseError: If there is such a task, since a rewording of its texts is one more copy of them.
    """
    private = sorted({task.task for task in tasks if task.credentialed})
    if private and not keep_text:
        raise RephraseError(
            f"{', '.join(private)}: answers about credentialed data would be written, reworded, into the results and "
            "the cache of rewordings. Leave these tasks out (--where task=...), or give --keep-text if both lie where "
            "your agreement for the data allows its texts"
        )


@dataclass
class Rephrasing:
    """Rewords the answers of tasks.

    Attributes:
        tasks: What is reworded.
        facts_of: Returns what is known of a task.
        output: Where results go, as the harness's `--output_path`.
        faults: Files that turned out to be of no use.
        left_out: Tasks that turned out to have nothing to reword, by reason.
    """

    tasks: Sequence[SavedTask]
    facts_of: Facts
    output: Path
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        """Begin without remarks."""
        self._remarked: set[str] = set()

    def refuse_unwritable(self) -> None:
        """Refuse a folder that cannot be written, before anything is asked.

        Raises:
            ResultsError: If there is one.
        """
        for folder, _ in dict.fromkeys(place_of(task.run, self.output) for task in self.tasks):
            refuse_unwritable(folder)

    def forecast(self, session: RewordingSession, looked: Callable[[int], None] = lambda n: None) -> Forecast:
        """Say what a model is about to be asked.

        Args:
            session: The model.
            looked: Called with numbers of answers whose known texts were checked.
        """
        about, distinct = Forecast(session.by), set[bytes]()
        for task, rows, passages in self._read_all():
            prepared = session.prepare(passages, looked)
            new = prepared.distinct - distinct
            distinct |= new
            about.answers += len(rows)
            about.blank, about.too_long = about.blank + prepared.blank, about.too_long + prepared.too_long
            about.to_ask += sum(len(one.to_ask) for key, one in prepared.open.items() if key in new)
            about.known += prepared.known
            logger.debug("%s: %d answers", task.task, len(rows))
        about.distinct = len(distinct)
        return about

    def ask(self, session: RewordingSession, advance: Callable[[str, int, int], None]) -> None:
        """Ask a model for everything that is missing.

        Args:
            session: The model.
            advance: Called with a task's name, the number of texts that came, and of those wanted in addition.

        Raises:
            JudgeError: If the model has gone.
        """
        for task, _, passages in self._read_all():
            name = task.task
            session.ask(session.prepare(passages), lambda done, more, name=name: advance(name, done, more))  # type: ignore[misc]

    def write(self, rewriter: Rewriter, about: Mapping[str, Any]) -> Iterator[WrittenRun]:
        """Write what came of it, run by run.

        Nothing is written for a run without a text, nor if the newest file there says the same.

        Args:
            rewriter: Who reworded.
            about: What results say of how, beside `by` and `signature`.

        Raises:
            lm_eval_healthcare.results.writing.NotWritten: If a file cannot be written.
        """
        started = time.time()
        about = {"by": rewriter.by, **about, "signature": rewriter.signature}
        by_run: dict[int, list[SavedTask]] = defaultdict(list)
        for task in self.tasks:
            by_run[id(task.run)].append(task)
        for tasks in by_run.values():
            run, done = tasks[0].run, list[RewordedTask]()
            folder, prefix = place_of(run, self.output)
            writer = RunWriter(folder, prefix)
            try:
                for saved, rows, passages in self._read_all(tasks):
                    reworded = RewordedTask(saved, rows, passages)
                    writer.add(saved.task, reworded.lines(rewriter.versions))
                    done.append(reworded.without_texts())
                old = reworded_results.already_there(folder, run, done, about)
                drawn = any(task.counts.asked or task.counts.accepted for task in done)
                new = old is None and drawn
                if new:
                    old = writer.publish(
                        lambda hashes, run=run, done=done: reworded_results.content(run, done, about, hashes, started)  # type: ignore[misc]
                    ).results
                yield WrittenRun(run, done, old, new)
            finally:
                writer.discard()

    def _read_all(
        self, tasks: Sequence[SavedTask] | None = None
    ) -> Iterator[tuple[SavedTask, list[TextRow], list[Passage]]]:
        """Read the answers of one task after the other; what is wrong with them costs that task."""
        for task in list(self.tasks if tasks is None else tasks):
            try:
                rows, passages, remarks = self._read(task)
            except (NoText, ResultsError) as error:
                if isinstance(error, NoText):
                    self.left_out[str(error)][task.task] += 1
                else:
                    self.faults.append(str(error))
                self.tasks = [one for one in self.tasks if one is not task]
                continue
            for remark in remarks:
                if remark not in self._remarked:
                    logger.warning(remark)
                self._remarked.add(remark)
            yield task, rows, passages

    def _read(self, saved: SavedTask) -> tuple[list[TextRow], list[Passage], list[str]]:
        content = saved.run.content
        config = task_config(content, saved.task)
        target = config.get("doc_to_target")
        read = read_texts(
            saved.path, config.get("output_type"), target if isinstance(target, str) else None,
            recorded=values_by_filter(content, saved.task),
        )  # fmt: skip
        question = question_reader(config)
        facts = self.facts_of(saved.task, task_metadata(content, saved.task))
        language = facts.languages[0] if facts is not None and len(facts.languages) == 1 else None
        passages = [
            Passage(
                None if row.prediction is None else without_reasoning(row.prediction).text, question(full), language
            )
            for row, full in zip(read.rows, SampleFile(saved.path), strict=False)
        ]
        remarks = [read.cut] if read.cut else []
        if read.repeats > 1:
            remarks.append(f"{saved.path.name}: the first of {read.repeats} answers to each question is reworded")
        return read.rows, passages, remarks
