"""Reading what judges said of answers from the sample files that `judge` and runs with a judge have written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.judge.outcome import METRIC
from lm_eval_healthcare.results.discovery import RunFiles, files_below, find
from lm_eval_healthcare.results.names import parse_results_name
from lm_eval_healthcare.results.reasoning import without_reasoning
from lm_eval_healthcare.results.references import references
from lm_eval_healthcare.results.results_file import SECTION, ResultsError, task_config, task_metadata
from lm_eval_healthcare.results.samples_file import SampleFile, document_hash, prediction

_RUBRIC = re.compile(r"\|rubric:[^|]*")
Key = tuple[str, str, str, str]
"""Model, task, filter and document."""


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer and one judge's score of it.

    Attributes:
        model: The model that wrote it.
        task: The task.
        filter: The filter after which it was judged.
        doc_id: The document's number in its run.
        document: A hash of the document.
        score: The score; NaN for none.
        answer: The answer, or None.
        reference: The first reference, or None.
    """

    model: str
    task: str
    filter: str
    doc_id: Any
    document: str
    score: float
    answer: str | None
    reference: str | None

    @property
    def key(self) -> Key:
        """What tells the answer from others."""
        return self.model, self.task, self.filter, f"{self.doc_id}|{self.document}"


def read_judged(paths: Sequence[Path]) -> dict[str, list[JudgedAnswer]]:
    """Read judged answers below folders, or from results files.

    Where the same judge has judged an answer several times, the newest counts.

    Args:
        paths: Folders or results files.

    Returns:
        The answers by the judge's name, with what else its scores depend on where that alone would not tell it.

    Raises:
        ResultsError: If a path does not exist or a sample file cannot be read.
    """
    found: dict[tuple[str, str], dict[Key, JudgedAnswer]] = {}
    for run in sorted(_runs(paths), key=lambda run: run.stamp):
        for task, path in run.samples.items():
            section = task_metadata(run.content, task).get(SECTION)
            about = section.get("judge") if isinstance(section, dict) else None
            if isinstance(about, dict):
                for judge, answers in _of_file(run, task, path, about):
                    found.setdefault(judge, {}).update({one.key: one for one in answers})
    judges = _across_tasks(found)
    names = [model for model, _ in judges]
    return {
        model if names.count(model) == 1 else f"{model} ({signature})": list(answers.values())
        for (model, signature), answers in judges.items()
    }


def _across_tasks(
    found: Mapping[tuple[str, str], dict[Key, JudgedAnswer]],
) -> dict[tuple[str, str], dict[Key, JudgedAnswer]]:
    """Make one judge of those that differ in the rubric alone, since each task has its own.

    They stay apart if a task was judged by several rubrics.
    """
    same: dict[tuple[str, str], list[str]] = {}
    for model, signature in found:
        same.setdefault((model, _RUBRIC.sub("", signature)), []).append(signature)
    judges: dict[tuple[str, str], dict[Key, JudgedAnswer]] = {}
    for (model, settings), signatures in same.items():
        parts = [found[model, signature] for signature in signatures]
        tasks = [task for part in parts for task in {key[1] for key in part}]
        if len(set(tasks)) < len(tasks):
            judges.update({(model, signature): found[model, signature] for signature in signatures})
        else:
            judges[model, settings] = {key: one for part in parts for key, one in part.items()}
    return judges


def _runs(paths: Sequence[Path]) -> list[RunFiles]:
    """Find runs, those that were made from others that are here among them."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += [file for file in files_below(path, (".json",), []) if parse_results_name(file.name) is not None]
        else:
            files.append(path)
    return find(list(dict.fromkeys(files))).runs


def _of_file(
    run: RunFiles, task: str, path: Path, about: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str], list[JudgedAnswer]]]:
    judges = [judge for judge in about.get("judges") or [] if isinstance(judge, dict)]
    target = task_config(run.content, task).get("doc_to_target")
    rows = list(SampleFile(path))
    for judge in judges:
        column = METRIC if len(judges) == 1 else f"{METRIC}_{judge.get('label')}"
        yield (
            (str(judge.get("model")), str(judge.get("signature"))),
            [_answer(run, task, row, column, target if isinstance(target, str) else None) for row in rows],
        )


def _answer(run: RunFiles, task: str, row: Mapping[str, Any], column: str, target: str | None) -> JudgedAnswer:
    score, known, text = row.get(column), references(row, target), prediction(row)
    return JudgedAnswer(
        model=run.model,
        task=task,
        filter=str(row.get("filter")),
        doc_id=row.get("doc_id"),
        document=document_hash(row),
        score=float(score) if isinstance(score, int | float) else math.nan,
        answer=None if text is None else without_reasoning(text).text,  # as the judge saw it
        reference=(known[0] if known else None) if isinstance(known, list) else known,
    )


def refuse_none(judged: Mapping[str, Sequence[JudgedAnswer]], paths: Sequence[Path]) -> None:
    """Refuse paths without judged answers.

    Raises:
        ResultsError: If there are none.
    """
    if not any(judged.values()):
        raise ResultsError(
            f"{', '.join(map(str, paths))}: no judged answers there; judge them first with `lm-eval-healthcare judge`, "
            "or in a run with judge=... and --log_samples"
        )
