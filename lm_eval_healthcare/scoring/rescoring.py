"""Scoring the samples of earlier runs and writing what comes of it, run by run.

What neural metrics compute is in the score cache at once, so that a command which was killed goes on where it stopped,
and two may use one cache at the same time. Models that answered the same questions are scored together, and only the
texts of one such group are in memory.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.texts import NoText
from lm_eval_healthcare.results.writing import NotWritten, RunWriter, Written, place_of, refuse_unwritable
from lm_eval_healthcare.scoring.documents import METRIC_ERROR, DocumentScores, score_documents
from lm_eval_healthcare.scoring.model_pools import blocks, units, waves
from lm_eval_healthcare.scoring.saved_samples import unexpected
from lm_eval_healthcare.scoring.scored_results import ScoredTask, TaskResult, results_content, sample_rows

if TYPE_CHECKING:
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.saved_samples import SavedTask, TaskTexts
    from lm_eval_healthcare.scoring.score_cache import ScoreCache

logger = logging.getLogger(__name__)

_SHARE_OF_POOL = 0.95  # of the time that a task takes whose neural metrics are computed for several models together

Advance = Callable[[str, float], None]
"""Called with the name of a task and how many bytes of sample files are done."""


@dataclass
class Tally:
    """Pairs of texts that neural metrics scored.

    Attributes:
        pairs: Distinct pairs of all tasks.
        computed: Those of them that had to be computed.
    """

    pairs: int = 0
    computed: int = 0

    @property
    def cached(self) -> int:
        """Those that were known before, or from another model that gave the same answer."""
        return max(0, self.pairs - self.computed)


@dataclass
class _OpenRun:
    """A run of which something is still to come."""

    run: RunFiles
    writer: RunWriter
    left: int = 0
    results: list[TaskResult] = field(default_factory=list)


class Rescoring:
    """Scores tasks and writes results.

    Attributes:
        total: Bytes of sample files, of which `run` tells how many are done.
        tally: What neural metrics had to compute.
        faults: Files or lines that turned out to be of no use, each with the reason.
        left_out: Tasks that turned out to have nothing to score, by reason, each with the number of its runs.
    """

    def __init__(self, tasks: Sequence[SavedTask], cache: ScoreCache, output: Path | None) -> None:
        """Prepare.

        Args:
            tasks: What is scored.
            cache: Where scores of neural metrics are looked up and kept.
            output: Where results go, as the harness's `--output_path`; None: beside those of the runs.

        Raises:
            lm_eval_healthcare.results.results_file.ResultsError: If results could not be written there.
        """
        self._tasks, self._cache = list(tasks), cache
        self._errors: dict[tuple[str, str], str] = {}  # of neural metrics with their options
        self.tally = Tally()
        self.total = sum(task.size for task in tasks)
        self.faults: list[str] = []
        self._remarked: set[str] = set()
        self.left_out: dict[str, Counter[str]] = {}
        self._places = {id(task.run): place_of(task.run, output) for task in tasks}
        for folder, _ in dict.fromkeys(self._places.values()):
            refuse_unwritable(folder)

    def run(self, advance: Advance) -> Iterator[tuple[list[TaskResult], Written]]:
        """Score everything; yield the tasks of each run, and the files that were written, when they are.

        Args:
            advance: Told of progress.

        Raises:
            lm_eval_healthcare.results.writing.NotWritten: If a file cannot be written.
        """
        started = time.time()
        for wave in waves(self._tasks):
            runs: dict[int, _OpenRun] = {}
            for task in wave:
                new = _OpenRun(task.run, RunWriter(*self._places[id(task.run)]))
                runs.setdefault(id(task.run), new).left += 1
            try:
                for unit in units(wave):
                    for run in self._score_unit(unit, runs, advance):
                        if run.results:
                            yield self._publish(run, started)
            finally:
                for run in runs.values():
                    run.writer.discard()

    def _score_unit(self, unit: list[SavedTask], runs: dict[int, _OpenRun], advance: Advance) -> Iterator[_OpenRun]:
        """Score one task of several models; yield the runs that are complete with it."""
        known: dict[str, str] = {}
        texts = [self._read(task, known) for task in unit]
        known.clear()
        told = self._score_pool([task for task in texts if task is not None], advance)
        for place, saved in enumerate(unit):
            task, texts[place] = texts[place], None  # so that its texts can go
            run = runs[id(saved.run)]
            if task is not None:
                self._score(task)
                self._add(run, task)
            advance(saved.task, saved.size - told.get(id(saved), 0.0))
            run.left -= 1
            if not run.left:
                yield run

    def _read(self, task: SavedTask, known: dict[str, str]) -> TaskTexts | None:
        """Read the texts of a task; what is wrong with them is told and costs this task."""
        try:
            texts = task.read(known)
        except NoText as error:
            self.left_out.setdefault(str(error), Counter())[task.task] += 1
            return None
        except ResultsError as error:
            self._tell(str(error))
            return None
        except Exception as error:  # what nobody has thought of costs its file, not the others
            self._tell(unexpected(task.path, error))
            return None
        if texts.texts.cut:
            self._tell(texts.texts.cut)
        for remark in texts.remarks():
            if remark not in self._remarked:
                logger.warning(remark)
            self._remarked.add(remark)
        return texts

    def _tell(self, fault: str) -> None:
        self.faults.append(fault)
        logger.warning(fault)

    def _score_pool(self, tasks: Sequence[TaskTexts], advance: Advance) -> dict[int, float]:
        """Compute the neural metrics of several models' answers to one task, into the cache.

        Answers to the same references come after each other, block by block, so that the references' vectors are still
        there for the next model. The first failure of a metric ends its part.

        Returns:
            How much progress was told of each task.
        """
        pool = [(task, name) for task in tasks if task.saved.heavy for name in task.texts.filters]
        told: dict[int, float] = {id(task.saved): 0.0 for task in tasks}
        if len(pool) < 2:
            return told
        parts = [_pairs(task, name) for task, name in pool]
        sets = [metrics.Pairs.of(*part) for part in parts]
        for block in blocks([references for _, references in parts]):
            for (task, _), (predictions, references), whole, rows in zip(pool, parts, sets, block, strict=True):
                names = [name for name in task.saved.heavy if (name, task.saved.setting) not in self._errors]
                if not names:
                    return told
                scored = score_documents(
                    [predictions[row] for row in rows],
                    [references[row] for row in rows],
                    names,
                    cache=self._cache,
                    corpus=whole,
                    **task.saved.options,
                )
                self._count(task, scored)
                part = _SHARE_OF_POOL * task.saved.size * len(rows) / sum(len(row.answers) for row in task.texts.rows)
                told[id(task.saved)] += part
                advance(task.saved.task, part)
        return told

    def _score(self, task: TaskTexts) -> None:
        """Score a task; a neural metric that failed elsewhere with the same options is not tried again."""
        saved = task.saved
        for name in task.texts.filters:
            failed = {one: text for one in saved.names if (text := self._errors.get((one, saved.setting)))}
            scored = score_documents(
                *_pairs(task, name),
                saved.names,
                cache=self._cache,
                left_out={**saved.left_out, **dict.fromkeys(failed, METRIC_ERROR)},
                **saved.options,
            )
            scored.errors |= failed
            task.scores[name] = scored
            self._count(task, scored)
            self.tally.pairs += scored.computed + scored.cached

    def _count(self, task: TaskTexts, scored: DocumentScores) -> None:
        task.seconds += scored.seconds
        self.tally.computed += scored.computed
        for name, text in scored.errors.items():
            if metrics.AVAILABLE[name].heavy:
                self._errors.setdefault((name, task.saved.setting), text)

    def _add(self, run: _OpenRun, task: TaskTexts) -> None:
        """Write the samples of a task that has been scored, and keep what results say of it."""
        try:
            scored = ScoredTask.of(task)
            result = TaskResult.of(scored)
            run.writer.add(task.saved.task, sample_rows(scored))
        except NotWritten:
            raise
        except ResultsError as error:
            self._tell(str(error))
        except Exception as error:
            self._tell(unexpected(task.saved.path, error))
        else:
            run.results.append(result)

    def _publish(self, run: _OpenRun, started: float) -> tuple[list[TaskResult], Written]:
        results = sorted(run.results, key=lambda result: result.task.task)
        written = run.writer.publish(lambda hashes: results_content(run.run, results, hashes, started))
        return results, written


def _pairs(task: TaskTexts, name: str) -> tuple[list[str | None], list[str | list[str]]]:
    """Return predictions and references of a task after one filter, answers to one question next to each other."""
    rows = task.texts.of(name)
    return [text for row in rows for text in row.answers], [row.references or "" for row in rows for _ in row.answers]
