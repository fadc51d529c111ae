"""Scoring every answer of questions that have several: by text metrics, and by judges.

Answers to one question come after each other, so that each reference is encoded once for all of them. What neural
metrics compute is in the score cache at once, and what judges say in the verdict store, so that a command that was
killed goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.scoring import saved_samples
from lm_eval_healthcare.scoring.documents import METRIC_ERROR, score_documents
from lm_eval_healthcare.scoring.model_pools import blocks

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.rubric import Rubric
    from lm_eval_healthcare.judge.store import VerdictStore
    from lm_eval_healthcare.results.repeated_answers import RepeatedTask
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks
    from lm_eval_healthcare.scoring.saved_samples import Wishes
    from lm_eval_healthcare.scoring.score_cache import ScoreCache

logger = logging.getLogger(__name__)

SIGNATURES_DIFFER = "signatures_differ"
"""The flag of a metric that was not computed in the same way for all runs of a study."""
Advance = Callable[[str, float], None]
"""Called with the name of a task and the number of answers that are scored; all metrics together count as one."""


@dataclass
class AnswerScores:
    """The scores of the answers of one task.

    Attributes:
        scores: For each metric a float64 array of shape (n questions, K answers); NaN where there is no score.
        signatures: What the scores of each metric depend on.
        reasons: Answers by reason, as `scoring.documents` counts them; of judges `<reason>:prometheus`.
        errors: The exception's text for each metric that failed.
    """

    scores: dict[str, np.ndarray] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)

    def update(self, other: AnswerScores) -> None:
        """Take over what another has."""
        self.scores |= other.scores
        self.signatures |= other.signatures
        self.reasons += other.reasons
        self.errors |= other.errors


@dataclass(frozen=True)
class Planned:
    """With what a task is scored.

    Attributes:
        names: Metrics.
        options: Their options, the languages of the texts among them.
        left_out: Metrics that are not computed, each with the reason.
    """

    names: tuple[str, ...]
    options: Mapping[str, Any]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def signatures(self) -> dict[str, str]:
        """The signatures of the metrics that do not depend on the whole set of texts."""
        names = [name for name in self.names if not metrics.AVAILABLE[name].needs_corpus]
        return {name: metrics.signature(name, **self.options) for name in names}


def plan_metrics(task: RepeatedTask, names: str, wishes: Wishes, known: KnownTasks) -> tuple[Planned, list[str]]:
    """Decide with what a task is scored, and make sure that it can be, before anything is.

    Options are those of the run unless others are given.

    Args:
        task: The task.
        names: Metrics and sets as `metrics.resolve` takes them.
        wishes: Options, and whether a metric that cannot be computed is left out.
        known: What is known of tasks.

    Returns:
        The plan, and remarks for the user.

    Raises:
        ResultsError: If a metric or an option is unknown, or a metric cannot be computed here.
        NoText: If text metrics do not score such answers.
    """
    from lm_eval_healthcare.results.texts import NoText

    run = dataclasses.replace(task.run, samples={task.task: task.path}, one_of_several=True)
    plan = saved_samples.plan([run], dataclasses.replace(wishes, metrics=names, where={}, rewordings=True), known)
    if not plan.tasks:
        if plan.left_out:
            raise NoText(next(iter(plan.left_out)))
        raise ResultsError("; ".join(plan.faults) or f"{task.path}: cannot be scored")
    (saved,) = plan.tasks
    return Planned(tuple(saved.names), saved.options, saved.left_out), plan.remarks


def score_answers(
    task: RepeatedTask,
    names: Sequence[str],
    options: Mapping[str, Any],
    cache: ScoreCache,
    advance: Advance = lambda *_: None,
    left_out: Mapping[str, str] | None = None,
) -> AnswerScores:
    """Score all answers of a task.

    An answer that is not there (None) has no score; one that is blank has each metric's score of a blank answer. Where
    the reference is missing or blank, no answer has a score.

    Args:
        task: The questions with their answers.
        names: Metrics by name.
        options: Options of the metrics, as `metrics.measure` takes them.
        cache: Where scores of neural metrics are looked up and kept.
        advance: Told of progress.
        left_out: Metrics that are not computed, each with the reason.

    Returns:
        Scores of shape (n questions, K answers), where K is the largest number of answers to a question.
    """
    cells = [
        (row, place) for row, one in enumerate(task.rows) for place, text in enumerate(one.answers) if text is not None
    ]
    predictions = [task.rows[row].answers[place] for row, place in cells]
    references = [task.rows[row].references or "" for row, _ in cells]
    found = AnswerScores({name: np.full((len(task.rows), task.repeats), np.nan) for name in names})
    whole, out = metrics.Pairs.of(predictions, references), dict(left_out or {})
    for (places,) in blocks([references]):
        scored = score_documents(
            [predictions[place] for place in places],
            [references[place] for place in places],
            names,
            cache=cache,
            corpus=whole,
            left_out={**out, **dict.fromkeys(found.errors, METRIC_ERROR)},
            **options,
        )
        for name in names:
            values = np.where(np.isfinite(scored.scores[name]), scored.scores[name], np.nan)
            for place, value in zip(places, values, strict=True):
                found.scores[name][cells[place]] = value
        found.update(AnswerScores(signatures=scored.signatures, reasons=scored.reasons, errors=scored.errors))
        advance(task.task, len(places))
    for name in found.errors:  # a metric with the scores of some blocks would have a mean of some questions
        found.scores[name][:] = np.nan
    return found


@dataclass
class JudgedAnswers:
    """Judges all answers of tasks, one judge after the other; see `judge_answers`.

    Attributes:
        tasks: What is judged.
        options: The judges and how they are asked.
        store: Where their texts are kept.
        rubric_of: The rubric of each task.
        keep_text: Whether a task's texts may be kept in the store, which quotes them.
    """

    tasks: Sequence[RepeatedTask]
    options: JudgeOptions
    store: VerdictStore
    rubric_of: Callable[[RepeatedTask], Rubric]
    keep_text: Callable[[RepeatedTask], bool]

    def ask(self, forecast: Callable[[str, int, int], None], advance: Advance) -> list[AnswerScores]:
        """Let every judge see every answer."""
        from lm_eval_healthcare.judge.outcome import METRIC

        found: list[list[np.ndarray]] = [[] for _ in self.tasks]
        signatures: list[list[str]] = [[] for _ in self.tasks]
        reasons: list[Counter[str]] = [Counter() for _ in self.tasks]
        for model in self.options.models or (None,):
            with self.options.open(model) as backend:
                for place, (scores, why, signature) in enumerate(self._of_judge(backend, model, forecast, advance)):
                    found[place].append(scores)
                    reasons[place].update(why)
                    signatures[place].append(signature)
        return [
            AnswerScores({METRIC: _mean(own)}, {METRIC: "+".join(signed)}, why)
            for own, signed, why in zip(found, signatures, reasons, strict=True)
        ]

    def _of_judge(
        self, backend: Backend, model: str | None, forecast: Callable[[str, int, int], None], advance: Advance
    ) -> Iterator[tuple[np.ndarray, Counter[str], str]]:
        """Yield the scores of one judge, task by task; everything is prepared before the first question."""
        from lm_eval_healthcare.judge.outcome import METRIC
        from lm_eval_healthcare.judge.prompt import PACK, wording
        from lm_eval_healthcare.judge.session import Session

        words = wording(self.options.wording, model or "")
        if words.name == PACK:  # a server may know more of the judge than its name
            words = wording(self.options.wording, backend.identity)
        sessions = [
            Session(backend, words, self.options.settings, self.store, keep_text=self.keep_text(task))
            for task in self.tasks
        ]
        rubrics = [self.rubric_of(task) for task in self.tasks]
        prepared = [
            session.prepare([case for _, case in _cases(task, rubric)])
            for session, task, rubric in zip(sessions, self.tasks, rubrics, strict=True)
        ]
        forecast(backend.identity, sum(one.to_ask for one in prepared), sum(one.known for one in prepared))
        for session, one, task, rubric in zip(sessions, prepared, self.tasks, rubrics, strict=True):
            judged = session.judge(one, lambda n, task=task: advance(task.task, n))  # type: ignore[misc]
            for reason, detail in session.details.items():
                logger.warning("%s: %s: %s", task.task, reason, detail if self.keep_text(task) else "(not shown)")
            scores = np.full((len(task.rows), task.repeats), np.nan)
            why: Counter[str] = Counter()
            for (cell, _), verdict in zip(_cases(task, rubric), judged, strict=True):
                scores[cell] = verdict.score
                why.update([f"{verdict.reason}:{METRIC}"] if verdict.reason is not None else [])
            named = f"{rubric.name}@{rubric.digest}"
            yield scores, why, self.options.settings.signature(backend.identity, f"{words.name}@{words.digest}", named)


def judge_answers(
    tasks: Sequence[RepeatedTask],
    options: JudgeOptions,
    store: VerdictStore,
    known: KnownTasks,
    forecast: Callable[[str, int, int], None] = lambda *_: None,
    advance: Advance = lambda *_: None,
    send_anyway: bool = False,
) -> list[AnswerScores]:
    """Let judges grade all answers of tasks, from 1 to 5; the score is the mean of several judges.

    A blank answer gets the lowest score without asking; one without a reference, or without a verdict, has no score.

    Args:
        tasks: The tasks.
        options: The judges and how they are asked.
        store: Where their texts are kept; what is there is not asked again.
        known: What is known of tasks: languages, and whether texts are credentialed.
        forecast: Told of each judge's name, the verdicts to ask for, and those that are known.
        advance: Told of progress, in verdicts.
        send_anyway: Whether texts of credentialed data may be sent to a judge on another machine.

    Returns:
        For each task its scores, under the name `prometheus`.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If a judge cannot be used, or may not see the texts.
    """
    from lm_eval_healthcare.judge.rubric import rubric_for
    from lm_eval_healthcare.judge.saved import SavedTask, refuse_to_send
    from lm_eval_healthcare.results.results_file import task_metadata

    facts = {id(task): known.facts(task.task, task_metadata(task.run.content, task.task)) for task in tasks}

    def rubric_of(task: RepeatedTask) -> Rubric:
        about = facts[id(task)]
        language = about.languages[0] if about is not None and about.languages else "en"
        return rubric_for(task.task, options.rubric, language)

    def credentialed(task: RepeatedTask) -> bool:
        about = facts[id(task)]
        return about is not None and about.credentialed

    saved = [SavedTask(task.run, task.task, task.path, rubric_of(task), credentialed(task)) for task in tasks]
    refuse_to_send(saved, options.base_url, send_anyway)
    judging = JudgedAnswers(tasks, options, store, rubric_of, lambda task: not credentialed(task))
    return judging.ask(forecast, advance)


def _cases(task: RepeatedTask, rubric: Rubric) -> list[tuple[tuple[int, int], Any]]:
    """Return what a judge is asked, with the place of each answer; missing answers are not asked about."""
    from lm_eval_healthcare.judge.cases import Graded

    cases = []
    for row, one in enumerate(task.rows):
        texts = one.references
        references = [] if texts is None else [texts] if isinstance(texts, str) else texts
        for place, answer in enumerate(one.answers):
            if answer is not None:
                cases.append(((row, place), Graded(one.question, answer, references, rubric)))
    return cases


def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of several judges; only answers that all of them have graded have one."""
    return np.mean(np.array(arrays), axis=0)
