"""A summary of the pack's tasks and groups, from the YAMLs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config

if TYPE_CHECKING:
    from pathlib import Path


def describe_pack(root: Path, data: str | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Describe every task and group.

    Args:
        root: The folder of the task YAMLs.
        data: The value of the option `data` if one is set in the environment.

    Returns:
        Tasks (`name`, `benchmark`, `rows`, `languages`, `metrics`, `licence`, `gated`, `source`, `split`, `version`,
        `file`) and groups (`name`, `tasks`, `file`), JSON-ready. `metrics` is empty where the option `metrics` decides.
    """
    tasks, groups = [], []
    for entry in catalogue(root):
        if entry.kind == "group":
            groups.append({"name": entry.name, "tasks": list(entry.config.get("task", [])), "file": str(entry.file)})
            continue
        facts = facts_from_config(entry.config)
        hub = f"{facts.dataset_path}{f' ({facts.dataset_name})' if facts.dataset_name else ''}"
        tasks.append(
            {
                "name": facts.name,
                "benchmark": facts.benchmark,
                "rows": facts.rows.get(facts.eval_split),
                "split": facts.eval_split,
                "languages": list(facts.languages),
                "metrics": [m["metric"] for m in entry.config.get("metric_list", [])],
                "licence": facts.licence,
                "gated": facts.gated,
                "source": data if data and data != "hub" else hub,
                "hub": hub,
                "version": (entry.config.get("metadata") or {}).get("version"),
                "file": str(entry.file),
            }
        )
    return tasks, groups
