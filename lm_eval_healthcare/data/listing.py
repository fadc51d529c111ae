"""A summary of the pack's tasks, groups and tags, from the YAMLs alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts

_PERPLEXITIES = ["word_perplexity", "byte_perplexity", "bits_per_byte", "nats_per_byte"]
# What a task's class measures, and the metrics that it has whatever its YAML says; None where the option decides.
_KINDS: dict[str, tuple[str, list[str] | None]] = {
    "MultipleChoiceTask": ("multiple choice", []),
    "ClassificationTask": ("multiple choice", []),
    "GenerativeChoiceTask": ("multiple choice in free text", ["acc", "acc_parsed", "unparsed"]),
    "OpenEndedTask": ("open-ended", None),
    "RepeatedAnswersTask": ("open-ended, several answers a question", None),
    "PerplexityTask": ("perplexity of the reference", _PERPLEXITIES),
    "ConditionalPerplexityTask": ("perplexity of the reference after the prompt", _PERPLEXITIES),
    "RelaxedPerplexityTask": ("Relaxed Perplexity", ["relaxed_perplexity", "relaxed_cross_entropy_mean"]),
}
_HUB_FILES = "hf://datasets/"
_VARIANTS = ("_gen", "_consistency", "_conditional_perplexity", "_relaxed_perplexity", "_perplexity")


def describe_pack(root: Path, data: str | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Describe every task and group.

    Args:
        root: The folder of the task YAMLs.
        data: The value of the option `data` if one is set in the environment.

    Returns:
        Tasks (`name`, `benchmark`, `kind`, `rows`, `split`, `languages`, `metrics`, `licence`, `gated`, `credentialed`,
        `source`, `hub`, `tags`, `options`, `version`, `file`) and groups (`name`, `tasks`, `file`), JSON-ready.
        `metrics` is empty where the option `metrics` decides.
    """
    tasks, groups = [], []
    for entry in catalogue(root):
        if entry.kind == "group":
            groups.append({"name": entry.name, "tasks": list(entry.config.get("task", [])), "file": str(entry.file)})
            continue
        facts = facts_from_config(entry.config)
        kind, always = _KINDS.get(str(entry.config.get("class")).rpartition(".")[2], ("other", []))
        hub = hub_source(facts)
        tasks.append(
            {
                "name": facts.name,
                "benchmark": facts.benchmark,
                "kind": kind,
                "rows": next(iter(facts.row_counts(facts.eval_split)), None),
                "split": facts.eval_split,
                "languages": list(facts.languages),
                "metrics": []
                if always is None
                else always or [m["metric"] for m in entry.config.get("metric_list", [])],
                "licence": facts.licence,
                "gated": facts.gated,
                "credentialed": facts.credentialed,
                "source": data if data and data != "hub" else hub,
                "hub": hub,
                "tags": tags_of(entry.config),
                "options": {option.name: list(option.values) or option.default for option in facts.options.values()},
                "version": (entry.config.get("metadata") or {}).get("version"),
                "file": str(entry.file),
            }
        )
    return tasks, groups


def tags_of(config: Mapping[str, Any]) -> list[str]:
    """Return the tags of a task's config."""
    tags = config.get("tag") or []
    return [tags] if isinstance(tags, str) else list(tags)


def by_tag(tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each tag with the names of its tasks, the largest tag first."""
    members: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for tag in task["tags"]:
            members[tag].append(task["name"])
    return [{"name": tag, "tasks": members[tag]} for tag in sorted(members, key=lambda tag: (-len(members[tag]), tag))]


def with_variants(tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks that are no variant of another, each with the names of its variants under `variants`."""
    found = {task["name"]: {**task, "variants": []} for task in tasks}
    for name in list(found):
        base = next((name.removesuffix(end) for end in _VARIANTS if name.endswith(end)), name)
        if base != name and base in found:
            found[base]["variants"].append(found.pop(name)["name"])
    return list(found.values())


def hub_source(facts: TaskFacts) -> str:
    """Return the hub's name of the set that a task's rows come from."""
    if not facts.dataset_path:
        return "your own files"
    files = facts.hub_kwargs.get("data_files")
    first = str(next(iter(files.values()))) if isinstance(files, dict) and files else ""
    if first.startswith(_HUB_FILES):  # hf://datasets/<owner>/<name>[@revision]/...
        return "/".join(first.removeprefix(_HUB_FILES).split("/")[:2]).partition("@")[0]
    return facts.dataset_path + (f" ({facts.dataset_name})" if facts.dataset_name else "")
