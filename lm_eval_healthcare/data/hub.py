"""Reading a task's rows from the hub; the only place that may touch the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lm_eval_healthcare.data.catalogue import TaskFacts

_GATED = re.compile(r"gated|401|403|access to .* is restricted|authenticat", re.IGNORECASE)


def fetch(facts: TaskFacts, kwargs: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], str | None]:
    """Load all raw splits of a task from the hub.

    Args:
        facts: What the task's YAML says about its data.
        kwargs: Arguments for `datasets.load_dataset` that win over those of the YAML, such as `revision`.

    Returns:
        The splits (`datasets.Dataset` by name), and the commit that was really loaded, if it is known.

    Raises:
        DataError: If the task has no rows on the hub, or they cannot be loaded.
    """
    refuse_without_hub(facts)
    import datasets

    kwargs = {**facts.hub_kwargs, **(kwargs or {})}
    kwargs.pop("trust_remote_code", None)
    try:
        loaded = datasets.load_dataset(facts.dataset_path, facts.dataset_name, **kwargs)
    except Exception as error:
        raise DataError(_explain(facts, error)) from error
    checksums = next(iter(loaded.values())).info.download_checksums or {}
    commit = re.search(r"@([0-9a-f]{40})/", " ".join(map(str, checksums)))
    return dict(loaded), commit[1] if commit else kwargs.get("revision")


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
