"""Two documents whose Relaxed Perplexity is worked out by hand, as matrices, sample logs and saved answers.

Document 0 has two prefixes of four tokens, a with P = 0.6, which one completion of four begins with, and b with
P = 0.2, which three begin with. P of its targets after nothing, after a and after b:

    must_have     A, 2 tokens, 10 bytes   1/2   1/4   1/8
    must_have     B, 4 tokens, 30 bytes   1/4   1/2   1/8
    nice_to_have  C                       too long, no scores

All completions of document 1 ended before four tokens. P of its targets after nothing:

    must_have     D, 3 tokens, 20 bytes   1/16
    nice_to_have  E, 1 token, 5 bytes     0
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Settings, Target
from lm_eval_healthcare.relaxed_perplexity.matrix_file import About, Document, rows_of, write
from support import write_jsonl

SETTINGS = Settings(samples=4, keep=2, length=4, stride=4, seed=7)
TASK, STAMP, MODEL = "olaph_relaxed_perplexity", "2026-11-30T10-15-00.000000", "org/model"
LOG = math.log


def logs(*probabilities: float) -> np.ndarray:
    """Logarithms of probabilities, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probabilities, dtype=np.float64))


def first() -> Matrix:
    """Document 0."""
    return Matrix(
        prefixes=(Prefix(0, 0, 0.0, 4), Prefix(4, 2, LOG(0.6), 1), Prefix(4, 0, LOG(0.2), 3)),
        targets=(
            Target(2, 10, logs(1 / 2, 1 / 4, 1 / 8), None, "must_have"),
            Target(4, 30, logs(1 / 4, 1 / 2, 1 / 8), None, "must_have"),
            Target(900, 4000, np.empty(0), "target_too_long", "nice_to_have"),
        ),
        lengths=(4, 4, 4, 4),
        log_p_samples=(LOG(0.2), LOG(0.2), LOG(0.6), LOG(0.2)),
        seed=11,
        question_tokens=20,
        context_cut=3,
        engine="generic",
        texts=("secret one", "secret one", "secret two", "secret one"),
    )


def second() -> Matrix:
    """Document 1."""
    return Matrix(
        prefixes=(Prefix(0, 0, 0.0, 4),),
        targets=(
            Target(3, 20, logs(1 / 16), None, "must_have"),
            Target(1, 5, logs(0), None, "nice_to_have"),
        ),
        lengths=(1, 2, 0, 3),
        log_p_samples=(-1.5, -math.inf, 0.0, -4.25),
        seed=12,
        question_tokens=1,
        engine="generic",
        prefix_token="<s>",
    )


def documents() -> list[Document]:
    """Both."""
    return [Document(0, first()), Document(1, second())]


def about(**changes: Any) -> About:
    """What holds for both."""
    known = {"task": TASK, "model": MODEL, "settings": SETTINGS, "date": "2026-11-30T10:15:00", "chat": False}
    return About(**{**known, **changes})


def write_matrices(folder: Path, **changes: Any) -> Path:
    """Write them as a run does beside its results."""
    named = about(**changes)
    return write(folder / f"relaxed_{named.task}_{STAMP}.parquet", rows_of(documents()), named)


def response(matrix: Matrix, settings: bool = True) -> str:
    """What the model's method answers: JSON as text."""
    told = {"settings": SETTINGS.as_dict()} if settings else {}
    return json.dumps({**matrix.as_response(), **told})


def write_samples(folder: Path, *, metadata: dict[str, Any] | None = None, texts: list[str] | None = None) -> Path:
    """Write a results file and a sample log as the harness does."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {TASK: {"alias": TASK}}, "configs": {TASK: {"metadata": metadata or {}}}, "model_name": MODEL,
        "lm_eval_version": "0.4.13", "chat_template": None,
    }  # fmt: skip
    (folder / f"results_{STAMP}.json").write_text(json.dumps(results))
    answers = texts or [response(document.matrix) for document in documents()]
    rows = [
        {"doc_id": n, "doc": {}, "resps": [[text]], "filtered_resps": [text], "filter": "none"}
        for n, text in enumerate(answers)
    ]
    return write_jsonl(folder / f"samples_{TASK}_{STAMP}.jsonl", rows)


def write_answers(folder: Path, ranks: int = 1) -> Path:
    """Write a folder of saved answers, a file for each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "format": "lm_eval_healthcare answers 1", "date": "2026-11-30T10:14:00", "lm_eval_version": "0.4.13",
        "arguments": {"model_args": {"pretrained": MODEL}}, "tasks": {TASK: {"metadata": {}, "chat": False}},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    for rank in range(ranks):
        rows = [
            {"doc_id": d.doc_id, "idx": 0, "request_type": "relaxed_perplexity", "doc": {}, "arguments": [],
             "resps": [response(d.matrix)]}
            for d in documents()[rank::ranks]
        ]  # fmt: skip
        write_jsonl(folder / f"{TASK}{f'.rank{rank}' if rank else ''}.jsonl", rows)
    return folder
