"""The evaluated model makes room for a judge, and the harness notices nothing."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness import evaluated_model
from lm_eval_healthcare.harness.evaluated_model import ModelReleased, make_room, release, running_model
from lm_eval_healthcare.harness.open_ended import GeneratedTextTask
from scripted import ScriptedModel, evaluate
from toy_llama import write_random_llama

ARGUMENTS = {"dtype": "float32", "device": "cpu"}


@pytest.fixture
def before_scoring(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Call something where a task judges: in `apply_filters`, after the last answer and before the first score."""
    apply = GeneratedTextTask.apply_filters

    def install(call: Callable[[], Any]) -> None:
        def applied(self: Any) -> None:
            call()
            apply(self)

        monkeypatch.setattr(GeneratedTextTask, "apply_filters", applied)

    return install


def run(model: Any, arguments: dict[str, Any] | None, **options: Any) -> Any:
    from lm_eval import simple_evaluate

    manager = task_manager(metadata={"data": "sample", "metrics": "ngram", "answers": "off"}, include_defaults=False)
    return simple_evaluate(
        model=model, model_args=arguments, batch_size=2, tasks=["careqa_open", "medtext"], task_manager=manager,
        limit=2, gen_kwargs={"max_gen_toks": 4}, bootstrap_iters=100, **options,
    )  # fmt: skip


def without_date(out: Any) -> Any:
    return {key: value for key, value in out.items() if key != "date"}


@pytest.mark.parametrize("cache", [False, True], ids=["plain", "use_cache"])
def test_results_are_the_same_without_the_model(
    cache: bool, tmp_path: Path, before_scoring: Callable[[Callable[[], Any]], None]
) -> None:
    pytest.importorskip("sqlitedict")
    folder = write_random_llama(tmp_path / "model", max_length=4096)
    arguments = {**ARGUMENTS, "pretrained": str(folder)}
    expected = run("hf", arguments)
    kept: list[Any] = []
    freed: list[bool] = []

    def judge() -> None:
        found = running_model()
        assert found is not None
        assert found.owned
        inner = found.lm.lm if cache else found.lm
        if not freed:
            kept.extend(weakref.ref(part) for part in (inner.model, *inner.model.parameters()))
            kept.append(inner)
        freed.append(make_room())

    before_scoring(judge)
    options = {"use_cache": str(tmp_path / "answers")} if cache else {}
    out = run("hf", arguments, **options)
    *weights, lm = kept
    gc.collect()
    assert freed == [True, False]  # the second task finds the room made
    assert len(weights) > 10
    assert [part() for part in weights] == [None] * len(weights)
    out["config"]["use_cache"] = expected["config"]["use_cache"]
    assert without_date(out) == without_date(expected)
    assert out["config"]["model_num_parameters"] > 1000
    assert (lm.rank, lm.world_size, lm.max_length) == (0, 1, 4096)
    assert not hasattr(lm.model, "generate")
    from accelerate import Accelerator

    lm.accelerator = Accelerator(cpu=True)  # as under several ranks, where it is asked for the model inside its wrapper
    assert lm.model.config.model_type == "llama"
    with pytest.raises(ModelReleased, match="cannot answer again: give simple_evaluate the model's name"):
        run(lm, None)


def test_what_the_user_made_stays(
    tmp_path: Path, before_scoring: Callable[[Callable[[], Any]], None], caplog: pytest.LogCaptureFixture
) -> None:
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM

    folder = write_random_llama(tmp_path / "model", max_length=4096)
    network = AutoModelForCausalLM.from_pretrained(folder)
    asked: list[Any] = []
    before_scoring(lambda: asked.append((running_model(), make_room())))
    lm = HFLM(pretrained=str(folder), **ARGUMENTS)
    with caplog.at_level(logging.WARNING, logger=evaluated_model.__name__):
        run(lm, None)
    assert [(found.owned, found.lm is lm, freed) for found, freed in asked] == [(False, True, False)] * 2
    assert "give simple_evaluate the model's name" in caplog.text
    asked.clear()
    run(
        "hf", {**ARGUMENTS, "pretrained": network, "tokenizer": str(folder)}
    )  # the harness's object, the user's network
    assert [(found.owned, freed) for found, freed in asked] == [(True, False)] * 2
    assert network.num_parameters() == lm.get_model_info()["model_num_parameters"]
    assert network.lm_head.weight.sum().isfinite()
    asked.clear()
    scripted = ScriptedModel(["An answer."])
    evaluate("careqa_open", scripted, limit=2)
    assert [(found.owned, found.lm is scripted, freed) for found, freed in asked] == [(False, True, False)]
    assert release(scripted) is False
    assert running_model() is None
    assert make_room() is False


def resident() -> float:
    """MiB of memory that this process has."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux")
def test_one_model_at_a_time(demo_model: Path, before_scoring: Callable[[Callable[[], Any]], None]) -> None:
    """Weights of 135 million numbers of 4 bytes, 513 MiB: gone before the judge's come, and the judge's after it."""
    from lm_eval_healthcare.judge.backends.base import Ask
    from lm_eval_healthcare.judge.backends.hf import HFBackend
    from lm_eval_healthcare.judge.prompt import Message, Prompt
    from lm_eval_healthcare.judge.settings import Sampling

    memory: dict[str, float] = {}
    texts: list[Any] = []

    def judge() -> None:
        if memory:
            return
        memory["evaluated"] = resident()
        assert make_room()
        memory["released"] = resident()
        with HFBackend(str(demo_model), device="cpu", dtype="float32") as backend:
            asks = [Ask(0, Prompt((Message("user", "Grade: [RESULT] 1 to 5?"),)), 1)]
            texts.extend(reply.text for reply in backend.replies(asks, Sampling(max_tokens=4)))
            memory["judging"] = resident()
        memory["judged"] = resident()

    before_scoring(judge)
    out = run("hf", {**ARGUMENTS, "pretrained": str(demo_model)}, apply_chat_template=True)
    assert out["results"]["careqa_open"]["rouge1_coverage,none"] == 1.0
    assert texts[0]
    assert memory["evaluated"] - memory["released"] > 450
    assert memory["judging"] - memory["released"] > 450
    assert memory["judging"] < memory["evaluated"] + 200
    assert memory["judging"] - memory["judged"] > 450
