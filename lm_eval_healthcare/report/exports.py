"""What may leave as a result, under which file names, and how it is written: shared by all exports.

An export holds numbers, names and settings only. No question, answer, prompt or other text of a document reaches it,
from whatever task; what a cell carries besides its numbers is taken over field by field, never as a whole.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.results.cell import GROUP, PRE_04, Cell, Rules, Table
from lm_eval_healthcare.results.helper_metrics import is_helper
from lm_eval_healthcare.results.names import folder_name, printable
from lm_eval_healthcare.results.protocol import protocol
from lm_eval_healthcare.whole_file import whole_file

PARTIAL, COVERAGE, LEGACY, UNUSABLE, SAMPLE = "partial", "low coverage", "legacy", "unusable", "sample"
REMEDIES = {
    PARTIAL: "--allow-partial",
    COVERAGE: "--min-coverage",
    LEGACY: "--allow-legacy",
    UNUSABLE: "--allow-unusable",
    SAMPLE: "--allow-sample-data",
}
"""The option that lets a value pass in spite of what is wrong with it."""
OF_ONE_MODEL = ("template", "revision", "dtype")
"""What models have each for themselves: it may differ between those of one column."""
_HASH_LETTERS = 8


class ExportError(UserError, ValueError):
    """Results cannot be exported as asked; the message says what to do."""


@dataclass(frozen=True)
class Refused:
    """A value that is not exported.

    Attributes:
        cell: The value.
        reason: Why, in words.
        remedy: The option that would let it pass; empty if there is none.
    """

    cell: Cell
    reason: str
    remedy: str = ""

    def line(self) -> str:
        """Return one line for people."""
        where = " ".join(printable(part) for part in (self.cell.model, self.cell.task, self.cell.metric))
        name = "" if self.cell.filter == "none" else f" [{printable(self.cell.filter)}]"
        return f"left out: {where}{name}: {printable(self.reason)}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(frozen=True)
class Document:
    """A file to be written.

    Attributes:
        path: Where, below the folder of the export.
        text: Its content.
    """

    path: PurePosixPath
    text: str


@dataclass
class Exported:
    """What an export made of some cells.

    Attributes:
        documents: The files.
        refused: Values that the format cannot hold.
        left_out: What else is left out, such as whole models, in words.
        notes: What a user should know besides.
    """

    documents: list[Document] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def flaws(cell: Cell, min_coverage: float = Rules.min_coverage) -> dict[str, str]:
    """Return what is wrong with a value, by kind, in words that carry no text of a document."""
    found = {}
    if cell.dialect == PRE_04:
        found[LEGACY] = "written by a harness before 0.4, which tells neither versions nor counts"
    if cell.unusable is not None:
        found[UNUSABLE] = "marked as unusable by its own run"
    if cell.extra.get("data") == SAMPLE:
        found[SAMPLE] = "measured on the packaged sample questions, not on the benchmark"
    if cell.complete is False:
        counted = cell.n is not None and cell.n_total is not None
        found[PARTIAL] = f"only {cell.n} of {cell.n_total} documents" if counted else "only a part of the documents"
    if cell.coverage < min_coverage:
        found[COVERAGE] = f"only {cell.coverage:.1%} of the documents have a score, less than {min_coverage:.1%}"
    return found


def admitted(
    table: Table, rules: Rules, *, parts: bool = False, sample: bool = False
) -> tuple[list[Cell], list[Refused]]:
    """Split a table into what may be exported and what may not.

    Args:
        table: As `results.cell.read_table` gives it; every value is checked again, by whatever rules it was read.
        rules: What is allowed.
        parts: Whether values for one category or one judge are taken too.
        sample: Whether values on the packaged sample questions are.

    Returns:
        The values in the table's order, and the refused ones. What was set aside is among these only if its key has no
        chosen value: what is superseded is nobody's loss.
    """

    def counts(cell: Cell) -> bool:
        of_all = parts or not cell.extra.get("part_of")
        return of_all and not is_helper(cell.metric, ()) and (cell.kind != GROUP or rules.groups)

    passed, refused = [], []
    for cell in filter(counts, table.cells):
        refusal = _refusal(cell, rules, sample)
        if refusal is None:
            passed.append(cell)
        else:
            refused.append(refusal)
    seen = {cell.key for cell in table.cells}
    for aside in sorted(table.set_aside, key=lambda one: one.cell.date if math.isfinite(one.cell.date) else -math.inf):
        if aside.cell.key not in seen and counts(aside.cell):
            refused.append(_refusal(aside.cell, rules, sample) or Refused(aside.cell, aside.reason))
    return passed, list({one.cell.key: one for one in refused}.values())


def _refusal(cell: Cell, rules: Rules, sample: bool) -> Refused | None:
    """Say why a value may not be exported, or return None if it may."""
    if not math.isfinite(cell.value):
        return Refused(cell, f"the value is {cell.value}, no number")
    allowed = {
        PARTIAL: rules.allow_partial, LEGACY: rules.allow_legacy, UNUSABLE: rules.allow_unusable, SAMPLE: sample,
    }  # fmt: skip
    found = {kind: text for kind, text in flaws(cell, rules.min_coverage).items() if not allowed.get(kind, False)}
    return Refused(cell, "; ".join(found.values()), ", ".join(REMEDIES[kind] for kind in found)) if found else None


def renamed(cells: Sequence[Cell], names: Mapping[str, str]) -> list[Cell]:
    """Return cells with other names of models, such as the hub's id in place of a local path.

    Raises:
        ExportError: If a model is not there, or two models would become one.
    """
    models = {cell.model for cell in cells}
    if unknown := sorted(set(names) - models):
        raise ExportError(f"--rename {printable(unknown[0])}: no such model; there are {_some(map(printable, models))}")
    if len({names.get(model, model) for model in models}) < len(models):
        raise ExportError("--rename gives two models one name; give each its own")
    return [replace(cell, model=names.get(cell.model, cell.model)) for cell in cells]


def differences(cells: Iterable[Cell], aside: Collection[str] = OF_ONE_MODEL) -> list[str]:
    """Return in which respects values were measured differently, as far as the files tell; none if they compare.

    What a file does not tell is not held against it.

    Args:
        cells: The values.
        aside: Properties, as `results.protocol.protocol` names them, that may differ.
    """
    models: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for name, value in protocol(cell).items():
            if name not in aside:
                models[name][value].append(printable(cell.model))
    return [
        f"{name} {', '.join(f'{_short(value)} ({_some(set(who))})' for value, who in sorted(found.items()))}"
        for name, found in models.items()
        if len(found) > 1
    ]


def _short(text: str, most: int = 60) -> str:
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def _some(names: Iterable[str], most: int = 5) -> str:
    listed = sorted(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def by_model(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each model, in their order."""
    found: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[cell.model].append(cell)
    return dict(found)


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for a file or folder for each of some names, different also where case does not count."""
    plain = {name: folder_name(name) for name in dict.fromkeys(names)}
    count: dict[str, int] = defaultdict(int)
    for safe in plain.values():
        count[safe.casefold()] += 1
    return {name: safe if count[safe.casefold()] == 1 else f"{safe}-{digest(name)}" for name, safe in plain.items()}


def digest(text: str) -> str:
    """Return a short hash that tells names apart."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_HASH_LETTERS]


def clean(text: str) -> str:
    """Return a name as a file can hold it: what UTF-8 does not have, and control characters, as escapes."""
    return printable(text)


def percent(value: float) -> float:
    """Return a share in percent: the same decimal digits, the point moved, so that nothing is rounded on the way."""
    return float(Decimal(repr(float(value))).scaleb(2))


def utc(seconds: float) -> str | None:
    """Return a time in ISO 8601, in UTC; None if it is not known."""
    if not math.isfinite(seconds):
        return None
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def write(documents: Sequence[Document], out: Path, force: bool = False) -> list[Path]:
    """Write files, each whole or not at all.

    Args:
        documents: The files.
        out: The folder below which they go.
        force: Whether files that are there are replaced.

    Raises:
        ExportError: If a file is there and must not be replaced, in which case nothing is written; or if the folder
            cannot be written.
    """
    paths = [out.joinpath(*document.path.parts) for document in documents]
    if there := [path for path in paths if path.exists() or path.is_symlink()]:
        if not force:
            raise ExportError(
                f"{printable(there[0])} is there" + (f", and {len(there) - 1} more" if there[1:] else "") +
                "; nothing was written. Choose another -o, or replace with --force"
            )  # fmt: skip
        if folders := [path for path in there if path.is_dir()]:
            raise ExportError(f"{printable(folders[0])} is a folder where a file would go; choose another -o")
    for path, document in zip(paths, documents, strict=True):
        try:
            with whole_file(path) as part:
                part.write_text(document.text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise ExportError(f"{printable(path)}: cannot be written ({error}); choose another -o") from error
    return paths
