"""Which runs a study of self-consistency is about, and which metrics of them are taken from their logs or computed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.answer_flags import SINGLE_ANSWER
from lm_eval_healthcare.results.helper_metrics import is_helper
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.repeated_answers import REPHRASED, RepeatedTask, read_repeated
from lm_eval_healthcare.results.results_file import ResultsError, task_config
from lm_eval_healthcare.results.texts import NoText
from lm_eval_healthcare.studies.answer_scores import AnswerScores, Planned, plan_metrics, score_answers

if TYPE_CHECKING:
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks
    from lm_eval_healthcare.scoring.saved_samples import Wishes
    from lm_eval_healthcare.scoring.score_cache import ScoreCache
    from lm_eval_healthcare.studies.answer_scores import Advance

logger = logging.getLogger(__name__)

PROMETHEUS = "prometheus"
SIGNATURE_UNKNOWN = "signature_unknown"
_ABSENT = "@absent"
_NO_MODEL = "ngram"


@dataclass
class Wanted:
    """What a user asks for.

    Attributes:
        names: Metrics and sets, in order; none: those that were logged, n-gram metrics where none was.
        recompute: Compute what was logged again.
        not_sampled_too: Take answers that were not drawn at random as if they were.
        judged: Whether a judge is there to be asked.
        precision: Standard errors of a mean for which the number of answers is wanted.
    """

    names: Sequence[str] = ()
    recompute: bool = False
    not_sampled_too: bool = False
    judged: bool = False
    precision: Sequence[float] = ()


@dataclass
class StudiedTask:
    """One task of one model.

    Attributes:
        task: Its questions with their answers.
        taken: Metrics whose scores were logged and are taken.
        planned: What is computed; None for nothing.
        judged: Whether a judge is asked.
        scores: Scores of all answers, and their signatures.
        unsigned: Metrics that were taken although the log does not say how they were computed.
    """

    task: RepeatedTask
    taken: list[str] = field(default_factory=list)
    planned: Planned | None = None
    judged: bool = False
    scores: AnswerScores = field(default_factory=AnswerScores)
    unsigned: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All metrics, in the order of results."""
        return [*self.taken, *(self.planned.names if self.planned else ()), *([PROMETHEUS] if self.judged else ())]

    @property
    def sampled(self) -> np.ndarray:
        """Whether each question's answers may have been drawn at random, shape (n questions,)."""
        return np.array([row.sampled is not False for row in self.task.rows], dtype=bool)

    @property
    def name(self) -> str:
        """Model and task."""
        return f"{printable(self.task.run.model)}, {printable(self.task.task)}"


@dataclass
class Studied:
    """What was found.

    Attributes:
        tasks: What the study is about.
        left_out: Everything else, each with the reason.
        faults: Files or lines that cannot be used.
        remarks: What a user should know.
    """

    tasks: list[StudiedTask] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read(runs: Sequence[RunFiles], wishes: Wishes) -> Studied:
    """Read the newest run of every model and task that has several answers to a question.

    Args:
        runs: The runs.
        wishes: With the patterns of models and tasks.
    """
    found = Studied()
    known: dict[str, str] = {}
    for run, task in _newest(runs, wishes, found):
        what = f"{printable(run.model)}, {printable(task)}"
        try:
            one = read_repeated(run, task, run.samples[task], known)
        except NoText as error:
            found.left_out.append((what, str(error)))
            continue
        except ResultsError as error:
            found.left_out.append((what, str(error)))
            found.faults.append(str(error))
            continue
        if one.cut:
            found.faults.append(one.cut)
        if one.is_reworded:
            found.left_out.append((what, _reworded()))
        elif one.repeats < 2:
            found.left_out.append((what, _single(one, task_config(run.content, task).get("repeats"))))
        else:
            found.tasks.append(StudiedTask(one))
    return found


def _newest(runs: Sequence[RunFiles], wishes: Wishes, found: Studied) -> Iterable[tuple[RunFiles, str]]:
    """Return one run of every model and task: the newest that is not a part of the questions only."""
    best: dict[tuple[str, str], RunFiles] = {}
    for run in runs:
        for task in run.samples:
            if not wishes.takes({run.model, run.model_folder}, task):
                continue
            if REPHRASED in run.content:
                found.left_out.append((f"{printable(run.model)}, {printable(task)}", _reworded()))
                continue
            other = best.get((run.model, task))
            if other is not None:
                newer, older = (run, other) if _age(run, task) > _age(other, task) else (other, run)
                found.left_out.append(
                    (printable(older.samples[task]), f"there is a newer or more complete run: {printable(newer.name)}")
                )
                run = newer
            best[run.model, task] = run
    return [(run, task) for (_, task), run in best.items()]


def _age(run: RunFiles, task: str) -> tuple[bool, str, str]:
    counts = (run.content.get("n-samples") or {}).get(task)
    effective, original = (counts.get(key) if isinstance(counts, dict) else None for key in ("effective", "original"))
    part = isinstance(effective, int | float) and isinstance(original, int | float) and effective < original
    return not part, run.stamp, str(run.folder)


def _reworded() -> str:
    return "its answers were reworded by `rephrase`; how scores move with the wording: `lm-eval-healthcare resilience`"


def _single(task: RepeatedTask, declared: Any) -> str:
    told = f", although the results file says repeats {declared}" if isinstance(declared, int) and declared > 1 else ""
    return (
        f"{SINGLE_ANSWER}: there is one answer to each question{told}, so nothing can be said of how answers vary. Run "
        "the task with several answers, such as careqa_open_consistency with 11"
    )


def plan(found: Studied, wanted: Wanted, wishes: Wishes, known: KnownTasks) -> None:
    """Decide for every task which metrics are taken from its log, which are computed, and whether a judge is asked.

    Args:
        found: Tasks that were read.
        wanted: What is asked for.
        wishes: Options of metrics.
        known: What is known of tasks.

    Raises:
        ResultsError: If a metric is unknown, or cannot be computed here.
    """
    _refuse_unknown(found.tasks, wanted)
    kept = []
    for one in found.tasks:
        try:
            found.remarks += _plan_one(one, wanted, wishes, known)
        except NoText as error:
            found.left_out.append((one.name, str(error)))
            continue
        if one.names:
            kept.append(one)
        else:
            found.left_out.append((one.name, f"it has no scores of single answers for {', '.join(wanted.names)}"))
    found.tasks = kept
    found.remarks = list(dict.fromkeys(found.remarks))


def _refuse_unknown(tasks: Sequence[StudiedTask], wanted: Wanted) -> None:
    logged = {name for one in tasks for name in one.task.logged}
    if PROMETHEUS in wanted.names and PROMETHEUS not in logged and not wanted.judged and tasks:
        raise ResultsError(
            "the metric prometheus needs a judge: --judge-model with a folder or hub id, or --judge-base-url with a "
            "server (no run logged its scores of single answers)"
        )
    for name in wanted.names:
        if name != PROMETHEUS and name not in logged and tasks:
            try:
                metrics.resolve(name)
            except ValueError as error:
                in_logs = f" Logged for single answers: {', '.join(sorted(logged))}." if logged else ""
                raise ResultsError(f"{error}.{in_logs}") from error


def _plan_one(one: StudiedTask, wanted: Wanted, wishes: Wishes, known: KnownTasks) -> list[str]:
    logged = [name for name in one.task.logged if not is_helper(name, one.task.logged)]
    if not wanted.names and logged:
        one.taken = logged
        one.unsigned = [name for name in logged if name not in one.task.signatures]
        return []
    if not wanted.names:
        one.planned, remarks = plan_metrics(one.task, _NO_MODEL, wishes, known)
        return remarks
    one.judged = PROMETHEUS in wanted.names and wanted.judged
    text = [name for name in wanted.names if name != PROMETHEUS or not one.judged]
    options = _options(one.task, wishes, known)
    names = _resolved(text, logged, options)
    one.taken = [name for name in names if name in logged and not _differs(one, name, wanted, wishes, options)]
    one.unsigned = [name for name in one.taken if name not in one.task.signatures]
    rest = [name for name in names if name not in one.taken and name in metrics.AVAILABLE]
    if not rest:
        return []
    one.planned, remarks = plan_metrics(one.task, "+".join(rest), wishes, known)
    return remarks


def _options(task: RepeatedTask, wishes: Wishes, known: KnownTasks) -> Mapping[str, Any] | None:
    """Return the options with which metrics would be computed; None if text metrics do not score such answers."""
    try:
        return plan_metrics(task, _NO_MODEL, wishes, known)[0].options
    except NoText:
        return None


def _resolved(asked: Sequence[str], logged: Sequence[str], options: Mapping[str, Any] | None) -> list[str]:
    languages = (options or {}).get("languages") or ("en",)
    names: list[str] = []
    for name in asked:
        try:
            names += metrics.resolve(name, languages)
        except ValueError:
            names += [name] if name in logged else []
    return list(dict.fromkeys(names))


def _differs(one: StudiedTask, name: str, wanted: Wanted, wishes: Wishes, options: Mapping[str, Any] | None) -> bool:
    """Say whether a logged metric would have another meaning if it were computed here and now."""
    if name not in metrics.AVAILABLE or options is None:
        return False
    if wanted.recompute:
        return True
    signed = one.task.signatures.get(name)
    if signed is None:
        return False
    metric = metrics.AVAILABLE[name]
    options = {**options, "corpus": _corpus(one.task)} if metric.needs_corpus else options
    now = metrics.signature(name, **options)
    if _ABSENT in now and not set(metric.options) & set(wishes.options):
        return False  # there is no model here that could be another one
    return now != signed


def _corpus(task: RepeatedTask) -> metrics.Pairs:
    cells = [(text, row.references or "") for row in task.rows for text in row.answers if text is not None]
    return metrics.Pairs.of([text for text, _ in cells], [texts for _, texts in cells])


def score(one: StudiedTask, wanted: Wanted, cache: ScoreCache, advance: Advance) -> None:
    """Take the logged scores of a task and compute the others.

    Args:
        one: The task.
        wanted: What is asked for.
        cache: Where scores of neural metrics are looked up and kept.
        advance: Told of progress.
    """
    task = one.task
    shape = len(task.rows), task.repeats
    for name in one.taken:
        values = np.full(shape, np.nan)
        for row, own in enumerate(task.rows):
            scores = own.logged.get(name, [])
            values[row, : len(scores)] = scores
        one.scores.scores[name] = values
        if name in task.signatures:
            one.scores.signatures[name] = task.signatures[name]
    if one.planned is None:
        return
    if not wanted.not_sampled_too and not one.sampled.any():  # whatever the scores are, they are not used
        one.scores.scores.update({name: np.full(shape, np.nan) for name in one.planned.names})
        return
    chosen = one.planned
    one.scores.update(score_answers(task, chosen.names, chosen.options, cache, advance, chosen.left_out))


def without_scores(one: StudiedTask) -> None:
    """Say that a judge was not asked, since nothing could be made of what it says."""
    one.scores.scores[PROMETHEUS] = np.full((len(one.task.rows), one.task.repeats), np.nan)


def masked(one: StudiedTask, wanted: Wanted) -> dict[str, np.ndarray]:
    """Return the scores of a task without those of answers that were not drawn at random."""
    hidden = np.zeros(len(one.task.rows), dtype=bool) if wanted.not_sampled_too else ~one.sampled
    out = {}
    for name in one.names:
        values = one.scores.scores[name].copy()
        values[hidden] = np.nan
        out[name] = values
    return out
