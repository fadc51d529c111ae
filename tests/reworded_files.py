"""Small folders such as `rephrase` writes them, and studies such as `resilience` and `consistency` write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from result_files import results, write
from support import write_jsonl

STAMP = "2026-01-02T03-04-05.000006"
REFERENCE = "aspirin daily lowers risk"
# rouge1 against the four words of the reference, as F1 = 2 * common / (words + 4):
# all four 1; three of four 2*3/8 = 0.75; two words, both common 2*2/6 = 2/3; none 0.
FULL, THREE, TWO, NONE = REFERENCE, "aspirin daily lowers pain", "aspirin daily", "nothing at all here"


def row(
    number: int, answers: list[str | None], by: list[str] | None = None, rejected: Any = (), target: str = REFERENCE
) -> dict[str, Any]:
    """One row of a sample file with rewordings; the first answer is the original.

    Args:
        number: Of the document.
        answers: The versions.
        by: Who made each rewording.
        rejected: What was turned down for the first rewording.
        target: The reference.
    """
    told = by or ["hf:small-model"] * (len(answers) - 1)
    versions: list[dict[str, Any]] = [{"version": 0, "by": "original"}]
    for place, (text, name) in enumerate(zip(answers[1:], told, strict=True), 1):
        turned_down = list(rejected) if place == 1 else []
        versions.append(
            {"version": place, "by": name, "accepted": text is not None, "attempts": 1 + len(turned_down),
             "rejected": turned_down, "seed": place}
        )  # fmt: skip
    question = f"Question {number}?"
    return {
        "doc_id": number, "doc": {"question": question, "answer": target}, "target": target,
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": [], "do_sample": False}}},
        "resps": [answers], "filtered_resps": [answers], "filter": "none", "metrics": [],
        "doc_hash": f"{number:064x}", "prompt_hash": "0" * 64, "target_hash": "0" * 64, "rewordings": versions,
    }  # fmt: skip


def reworded(
    folder: Path, rows: list[dict[str, Any]], model: str = "org/one", task: str = "medtext", stamp: str = STAMP,
    by: str = "hf:small-model", source: str = "results_2026-01-01T00-00-00.000000.json",
) -> Path:  # fmt: skip
    """Write a run with rewordings and return its results file."""
    content = results(model, {task: {}}, n=len(rows))
    content["configs"][task] |= {"output_type": "generate_until", "metric_list": []}
    content["config"]["scored_from"] = source
    content["rephrased"] = {
        "from": source, "by": by, "n": 2, "settings": {}, "signature": f"rephrase|{by}",
        "counts": {"accepted": 0, "missing": 0, "asked": 0, "rejected_by_reason": {}},
    }  # fmt: skip
    place = folder / model.replace("/", "__")
    write_jsonl(place / f"samples_{task}_{stamp}.jsonl", rows)
    return write(place / f"results_{stamp}.json", json.dumps(content))


def resilience_study(**metrics: list[float | None]) -> dict[str, Any]:
    """A study of resilience with these scaled variances of questions; means and counts are computed from them."""
    return {
        "study": "resilience", "version": 1, "command": "x", "package": "1", "seed": 0,
        "metrics": {name: _metric(values) for name, values in metrics.items()},
        "runs": [{"model": "org/one", "task": "medtext", "flags": [{"flag": "missing_rewordings", "n": 3,
                  "text": "3 of 12 rewordings are missing"}], "metrics": {}}],
        "rewordings": {"accepted": 9, "missing": 3, "asked": 14, "rejected_by_reason": {"number_lost": 5}},
        "clusters": [], "left_out": [{"what": "org/two, olaph", "why": "no rewordings"}],
    }  # fmt: skip


def consistency_study(**metrics: list[float | None]) -> dict[str, Any]:
    """A study of self-consistency with these scaled variances; coefficients of variation are their square roots."""
    found = resilience_study(**metrics)
    found["study"] = "self-consistency"
    for name, values in metrics.items():
        one = found["metrics"][name]
        one |= {f"scaled_{key}": one[key] for key in ("variances", "mean_variance", "variance_of_variance")}
        one |= {"cvs": [None if x is None else x**0.5 for x in values], "mean_cv": 0.3, "repeats": 11, "mean": 0.4}
    noise = {"prediction": 0.01, "data": 0.03, "se": 0.05, "se_prediction": 0.03, "se_data": 0.04}
    found["runs"] = [
        {"model": model, "task": "medtext", "flags": [], "metrics": {name: {"noise": noise} for name in metrics}}
        for model in ("org/one", "org/two")
    ]
    found["pairs"] = [{"models": ["org/one", "org/two"], "task": "medtext", "metric": "rougeL", "difference": 0.0123,
                       "se": 0.0045, "prediction": 0.1, "data": 0.2, "n": 4}]  # fmt: skip
    return found


def _metric(values: list[float | None]) -> dict[str, Any]:
    there = [value for value in values if value is not None]
    mean = sum(there) / len(there) if there else None
    spread = None if mean is None else sum((value - mean) ** 2 for value in there) / len(there)
    return {
        "mean_variance": mean, "variance_of_variance": spread, "n_prompts": len(values), "versions": 7,
        "n_undefined": len(values) - len(there), "variances": values, "mean_change": -0.01, "flags": [], "cluster": 1,
    }  # fmt: skip
