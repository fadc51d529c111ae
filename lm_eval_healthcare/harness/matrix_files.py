"""The stored matrices of Relaxed Perplexity, written beside the results and the samples of their run.

The harness names those files at the moment it writes them, so ours are written right after, under the same date. This
adds to one method of the harness's tracker and replaces nothing of it; where the run has no output path, the matrices
are in the saved answers only.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from lm_eval.loggers import EvaluationTracker

from lm_eval_healthcare.relaxed_perplexity.matrix_file import About, Document, MatrixFileError, rows_of, write

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity import Matrix, Settings

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    """What is written of one task: its documents' numbers and matrices, and how they were measured."""

    matrices: Sequence[tuple[int, Matrix]]
    settings: Settings
    signature: str
    chat: bool


_to_write: dict[str, Kept] = {}


def keep(task: str, kept: Kept) -> None:
    """Let the matrices of a task that has just been scored be written with the run's results."""
    _to_write[task] = kept  # the task itself may be gone by then


def forget(task: str) -> None:
    """Let no matrices of an earlier run of a task be written: its results were never saved."""
    _to_write.pop(task, None)


def install() -> None:
    """Make the harness's tracker write kept matrices after its results; calling it again changes nothing."""
    original = EvaluationTracker.save_results_aggregated
    if getattr(original, "writes_matrices", False):
        return

    @functools.wraps(original)
    def save_results_aggregated(self: EvaluationTracker, results: dict, samples: dict | None = None) -> None:
        original(self, results, samples)
        for name in results.get("configs", {}):
            kept = _to_write.pop(name, None)
            if kept is not None and self.output_path and getattr(self, "date_id", None):
                _write(self, name, kept)

    save_results_aggregated.writes_matrices = True  # type: ignore[attr-defined]
    EvaluationTracker.save_results_aggregated = save_results_aggregated


def _write(tracker: Any, task: str, kept: Kept) -> None:
    """Write the matrices of one task; what goes wrong is told and costs no score."""
    output = Path(tracker.output_path)
    about = tracker.general_config_tracker
    folder = output.parent if output.suffix == ".json" else output / str(about.model_name_sanitized)
    path = folder / f"relaxed_{quote(task, safe='')}_{tracker.date_id}.parquet"
    try:
        write(
            path,
            rows_of(Document(number, matrix) for number, matrix in kept.matrices),
            About(
                task=task,
                model=str(about.model_name or ""),
                settings=kept.settings,
                signature=kept.signature,
                date=datetime.now().astimezone().isoformat(),
                chat=kept.chat,
                lm_eval_version=importlib.metadata.version("lm_eval"),
            ),
        )
    except (MatrixFileError, OSError, ValueError) as error:
        logger.error("the matrices of %s are not written: %s; the saved answers hold them too", task, error)
        return
    logger.info("matrices of %s: lm-eval-healthcare relaxed %s", task, path)
