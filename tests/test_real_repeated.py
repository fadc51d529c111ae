"""Several answers to a question, by a small real model through the harness's transformers back end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from support import TESTS, child_environment, write_jsonl
from token_models import tiny_llama

pytestmark = pytest.mark.slow

TASK = "careqa_open_consistency"
QUESTIONS = ["Which vitamin prevents scurvy?", "Name a sign of anaemia.", "What lowers a fever?"]


@pytest.fixture(scope="module")
def model(demo_model: Path) -> Any:
    pytest.importorskip("torch")
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(demo_model), dtype="float32", device="cpu", batch_size=2)


def answers(model: Any, folder: Path, questions: list[str], seed: int = 0) -> dict[str, list[str]]:
    from lm_eval import simple_evaluate

    write_jsonl(folder / "careqa_open.jsonl", [{"question": text, "answer": "rest"} for text in questions])
    options = {"data": str(folder), "metrics": "ngram", "answers": "off", "repeats": 3, "repeats_seed": seed,
               "repeats_cache": "off"}  # fmt: skip
    out = simple_evaluate(
        model=model, tasks=[TASK], task_manager=task_manager(metadata=options, include_defaults=False),
        gen_kwargs={"max_gen_toks": 12}, apply_chat_template=True, bootstrap_iters=0,
    )  # fmt: skip
    return {row["doc"]["question"]: row["resps"][0] for row in out["samples"][TASK]}


def test_answers_differ_and_depend_on_seed_and_question_alone(model: Any, tmp_path: Path) -> None:
    found = answers(model, tmp_path / "a", QUESTIONS)
    assert all(len(set(texts)) == 3 for texts in found.values())
    assert answers(model, tmp_path / "b", QUESTIONS[::-1]) == found
    alone = answers(model, tmp_path / "c", QUESTIONS[2:])
    assert alone[QUESTIONS[2]] == found[QUESTIONS[2]]
    other = answers(model, tmp_path / "d", QUESTIONS[2:], seed=1)
    assert not set(other[QUESTIONS[2]]) & set(found[QUESTIONS[2]])


@pytest.mark.long
def test_two_ranks_give_what_one_gives(tmp_path: Path) -> None:
    """Three questions on two ranks: one of them is padded with a question that it has answered already."""
    pytest.importorskip("accelerate")
    folder = tiny_llama(tmp_path / "llama", adds_bos=False)
    rows = [{"question": text, "answer": "rest"} for text in ("fever", "chest pain", "acute rash")]
    write_jsonl(tmp_path / "rows" / "careqa_open.jsonl", rows)
    found = []
    for launch in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]):
        done = subprocess.run(
            [sys.executable, *launch, str(TESTS / "two_ranks_repeated.py"), str(folder), str(tmp_path)],
            env={**child_environment(), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads((tmp_path / "kept.json").read_text("utf-8")))
        os.unlink(tmp_path / "kept.json")
    assert found[0] == found[1]
    assert [len(row[0][0]) for row in found[0]["rows"]] == [3, 3, 3]
    assert found[0]["repeated"]["questions"] == 3
