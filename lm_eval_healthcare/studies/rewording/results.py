"""Results and samples of rewordings: each row holds the original and its rewordings in place of the one answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.judge.saved import SavedTask
from lm_eval_healthcare.results.derived import counts_of, derived_content
from lm_eval_healthcare.results.discovery import files_below
from lm_eval_healthcare.results.names import parse_results_name
from lm_eval_healthcare.results.repeated_answers import REWORDINGS
from lm_eval_healthcare.results.results_file import (
    REPHRASED,
    SECTION,
    TEXT_OUTPUT,
    ResultsError,
    read_results,
    task_config,
    task_metadata,
)
from lm_eval_healthcare.results.samples_file import SampleFile, completed
from lm_eval_healthcare.studies.rewording.outcome import ORIGINAL, Counts, Passage, Version

if TYPE_CHECKING:
    from lm_eval_healthcare.results.discovery import RunFiles
    from lm_eval_healthcare.results.texts import TextRow

_KEPT = ("benchmark", "prompt", "wording", "provenance", "chat")
_AT_ONCE = 200
Reword = Callable[[Sequence[Passage]], Iterator[tuple[bytes | None, list[Version]]]]
"""Returns for each answer its key, by which equal ones are known, and its rewordings."""


def is_reworded(content: Mapping[str, Any]) -> bool:
    """Say whether the content of a results file is that of rewordings, or was made from such a file."""
    return isinstance(content.get(REPHRASED), dict)


@dataclass
class RewordedTask:
    """One task whose answers were reworded.

    Attributes:
        saved: The task.
        rows: The rows of its sample file.
        passages: What was reworded, row by row.
        counts: What came of it; complete when `lines` has come to its end.
        example: Question, answer and a rewording, the first that there is.
        digest: A hash of the new rows; complete likewise.
    """

    saved: SavedTask
    rows: Sequence[TextRow]
    passages: Sequence[Passage]
    counts: Counts = field(default_factory=Counts)
    example: tuple[str, str, str] | None = None
    digest: str = ""

    def lines(self, reword: Reword) -> Iterator[dict[str, Any]]:
        """Yield the rows of the new sample file.

        Raises:
            ResultsError: If the file has changed since it was read.
        """
        path, digest = self.saved.path, hashlib.sha256()
        seen: set[bytes] = set()
        count, found = 0, reword(self.passages)
        for row, text, passage in zip(SampleFile(path), self.rows, self.passages, strict=False):
            if row.get("doc_id") != text.doc_id:
                break
            key, versions = next(found)
            self.counts.take(versions, key not in seen)
            seen |= set() if key is None else {key}
            new = _row(row, text, passage, versions)
            digest.update(json.dumps(new, default=str).encode())
            self._take_example(passage, versions)
            yield new
            count += 1
        if count != len(self.rows):
            raise ResultsError(f"{path}: the file has changed while it was reworded; give the same command again")
        self.digest = digest.hexdigest()

    def _take_example(self, passage: Passage, versions: Sequence[Version]) -> None:
        text = next((version.text for version in versions if version.text is not None), None)
        if self.example is None and text is not None:
            self.example = passage.question, passage.answer or "", text

    def without_texts(self) -> RewordedTask:
        """Return what results say of it, so that its rows need not stay in memory."""
        size = len({(row.doc_id, row.filter) for row in self.rows if row.filter == self.rows[0].filter})
        return RewordedTask(self.saved, range(size), (), self.counts, self.example, self.digest)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Derived:
    """A task as `derived_content` wants it: without scores."""

    task: RewordedTask

    @property
    def summary(self) -> dict[str, Any]:
        name = self.task.saved.task
        return {"name": name, "alias": name, "sample_len": len(self.task.rows)}

    @property
    def config(self) -> dict[str, Any]:
        """That of the run without what concerns its scores."""
        saved = self.task.saved
        config, metadata = task_config(saved.run.content, saved.task), task_metadata(saved.run.content, saved.task)
        section = metadata.get(SECTION)
        kept = {key: section[key] for key in _KEPT if key in section} if isinstance(section, dict) else {}
        return {
            "task": saved.task, "output_type": TEXT_OUTPUT, **config, "metric_list": [],
            "metadata": {**metadata, **({SECTION: kept} if kept else {})},
        }  # fmt: skip

    @property
    def higher_is_better(self) -> dict[str, bool]:
        return {}

    @property
    def counts(self) -> dict[str, Any]:
        return counts_of(self.task.saved.run, self.task.saved.task, len(self.task.rows))


def content(
    run: RunFiles, tasks: Sequence[RewordedTask], about: Mapping[str, Any], hashes: Mapping[str, str], started: float
) -> dict[str, Any]:
    """Return the results file of a run whose answers were reworded.

    Args:
        run: The run.
        tasks: Its tasks.
        about: How they were reworded: `by`, `n`, `settings`, `signature`.
        hashes: The `task_hashes` of the new rows.
        started: When the work began, in seconds since the epoch.
    """
    derived = derived_content(run, {task.saved.task: _Derived(task) for task in tasks}, hashes, started)
    counts = Counts()
    for task in tasks:
        counts.add(task.counts)
    return {
        **derived,
        REPHRASED: {
            "from": run.name, **about, "counts": counts.record(),
            "tasks": {task.saved.task: task.counts.record() for task in tasks}, "digests": digests(tasks),
        },
    }  # fmt: skip


def digests(tasks: Sequence[RewordedTask]) -> dict[str, str]:
    """Return the hashes of the rows of all tasks."""
    return {task.saved.task: task.digest for task in tasks}


def already_there(folder: Path, run: RunFiles, tasks: Sequence[RewordedTask], about: Mapping[str, Any]) -> Path | None:
    """Return the results file that says the same, if it is the newest of this run in a folder; else None.

    Args:
        folder: Where results go.
        run: The run whose answers were reworded.
        tasks: Its tasks, with their digests.
        about: How they were reworded.
    """
    stamped = [
        (stamp, path)
        for path in (files_below(folder, (".json",), []) if folder.is_dir() else ())
        if path.parent == folder and (stamp := parse_results_name(path.name)) is not None
    ]
    for stamp, path in sorted(stamped, reverse=True):
        try:
            found = read_results(path).get(REPHRASED)
        except ResultsError:
            continue
        if isinstance(found, dict) and found.get("from") == run.name:
            same = found.get("digests") == digests(tasks) and found.get("signature") == about["signature"]
            samples = [folder / f"samples_{task.saved.task}_{stamp}.jsonl" for task in tasks]
            return path if same and all(sample.is_file() for sample in samples) else None
    return None


def _row(row: Mapping[str, Any], text: TextRow, passage: Passage, versions: Sequence[Version]) -> dict[str, Any]:
    texts = [passage.answer, *(version.text for version in versions)]
    records = [{"version": 0, "by": ORIGINAL}, *(version.record() for version in versions)]
    return {
        **completed(row, text.filter), "resps": [texts], "filtered_resps": [texts], "metrics": [], REWORDINGS: records,
    }  # fmt: skip
