"""Results and samples of a run as the harness writes them, for tests that judge them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import write_jsonl

STAMP = "2026-03-01T10-00-00.000000"
MODEL = "org-a__gen-7b"


def sample(number: int, answer: str, reference: str = "Reduce the dose.", **doc: Any) -> dict[str, Any]:
    question = f"Case {number}: what now?"
    return {
        "doc_id": number,
        "doc": {"Prompt": question, "Completion": reference, **doc},
        "target": reference,
        "arguments": {"gen_args_0": {"arg_0": f"A long prompt. {question}", "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["bleu"],
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target_hash": f"t{number}",
        "bleu": 0.25,
    }


def write_run(
    folder: Path, rows: dict[str, list[dict[str, Any]]], model: str = MODEL, kind: str = "generate_until"
) -> Path:
    place = folder / model
    place.mkdir(parents=True, exist_ok=True)
    config = {"output_type": kind, "doc_to_text": "Prompt", "doc_to_target": "Completion"}
    content = {
        "results": {task: {"alias": task, "bleu,none": 0.25} for task in rows},
        "configs": {task: {"task": task, **config, "metadata": {"version": 2.0}} for task in rows},
        "versions": dict.fromkeys(rows, 2.0),
        "n-shot": dict.fromkeys(rows, 0),
        "higher_is_better": {task: {"bleu": True} for task in rows},
        "n-samples": {task: {"original": 100, "effective": len(found)} for task, found in rows.items()},
        "config": {"model": "hf", "model_args": f"pretrained={model}"},
        "date": 1772359200.0,
        "model_name": model,
        "model_name_sanitized": model,
    }
    (place / f"results_{STAMP}.json").write_text(json.dumps(content), encoding="utf-8")
    for task, found in rows.items():
        write_jsonl(place / f"samples_{task}_{STAMP}.jsonl", found)
    return folder
