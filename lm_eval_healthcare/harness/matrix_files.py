"""The stored matrices of Relaxed Perplexity, written beside the results and the samples of their run.

The harness names those files at the moment it writes them, so ours are written right after, under the same date. This
adds to one method of the harness's tracker and replaces nothing of it; where the run has no output path, the matrices
are in the saved answers only.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import weakref
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.loggers import EvaluationTracker

from lm_eval_healthcare.relaxed_perplexity.matrix_file import About, Document, MatrixFileError, rows_of, write

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.relaxed import RelaxedPerplexityTask

logger = logging.getLogger(__name__)

_tasks: dict[str, weakref.ref[RelaxedPerplexityTask]] = {}


def keep(task: RelaxedPerplexityTask) -> None:
    """Let the matrices of a task that has just been scored be written with the run's results."""
    _tasks[task.task_name] = weakref.ref(task)


def install() -> None:
    """Make the harness's tracker write kept matrices after its results; calling it again changes nothing."""
    original = EvaluationTracker.save_results_aggregated
    if getattr(original, "writes_matrices", False):
        return

    @functools.wraps(original)
    def save_results_aggregated(self: EvaluationTracker, results: dict, samples: dict | None = None) -> None:
        original(self, results, samples)
        for name in results.get("configs", {}):
            task = reference() if (reference := _tasks.pop(name, None)) else None
            if task is not None and getattr(self, "date_id", None):
                _write(self, task)

    save_results_aggregated.writes_matrices = True  # type: ignore[attr-defined]
    EvaluationTracker.save_results_aggregated = save_results_aggregated


def _write(tracker: Any, task: RelaxedPerplexityTask) -> None:
    """Write the matrices of one task; what goes wrong is told and costs no score."""
    output = Path(tracker.output_path)
    about = tracker.general_config_tracker
    folder = output.parent if output.suffix == ".json" else output / str(about.model_name_sanitized)
    path = folder / f"relaxed_{task.task_name}_{tracker.date_id}.parquet"
    try:
        write(
            path,
            rows_of(Document(number, matrix) for number, matrix in task.matrices),
            About(
                task=task.task_name,
                model=str(about.model_name or ""),
                settings=task.settings,
                signature=task.signature,
                date=datetime.now().astimezone().isoformat(),
                chat=task.chat,
                lm_eval_version=importlib.metadata.version("lm_eval"),
            ),
        )
    except (MatrixFileError, OSError, ValueError) as error:
        logger.error("the matrices of %s are not written: %s; the saved answers hold them too", task.task_name, error)
        return
    logger.info("matrices of %s: lm-eval-healthcare relaxed %s", task.task_name, path)
