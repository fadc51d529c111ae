"""How values were made: what must be equal before two of them may be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lm_eval_healthcare.results.cell import Cell, SetAside

_SHOWN_MODELS = 4
_OF_ONE_MODEL = ("template", "prompt", "revision", "dtype")
"""What may differ between models without any meaning: their own templates, hashes that hold these, their weights."""

Column = tuple[str, str, str]
"""Task, metric and filter."""


def protocol(cell: Cell) -> dict[str, str]:
    """Return what a value depends on besides model, task and metric, each as a text; what is not known is left out."""
    extra = cell.extra
    found = {
        "n_shot": cell.n_shot,
        "version": _version(cell.version),
        "chat template": None if cell.template is None else "yes" if cell.template else "no",
        "template": cell.template,
        "system instruction": extra.get("system"),
        "gen_kwargs": None if extra.get("output_type") == "multiple_choice" else extra.get("gen_kwargs"),
        "signature": cell.signature,
        "task's source": extra.get("by"),
        "prompt": cell.prompt if cell.complete and not cell.template else None,
        "revision": cell.revision,
        "dtype": extra.get("dtype"),
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def differences(one: Cell, other: Cell) -> list[str]:
    """Return in words in what two values of one model differ."""
    if _raw(one) == _raw(other):
        return []
    own, others = protocol(one), protocol(other)
    both = [name for name in own if name in others and own[name] != others[name]]
    if "chat template" in both:
        both = [name for name in both if name != "template"]
    return [_difference(name, own[name], others[name]) for name in both]


def _raw(cell: Cell) -> tuple[object, ...]:
    return (
        cell.n_shot, cell.version, cell.template, cell.signature, cell.prompt, cell.revision, cell.complete, cell.extra,
    )  # fmt: skip


def mixed(cells: Sequence[Cell]) -> list[str]:
    """Return notes on the columns in which models were measured in different ways.

    Args:
        cells: The chosen values.
    """
    metrics: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (task, metric, filter_name), found in _columns(cells).items():
        for name, values in _differing(found).items():
            shown = "; ".join(f"{_short(name, v, values)} for {_some(models)}" for v, models in sorted(values.items()))
            metrics[task, f"{name} differs between models: {shown}"].append(_column_name(metric, filter_name))
    return [f"{task} ({_some(names)}): {text}" for (task, text), names in metrics.items()]


def without_minorities(cells: Sequence[Cell]) -> tuple[list[Cell], list[SetAside]]:
    """Set the values aside that were made in another way than those of most models.

    Where no way has more models than every other one, none is kept.
    """
    why: dict[int, str] = {}
    for found in _columns(cells).values():
        for name, values in _differing(found).items():
            sizes = sorted((len(models) for models in values.values()), reverse=True)
            most = max(values, key=lambda value: len(values[value])) if sizes[0] > sizes[1] else None
            for cell in found:
                own = protocol(cell).get(name)
                if own is None or own == most:
                    continue
                shown = _short(name, own, values)
                rest = "the models do not agree" if most is None else f"{_short(name, most, values)} for most models"
                why.setdefault(id(cell), f"another protocol: {name} {shown}, but {rest} (--strict-protocol)")
    kept = [cell for cell in cells if id(cell) not in why]
    return kept, [SetAside(cell, why[id(cell)]) for cell in cells if id(cell) in why]


def _columns(cells: Iterable[Cell]) -> dict[Column, list[Cell]]:
    columns: dict[Column, list[Cell]] = defaultdict(list)
    for cell in cells:
        columns[cell.task, cell.metric, cell.filter].append(cell)
    return columns


def _differing(cells: Sequence[Cell]) -> dict[str, dict[str, list[str]]]:
    """Return the models by value of each property that models do not share."""
    if len(cells) < 2:
        return {}
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for name, value in protocol(cell).items():
            if name not in _OF_ONE_MODEL or (name == "prompt" and not cell.template):
                values[name][value].append(cell.model)
    return {name: found for name, found in values.items() if len(found) > 1}


def _version(version: str | None) -> str | None:
    """Return a version so that `2` and `2.0` are the same."""
    try:
        return None if version in (None, "N/A") else f"{float(str(version)):g}"
    except ValueError:
        return version


def _difference(name: str, own: str, other: str) -> str:
    if name == "signature":
        parts, others = own.split("|"), other.split("|")
        only = [p for p in parts if p not in others] or ["fewer parts"]
        rest = [p for p in others if p not in parts] or ["fewer parts"]
        return f"signature {_cut('|'.join(only))} instead of {_cut('|'.join(rest))}"
    return f"{name} {_cut(own)} instead of {_cut(other)}"


def _short(name: str, value: str, values: Mapping[str, object]) -> str:
    """Return a value as it is shown: of signatures only what is not the same in all."""
    if name == "signature":
        shared = set.intersection(*(set(one.split("|")) for one in values))
        return _cut("|".join(part for part in value.split("|") if part not in shared) or "the rest")
    return _cut(value)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_MODELS])
    return shown if len(names) <= _SHOWN_MODELS else f"{shown} and {len(names) - _SHOWN_MODELS} more"


def _column_name(metric: str, filter_name: str) -> str:
    return metric if filter_name == "none" else f"{metric}[{filter_name}]"
