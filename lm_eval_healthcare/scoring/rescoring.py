"""Scoring the samples of earlier runs and writing what comes of it, run by run.

What neural metrics compute is in the score cache at once, so that a command which was killed goes on where it stopped,
and two may use one cache at the same time. Models that answered the same questions are scored together: each reference
is encoded once for all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.results.writing import Written, refuse_unwritable, write_run
from lm_eval_healthcare.scoring.documents import DocumentScores, score_documents
from lm_eval_healthcare.scoring.scored_results import ScoredTask, results_content, sample_rows

if TYPE_CHECKING:
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.scoring.saved_samples import TaskTexts
    from lm_eval_healthcare.scoring.score_cache import ScoreCache

_REFERENCES_OF_A_BLOCK = 64

Advance = Callable[[str, int], None]
"""Called with the name of a task and the number of its documents when they are scored."""


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


class Rescoring:
    """Scores tasks and writes results.

    Attributes:
        total: Number of documents that `run` will tell of.
        tally: What neural metrics had to compute.
    """

    def __init__(self, tasks: Sequence[TaskTexts], cache: ScoreCache, output: Path | None) -> None:
        """Prepare.

        Args:
            tasks: What is scored.
            cache: Where scores of neural metrics are looked up and kept.
            output: Where results go, as the harness's `--output_path`; None: beside those of the runs.

        Raises:
            lm_eval_healthcare.results.results_file.ResultsError: If results could not be written there.
        """
        self._tasks, self._cache = list(tasks), cache
        self._pools = _pools(tasks)
        self.tally = Tally()
        self.total = sum(task.size for task in tasks) + sum(
            len(task.texts.of(name)) for pool in self._pools for task, name in pool
        )
        self._places = {id(task.run): _place(task.run, output) for task in tasks}
        for folder, _ in dict.fromkeys(self._places.values()):
            refuse_unwritable(folder)

    def run(self, advance: Advance) -> Iterator[tuple[list[ScoredTask], Written]]:
        """Score run after run; yield the tasks of each and the files that were written.

        Args:
            advance: Told of progress.

        Raises:
            lm_eval_healthcare.results.results_file.ResultsError: If a file cannot be written or has changed.
        """
        started = time.time()
        for pool in self._pools:
            self._score_pool(pool, advance)
        runs: dict[int, list[TaskTexts]] = defaultdict(list)
        for task in self._tasks:
            runs[id(task.run)].append(task)
        for tasks in runs.values():
            for task in tasks:
                self._score(task, advance)
            yield self._write([ScoredTask.of(task) for task in tasks], started)

    def _score_pool(self, pool: Sequence[tuple[TaskTexts, str]], advance: Advance) -> None:
        """Compute the neural metrics of several models' answers to one task, into the cache.

        Answers to the same references come after each other, block by block, so that the references' vectors are still
        there for the next model.
        """
        parts = [_pairs(task, name) for task, name in pool]
        sets = [metrics.Pairs.of(*part) for part in parts]
        for block in _blocks([references for _, references in parts]):
            for (task, _), (predictions, references), whole, rows in zip(pool, parts, sets, block, strict=True):
                scored = score_documents(
                    [predictions[row] for row in rows],
                    [references[row] for row in rows],
                    task.heavy,
                    cache=self._cache,
                    corpus=whole,
                    **task.options,
                )
                self.tally.computed += scored.computed
                task.seconds += scored.seconds
                advance(task.task, len(rows))

    def _score(self, task: TaskTexts, advance: Advance) -> None:
        for name in task.texts.filters:
            predictions, references = _pairs(task, name)
            scored: DocumentScores = score_documents(
                predictions, references, task.names, cache=self._cache, left_out=task.left_out, **task.options
            )
            task.scores[name] = scored
            task.seconds += scored.seconds
            self.tally.computed += scored.computed
            self.tally.pairs += scored.computed + scored.cached
            advance(task.task, len(predictions))

    def _write(self, tasks: list[ScoredTask], started: float) -> tuple[list[ScoredTask], Written]:
        run = tasks[0].task.run
        folder, prefix = self._places[id(run)]
        samples = {scored.task.task: sample_rows(scored) for scored in tasks}
        return tasks, write_run(folder, prefix, samples, lambda hashes: results_content(run, tasks, hashes, started))


def _place(run: RunFiles, output: Path | None) -> tuple[Path, str]:
    """Return the folder of a run's new files and what the name of the results file begins with."""
    if output is None:
        return run.folder, "results"
    if output.suffix == ".json":
        return output.parent, output.stem
    return output / run.model_folder, "results"


def _pairs(task: TaskTexts, name: str) -> tuple[list[str | None], list[str | list[str]]]:
    """Return predictions and references of a task after one filter."""
    rows = task.texts.of(name)
    return [row.prediction for row in rows], [row.references or "" for row in rows]


def _pools(tasks: Sequence[TaskTexts]) -> list[list[tuple[TaskTexts, str]]]:
    """Return the parts of tasks whose neural metrics mean the same for several models' answers to the same task."""
    pools: dict[Any, list[tuple[TaskTexts, str]]] = defaultdict(list)
    for task in tasks:
        for name in task.texts.filters if task.heavy else ():
            pools[task.task, tuple(task.heavy), repr(sorted(task.options.items()))].append((task, name))
    return [pool for pool in pools.values() if len(pool) > 1]


def _blocks(references: Sequence[Sequence[str | list[str]]]) -> list[list[list[int]]]:
    """Return for each block of distinct references the rows of every model that are compared with them.

    Args:
        references: For each model those of its rows.
    """
    keys = [[tuple(texts) if isinstance(texts, list) else (texts,) for texts in own] for own in references]
    distinct = sorted({key for own in keys for key in own}, key=lambda key: (-sum(map(len, key)), key))
    numbers = {key: place // _REFERENCES_OF_A_BLOCK for place, key in enumerate(distinct)}
    n_blocks = max(numbers.values(), default=-1) + 1
    blocks: list[list[list[int]]] = [[[] for _ in references] for _ in range(n_blocks)]
    for model, own in enumerate(keys):
        for row, key in enumerate(own):
            blocks[numbers[key]][model].append(row)
    return blocks
