"""What comes of `score`: the table, the files, and what went wrong."""

from __future__ import annotations

import logging
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.tables import table
from lm_eval_healthcare.results.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

logger = logging.getLogger("lm_eval_healthcare")

_COLUMNS = ("model", "run", "task", "filter", "n", "metric", "value", "stderr", "coverage", "truncated", "seconds")
_NAMES = ("model", "run", "task", "filter", "metric")
_MOST_FILES = 10


@dataclass
class Outcome:
    """What came of a command.

    Attributes:
        done: Number of tasks, or of folders of answers, that were scored.
        rows: Rows of the table, with values as they are.
        files: What was written, a line each.
        remarks: What else is said below the table.
        faults: Files or lines that could not be used, each with the reason.
        unscored: The tasks in which a metric has no score for any document, by metric, each with the number of runs.
        errors: The error of each metric that failed, the first one.
    """

    done: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unscored: dict[str, Counter[str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def fault(self, text: str) -> None:
        """Tell of a file or line that cannot be used, and keep it."""
        self.faults.append(text)
        logger.warning(text)

    def take_failures(self, task: str, unscored: list[str], errors: Mapping[str, str]) -> None:
        """Note what a task lacks: metrics without any score, and why, where that is known."""
        for name in dict.fromkeys([*unscored, *errors]):
            self.unscored.setdefault(name, Counter())[task] += 1
        self.errors = {**errors, **self.errors}

    def take_failures_of_answers(self, results: Mapping[str, Any]) -> None:
        """Note the same from the harness's results of saved answers."""
        from lm_eval_healthcare.results.results_file import SECTION, task_metadata, values_by_filter
        from lm_eval_healthcare.scoring.documents import METRIC_MISSING

        for task in results.get("configs", {}):
            section = task_metadata(results, task).get(SECTION) or {}
            values = [found for row in values_by_filter(results, task).values() for found in row.items()]
            without = [key.removesuffix("_coverage") for key, value in values if _is_uncovered(key, value)]
            known = [name for name in without if f"{METRIC_MISSING}:{name}" not in (section.get("reasons") or {})]
            self.take_failures(task, known, section.get("metric_errors") or {})

    def show(self) -> None:
        """Print the table, and the files that were written."""
        if self.rows:
            rows = [_shown(row) for row in self.rows]
            print(table(rows, _columns(rows)))
            print()
        for line in self.files[:_MOST_FILES]:
            print(line)
        if len(self.files) > _MOST_FILES:
            print(f"and {len(self.files) - _MOST_FILES} more")
        for line in self.remarks:
            print(line)

    def tell(self) -> None:
        """Say at the end what went wrong, one line a subject."""
        for name, tasks in self.unscored.items():
            why = f"failed ({self.errors[name]})" if name in self.errors else "has no score for any document"
            print(f"{name} {why}: {named(tasks)}", file=sys.stderr)
        if self.errors:
            print("mend the cause and give the same command again; what was computed is kept", file=sys.stderr)
        if n := len(self.faults):
            what = "1 file or line" if n == 1 else f"{n} files or lines"
            print(f"{what} could not be used, see above", file=sys.stderr)


def named(tasks: Mapping[str, int]) -> str:
    """Return the names of tasks, each with the number of its runs."""
    return ", ".join(
        f"{printable(task)} ({runs} runs)" if runs > 1 else printable(task) for task, runs in tasks.items()
    )


def _is_uncovered(key: str, value: Any) -> bool:
    return key.endswith("_coverage") and value == 0


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that say something: models, runs and filters only where there are several."""
    runs = {(row["model"], row["run"]) for row in rows}
    models = {model for model, _ in runs}
    needless = {"model"} if len(models) == 1 else set()
    needless |= {"run"} if len(runs) == len(models) else set()
    needless |= {"filter"} if {row["filter"] for row in rows} == {"none"} else set()
    needless |= {name for name in ("truncated", "seconds") if all(row.get(name) is None for row in rows)}
    return [column for column in _COLUMNS if column not in needless]


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        **{name: printable(row[name]) for name in _NAMES},
        **{name: _number(row[name]) for name in ("value", "stderr")},
        **{name: _share(row.get(name)) for name in ("coverage", "truncated")},
    }


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str | None:
    return None if value is None or math.isnan(value) else f"{value:.1%}"
