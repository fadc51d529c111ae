"""The transformers engine and the generic one on fifty real questions with a real model, against one pass a branch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.harness.relaxed_codec import Codec
from lm_eval_healthcare.harness.relaxed_engines import engine_for
from lm_eval_healthcare.harness.relaxed_requests import plan_document
from lm_eval_healthcare.relaxed_perplexity import Settings, choose
from lm_eval_healthcare.relaxed_perplexity.engines.base import Job
from lm_eval_healthcare.sample import rows_path
from token_models import load, log_probability_float32

pytestmark = pytest.mark.long

SETTINGS = Settings(samples=4, keep=2, length=16, stride=8, seed=11)


@pytest.fixture(scope="module")
def model(demo_model: Path) -> Any:
    pytest.importorskip("torch")
    return load(demo_model, batch_size=4)


def questions() -> Iterator[tuple[str, list[list[str]]]]:
    """Prompts and targets of the packaged rows: an answer, its statements, one word, and a very long text."""

    def rows(name: str) -> list[dict[str, Any]]:
        found = []
        for path in sorted((rows_path() / name).glob("*.jsonl")):
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        return found

    for row in rows("careqa_open"):
        yield row["question"], [["answer", row["answer"]], ["word", row["answer"].split()[0]]]
    for row in rows("olaph"):
        yield row["Question"], [["must", text] for text in row["Must_have"]]
    for row in rows("careqa_es"):
        yield row["question"], [["option", str(row["op1"])], ["option", str(row["op2"])]]
    for row in rows("mts_dialog"):
        yield row["dialogue"], [["note", row["section_text"]]]
    for row in rows("medtext"):
        yield row["Prompt"], [["long", " ".join([row["Completion"]] * 8)[:1500]]]


def test_fifty_questions(model: Any) -> None:
    """Chat and plain prompts in turn; samples end early, prefixes end inside words, targets have 1 to 300 tokens."""
    codec, one_pass = Codec(model), log_probability_float32(model)
    engine = engine_for(model, codec, "transformers", None)
    generic = engine_for(model, codec, "generic", None)
    asked, lengths, early = 0, set(), 0
    off: dict[str, list[tuple[float, float]]] = {engine.name: [], generic.name: []}
    for place, (prompt, targets) in enumerate(questions()):
        if asked == 50:
            break
        if place % 2:
            prompt = model.apply_chat_template([{"role": "user", "content": prompt}])
        plan = plan_document(model, codec, prompt, targets, SETTINGS, " ")
        assert plan.question is not None
        (samples,) = engine.sample([plan.question], SETTINGS)
        job = Job(plan.question, samples, choose(samples, SETTINGS))
        ((found,), (other,)) = (each.score([job]) for each in (engine, generic))
        expected = np.array(
            [
                [one_pass([*plan.question.tokens, *job.prefix_tokens(p)], list(t)) for p in job.prefixes]
                for t in plan.question.targets
            ]
        )
        for name, values in ((engine.name, found), (generic.name, other)):
            off[name] += zip(np.abs(values - expected).flat, np.abs(expected).flat, strict=True)
        asked += 1
        lengths |= {len(target) for target in plan.question.targets}
        early += max(len(sample.tokens) for sample in samples) < SETTINGS.length
    assert asked == 50
    assert min(lengths) == 1
    assert max(lengths) >= 250
    assert early
    for name, found in off.items():
        print(f"{name}: {len(found)} branches, largest differences (of nats): {sorted(found, reverse=True)[:5]}")
    for name, found in off.items():
        # A target of 300 tokens lies at about 750 nats, where float32 itself does not know the seventh digit.
        assert all(difference <= 1e-4 + 1e-7 * size for difference, size in found), name
