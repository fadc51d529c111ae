"""Scoring saved answers for `score`: folder by folder, through the harness."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.results.names import model_name, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lm_eval_healthcare.cli.score_outcome import Outcome
    from lm_eval_healthcare.results.discovery import Found
    from lm_eval_healthcare.scoring.saved_samples import Wishes

logger = logging.getLogger("lm_eval_healthcare")

_TELLS_PAIRS = "lm_eval_healthcare.harness.text_metrics"  # how many pairs of each task were computed


def score_answers(
    args: argparse.Namespace, found: Found, wishes: Wishes, options: dict[str, Any], outcome: Outcome
) -> None:
    """Score saved answers that have no samples; what is wrong with a folder costs this folder alone.

    Raises:
        UserError: If the only thing that there is to score cannot be.
    """
    alone = len(found.answers) == 1 and not found.runs
    logging.getLogger(_TELLS_PAIRS).setLevel(logging.INFO)
    for folder in found.answers:
        tasks = _tasks(args, found, wishes, folder)
        if tasks == []:
            continue
        try:
            output, results = _score_folder(args, folder, options, tasks)
        except UserError as error:
            if alone:
                raise
            outcome.fault(str(error))
        except Exception as error:
            if alone:
                raise
            logger.debug("%s", folder, exc_info=error)
            outcome.fault(f"{printable(folder)}: cannot be scored ({type(error).__name__}: {error})")
        else:
            outcome.done += 1
            outcome.rows += result_rows(results)
            outcome.files.append(f"results and samples: {printable(output)}")
            outcome.take_failures_of_answers(results)


def _tasks(args: argparse.Namespace, found: Found, wishes: Wishes, folder: Path) -> list[str] | None:
    """Return the tasks of a folder that are to be scored; None for all, also those that nobody can see from outside."""
    from lm_eval_healthcare.results.discovery import answered_tasks
    from lm_eval_healthcare.scoring.unscored_answers import wanted, with_samples

    tasks = answered_tasks(folder)
    asked = [task for task in tasks if task in found.answered.get(folder, tasks)]
    named = folder in args.paths or folder in found.answered
    logged = [] if named else with_samples(folder, tasks, found.runs)
    if logged:
        names = ", ".join(map(printable, logged[:3])) + (f" and {len(logged) - 3} more" if len(logged) > 3 else "")
        print(f"{printable(folder)}: the samples of {names} are scored, not these answers", file=sys.stderr)
    left = [task for task in wanted(folder, asked, wishes) if task not in logged]
    return None if left == tasks else left


def _score_folder(
    args: argparse.Namespace, folder: Path, options: dict[str, Any], tasks: list[str] | None
) -> tuple[Path, dict[str, Any]]:
    """Score one folder as in the run; return where results were written, and the harness's results."""
    from lm_eval_healthcare.harness.replay import score_saved_run

    metadata = {"metrics_device": "auto", **options}  # a run may have left its metrics for later; now is later
    return score_saved_run(folder, args.output_dir, metadata, args.partial, args.include_path, tasks)


def result_rows(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table for the harness's results: metrics of tasks and of groups, without categories."""
    from lm_eval_healthcare.results.results_file import SCORED_FROM, SECTION, task_metadata, values_by_filter

    run = str((results.get("config") or {}).get(SCORED_FROM))
    for kind in ("results", "groups"):
        for task in results.get(kind) or {}:
            values = results[kind][task]
            signed = (task_metadata(results, task).get(SECTION) or {}).get("signatures") or {}
            counts = (results.get("n-samples") or {}).get(task) or {}
            for name, found in values_by_filter({"results": results[kind]}, task).items():
                for metric in [one for one in found if one in signed or (not signed and _is_score(one))]:
                    yield {
                        "model": model_name(results) or run, "run": run, "task": task, "filter": name,
                        "n": counts.get("effective") or values.get("sample_len"), "metric": metric,
                        "value": found[metric], "stderr": values.get(f"{metric}_stderr,{name}"),
                        "coverage": found.get(f"{metric}_coverage"), "truncated": found.get(f"{metric}_truncated"),
                    }  # fmt: skip


def _is_score(key: str) -> bool:
    return not key.endswith(("_coverage", "_truncated"))
