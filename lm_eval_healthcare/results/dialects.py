"""What one results file says, whichever version of the harness wrote it: its values, with all that belongs to them.

Versions up to 0.3 write bare keys (`acc`, `acc_stderr`); later ones write `metric,filter`, and say more of a run with
every version. A file is known by its content: an object whose `results` is an object of objects. What it says is kept
as plain JSON, a *record*, so that it can be remembered and sent between processes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.cell import CURRENT, EARLY_04, GROUP, LEAF, PRE_04
from lm_eval_healthcare.results.helper_metrics import Coverage, helpers_without_metric, is_helper, part_of
from lm_eval_healthcare.results.names import model_name, parse_results_name, parse_samples_name
from lm_eval_healthcare.results.results_file import SCORED_FROM, SECTION

Record = dict[str, Any]
"""What a file says: `skip` and `broken`, or the run's properties and `tasks`."""

LOST_ERROR = -1.0
"""Stands for a standard error that is NaN, other than one that the file does not have."""
_YEAR_9999 = 253_370_764_800  # in seconds since the epoch; a later date is a mistake
_STDERR = "_stderr"
_NOT_VALUES = ("name", "alias", "sample_len", "sample_count", "samples", "task", "group")
_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2})[-:](\d{2})[-:](\d{2})(\.\d+)?")
_DOWN = re.compile(r"perplexity|bits_per_byte|(?:^|_)(?:loss|ter|wer|cer|mer|mae|mse|rmse|brier_score|ece)(?:$|_)")
_UP = re.compile(
    r"acc|f1|em|exact_match|bleu|sacrebleu|chrf|rouge|bert_?score|bleurt|mover_score|prometheus|mcc|recall"
)


def read_record(path: Path) -> Record:
    """Return what a file says; a file that gives no values says why.

    Args:
        path: A file; one that cannot be read gives a record that says so.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        return {**_skipped(f"it cannot be read ({error.strerror or error})", broken=True), "again": True}
    if not raw.strip():
        return _skipped("the file is empty", broken=True)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        if str(error).startswith("Extra data"):
            return _several(raw)
        return _skipped(f"it is cut or no JSON ({_short(error)})", broken=True)
    if why := _why_not(content):
        return _skipped(why)
    return record_of(content, path, hashlib.sha256(raw).hexdigest())


def record_of(content: Mapping[str, Any], path: Path, digest: str = "") -> Record:
    """Return what the content of a results file says.

    Args:
        content: An object whose `results` is an object of objects.
        path: Where it lies: folder and name tell what old files leave out.
        digest: Hash of the file.
    """
    config = _object(content, "config")
    dialect = _dialect(content)
    groups = {str(k): [str(one) for one in v] for k, v in _object(content, "group_subtasks").items() if _is_list(v)}
    arguments = model_arguments(content)
    record: Record = {
        "model": model_name(content) or "",
        "folder": path.resolve().parent.name,
        "revision": _text(arguments.get("revision") or config.get("model_revision")),
        "date": _date(content.get("date")),
        "stamp": stamp_of(path.name),
        "dialect": dialect,
        "template": _template(content, dialect),
        "source": _text(config.get(SCORED_FROM)),
        "digest": digest,
        "groups": groups,
        "run": _run(content, config, arguments),
        "tasks": [],
    }
    for task, row in content["results"].items():
        if entry := _task(content, str(task), row, dialect, groups):
            record["tasks"].append(entry)
    if not any(entry["values"] for entry in record["tasks"]):
        return _skipped(_why_no_values(content))
    return record


def model_arguments(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the model, which newer versions write as an object and older ones as a text."""
    given = _object(content, "config").get("model_args")
    if isinstance(given, str):
        given = dict(part.strip().partition("=")[::2] for part in given.split(",") if "=" in part)
    return dict(given) if isinstance(given, dict) else {}


def stamp_of(name: str) -> float | None:
    """Return the time in a file's or a folder's name in seconds since the epoch, as if it were UTC, or None."""
    stamp = parse_results_name(name) or (parse_samples_name(name) or ("", ""))[1] or name
    match = _STAMP.search(stamp)
    if match is None:
        return None
    day, hour, minute, second, fraction = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}")
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc).timestamp() + float(fraction or 0)


def number(value: Any) -> float | None:
    """Return a number, also one that a writer turned into text; None for what is none, such as `N/A` or a truth value.

    NaN and infinity are numbers.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return None


def _skipped(reason: str, broken: bool = False) -> Record:
    return {"skip": reason, "broken": broken}


def _several(raw: bytes) -> Record:
    """Tell lines of JSON, which are something else, from results after which something stands, as after a crash."""
    first, _ = json.JSONDecoder().raw_decode(raw.decode("utf-8-sig", "replace").lstrip())
    if _why_not(first) is None:
        return _skipped("after the results there is more, as when a file is written twice", broken=True)
    return _skipped("it holds several JSON values, not one object")


def _why_not(content: Any) -> str | None:
    """Say why something is no results file, or return None if it is one."""
    if not isinstance(content, dict):
        return f"no results of the harness: the file holds {_kind(content)}"
    results = content.get("results")
    if "results" not in content:
        return "no results of the harness: there is no key 'results'"
    if not isinstance(results, dict):
        return f"no results of the harness: 'results' is {_kind(results)}"
    odd = next((str(task) for task, row in results.items() if not isinstance(row, dict)), None)
    if odd is not None:
        return f"no results of the harness: '{odd}' in 'results' is {_kind(results[odd])}"
    return None if results else "no results: 'results' is empty"


def _why_no_values(content: Mapping[str, Any]) -> str:
    if any(str(key).partition(",")[0] == "bypass" for row in content["results"].values() for key in row):
        return "no scores: the run was made with --predict_only"
    return "no scores: no task in 'results' has a metric"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0][:120]


def _object(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = content.get(key)
    return part if isinstance(part, dict) else {}


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _date(value: Any) -> float | None:
    found = number(value)
    if found is None and isinstance(value, str):
        return stamp_of(value)
    return found if found is not None and 0 < found < _YEAR_9999 else None


def _dialect(content: Mapping[str, Any]) -> str:
    has_filters = any("," in str(key) for row in content["results"].values() for key in row)
    says_counts = isinstance(content.get("n-samples"), dict)
    if says_counts:
        return CURRENT
    return EARLY_04 if has_filters else PRE_04


def _template(content: Mapping[str, Any], dialect: str) -> str | None:
    if given := content.get("chat_template_sha"):
        return str(given)
    if given := content.get("chat_template"):
        return hashlib.sha256(str(given).encode("utf-8", "surrogatepass")).hexdigest()
    told = "chat_template" in content or "chat_template_sha" in content
    return "" if told and dialect == CURRENT else None


def _run(content: Mapping[str, Any], config: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a whole run was made with, as far as values depend on it; what is not told is left out."""
    generation = config.get("gen_kwargs")
    limit = number(config.get("limit"))
    found = {
        "limit": limit if limit and math.isfinite(limit) else None,
        "gen_kwargs": _settings(generation or {}) if "gen_kwargs" in config else None,
        "system": _system(content),
        "dtype": _text(arguments.get("dtype")),
        "model_source": _text(content.get("model_source") or config.get("model")),
        "lm_eval_version": _text(content.get("lm_eval_version")),
    }
    return {key: value for key, value in found.items() if value is not None}


def _system(content: Mapping[str, Any]) -> str | None:
    given = content.get("system_instruction_sha") or content.get("system_instruction")
    return str(given) if given else "none" if "system_instruction" in content else None


def _settings(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _task(
    content: Mapping[str, Any], task: str, row: Mapping[str, Any], dialect: str, groups: Mapping[str, Any]
) -> dict[str, Any] | None:
    config = _object(_object(content, "configs"), task)
    metadata = config.get("metadata")
    section = metadata.get(SECTION) if isinstance(metadata, dict) else None
    section = section if isinstance(section, dict) else {}
    counts = _object(_object(content, "n-samples"), task)
    n, n_total = _count(counts.get("effective")), _count(counts.get("original"))
    versions, shots = _object(content, "versions"), _object(content, "n-shot")
    shot = next(
        (v for v in (shots.get(task), config.get("num_fewshot"), _shots_of_all(content)) if v is not None), None
    )
    extra = {
        "output_type": _text(config.get("output_type")),
        "by": "pack" if section else "harness",
        "data": _text(_object(section, "data").get("source")),
    }
    return {
        "task": task,
        "kind": GROUP if _is_group(content, task, row, groups) else LEAF,
        "n": n if n is not None else _count(row.get("sample_len")),
        "n_total": n_total,
        "n_shot": _count(shot),
        "version": _text(versions.get(task)),
        "prompt": _text(_object(content, "task_hashes").get(task)),
        "extra": {key: value for key, value in extra.items() if value},
        "values": _values(content, task, row, section),
        "alone": helpers_without_metric({metric for (metric, _), _ in _pairs(row)}),
    }


def _shots_of_all(content: Mapping[str, Any]) -> Any:
    return _object(content, "config").get("num_fewshot")


def _count(value: Any) -> int | None:
    found = number(value)
    return int(found) if found is not None and math.isfinite(found) and found >= 0 else None


def _is_group(content: Mapping[str, Any], task: str, row: Mapping[str, Any], groups: Mapping[str, Any]) -> bool:
    """Say whether a row is a group's; versions differ in how they show it."""
    if task in _object(content, "groups") or task in groups or isinstance(row.get("sample_count"), dict) or " " in row:
        return True
    configs, counts = _object(content, "configs"), _object(content, "n-samples")
    if not configs or task in configs or task in counts:
        return False
    version = _object(content, "versions").get(task)
    return version is None or isinstance(version, str)


def _values(content: Mapping[str, Any], task: str, row: Mapping[str, Any], section: Mapping[str, Any]) -> list[Any]:
    """Return [metric, filter, value, stderr, coverage, direction, signature, unusable, problem, part of, n] of each."""
    pairs = dict(_pairs(row))
    metrics = {metric for metric, _ in pairs}
    coverage = Coverage({key: number(value) for key, value in pairs.items()})
    signatures, breakdown = _object(section, "signatures"), _object(section, "breakdown")
    out = []
    for (metric, name), given in pairs.items():
        if metric.endswith(_STDERR) or is_helper(metric, metrics):
            continue
        value = number(given)
        problem = None if value is not None else f"the value is {_shown(given)}, which is no usable number"
        whole, n = part_of(metric, metrics, breakdown)
        given_error = pairs.get((f"{metric}{_STDERR}", name))
        stderr = number(given_error)
        if stderr is not None and not 0 <= stderr < math.inf:
            stderr = LOST_ERROR if math.isnan(stderr) else None
        out.append([
            metric, name, value, stderr,
            coverage.of(metric, name), _direction(content, task, metric), _text(signatures.get(metric)),
            _unusable(section, metric, name), problem, whole, n,
        ])  # fmt: skip
    return out


def _pairs(row: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    has_filters = any("," in str(key) for key in row)
    for key, value in row.items():
        metric, comma, name = str(key).partition(",")  # a filter's name may hold commas, a metric's does not
        metric = metric.strip()
        # Beside keys with a filter a bare one is no metric; elsewhere it is, unless it is a text or an object.
        bare = has_filters or metric in _NOT_VALUES or isinstance(value, dict | list | bool)
        bare = bare or (isinstance(value, str) and number(value) is None and not metric.endswith(_STDERR))
        if not metric or (not comma and bare):
            continue
        yield (metric, name if comma else "none"), value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {json.dumps(value[:40], ensure_ascii=False)}"
    if isinstance(value, bool):
        return str(value).lower()
    return "a number that is too large" if isinstance(value, int) else _kind(value)


def _direction(content: Mapping[str, Any], task: str, metric: str) -> bool | None:
    known = _object(_object(content, "higher_is_better"), task)
    if isinstance(known.get(metric), bool):
        return bool(known[metric])
    if metric in known:
        return None  # the children of a group disagree
    listed = _object(_object(content, "configs"), task).get("metric_list")
    for entry in listed if isinstance(listed, list) else ():
        if (
            isinstance(entry, dict)
            and entry.get("metric") == metric
            and isinstance(entry.get("higher_is_better"), bool)
        ):
            return bool(entry["higher_is_better"])
    if _DOWN.search(metric):
        return False
    return True if _UP.match(metric) else None


def _unusable(section: Mapping[str, Any], metric: str, name: str) -> str | None:
    """Return why the run itself says that a value is of no use; what is made from one that is not is not either."""
    reasons = section.get("unusable")
    for key, why in reasons.items() if isinstance(reasons, dict) else ():
        base, comma, filters = str(key).partition(",")
        if (metric == base or metric.startswith(f"{base}_")) and (not comma or filters == name):
            return str(why)
    return None
