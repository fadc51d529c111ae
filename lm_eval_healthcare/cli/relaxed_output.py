"""What `relaxed` prints: a table for people, CSV, JSON and Markdown for what comes after."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.tables import table
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS, QUANTITIES
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.scoring.relaxed import READINGS, name_parts
from lm_eval_healthcare.scoring.relaxed_summary import summarise
from lm_eval_healthcare.whole_file import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from lm_eval_healthcare.cli.relaxed import Reduced
    from lm_eval_healthcare.scoring.relaxed import DocumentValues
    from lm_eval_healthcare.scoring.relaxed_summary import Summary

_SHORT = {
    "relaxed_perplexity": "RP", "log_relaxed_perplexity": "log RP", "relaxed_perplexity_corrected": "RP corrected",
    "log_relaxed_perplexity_corrected": "log RP corrected", "relaxed_cross_entropy_sum": "CE sum",
    "relaxed_cross_entropy_mean": "CE mean", "relaxed_cross_entropy_any": "CE any",
    "relaxed_nats_per_byte": "nats/byte",
}  # fmt: skip
_LARGE = 1e5


def as_text(done: Sequence[Reduced], readings: Sequence[str], per: str, kind: str) -> str:
    """Return what is printed, with a line feed at its end.

    Args:
        done: The sources after their reduction.
        readings: The readings, by their whole names.
        per: `task`: a line for each list of targets of a source; `document`: for each document in it.
        kind: `table`, `csv`, `json` or `markdown`.
    """
    rows = list(_by_task(done, readings) if per == "task" else _by_document(done))
    if kind == "json":
        return _json(done, rows, readings, per)
    if kind == "csv":
        return _csv(rows, readings)
    columns = [*_columns(rows, per), *readings, "n_eff", "ended_early", "unscored"]
    shown = [_shown(row, readings) for row in rows]
    if kind == "markdown":
        return _markdown(shown, columns)
    short = {reading: _short(reading) for reading in readings}
    headed = [{short.get(name, name): value for name, value in row.items()} for row in shown]
    return "\n".join([table(headed, [short.get(name, name) for name in columns]), "", *_legend(readings)]) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        UserError: If that cannot be done.
    """
    try:
        with whole_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written ({error}); choose another folder") from error


def _by_task(done: Sequence[Reduced], readings: Sequence[str]) -> Iterator[dict[str, Any]]:
    for one in done:
        for group, documents in one.values.items():
            summary = summarise(group, [values for _, values in documents], readings)
            yield {**_head(one, group), **_counts(summary), **_results(summary)}


def _head(one: Reduced, group: str) -> dict[str, Any]:
    about = one.source.about
    return {"source": str(one.source.path), "model": about.model, "date": about.date, "task": about.task, "list": group}


def _counts(summary: Summary) -> dict[str, Any]:
    return {
        "documents": summary.documents[0], "documents_scored": summary.documents[1],
        "targets": summary.targets[0], "targets_scored": summary.targets[1],
    }  # fmt: skip


def _results(summary: Summary) -> dict[str, Any]:
    return {
        "readings": summary.readings,
        "n_eff": summary.n_eff,
        "ended_early": summary.ended_early,
        "reasons": dict(summary.reasons),
    }


def _by_document(done: Sequence[Reduced]) -> Iterator[dict[str, Any]]:
    for one in done:
        for group, documents in one.values.items():
            for doc_id, values in documents:
                yield {**_head(one, group), "doc_id": doc_id, **_of_document(values)}


def _of_document(values: DocumentValues) -> dict[str, Any]:
    return {
        "targets": values.targets, "targets_scored": values.scored,
        "readings": {reading: (values.value(reading), None) for reading in values.items},
        "n_eff": values.n_eff, "ended_early": float(values.ended_early) if values.scored else math.nan,
        "reasons": dict(Counter(values.reasons)),
    }  # fmt: skip


def _columns(rows: Sequence[dict[str, Any]], per: str) -> list[str]:
    """Return the first columns; models and dates only where they tell rows apart."""
    models = {row["model"] for row in rows}
    sources = {row["source"] for row in rows}
    needed = ["model"] if len(models) > 1 else []
    needed += ["date"] if len(sources) > len({(row["model"], row["task"]) for row in rows}) else []
    return [*needed, "task", "list", *(["documents"] if per == "task" else ["doc_id"]), "targets"]


def _shown(row: dict[str, Any], readings: Sequence[str]) -> dict[str, str]:
    """Return a row as texts for people."""
    texts = {name: printable(row[name]) for name in ("model", "date", "task", "list")}
    texts |= {"doc_id": str(row.get("doc_id", "")), "n_eff": _number(row["n_eff"], "g")}
    for name in ("documents", "targets"):
        if name in row:
            of = row[f"{name}_scored"]
            texts[name] = str(row[name]) if of == row[name] else f"{of} of {row[name]}"
    for reading in readings:
        value, stderr = row["readings"][reading]
        error = "" if stderr is None or math.isnan(stderr) else f" ± {_number(stderr)}"
        texts[reading] = _number(value) + error
    early = row["ended_early"]
    texts["ended_early"] = "-" if math.isnan(early) else f"{early:.0%}"
    texts["unscored"] = _reasons(row["reasons"]) or "0"
    return texts


def _number(value: float, how: str = ".4f") -> str:
    return f"{value:.4g}" if abs(value) >= _LARGE else f"{value:{how}}"


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{n} {printable(reason)}" for reason, n in reasons.items())


def _short(reading: str) -> str:
    """Return a heading that leaves room for numbers."""
    quantity, combination, median = name_parts(reading)
    return ("median " if median else "") + _SHORT[quantity] + combination.replace("_", " ")


def _legend(readings: Sequence[str]) -> list[str]:
    """Say what the short headings mean, once for each quantity and each combination of prefixes."""
    quantities: dict[str, None] = {}
    combinations: dict[str, None] = {}
    for reading in readings:
        quantity, combination, _ = name_parts(reading)
        quantities[quantity], combinations[combination] = None, None
    lines = [f"{_SHORT[quantity]}: {quantity}, {QUANTITIES[quantity]}" for quantity in quantities]
    lines.append("S = sum_i log P_i over positions i, N = n_eff + tokens of the target; ±: standard error")
    if combinations.keys() == {""}:
        return [*lines, f"P_i: {COMBINATIONS['']}"]
    return lines + [f"P_i{end.replace('_', ' ')}: {COMBINATIONS[end]}" for end in combinations]


def _csv(rows: Sequence[dict[str, Any]], readings: Sequence[str]) -> str:
    stream = io.StringIO()
    with_errors = any(row["readings"][reading][1] is not None for row in rows for reading in readings)
    names = [name for reading in readings for name in ([reading, f"{reading}_stderr"] if with_errors else [reading])]
    fixed = [name for name in rows[0] if name not in ("readings", "n_eff", "ended_early", "reasons")]
    writer = csv.DictWriter(stream, [*fixed, *names, "n_eff", "ended_early", "unscored"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        numbers: dict[str, Any] = {}
        for reading in readings:
            numbers[reading], stderr = row["readings"][reading]
            numbers |= {f"{reading}_stderr": stderr} if with_errors else {}
        told = {name: row[name] for name in (*fixed, "n_eff", "ended_early")}
        writer.writerow({**told, **numbers, "unscored": _reasons(row["reasons"])})
    return stream.getvalue()


def _json(done: Sequence[Reduced], rows: Sequence[dict[str, Any]], readings: Sequence[str], per: str) -> str:
    sources = [
        {
            "path": str(one.source.path),
            **asdict(one.source.about),
            "settings": one.settings.as_dict(),
            "signature": _signature(one),
        }
        for one in done
    ]
    told = []
    for row in rows:
        values = {
            reading: {"value": value} if stderr is None else {"value": value, "stderr": stderr}
            for reading, (value, stderr) in row["readings"].items()
        }
        told.append({**row, "readings": values})
    content = {"per": per, "readings": {name: READINGS[name] for name in readings}, "sources": sources, "rows": told}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _signature(one: Reduced) -> str:
    """Return the signature of the numbers, which are those of other settings if matrices were thinned."""
    about = one.source.about
    return about.signature.replace(about.settings.signature, one.settings.signature) or one.settings.signature


def _markdown(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> str:
    words = ("model", "date", "task", "list", "unscored")
    lines = [list(columns), ["---" if name in words else "---:" for name in columns]]
    lines += [[row[name].replace("|", "\\|") for name in columns] for row in rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
