"""Reading a task's rows from the hub; the only place that may touch the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lm_eval_healthcare.data.files import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lm_eval_healthcare.data.catalogue import TaskFacts

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_FILE = re.compile(r"^(?P<repository>hf://datasets/[^/@]+/[^/@]+)(?:@[^/]+)?(?P<path>/.*)$")
_FORMATS = ("arrow", "csv", "json", "parquet", "text")  # names under which `datasets` reads files, not sets
_MEDIA = frozenset({"Audio", "Image", "Pdf", "Video"})
_GATED = re.compile(r"gated|401|403|access to .* is restricted|authenticat", re.IGNORECASE)


def fetch(facts: TaskFacts, kwargs: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], str | None]:
    """Load all raw splits of a task from the hub.

    Args:
        facts: What the task's YAML says about its data.
        kwargs: Arguments for `datasets.load_dataset` that win over those of the YAML, such as `revision`.

    Returns:
        The raw splits (`datasets.Dataset` by the names that the task reads, see `hub_splits`), and the commit that was
        really loaded, if it is known.

    Raises:
        DataError: If the task has no rows on the hub, or they cannot be loaded.
    """
    refuse_without_hub(facts)
    import datasets

    arguments = load_arguments(facts, kwargs)
    try:
        loaded = datasets.load_dataset(facts.dataset_path, facts.dataset_name, **arguments)
    except Exception as error:
        raise DataError(_explain(facts, error)) from error
    splits = {facts.hub_splits.get(name, name): _without_media(rows, facts) for name, rows in loaded.items()}
    asked = {**facts.hub_kwargs, **(kwargs or {})}.get("revision")
    of_hub = "revision" in arguments or _names_hub_files(arguments.get("data_files"))
    return splits, _commit(next(iter(loaded.values())), asked if of_hub else None)


def _without_media(rows: Any, facts: TaskFacts) -> Any:
    """Leave out columns of images and sounds that the task does not read: each would be decoded with its row."""
    media = [name for name, feature in rows.features.items() if type(feature).__name__ in _MEDIA]
    return rows.remove_columns([name for name in media if name not in facts.columns])


def load_arguments(facts: TaskFacts, kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments for `datasets.load_dataset` beside the set's path and name.

    Args:
        facts: What the task's YAML says about its data.
        kwargs: Arguments that win over those of the YAML. Where the YAML names files of a set on the hub, a `revision`
            becomes part of their addresses, in place of the one that may stand there: `datasets` ignores it otherwise.
    """
    arguments = {**facts.hub_kwargs, **(kwargs or {})}
    arguments.pop("trust_remote_code", None)
    if _names_hub_files(arguments.get("data_files")):
        revision = arguments.pop("revision", None)
        if revision is not None:
            arguments["data_files"] = _at_revision(arguments["data_files"], str(revision))
    elif facts.dataset_path in _FORMATS:
        arguments.pop("revision", None)
    return arguments


def _names_hub_files(files: Any) -> bool:
    if isinstance(files, dict):
        return any(map(_names_hub_files, files.values()))
    return any(map(_names_hub_files, files)) if isinstance(files, list | tuple) else bool(_HUB_FILE.match(str(files)))


def _at_revision(files: Any, revision: str) -> Any:
    if isinstance(files, dict):
        return {split: _at_revision(file, revision) for split, file in files.items()}
    if isinstance(files, list | tuple):
        return [_at_revision(file, revision) for file in files]
    match = _HUB_FILE.match(str(files))
    return f"{match['repository']}@{quote(revision, safe='')}{match['path']}" if match else files


def _commit(rows: Any, asked: Any) -> str | None:
    """The commit that was loaded: named by the files that were read, or by the user; a branch or tag names none."""
    checksums = rows.info.download_checksums or {}
    read = re.search(rf"@({_COMMIT.pattern})/", " ".join(map(str, checksums)))
    if read:
        return read[1]
    return str(asked) if asked is not None and _COMMIT.fullmatch(str(asked)) else None


def refuse_without_hub(facts: TaskFacts) -> None:
    """Refuse a task whose rows are not, or must not be, taken from the hub.

    Raises:
        DataError: With what to do instead.
    """
    name = facts.folder_name
    if facts.credentialed:
        raise DataError(
            f"{facts.name}: {facts.benchmark} may only be used by people with credentials for it, from a folder on "
            f"this machine: --metadata data=FOLDER with {name}/test.jsonl (or .csv, .parquet). It is never taken from "
            "a hub. data=sample has invented rows to try the software."
        )
    if not facts.dataset_path:
        raise DataError(
            f"{facts.name}: no copy of {facts.benchmark} on the hub can be loaded. Convert your own files with "
            f"`lm-eval-healthcare data prepare {facts.name} --from FILE --to FOLDER` and name the folder: --metadata "
            "data=FOLDER; data=sample has invented rows to try the software."
        )


def _explain(facts: TaskFacts, error: Exception) -> str:
    source = (
        facts.dataset_path
        if not facts.hub_kwargs.get("data_files")
        else f"{facts.dataset_path} files of {facts.benchmark}"
    )
    told = f"{facts.name}: {source} could not be loaded from the hub ({type(error).__name__}: {error}). "
    if facts.gated or _GATED.search(str(error)):
        told += (
            "The set may be gated or private: accept its terms on its hub page, log in with `hf auth login`, and try "
            "again. "
        )
    return (
        told
        + "Without internet, give a local folder (--metadata data=FOLDER) or try the packaged sample (data=sample)."
    )
