"""A real vLLM, on the CPU, against the transformers back end: the same tasks, the same numbers."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from support import SHARED, write_jsonl

pytestmark = pytest.mark.vllm

TASKS = ["careqa_en", "medmcqa", "mmlu_anatomy", "careqa_open"]


@pytest.fixture(scope="module")
def outputs(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of the same run on both back ends, in float32."""
    pytest.importorskip("vllm")
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager

    out = {}
    arguments = {
        "hf": ("hf", {"pretrained": str(demo_model), "dtype": "float32", "device": "cpu"}, 4),
        "vllm": (
            "vllm",
            {
                "pretrained": str(demo_model), "dtype": "float32", "max_model_len": 2048, "enforce_eager": True,
                "gpu_memory_utilization": 0.3,
            },
            "auto",
        ),
    }  # fmt: skip
    for name, (model, model_args, batch_size) in arguments.items():
        manager = task_manager(
            metadata={"data": "sample", "metrics": "ngram", "answers": "off"}, include_defaults=False
        )
        out[name] = simple_evaluate(
            model=model, model_args=model_args, batch_size=batch_size, tasks=list(TASKS), task_manager=manager, limit=8,
            gen_kwargs={"max_gen_toks": 24}, apply_chat_template=True,
        )  # fmt: skip
        gc.collect()
    return out


@pytest.mark.parametrize("task", [name for name in TASKS if name != "careqa_open"])
def test_log_likelihoods_and_accuracies_agree(outputs: dict[str, Any], task: str) -> None:
    pairs = zip(outputs["hf"]["samples"][task], outputs["vllm"]["samples"][task], strict=True)
    for a, b in pairs:
        assert a["prompt_hash"] == b["prompt_hash"]
        for (first, _), (second, _) in zip((r[0] for r in a["resps"]), (r[0] for r in b["resps"]), strict=True):
            # float32 on both sides; what is left is the order of additions in two attention implementations
            assert first == pytest.approx(second, abs=2e-3)
    assert outputs["hf"]["results"][task]["acc,none"] == outputs["vllm"]["results"][task]["acc,none"]


def test_generated_answers_and_scores_agree(outputs: dict[str, Any]) -> None:
    texts = {name: [s["filtered_resps"][0] for s in out["samples"]["careqa_open"]] for name, out in outputs.items()}
    same = sum(a == b for a, b in zip(texts["hf"], texts["vllm"], strict=True))
    assert same >= len(texts["hf"]) - 1, texts  # one near-tie may fall the other way
    if same == len(texts["hf"]):
        assert outputs["hf"]["results"]["careqa_open"] == outputs["vllm"]["results"]["careqa_open"]
    assert outputs["vllm"]["results"]["careqa_open"]["rouge1_coverage,none"] == 1.0
    assert all(texts["vllm"])


def test_the_command_on_vllm_with_a_local_folder(demo_model: Path, tmp_path: Path, cli: Any) -> None:
    """The hospital's way: local model, local rows, no network."""
    real = SHARED / "data" / "rows" / "careqa_en.jsonl"
    rows = tmp_path / "rows"
    if real.is_file():
        rows.mkdir()
        (rows / "careqa_en.jsonl").write_bytes(real.read_bytes())
    else:
        from lm_eval_healthcare.sample import rows_path

        write_jsonl(rows / "x.jsonl", [])
        (rows / "careqa_en.jsonl").write_bytes((rows_path() / "careqa_en" / "test.jsonl").read_bytes())
    done = cli(
        "run", "--model", "vllm", "--model_args",
        f"pretrained={demo_model},dtype=float32,max_model_len=2048,enforce_eager=True,gpu_memory_utilization=0.3",
        "--batch_size", "auto", "--tasks", "careqa_en", "--limit", "6", "--metadata", f"data={rows}",
        "--output_path", str(tmp_path / "out"), "--log_samples", timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "|careqa_en|" in done.stdout


# One request a question, against the harness's way on the same engine


@pytest.fixture(scope="module")
def engine(demo_model: Path) -> Any:
    """A vLLM model with its prefix cache on, loaded once."""
    pytest.importorskip("vllm")
    from lm_eval.models.vllm_causallms import VLLM

    return VLLM(
        pretrained=str(demo_model), dtype="float32", max_model_len=2048, enforce_eager=True,
        gpu_memory_utilization=0.3, enable_prefix_caching=True,
    )  # fmt: skip


@pytest.fixture
def requests_seen(engine: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the engine answers, request by request."""
    seen: list[Any] = []
    generate = engine.model.generate

    def recorded(*args: Any, **kwargs: Any) -> Any:
        outputs = generate(*args, **kwargs)
        seen.extend(outputs)
        return outputs

    monkeypatch.setattr(engine.model, "generate", recorded)
    engine.model.reset_prefix_cache()
    return seen


def run(engine: Any, task: Any, shots: int = 0, chat: bool = False) -> Any:
    """Six rows of a task through the harness's evaluator."""
    from lm_eval.evaluator import evaluate

    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(seed=1234)
    tasks = {"tasks": {task.config.task: task}}
    return evaluate(lm=engine, task_dict=tasks, limit=6, bootstrap_iters=100, apply_chat_template=chat)


def same(ours: Any, theirs: Any) -> None:
    """Every value is equal; log-likelihoods up to the order of additions in float32."""
    if isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=1e-4, nan_ok=True)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert isinstance(ours, list | tuple)
        assert len(ours) == len(theirs)
        for mine, yours in zip(ours, theirs, strict=True):
            same(mine, yours)
    else:
        assert ours == theirs


def user_task(folder: Path, name: str, **content: Any) -> Any:
    """A task of a user's own that includes one of the pack's."""
    import yaml

    from lm_eval_healthcare import task_manager, tasks_path

    content["include"] = str(tasks_path() / content["include"])
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **content}), encoding="utf-8")
    manager = task_manager(
        metadata={"data": "sample", "answers": "off"}, include_path=str(folder), include_defaults=False
    )
    return manager.load([name])["tasks"][name]


LETTERS_AND_TEXTS = "{{[op1, op2, op3, op4] if cop > 2 else ['A', 'B', 'C', 'D']}}"


@pytest.mark.parametrize(
    ("content", "shots", "requests"),
    [
        pytest.param({"include": "careqa/careqa_en.yaml"}, 0, 6, id="letters"),
        pytest.param({"include": "mmlu/mmlu_anatomy.yaml"}, 5, 6, id="few-shot", marks=pytest.mark.long),
        pytest.param(
            {"include": "careqa/careqa_en.yaml", "doc_to_choice": "{{[op1, op2, op3, op4]}}"}, 0, 24, id="texts"
        ),
        pytest.param(
            {"include": "careqa/careqa_en.yaml", "doc_to_choice": LETTERS_AND_TEXTS}, 0, None, id="letters and texts"
        ),
        pytest.param(
            {
                "include": "careqa/careqa_en.yaml",
                "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}, {"metric": "acc_mutual_info"}],
            },
            0, 7, id="mutual information", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_one_request_a_question_gives_the_harness_numbers(
    engine: Any, requests_seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    content: dict[str, Any], shots: int, requests: int | None,
) -> None:  # fmt: skip
    ours = run(engine, user_task(tmp_path, "asked", **content), shots)
    questions, cached = len(requests_seen), sum(output.num_cached_tokens or 0 for output in requests_seen)
    requests_seen.clear()
    monkeypatch.setattr("lm_eval_healthcare.harness.choices.REQUEST_TYPE", "loglikelihood")
    theirs = run(engine, user_task(tmp_path, "asked", **content), shots)
    same(ours["results"], theirs["results"])
    same(ours["samples"], theirs["samples"])
    assert questions == requests if requests else 6 < questions < len(requests_seen)
    assert not any(output.num_cached_tokens for output in requests_seen)
    if shots:
        assert cached > 0


def test_the_harness_own_task_gives_the_same_numbers(engine: Any, requests_seen: list[Any]) -> None:
    from side_by_side import both

    ours, theirs = both("medmcqa", "sample", answers="off")
    mine, yours = run(engine, ours), run(engine, theirs)
    assert len(requests_seen) == 6 + 4 * 6
    for key in ("acc,none", "acc_stderr,none"):
        same(mine["results"]["medmcqa"][key], yours["results"]["medmcqa"][key])
    for a, b in zip(mine["samples"]["medmcqa"], yours["samples"]["medmcqa"], strict=True):
        for key in ("arguments", "resps", "filtered_resps", "target", "prompt_hash", "target_hash"):
            same(a[key], b[key])


@pytest.mark.long
def test_a_chat_template_takes_two_requests_a_question(
    engine: Any, requests_seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template ends in a line break, which is the first token of every choice."""
    content = {"include": "mmlu/mmlu_anatomy.yaml"}
    ours = run(engine, user_task(tmp_path, "asked", **content), 2, chat=True)
    assert len(requests_seen) == 2 * 6
    assert any(output.num_cached_tokens for output in requests_seen)
    monkeypatch.setattr("lm_eval_healthcare.harness.choices.REQUEST_TYPE", "loglikelihood")
    theirs = run(engine, user_task(tmp_path, "asked", **content), 2, chat=True)
    assert len(requests_seen) == 2 * 6 + 4 * 6
    assert ours["samples"]["asked"][0]["arguments"][0][0].endswith("assistant\n")
    same(ours["results"], theirs["results"])
    same(ours["samples"], theirs["samples"])


def test_long_contexts_are_cut_as_the_harness_does(
    engine: Any, requests_seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.choices import choice_loglikelihood

    monkeypatch.setattr(engine, "_max_length", 64)
    contexts = [
        f"{'The patient has a fever. ' * 20}{end}" for end in ("Question one? Answer:", "Question two? Answer:")
    ]
    asked = [
        Instance("loglikelihood", {}, (context, f" {letter}"), idx, metadata=("long", doc_id, 1))
        for doc_id, context in enumerate(contexts)
        for idx, letter in enumerate("ABCD")
    ]
    ours = choice_loglikelihood(engine, asked)
    assert [len(output.prompt_token_ids) for output in requests_seen] == [62, 62]
    same(ours, engine.loglikelihood(asked))


def test_an_engine_that_refuses_is_asked_the_harness_way(
    engine: Any, requests_seen: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """More tokens than vLLM lets a request name: its own error, and no request of the failed call is left behind."""
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness import choices

    monkeypatch.setattr(choices, "TOKENS_A_REQUEST", 10_000)
    letters = dict.fromkeys(engine.tokenizer.convert_ids_to_tokens(range(1000, 3000)))
    words = [f" {letter[1:]}" for letter in letters if letter.startswith("Ġ") and letter[1:].isalpha()][:200]
    asked = [
        Instance("loglikelihood", {}, (context, word), idx, metadata=("many", doc_id, 1))
        for doc_id, (context, options) in enumerate([("A fine day for a", words[:3]), ("They ate", words)])
        for idx, word in enumerate(options)
    ]
    ours = choices.choice_loglikelihood(engine, asked)
    assert caplog.text.count("each choice is asked alone") == 1
    same(ours, engine.loglikelihood(asked))
