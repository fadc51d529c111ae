"""One number of a results file with everything that tells whether it may stand beside another: the tidy table's row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEAF, GROUP = "task", "group"
PRE_04, EARLY_04, CURRENT = "pre-0.4", "0.4.0-0.4.2", "0.4.3+"
"""Dialects of results files: bare keys; keys with filters but without counts; all later ones."""

Key = tuple[str, str, str, str]
"""Model, task, metric and filter: what there is one chosen value of."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of one metric.

    Attributes:
        model: The model's name, as the run gave it.
        task: The task's, or the group's, name.
        metric: The metric's name, without its filter.
        filter: The filter's name; `none` where a file knows of none.
        value: The value; NaN if there is none.
        stderr: Its standard error; NaN if it is not known (`N/A`, empty, null), never 0 for unknown.
        n: Documents that were scored, or None if the file does not say it.
        n_total: Documents that the task has, or None.
        coverage: Share of the documents with a score, from the metric's own `_coverage`; NaN if not told.
        higher_is_better: The direction; None if it is not known or children of a group disagree.
        n_shot: Few-shot examples, or None.
        template: Hash of the chat template; empty for none, None if it is not known.
        version: The task's version as a text, or None.
        signature: The metric's signature, where the file has one.
        prompt: Hash of questions and targets (`task_hashes`), where the file has one.
        revision: The model's revision, where the file says it.
        unusable: Why the run itself says that the value cannot be used; None if it does not.
        kind: `task` or `group`.
        dialect: That of the file.
        file: The results file.
        date: When the run began, in seconds since the epoch; NaN if neither file nor name tell it.
        extra: What else a reader may want: limit, gen_kwargs, harness version, `data` (`hub`, `folder` or `sample`),
            `part_of` (the metric of which this is the value for one category or one judge), `partial` (whether the run
            saw a part of the documents).
    """

    model: str
    task: str
    metric: str
    filter: str
    value: float
    stderr: float = math.nan
    n: int | None = None
    n_total: int | None = None
    coverage: float = math.nan
    higher_is_better: bool | None = None
    n_shot: int | None = None
    template: str | None = None
    version: str | None = None
    signature: str | None = None
    prompt: str | None = None
    revision: str | None = None
    unusable: str | None = None
    kind: str = LEAF
    dialect: str = CURRENT
    file: Path = Path()
    date: float = math.nan
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def key(self) -> Key:
        """What there is one chosen value of."""
        return self.model, self.task, self.metric, self.filter

    @property
    def complete(self) -> bool | None:
        """Whether all documents of the task were scored; None if the file does not say how many there are."""
        if self.extra.get("partial"):
            return False
        if self.n is None or self.n_total is None:
            return None
        return self.n >= self.n_total

    @property
    def scored(self) -> int | None:
        """Documents that have a score: `coverage` of `n`, or None if one of them is not known."""
        return None if self.n is None or math.isnan(self.coverage) else round(self.coverage * self.n)


@dataclass(frozen=True)
class SetAside:
    """A value that is not the chosen one of its key.

    Attributes:
        cell: The value.
        reason: Why not, in words: superseded, partial, another protocol, unusable, too little coverage, ...
    """

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Skipped:
    """A file that gives no values.

    Attributes:
        file: The file.
        reason: Why, in words.
        broken: Whether it should have been readable (cut, empty, not JSON), which `--strict` takes for an error; a file
            that is simply something else is not broken.
    """

    file: Path
    reason: str
    broken: bool = False


@dataclass
class Table:
    """Everything that lies below some paths.

    Attributes:
        cells: The chosen value of each key, in the order of model, task, metric, filter.
        set_aside: All other values, each with the reason.
        skipped: Files without values.
        notes: What a reader should know besides, such as a group's average that counts a task twice.
        files: Results files that were read, copies aside.
    """

    cells: list[Cell] = field(default_factory=list)
    set_aside: Sequence[SetAside] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0


@dataclass(frozen=True)
class Rules:
    """How one value of a key is chosen.

    Attributes:
        allow_partial: Whether runs over a part of the documents count, if there is no complete one.
        allow_legacy: Whether results of the harness before 0.4 count, which do not say their counts and versions.
        allow_unusable: Whether values count that the run itself marks as unusable.
        min_coverage: Least share of documents with a score, where it is told.
        groups: Whether values of groups are kept beside those of their tasks.
        strict_protocol: Whether values are set aside that were made in another way than those of most models.
        by_revision: Whether revisions of a model are models of their own, `model@revision`.
    """

    allow_partial: bool = False
    allow_legacy: bool = False
    allow_unusable: bool = False
    min_coverage: float = 0.95
    groups: bool = False
    strict_protocol: bool = False
    by_revision: bool = False


def read_table(
    paths: list[Path], rules: Rules | None = None, *, jobs: int | None = None, cache: Path | None = None
) -> Table:
    """Read every results file below some paths and choose one value of each key.

    Args:
        paths: Folders at any depth, and files.
        rules: How values are chosen.
        jobs: Processes that read; None for as many as pay.
        cache: A file that remembers what unchanged files held; None for the user's own.

    Raises:
        lm_eval_healthcare.results.results_file.ResultsError: If a path does not exist.
    """
    from lm_eval_healthcare.results.table import read_table as read

    return read(paths, rules or Rules(), jobs=jobs, cache=cache)
