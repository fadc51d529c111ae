"""Which samples of earlier runs are scored again, with which metrics and options; and reading their texts.

Options are those of the run unless others are given, so that a run which left its neural metrics for later is completed
with the models that it named.
"""

from __future__ import annotations

import fnmatch
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.reasoning import CUT_REASONING
from lm_eval_healthcare.results.results_file import (
    METRIC_OPTIONS,
    REPHRASED,
    SECTION,
    ResultsError,
    scored_from,
    task_config,
    task_metadata,
    values_by_filter,
)
from lm_eval_healthcare.results.texts import NoText, TextRows, look_into, read_texts
from lm_eval_healthcare.scoring.documents import METRIC_MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.documents import DocumentScores
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

logger = logging.getLogger(__name__)

REWORDINGS = "they hold rewordings of one answer, which `lm-eval-healthcare resilience` scores"
NO_SAMPLES = "their samples were not logged; a run logs them with --log_samples"
HOW = ("metrics_device", "metrics_batch_tokens")  # they change no score, so the run's do not matter


@dataclass(frozen=True)
class Wishes:
    """What a user asks for.

    Attributes:
        metrics: Metrics and sets as `metrics.resolve` takes them; None: those of the run.
        default_metrics: The same for runs that had no text metric.
        options: Options of metrics; they win over those of the run.
        defaults: Options of metrics for runs that say nothing of them.
        skip_missing: Leave a metric out that lacks its model or package, instead of refusing.
        where: Patterns by `model` and `task`; what matches none of a kind is left alone.
        rewordings: Take runs whose rows hold rewordings of one answer, too.
    """

    metrics: str | None = None
    default_metrics: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    skip_missing: bool = False
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rewordings: bool = False

    def takes(self, model: Iterable[str], task: str) -> bool:
        """Say whether a task of a model is asked for.

        Args:
            model: The names by which the model is known.
            task: The task's name.
        """
        names = {"model": list(model), "task": [task]}
        return all(
            any(fnmatch.fnmatchcase(name, pattern) for name in names[kind] for pattern in patterns)
            for kind, patterns in self.where.items()
        )


@dataclass
class SavedTask:
    """One task of one run, and what it is scored with; its texts are read when it is its turn.

    Attributes:
        run: The files of the run.
        task: The task's name.
        path: Its sample file.
        names: Metrics, in the order of results.
        options: Options of the metrics, the languages of the texts among them.
        left_out: Metrics that are not computed, each with the reason.
        facts: What is known of the task, if it is one of the pack's.
    """

    run: RunFiles
    task: str
    path: Path
    names: list[str]
    options: dict[str, Any]
    left_out: dict[str, str] = field(default_factory=dict)
    facts: TaskFacts | None = None

    @property
    def size(self) -> int:
        """Bytes of the sample file."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def heavy(self) -> list[str]:
        """The neural metrics that are computed."""
        return [name for name in self.names if metrics.AVAILABLE[name].heavy and name not in self.left_out]

    @property
    def setting(self) -> str:
        """The options as one text."""
        return repr(sorted(self.options.items()))

    def read(self, known: dict[str, str]) -> TaskTexts:
        """Read the texts.

        Args:
            known: References that are in memory, to which those of this task are added.

        Raises:
            NoText: If there is no text to score.
            ResultsError: If the file cannot be read, or its rows cannot be told apart.
        """
        config = task_config(self.run.content, self.task)
        texts = read_texts(
            self.path,
            output_type=config.get("output_type"),
            target=_column(config),
            columns=self.facts.breakdown if self.facts is not None and not self.facts.credentialed else (),
            values=[CUT_REASONING],
            recorded=values_by_filter(self.run.content, self.task),
            known=known,
        )
        return TaskTexts(self, texts)


@dataclass
class TaskTexts:
    """The texts of a task while it is scored.

    Attributes:
        saved: The task.
        texts: The rows of its sample file.
        scores: Scores by filter, in the order of the rows of that filter.
        seconds: What scoring took.
    """

    saved: SavedTask
    texts: TextRows
    scores: dict[str, DocumentScores] = field(default_factory=dict)
    seconds: float = 0.0

    def remarks(self) -> list[str]:
        """Say what a user should know of the texts."""
        rows, name = self.texts.rows, printable(self.texts.path.name)
        remarks = []
        missing = sum(row.references is None for row in rows)
        if missing:
            remarks.append(f"{name}: {missing} of {len(rows)} rows have no target; their scores are NaN")
        thinking = sum("<think>" in (row.prediction or "") for row in rows)
        if thinking:
            remarks.append(
                f"{name}: {thinking} of {len(rows)} answers hold <think> blocks, which were not taken out when the run "
                "scored them; they are scored as they are"
            )
        if self.texts.repeats > 1 and not any(row.others for row in rows):
            remarks.append(
                f"the first of {self.texts.repeats} answers to each question is scored; `lm-eval-healthcare "
                "consistency` scores all of them"
            )
        return remarks


@dataclass
class Plan:
    """What is scored, and what is not.

    Attributes:
        tasks: What is scored.
        left_out: Tasks that have nothing to score, by reason, each with the number of its runs.
        remarks: What a user should know besides.
        faults: Files or lines that cannot be used, each with the reason.
        unmatched: How many tasks the patterns leave alone.
    """

    tasks: list[SavedTask] = field(default_factory=list)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unmatched: int = 0


def plan(runs: Sequence[RunFiles], wishes: Wishes, known: KnownTasks) -> Plan:
    """Look into the sample files of runs and decide what they are scored with.

    Raises:
        ResultsError: If a metric or an option is unknown, or a metric cannot be computed here.
    """
    try:
        metrics.resolve(wishes.metrics or wishes.default_metrics)
        metrics.check_options([*wishes.options, *wishes.defaults])
    except ValueError as error:
        raise ResultsError(str(error)) from error
    out = Plan()
    for run in runs:
        for task, path in sorted(run.samples.items()):
            if not wishes.takes({run.model, run.model_folder}, task):
                out.unmatched += 1
                continue
            if REPHRASED in run.content and not wishes.rewordings:
                out.left_out.setdefault(REWORDINGS, Counter())[task] += 1
                continue
            try:
                out.tasks.append(_task(run, task, path, wishes, known))
            except NoText as error:
                out.left_out.setdefault(str(error), Counter())[task] += 1
            except ResultsError as error:
                out.faults.append(str(error))
            except Exception as error:  # what nobody has thought of costs its file, not the others
                out.faults.append(unexpected(path, error))
        if tasks := _without_samples(run, wishes):
            out.left_out.setdefault(NO_SAMPLES, Counter()).update(tasks)
    out.remarks += [*_from_environment(out.tasks, wishes), *_of_no_use(out.tasks, wishes)]
    _refuse_missing(out.tasks, wishes)
    out.remarks += _about_metrics(out.tasks)
    return out


def unexpected(path: Path, error: Exception) -> str:
    """Say that a file holds something that no file of its kind should."""
    logger.debug("%s", path, exc_info=error)
    return f"{printable(path)}: not as the harness writes it ({type(error).__name__}: {error}); it is left out"


def _task(run: RunFiles, task: str, path: Path, wishes: Wishes, known: KnownTasks) -> SavedTask:
    config, metadata = task_config(run.content, task), task_metadata(run.content, task)
    if not known.has_texts(task, metadata, list(metrics.AVAILABLE)):
        if "relaxed_perplexity" in (metadata.get(SECTION) or {}):
            raise NoText("its readings are computed again by `lm-eval-healthcare relaxed`")
        raise NoText("its answers are choices or classes, which text metrics do not score")
    facts = known.facts(task, metadata)
    first = look_into(path, config.get("output_type"), _column(config))
    languages = facts.languages if facts is not None else ("en",)
    options = {**wishes.defaults, **_options_of_run(metadata), **wishes.options, "languages": languages}
    of_run = _metrics_of_run(values_by_filter(run.content, task), first)
    names = metrics.resolve(wishes.metrics or of_run or wishes.default_metrics, languages)
    return SavedTask(run, task, path, names, options, facts=facts)


def _column(config: Mapping[str, Any]) -> str | None:
    """Return the column that holds the references, if the task says one."""
    target = config.get("doc_to_target")
    return target if isinstance(target, str) else None


def _options_of_run(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of metrics that change scores as a run had them, also those that its environment gave."""
    section = metadata.get(SECTION)
    recorded = section.get(METRIC_OPTIONS) if isinstance(section, dict) else None
    given = {**metadata, **(recorded if isinstance(recorded, dict) else {})}
    return {key: given[key] for key in metrics.option_names() if given.get(key) is not None and key not in HOW}


def _metrics_of_run(recorded: Mapping[str, Mapping[str, Any]], first: Mapping[str, Any]) -> str:
    """Return the text metrics of a run: those in its results, else those in its first row, else nothing."""
    names = [name for values in recorded.values() for name in values] if recorded else list(first)
    return "+".join(name for name in dict.fromkeys(names) if name in metrics.AVAILABLE)


def _from_environment(tasks: Sequence[SavedTask], wishes: Wishes) -> list[str]:
    """Name the options that change scores and that neither a run nor the user's command says."""
    used = {}
    for task in tasks:
        said = {*_options_of_run(task_metadata(task.run.content, task.task)), *wishes.options, *HOW}
        matter = {option for name in task.names for option in metrics.AVAILABLE[name].options} - said
        used.update({name: value for name, value in wishes.defaults.items() if name in matter})
    return [f"{name}={value} is taken from the environment, since runs do not say it" for name, value in used.items()]


def _of_no_use(tasks: Sequence[SavedTask], wishes: Wishes) -> list[str]:
    """Name the options that a user gave and that no metric takes which is computed."""
    taken = {option for task in tasks for name in task.names for option in metrics.AVAILABLE[name].options}
    names = [name for name in wishes.options if name not in taken and name not in HOW] if tasks else []
    return [f"{name} changes nothing: no metric that is computed here takes it" for name in names]


def _without_samples(run: RunFiles, wishes: Wishes) -> list[str]:
    """Name the tasks of a run whose answers were not logged."""
    if run.results is None or run.one_of_several or scored_from(run.content):
        return []
    types = {task: task_config(run.content, task).get("output_type") for task in run.content.get("results", {})}
    groups = {name for name, tasks in (run.content.get("group_subtasks") or {}).items() if tasks}
    return [
        task
        for task, kind in types.items()
        if kind in (None, "generate_until") and task not in run.samples and task not in groups
        and wishes.takes({run.model, run.model_folder}, task)
    ]  # fmt: skip


def _about_metrics(tasks: Sequence[SavedTask]) -> list[str]:
    """Say what a user should know of the metrics that are computed."""
    remarks = []
    for task in tasks:
        domain = task.facts.domain if task.facts is not None else None
        for name in task.names:
            made_for = metrics.AVAILABLE[name].domain
            if made_for not in (None, domain):
                remarks.append(
                    f"{printable(task.path.name)}: {name} is made for {made_for} texts, which these may not be"
                )
    asked = {(n, task.setting): task.options for task in tasks for n in task.names if n not in task.left_out}
    remarks += [text for (name, _), options in asked.items() for text in metrics.remarks(name, **options)]
    return list(dict.fromkeys(remarks))


def _refuse_missing(tasks: Sequence[SavedTask], wishes: Wishes) -> None:
    """Look whether every metric can be computed, and fetch what it needs, before the first of them is.

    Raises:
        ResultsError: If one cannot, unless it may be left out.
    """
    asked = {(name, task.setting): (name, task.options) for task in tasks for name in task.names}
    lacking = {key: text for key, (name, options) in asked.items() if (text := _lacks(name, options))}
    problems = list(dict.fromkeys(lacking.values()))
    if problems and not wishes.skip_missing:
        raise ResultsError(
            f"{'; '.join(problems)}. Or choose other metrics (--metrics ngram needs no model), or leave these out with "
            "--metrics-missing skip"
        )
    for text in problems:
        logger.warning("left out, with NaN for scores: %s", text)
    for task in tasks:
        task.left_out.update({name: METRIC_MISSING for name in task.names if (name, task.setting) in lacking})
    for asked_for, (name, options) in asked.items():
        if asked_for not in lacking:
            _prepare(name, options)


def _lacks(name: str, options: Mapping[str, Any]) -> str | None:
    try:
        metrics.signature(name, **options)
        return metrics.missing(name, **options)
    except ValueError as error:
        raise ResultsError(str(error)) from error


def _prepare(name: str, options: Mapping[str, Any]) -> None:
    try:
        metrics.prepare(name, **options)
    except ValueError as error:
        raise ResultsError(str(error)) from error
