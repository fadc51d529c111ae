"""Records of Every Eval Ever (evaleval/every_eval_ever), by version 0.2.2 of its schema."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import lm_eval_healthcare
from lm_eval_healthcare.report.export_tasks import benchmark_of, bounds, generates, higher_is_better, is_credentialed
from lm_eval_healthcare.report.exports import Document, Exported, ExportError, Refused, clean, flaws, safe_names, utc
from lm_eval_healthcare.results.cell import Cell

SCHEMA_VERSION = "0.2.2"
COLLECTION = "lm-eval-healthcare"
"""The name of the folder of our evaluations below `data/`."""
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
UNKNOWN = "unknown"
_GENERATION = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_gen_toks": "max_tokens"}


@dataclass(frozen=True)
class RecordOptions:
    """What records say of whoever evaluated.

    Attributes:
        now: When the records are made, in seconds since the epoch.
        organization: Who evaluated.
        relationship: How they stand to the model's makers, one of `RELATIONSHIPS`.
    """

    now: float
    organization: str = UNKNOWN
    relationship: str = "other"


def export(cells: Sequence[Cell], options: RecordOptions) -> Exported:
    """Make `data/lm-eval-healthcare/DEVELOPER/MODEL/UUID.json` for each model and results file.

    The UUID follows from the model and the run, so that the same results give the same file again. Values are in the
    metric's own unit; nothing is rounded.

    Raises:
        ExportError: If the relationship is not one of the schema's.
    """
    if options.relationship not in RELATIONSHIPS:
        raise ExportError(f"--relationship {options.relationship}: expected one of {', '.join(RELATIONSHIPS)}")
    done = Exported()
    runs: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if higher_is_better(cell) is None:
            done.refused.append(Refused(cell, "neither the file nor the metric's name tells whether higher is better"))
        else:
            runs[cell.model, str(cell.file)].append(cell)
    developers = safe_names(_developer(model)[0] for model, _ in runs)
    shorts = safe_names(_developer(model)[1] for model, _ in runs)
    for (model, _), own in runs.items():
        developer, short = _developer(model)
        path = PurePosixPath("data", COLLECTION, developers[developer], shorts[short], f"{_identity(own)}.json")
        text = json.dumps(record(model, own, options), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        done.documents.append(Document(path, text))
    return done


def record(model: str, cells: Sequence[Cell], options: RecordOptions) -> dict[str, Any]:
    """Return the record of one model's values from one results file."""
    first, name = cells[0], clean(model)
    made = repr(float(options.now))
    developer = _developer(model)[0]
    details = {"deployment_type": UNKNOWN}
    if first.revision:
        details["revision"] = clean(first.revision)
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{COLLECTION}/{name}/{made}",
        "retrieved_timestamp": made,
        "source_metadata": {
            "source_name": COLLECTION,
            "source_type": "evaluation_run",
            "source_organization_name": options.organization,
            "evaluator_relationship": options.relationship,
        },
        "eval_library": {
            "name": "lm_eval",
            "version": clean(_text(first.extra.get("lm_eval_version"))),
            "additional_details": {"exported_with": f"lm-eval-healthcare {lm_eval_healthcare.__version__}"},
        },
        "model_info": {"name": name, "id": name, "additional_details": details},
        "evaluation_results": [_result(cell) for cell in cells],
    }
    if developer != UNKNOWN:
        found["model_info"]["developer"] = clean(developer)
    if math.isfinite(first.date):
        found["evaluation_timestamp"] = repr(float(first.date))
    return found


def _result(cell: Cell) -> dict[str, Any]:
    score: dict[str, Any] = {"score": cell.value, "details": _details(cell)}
    uncertainty: dict[str, Any] = {}
    if math.isfinite(cell.stderr):
        uncertainty["standard_error"] = {"value": cell.stderr}
    if cell.n is not None:
        uncertainty["num_samples"] = int(cell.n)
    if uncertainty:
        score["uncertainty"] = uncertainty
    name = clean(cell.task)
    shown = clean(cell.metric) if cell.filter == "none" else f"{clean(cell.metric)},{clean(cell.filter)}"
    found = {
        "evaluation_result_id": f"{name}/{shown}",
        "evaluation_name": name,
        "source_data": _source(cell),
        "metric_config": _metric(cell),
        "score_details": score,
    }
    if (date := utc(cell.date)) is not None:
        found["evaluation_timestamp"] = date
    if arguments := _generation(cell):
        found["generation_config"] = {"generation_args": arguments}
    return found


def _generation(cell: Cell) -> dict[str, float]:
    """Return what the schema knows of the settings of generation; numbers only, so that no text comes along."""
    try:
        given = json.loads(cell.extra.get("gen_kwargs") or "{}")
    except (TypeError, ValueError):
        return {}
    if not generates(cell.task) or not isinstance(given, dict):
        return {}
    return {
        name: value
        for key, name in _GENERATION.items()
        if isinstance(value := given.get(key), int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _metric(cell: Cell) -> dict[str, Any]:
    """Describe the metric; the schema asks for both bounds of a continuous one, so that others go without a type."""
    name = clean(cell.metric)
    found: dict[str, Any] = {
        "evaluation_description": f"{name} on {clean(cell.task)}",
        "metric_id": name,
        "metric_name": name,
        "lower_is_better": not higher_is_better(cell),
    }
    limits = bounds(cell.metric)
    if limits is not None and limits[0] <= cell.value <= limits[1]:
        found |= {"score_type": "continuous", "min_score": limits[0], "max_score": limits[1]}
        if limits == (0.0, 1.0):
            found["metric_unit"] = "proportion"
    if cell.filter != "none":
        found["metric_parameters"] = {"filter": clean(cell.filter)}
    return found


def _source(cell: Cell) -> dict[str, Any]:
    known = benchmark_of(cell.task)
    if known is None or known.dataset is None:
        found: dict[str, Any] = {"dataset_name": known.shown if known else clean(cell.task), "source_type": "other"}
        if is_credentialed(cell.task):
            found["additional_details"] = {"access": "credentialed"}
        return found
    found = {"dataset_name": known.shown, "source_type": "hf_dataset", "hf_repo": known.dataset}
    if known.config is not None:
        found["hf_config"] = known.config
    if cell.n_total is not None:
        found["samples_number"] = int(cell.n_total)
    return found


def _details(cell: Cell) -> dict[str, str]:
    """Return the settings that the schema has no place for, as the texts that it wants."""
    values = {
        "n_shot": cell.n_shot,
        "n_total": cell.n_total,
        "coverage": cell.coverage if math.isfinite(cell.coverage) else None,
        "task_version": cell.version,
        "chat_template": cell.template if cell.template != "" else "none",
        "prompt_hash": cell.prompt,
        "signature": cell.signature,
        "flaws": "; ".join(flaws(cell).values()) or None,
    }
    return {key: clean(str(value)) for key, value in values.items() if value is not None}


def _developer(model: str) -> tuple[str, str]:
    """Split a hub id; a path of a disk has no developer."""
    developer, slash, short = model.partition("/")
    if not slash or not developer or not short or "/" in short or "\\" in model or developer in (".", "..", "~"):
        return UNKNOWN, model
    return developer, short


def _identity(cells: Sequence[Cell]) -> uuid.UUID:
    parts = [cells[0].model, cells[0].file.name, repr(cells[0].date), *sorted(repr(cell.key) for cell in cells)]
    hashed = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).digest()
    return uuid.UUID(bytes=hashed[:16], version=4)


def _text(value: object) -> str:
    return str(value) if value else UNKNOWN
