"""Runs with several answers to each question, as the harness and the pack write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support import write_jsonl

STAMP = "2026-04-01T10-00-00.000000"
SAMPLED = {"until": ["\n\n"], "do_sample": True, "temperature": 1.0, "top_p": 0.9}
GREEDY = {"until": ["\n\n"], "do_sample": False, "temperature": 0.0}


def row(
    number: int,
    answers: Sequence[Any],
    reference: Any = "halve the dose",
    *,
    first_only: bool = False,
    settings: Mapping[str, Any] | None = SAMPLED,
    **more: Any,
) -> dict[str, Any]:
    """One row; with `first_only` as a run with the harness's own `repeats` and no filter has it."""
    question = f"Case {number}: what now?"
    return {
        "doc_id": number,
        "doc": {"question": question, "answer": reference},
        "target": str(reference),
        "arguments": {"gen_args_0": {"arg_0": question, **({} if settings is None else {"arg_1": dict(settings)})}},
        "resps": [list(answers)],
        "filtered_resps": [answers[0]] if first_only else [list(answers)],
        "filter": "none",
        "metrics": [key for key in more if key != "doc_hash"],
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target_hash": f"t{number}",
        **more,
    }


def write(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    *,
    model: str = "org/one",
    task: str = "asked_again",
    repeats: Any = None,
    stamp: str = STAMP,
    signatures: Mapping[str, str] | None = None,
    gen_kwargs: Any = None,
    **top: Any,
) -> Path:
    """Write results and samples of one task; return the sample file."""
    place = folder / model.replace("/", "__")
    place.mkdir(parents=True, exist_ok=True)
    count = len(rows[0]["resps"][0]) if rows and repeats is None else repeats
    config = {
        "task": task,
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "answer",
        "repeats": count,
        "generation_kwargs": {"until": ["\n\n"]},
        "metadata": {"version": 1.0, **({"healthcare": {"signatures": dict(signatures)}} if signatures else {})},
    }
    content = {
        "results": {task: {"name": task, "alias": task, "sample_len": len(rows)}},
        "configs": {task: config},
        "n-samples": {task: {"original": len(rows), "effective": len(rows)}},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "gen_kwargs": gen_kwargs or {}},
        "date": 1_772_359_200.0,
        "model_name": model,
        "model_name_sanitized": model.replace("/", "__"),
        **top,
    }
    (place / f"results_{stamp}.json").write_text(json.dumps(content), encoding="utf-8")
    return write_jsonl(place / f"samples_{task}_{stamp}.jsonl", [dict(one) for one in rows])
