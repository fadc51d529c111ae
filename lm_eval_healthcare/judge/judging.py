"""Judging the saved answers of runs: each judge is loaded once, sees all answers, and is gone before the next.

What judges say is in the store at once, so that a command which was killed goes on where it stopped. Results are
written when all judges have seen all answers.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.judge.agreement import agreement
from lm_eval_healthcare.judge.judged_results import TaskResult
from lm_eval_healthcare.judge.outcome import Judge, JudgedTask, verdict_of, without_texts
from lm_eval_healthcare.judge.prompt import PACK, wording
from lm_eval_healthcare.judge.session import Session
from lm_eval_healthcare.results.derived import derived_content
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.texts import NoText
from lm_eval_healthcare.results.writing import RunWriter, Written, place_of, refuse_unwritable

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.agreement import Agreement
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.judge.fit import Fitted
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.prompt import Wording
    from lm_eval_healthcare.judge.reasons import Reason
    from lm_eval_healthcare.judge.saved import SavedTask, TaskAnswers
    from lm_eval_healthcare.judge.session import Judged
    from lm_eval_healthcare.judge.store import VerdictStore

logger = logging.getLogger(__name__)

Advance = Callable[[str, int], None]
"""Called with the name of a task and the number of verdicts that were settled."""


@dataclass
class Forecast:
    """What one judge is about to be asked.

    Attributes:
        judge: Its name.
        answers: Number of answers.
        known: Verdicts that the store has.
        to_ask: Verdicts that have to be asked for.
        settled: Answers that need no judge: blank ones, and those without a reference.
        cut: Answers whose end is not shown.
        too_long: Answers that do not fit at all.
    """

    judge: str
    answers: int = 0
    known: int = 0
    to_ask: int = 0
    settled: int = 0
    cut: int = 0
    too_long: int = 0

    def line(self) -> str:
        """Say it in a line."""
        parts = [f"{self.judge}: {self.answers:,} answers, {self.to_ask:,} verdicts to ask for"]
        for n, text in (
            (self.known, "known from before"),
            (self.settled, "settled without asking (blank answer or reference)"),
            (self.cut, "longer than the judge's context and cut"),
            (self.too_long, "too long for the judge and left out"),
        ):
            parts += [f"{n:,} {text}"] if n else []
        return ", ".join(parts)


@dataclass
class Judging:
    """Judges the answers of tasks.

    Attributes:
        tasks: What is judged.
        options: The judges and how they are asked.
        store: Where their texts are kept.
        output: Where results go, as the harness's `--output_path`; None: beside those of the runs.
        keep_private: Whether texts about credentialed data stay in results and store.
        faults: Files that turned out to be of no use.
        left_out: Tasks that turned out to have nothing to judge, by reason.
        tokens: Tokens of all prompts and texts, as far as they are known.
        asked: Texts that judges wrote.
    """

    tasks: Sequence[SavedTask]
    options: JudgeOptions
    store: VerdictStore
    output: Path | None = None
    keep_private: bool = False
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tokens: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    def __post_init__(self) -> None:
        """Refuse a folder that cannot be written.

        Raises:
            ResultsError: If there is one.
        """
        self._judges: list[Judge] = []
        self._judged: dict[int, list[list[Judged]]] = defaultdict(list)  # of each task, by judge
        self._details: dict[int, dict[Reason, str]] = defaultdict(dict)
        self._signatures: list[str] = []
        self._remarked: set[str] = set()
        for folder, _ in dict.fromkeys(place_of(task.run, self.output) for task in self.tasks):
            refuse_unwritable(folder)

    @property
    def judges(self) -> list[Judge]:
        """The judges that have been asked."""
        return list(self._judges)

    def ask(self, forecast: Callable[[Forecast], None], advance: Advance) -> None:
        """Let every judge see every answer.

        Args:
            forecast: Told what a judge is about to be asked, before it is.
            advance: Told of progress.

        Raises:
            JudgeError: If a judge cannot be used, or has gone.
        """
        models: Sequence[str | None] = self.options.models or (None,)
        words = {model: wording(self.options.wording, model or "") for model in models}
        for model in models if len(models) > 1 else ():
            self.options.open(model).check()
        for model, own_words in words.items():
            with self.options.open(model) as backend:
                if own_words.name == PACK:  # a server may know more of the judge than its name
                    own_words = wording(self.options.wording, backend.identity)
                self._ask_one(backend, own_words, forecast, advance)

    def _ask_one(
        self, backend: Backend, words: Wording, forecast: Callable[[Forecast], None], advance: Advance
    ) -> None:
        settings = self.options.settings
        label = f"judge{len(self._judges) + 1}"
        about = Forecast(backend.identity)
        fits: dict[int, list[Fitted | None]] = {}
        for task, answers in self._read_all():
            prepared = self._session(backend, words, task).prepare(answers.cases())
            fits[id(task)] = prepared.fits
            about.answers += len(answers.rows)
            about.known, about.to_ask = about.known + prepared.known, about.to_ask + prepared.to_ask
            about.cut, about.too_long = about.cut + prepared.cut, about.too_long + prepared.too_long
            about.settled += sum(fitted is None for fitted in prepared.fits)
        forecast(about)
        for task, answers in self._read_all():
            session = self._session(backend, words, task)
            prepared = session.prepare(answers.cases(), fits[id(task)])
            name = task.task
            self._judged[id(task)].append(session.judge(prepared, lambda n, name=name: advance(name, n)))  # type: ignore[misc]
            self._details[id(task)] |= session.details
            self.tokens += session.tokens
            self.asked += session.asked
        self._signatures.append(settings.reply_signature(backend.identity))
        facts = {**backend.facts, "wording": f"{words.name}@{words.digest}", "preset": settings.preset}
        self._judges.append(Judge(backend.identity, label, facts, f"{words.name}@{words.digest}"))

    def _session(self, backend: Backend, words: Wording, task: SavedTask) -> Session:
        keep = self.keep_private or not task.credentialed
        return Session(backend, words, self.options.settings, self.store, keep_text=keep)

    def _read_all(self) -> Iterator[tuple[SavedTask, TaskAnswers]]:
        """Read the texts of one task after the other; what is wrong with them costs that task."""
        for task in self.tasks:
            try:
                answers = task.read()
            except NoText as error:
                if not self._judges:
                    self.left_out[str(error)][task.task] += 1
                self.tasks = [one for one in self.tasks if one is not task]
                continue
            except ResultsError as error:
                self.faults.append(str(error))
                self.tasks = [one for one in self.tasks if one is not task]
                continue
            for remark in answers.remarks:
                if remark not in self._remarked:
                    logger.warning(remark)
                self._remarked.add(remark)
            yield task, answers

    def write(self) -> Iterator[tuple[list[TaskResult], Written]]:
        """Write what came of it, run by run; yield its tasks and the files.

        Raises:
            lm_eval_healthcare.results.writing.NotWritten: If a file cannot be written.
        """
        started = time.time()
        by_run: dict[int, list[SavedTask]] = defaultdict(list)
        for task in self.tasks:
            by_run[id(task.run)].append(task)
        for tasks in by_run.values():
            run = tasks[0].run
            writer, results = RunWriter(*place_of(run, self.output)), []
            try:
                for task in tasks:
                    result = self._result(task)
                    writer.add(task.task, result.rows(self._verdicts(task)))
                    results.append(result)
                parts: Mapping[str, Any] = {result.task.saved.task: result for result in results}
                yield (
                    results,
                    writer.publish(
                        lambda hashes, run=run, parts=parts: derived_content(run, parts, hashes, started)  # type: ignore[misc]
                    ),
                )
            finally:
                writer.discard()

    def agreement(self) -> Agreement | None:
        """Return how far several judges agree on all answers; None if there is one judge."""
        if len(self._judges) < 2:
            return None
        # What is settled without asking, each judge settles in the same way: no agreement, but a rule.
        columns = [
            [one.score if one.asked else math.nan for task in self.tasks for one in self._judged[id(task)][n]]
            for n in range(len(self._judges))
        ]
        return agreement(
            columns, [judge.label for judge in self._judges], np.random.default_rng(self.options.settings.seed)
        )

    def answer_of(self, document: int) -> str:
        """Name the answer that stands at a place of all answers, as `agreement` counts them."""
        for task in self.tasks:
            n = len(self._judged[id(task)][0])
            if document < n:
                return f"{task.run.model}, {task.task}, row {document + 1}"
            document -= n
        raise IndexError(document)

    def _result(self, task: SavedTask) -> TaskResult:
        answers = task.read()
        rows, judged = answers.rows, self._judged[id(task)]
        if any(len(one) != len(rows) for one in judged):
            raise ResultsError(f"{task.path}: the file has changed while it was judged; give the same command again")
        outcomes = {}
        texts = answers.answers
        settings, rubric = self.options.settings, f"{task.rubric.name}@{task.rubric.digest}"
        told = self._details[id(task)]
        details = told if self.keep_private or not task.credentialed else without_texts(told)
        judges = [
            Judge(one.model, one.label, one.facts, settings.signature(one.model, one.signature, rubric))
            for one in self._judges
        ]
        for name in dict.fromkeys(row.filter for row in rows):
            places = [place for place, row in enumerate(rows) if row.filter == name]
            outcomes[name] = JudgedTask(
                judges,
                [[one[place] for place in places] for one in judged],
                [texts[place] for place in places],
                task.rubric,
                settings.failure_limit,
                details,
                name,
            )
        return TaskResult.of(answers, outcomes)

    def _verdicts(self, task: SavedTask) -> Callable[[Sequence[int]], dict[int, list[dict[str, Any]]]]:
        """Return a function that fetches what the judges wrote about some rows."""
        settings, keep = self.options.settings, self.keep_private or not task.credentialed

        def fetch(places: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
            found: dict[int, list[dict[str, Any]]] = defaultdict(list)
            for judge, signature, judged in zip(self._judges, self._signatures, self._judged[id(task)], strict=True):
                by_key = defaultdict(list)
                for place in places:
                    if (key := judged[place].key) is not None:
                        by_key[key].append(place)
                for stored in self.store.texts(signature, by_key):
                    if stored.sample < settings.samples and stored.attempt < settings.tries:
                        for place in by_key[stored.key]:
                            found[place].append(verdict_of(judge, stored, keep))
            return found

        return fetch
