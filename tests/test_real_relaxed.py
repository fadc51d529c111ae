"""A small real model and Relaxed Perplexity: through the harness, its commands, two ranks, and a kill."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.harness.relaxed_codec import Codec
from lm_eval_healthcare.harness.relaxed_engines import TRANSFORMERS, _scorer, engine_for
from lm_eval_healthcare.harness.relaxed_requests import plan_document
from lm_eval_healthcare.relaxed_perplexity import Matrix, Sample, Settings, choose
from lm_eval_healthcare.relaxed_perplexity.engines.base import Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.generic import GenericEngine
from lm_eval_healthcare.relaxed_perplexity.matrix_file import read
from lm_eval_healthcare.sample import rows_path
from support import TESTS, child_environment, results_of, samples_of, write_jsonl
from token_models import load, tiny_llama

pytestmark = pytest.mark.slow

OPEN = "careqa_open_relaxed_perplexity"
SMALL = {"relaxed_samples": 3, "relaxed_keep": 2, "relaxed_length": 16, "relaxed_stride": 8}
WINDOW = 512


@pytest.fixture(scope="module")
def model(demo_model: Path) -> Any:
    """The model, loaded once, with a window that a long prompt fills soon."""
    pytest.importorskip("torch")
    return load(demo_model, batch_size=4, max_length=WINDOW)


def sample_rows(name: str = "careqa_open", split: str = "test") -> list[dict[str, Any]]:
    lines = (rows_path() / name / f"{split}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def run(model: Any, data: Path | str = "sample", task: str = OPEN, **options: Any) -> Any:
    from lm_eval import simple_evaluate

    metadata = {"data": str(data), "answers": "off", **SMALL, **options.pop("metadata", {})}
    manager = task_manager(metadata=metadata, include_defaults=False)
    return simple_evaluate(model=model, tasks=[task], task_manager=manager, **options)


def responses(out: Any, task: str = OPEN) -> dict[str, dict[str, Any]]:
    """By question what the model gave."""
    return {sample["doc"]["question"]: json.loads(sample["resps"][0][0]) for sample in out["samples"][task]}


def one_pass(model: Any, before: Sequence[int], tokens: Sequence[int]) -> float:
    """log P of tokens after others, by one forward pass over all of them and the harness's log-softmax in float32."""
    import torch

    with torch.inference_mode():
        logits = model.model(torch.tensor([[*before, *tokens]])).logits[0, len(before) - 1 : -1]
        chosen = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(tokens)[:, None])
    return float(chosen.double().sum())


# Through the harness


@pytest.mark.parametrize("chat", [False, pytest.param(True, marks=pytest.mark.long)])
def test_numbers_of_a_run(model: Any, chat: bool) -> None:
    """At position 0 the target stands right after the prompt: one forward pass. The readings are put together here."""
    out = run(model, limit=3, apply_chat_template=chat)
    anys, sums = [], []
    for sample in out["samples"][OPEN]:
        prompt, ((_, answer),), _ = sample["arguments"][0]
        assert prompt.rstrip().endswith("<|im_start|>assistant") is chat
        before = model.tokenizer("a", add_special_tokens=False).input_ids
        target = model.tokenizer(f"a {answer}", add_special_tokens=False).input_ids[len(before) :]
        found = json.loads(sample["resps"][0][0])
        (scores,) = found["targets"]
        question = model.tokenizer(prompt, add_special_tokens=False).input_ids
        assert (found["question_tokens"], scores["tokens"]) == (len(question), len(target))
        assert scores["log_p"][0] == pytest.approx(one_pass(model, question, target), abs=1e-4)
        assert all(log_p < 0 for log_p in scores["log_p"])
        positions = np.array(found["position"])
        p = [sum(math.exp(x) for x in np.array(scores["log_p"])[positions == i]) for i in sorted(set(positions))]
        anys.append(-math.log(sum(p)))
        sums.append((-sum(map(math.log, p)), max(positions) + len(target)))
    scores = out["results"][OPEN]
    assert scores["relaxed_cross_entropy_any,none"] == pytest.approx(sum(anys) / 3)
    expected = sum(entropy for entropy, _ in sums) / sum(length for _, length in sums)
    assert scores["log_relaxed_perplexity,none"] == pytest.approx(expected)
    assert scores["relaxed_perplexity_coverage,none"] == 1.0
    section = out["configs"][OPEN]["metadata"]["healthcare"]
    assert section["relaxed_perplexity"]["engines"] == ["transformers"]
    assert f"chat:{'on' if chat else 'off'}" in section["signatures"]["relaxed_perplexity"]


@pytest.mark.long
def test_the_same_numbers_again(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed alone decides: not the run, nor what else is asked, in which order, and how much at once."""
    rows = sample_rows()[:4]
    write_jsonl(tmp_path / "forward" / "careqa_open.jsonl", rows)
    write_jsonl(tmp_path / "backward" / "careqa_open.jsonl", rows[::-1])
    first = responses(run(model, tmp_path / "forward"))
    assert responses(run(model, tmp_path / "forward")) == first
    monkeypatch.setattr(model, "batch_size_per_gpu", 1)
    others = responses(run(model, tmp_path / "backward", limit=3))
    assert len(others) == 3
    for question, response in others.items():
        assert response["texts"] == first[question]["texts"]
        for one, other in zip(response["targets"], first[question]["targets"], strict=True):
            assert one["log_p"] == pytest.approx(other["log_p"], abs=1e-4)
    seeded = responses(run(model, tmp_path / "forward", limit=1, metadata={"relaxed_seed": 5}))
    assert all(response["texts"] != first[question]["texts"] for question, response in seeded.items())


@pytest.mark.long
def test_most_questions_prefer_their_answer(model: Any, tmp_path: Path) -> None:
    """An answer against another question's of the same number of tokens, see bench/relaxed_sense.py."""
    rows, codec = sample_rows(), Codec(model)
    length = {row["answer"]: len(codec.after(f" {row['answer']}")) for row in rows}
    for row in rows:
        size = length[row["answer"]]
        longer = [other for other in length if other != row["answer"] and length[other] >= size]
        if longer:
            row["wrong"] = codec.decode(codec.after(f" {min(longer, key=length.__getitem__)}")[:size])
    rows = [row for row in rows if row.get("wrong")]
    write_jsonl(tmp_path / "rows" / "careqa_open.jsonl", rows)
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_path() / 'careqa' / 'careqa_open_relaxed_perplexity.yaml'}\ntask: mine\n"
        "healthcare_changes:\n  targets: {right: answer, wrong: wrong}\n"
    )
    from lm_eval import simple_evaluate

    options = {**SMALL, "relaxed_samples": 4, "relaxed_keep": 4}
    metadata = {"data": str(tmp_path / "rows"), "answers": "off", **options}
    manager = task_manager(str(tmp_path), metadata=metadata, include_defaults=False)
    out = simple_evaluate(model=model, tasks=["mine"], task_manager=manager, apply_chat_template=True)
    assert len(out["samples"]["mine"]) == len(rows) >= 8
    for reading in ("relaxed_cross_entropy_any", "relaxed_cross_entropy_mean"):
        preferred = [sample[f"{reading}_right"] < sample[f"{reading}_wrong"] for sample in out["samples"]["mine"]]
        assert sum(preferred) > len(rows) / 2, (reading, preferred)


# Engines


def asked(model: Any, codec: Codec, settings: Settings) -> list[Question]:
    """Questions of every kind: English with targets of 1 and of 300 tokens, Spanish, and a prompt that is cut."""
    english, spanish, notes = sample_rows()[0], sample_rows("careqa_es")[0], sample_rows("aci_bench", "test1")
    long = " ".join(row["note"] for row in notes)
    documents = [
        (f"Question: {english['question']}\nAnswer:", [english["answer"], "Yes"]),
        (f"Pregunta: {spanish['question']}\nRespuesta:", [spanish["op1"], spanish["op2"]]),
        (f"{long}\nQuestion: {english['question']}\nAnswer:", [english["answer"]]),
    ]
    plans = [plan_document(model, codec, p, [["", t] for t in ts], settings, " ") for p, ts in documents]
    assert [plan.cut > 0 for plan in plans] == [False, False, True]
    first, second, third = [plan.question for plan in plans if plan.question is not None]
    # All of the window is used: a target's last token is predicted, and never read.
    assert len(third.tokens) + settings.length + len(third.targets[0]) - 1 == WINDOW
    first = replace(first, targets=(*first.targets, tuple(codec.after(f" {long}")[:300])))
    assert [len(target) for target in first.targets][1:] == [1, 300]
    return [first, second, third]


@pytest.mark.long
def test_engines_agree_on_the_same_samples(model: Any) -> None:
    """The harness asks them in different ways; one sample stops early, another has positions inside a word."""
    codec, settings = Codec(model), Settings(samples=2, keep=2, length=10, stride=5, seed=5)
    questions = asked(model, codec, settings)
    fast: Any = engine_for(model, codec, TRANSFORMERS, None)
    sampled = fast.sample(questions, settings)
    sampled[0][0] = Sample(sampled[0][0].tokens[:7], sampled[0][0].log_p[:8])
    slow = GenericEngine(lambda *_: [[s.tokens for s in samples] for samples in sampled], _scorer(model, codec))
    for mine, theirs in zip(sampled, slow.sample(questions, settings), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            known = ~np.isnan(other.log_p)
            assert set(range(0, len(one.tokens), 5)) <= set(np.flatnonzero(known))
            np.testing.assert_allclose(one.log_p[known], other.log_p[known], atol=1e-4)
    word = codec.after(" La electroencefalografía y la otorrinolaringología.")[:10]
    assert all(codec.decode(word[:place])[-1:].isalpha() and codec.decode(word)[place:] for place in (5, 10))
    sampled[1][1] = Sample(tuple(word), np.linspace(0, -1, 11))  # its likelihood only ranks it
    jobs = [Job(q, samples, choose(samples, settings)) for q, samples in zip(questions, sampled, strict=True)]
    for job, one, other in zip(jobs, fast.score(jobs), slow.score(jobs), strict=True):
        # float32 knows a sum of hundreds of nats to about its seventh digit
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-7)
        last = job.prefixes[-1]
        before = [*job.question.tokens, *job.prefix_tokens(last)]
        assert one[0, -1] == pytest.approx(one_pass(model, before, job.question.targets[0]), abs=1e-4)
    assert set(fast.ways.values()) == {"mixed"}


# Commands


@pytest.mark.long
def test_the_plain_command_and_its_files(demo_model: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    """The harness's own command, told where the tasks are; `relaxed` reads the same numbers from the file beside."""
    command = [
        sys.executable, "-m", "lm_eval", "run", "--include_path", str(tasks_path()), "--model", "hf",
        "--model_args", f"pretrained={demo_model},dtype=float32", "--device", "cpu", "--batch_size", "1",
        "--tasks", "olaph_relaxed_perplexity", "--limit", "2", "--output_path", str(tmp_path), "--log_samples",
        "--apply_chat_template", "--metadata", json.dumps({"data": "sample", "answers": "off", **SMALL}),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    task = "olaph_relaxed_perplexity"
    results = results_of(tmp_path)["results"][task]
    (path,) = tmp_path.rglob("*.parquet")
    assert path.parent == next(tmp_path.rglob("results_*.json")).parent
    samples = samples_of(tmp_path, task)
    logged = [Matrix.from_response(json.loads(sample["resps"][0][0])) for sample in samples]
    stored = list(read(path))
    assert [row.doc_id for row in stored] == [number for number, m in enumerate(logged) for _ in m.targets]
    kept = [target.log_p.tolist() for matrix in logged for target in matrix.targets]
    assert [row.matrix.targets[0].log_p.tolist() for row in stored] == kept
    assert not any(text.encode() in path.read_bytes() for matrix in logged for text in matrix.texts if len(text) > 20)
    done = cli("relaxed", str(path), "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["list"] for row in rows] == ["answer", "must_have", "nice_to_have"]
    for row in rows:
        assert row["n_eff"] == 16
        for reading, found in row["readings"].items():
            name = reading if row["list"] == "answer" else f"{reading}_{row['list']}"
            assert found["value"] == pytest.approx(results[f"{name},none"], rel=1e-12), name
    assert len(rows[0]["readings"]) == 7


@pytest.mark.long
def test_killed_and_continued(demo_model: Path, model: Any, tmp_path: Path) -> None:
    """Killed when two documents are there; the second run computes the others only, and gives a whole run's numbers."""
    limit, cache = 6, tmp_path / "cache"
    command = [
        sys.executable, "-m", "lm_eval_healthcare.cli.main", "run", "--model", "hf", "--model_args",
        f"pretrained={demo_model},dtype=float32,max_length={WINDOW}", "--device", "cpu", "--batch_size", "1",
        "--tasks", OPEN, "--limit", str(limit), "--use_cache", str(cache), "--output_path", str(tmp_path / "out"),
        "--log_samples", "--metadata", json.dumps({"data": "sample", "answers": "off", **SMALL}),
    ]  # fmt: skip
    first = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=child_environment(), start_new_session=True
    )
    try:
        start = time.monotonic()
        while kept(tmp_path) < 2 and first.poll() is None and time.monotonic() - start < 300:
            time.sleep(0.1)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    there = kept(tmp_path)
    assert 2 <= there < limit
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{there} of {limit} documents" in done.stderr
    assert re.search(
        rf"Relaxed Perplexity \(transformers engine\): 100%.* {limit - there}/{limit - there} ", done.stderr
    )
    whole = responses(run(model, limit=limit))
    continued = samples_of(tmp_path / "out", OPEN)
    assert len(continued) == limit
    for sample in continued:
        found, expected = json.loads(sample["resps"][0][0]), whole[sample["doc"]["question"]]
        assert found["texts"] == expected["texts"]
        assert found["targets"][0]["log_p"] == pytest.approx(expected["targets"][0]["log_p"], abs=1e-4)


def kept(folder: Path) -> int:
    """Documents in the harness's cache so far."""
    found = 0
    for path in folder.glob("cache*.db"):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1) as connection:
                found += connection.execute("SELECT COUNT(*) FROM unnamed").fetchone()[0]
        except sqlite3.OperationalError:
            pass  # not made yet, or being written
    return found


# Ranks


def parts(value: Any) -> Iterator[Any]:
    """Everything in a nested value, keys included, in order."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield key
            yield from parts(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from parts(item)
    else:
        yield value


def numbers(value: Any) -> list[float]:
    return [part for part in parts(value) if isinstance(part, float)]


def words(value: Any) -> list[Any]:
    return [part for part in parts(value) if not isinstance(part, float)]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["transformers", "generic"])
def test_two_ranks_give_what_one_gives(tmp_path: Path, engine: str) -> None:
    """Three documents over two processes (gloo), so that one rank has more than the other."""
    pytest.importorskip("accelerate")
    folder = tiny_llama(tmp_path / "llama", adds_bos=True, max_length=192)
    for ranks in (1, 2):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
        done = subprocess.run(
            [sys.executable, *launch, str(TESTS / "two_ranks_relaxed.py"), str(folder), str(tmp_path), engine],
            capture_output=True, text=True, env=child_environment(), timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (json.loads((tmp_path / f"{engine}_{ranks}" / "kept.json").read_text()) for ranks in (1, 2))
    (name,) = one["results"]
    assert set(one["results"][name]) == set(two["results"][name])
    for key, value in one["results"][name].items():
        if isinstance(value, float):
            assert two["results"][name][key] == pytest.approx(value, rel=1e-4, nan_ok=True), key
    assert numbers(two["section"]) == pytest.approx(numbers(one["section"]), rel=1e-4, nan_ok=True)
    assert words(two["section"]) == words(one["section"])
    assert one["section"]["relaxed_perplexity"]["engines"] == [engine]
    files = [next((tmp_path / f"{engine}_{ranks}").rglob("*.parquet")) for ranks in (1, 2)]
    single, double = ([(row.doc_id, row.group, row.target, row.matrix) for row in read(path)] for path in files)
    assert [row[:3] for row in double] == [row[:3] for row in single]
    assert {row[0] for row in single} == {0, 1, 2}
    for mine, theirs in zip(single, double, strict=True):
        assert mine[3].lengths == theirs[3].lengths
        assert mine[3].targets[0].log_p.tolist() == pytest.approx(theirs[3].targets[0].log_p.tolist(), rel=1e-4)
