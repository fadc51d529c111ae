"""The documents of tasks as a model will be asked about them, without a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_healthcare.data.row_files import write_part
from lm_eval_healthcare.harness.command_line import split_names
from lm_eval_healthcare.harness.manager import build_task_manager, leaves, user_folders
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.task import HealthcareTask

FEWSHOT_SEED = 1234  # the harness's default


@dataclass(frozen=True)
class Exported:
    """One file of exported documents."""

    task: str
    path: Path
    documents: int
    wording: str
    source: str


def export(
    names: Sequence[str],
    folder: Path,
    metadata: Mapping[str, Any],
    include_path: Sequence[str] = (),
    num_fewshot: int = 0,
    limit: int | None = None,
    keep_text: bool = False,
) -> list[Exported]:
    """Write `<task>.prompts.jsonl` for every task.

    Args:
        names: Names or patterns of the pack's tasks, groups and tags, and of the user's own.
        folder: Where the files go; made if needed.
        metadata: The options that a run would be given.
        include_path: The user's own task folders.
        num_fewshot: Number of examples before each question, drawn as the harness does with its default seed.
        limit: Only the first documents of each task.
        keep_text: Whether data that need credentials may be written too.

    Raises:
        OptionError: If a name is unknown, an option or the rows cannot be used, data need credentials, or the folder
            cannot be written.
    """
    if num_fewshot < 0 or (limit is not None and limit < 1):
        raise OptionError(f"num_fewshot={num_fewshot}, limit={limit}: expected at least 0 examples and 1 document")
    options = {**metadata, "metrics": "bleu"}  # nothing is scored, so no metric's model has to be here
    manager = build_task_manager(user_folders(list(include_path)), options, include_defaults=False)
    given = split_names(names)
    missing = [name for name in given if not manager.match_tasks([name])]
    if missing:
        raise OptionError(f"tasks not found: {', '.join(missing)}; `lm-eval-healthcare list` shows the pack's")
    matched = list(dict.fromkeys(leaves(manager, [match for name in given for match in manager.match_tasks([name])])))
    tasks = []
    for name in matched:
        try:
            task = manager.load([name])["tasks"][name]
        except ValueError as error:
            raise OptionError(str(error)) from error
        if not isinstance(task, HealthcareTask):
            raise OptionError(f"{name} is not a task of the pack; the harness's own `lm_eval` shows its prompts")
        if task.facts.credentialed and not keep_text and task.provenance.get("source") != "sample":
            raise OptionError(
                f"{name}: {task.facts.benchmark} may only be used by people with credentials for it, and the export "
                "would hold its texts. If the files stay on this machine, add --keep-text"
            )
        tasks.append(task)
    return [_write(task, folder, num_fewshot, limit) for task in tasks]


def exported_documents(
    task: HealthcareTask, num_fewshot: int = 0, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the documents of a task as they will be asked.

    Returns:
        `task`, `row` (the harness's doc_id), `id` (the benchmark's own, or None), `prompt`, `choices` (None for free
        text), `target` (the right choice's text, or the reference answer or answers), `target_index` (None for free
        text) and `target_delimiter` (what the harness puts between prompt and choice).
    """
    if num_fewshot:
        task.set_config("num_fewshot", num_fewshot)
        task.set_fewshot_seed(FEWSHOT_SEED)
    for row, doc in enumerate(task.eval_docs):
        if limit is not None and row >= limit:
            return
        multiple_choice = task.OUTPUT_TYPE == "multiple_choice"
        choices = [str(choice) for choice in task.doc_to_choice(doc)] if multiple_choice else None
        target, index = _target(task.doc_to_target(doc), choices)
        yield {
            "task": task.task_name,
            "row": row,
            "id": doc.get(task.facts.id_column) if task.facts.id_column else None,
            "prompt": task.fewshot_context(doc, num_fewshot),
            "choices": choices,
            "target": target,
            "target_index": index,
            "target_delimiter": task.config.target_delimiter,
        }


def _target(target: Any, choices: list[str] | None) -> tuple[Any, Any]:
    """The target as text, and its place among the choices."""
    if choices is None:
        return target, None
    if isinstance(target, list | tuple):
        pairs = [_target(one, choices) for one in target]
        return [text for text, _ in pairs], [place for _, place in pairs]
    if isinstance(target, str):
        return target, choices.index(target) if target in choices else None
    return choices[target], int(target)


def _write(task: HealthcareTask, folder: Path, num_fewshot: int, limit: int | None) -> Exported:
    path = folder / f"{str(task.task_name).replace('/', '_')}.prompts.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with write_part(path, exported_documents(task, num_fewshot, limit)) as part:
            os.replace(part.path, path)
    except OSError as error:
        raise OptionError(f"--to {folder}: cannot write {path.name} ({error}); give a folder that is yours") from error
    return Exported(str(task.task_name), path, part.rows, task.wording, str(task.provenance.get("source")))
