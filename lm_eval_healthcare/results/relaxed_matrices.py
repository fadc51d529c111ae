"""Finding the matrices of Relaxed Perplexity in results: in files of their own, sample logs and saved answers.

The same run may have left them in all three; then the file of matrices is taken, else the samples, else the answers.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import logging
import math
import os
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix
from lm_eval_healthcare.relaxed_perplexity.matrix_file import (
    SUFFIX,
    About,
    Document,
    MatrixFile,
    MatrixFileError,
    is_matrix_file,
    read,
)
from lm_eval_healthcare.relaxed_perplexity.settings import PREFIX, Settings
from lm_eval_healthcare.results import discovery
from lm_eval_healthcare.results.names import model_name, printable
from lm_eval_healthcare.results.results_file import SECTION, ResultsError, task_metadata
from lm_eval_healthcare.results.samples_file import SampleFile

logger = logging.getLogger(__name__)

SETTINGS = "settings"
"""The key, in a response, of how it was measured."""
RELAXED = "relaxed_perplexity"
"""The key of the settings in a task's section of a results file."""
_MARK = "stride"
_PEEKED = 20
_CHAT = re.compile(r"\|chat:(on|off)\|")


class Source(ABC):
    """The matrices of one task of one run.

    Attributes:
        path: The file, the first one if there are several.
        about: What is known of all of them.
    """

    path: Path
    about: About

    @abstractmethod
    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of their numbers or of the file.

        Raises:
            UserError: If something in a file is damaged.
        """

    def fingerprint(self) -> str:
        """Return what is equal for matrices of the same measurement, wherever they lie and in whatever order.

        Documents are known by their seeds and numbers of many digits: they are not counted alike in all files.

        Raises:
            UserError: If something in a file is damaged.
        """
        found = []
        for document in self.documents():
            matrix = document.matrix
            for group, target in zip(document.groups, matrix.targets, strict=True):
                digest = hashlib.sha256(f"{matrix.seed} {matrix.lengths} {group} {target.length}".encode())
                digest.update(np.asarray(matrix.log_p_samples, dtype=np.float64).tobytes())
                digest.update(target.log_p.tobytes())
                found.append(digest.digest())
        return hashlib.sha256(b"".join(sorted(found))).hexdigest()


class OwnFile(Source):
    """A file of matrices."""

    def __init__(self, file: MatrixFile) -> None:
        """Take an opened file."""
        self.path, self.about, self._file = file.path, file.about, file

    def documents(self) -> Iterator[Document]:
        """Yield the documents of the file."""
        return self._file.documents()


class Responses(Source):
    """Responses in sample logs or saved answers, of one file or, of several ranks, of several."""

    def __init__(self, files: Sequence[Path], about: About) -> None:
        """Take the files of one task."""
        self.path, self.about, self._files = files[0], about, files

    def documents(self) -> Iterator[Document]:
        """Yield the documents, each once."""
        for path, row, response in self._rows():
            yield _document(path, row, response)

    def _rows(self) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
        seen: set[Any] = set()
        without = 0
        for path in self._files:
            file = SampleFile(path)
            for row in file:
                if (response := _response(row)) is None:
                    without += 1
                elif row.get("doc_id") not in seen:  # a row for each filter
                    seen.add(row.get("doc_id"))
                    yield path, row, response
            if file.cut:
                logger.warning(file.cut)
        if without:
            logger.warning("%s: %d rows hold no matrix and were skipped", printable(self.path), without)


@dataclass
class Matrices:
    """What lies below some paths.

    Attributes:
        sources: The matrices, by task, model and date, each measurement once.
        faults: Files that cannot be used, each with the reason.
        repeated: How many sources were left out since another one holds the same numbers.
    """

    sources: list[Source] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    repeated: int = 0


def find(paths: Sequence[Path]) -> Matrices:
    """Find matrices below folders and in files.

    Args:
        paths: Files of matrices (.parquet); sample logs; results files; folders of saved answers; folders at any depth
            above all these.

    Raises:
        UserError: If a path does not exist or is a file of another kind.
    """
    found = Matrices()
    sources: list[Source] = []
    for path in paths:
        _refuse_other_kinds(path)
        if path.suffix == SUFFIX and not path.is_dir():
            sources.append(OwnFile(read(path)))
        elif path.is_dir():
            sources += _own_files(path, found.faults)
    others = discovery.find([path for path in paths if path.suffix != SUFFIX or path.is_dir()])
    found.faults += others.faults
    for run in others.runs:
        sources += _of_run(run, found.faults)
    for folder in others.answers:
        sources += _of_answers(folder, others.answered.get(folder), found.faults)
    sources = list({os.path.realpath(source.path): source for source in sources}.values())
    found.sources = _each_once(sources, found)
    found.sources.sort(key=lambda source: (source.about.task, source.about.model, source.about.date))
    return found


def _refuse_other_kinds(path: Path) -> None:
    looked_for = (
        f"Give a file of matrices (relaxed_*{SUFFIX}), a folder of results that holds such files, or sample logs or "
        "saved answers of tasks of Relaxed Perplexity"
    )
    if not path.exists():
        raise ResultsError(f"{printable(path)}: no such file or folder. {looked_for}")
    if not path.is_dir() and path.suffix not in (SUFFIX, ".json", ".jsonl"):
        raise ResultsError(f"{printable(path)}: a file of another kind. {looked_for}")


def _own_files(folder: Path, faults: list[str]) -> Iterator[Source]:
    for path in discovery.files_below(folder, (SUFFIX,), faults):
        try:
            if is_matrix_file(path):
                yield OwnFile(read(path))
        except MatrixFileError as error:
            faults.append(str(error))


def _of_run(run: discovery.RunFiles, faults: list[str]) -> Iterator[Source]:
    for task, path in run.samples.items():
        metadata = task_metadata(run.content, task)
        chat = _chat(run, metadata)
        versions = {
            "lm_eval_version": str(run.content.get("lm_eval_version") or ""),
            "lm_eval_healthcare_version": str((metadata.get(SECTION) or {}).get("version") or ""),
        }
        with _faults_noted(faults):
            response = _first_response(path)
            if response is None:
                if run.one_of_several:
                    faults.append(f"{printable(path)}: no matrices of Relaxed Perplexity in it; it is left out")
                continue
            settings = _settings(path, response, metadata)
            yield Responses([path], About(task, run.model, settings, date=run.stamp, chat=chat, **versions))


def _chat(run: discovery.RunFiles, metadata: Mapping[str, Any]) -> bool | None:
    """Say whether the task's prompts had a chat template: a task may go without the one of its run."""
    signatures = (metadata.get(SECTION) or {}).get("signatures") or {}
    for signature in signatures.values():
        if found := _CHAT.search(str(signature)):
            return found[1] == "on"
    return bool(run.content["chat_template"]) if "chat_template" in run.content else None


def _of_answers(folder: Path, only: Sequence[str] | None, faults: list[str]) -> Iterator[Source]:
    files: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        task = unquote(path.stem).partition(".rank")[0]
        if only is None or task in only:
            files[task].append(path)
    run = json.loads((folder / discovery.ANSWERS_FILE).read_bytes())
    for task, paths in files.items():
        about = (run.get("tasks") or {}).get(task) or {}
        with _faults_noted(faults):
            response = _first_response(paths[0])
            if response is None:
                continue
            settings = _settings(paths[0], response, {**(about.get("metadata") or {}), **(about.get("options") or {})})
            yield Responses(
                paths,
                About(
                    task, model_name({"config": run.get("arguments")}) or folder.name, settings,
                    date=str(run.get("date") or ""), chat=about.get("chat"),
                    lm_eval_version=str(run.get("lm_eval_version") or ""),
                    lm_eval_healthcare_version=str(run.get("lm_eval_healthcare_version") or ""),
                ),
            )  # fmt: skip


class _faults_noted:
    """Notes the fault of one file, so that the others are still read."""

    def __init__(self, faults: list[str]) -> None:
        self._faults = faults

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, ResultsError):
            self._faults.append(str(error))
            return True
        return False


def _first_response(path: Path) -> dict[str, Any] | None:
    rows = itertools.islice(SampleFile(path), _PEEKED)
    return next((found for row in rows if (found := _response(row)) is not None), None)


def _settings(path: Path, response: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
    section = metadata.get(SECTION) if isinstance(metadata.get(SECTION), dict) else {}
    for found in (response.get(SETTINGS), (section or {}).get(RELAXED)):
        if isinstance(found, dict) and _MARK in found:
            return Settings.from_dict(found)
    options = {name: value for name, value in metadata.items() if str(name).startswith(PREFIX)}
    if not options:
        raise ResultsError(
            f"{printable(path)}: how its matrices were measured is not known; put the results file of the run beside "
            "it, or give the run's .parquet file. It is left out"
        )
    try:
        return Settings.from_options(options)
    except ValueError as error:
        raise ResultsError(f"{printable(path)}: {error}; it is left out") from error


def _document(path: Path, row: Mapping[str, Any], response: Mapping[str, Any]) -> Document:
    try:
        return Document(int(row["doc_id"]), Matrix.from_response(response))
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{printable(path)}, document {row.get('doc_id')}: {error}") from error


def _response(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the matrix in a row as JSON values, or None; the harness writes what is not a list as text."""
    for key in ("resps", "filtered_resps"):
        value = row.get(key)
        while isinstance(value, list) and value:
            value = value[0]
        content = _parsed(value) if isinstance(value, str) else value
        if isinstance(content, dict) and "targets" in content and "position" in content:
            return content
    return None


def _parsed(text: str) -> Any:
    if not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(_Numbers().visit(ast.parse(text, mode="eval")))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


class _Numbers(ast.NodeTransformer):
    """Python's own notation has no literal for NaN and infinity."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        number = {"nan": math.nan, "inf": math.inf}.get(node.id)
        return node if number is None else ast.copy_location(ast.Constant(number), node)


def _each_once(sources: Iterable[Source], found: Matrices) -> list[Source]:
    """Leave out what another source holds too; the first one stays, and files of matrices come first."""
    by_task: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_task[source.about.task].append(source)
    kept: list[Source] = []
    for several in by_task.values():
        if len(several) == 1:
            kept += several
            continue
        seen: set[str] = set()
        for source in several:
            try:
                mark = source.fingerprint()
            except UserError as error:
                found.faults.append(str(error))
                continue
            if mark in seen:
                found.repeated += 1
                continue
            seen.add(mark)
            kept.append(source)
    return kept
