"""What `rephrase` prints: a table by task, why texts were turned down, an example."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import nothing_matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.judge.saved import Plan
    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.studies.rewording.rephrase import WrittenRun
    from lm_eval_healthcare.studies.rewording.results import RewordedTask

_MOST_FILES = 10
_MOST_REASONS = 4
_SHOWN = 400  # characters of an example


@dataclass
class Outcome:
    """What came of all runs.

    Attributes:
        runs: The runs.
        failure_limit: Share of rewordings that may be missing.
        by_rules: Whether rules reworded, which change nothing in many answers.
    """

    runs: Sequence[WrittenRun]
    failure_limit: float
    by_rules: bool = False

    @property
    def tasks(self) -> list[RewordedTask]:
        """The tasks of all runs."""
        return [task for run in self.runs for task in run.tasks]

    @property
    def share_missing(self) -> float:
        """Share of the rewordings that are missing."""
        from lm_eval_healthcare.studies.rewording.outcome import Counts

        counts = Counts()
        for task in self.tasks:
            counts.add(task.counts)
        return counts.share_missing

    @property
    def nothing(self) -> bool:
        """Whether there is no rewording at all."""
        return not any(task.counts.accepted for task in self.tasks)

    @property
    def failed(self) -> bool:
        """Whether nothing was reworded, or too much is missing."""
        return self.nothing or (not self.by_rules and self.share_missing > self.failure_limit)

    def show(self, as_json: bool) -> None:
        """Print it."""
        from lm_eval_healthcare.cli.tables import print_json

        if as_json:
            print_json(self.record())
        else:
            self._show_table()
        if self.nothing:
            print("lm-eval-healthcare: nothing was reworded; see above for the reasons", file=sys.stderr)
        elif self.failed:
            print(
                f"FAILED: {self.share_missing:.0%} of the rewordings are missing, more than --failure-limit "
                f"{self.failure_limit:g}; take a better model, or more --attempts",
                file=sys.stderr,
            )

    def record(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "command": "rephrase",
            "failed": self.failed,
            "share_missing": self.share_missing,
            "runs": [
                {
                    "model": run.run.model, "from": run.run.name, "new": run.new,
                    "results": None if run.results is None else str(run.results),
                    "tasks": {task.saved.task: task.counts.record() for task in run.tasks},
                }
                for run in self.runs
            ],
        }  # fmt: skip

    def _show_table(self) -> None:
        from lm_eval_healthcare.cli.tables import table

        rows = [_row(task) for task in self.tasks]
        if rows:
            needless = {"model"} if len({row["model"] for row in rows}) == 1 else set()
            needless |= {"asked", "most turned down"} if self.by_rules else {"why missing"}
            needless |= {c for c in ("blank", "too long") if not any(row[c] for row in rows)}
            print(table(rows, [column for column in rows[0] if column not in needless]))
            print()
        self._show_example()
        for run in self.runs[:_MOST_FILES]:
            if run.results is not None:
                print(f"results: {run.results}" + ("" if run.new else ", which says all this already"))
        if len(self.runs) > _MOST_FILES:
            print(f"and {len(self.runs) - _MOST_FILES} more")

    def _show_example(self) -> None:
        """Show one answer with a rewording; texts of credentialed data are not for terminals, which keep them."""
        for task in self.tasks:
            if task.example is not None and not task.saved.credentialed:
                _, answer, text = task.example
                print(f"an answer ({task.saved.task}):\n{_short(answer)}\nin other words:\n{_short(text)}\n")
                return


def why_nothing(found: Found, planned: Plan) -> str:
    """Say why there is nothing to reword."""
    if planned.unmatched:
        return nothing_matches(found.runs)
    if found.answers and not found.runs:
        return (
            "These are saved answers; make samples of them first: lm-eval-healthcare score "
            f"{found.answers[0]} --metrics ngram -o FOLDER"
        )
    if not any(run.samples for run in found.runs):
        return "There are no samples_*.jsonl there; a run logs samples with --log_samples"
    return "See above for the reasons"


def _row(task: RewordedTask) -> dict[str, Any]:
    from lm_eval_healthcare.results.names import printable

    counts = task.counts
    return {
        "model": printable(task.saved.run.model),
        "task": printable(task.saved.task),
        "answers": counts.answers,
        "blank": counts.not_reworded.get("blank_answer", 0),
        "too long": counts.not_reworded.get("too_long", 0),
        "accepted": counts.accepted,
        "missing": counts.missing,
        "asked": counts.asked,
        "most turned down": _most(counts.rejected),
        "why missing": _most(counts.absent),
    }


def _most(counts: Any) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counts.most_common(_MOST_REASONS) if n)


def _short(text: str) -> str:
    from lm_eval_healthcare.results.names import printable

    plain = printable(" ".join(text.split()))
    shown = plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "..."
    return textwrap.fill(shown, 110, initial_indent="  ", subsequent_indent="  ")
