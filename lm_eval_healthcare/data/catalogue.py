"""What the task YAMLs say about each benchmark, read without the harness.

Every task YAML of the pack carries a section `healthcare:` with the facts that the harness has no place for: columns,
row counts, licence, languages. This module turns it into a `TaskFacts`. A YAML that includes another inherits the whole
section and says under `healthcare_changes:` which of its keys are different; one that includes it may do so again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lm_eval_healthcare.data.schema import Column, parse_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SECTION = "healthcare"
CHANGES = "healthcare_changes"
_KNOWN_KEYS = {
    "name", "benchmark", "languages", "licence", "gated", "credentialed", "rows", "id", "columns", "breakdown",
    "harness", "harness_template", "pack", "shape", "prepare", "readers", "read", "flat_split", "options",
    "hub_splits", "domain", "targets",
}  # fmt: skip


class _Loader(yaml.SafeLoader):
    """Reads the harness's YAML dialect with `!function` left as text."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


@dataclass(frozen=True)
class TaskOption:
    """Something that can be chosen for one task at run time.

    Attributes:
        name: The option's name in `--metadata`.
        help: One sentence for users.
        values: The allowed values, the default first; empty for free text.
        default: The value if none is given.
    """

    name: str
    help: str
    values: tuple[str, ...]
    default: str

    def choose(self, given: str | None) -> str:
        """Return the value that is used.

        Raises:
            ValueError: If the value is not allowed.
        """
        value = self.default if given is None else given
        if self.values and value not in self.values:
            raise ValueError(f"{self.name}={value}: expected one of {', '.join(self.values)} ({self.help})")
        return value


@dataclass(frozen=True)
class TaskFacts:
    """The facts of one task that do not change from run to run.

    Attributes:
        name: The task's name in the harness's registry.
        benchmark: The benchmark's name as people write it.
        languages: ISO 639-1 codes of the texts.
        licence: The data's licence (SPDX identifier where one fits).
        gated: Whether the hub asks for an agreement before it gives the data.
        dataset_path: The hub id, or None.
        dataset_name: The hub configuration, or None.
        eval_split: The hub split whose rows are scored.
        fewshot_splits: Other splits, in the order in which examples are looked for.
        rows: Published number of documents of each split, or several where the benchmark has several test sets; a split
            that is not listed is not checked.
        columns: What a row must hold.
        id_column: The column that must be unique, or None.
        breakdown: Columns by which scores are also reported.
        output_type: The harness's request type.
        harness: The YAML of the harness's own version, relative to its tasks folder, or None.
        pack: The pack's own wording (`description`, `doc_to_text`, ...) for `prompt=pack`.
        harness_template: Where the harness's instruction stands if it is part of a Python function: `file`, `function`,
            and the `fields` that fill it.
        shape: Name of the function in `data/` that brings one raw row into the declared columns, or None.
        prepare: Name of the function in `data/` that makes documents from the rows of all splits, or None.
        readers: Names of functions in `data/` that read original files, by file extension.
        read: The raw splits that are read for `prepare`; empty for the scored split and one for examples.
        flat_split: The raw split that a single local file holds.
        options: What can be chosen for this task at run time.
        credentialed: Whether the data may only come from a folder that the user names, and must not leave the machine.
        targets: For Relaxed Perplexity: the column of each list of texts that are scored, by the list's name; the list
            `answer` needs no column, it is the reference. Empty: the reference alone.
        domain: The kind of text where a metric asks for one, such as `radiology`; None: any other.
        hub_kwargs: Further arguments for `datasets.load_dataset`.
        hub_splits: The raw split's name for splits that the hub calls otherwise; rows on the hub and copies of them in
            a folder then have one name.
        doc_to_text: The template or the column of the question; None where a function makes it.
        rows_name: The name under which rows are looked for if there are none under the task's own: a user's task that
            includes one of the pack's finds that one's rows.
    """

    name: str
    benchmark: str
    languages: tuple[str, ...] = ("en",)
    licence: str = "unknown"
    gated: bool = False
    dataset_path: str | None = None
    dataset_name: str | None = None
    eval_split: str = "test"
    fewshot_splits: tuple[str, ...] = ()
    rows: Mapping[str, int | list[int]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    id_column: str | None = None
    breakdown: tuple[str, ...] = ()
    output_type: str = "generate_until"
    harness: str | None = None
    pack: Mapping[str, Any] = field(default_factory=dict)
    harness_template: Mapping[str, Any] | None = None
    shape: str | None = None
    prepare: str | None = None
    readers: Mapping[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    flat_split: str = "test"
    options: Mapping[str, TaskOption] = field(default_factory=dict)
    credentialed: bool = False
    domain: str | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    hub_kwargs: Mapping[str, Any] = field(default_factory=dict)
    hub_splits: Mapping[str, str] = field(default_factory=dict)
    doc_to_text: str | None = None
    rows_name: str | None = None

    def row_counts(self, split: str) -> list[int]:
        """Return the published numbers of documents of a split; none if it is not known."""
        counts = self.rows.get(split, [])
        return [counts] if isinstance(counts, int) else list(counts)

    @property
    def folder_name(self) -> str:
        """The name under which rows lie in a data folder, shared by all tasks that ask about the same rows."""
        return self.rows_name or self.name


def _option(name: str, content: Mapping[str, Any], task: str) -> TaskOption:
    values = tuple(map(str, content.get("values", [])))
    if not values and content.get("type") != "text":
        raise ValueError(f"task {task}, option {name}: needs `values: [default, ...]`, or `type: text` and `default`")
    return TaskOption(
        name, str(content.get("help", "")), values, str(content.get("default", values[0] if values else ""))
    )


def facts_from_config(config: Mapping[str, Any]) -> TaskFacts:
    """Build the facts from a loaded task config that still holds its `healthcare` section.

    Raises:
        ValueError: If the section is missing or holds an unknown key.
    """
    name = str(config.get("task"))
    section = config.get(SECTION)
    if isinstance(section, dict):
        section = {**section, **_changes(config)}
    if not isinstance(section, dict) or "benchmark" not in section:
        raise ValueError(
            f"task {name}: the YAML has no section '{SECTION}:' with at least 'benchmark'. Start from one of the "
            "pack's YAMLs with 'include:', or add the section."
        )
    unknown = sorted(set(section) - _KNOWN_KEYS)
    if unknown:
        raise ValueError(f"task {name}: unknown key(s) {unknown} in '{SECTION}:'; known: {sorted(_KNOWN_KEYS)}")
    asked = config.get("doc_to_text")
    eval_split = config.get("test_split") or config.get("validation_split") or "test"
    others = [config.get(key) for key in ("fewshot_split", "training_split", "validation_split")]
    return TaskFacts(
        name=name,
        benchmark=section["benchmark"],
        languages=tuple(section.get("languages", ["en"])),
        licence=section.get("licence", "unknown"),
        gated=bool(section.get("gated", False)),
        dataset_path=config.get("dataset_path"),
        dataset_name=config.get("dataset_name"),
        eval_split=eval_split,
        fewshot_splits=tuple(dict.fromkeys(s for s in others if s and s != eval_split)),
        rows=dict(section.get("rows", {})),
        columns=parse_columns(section.get("columns", {}), name),
        id_column=section.get("id"),
        breakdown=tuple(section.get("breakdown", [])),
        output_type=config.get("output_type", "generate_until"),
        harness=section.get("harness"),
        pack=dict(section.get("pack", {})),
        harness_template=section.get("harness_template"),
        shape=section.get("shape"),
        prepare=section.get("prepare"),
        readers=dict(section.get("readers", {})),
        read=tuple(section.get("read", [])),
        flat_split=section.get("flat_split", eval_split),
        options={key: _option(key, value, name) for key, value in section.get("options", {}).items()},
        credentialed=bool(section.get("credentialed", False)),
        domain=section.get("domain"),
        targets=dict(section.get("targets", {})),
        hub_kwargs=dict(config.get("dataset_kwargs") or {}),
        hub_splits=dict(section.get("hub_splits", {})),
        doc_to_text=asked if isinstance(asked, str) else None,
        rows_name=section.get("name"),
    )


def read_yaml(path: Path, merge: bool = True) -> dict[str, Any]:
    """Read a task YAML, functions as text.

    Args:
        path: The file.
        merge: Merge what its `include:` chain holds; otherwise only the file's own keys are returned.

    Raises:
        ValueError: If the file or an included one is not a YAML mapping.
    """
    return _merged(_files(path)) if merge else _own(path)[0]


def _files(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what each file holds by itself, the included ones first."""
    config, includes = _own(path)
    for include in includes:
        yield from _files(path.parent / include)
    yield config


def _own(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what a file holds by itself, and the names of those that it includes."""
    with path.open(encoding="utf-8") as stream:
        try:
            config = yaml.load(stream, Loader=_Loader)
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a YAML mapping, got {type(config).__name__}")
    includes = config.pop("include", [])
    return config, [includes] if isinstance(includes, str) else list(includes)


def _merged(files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge key by key as the harness does; but changes add up, until a file has a section of its own."""
    out: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for file in files:
        changes = {**({} if SECTION in file else changes), **(file.get(CHANGES) or {})}
        out = {**out, **file, CHANGES: changes}
    if not changes:
        del out[CHANGES]
    return out


def _changes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return all changes to the section, of the file that the harness loaded and of those that it includes.

    The harness keeps only the last file's. Changes that are in no file, as a group may give them, come on top.
    """
    own, metadata = config.get(CHANGES) or {}, config.get("metadata")
    source = Path(str(metadata.get("config_source") or "")) if isinstance(metadata, dict) else Path()
    try:
        files = list(_files(source)) if source.is_file() else []
    except (OSError, ValueError):  # the harness has read it, so it is one that we cannot
        files = []
    of_files = any(own == (file.get(CHANGES) or {}) for file in files)
    return {**_merged(files).get(CHANGES, {}), **({} if of_files else own)} if files else dict(own)


@dataclass(frozen=True)
class CatalogueEntry:
    """One name of the pack: a task or a group, and the YAML that defines it."""

    name: str
    kind: str
    file: Path
    config: Mapping[str, Any]


def catalogue(root: Path) -> Iterator[CatalogueEntry]:
    """Yield every task and group that the YAMLs below `root` define, in file order."""
    for path in sorted(root.glob("**/*.yaml")):
        config = read_yaml(path)
        for kind in ("task", "group"):
            if isinstance(config.get(kind), str):
                yield CatalogueEntry(config[kind], kind, path, config)
                break
